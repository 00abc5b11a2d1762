//! Which sessions and prefixes one node should have, kept current update by update.
//!
//! In come [`Update`]s of any kind, and what the program learns beside the datastore (secrets, services, priorities of routes). Out comes
//! [`DesiredBgp`], the blocks that this node must discard traffic into where no workload has the address, the secrets that it wants to
//! know, and what of all this cannot be carried out as written.
//!
//! | Part | Decides |
//! |---|---|
//! | `nodes` | who speaks BGP, and as whom |
//! | `configuration` | what holds for the cluster and for this node |
//! | `peers`, `sessions` | who talks to whom: BGPPeers, their mirror images, local workloads, the mesh |
//! | `filters` | BGPFilters as data |
//! | `secrets` | passwords |
//! | `pools`, `policy` | which routes are announced and which programmed |
//! | `originated` | own blocks, workloads and services |
//!
//! Rules (upstream `confd/pkg/backends/calico`, `confd/etc/calico/confd/templates`) stand where they are carried out; these hold everywhere:
//! - A node with AS number 0, which is nobody's (RFC 7607), takes no part. Manifests are refused with it, but it may be stored; the
//!   graph has a diagnostic then.
//! - A node without an IPv4 address has no BGP identifier but one that is configured, and does not speak without.
//! - A pool that cannot be read is here with what remains of it ([`Resource::remains`]), so that what was kept out of BGP stays out. One
//!   whose range cannot be read stands for all addresses, and any other pool goes before it.
//! - What is not understood is told ([`Topology::diagnostics`]); no field is accepted and ignored in silence.
//!
//! Cost: a change of a node costs the selectors of all BGPPeers, a change of a BGPPeer all nodes; workloads of other nodes cost nothing.
//! [`Topology::desired`] costs this node's sessions, blocks, workloads and services.

mod bfd;
mod configuration;
mod diagnostics;
mod filters;
mod nodes;
mod originated;
mod peers;
mod policy;
mod pools;
mod problem;
mod secrets;
mod services;
mod sessions;
mod workloads;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use self::configuration::{Configuration, ServiceRanges};
pub(in crate::bgp) use self::filters::CompiledFilter;
use self::nodes::{Node, Nodes};
use self::peers::Peering;
use self::pools::{Pool, Pools};
use self::secrets::{KeyRef, Secrets};
use self::services::Services;
use self::workloads::{Workload, Workloads};
use super::{BGP_PORT, DesiredBgp, Listen, LocalSpeaker};
use crate::net::{Cidr, Family, InterfaceName};
use crate::resource::{AffinityOwner, Kind, Resource, ResourceKey};
use crate::service::{EndpointSliceKey, ServiceKey};
use crate::update::Update;

pub use self::nodes::RouterIdSource;
pub use self::problem::BgpProblem;
pub use self::services::{EndpointFacts, EndpointSliceFacts, ServiceFacts, ServiceKind, TrafficPolicy};

/// The machine. See the module.
#[derive(Debug, Clone)]
pub struct Topology {
    node: Arc<str>,
    port: u16,
    prefixes: Vec<InterfaceName>,
    router_id: RouterIdSource,
    /// Ranges of services' cluster addresses that count instead of the configuration's.
    cluster_ranges: Option<Vec<Cidr>>,
    nodes: Nodes,
    configuration: Configuration,
    /// FelixConfiguration, which must agree with BGPConfiguration.
    felix: Option<Arc<Resource>>,
    peers: BTreeMap<Arc<str>, Peering>,
    filters: BTreeMap<Arc<str>, CompiledFilter>,
    secrets: Secrets,
    services: Services,
    pools: Pools,
    blocks: BTreeSet<Cidr>,
    workloads: Workloads,
    /// Metrics of single addresses here, where they are not ordinary.
    priorities: BTreeMap<Cidr, u32>,
}

impl Topology {
    /// A machine for this node that knows nothing yet.
    pub fn new(node: &str) -> Self {
        let configuration = Configuration::default();
        let services = Services::new(node.into(), configuration.settings().services.clone());
        Self {
            node: node.into(),
            port: BGP_PORT,
            prefixes: vec![InterfaceName::CALI],
            router_id: RouterIdSource::default(),
            cluster_ranges: None,
            nodes: Nodes::new(),
            configuration,
            felix: None,
            peers: BTreeMap::new(),
            filters: BTreeMap::new(),
            secrets: Secrets::default(),
            services,
            pools: Pools::default(),
            blocks: BTreeSet::new(),
            workloads: Workloads::default(),
            priorities: BTreeMap::new(),
        }
    }

