//! Which sessions and prefixes one node should have, kept current update by update.
//!
//! In come [`Update`]s of any kind; those about nodes, pools, this node's block affinities and its workload endpoints count. Out comes
//! [`DesiredBgp`], and the blocks that this node must discard traffic into where no workload has the address.
//!
//! Rules (upstream `confd/pkg/backends/calico`, `confd/etc/calico/confd/templates`):
//! - Full mesh: every other node with an address and without a route-reflector cluster id is a peer. A node that has such an id takes no
//!   part in the mesh.
//! - A node with AS number 0, which is nobody's (RFC 7607), takes no part. Manifests are refused with it, but it may be stored; the
//!   graph has a diagnostic then.
//! - A peer's AS number is its own, else the cluster's. (Upstream takes *this node's* for a peer that has none, which is wrong as soon as
//!   this node has one of its own.)
//! - Own blocks are advertised once their affinity is confirmed (or has no state, as very old versions wrote it), and workload addresses
//!   outside of them (borrowed ones) as host prefixes, all unless the pool they lie in is kept out of BGP. Overlapping pools: the longest
//!   decides, whatever their order in the datastore; of two with one range, that which is kept out.
//! - A pool that cannot be read is here with what remains of it ([`Resource::remains`]), so that what was kept out of BGP stays out. One
//!   whose range cannot be read stands for all addresses, and any other pool goes before it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use super::{BGP_PORT, DesiredBgp, DesiredPeer, LocalSpeaker, Originated, PeerKind};
use crate::net::{AsNumber, Cidr, Family, InterfaceName};
use crate::resource::{AffinityOwner, Kind, NodeSpec, Resource, ResourceKey, WorkloadEndpointSpec};
use crate::update::Update;

/// The machine. See the module.
#[derive(Debug, Clone)]
pub struct Topology {
    node: Arc<str>,
    port: u16,
    prefixes: Vec<InterfaceName>,
    nodes: BTreeMap<Arc<str>, Speaker>,
    pools: BTreeMap<Arc<str>, Pool>,
    /// The pools by range.
    ranges: BTreeMap<Cidr, Range>,
    blocks: BTreeSet<Cidr>,
    workloads: BTreeMap<ResourceKey, Vec<Cidr>>,
}

/// A node as far as BGP cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Speaker {
    address: Ipv4Addr,
    as_number: Option<AsNumber>,
    reflector: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pool {
    cidr: Cidr,
    exported: bool,
}

/// Number of pools with one range.
#[derive(Debug, Clone, Copy, Default)]
struct Range {
    open: usize,
    private: usize,
}

