//! Network value types: parsed once at the edge, correct ever after.

mod asn;
mod cidr;
mod interface;
mod mac;
mod port;
mod protocol;

pub use asn::AsNumber;
pub use cidr::{Cidr, CidrError, Family};
pub use interface::{InterfaceName, InterfaceNameError};
pub use mac::{Mac, MacError};
pub use port::{Port, PortError, PortRange};
pub use protocol::{Protocol, ProtocolError};
