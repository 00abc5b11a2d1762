//! Network value types: parsed once at the edge, correct ever after.

/// JSON of a type is its text: `Display` out, `FromStr` in.
macro_rules! json_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <alloc::string::String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use json_as_text;

mod asn;
mod cidr;
mod dscp;
mod failsafe;
mod interface;
mod interface_list;
mod mac;
mod port;
mod protocol;

pub use asn::AsNumber;
pub use cidr::{Cidr, CidrError, Family};
pub use dscp::{Dscp, DscpError};
pub(crate) use failsafe::{DISCOVERY, WORKLOAD_DISCOVERY};
pub use failsafe::{FailsafeError, FailsafePort, Failsafes};
pub use interface::{InterfaceName, InterfaceNameError};
pub use interface_list::{InterfaceList, InterfaceListError};
pub use mac::{Mac, MacError};
pub use port::{Port, PortError, PortRange};
pub use protocol::{Protocol, ProtocolError};