impl Topology {
    /// A machine for this node that knows nothing yet.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.into(),
            port: BGP_PORT,
            prefixes: vec![InterfaceName::CALI],
            nodes: BTreeMap::new(),
            pools: BTreeMap::new(),
            ranges: BTreeMap::new(),
            blocks: BTreeSet::new(),
            workloads: BTreeMap::new(),
        }
    }

    /// Peers are spoken to on this port instead of 179.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Names of workload interfaces start with one of these instead of `cali`.
    #[must_use]
    pub fn with_workload_prefixes(mut self, prefixes: Vec<InterfaceName>) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Takes in the new state of one key. Tells whether anything that matters here changed. A workload with addresses of this node's
    /// blocks, which is nearly every one, costs a few look-ups and changes nothing.
    pub fn handle_update(&mut self, update: &Update) -> bool {
        match (&update.key, update.value.as_deref()) {
            (ResourceKey::Named { kind: Kind::Node, name, .. }, value) => {
                let speaker = match value {
                    Some(Resource::Node(node)) => speaker(&node.spec),
                    _ => None,
                };
                put(&mut self.nodes, name, speaker)
            }
            (ResourceKey::Named { kind: Kind::IpPool, name, .. }, value) => {
                let pool = match value {
                    Some(Resource::IpPool(pool)) => {
                        Some(Pool { cidr: pool.spec.cidr, exported: !pool.spec.disable_bgp_export })
                    }
                    _ => None,
                };
                self.set_pool(name, pool)
            }
            (key @ ResourceKey::Named { kind: Kind::WorkloadEndpoint, .. }, value) => {
                let addresses = match value {
                    Some(Resource::WorkloadEndpoint(endpoint)) if self.is_reached_here(&endpoint.spec) => {
                        Some(endpoint.spec.addresses().collect())
                    }
                    _ => None,
                };
                self.set_workload(key, addresses)
            }
            (ResourceKey::Affinity { owner: AffinityOwner::Host(host), block }, value) if *host == self.node => {
                let ours = matches!(value, Some(Resource::BlockAffinity(affinity)) if affinity.is_confirmed());
                if ours { self.blocks.insert(*block) } else { self.blocks.remove(block) }
            }
            _ => false,
        }
    }

    /// Whether it is this node's, behind an interface that the graph takes for a workload's: no other gets a route.
    fn is_reached_here(&self, endpoint: &WorkloadEndpointSpec) -> bool {
        let interface = endpoint.interface_name;
        *endpoint.node == *self.node && interface.is_some_and(|name| name.starts_with_any(&self.prefixes))
    }

    /// What this node's speaker should do.
    pub fn desired(&self) -> DesiredBgp {
        let Some(own) = self.nodes.get(&self.node) else { return DesiredBgp::default() };
        DesiredBgp {
            local: Some(LocalSpeaker::new(&*self.node, own.as_number.unwrap_or(AsNumber::DEFAULT), own.address)),
            peers: self.mesh(own),
            originated: self.originated().into_iter().map(Originated::block).collect(),
            ..DesiredBgp::default()
        }
    }

    /// This node's blocks: traffic to addresses in them that no workload has must be discarded here, or it would leave by the default
    /// route and come back. Host-sized blocks are left out: they have no such addresses.
    pub fn local_blocks(&self) -> Vec<Cidr> {
        self.blocks.iter().filter(|block| !block.is_host()).copied().collect()
    }

    fn mesh(&self, own: &Speaker) -> Vec<DesiredPeer> {
        if own.reflector {
            return Vec::new();
        }
        // Two nodes with one address would be one peer twice; upstream compares addresses as well to leave this node out.
        let mut peers = BTreeMap::new();
        for (name, speaker) in &self.nodes {
            if *name == self.node || speaker.reflector || speaker.address == own.address {
                continue;
            }
            peers.entry(speaker.address).or_insert_with(|| {
                let as_number = speaker.as_number.unwrap_or(AsNumber::DEFAULT);
                let peer = DesiredPeer::new(IpAddr::V4(speaker.address), as_number, PeerKind::Mesh, &**name);
                DesiredPeer { port: self.port, ..peer }
            });
        }
        peers.into_values().collect()
    }

    fn set_pool(&mut self, name: &Arc<str>, pool: Option<Pool>) -> bool {
        let former = self.pools.get(name).copied();
        if !put(&mut self.pools, name, pool) {
            return false;
        }
        if let Some(former) = former
            && let Some(range) = self.ranges.get_mut(&former.cidr)
        {
            *range.count(former.exported) -= 1;
            if range.open + range.private == 0 {
                self.ranges.remove(&former.cidr);
            }
        }
        if let Some(pool) = pool {
            *self.ranges.entry(pool.cidr).or_default().count(pool.exported) += 1;
        }
        true
    }

    fn set_workload(&mut self, key: &ResourceKey, addresses: Option<Vec<Cidr>>) -> bool {
        let now = addresses.clone().unwrap_or_default();
        let former = match addresses {
            Some(addresses) => self.workloads.insert(key.clone(), addresses),
            None => self.workloads.remove(key),
        };
        let former = former.unwrap_or_default();
        let gone = former.iter().filter(|address| !now.contains(address));
        let new = now.iter().filter(|address| !former.contains(address));
        gone.chain(new).any(|address| self.is_announced_alone(address))
    }

    fn originated(&self) -> Vec<Cidr> {
        // A block outside every pool (its pool was deleted) is still ours until it is given up, and reachable only if announced.
        let exported = |block: &&Cidr| block.family() == Family::V4 && self.exports(block) != Some(false);
        let blocks = self.blocks.iter().filter(exported);
        let borrowed = self.workloads.values().flatten().filter(|address| self.is_announced_alone(address));
        let prefixes: BTreeSet<Cidr> = blocks.chain(borrowed).copied().collect();
        prefixes.into_iter().collect()
    }

    /// Whether it is a borrowed address, of a pool that is not kept out of BGP.
    fn is_announced_alone(&self, address: &Cidr) -> bool {
        let own = || widening(*address).any(|prefix| self.blocks.contains(&prefix));
        address.family() == Family::V4 && self.exports(address) == Some(true) && !own()
    }

    /// Whether the pool that a prefix lies in is announced.
    fn exports(&self, prefix: &Cidr) -> Option<bool> {
        widening(*prefix).find_map(|range| self.ranges.get(&range)).map(|range| range.private == 0)
    }
}

impl Range {
    const fn count(&mut self, exported: bool) -> &mut usize {
        if exported { &mut self.open } else { &mut self.private }
    }
}

/// All that covers a prefix, itself first and the widest last.
fn widening(prefix: Cidr) -> impl Iterator<Item = Cidr> {
    (0..=prefix.length()).rev().filter_map(move |length| Cidr::new(prefix.address(), length))
}

fn speaker(node: &NodeSpec) -> Option<Speaker> {
    let bgp = node.bgp.as_ref()?;
    let IpAddr::V4(address) = bgp.ipv4_address?.address() else { return None };
    if bgp.as_number.is_some_and(AsNumber::is_nobodys) {
        return None;
    }
    let reflector = bgp.route_reflector_cluster_id.as_ref().is_some_and(|id| !id.is_empty());
    Some(Speaker { address, as_number: bgp.as_number, reflector })
}

fn put<K: Ord + Clone, V: PartialEq>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) -> bool {
    match value {
        Some(value) if map.get(key) == Some(&value) => false,
        Some(value) => {
            map.insert(key.clone(), value);
            true
        }
        None => map.remove(key).is_some(),
    }
}

#[cfg(test)]
mod tests;
