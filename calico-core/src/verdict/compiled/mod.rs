//! The compiled evaluator: the same verdicts as those of [`ActiveState`], without looking at rules that cannot match.
//!
//! In come the graph's events, each at the cost of what it changes; questions are put to an [`Asker`]. Sets, lists of prefixes, policies,
//! profiles and stacks are numbers here. Each rule has a bit in one space of words, and each thing that a rule can ask of a packet (a set or list that
//! holds its source, one that holds its destination, its protocol and port) knows the bits of the rules that ask it. Whoever asks keeps those
//! bits in the order of the stack in question. So a packet's candidates are a few words of logic, whatever the sets hold and however many
//! policies there are: found for 512 rules at a time, then checked one by one, in order.
//! Candidates are never too few; the check is the plain evaluator's own.

mod ask;
mod conditions;
mod explain;
mod facts;
mod holders;
mod index;
mod layout;
mod postings;
mod services;
mod space;
mod stacks;
mod wanting;

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use hashbrown::HashMap;

use self::index::Index;
use self::stacks::{Name, Stacks};
use super::passage::HostStacks;
use super::state::ActiveState;
use crate::calc::event::{
    ActiveEndpoint, ActiveHostEndpoint, EndpointId, Event, HostInterfaces, IpSetKind, Member, SetId,
};
use crate::net::InterfaceName;

pub use ask::Asker;
pub(super) use facts::{Facts, Held};
pub(super) use holders::ConditionId;
pub(super) use layout::{Layout, Lines};
pub(super) use stacks::StackId;
pub(super) use wanting::Words;

/// Everything that is active on one host, ready to be asked about very many flows.
///
/// ```
/// use calico_core::calc::Graph;
/// use calico_core::verdict::Compiled;
/// let (mut graph, mut compiled) = (Graph::new("node-1"), Compiled::default());
/// // graph.handle_update(&update) for each …
/// graph.flush().iter().for_each(|event| compiled.apply(event));
/// let mut asker = compiled.asker();
/// // asker.passage(&settings, &passage) for each …
/// # let _ = &mut asker;
/// ```
#[derive(Debug, Default)]
pub struct Compiled {
    state: ActiveState,
    index: Index,
    stacks: Stacks,
    endpoints: HashMap<EndpointId, Endpoint>,
    host_endpoints: HashMap<EndpointId, HostEndpoint>,
    /// Host endpoints by interface, or of all others. More than one claims an interface only while it passes to another.
    interfaces: HashMap<Option<InterfaceName>, BTreeSet<EndpointId>>,
}

#[derive(Debug)]
struct Endpoint {
    value: Arc<ActiveEndpoint>,
    ingress: StackId,
    egress: StackId,
}

#[derive(Debug)]
struct HostEndpoint {
    value: Arc<ActiveHostEndpoint>,
    stacks: HostStacks<StackId>,
}

