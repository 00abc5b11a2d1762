//! Named sets and verdict maps.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use super::{SetName, Verdict};
use crate::net::{Cidr, Family, InterfaceName};

/// Type of one part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FieldType {
    /// Interface name (`ifname`).
    Interface,
    /// Address of a family (`ipv4_addr`, `ipv6_addr`).
    Addr(Family),
    /// Protocol (`inet_proto`).
    Proto,
    /// Port (`inet_service`).
    Port,
}

/// What a set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SetKind {
    /// Exact members: a hash table.
    Hash,
    /// Prefixes, none overlapping another; the key is one address. Costs 170–490 ns a look-up against 75–100 ns, so it is used
    /// only where real prefixes are members.
    Interval,
    /// Exact keys, each with a verdict.
    VerdictMap,
}

/// Declaration of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct SetDecl {
    /// Name, unique in our table.
    pub name: SetName,
    /// Parts of the key, in order; concatenated when there are several.
    pub key: Vec<FieldType>,
    /// Kind.
    pub kind: SetKind,
}

impl SetDecl {
    /// A set or map with this name, key and kind.
    pub fn new(name: SetName, key: Vec<FieldType>, kind: SetKind) -> Self {
        Self { name, key, kind }
    }
}

/// One part of an element's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Datum {
    /// Interface name.
    Interface(InterfaceName),
    /// Address.
    Addr(IpAddr),
    /// Prefix, in [`SetKind::Interval`] sets.
    Net(Cidr),
    /// Protocol.
    Proto(u8),
    /// Port.
    Port(u16),
}

/// One element. Two elements with one key are the same element; changing a verdict is a removal and an addition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Element {
    /// The key, one datum for each part.
    pub key: Box<[Datum]>,
    /// The verdict, in [`SetKind::VerdictMap`]: one that leads to a chain, accepts, drops or returns.
    pub verdict: Option<Verdict>,
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => name.fmt(f),
            Self::Addr(address) => address.fmt(f),
            Self::Net(cidr) => cidr.fmt(f),
            Self::Proto(number) => number.fmt(f),
            Self::Port(port) => port.fmt(f),
        }
    }
}
