//! Families of routes that BGP carries here.

use crate::net::Family;

/// A set of the two families that BGP carries here: IPv4 and IPv6 unicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Families(u8);

impl Families {
    /// Neither.
    pub const NONE: Self = Self(0);
    /// IPv4 unicast.
    pub const IPV4: Self = Self(1);
    /// IPv6 unicast.
    pub const IPV6: Self = Self(2);
    /// Both.
    pub const BOTH: Self = Self(3);

    /// Just this one.
    pub const fn only(family: Family) -> Self {
        match family {
            Family::V4 => Self::IPV4,
            Family::V6 => Self::IPV6,
        }
    }

    /// Whether `family` is in it.
    pub const fn contains(self, family: Family) -> bool {
        self.0 & Self::only(family).0 != 0
    }

    /// What is in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether neither is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in it, IPv4 first.
    pub fn iter(self) -> impl Iterator<Item = Family> {
        [Family::V4, Family::V6].into_iter().filter(move |family| self.contains(*family))
    }
}

impl FromIterator<Family> for Families {
    fn from_iter<I: IntoIterator<Item = Family>>(families: I) -> Self {
        families.into_iter().fold(Self::NONE, |all, family| all.union(Self::only(family)))
    }
}
