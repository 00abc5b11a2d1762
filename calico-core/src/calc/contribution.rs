//! What an endpoint or network set puts into the sets that it belongs to.
//!
//! Nearly all have one IPv4 address, and their named ports are those of many others: sixteen bytes hold them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use super::rule_scan::NamedPort;
use crate::label::store::{Content, Store, says};
use crate::net::{Cidr, Protocol};
use crate::text::Text;

/// Prefixes, and the ports of those that are hosts. It holds its ports until [`Ports::release`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Contribution {
    Nothing,
    Host(Ipv4Addr, PortsKey),
    Many(Box<(Box<[Cidr]>, PortsKey)>),
}

/// A list of named ports; equal lists of one [`Ports`] have equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PortsKey(u32);

impl Contribution {
    pub(super) fn new(nets: &[Cidr], ports: PortsKey) -> Self {
        match nets {
            [net] => match net.address() {
                IpAddr::V4(address) if net.is_host() => Self::Host(address, ports),
                _ => Self::Many(Box::new((nets.into(), ports))),
            },
            nets => Self::Many(Box::new((nets.into(), ports))),
        }
    }

    pub(super) fn nets(&self) -> impl Iterator<Item = Cidr> + Clone {
        let (host, nets) = match self {
            Self::Nothing => (None, &[][..]),
            Self::Host(address, _) => (Some(Cidr::host(IpAddr::V4(*address))), &[][..]),
            Self::Many(many) => (None, &*many.0),
        };
        host.into_iter().chain(nets.iter().copied())
    }

    pub(super) fn ports(&self) -> PortsKey {
        match self {
            Self::Nothing => PortsKey::NONE,
            Self::Host(_, ports) => *ports,
            Self::Many(many) => many.1,
        }
    }
}

impl PortsKey {
    /// No ports.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// A port by which rules may name an endpoint's addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ItemPort {
    name: Text,
    pub(super) protocol: u8,
    pub(super) port: u16,
}

#[derive(Debug)]
struct List {
    ports: Box<[ItemPort]>,
    references: u32,
}

says!(List, ports: [ItemPort]);

/// The lists of named ports, each held once.
#[derive(Debug, Default)]
pub(super) struct Ports(Store<List>);

impl Ports {
    /// The list of those of some ports that can be named, held once more.
    pub(super) fn acquire<'a>(&mut self, ports: impl Iterator<Item = (&'a str, Protocol, u16)>) -> PortsKey {
        let named = ports.filter(|(name, protocol, _)| !name.is_empty() && protocol.has_ports());
        let list: Vec<ItemPort> = named
            .map(|(name, protocol, port)| ItemPort { name: name.into(), protocol: protocol.number(), port })
            .collect();
        if list.is_empty() {
            return PortsKey::NONE;
        }
        PortsKey(self.0.acquire(&list, || List { ports: list.as_slice().into(), references: 0 }).0)
    }

    /// Gives one hold up.
    pub(super) fn release(&mut self, key: PortsKey) {
        self.0.release(key.0);
    }

    /// Ports of a list that a rule means.
    pub(super) fn like(&self, key: PortsKey, wanted: &NamedPort) -> impl Iterator<Item = &ItemPort> + Clone {
        let ports = self.0.get(key.0).map_or(&[][..], |list| &list.ports);
        ports.iter().filter(|port| {
            wanted.names.binary_search_by(|name| name.as_str().cmp(&port.name)).is_ok()
                && wanted.protocol.is_none_or(|protocol| protocol == port.protocol)
        })
    }
}
