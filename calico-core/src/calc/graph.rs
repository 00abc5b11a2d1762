//! The graph: wiring of the nodes, and what goes in.

mod floating;
mod flush;
mod reach;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::{mem, net::IpAddr};

use super::abilities::Abilities;
use super::active_rules::Activation;
use super::addresses::Addresses;
use super::admit::{self, Admitted, Profile};
use super::describe;
use super::diagnostic::{Diagnostics, Finder, Problem};
use super::dispatch::Dispatch;
use super::event::{ActiveEndpoint, ActiveHostEndpoint, ActiveRules};
use super::host_endpoints::{self, HostEndpoints};
use super::ip_set::IpSets;
use super::local::Local;
use super::network::Networks;
use super::policy_order::PolicyOrder;
use super::services::Services;
use super::shared::Shared;
use crate::net::{InterfaceList, InterfaceName};
use crate::resource::{DEFAULT_ALLOW_PROFILE, Kind, ResourceKey};
use crate::service::{EndpointSlice, EndpointSliceKey};
use crate::update::Update;
use flush::{Held, Sent};

/// Calculates what one host must enforce, change by change.
///
/// Feed it every update with [`Graph::handle_update`], in any order, and call [`Graph::flush`] when a batch is in. What the
/// events of all flushes add up to depends only on the last state of each key. Before the first snapshot is complete, a flush
/// would tell the truth about half a cluster: the caller waits for in-sync.
///
/// ```
/// # use calico_core::calc::Graph;
/// let mut graph = Graph::new("node-1");
/// // graph.handle_update(&update) for each …
/// assert!(graph.flush().is_empty());
/// ```
#[derive(Debug)]
pub struct Graph {
    abilities: Abilities,
    dispatch: Dispatch,
    addresses: Addresses,
    hosts: HostEndpoints,
    activation: Activation,
    order: PolicyOrder,
    sets: IpSets,
    services: Services,
    network: Networks,
    diagnostics: Diagnostics,
    rules: Shared<ActiveRules>,
    held: Shared<Held>,
    policies: BTreeMap<ResourceKey, Sent>,
    profiles: BTreeMap<Arc<str>, Sent>,
    endpoints: BTreeMap<ResourceKey, Arc<ActiveEndpoint>>,
    host_endpoints: BTreeMap<ResourceKey, Arc<ActiveHostEndpoint>>,
    departed: BTreeSet<IpAddr>,
}

impl Graph {
    /// A graph for the host of that node name.
    pub fn new(host: &str) -> Self {
        Self::of(Some(host))
    }

    /// A graph for all hosts at once: each endpoint of the cluster is active. For whoever asks about any flow, and enforces none. Of
    /// interfaces it knows nothing: a host endpoint has the one that it names, and none where only its addresses are given.
    pub fn of_cluster() -> Self {
        Self::of(None)
    }

    fn of(host: Option<&str>) -> Self {
        let mut graph = Self {
            abilities: Abilities::default(),
            dispatch: Dispatch::new(host),
            addresses: Addresses::default(),
            hosts: HostEndpoints::new(host),
            activation: Activation::new(host.is_none()),
            order: PolicyOrder::default(),
            sets: IpSets::default(),
            services: Services::default(),
            network: Networks::default(),
            diagnostics: Diagnostics::default(),
            rules: Shared::default(),
            held: Shared::default(),
            policies: BTreeMap::new(),
            profiles: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            host_endpoints: BTreeMap::new(),
            departed: BTreeSet::new(),
        };
        graph.set_profile(&DEFAULT_ALLOW_PROFILE.into(), None);
        graph
    }

    /// Names of workload interfaces start with one of these instead of `cali`. They must be the renderer's, and given before the
    /// first update.
    #[must_use]
    pub fn with_workload_prefixes(mut self, prefixes: Vec<InterfaceName>) -> Self {
        self.dispatch.set_prefixes(prefixes.clone());
        self.hosts.set_prefixes(prefixes);
        self
    }

    /// Interfaces whose addresses do not tell which host endpoint has them, instead of `kube-ipvs0` (upstream's `InterfaceExclude`). To be
    /// given before the first interface.
    #[must_use]
    pub fn with_excluded_interfaces(mut self, excluded: InterfaceList) -> Self {
        self.hosts.set_excluded(excluded);
        self
    }