impl Compiled {
    /// Takes an event in.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::SetAdded { id, members, .. } => self.add_set(*id, members),
            Event::SetChanged { id, added, removed } if self.state.sets.contains_key(id) => {
                self.index.conditions.change(*id, removed, false);
                self.index.conditions.change(*id, added, true);
            }
            Event::SetRemoved(id) => self.remove_set(*id),
            Event::PolicySet { id, rules } => {
                self.stacks.set_rules(Name::Policy(id.clone()), Some(rules), &mut self.index);
            }
            Event::PolicyRemoved(id) => self.stacks.set_rules(Name::Policy(id.clone()), None, &mut self.index),
            Event::ProfileSet { id, rules } => {
                self.stacks.set_rules(Name::Profile(id.clone()), Some(rules), &mut self.index);
            }
            Event::ProfileRemoved(id) => self.stacks.set_rules(Name::Profile(id.clone()), None, &mut self.index),
            Event::EndpointSet { id, endpoint } => self.set_endpoint(id, Some(endpoint)),
            Event::EndpointRemoved(id) => self.set_endpoint(id, None),
            Event::HostEndpointSet { id, endpoint } => self.set_host_endpoint(id, Some(endpoint)),
            Event::HostEndpointRemoved(id) => self.set_host_endpoint(id, None),
            Event::SetChanged { .. } | Event::NetworkSet(_) => {}
        }
        self.state.apply(event);
    }

    /// The same, as plain as it was told.
    pub const fn state(&self) -> &ActiveState {
        &self.state
    }

    /// Whom to ask. It remembers between questions, so keep it for many.
    pub fn asker(&self) -> Asker<'_> {
        Asker::new(self)
    }

    /// An announced set is in use, whether a rule refers to it or not.
    fn add_set(&mut self, id: SetId, members: &[Member]) {
        let conditions = &mut self.index.conditions;
        match self.state.sets.get(&id) {
            Some((_, former)) => conditions.change(id, former, false),
            None => {
                conditions.take_set(id);
            }
        }
        conditions.change(id, members, true);
    }

    fn remove_set(&mut self, id: SetId) {
        let Some((_, members)) = self.state.sets.get(&id) else { return };
        let conditions = &mut self.index.conditions;
        conditions.change(id, members, false);
        if let Some(number) = conditions.id_of(id) {
            conditions.release(number);
        }
    }

    fn set_endpoint(&mut self, id: &EndpointId, endpoint: Option<&Arc<ActiveEndpoint>>) {
        let new = endpoint.map(|endpoint| Endpoint {
            value: endpoint.clone(),
            ingress: self.stacks.take(&endpoint.ingress),
            egress: self.stacks.take(&endpoint.egress),
        });
        let former = match new {
            Some(new) => self.endpoints.insert(id.clone(), new),
            None => self.endpoints.remove(id),
        };
        former.into_iter().flat_map(|former| [former.ingress, former.egress]).for_each(|id| self.stacks.release(id));
    }

    fn set_host_endpoint(&mut self, id: &EndpointId, endpoint: Option<&Arc<ActiveHostEndpoint>>) {
        let new = endpoint.map(|endpoint| HostEndpoint {
            value: endpoint.clone(),
            stacks: HostStacks::of(endpoint, |stack| self.stacks.take(stack)),
        });
        let former = match new {
            Some(new) => self.host_endpoints.insert(id.clone(), new),
            None => self.host_endpoints.remove(id),
        };
        if let Some(former) = former {
            self.claim(&former.value.interfaces, id, false);
            former.stacks.all().into_iter().for_each(|id| self.stacks.release(id));
        }
        if let Some(endpoint) = endpoint {
            self.claim(&endpoint.interfaces, id, true);
        }
    }

    fn claim(&mut self, interfaces: &HostInterfaces, id: &EndpointId, present: bool) {
        let (named, others) = match interfaces {
            HostInterfaces::Named(names) => (names.as_slice(), None),
            HostInterfaces::Others => (&[][..], Some(None)),
        };
        for interface in named.iter().copied().map(Some).chain(others) {
            let claims = self.interfaces.entry(interface).or_default();
            if present {
                claims.insert(id.clone());
            } else {
                claims.remove(id);
            }
            if claims.is_empty() {
                self.interfaces.remove(&interface);
            }
        }
    }
}

impl From<ActiveState> for Compiled {
    fn from(state: ActiveState) -> Self {
        let mut compiled = Self::default();
        let ActiveState { sets, policies, profiles, endpoints, host_endpoints, network } = state;
        let sets = sets.into_iter().map(|(id, (kind, members))| added(id, kind, members));
        let policies = policies.into_iter().map(|(id, rules)| Event::PolicySet { id, rules });
        let profiles = profiles.into_iter().map(|(id, rules)| Event::ProfileSet { id, rules });
        let endpoints = endpoints.into_iter().map(|(id, endpoint)| Event::EndpointSet { id, endpoint });
        let hosts = host_endpoints.into_iter().map(|(id, endpoint)| Event::HostEndpointSet { id, endpoint });
        let events = sets.chain(policies).chain(profiles).chain(endpoints).chain(hosts);
        events.chain([Event::NetworkSet(network)]).for_each(|event| compiled.apply(&event));
        compiled
    }
}

fn added(id: SetId, kind: IpSetKind, members: BTreeSet<Member>) -> Event {
    Event::SetAdded { id, kind, members: members.into_iter().collect() }
}

#[cfg(test)]
impl Compiled {
    /// What is left in the index though nothing is active.
    pub(super) fn leftover(&self) -> Option<&'static str> {
        let parts = [
            ("conditions", self.index.conditions.is_empty()),
            ("services", self.index.services.is_empty()),
            ("space", self.index.space.is_empty()),
            ("stacks", self.stacks.is_empty()),
            ("interfaces", self.interfaces.is_empty()),
        ];
        parts.into_iter().find(|(_, is_empty)| !is_empty).map(|(name, _)| name)
    }
}
