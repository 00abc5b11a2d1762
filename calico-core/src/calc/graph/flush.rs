//! What comes out of the graph: objects as they are now against what was told of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::super::active_rules::Dirty;
use super::super::describe;
use super::super::diagnostic::{Finder, Problem};
use super::super::event::{
    ActiveEndpoint, ActiveHostEndpoint, ActiveRule, ActiveRules, EndpointId, Event, PolicyId, ProfileId, SetId,
};
use super::super::local::Local;
use super::super::orders::{Ordered, Orders};
use super::super::peer_sets::PeerSets;
use super::super::policy::Stage;
use super::super::rule_scan::{self, Scan, Scope};
use super::super::sequence::Batch;
use super::Graph;
use crate::net::Cidr;
use crate::resource::{Action, Kind, PolicyType, ResourceKey, Rule};

/// Rules as the renderer knows them, and the sets that they hold.
#[derive(Debug)]
pub(super) struct Sent {
    rules: Arc<ActiveRules>,
    sets: Arc<Held>,
}

impl Sent {
    /// Whether its rules refer to one of these.
    pub(super) fn selects(&self, sets: &BTreeSet<SetId>) -> bool {
        self.sets.selected.iter().any(|id| sets.contains(id))
    }
}

/// References to sets, as often as rules refer to them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    selected: Vec<SetId>,
    services: Vec<SetId>,
}

impl Graph {
    /// Works out everything since the last flush. The events are in an order that is safe to carry out (see
    /// [`event`](super::super::event)); what came and went in between is not mentioned.
    pub fn flush(&mut self) -> Vec<Event> {
        let mut batch = Batch::default();
        self.activation.settle();
        self.settle_floating();
        let mut peers = PeerSets::default();
        let Dirty { endpoints, policies, profiles } = self.activation.take_dirty();
        for key in policies {
            self.flush_policy(key, &mut peers, &mut batch);
        }
        for name in profiles {
            self.flush_profile(name, &mut peers, &mut batch);
        }
        for (sets, removed) in [self.sets.flush(), self.services.flush()] {
            batch.sets.extend(sets);
            batch.sets_removed.extend(removed);
        }
        batch.network.extend(self.network.flush().map(Event::NetworkSet));
        let mut hosts_changed = false;
        let mut orders = Orders::default();
        for key in endpoints {
            match key.kind() {
                Kind::HostEndpoint => hosts_changed |= self.flush_host_endpoint(key, &mut batch),
                _ => self.flush_endpoint(key, &mut orders, &mut batch),
            }
        }
        if hosts_changed && self.dispatch.is_of_a_host() {
            self.diagnose_marks();
        }
        self.order.forget_unused();
        self.rules.forget_unused();
        self.held.forget_unused();
        batch.into_events()
    }

    fn flush_policy(&mut self, key: ResourceKey, peers: &mut PeerSets, batch: &mut Batch) {
        let scan = self.activation.active_policy(&key).map(|policy| {
            let rules = |direction| policy.rules(direction);
            let mut scan = self.scan(peers, key.namespace(), rules(PolicyType::Ingress), rules(PolicyType::Egress));
            scan.rules.tier = Some(policy.tier().into());
            scan
        });
        let former = self.policies.remove(&key);
        let id = PolicyId(key.clone());
        let sent = self.replace_rules(&key, former, scan, &mut |rules| match rules {
            Some(rules) => batch.policies.push(Event::PolicySet { id: id.clone(), rules }),
            None => batch.policies_removed.push(Event::PolicyRemoved(id.clone())),
        });
        self.policies.extend(sent.map(|sent| (key, sent)));
    }

    fn flush_profile(&mut self, name: Arc<str>, peers: &mut PeerSets, batch: &mut Batch) {
        let active = self.activation.active_profile(&name);
        let scan = active.map(|profile| match profile.and_then(|profile| profile.object()) {
            Some(object) => self.scan(peers, None, &object.spec.ingress, &object.spec.egress),
            None => Scan { rules: deny_all(), problems: vec![Problem::MissingProfile], ..Scan::default() },
        });
        let former = self.profiles.remove(&name);
        let key = ResourceKey::cluster(Kind::Profile, &name);
        let id = ProfileId(name.clone());
        let sent = self.replace_rules(&key, former, scan, &mut |rules| match rules {
            Some(rules) => batch.profiles.push(Event::ProfileSet { id: id.clone(), rules }),
            None => batch.profiles_removed.push(Event::ProfileRemoved(id.clone())),
        });
        self.profiles.extend(sent.map(|sent| (name, sent)));
    }

    fn scan(&self, peers: &mut PeerSets, namespace: Option<&str>, ingress: &[Rule], egress: &[Rule]) -> Scan {
        rule_scan::scan(Scope { namespace, knows_services: self.abilities.services }, peers, ingress, egress)
    }

    /// Refers to the sets of new rules, then lets go of those of the former; tells if the rules are others, or gone.
    fn replace_rules(
        &mut self,
        key: &ResourceKey,
        former: Option<Sent>,
        scan: Option<Scan>,
        tell: &mut dyn FnMut(Option<Arc<ActiveRules>>),
    ) -> Option<Sent> {
        let (scan, problems) = scan.map_or_else(Default::default, |mut scan| {
            let problems = core::mem::take(&mut scan.problems);
            (Some(scan), problems)
        });
        self.diagnostics.set(key, Finder::Scan, problems);
        let sent = scan.map(|scan| Sent {
            sets: self.held.share(Held {
                selected: scan.sets.selected.iter().map(|definition| self.sets.acquire(definition)).collect(),
                services: scan.sets.services.iter().map(|definition| self.services.acquire(definition)).collect(),
            }),
            rules: self.rules.share(scan.rules),
        });
        match (&former, &sent) {
            (Some(former), Some(sent)) if former.rules == sent.rules => {}
            (_, Some(sent)) => tell(Some(sent.rules.clone())),
            (Some(_), None) => tell(None),
            (None, None) => {}
        }
        if let Some(former) = former {
            former.sets.selected.iter().for_each(|id| self.sets.release(*id));
            former.sets.services.iter().for_each(|id| self.services.release(*id));
        }
        sent
    }

