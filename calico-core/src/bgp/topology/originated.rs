//! What this node announces as its own.
//!
//! - Own blocks once their affinity is confirmed (or has no state, as very old versions wrote it). A block outside every pool (its pool was
//!   deleted) is still ours until it is given up, and reachable only if announced.
//! - Addresses of workloads outside of them (borrowed ones), as host prefixes; and those inside whose route has an elevated priority.
//! - Addresses of services, unless a label keeps this node out.
//!
//! All but services only unless the pool they lie in is kept out of BGP, and of families in which the node has an address.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Topology;
use super::nodes::Node;
use crate::bgp::{Origin, Originated};
use crate::net::Cidr;

impl Topology {
    pub(super) fn originated(&self, own: &Node) -> Vec<Originated> {
        let blocks = self.blocks.iter().filter(|block| self.pools.exports(block) != Some(false));
        let blocks = blocks.map(|block| (*block, Origin::Block));
        let workloads = self.workloads.addresses().filter(|address| self.is_announced_alone(address));
        let workloads = workloads.map(|address| (*address, Origin::Workload));
        let services = self.services.announced().filter(|_| own.announces_services());
        let services = services.map(|prefix| (prefix, Origin::Service));
        let mut taken = BTreeSet::new();
        let all = blocks.chain(workloads).chain(services);
        let ours = all.filter(|(prefix, _)| own.speaker.address(prefix.family()).is_some() && taken.insert(*prefix));
        let mut originated: Vec<Originated> = ours
            .map(|(prefix, origin)| Originated { prefix, origin, priority: self.priority(&prefix, origin) })
            .collect();
        originated.sort_unstable();
        originated
    }

    fn priority(&self, prefix: &Cidr, origin: Origin) -> u32 {
        let elevated = self.priorities.get(prefix).filter(|_| origin == Origin::Workload);
        let normal = self.configuration.settings().normal_priority.get(prefix.family());
        *elevated.unwrap_or(normal)
    }

    /// Whether it is an address that no own block announces well enough, of a pool that is not kept out of BGP.
    pub(super) fn is_announced_alone(&self, address: &Cidr) -> bool {
        let own = || address.widening().any(|prefix| self.blocks.contains(&prefix));
        let normal = self.configuration.settings().normal_priority.get(address.family());
        let elevated = self.priorities.get(address).is_some_and(|priority| priority < normal);
        self.pools.exports(address) == Some(true) && (elevated || !own())
    }
}
