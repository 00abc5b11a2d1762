//! Asking: one packet after the other.

use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::Equivalent;

use super::facts::{Facts, Held};
use super::holders::ConditionId;
use super::index::Index;
use super::stacks::{Compact, StackId};
use super::walk::Walk;
use super::wanting::Memo;
use super::{Compiled, Endpoint, HostEndpoint as Host};
use crate::calc::event::{EndpointId, Network};
use crate::flow::{Decision, Flow, Passage};
use crate::net::{Family, InterfaceName};
use crate::resource::{PolicyType, ResourceKey};
use crate::verdict::passage::{self, Evaluator, HostEndpoint, PassageVerdict, Settings, Workload, of_direction};
use crate::verdict::step::{Side, Step, Verdict};

/// Asks a [`Compiled`] about one flow after the other.
#[derive(Debug)]
pub struct Asker<'a> {
    compiled: &'a Compiled,
    source: Address,
    destination: Address,
    services: Memo,
    /// Whether steps are wanted.
    explains: bool,
    /// Up to so many rules are checked one by one.
    few_rules: usize,
}

impl<'a> Asker<'a> {
    pub(super) fn new(compiled: &'a Compiled) -> Self {
        let (source, destination) = (Address::new(Side::Source), Address::new(Side::Destination));
        Self { compiled, source, destination, services: Memo::default(), explains: true, few_rules: FEW_RULES }
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
        self.compiled.stacks.stack(stack).is_some_and(|stack| !stack.tiers.is_empty())
    }

    fn walk(&mut self, stack: StackId, direction: PolicyType, flow: &Flow, steps: &mut Vec<Step>) -> Option<Decision> {
        let Compiled { index, stacks, .. } = self.compiled;
        let stack = stacks.stack(stack)?;
        let Flow { protocol, source_port, destination_port, .. } = *flow;
        let holders = index.conditions.holders();
        let from_port = holders.of_port(&(flow.source, protocol, source_port));
        let named = holders.of_port(&(flow.destination, protocol, destination_port));
        let is_large = self.compiled.has_more(self.few_rules, stack, direction);
        let (source, from) = self.source.look_up(flow.source, is_large, index);
        let (destination, to) = self.destination.look_up(flow.destination, is_large, index);
        let wanting = is_large.then(|| {
            let make = || index.wanting_service(flow.family(), protocol, destination_port, named);
            let key = [protocol.into(), destination_port.into()].into_iter().chain(named.iter().copied());
            let key: Vec<u32> = key.collect();
            [from, to, self.services.words(flow.family(), &key, make)]
        });
        let facts = Facts {
            source: Held { address: source, port: from_port },
            destination: Held { address: destination, port: named },
        };
        let walk = Walk { compiled: self.compiled, facts, wanting, flow, direction, explains: self.explains };
        walk.run(stack, steps)
    }
}

/// One address of the packet in question.
#[derive(Debug)]
struct Address {
    side: Side,
    address: Option<IpAddr>,
    /// Conditions that hold it, in order.
    conditions: Vec<ConditionId>,
    memo: Memo,
}

impl Address {
    fn new(side: Side) -> Self {
        Self { side, address: None, conditions: Vec::new(), memo: Memo::default() }
    }

    /// Conditions that hold it and, if they are needed, rules that may want it.
    fn look_up(&mut self, address: IpAddr, is_large: bool, index: &Index) -> (&[ConditionId], &[u64]) {
        if self.address != Some(address) {
            self.address = Some(address);
            index.conditions.holders().of_address(address, &mut self.conditions);
        }
        if !is_large {
            return (&self.conditions, &[]);
        }
        let family = Family::of(address);
        let make = || index.wanting_address(family, self.side, &self.conditions);
        (&self.conditions, self.memo.words(family, &self.conditions, make))
    }
}

impl Compiled {
    /// Whether a stack's policies have room for more rules than so many.
    fn has_more(&self, than: usize, stack: &Compact, direction: PolicyType) -> bool {
        let mut rules = 0;
        let owners = stack.tiers.iter().flat_map(|tier| &tier.policies);
        owners.into_iter().any(|owner| {
            rules += self.stacks.span(*owner, direction).map_or(0, |span| 64 * span.words as usize);
            rules > than
        })
    }
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
