//! What is active, as plain as it is told: the readable form of the evaluator.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::passage::{self, Evaluator, HostEndpoint, PassageVerdict, Settings, Workload};
use super::rule::{self, LookUp, Members};
use super::step::{Owner, RuleStep, Step, Verdict};
use crate::calc::event::{
    ActiveEndpoint, ActiveHostEndpoint, ActiveRules, EndpointId, Event, HostInterfaces, IpSetKind, Member, Network,
    PolicyId, ProfileId, SetId, Stack, StackTier,
};
use crate::flow::{Decision, Flow, Passage};
use crate::net::{Cidr, InterfaceName};
use crate::resource::{Action, DefaultAction, PolicyType, ResourceKey};

/// Everything that is active on one host: the sum of the graph's events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ActiveState {
    /// Sets with their members.
    pub sets: BTreeMap<SetId, (IpSetKind, BTreeSet<Member>)>,
    /// Policies.
    pub policies: BTreeMap<PolicyId, Arc<ActiveRules>>,
    /// Profiles.
    pub profiles: BTreeMap<ProfileId, Arc<ActiveRules>>,
    /// Endpoints.
    pub endpoints: BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
    /// Host endpoints.
    pub host_endpoints: BTreeMap<EndpointId, Arc<ActiveHostEndpoint>>,
    /// The network.
    pub network: Arc<Network>,
}

impl ActiveState {
    /// Takes an event in.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::SetAdded { id, kind, members } => {
                self.sets.insert(*id, (*kind, members.iter().copied().collect()));
            }
            Event::SetChanged { id, added, removed } => {
                if let Some((_, members)) = self.sets.get_mut(id) {
                    removed.iter().for_each(|member| {
                        members.remove(member);
                    });
                    members.extend(added);
                }
            }
            Event::SetRemoved(id) => {
                self.sets.remove(id);
            }
            Event::PolicySet { id, rules } => {
                self.policies.insert(id.clone(), rules.clone());
            }
            Event::PolicyRemoved(id) => {
                self.policies.remove(id);
            }
            Event::ProfileSet { id, rules } => {
                self.profiles.insert(id.clone(), rules.clone());
            }
            Event::ProfileRemoved(id) => {
                self.profiles.remove(id);
            }
            Event::EndpointSet { id, endpoint } => {
                self.endpoints.insert(id.clone(), endpoint.clone());
            }
            Event::EndpointRemoved(id) => {
                self.endpoints.remove(id);
            }
            Event::HostEndpointSet { id, endpoint } => {
                self.host_endpoints.insert(id.clone(), endpoint.clone());
            }
            Event::HostEndpointRemoved(id) => {
                self.host_endpoints.remove(id);
            }
            Event::NetworkSet(network) => self.network = network.clone(),
        }
    }

    /// What policy and profiles say to the first packet of a flow to (ingress) or from (egress) an endpoint. Of a host endpoint it is
    /// the policy for traffic of the host itself.
    pub fn judge(&self, endpoint: &EndpointId, direction: PolicyType, flow: &Flow) -> Verdict {
        let found = self.endpoints.get(endpoint).map(|found| [&found.ingress, &found.egress]);
        let host = || self.host_endpoints.get(endpoint).map(|found| [&found.normal.ingress, &found.normal.egress]);
        let stack = found.or_else(host).map(|stacks| passage::of_direction(stacks, direction));
        let mut walker = self;
        passage::judge(&mut walker, stack.map(|stack| &**stack), direction, flow)
    }

    /// What the host does with a packet that passes through it.
    pub fn passage(&self, settings: &Settings, passage: &Passage<'_>) -> PassageVerdict {
        let mut walker = self;
        passage::run(&mut walker, settings, passage)
    }

    /// The same, of one host of the cluster whose state this is as a whole: of all host endpoints only its `uplink` has a say, which has
    /// every interface that is no workload's.
    pub fn passage_at(
        &self,
        uplink: Option<&EndpointId>,
        settings: &Settings,
        passage: &Passage<'_>,
    ) -> PassageVerdict {
        let uplink = uplink.and_then(|id| self.host_endpoints.get_key_value(id));
        passage::run(&mut AtHost { state: self, uplink }, settings, passage)
    }

    fn tier(&self, tier: &StackTier, direction: PolicyType, flow: &Flow, steps: &mut Vec<Step>) -> Tier {
        for policy in &tier.policies {
            let owner = || Owner::Policy { tier: tier.name.clone(), policy: policy.clone() };
            let Some(rules) = self.policies.get(policy) else {
                steps.push(Step::UnknownReference(owner()));
                return Tier::Decided(Decision::Deny);
            };
            if policy.is_staged() {
                let mut tried = Vec::new();
                self.first_match(rules, direction, flow, &owner, &mut tried);
                steps.extend(tried.into_iter().filter_map(|step| match step {
                    Step::Rule(step) => Some(Step::Staged(step)),
                    _ => None,
                }));
                continue;
            }
            match self.first_match(rules, direction, flow, &owner, steps) {
                Some(Action::Allow) => return Tier::Decided(Decision::Allow),
                Some(Action::Deny) => return Tier::Decided(Decision::Deny),
                Some(Action::Pass) => return Tier::Passed,
                Some(Action::Log) | None => {}
            }
        }
        let action = tier.default_action;
        steps.push(Step::EndOfTier { tier: tier.name.clone(), action });
        if action == DefaultAction::Pass { Tier::Passed } else { Tier::Decided(Decision::Deny) }
    }

    /// The action of the first matching rule that does more than log, if there is one.
    fn first_match(
        &self,
        rules: &ActiveRules,
        direction: PolicyType,
        flow: &Flow,
        owner: &impl Fn() -> Owner,
        steps: &mut Vec<Step>,
    ) -> Option<Action> {
        let list = passage::of_direction([&rules.ingress, &rules.egress], direction);
        let matches = |rule| rule::matches(rule, flow, &LookUp { rule, flow, members: self });
        for (index, rule) in list.iter().enumerate().filter(|(_, rule)| matches(rule)) {
            let matched = rule::evidence(rule, flow, self);
            steps.push(Step::Rule(RuleStep { owner: owner(), direction, rule: index, action: rule.action, matched }));
            if rule.action != Action::Log {
                return Some(rule.action);
            }
        }
        None
    }
}

