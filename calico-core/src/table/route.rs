//! Routes and neighbours.

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RouteTarget {
    /// Directly out of an interface (scope link).
    Interface(InterfaceName),
    /// By a gateway; the kernel finds the interface.
    Via(IpAddr),
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