    /// Nodes listen on this port, and are spoken to on it, where no BGPConfiguration gives one. Default 179.
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

    /// Where this node's BGP identifier comes from (upstream: `CALICO_ROUTER_ID`).
    #[must_use]
    pub const fn with_router_id(mut self, source: RouterIdSource) -> Self {
        self.router_id = source;
        self
    }

    /// These ranges of services' cluster addresses count, whatever BGPConfiguration says (upstream: `CALICO_ADVERTISE_CLUSTER_IPS`).
    #[must_use]
    pub fn with_cluster_ranges(mut self, ranges: Vec<Cidr>) -> Self {
        self.cluster_ranges = Some(ranges);
        self.services.set_ranges(&self.service_ranges());
        self
    }

    /// Kubernetes calls this node so (upstream: `CALICO_K8S_NODE_REF`). Before any endpoint is known.
    #[must_use]
    pub fn with_kubernetes_node(mut self, name: &str) -> Self {
        self.services = Services::new(name.into(), self.service_ranges());
        self
    }

    /// Takes in the new state of one key. Tells whether anything that matters here changed. A workload with addresses of this node's
    /// blocks, which is nearly every one, costs a few look-ups and changes nothing.
    pub fn handle_update(&mut self, update: &Update) -> bool {
        let value = update.value.as_ref();
        match &update.key {
            ResourceKey::Named { kind: Kind::Node, name, .. } => self.set_node(name, value),
            ResourceKey::Named { kind: Kind::IpPool, name, .. } => {
                let pool = match value.map(|value| &**value) {
                    Some(Resource::IpPool(pool)) => Some(Pool::new(&pool.spec)),
                    _ => None,
                };
                self.pools.set(name, pool)
            }
            ResourceKey::Named { kind: Kind::WorkloadEndpoint, .. } => self.set_workload(update),
            ResourceKey::Named { kind: Kind::Profile, name, .. } => {
                self.workloads.set_profile(name, value) && self.has_local_workload_peers()
            }
            ResourceKey::Named { kind: Kind::BgpConfiguration, name, .. } => {
                let changed = self.configuration.set(&self.node, name, value);
                self.services.set_ranges(&self.service_ranges());
                changed
            }
            ResourceKey::Named { kind: Kind::BgpPeer, name, .. } => {
                let peering = match value.map(|value| &**value) {
                    Some(Resource::BgpPeer(peer)) => Some(Peering::new(&peer.metadata, &peer.spec, &self.nodes)),
                    _ => None,
                };
                put(&mut self.peers, name, peering)
            }
            ResourceKey::Named { kind: Kind::BgpFilter, name, .. } => {
                let filter = match value.map(|value| &**value) {
                    Some(Resource::BgpFilter(filter)) => {
                        Some(CompiledFilter::new(name, &filter.metadata, &filter.spec))
                    }
                    _ => None,
                };
                put(&mut self.filters, name, filter)
            }
            ResourceKey::Named { kind: Kind::FelixConfiguration, name, .. } if **name == *"default" => {
                self.felix = value.cloned();
                false
            }
            ResourceKey::Affinity { owner: AffinityOwner::Host(host), block } if *host == self.node => {
                let ours = matches!(value.map(|value| &**value), Some(Resource::BlockAffinity(affinity)) if affinity.is_confirmed());
                if ours { self.blocks.insert(*block) } else { self.blocks.remove(block) }
            }
            _ => false,
        }
    }

    /// Takes in what a secret of the agent's namespace holds, by key; none if there is no such secret. Tells whether anything changed.
    pub fn handle_secret(&mut self, name: &str, value: Option<BTreeMap<String, String>>) -> bool {
        self.secrets.set(name, value)
    }

    /// Takes in a service. Tells whether anything changed.
    pub fn handle_service(&mut self, key: &ServiceKey, value: Option<ServiceFacts>) -> bool {
        self.services.set_service(key, value)
    }

    /// Takes in a slice of a service's endpoints. Tells whether anything changed.
    pub fn handle_endpoint_slice(&mut self, key: &EndpointSliceKey, value: Option<&EndpointSliceFacts>) -> bool {
        self.services.set_slice(key, value)
    }

    /// Takes in the metric of the route to one address of a workload here, where it is not the ordinary one: while a workload migrates,
    /// its new host has a lower one, and the address is announced even out of an own block. Tells whether anything changed.
    pub fn handle_priority(&mut self, address: Cidr, priority: Option<u32>) -> bool {
        put(&mut self.priorities, &address, priority)
    }