enum Tier {
    Decided(Decision),
    Passed,
}

impl<'a> Evaluator<'a> for &'a ActiveState {
    type Stack = &'a Stack;

    fn workload(&self, key: &ResourceKey) -> Option<Workload<'a, Self::Stack>> {
        let endpoint = self.endpoints.get(&EndpointId(key.clone()))?;
        Some(Workload { endpoint, ingress: &endpoint.ingress, egress: &endpoint.egress })
    }

    fn host_endpoint(&self, interface: Option<InterfaceName>) -> Option<HostEndpoint<'a, Self::Stack>> {
        let is = |interfaces: &HostInterfaces| match (interfaces, interface) {
            (HostInterfaces::Named(names), Some(interface)) => names.contains(&interface),
            (HostInterfaces::Others, None) => true,
            _ => false,
        };
        let (id, endpoint) = self.host_endpoints.iter().find(|(_, endpoint)| is(&endpoint.interfaces))?;
        Some(HostEndpoint { id, stacks: passage::HostStacks::of(endpoint, |stack| &**stack) })
    }

    fn network(&self) -> &'a Network {
        &self.network
    }

    fn has_tiers(&self, stack: Self::Stack) -> bool {
        !stack.tiers.is_empty()
    }

    fn walk(
        &mut self,
        stack: Self::Stack,
        direction: PolicyType,
        flow: &Flow,
        steps: &mut Vec<Step>,
    ) -> Option<Decision> {
        for tier in &stack.tiers {
            if let Tier::Decided(decision) = self.tier(tier, direction, flow, steps) {
                return Some(decision);
            }
        }
        for profile in &stack.profiles {
            let owner = || Owner::Profile(profile.clone());
            let Some(rules) = self.profiles.get(profile) else {
                steps.push(Step::UnknownReference(owner()));
                return Some(Decision::Deny);
            };
            match self.first_match(rules, direction, flow, &owner, steps) {
                Some(Action::Allow) => return Some(Decision::Allow),
                Some(Action::Deny) => return Some(Decision::Deny),
                // Profiles know no tier to leave: Pass goes on with the next profile.
                Some(Action::Pass | Action::Log) | None => {}
            }
        }
        None
    }
}

/// One host of the cluster that the state is of.
struct AtHost<'a> {
    state: &'a ActiveState,
    uplink: Option<(&'a EndpointId, &'a Arc<ActiveHostEndpoint>)>,
}

impl<'a> Evaluator<'a> for AtHost<'a> {
    type Stack = &'a Stack;

    fn workload(&self, key: &ResourceKey) -> Option<Workload<'a, Self::Stack>> {
        self.state.workload(key)
    }

    fn host_endpoint(&self, interface: Option<InterfaceName>) -> Option<HostEndpoint<'a, Self::Stack>> {
        interface?;
        let (id, endpoint) = self.uplink?;
        Some(HostEndpoint { id, stacks: passage::HostStacks::of(endpoint, |stack| &**stack) })
    }

    fn network(&self) -> &'a Network {
        &self.state.network
    }

    fn has_tiers(&self, stack: Self::Stack) -> bool {
        self.state.has_tiers(stack)
    }

    fn walk(
        &mut self,
        stack: Self::Stack,
        direction: PolicyType,
        flow: &Flow,
        steps: &mut Vec<Step>,
    ) -> Option<Decision> {
        let mut state = self.state;
        state.walk(stack, direction, flow, steps)
    }
}

impl Members for ActiveState {
    fn has_port(&self, set: SetId, member: Member) -> bool {
        self.sets.get(&set).is_some_and(|(_, members)| members.contains(&member))
    }

    /// Prefixes of a set do not overlap, so the one that covers an address is the last that does not sort behind it.
    fn net(&self, set: SetId, address: IpAddr) -> Option<Cidr> {
        let (_, members) = self.sets.get(&set)?;
        match members.range(..=Member::Net(Cidr::host(address))).next_back()? {
            Member::Net(net) if net.contains(address) => Some(*net),
            _ => None,
        }
    }
}