    /// What the host carries out, instead of everything. To be given before the first update.
    #[must_use]
    pub fn with_abilities(mut self, abilities: Abilities) -> Self {
        self.abilities = abilities;
        self.addresses.set_floating(abilities.floating_addresses);
        self
    }

    /// Takes in the new state of one key. Cheap: the work is done by the next flush.
    pub fn handle_update(&mut self, update: &Update) {
        let (admitted, mut problems) = admit::admit(update);
        match &admitted {
            Admitted::HostEndpoint(Some(endpoint)) => problems.extend(describe::unknown_ports(endpoint)),
            // Of hundreds of thousands each host tells of its own.
            Admitted::Endpoint(Some(endpoint)) if !self.dispatch.is_local(endpoint) => {
                problems.retain(|problem| !matches!(problem, Problem::UnknownField(_)));
            }
            _ => {}
        }
        let key = &update.key;
        if !matches!(admitted, Admitted::Irrelevant) {
            self.diagnostics.set(key, Finder::Admit, problems);
        }
        match admitted {
            Admitted::Endpoint(endpoint) => {
                self.sets.set_endpoint(key, endpoint.as_ref());
                for (key, change) in self.dispatch.update(key, endpoint.as_ref(), &mut self.diagnostics) {
                    self.addresses.update(&key, change.as_ref(), &mut self.diagnostics);
                    self.activation.set_endpoint(&key, change.map(Local::Workload));
                }
            }
            Admitted::HostEndpoint(endpoint) => {
                self.sets.set_host_endpoint(key, endpoint.as_ref());
                let changes = self.hosts.update(key, endpoint.as_ref(), &mut self.diagnostics);
                self.take_in(changes);
            }
            Admitted::NetworkSet(set) => self.sets.set_network_set(key, set.as_ref()),
            Admitted::Network => self.network.handle_update(update),
            Admitted::Profile(profile) => {
                let ResourceKey::Named { name, .. } = key else { return };
                self.set_profile(name, profile);
            }
            Admitted::Tier(tier) => {
                let ResourceKey::Named { name, .. } = key else { return };
                if self.order.set_tier(name, tier) {
                    self.activation.touch_tier(name);
                }
            }
            Admitted::Policy(policy) => self.activation.set_policy(key, policy),
            Admitted::Irrelevant => {}
        }
    }

    /// Takes in the new state of one endpoint slice; none means that it is absent.
    pub fn set_endpoint_slice(&mut self, key: &EndpointSliceKey, slice: Option<Arc<EndpointSlice>>) {
        self.services.set_slice(key, slice);
    }

    /// Takes in what is known of an interface of this host: all its addresses, or none if there is no such interface. Those of
    /// workloads are no concern.
    pub fn set_interface(&mut self, name: InterfaceName, addresses: Option<&[IpAddr]>) {
        let changes = self.hosts.set_interface(name, addresses, &mut self.diagnostics);
        self.take_in(changes);
    }

    /// Addresses that their workload had no more, at some time since the last call: the connections of whoever has them next are not
    /// those that this host remembers. To be asked after [`flush`](Self::flush). In order.
    ///
    /// They are addresses, floating ones too, that left an endpoint of this host or its interface (or lead to another of its own), and those that left an endpoint of any host and thereby
    /// a set that rules here refer to. Not a part of the events, as it says what happened and not what is.
    pub fn take_departed(&mut self) -> Vec<IpAddr> {
        let mut departed = mem::take(&mut self.departed);
        departed.append(&mut self.sets.take_departed());
        departed.into_iter().collect()
    }

    /// What is wrong with objects right now, by key.
    pub fn diagnostics(&self) -> impl Iterator<Item = (&ResourceKey, &Problem)> {
        self.diagnostics.iter()
    }

    /// Grows whenever [`Graph::diagnostics`] changes.
    pub const fn diagnostics_revision(&self) -> u64 {
        self.diagnostics.revision()
    }

    fn take_in(&mut self, changes: Vec<host_endpoints::Change>) {
        for (key, endpoint) in changes {
            self.activation.set_endpoint(&key, endpoint.map(Local::Host));
        }
    }

    fn set_profile(&mut self, name: &Arc<str>, profile: Option<Profile>) {
        let built_in = || Kind::Profile.is_built_in(name).then(Profile::default_allow).flatten();
        let profile = profile.or_else(built_in);
        self.sets.set_profile_labels(name, profile.as_ref().map(Profile::labels));
        self.activation.set_profile(name, profile);
    }
}
