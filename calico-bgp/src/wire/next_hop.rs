//! Next hops (RFC 4271 section 5.1.3, 2545 section 3, 8950 section 4).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an announced prefix leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the forms of RFC 2545 and 8950; every match must say what it does for each"
)]
pub enum NextHop {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// One IPv6 address; peers on links without global addresses give a link-local one.
    V6(Ipv6Addr),
    /// A global address and one that holds on the link which both speakers share. Peers without a global address repeat the
    /// link-local one or leave it unspecified.
    V6LinkLocal {
        /// The global address.
        global: Ipv6Addr,
        /// The address on the link.
        link_local: Ipv6Addr,
    },
}

impl NextHop {
    /// The global address, or the only one.
    pub const fn address(self) -> IpAddr {
        match self {
            Self::V4(address) => IpAddr::V4(address),
            Self::V6(address) | Self::V6LinkLocal { global: address, .. } => IpAddr::V6(address),
        }
    }

    /// The address on the shared link, if one is given in whichever form.
    pub const fn link_local(self) -> Option<Ipv6Addr> {
        match self {
            Self::V6LinkLocal { link_local, .. } => Some(link_local),
            Self::V6(address) if address.is_unicast_link_local() => Some(address),
            Self::V4(_) | Self::V6(_) => None,
        }
    }

    /// Reads the next hop of an MP_REACH_NLRI: its length says what it is.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
            return Some(Self::V4(octets.into()));
        }
        let (first, rest) = bytes.split_first_chunk::<16>()?;
        let global = Ipv6Addr::from(*first);
        if rest.is_empty() {
            return Some(Self::V6(global));
        }
        let link_local = Ipv6Addr::from(<[u8; 16]>::try_from(rest).ok()?);
        Some(Self::V6LinkLocal { global, link_local })
    }

    /// Length and octets, as an MP_REACH_NLRI has them.
    pub(super) fn encode(self, into: &mut Vec<u8>) {
        match self {
            Self::V4(address) => {
                into.push(4);
                into.extend_from_slice(&address.octets());
            }
            Self::V6(address) => {
                into.push(16);
                into.extend_from_slice(&address.octets());
            }
            Self::V6LinkLocal { global, link_local } => {
                into.push(32);
                into.extend_from_slice(&global.octets());
                into.extend_from_slice(&link_local.octets());
            }
        }
    }
}

impl From<Ipv4Addr> for NextHop {
    fn from(address: Ipv4Addr) -> Self {
        Self::V4(address)
    }
}

impl From<Ipv6Addr> for NextHop {
    fn from(address: Ipv6Addr) -> Self {
        Self::V6(address)
    }
}

impl From<IpAddr> for NextHop {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6(address),
        }
    }
}

impl core::fmt::Display for NextHop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => address.fmt(f),
            Self::V6LinkLocal { global, link_local } => write!(f, "{global} ({link_local})"),
        }
    }
}
