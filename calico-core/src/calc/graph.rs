//! The graph: wiring of the nodes, and the flush.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::{mem, net::IpAddr};

use super::active_rules::{Activation, Dirty};
use super::addresses::Addresses;
use super::admit::{self, Admitted, Endpoint, Profile};
use super::diagnostic::{Diagnostics, Finder, Problem};
use super::dispatch::Dispatch;
use super::event::{
    ActiveEndpoint, ActiveEntity, ActiveRule, ActiveRules, EndpointId, Event, PolicyId, ProfileId, SetId, Stack,
};
use super::ip_set::IpSets;
use super::policy_order::PolicyOrder;
use super::rule_scan::{self, Scan};
use super::sequence::Batch;
use crate::net::{Cidr, InterfaceName};
use crate::resource::{Action, DEFAULT_ALLOW_PROFILE, Kind, PolicyType, ResourceKey};
use crate::update::Update;

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
    dispatch: Dispatch,
    addresses: Addresses,
    activation: Activation,
    order: PolicyOrder,
    sets: IpSets,
    diagnostics: Diagnostics,
    policies: BTreeMap<ResourceKey, Sent>,
    profiles: BTreeMap<Arc<str>, Sent>,
    endpoints: BTreeMap<ResourceKey, Arc<ActiveEndpoint>>,
    departed: BTreeSet<IpAddr>,
}

/// Rules as the renderer knows them, and the sets that they hold.
#[derive(Debug)]
struct Sent {
    rules: Arc<ActiveRules>,
    sets: Vec<SetId>,
}

impl Graph {
    /// A graph for the host of that node name.
    pub fn new(host: &str) -> Self {
        Self::of(Some(host))
    }

    /// A graph for all hosts at once: each endpoint of the cluster is active. For whoever asks about any flow, and enforces none.
    pub fn of_cluster() -> Self {
        Self::of(None)
    }

    fn of(host: Option<&str>) -> Self {
        let mut graph = Self {
            dispatch: Dispatch::new(host),
            addresses: Addresses::default(),
            activation: Activation::default(),
            order: PolicyOrder::default(),
            sets: IpSets::default(),
            diagnostics: Diagnostics::default(),
            policies: BTreeMap::new(),
            profiles: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            departed: BTreeSet::new(),
        };
        graph.set_profile(&DEFAULT_ALLOW_PROFILE.into(), None);
        graph
    }

    /// Names of workload interfaces start with one of these instead of `cali`. They must be the renderer's, and given before the
    /// first update.
    #[must_use]
    pub fn with_workload_prefixes(mut self, prefixes: Vec<InterfaceName>) -> Self {
        self.dispatch.set_prefixes(prefixes);
        self
    }

    /// Takes in the new state of one key. Cheap: the work is done by the next flush.
    pub fn handle_update(&mut self, update: &Update) {
        let (admitted, problem) = admit::admit(update);
        let key = &update.key;
        if !matches!(admitted, Admitted::Irrelevant) {
            self.diagnostics.set(key, Finder::Admit, problem.into_iter().collect());
        }
        match admitted {
            Admitted::Endpoint(endpoint) => {
                self.sets.set_endpoint(key, endpoint.as_ref());
                for (key, change) in self.dispatch.update(key, endpoint.as_ref(), &mut self.diagnostics) {
                    self.addresses.update(&key, change.as_ref(), &mut self.diagnostics);
                    self.activation.set_endpoint(&key, change);
                }
            }
            Admitted::NetworkSet(set) => self.sets.set_network_set(key, set.as_ref()),
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
            Admitted::Node | Admitted::Irrelevant => {}
        }
    }

    /// Works out everything since the last flush. The events are in an order that is safe to carry out (see
    /// [`super::event`]); what came and went in between is not mentioned.
    pub fn flush(&mut self) -> Vec<Event> {
        let mut batch = Batch::default();
        self.activation.settle();
        let Dirty { endpoints, policies, profiles } = self.activation.take_dirty();
        for key in policies {
            self.flush_policy(key, &mut batch);
        }
        for name in profiles {
            self.flush_profile(name, &mut batch);
        }
        (batch.sets, batch.sets_removed) = self.sets.flush();
        for key in endpoints {
            self.flush_endpoint(key, &mut batch);
        }
        self.order.forget_unused();
        batch.into_events()
    }

    /// Addresses that their workload had no more, at some time since the last call: the connections of whoever has them next are not
    /// those that this host remembers. To be asked after [`flush`](Self::flush). In order.
    ///
    /// They are addresses that left an endpoint of this host or its interface, and those that left an endpoint of any host and thereby
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

