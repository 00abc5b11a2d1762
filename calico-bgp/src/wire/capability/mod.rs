//! Capabilities (RFC 5492).
//!
//! A capability of unknown code, or of known code but impossible length, is kept as [`Capability::Other`]: capabilities are
//! offers, and an offer one does not understand is declined, not punished.

mod add_path;
mod graceful_restart;
mod identity;
mod role;

pub use add_path::{AddPath, AddPathMode};
pub use graceful_restart::{
    GracefulRestart, GracefulRestartFamily, LongLivedGracefulRestart, LongLivedGracefulRestartFamily,
};
pub use identity::{Fqdn, SoftwareVersion};

use calico_core::bgp::Role;
use calico_core::net::AsNumber;

use super::AddressFamily;
use super::reader::Reader;

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// Multiprotocol extensions for a family (RFC 4760).
    Multiprotocol(AddressFamily),
    /// Route refresh (RFC 2918).
    RouteRefresh,
    /// Next hops of another address family (RFC 8950).
    ExtendedNextHop(Vec<ExtendedNextHop>),
    /// Messages of up to 65 535 octets (RFC 8654).
    ExtendedMessage,
    /// The speaker's role towards its peer (RFC 9234).
    Role(Role),
    /// Graceful restart (RFC 4724).
    GracefulRestart(GracefulRestart),
    /// Four-octet AS number (RFC 6793).
    FourOctetAs(AsNumber),
    /// Several paths to one prefix (RFC 7911).
    AddPath(Vec<AddPath>),
    /// Markers around the answer to a route refresh (RFC 7313).
    EnhancedRouteRefresh,
    /// Long-lived graceful restart (RFC 9494).
    LongLivedGracefulRestart(LongLivedGracefulRestart),
    /// The speaker's name.
    Fqdn(Fqdn),
    /// The speaker's software.
    SoftwareVersion(SoftwareVersion),
    /// Anything else, as received.
    Other {
        /// Its code.
        code: u8,
        /// Its value.
        value: Vec<u8>,
    },
}

/// One row of [`Capability::ExtendedNextHop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 8950 section 4")]
pub struct ExtendedNextHop {
    /// Prefixes of this family …
    pub family: AddressFamily,
    /// … may have next hops of this address family identifier.
    pub next_hop_afi: u16,
}

mod code {
    pub(super) const MULTIPROTOCOL: u8 = 1;
    pub(super) const ROUTE_REFRESH: u8 = 2;
    pub(super) const EXTENDED_NEXT_HOP: u8 = 5;
    pub(super) const EXTENDED_MESSAGE: u8 = 6;
    pub(super) const ROLE: u8 = 9;
    pub(super) const GRACEFUL_RESTART: u8 = 64;
    pub(super) const FOUR_OCTET_AS: u8 = 65;
    pub(super) const ADD_PATH: u8 = 69;
    pub(super) const ENHANCED_ROUTE_REFRESH: u8 = 70;
    pub(super) const LONG_LIVED_GRACEFUL_RESTART: u8 = 71;
    pub(super) const FQDN: u8 = 73;
    pub(super) const SOFTWARE_VERSION: u8 = 75;
}

impl Capability {
    /// Reads one capability of `code`.
    pub fn decode(code: u8, value: &[u8]) -> Self {
        let known = match code {
            code::MULTIPROTOCOL => decode_multiprotocol(value),
            code::ROUTE_REFRESH => value.is_empty().then_some(Self::RouteRefresh),
            code::EXTENDED_NEXT_HOP => decode_extended_next_hop(value).map(Self::ExtendedNextHop),
            code::EXTENDED_MESSAGE => value.is_empty().then_some(Self::ExtendedMessage),
            code::ROLE => role::decode(value).map(Self::Role),
            code::GRACEFUL_RESTART => GracefulRestart::decode(value).map(Self::GracefulRestart),
            code::FOUR_OCTET_AS => decode_as(value),
            code::ADD_PATH => AddPath::decode_all(value).map(Self::AddPath),
            code::ENHANCED_ROUTE_REFRESH => value.is_empty().then_some(Self::EnhancedRouteRefresh),
            code::LONG_LIVED_GRACEFUL_RESTART => {
                LongLivedGracefulRestart::decode(value).map(Self::LongLivedGracefulRestart)
            }
            code::FQDN => Fqdn::decode(value).map(Self::Fqdn),
            code::SOFTWARE_VERSION => SoftwareVersion::decode(value).map(Self::SoftwareVersion),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Other { code, value: value.to_vec() })
    }

    /// Code, length and value. A value of more than 255 bytes cannot be expressed and is left out whole.
    pub fn encode(&self) -> Vec<u8> {
        let (code, value) = match self {
            Self::Multiprotocol(family) => {
                let [high, low] = family.afi.to_be_bytes();
                (code::MULTIPROTOCOL, vec![high, low, 0, family.safi])
            }
            Self::RouteRefresh => (code::ROUTE_REFRESH, Vec::new()),
            Self::ExtendedNextHop(rows) => (code::EXTENDED_NEXT_HOP, encode_extended_next_hop(rows)),
            Self::ExtendedMessage => (code::EXTENDED_MESSAGE, Vec::new()),
            Self::Role(role) => (code::ROLE, vec![role::encode(*role)]),
            Self::GracefulRestart(restart) => (code::GRACEFUL_RESTART, restart.encode()),
            Self::FourOctetAs(number) => (code::FOUR_OCTET_AS, number.value().to_be_bytes().to_vec()),
            Self::AddPath(rows) => (code::ADD_PATH, AddPath::encode_all(rows)),
            Self::EnhancedRouteRefresh => (code::ENHANCED_ROUTE_REFRESH, Vec::new()),
            Self::LongLivedGracefulRestart(restart) => (code::LONG_LIVED_GRACEFUL_RESTART, restart.encode()),
            Self::Fqdn(fqdn) => (code::FQDN, fqdn.encode()),
            Self::SoftwareVersion(version) => (code::SOFTWARE_VERSION, version.encode()),
            Self::Other { code, value } => (*code, value.clone()),
        };
        let Ok(length) = u8::try_from(value.len()) else {
            return Vec::new();
        };
        let mut encoded = vec![code, length];
        encoded.extend_from_slice(&value);
        encoded
    }
}

fn decode_multiprotocol(value: &[u8]) -> Option<Capability> {
    let mut reader = Reader::new(value);
    let afi = reader.u16()?;
    let _reserved = reader.u8()?;
    let safi = reader.u8()?;
    reader.is_empty().then_some(Capability::Multiprotocol(AddressFamily { afi, safi }))
}

/// The SAFI has two octets here, of which the first is zero.
fn decode_extended_next_hop(value: &[u8]) -> Option<Vec<ExtendedNextHop>> {
    let mut reader = Reader::new(value);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let (afi, safi, next_hop_afi) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let family = AddressFamily { afi, safi: u8::try_from(safi).ok()? };
        rows.push(ExtendedNextHop { family, next_hop_afi });
    }
    Some(rows)
}

fn encode_extended_next_hop(rows: &[ExtendedNextHop]) -> Vec<u8> {
    let pieces = rows.iter().flat_map(|row| [row.family.afi, row.family.safi.into(), row.next_hop_afi]);
    pieces.flat_map(u16::to_be_bytes).collect()
}

fn decode_as(value: &[u8]) -> Option<Capability> {
    let mut reader = Reader::new(value);
    let number = reader.u32()?;
    reader.is_empty().then_some(Capability::FourOctetAs(AsNumber::new(number)))
}
