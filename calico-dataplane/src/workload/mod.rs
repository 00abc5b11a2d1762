//! Workload plumbing: a container's interface, its addresses, and the way out. What the CNI plugin does to a kernel.
//!
//! A workload has a veth pair, each end born in its own namespace by one message. The container's end carries the addresses as
//! host prefixes and reaches everything by the gateway 169.254.1.1 (IPv6: the host end's link-local address), which is a
//! permanent neighbour at `ee:ee:ee:ee:ee:ee`, the address of every host end. No subnet is shared with anybody, so every packet
//! is routed, and policed, by the host.
//!
//! | Function | |
//! |---|---|
//! | [`attach()`] | makes all of it, or nothing |
//! | [`inspect()`] | tells what is there, for CHECK and for a repeated ADD |
//! | [`detach()`] | removes it; absence is success |
//! | [`retire()`] | the same from the host's side, without the kernel's wait at the end |
//!
//! All are synchronous, use one netlink socket per namespace and execute no program. The routes to the workload and its
//! neighbour entry on the host are the agent's, who alone writes them: until it knows the endpoint, its policy drops all traffic
//! of the interface anyway.
//!
//! Deviations from upstream (`cni-plugin/pkg/dataplane/linux`): the gateway is a permanent neighbour instead of one that proxy
//! ARP answers for, which saves the first packet a round trip and works on hosts without a default route (proxy ARP is on
//! nevertheless); the plugin writes no host route; the host end's Ethernet address is given at birth instead of set until it
//! sticks.

mod attach;
mod detach;
mod error;
mod inspect;
mod retire;
mod sysctl;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use calico_core::net::{Cidr, Family, InterfaceName, Mac};

pub use attach::attach;
pub use detach::detach;
pub use error::WorkloadError;
pub use inspect::{ContainerEnd, HostEnd, Mismatch, Plumbing, inspect};
pub use retire::retire;

/// The gateway of every IPv4 workload.
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// The gateway of every IPv6 workload: the link-local address that the kernel derives from [`Mac::ALL_EE`].
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0xecee, 0xeeff, 0xfeee, 0xeeee);

/// What a workload's interface shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct AttachRequest {
    /// Path of the container's namespace.
    pub netns: PathBuf,
    /// Name of the interface inside the container.
    pub container_interface: InterfaceName,
    /// Name of the interface on the host. An older veth of that name, left by a workload that is gone, is replaced.
    pub host_interface: InterfaceName,
    /// The workload's addresses. Longer prefixes than one host are narrowed to their network address.
    pub addresses: Vec<Cidr>,
    /// What the container reaches by its gateway; empty means everything, in the families of its addresses.
    pub routes: Vec<Cidr>,
    /// Largest packet; 0 leaves it to the kernel.
    pub mtu: u32,
    /// Ethernet address of the container's interface; the kernel picks one otherwise.
    pub container_mac: Option<Mac>,
    /// Whether the container may forward packets itself.
    pub ip_forwarding: bool,
}

impl AttachRequest {
    /// Routes that the container gets, each with its gateway: those asked for, or the defaults.
    pub fn routes_by_gateway(&self) -> Vec<(Cidr, IpAddr)> {
        let has_gateway = |route: &Cidr| self.has(route.family());
        self.effective_routes().into_iter().filter(has_gateway).map(|route| (route, gateway(route.family()))).collect()
    }

    fn effective_routes(&self) -> Vec<Cidr> {
        if !self.routes.is_empty() {
            return self.routes.clone();
        }
        let default = |of: Family| match of {
            Family::V4 => Cidr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            Family::V6 => Cidr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        };
        [Family::V4, Family::V6].into_iter().filter(|of| self.has(*of)).filter_map(default).collect()
    }

    fn has(&self, family: Family) -> bool {
        self.addresses.iter().any(|address| address.family() == family)
    }
}

/// What came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attached {
    /// Ethernet address of the container's interface.
    pub container_mac: Mac,
    /// Ethernet address of the host's interface.
    pub host_mac: Mac,
    /// Index of the host's interface.
    pub host_index: u32,
    /// Index of the container's interface within its namespace.
    pub container_index: u32,
}

/// Which interface to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct DetachRequest {
    /// Path of the container's namespace, if the runtime still knows it.
    pub netns: Option<PathBuf>,
    /// Name of the interface inside the container.
    pub container_interface: InterfaceName,
    /// Name of the interface on the host; to be given only by who knows that it belongs to this very container, since a
    /// workload that was made anew under the same name has the same host interface.
    pub host_interface: Option<InterfaceName>,
}

/// The gateway of a family.
const fn gateway(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(GATEWAY_V4),
        Family::V6 => IpAddr::V6(GATEWAY_V6),
    }
}