    fn set_profile(&mut self, name: &Arc<str>, profile: Option<Profile>) {
        let built_in = || Kind::Profile.is_built_in(name).then(Profile::default_allow).flatten();
        let profile = profile.or_else(built_in);
        let labels = profile.as_ref().and_then(|one| one.object()).map(|object| &object.spec.labels_to_apply);
        let pairs = labels.map(|labels| labels.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        self.sets.set_profile_labels(name, pairs);
        self.activation.set_profile(name, profile);
    }

    fn flush_policy(&mut self, key: ResourceKey, batch: &mut Batch) {
        let former = self.policies.remove(&key);
        let scan = self.activation.active_policy(&key).map(|policy| {
            let rules = |direction| policy.rules(direction);
            rule_scan::scan(key.namespace(), rules(PolicyType::Ingress), rules(PolicyType::Egress))
        });
        let problems = scan.as_ref().map(|scan| scan.problems.clone());
        self.diagnostics.set(&key, Finder::Scan, problems.unwrap_or_default());
        let sent = scan.map(|scan| self.hold(scan));
        let id = PolicyId(key.clone());
        match (&former, &sent) {
            (Some(former), Some(sent)) if former.rules == sent.rules => {}
            (_, Some(sent)) => batch.policies.push(Event::PolicySet { id, rules: sent.rules.clone() }),
            (Some(_), None) => batch.policies_removed.push(Event::PolicyRemoved(id)),
            (None, None) => {}
        }
        self.policies.extend(sent.map(|sent| (key, sent)));
        self.let_go(former);
    }

    fn flush_profile(&mut self, name: Arc<str>, batch: &mut Batch) {
        let former = self.profiles.remove(&name);
        let active = self.activation.active_profile(&name);
        let scan = active.map(|profile| match profile.and_then(|profile| profile.object()) {
            Some(object) => rule_scan::scan(None, &object.spec.ingress, &object.spec.egress),
            None => Scan { rules: deny_all(), problems: vec![Problem::MissingProfile], ..Scan::default() },
        });
        let problems = scan.as_ref().map(|scan| scan.problems.clone());
        self.diagnostics.set(&ResourceKey::cluster(Kind::Profile, &name), Finder::Scan, problems.unwrap_or_default());
        let sent = scan.map(|scan| self.hold(scan));
        let id = ProfileId(name.clone());
        match (&former, &sent) {
            (Some(former), Some(sent)) if former.rules == sent.rules => {}
            (_, Some(sent)) => batch.profiles.push(Event::ProfileSet { id, rules: sent.rules.clone() }),
            (Some(_), None) => batch.profiles_removed.push(Event::ProfileRemoved(id)),
            (None, None) => {}
        }
        self.profiles.extend(sent.map(|sent| (name, sent)));
        self.let_go(former);
    }

    fn flush_endpoint(&mut self, key: ResourceKey, batch: &mut Batch) {
        let active = self.active_endpoint(&key);
        let former = self.endpoints.remove(&key);
        if let Some(former) = &former {
            let stays = active.as_ref().filter(|active| active.interface == former.interface);
            let gone = former.addresses.iter().filter(|net| !stays.is_some_and(|stays| stays.addresses.contains(net)));
            self.departed.extend(gone.map(Cidr::address));
        }
        let id = EndpointId(key.clone());
        match (former, active) {
            (Some(former), Some(active)) if *former == active => {
                self.endpoints.insert(key, former);
            }
            (_, Some(active)) => {
                let endpoint = Arc::new(active);
                batch.endpoints.push(Event::EndpointSet { id, endpoint: endpoint.clone() });
                self.endpoints.insert(key, endpoint);
            }
            (Some(_), None) => batch.endpoints_removed.push(Event::EndpointRemoved(id)),
            (None, None) => {}
        }
    }

    fn active_endpoint(&mut self, key: &ResourceKey) -> Option<ActiveEndpoint> {
        let Some(endpoint) = self.activation.endpoint(key) else {
            self.diagnostics.set(key, Finder::Order, Vec::new());
            return None;
        };
        let sorted = self.order.sort(self.activation.policies_of(key));
        let mut missing = Vec::new();
        for tier in sorted.iter().map(|placed| placed.policy.tier()).filter(|tier| !self.order.has_tier(tier)) {
            let problem = Problem::MissingTier { tier: tier.into() };
            if !missing.contains(&problem) {
                missing.push(problem);
            }
        }
        self.diagnostics.set(key, Finder::Order, missing);
        let profiles: Vec<ProfileId> = endpoint.profiles().map(|name| ProfileId(name.into())).collect();
        let ingress = self.order.stack(&sorted, &profiles, PolicyType::Ingress);
        let egress = self.order.stack(&sorted, &profiles, PolicyType::Egress);
        describe(endpoint, ingress, egress)
    }

    /// Refers to the sets of scanned rules.
    fn hold(&mut self, scan: Scan) -> Sent {
        let sets = scan.sets.iter().map(|definition| self.sets.acquire(definition)).collect();
        Sent { rules: Arc::new(scan.rules), sets }
    }

    fn let_go(&mut self, sent: Option<Sent>) {
        for id in sent.into_iter().flat_map(|sent| sent.sets) {
            self.sets.release(id);
        }
    }
}

fn describe(endpoint: &Endpoint, ingress: Arc<Stack>, egress: Arc<Stack>) -> Option<ActiveEndpoint> {
    let spec = &endpoint.object()?.spec;
    Some(ActiveEndpoint {
        interface: spec.interface_name?,
        mac: spec.mac,
        addresses: spec.addresses().collect(),
        allowed_sources: spec.allow_spoofed_source_prefixes.clone(),
        floating: Vec::new(),
        qos: None,
        ingress,
        egress,
    })
}

/// What a profile that does not exist does.
fn deny_all() -> ActiveRules {
    let deny = ActiveRule {
        action: Action::Deny,
        family: None,
        protocol: None,
        not_protocol: None,
        icmp: None,
        not_icmp: None,
        source: ActiveEntity::default(),
        destination: ActiveEntity::default(),
    };
    ActiveRules { tier: None, ingress: vec![deny.clone()], egress: vec![deny] }
}
