//! Asking: one packet after the other.

use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::hash_map::Entry;
use hashbrown::{Equivalent, HashMap};

use super::explain::Explain;
use super::facts::{Facts, Held};
use super::holders::ConditionId;
use super::index::Index;
use super::layout::{Layout, Line};
use super::stacks::StackId;
use super::wanting::Memo;
use super::{Compiled, Endpoint, HostEndpoint as Host};
use crate::calc::event::{EndpointId, Network};
use crate::flow::{Decision, Flow, Passage};
use crate::net::{Family, InterfaceName};
use crate::resource::{PolicyType, ResourceKey};
use crate::verdict::passage::{
    self, Evaluator, HostEndpoint, HostStacks, PassageVerdict, Settings, Workload, of_direction,
};
use crate::verdict::step::{Side, Step, Verdict};

/// Asks a [`Compiled`] about one flow after the other.
#[derive(Debug)]
pub struct Asker<'a> {
    compiled: &'a Compiled,
    source: Address,
    destination: Address,
    services: Memo,
    /// By number.
    layouts: HashMap<u32, Layout<'a>>,
    /// Whether steps are wanted.
    explains: bool,
    /// Up to so many rules are checked one by one.
    few_rules: usize,
}

impl<'a> Asker<'a> {
    pub(super) fn new(compiled: &'a Compiled) -> Self {
        let (source, destination) = (Address::new(Side::Source), Address::new(Side::Destination));
        let (services, layouts) = (Memo::default(), HashMap::new());
        Self { compiled, source, destination, services, layouts, explains: true, few_rules: FEW_RULES }
    }

    /// Looks for candidates however few rules there are.
    #[cfg(test)]
    pub(in crate::verdict) const fn always_by_index(mut self) -> Self {
        self.few_rules = 0;
        self
    }

    /// What policy and profiles say to the first packet of a flow to (ingress) or from (egress) an endpoint. Of a host endpoint it is
    /// the policy for traffic of the host itself.
    pub fn judge(&mut self, endpoint: &EndpointId, direction: PolicyType, flow: &Flow) -> Verdict {
        let stack = self.compiled.stack_of(endpoint, direction);
        self.explains = true;
        passage::judge(self, stack, direction, flow)
    }

    /// The same without the steps, and faster.
    pub fn decide(&mut self, endpoint: &EndpointId, direction: PolicyType, flow: &Flow) -> Decision {
        let stack = self.compiled.stack_of(endpoint, direction);
        self.explains = false;
        let walk = |stack| self.walk(stack, direction, flow, &mut Vec::new());
        stack.and_then(walk).unwrap_or(Decision::Deny)
    }

    /// What the host does with a packet that passes through it.
    pub fn passage(&mut self, settings: &Settings, passage: &Passage<'_>) -> PassageVerdict {
        self.explains = true;
        passage::run(self, settings, passage)
    }
}

impl Compiled {
    pub(in crate::verdict) fn stack_of(&self, endpoint: &EndpointId, direction: PolicyType) -> Option<StackId> {
        let found = self.endpoints.get(endpoint).map(|found| [found.ingress, found.egress]);
        let host = || self.host_endpoints.get(endpoint).map(|found| found.stacks.normal);
        found.or_else(host).map(|stacks| of_direction(stacks, direction))
    }

    /// The stacks of a host endpoint.
    pub(in crate::verdict) fn host_stacks(&self, endpoint: &EndpointId) -> Option<HostStacks<StackId>> {
        self.host_endpoints.get(endpoint).map(|found| found.stacks)
    }

    pub(in crate::verdict) fn stack_has_tiers(&self, stack: StackId) -> bool {
        self.stacks.stack(stack).is_some_and(|stack| !stack.tiers.is_empty())
    }
}

