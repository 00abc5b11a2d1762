//! Named sets and verdict maps.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use super::{ChainName, Key, SetName, Verdict};
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
    /// Exact keys, each with an address of this family.
    AddressMap(Family),
}

impl SetKind {
    /// Whether elements of such a set may have this data.
    pub fn takes(self, data: Option<&ElementData>) -> bool {
        match (self, data) {
            (Self::Hash | Self::Interval, None) => true,
            (Self::VerdictMap, Some(ElementData::Verdict(verdict))) => verdict.is_plain(),
            (Self::AddressMap(Family::V4), Some(ElementData::Addr(address))) => address.is_ipv4(),
            (Self::AddressMap(Family::V6), Some(ElementData::Addr(address))) => address.is_ipv6(),
            _ => false,
        }
    }
}

/// Declaration of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct SetDecl {
    /// Name, unique in its table.
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

/// What a map holds for a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ElementData {
    /// A verdict, in [`SetKind::VerdictMap`]: one that leads to a chain, accepts, drops or returns.
    Verdict(Arc<Verdict>),
    /// An address, in [`SetKind::AddressMap`].
    Addr(IpAddr),
}

impl ElementData {
    /// The chain it leads to, if it leads to one.
    pub fn target(&self) -> Option<&ChainName> {
        match self {
            Self::Verdict(verdict) => verdict.target(),
            Self::Addr(_) => None,
        }
    }

    /// The verdict, if it is one.
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Verdict(verdict) => Some(verdict),
            Self::Addr(_) => None,
        }
    }
}

impl From<Verdict> for ElementData {
    fn from(verdict: Verdict) -> Self {
        Self::Verdict(verdict.into())
    }
}

/// One element. Two elements with one key are the same element; changing its data is a removal and an addition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Element {
    /// The key, one datum for each part.
    pub key: Key,
    /// What the key leads to, in maps.
    pub data: Option<ElementData>,
}

impl Element {
    /// An element of a set.
    pub fn member(key: impl Into<Key>) -> Self {
        Self { key: key.into(), data: None }
    }

    /// An element of a [`SetKind::VerdictMap`].
    pub fn verdict(key: impl Into<Key>, verdict: Verdict) -> Self {
        Self { key: key.into(), data: Some(verdict.into()) }
    }

    /// An element of a [`SetKind::AddressMap`].
    pub fn address(key: impl Into<Key>, address: IpAddr) -> Self {
        Self { key: key.into(), data: Some(ElementData::Addr(address)) }
    }
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
