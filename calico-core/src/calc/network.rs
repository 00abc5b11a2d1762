//! What all hosts have in common: ranges of pools, addresses of hosts, ranges of services.
//!
//! In come pools, nodes and the settings of BGP called `default`; out comes one [`Network`] when any of its lists changed.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;

use hashbrown::HashMap;

use super::diagnostic::Problem;
use super::event::Network;
use crate::net::{Cidr, CidrError, Family};
use crate::resource::{
    AllowedUse, BgpConfigurationSpec, IpPoolSpec, ListedAddress, NodeAddress, NodeSpec, Resource, ResourceKey,
    ServiceRange,
};
use crate::update::Update;

/// The settings of BGP that hold for the cluster.
const CLUSTER: &str = "default";

/// The node.
#[derive(Debug, Default)]
pub(super) struct Networks {
    said: HashMap<ResourceKey, Said>,
    pools: Ranges,
    masqueraded: Ranges,
    hosts: Ranges,
    services: Ranges,
    /// Every address that a Node gives, those of tunnels too.
    addresses: HashMap<IpAddr, u32>,
    is_readdressed: bool,
    is_dirty: bool,
    sent: Arc<Network>,
}

/// What one object says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Said {
    network: Network,
    addresses: Vec<IpAddr>,
}

/// Prefixes, counted.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<Cidr, u32>);

impl Networks {
    pub(super) fn handle_update(&mut self, update: &Update) {
        let said = update.value.as_deref().map_or_else(Said::default, |value| said(&update.key, value));
        let nothing = said == Said::default();
        let former =
            if nothing { self.said.remove(&update.key) } else { self.said.insert(update.key.clone(), said.clone()) };
        let former = former.unwrap_or_default();
        if said == former {
            return;
        }
        self.count_addresses(&said.addresses, &former.addresses);
        self.is_dirty |= said.network != former.network;
        for (network, add) in [(&said.network, true), (&former.network, false)] {
            self.pools.count(&network.pools, add);
            self.masqueraded.count(&network.masqueraded, add);
            self.hosts.count(&network.hosts, add);
            self.services.count(&network.services, add);
        }
    }

    /// Whether a Node gives an address.
    pub(super) fn is_hosts(&self, address: IpAddr) -> bool {
        self.addresses.contains_key(&address)
    }

    /// Whether Nodes may give other addresses than at the last call.
    pub(super) const fn take_readdressed(&mut self) -> bool {
        mem::replace(&mut self.is_readdressed, false)
    }

    fn count_addresses(&mut self, new: &[IpAddr], old: &[IpAddr]) {
        self.is_readdressed |= new != old;
        for address in new {
            *self.addresses.entry(*address).or_default() += 1;
        }
        for address in old {
            let Some(count) = self.addresses.get_mut(address) else { continue };
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(address);
            }
        }
    }

    /// The network, if it is another one than was last asked for.
    pub(super) fn flush(&mut self) -> Option<Arc<Network>> {
        if !mem::take(&mut self.is_dirty) {
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
fn said(key: &ResourceKey, value: &Resource) -> Said {
    let network = match value {
        Resource::IpPool(pool) => of_pool(&pool.spec),
        Resource::Node(node) => {
            let network = Network { hosts: host_addresses(&node.spec), ..Network::default() };
            return Said { network, addresses: all_addresses(&node.spec) };
        }
        Resource::BgpConfiguration(object) if key.name() == Some(CLUSTER) => {
            Network { services: service_ranges(&object.spec), ..Network::default() }
        }
        _ => Network::default(),
    };
    Said { network, addresses: Vec::new() }
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

/// All that a host has, as far as its Node says.
fn all_addresses(node: &NodeSpec) -> Vec<IpAddr> {
    let bgp = node.bgp.as_ref();
    let of_bgp =
        bgp.into_iter().flat_map(|bgp| [bgp.ipv4_address, bgp.ipv6_address]).flatten().map(NodeAddress::address);
    let wireguard = node.wireguard.as_ref();
    let tunnels = [
        Some(&node.ipv4_vxlan_tunnel_addr),
        Some(&node.ipv6_vxlan_tunnel_addr),
        bgp.map(|bgp| &bgp.ipv4_ipip_tunnel_addr),
        wireguard.map(|wireguard| &wireguard.interface_ipv4_address),
        wireguard.map(|wireguard| &wireguard.interface_ipv6_address),
    ];
    let tunnels = tunnels.into_iter().flatten().filter_map(|text| text.parse().ok());
    let all = of_bgp.chain(node.addresses.iter().filter_map(address)).chain(tunnels);
    let mut all: Vec<IpAddr> = all.map(|address: IpAddr| address.to_canonical()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn address(listed: &ListedAddress) -> Option<IpAddr> {
    listed.address.parse::<NodeAddress>().ok().map(NodeAddress::address)
}

fn service_ranges(bgp: &BgpConfigurationSpec) -> Vec<Cidr> {
    service_lists(bgp).into_iter().flat_map(|(_, list)| list).filter_map(|range| range.cidr.parse().ok()).collect()
}

const fn service_lists(bgp: &BgpConfigurationSpec) -> [(&'static str, &Vec<ServiceRange>); 3] {
    [
        ("serviceClusterIPs", &bgp.service_cluster_ips),
        ("serviceExternalIPs", &bgp.service_external_ips),
        ("serviceLoadBalancerIPs", &bgp.service_load_balancer_ips),
    ]
}

/// Ranges of services that do not count, or not as written.
pub(super) fn service_problems(key: &ResourceKey, value: &Resource) -> Vec<Problem> {
    let Resource::BgpConfiguration(object) = value else { return Vec::new() };
    if key.name() != Some(CLUSTER) {
        return Vec::new();
    }
    let listed =
        service_lists(&object.spec).into_iter().flat_map(|(field, list)| list.iter().map(move |one| (field, one)));
    let problem = |(field, range): (&'static str, &ServiceRange)| match range.cidr.parse::<Cidr>() {
        Err(error) => Some(Problem::ServiceRange { field, error }),
        Ok(_) => match Cidr::parse_strict(&range.cidr) {
            Err(CidrError::HostBits { given, network }) => Some(Problem::WiderServiceRange { field, given, network }),
            // A bare address is that address.
            _ => None,
        },
    };
    let mut problems: Vec<Problem> = listed.filter_map(problem).collect();
    problems.dedup();
    problems
}