    /// What this node's speaker should do.
    pub fn desired(&self) -> DesiredBgp {
        let Some((own, local)) = self.speaker() else { return DesiredBgp::default() };
        DesiredBgp {
            local: Some(local),
            peers: self.sessions(&own.speaker).into_peers(),
            dynamic: Vec::new(),
            originated: self.originated(own),
            export: Arc::new(self.export()),
            kernel: Arc::new(self.kernel(own)),
        }
    }

    /// This node's blocks: traffic to addresses in them that no workload has must be discarded here, or it would leave by the default
    /// route and come back. Host-sized blocks are left out: they have no such addresses.
    pub fn local_blocks(&self) -> Vec<Cidr> {
        self.blocks.iter().filter(|block| !block.is_host()).copied().collect()
    }

    /// Names of the secrets that passwords of this node's sessions are in. Whoever can read them hands them in.
    pub fn secrets(&self) -> BTreeSet<Arc<str>> {
        self.passwords().filter_map(|(_, reference)| reference.secret().cloned()).collect()
    }

    /// Where passwords are, of the mesh (without a name) and of BGPPeers that this node may be an end of.
    fn passwords(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &KeyRef)> {
        let settings = self.configuration.settings();
        let mesh = settings.mesh.then_some((None, &settings.mesh_password));
        let peers = self.peers.iter().filter(|(_, peering)| peering.concerns(&self.node));
        mesh.into_iter().chain(peers.map(|(name, peering)| (Some(name), &peering.password)))
    }

    /// This node, if it speaks BGP.
    fn speaker(&self) -> Option<(&Node, LocalSpeaker)> {
        let own = self.nodes.get(&self.node).filter(|own| !own.speaker.is_nobody())?;
        let settings = self.configuration.settings();
        let local = LocalSpeaker {
            node: (*self.node).into(),
            as_number: own.speaker.as_number.unwrap_or(settings.as_number),
            router_id: own.speaker.router_id(&self.node, self.router_id)?,
            ipv4: match own.speaker.address(Family::V4) {
                Some(IpAddr::V4(address)) => Some(address),
                _ => None,
            },
            ipv6: match own.speaker.address(Family::V6) {
                Some(IpAddr::V6(address)) => Some(address),
                _ => None,
            },
            cluster_id: own.speaker.cluster_id.as_deref().and_then(|id| id.parse::<Ipv4Addr>().ok()),
            listen: Listen {
                port: self.configuration.port(&self.node).unwrap_or(self.port),
                own_addresses: settings.own_addresses,
            },
        };
        Some((own, local))
    }

    fn service_ranges(&self) -> ServiceRanges {
        let configured = self.configuration.settings().services.clone();
        let cluster = self.cluster_ranges.clone().unwrap_or_else(|| configured.cluster.clone());
        ServiceRanges { cluster, ..configured }
    }

    fn set_node(&mut self, name: &Arc<str>, value: Option<&Arc<Resource>>) -> bool {
        let node = value.and_then(|value| Node::new(value));
        if self.nodes.get(name) == node.as_ref() {
            return false;
        }
        let relabelled = self.nodes.get(name).map(|node| &node.labels) != node.as_ref().map(|node| &node.labels);
        if relabelled {
            self.peers.values_mut().for_each(|peering| peering.set_node(name, node.as_ref()));
        }
        put(&mut self.nodes, name, node)
    }

    fn set_workload(&mut self, update: &Update) -> bool {
        let workload = Workload::new(update, &self.node, &self.prefixes);
        let Some(states) = self.workloads.set(&update.key, workload) else { return false };
        let [former, now] = states.each_ref().map(|state| state.as_ref().map_or(&[][..], |state| &state.addresses));
        let gone = former.iter().filter(|address| !now.contains(address));
        let new = now.iter().filter(|address| !former.contains(address));
        gone.chain(new).any(|address| self.is_announced_alone(address)) || self.is_peer_of_ours(states.iter().flatten())
    }

    fn has_local_workload_peers(&self) -> bool {
        self.peers.values().any(|peering| peering.workloads(&self.node).is_some())
    }

    /// Whether any BGPPeer selects a workload, in any of these states.
    fn is_peer_of_ours<'a>(&self, mut states: impl Iterator<Item = &'a Workload>) -> bool {
        states.any(|workload| {
            let mut selectors = self.peers.values().filter_map(|peering| peering.workloads(&self.node));
            selectors.any(|selector| self.workloads.is_selected(selector, workload))
        })
    }
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
