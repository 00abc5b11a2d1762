//! Routes and neighbours.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::net::{Cidr, InterfaceName, Mac};

/// A kernel routing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteTableId(u32);

impl RouteTableId {
    /// The main table (254).
    pub const MAIN: Self = Self(254);

    /// Wraps a number.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// Why a route exists. Decides the kernel protocol number, by which a restarted agent knows its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RouteClass {
    /// To a workload on this host.
    LocalWorkload,
    /// The host's own blocks: unreachable but for the workloads in them.
    LocalBlock,
    /// Learned by BGP.
    Bgp,
}

/// Identity of a route: the kernel holds one per destination, table and metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an identity: a new part must break every literal")]
pub struct RouteKey {
    /// Table.
    pub table: RouteTableId,
    /// Destination.
    pub dest: Cidr,
    /// Priority; lower wins. Zero is the kernel's default for IPv4.
    pub metric: u32,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Route {
    /// Identity.
    pub key: RouteKey,
    /// Where to.
    pub target: RouteTarget,
    /// Why.
    pub class: RouteClass,
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RouteTarget {
    /// Directly out of an interface (scope link).
    Interface(InterfaceName),
    /// By a gateway; the kernel finds the interface.
    Via(IpAddr),
    /// By any of several gateways, of equal weight; the kernel finds the interfaces and chooses by a hash of each flow.
    ViaMany(Gateways),
    /// By a gateway said to be on that interface whatever the interface's own prefixes (`onlink`).
    ViaOnlink {
        /// Gateway.
        gateway: IpAddr,
        /// Interface.
        interface: InterfaceName,
    },
    /// Discarded silently.
    Blackhole,
}

/// Two gateways or more, sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gateways(Arc<[IpAddr]>);

impl Gateways {
    /// Most of them; of more, the lowest are taken (BIRD's `merge paths` has the same limit).
    pub const MOST: usize = 16;

    /// Each of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = IpAddr> + '_ {
        self.0.iter().copied()
    }
}

impl Route {
    /// The interface that it names.
    pub const fn interface(&self) -> Option<InterfaceName> {
        self.target.interface()
    }
}

impl RouteTarget {
    /// By whichever of these gateways; by none, nowhere.
    pub fn via(gateways: impl IntoIterator<Item = IpAddr>) -> Option<Self> {
        let mut gateways: Vec<IpAddr> = gateways.into_iter().collect();
        gateways.sort_unstable();
        gateways.dedup();
        gateways.truncate(Gateways::MOST);
        match gateways.as_slice() {
            [] => None,
            [gateway] => Some(Self::Via(*gateway)),
            _ => Some(Self::ViaMany(Gateways(gateways.into()))),
        }
    }

    /// The interface that it names.
    pub const fn interface(&self) -> Option<InterfaceName> {
        match self {
            Self::Interface(interface) | Self::ViaOnlink { interface, .. } => Some(*interface),
            _ => None,
        }
    }
}

/// A permanent neighbour entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Neighbor {
    /// Interface.
    pub interface: InterfaceName,
    /// Address.
    pub address: IpAddr,
    /// Ethernet address.
    pub mac: Mac,
}