impl<'a> Evaluator<'a> for Asker<'a> {
    type Stack = StackId;

    fn workload(&self, key: &ResourceKey) -> Option<Workload<'a, StackId>> {
        let Endpoint { value, ingress, egress } = self.compiled.endpoints.get(&ByKey(key))?;
        Some(Workload { endpoint: value, ingress: *ingress, egress: *egress })
    }

    fn host_endpoint(&self, interface: Option<InterfaceName>) -> Option<HostEndpoint<'a, StackId>> {
        let id = self.compiled.interfaces.get(&interface)?.first()?;
        let Host { stacks, .. } = self.compiled.host_endpoints.get(id)?;
        Some(HostEndpoint { id, stacks: *stacks })
    }

    fn network(&self) -> &'a Network {
        &self.compiled.state.network
    }

    fn has_tiers(&self, stack: StackId) -> bool {
        self.compiled.stack_has_tiers(stack)
    }

    fn walk(&mut self, stack: StackId, direction: PolicyType, flow: &Flow, steps: &mut Vec<Step>) -> Option<Decision> {
        let Self { compiled, source, destination, services, layouts, explains, few_rules } = self;
        let Compiled { index, .. } = *compiled;
        let Flow { protocol, source_port, destination_port, .. } = *flow;
        let number = number(stack, direction);
        let layout = match layouts.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(compiled.layout(stack, direction)?),
        };
        let holders = index.conditions.holders();
        let from_port = holders.of_port(&(flow.source, protocol, source_port));
        let named = holders.of_port(&(flow.destination, protocol, destination_port));
        let order = (layout.rules() > *few_rules).then_some((number, &*layout));
        let (source, from) = source.look_up(flow.source, order, index);
        let (destination, to) = destination.look_up(flow.destination, order, index);
        let wanting = order.map(|order| {
            let make = || index.wanting_service(flow.family(), protocol, destination_port, named);
            let key = [protocol.into(), destination_port.into()].into_iter().chain(named.iter().copied());
            let key: Vec<u32> = key.collect();
            [from, to, services.lines(flow.family(), &key, order, make)]
        });
        let facts = Facts {
            source: Held { address: &source.conditions, port: from_port },
            destination: Held { address: &destination.conditions, port: named },
        };
        if !*explains {
            return match wanting {
                Some(wanting) => layout.decide(wanting, flow, &facts),
                None => layout.decide([], flow, &facts),
            };
        }
        let lengths = [source, destination].map(|found| found.lengths.as_slice());
        let mut explain = Explain { compiled, flow, facts: &facts, lengths, direction, steps, tried: None };
        match wanting {
            Some(wanting) => layout.run(wanting, &mut explain),
            None => layout.run([], &mut explain),
        }
    }
}

/// One address of the packet in question.
#[derive(Debug)]
struct Address {
    side: Side,
    address: Option<IpAddr>,
    found: Found,
    /// Room for looking up.
    holders: Vec<(ConditionId, u8)>,
    memo: Memo,
}

/// Conditions that hold an address, in order.
#[derive(Debug, Default)]
struct Found {
    conditions: Vec<ConditionId>,
    /// Of each, the length of the prefix by which it does.
    lengths: Vec<u8>,
}

impl Address {
    fn new(side: Side) -> Self {
        Self { side, address: None, found: Found::default(), holders: Vec::new(), memo: Memo::default() }
    }

    /// Conditions that hold it and, in an order that is asked for, rules that may want it.
    fn look_up(&mut self, address: IpAddr, order: Option<(u32, &Layout<'_>)>, index: &Index) -> (&Found, &[Line]) {
        let Self { found, holders, .. } = self;
        if self.address != Some(address) {
            self.address = Some(address);
            index.conditions.holders().of_address(address, holders);
            found.conditions.clear();
            found.conditions.extend(holders.iter().map(|(id, _)| *id));
            found.lengths.clear();
            found.lengths.extend(holders.iter().map(|(_, length)| *length));
        }
        let Some(order) = order else { return (found, &[]) };
        let family = Family::of(address);
        let make = || index.wanting_address(family, self.side, &found.conditions);
        (found, self.memo.lines(family, &found.conditions, order, make))
    }
}

/// The number of one direction of a stack.
const fn number(stack: StackId, direction: PolicyType) -> u32 {
    stack << 1 | matches!(direction, PolicyType::Egress) as u32
}

/// The key of an endpoint, without making one.
#[derive(PartialEq, Eq, Hash)]
struct ByKey<'a>(&'a ResourceKey);

impl Equivalent<EndpointId> for ByKey<'_> {
    fn equivalent(&self, id: &EndpointId) -> bool {
        *self.0 == id.0
    }
}

/// Beyond, it pays to know the candidates.
const FEW_RULES: usize = 64;
