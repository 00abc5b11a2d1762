//! Address families on the wire (RFC 4760).

use calico_core::net::Family;

/// AFI and SAFI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "two registered numbers, nothing else")]
pub struct AddressFamily {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
}

impl AddressFamily {
    /// IPv4 unicast.
    pub const IPV4_UNICAST: Self = Self { afi: 1, safi: 1 };
    /// IPv6 unicast.
    pub const IPV6_UNICAST: Self = Self { afi: 2, safi: 1 };

    /// Unicast routes of a family.
    pub const fn unicast(family: Family) -> Self {
        match family {
            Family::V4 => Self::IPV4_UNICAST,
            Family::V6 => Self::IPV6_UNICAST,
        }
    }

    /// The family whose unicast routes this is; `None` for those that this speaker does not know.
    pub const fn known(self) -> Option<Family> {
        match self {
            Self::IPV4_UNICAST => Some(Family::V4),
            Self::IPV6_UNICAST => Some(Family::V6),
            _ => None,
        }
    }

    /// AFI and SAFI, as the routes' attributes have them.
    pub(crate) const fn octets(self) -> [u8; 3] {
        let [high, low] = self.afi.to_be_bytes();
        [high, low, self.safi]
    }
}

impl core::fmt::Display for AddressFamily {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::IPV4_UNICAST => f.write_str("IPv4 unicast"),
            Self::IPV6_UNICAST => f.write_str("IPv6 unicast"),
            Self { afi, safi } => write!(f, "AFI {afi} SAFI {safi}"),
        }
    }
}