    fn flush_endpoint(&mut self, key: ResourceKey, orders: &mut Orders, batch: &mut Batch) {
        let active = self.active_endpoint(&key, orders);
        let former = self.endpoints.remove(&key);
        if let Some(former) = &former {
            let stays = active.as_ref().filter(|active| active.interface == former.interface);
            let gone = former.addresses.iter().filter(|net| !stays.is_some_and(|stays| stays.addresses.contains(net)));
            self.departed.extend(gone.map(Cidr::address));
            // A connection stays with whom it was translated to, so a floating address departs where it leads elsewhere, too.
            let gone = former.floating.iter().filter(|pair| !stays.is_some_and(|stays| stays.floating.contains(pair)));
            self.departed.extend(gone.map(|(outside, _)| *outside));
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

    /// Says whether it changed.
    fn flush_host_endpoint(&mut self, key: ResourceKey, batch: &mut Batch) -> bool {
        let active = self.active_host_endpoint(&key);
        let former = self.host_endpoints.remove(&key);
        let id = EndpointId(key.clone());
        match (former, active) {
            (Some(former), Some(active)) if *former == active => {
                self.host_endpoints.insert(key, former);
                return false;
            }
            (_, Some(active)) => {
                let endpoint = Arc::new(active);
                batch.endpoints.push(Event::HostEndpointSet { id, endpoint: endpoint.clone() });
                self.host_endpoints.insert(key, endpoint);
            }
            (Some(_), None) => {
                self.diagnostics.set(&key, Finder::Marks, Vec::new());
                batch.endpoints_removed.push(Event::HostEndpointRemoved(id));
            }
            (None, None) => return false,
        }
        true
    }

    /// Of several marks for packets of one address the first endpoint's by name counts, as in the renderer. A host has few endpoints of its
    /// own: they are gone through together.
    fn diagnose_marks(&mut self) {
        let mut marks: BTreeMap<IpAddr, (&ResourceKey, u8)> = BTreeMap::new();
        for (key, endpoint) in &self.host_endpoints {
            let taken = endpoint.dscp.iter().filter_map(|(address, mark)| {
                let (by, first) = *marks.entry(*address).or_insert((key, *mark));
                (first != *mark).then(|| Problem::MarkTaken { address: *address, by: by.clone() })
            });
            let taken = taken.collect();
            self.diagnostics.set(key, Finder::Marks, taken);
        }
    }

    fn active_endpoint(&mut self, key: &ResourceKey, orders: &mut Orders) -> Option<ActiveEndpoint> {
        let Some(Local::Workload(endpoint)) = self.activation.endpoint(key) else {
            self.diagnostics.set(key, Finder::Order, Vec::new());
            return None;
        };
        let profiles: Vec<ProfileId> = endpoint.profiles().map(|name| ProfileId(name.into())).collect();
        let selecting = self.activation.selecting(key);
        let Ordered { stacks, mut problems } = orders.find(selecting, &profiles).unwrap_or_else(|| {
            let sorted = self.order.sort(self.activation.policies_of(key));
            let problems = self.order.missing_tiers(&sorted);
            let ordered = Ordered { stacks: self.order.stacks(&sorted, &profiles, Stage::Normal), problems };
            orders.remember(selecting, profiles, ordered.clone());
            ordered
        });
        let mut active = describe::workload(endpoint, stacks, self.abilities, &mut problems);
        if let Some(active) = &mut active {
            active.floating.retain(|(outside, _)| !self.addresses.is_owned(*outside));
        }
        self.diagnostics.set(key, Finder::Order, problems);
        active
    }

    fn active_host_endpoint(&mut self, key: &ResourceKey) -> Option<ActiveHostEndpoint> {
        let Some(Local::Host(endpoint)) = self.activation.endpoint(key) else {
            self.diagnostics.set(key, Finder::Order, Vec::new());
            return None;
        };
        let interfaces = self.hosts.interfaces_of(key);
        let sorted = self.order.sort(self.activation.policies_of(key));
        let mut problems = self.order.missing_tiers(&sorted);
        let profiles: Vec<ProfileId> = endpoint.profiles().map(|name| ProfileId(name.into())).collect();
        let active = interfaces.map(|interfaces| ActiveHostEndpoint {
            interfaces,
            dscp: describe::marked(endpoint, &mut problems),
            untracked: self.order.stacks(&sorted, &[], Stage::Untracked),
            pre_dnat: self.order.stack(&sorted, &[], Stage::PreDnat, PolicyType::Ingress),
            normal: self.order.stacks(&sorted, &profiles, Stage::Normal),
            forward: self.order.stacks(&sorted, &[], Stage::Forward),
        });
        self.diagnostics.set(key, Finder::Order, problems);
        active
    }
}

/// What a profile that does not exist does.
fn deny_all() -> ActiveRules {
    let deny = ActiveRule::all(Action::Deny);
    ActiveRules { tier: None, ingress: vec![deny.clone()], egress: vec![deny] }
}
