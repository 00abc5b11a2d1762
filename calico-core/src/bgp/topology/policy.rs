//! Which routes peers hear of and which the kernel gets, from pools, blocks, services and configuration.

use core::net::IpAddr;

use super::Topology;
use super::nodes::Node;
use crate::bgp::{ByFamily, ExportPolicy, KernelPolicy};
use crate::net::{Cidr, Family};
use crate::resource::NodeAddress;

impl Topology {
    /// Nothing is announced but what one of these says: a default route that a router gave us is its business.
    pub(super) fn export(&self) -> ExportPolicy {
        let settings = self.configuration.settings();
        ExportPolicy {
            pools: self.pools.announced(),
            blocks: self.blocks.iter().copied().collect(),
            communities: settings.communities.clone(),
            reflected: self.service_ranges().reflected().collect(),
            normal_priority: settings.normal_priority.clone(),
            others: false,
        }
    }

    /// Ranges of services are rejected on nodes that do not announce them as well: what is learned would lead away from the own answer.
    pub(super) fn kernel(&self, own: &Node) -> KernelPolicy {
        let settings = self.configuration.settings();
        let subnet = |family| own.speaker.address.get(family).map(NodeAddress::network);
        KernelPolicy {
            rejected: self.service_ranges().whole().collect(),
            pools: self.pools.routing(settings.program),
            other_next_hops: self.wireguard(own),
            subnet: ByFamily::<Option<Cidr>> { ipv4: subnet(Family::V4), ipv6: subnet(Family::V6) },
            normal_priority: settings.normal_priority.clone(),
        }
    }

    /// Nodes that are reached through WireGuard, sorted: those that have such a device, if this one has.
    fn wireguard(&self, own: &Node) -> alloc::vec::Vec<IpAddr> {
        let families = [Family::V4, Family::V6].into_iter().filter(|family| *own.speaker.wireguard.get(*family));
        let mut found: alloc::vec::Vec<IpAddr> = families
            .flat_map(|family| {
                let others = self
                    .nodes
                    .iter()
                    .filter(move |(name, node)| **name != self.node && *node.speaker.wireguard.get(family));
                others.filter_map(move |(_, node)| node.speaker.address(family))
            })
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
