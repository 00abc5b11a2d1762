//! What all hosts have in common: ranges of pools, addresses of hosts, ranges of services.
//!
//! In come pools, nodes and the settings of BGP called `default`; out comes one [`Network`] when any of its lists changed.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::HashMap;

use super::event::Network;
use crate::net::{Cidr, Family};
use crate::resource::{
    AllowedUse, BgpConfigurationSpec, IpPoolSpec, ListedAddress, NodeAddress, NodeSpec, Resource, ResourceKey,
};
use crate::update::Update;

/// The settings of BGP that hold for the cluster.
const CLUSTER: &str = "default";

/// The node.
#[derive(Debug, Default)]
pub(super) struct Networks {
    said: HashMap<ResourceKey, Network>,
    pools: Ranges,
    masqueraded: Ranges,
    hosts: Ranges,
    services: Ranges,
    is_dirty: bool,
    sent: Arc<Network>,
}

/// Prefixes, counted.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<Cidr, u32>);

impl Networks {
    pub(super) fn handle_update(&mut self, update: &Update) {
        let said = update.value.as_deref().map_or_else(Network::default, |value| said(&update.key, value));
        let nothing = said == Network::default();
        let former =
            if nothing { self.said.remove(&update.key) } else { self.said.insert(update.key.clone(), said.clone()) };
        let former = former.unwrap_or_default();
        if said == former {
            return;
        }
        self.is_dirty = true;
        for (network, add) in [(&said, true), (&former, false)] {
            self.pools.count(&network.pools, add);
            self.masqueraded.count(&network.masqueraded, add);
            self.hosts.count(&network.hosts, add);
            self.services.count(&network.services, add);
        }
    }

    /// The network, if it is another one than was last asked for.
    pub(super) fn flush(&mut self) -> Option<Arc<Network>> {
        if !core::mem::take(&mut self.is_dirty) {
            return None;
        }
        let network = Network {
            pools: self.pools.widest(),
            masqueraded: self.masqueraded.widest(),
            hosts: self.hosts.widest(),
            services: self.services.widest(),
        };
        if *self.sent == network {
            return None;
        }
        self.sent = Arc::new(network);
        Some(self.sent.clone())
    }
}

impl Ranges {
    fn count(&mut self, nets: &[Cidr], add: bool) {
        for net in nets {
            let count = self.0.entry(*net).or_default();
            *count = if add { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.0.remove(net);
            }
        }
    }

    /// Those that no other covers, in order.
    fn widest(&self) -> Vec<Cidr> {
        let mut widest: Vec<Cidr> = Vec::with_capacity(self.0.len());
        for net in self.0.keys() {
            if !widest.last().is_some_and(|last| last.covers(net)) {
                widest.push(*net);
            }
        }
        widest
    }
}

/// What one object says of the network.
fn said(key: &ResourceKey, value: &Resource) -> Network {
    match value {
        Resource::IpPool(pool) => of_pool(&pool.spec),
        Resource::Node(node) => Network { hosts: host_addresses(&node.spec), ..Network::default() },
        Resource::BgpConfiguration(object) if key.name() == Some(CLUSTER) => {
            Network { services: service_ranges(&object.spec), ..Network::default() }
        }
        _ => Network::default(),
    }
}

/// A pool of load balancers' addresses alone is none of workloads, and of length zero is only what remains of one whose range cannot be read
/// ([`Resource::remains`]).
fn of_pool(pool: &IpPoolSpec) -> Network {
    let of_workloads = pool.cidr.length() > 0 && pool.allowed_uses.iter().any(|one| *one != AllowedUse::LoadBalancer);
    let pools: Vec<Cidr> = of_workloads.then_some(pool.cidr).into_iter().collect();
    let masqueraded = if pool.nat_outgoing { pools.clone() } else { Vec::new() };
    Network { pools, masqueraded, ..Network::default() }
}

/// Of each family one: that of BGP, else the first internal one, else the first external one (upstream's choice).
fn host_addresses(node: &NodeSpec) -> Vec<Cidr> {
    let bgp = |family| {
        let bgp = node.bgp.as_ref()?;
        let address = if family == Family::V4 { bgp.ipv4_address } else { bgp.ipv6_address };
        address.map(NodeAddress::address)
    };
    let listed = |family, kind| {
        let of_kind = node.addresses.iter().filter(move |listed| listed.address_type == kind);
        of_kind.filter_map(address).find(|address| Family::of(*address) == family)
    };
    let of_family =
        |family| bgp(family).or_else(|| listed(family, "InternalIP")).or_else(|| listed(family, "ExternalIP"));
    [Family::V4, Family::V6]
        .into_iter()
        .filter_map(of_family)
        .map(|address| Cidr::host(address.to_canonical()))
        .collect()
}

fn address(listed: &ListedAddress) -> Option<IpAddr> {
    listed.address.parse::<NodeAddress>().ok().map(NodeAddress::address)
}

fn service_ranges(bgp: &BgpConfigurationSpec) -> Vec<Cidr> {
    let lists = [&bgp.service_cluster_ips, &bgp.service_external_ips, &bgp.service_load_balancer_ips];
    lists.into_iter().flatten().filter_map(|range| range.cidr.parse().ok()).collect()
}
