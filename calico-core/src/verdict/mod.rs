//! The compiled evaluator: what the graph's output does to one flow.
//!
//! In come the graph's events, out come decisions with the reason for each. It runs on stacks, rules and sets only; that they say
//! the same as the resources is proved by comparing it with the spec evaluator, and that the kernel does the same by packets.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use crate::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveHostEndpoint, ActiveRule, ActiveRules, EndpointId, Event, IpSetKind, Member,
    Network, PolicyId, ProfileId, SetId,
};
use crate::flow::{Decision, Flow};
use crate::net::{Cidr, Family, PortRange};
use crate::resource::{Action, DefaultAction, Icmp, PolicyType};

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

/// Why a decision fell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// What passed the flow on before, in order.
    pub passed: Vec<Cause>,
    /// What decided.
    pub decided: Cause,
}

/// One place where a flow is decided or passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A rule of a policy.
    PolicyRule {
        /// Its tier.
        tier: Arc<str>,
        /// The policy.
        policy: PolicyId,
        /// Position in the active rules of that direction, from zero.
        rule: usize,
    },
    /// The default action of a tier whose policies had nothing to say.
    EndOfTier {
        /// The tier.
        tier: Arc<str>,
    },
    /// A rule of a profile.
    ProfileRule {
        /// The profile.
        profile: ProfileId,
        /// Position in the active rules of that direction, from zero.
        rule: usize,
    },
    /// No profile allowed it.
    EndOfProfiles,
    /// The endpoint is not active on this host.
    UnknownEndpoint,
    /// The endpoint's stack names a policy or profile that is not active: the events were incomplete.
    UnknownReference,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PolicyRule { tier, policy, rule } => write!(f, "rule {rule} of {} in tier {tier}", policy.0),
            Self::EndOfTier { tier } => write!(f, "end of tier {tier}"),
            Self::ProfileRule { profile, rule } => write!(f, "rule {rule} of Profile({})", profile.0),
            Self::EndOfProfiles => f.write_str("no profile allows it"),
            Self::UnknownEndpoint => f.write_str("the endpoint is not active here"),
            Self::UnknownReference => f.write_str("a policy or profile of the endpoint is not active"),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.passed.iter().try_for_each(|cause| write!(f, "passed: {cause}; "))?;
        write!(f, "decided: {}", self.decided)
    }
}

/// What the rules of one policy or profile say.
enum Outcome {
    Decided(Decision, usize),
    Passed(usize),
    Nothing,
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

    /// Decides the first packet of a flow to (ingress) or from (egress) an endpoint.
    pub fn decide(&self, endpoint: &EndpointId, direction: PolicyType, flow: &Flow) -> (Decision, Trace) {
        let mut passed = Vec::new();
        let (decision, decided) = self.run(endpoint, direction, flow, &mut passed);
        (decision, Trace { passed, decided })
    }

    fn run(
        &self,
        endpoint: &EndpointId,
        direction: PolicyType,
        flow: &Flow,
        passed: &mut Vec<Cause>,
    ) -> (Decision, Cause) {
        let Some(endpoint) = self.endpoints.get(endpoint) else { return (Decision::Deny, Cause::UnknownEndpoint) };
        let stack = match direction {
            PolicyType::Ingress => &endpoint.ingress,
            PolicyType::Egress => &endpoint.egress,
        };
        'tiers: for tier in &stack.tiers {
            for policy in &tier.policies {
                let cause = |rule| Cause::PolicyRule { tier: tier.name.clone(), policy: policy.clone(), rule };
                let Some(rules) = self.policies.get(policy) else { return (Decision::Deny, Cause::UnknownReference) };
                match self.first_match(rules, direction, flow) {
                    Outcome::Decided(decision, rule) => return (decision, cause(rule)),
                    Outcome::Passed(rule) => {
                        passed.push(cause(rule));
                        continue 'tiers;
                    }
                    Outcome::Nothing => {}
                }
            }
            let end = Cause::EndOfTier { tier: tier.name.clone() };
            match tier.default_action {
                DefaultAction::Deny => return (Decision::Deny, end),
                DefaultAction::Pass => passed.push(end),
            }
        }
        for profile in &stack.profiles {
            let cause = |rule| Cause::ProfileRule { profile: profile.clone(), rule };
            let Some(rules) = self.profiles.get(profile) else { return (Decision::Deny, Cause::UnknownReference) };
            match self.first_match(rules, direction, flow) {
                Outcome::Decided(decision, rule) => return (decision, cause(rule)),
                Outcome::Passed(rule) => passed.push(cause(rule)),
                Outcome::Nothing => {}
            }
        }
        (Decision::Deny, Cause::EndOfProfiles)
    }

    fn first_match(&self, rules: &ActiveRules, direction: PolicyType, flow: &Flow) -> Outcome {
        let rules = match direction {
            PolicyType::Ingress => &rules.ingress,
            PolicyType::Egress => &rules.egress,
        };
        for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| self.matches(rule, flow)) {
            match rule.action {
                Action::Allow => return Outcome::Decided(Decision::Allow, index),
                Action::Deny => return Outcome::Decided(Decision::Deny, index),
                Action::Pass => return Outcome::Passed(index),
                Action::Log => {}
            }
        }
        Outcome::Nothing
    }

    fn matches(&self, rule: &ActiveRule, flow: &Flow) -> bool {
        exists_for(rule, flow.family())
            && rule.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && rule.not_protocol.is_none_or(|protocol| protocol != flow.protocol)
            && (has_ports(flow.protocol) || !looks_at_port_numbers(rule))
            && rule.icmp.is_none_or(|icmp| icmp_of(flow).is_some_and(|found| icmp_matches(icmp, found)))
            && rule.not_icmp.is_none_or(|icmp| icmp_of(flow).is_some_and(|found| !icmp_matches(icmp, found)))
            && self.entity_matches(&rule.source, flow.source, flow.protocol, flow.source_port)
            && self.entity_matches(&rule.destination, flow.destination, flow.protocol, flow.destination_port)
    }

    fn entity_matches(&self, entity: &ActiveEntity, address: IpAddr, protocol: u8, port: u16) -> bool {
        let in_nets = |nets: &[Cidr]| nets.iter().any(|net| net.contains(address));
        let in_ports = |ranges: &[PortRange], sets: &[SetId]| {
            ranges.iter().any(|range| range.contains(port))
                || sets.iter().any(|set| self.has_port(*set, Member::AddrPort { address, protocol, port }))
        };
        let any_port = entity.ports.is_empty() && entity.port_sets.is_empty();
        (entity.nets.is_empty() || in_nets(&entity.nets))
            && !in_nets(&entity.not_nets)
            && entity.sets.iter().all(|set| self.has_address(*set, address))
            && !entity.not_sets.iter().any(|set| self.has_address(*set, address))
            && (any_port || in_ports(&entity.ports, &entity.port_sets))
            && !in_ports(&entity.not_ports, &entity.not_port_sets)
    }

    fn has_port(&self, set: SetId, member: Member) -> bool {
        self.sets.get(&set).is_some_and(|(_, members)| members.contains(&member))
    }

    /// Prefixes of a set do not overlap, so the one that covers an address is the last that does not sort behind it.
    fn has_address(&self, set: SetId, address: IpAddr) -> bool {
        let Some((_, members)) = self.sets.get(&set) else { return false };
        let last = members.range(..=Member::Net(Cidr::host(address))).next_back();
        matches!(last, Some(Member::Net(net)) if net.contains(address))
    }
}

/// Whether a rule is there for a family at all: it is left out when it is for the other one, when a list of prefixes has none of
/// this family, or when a negated list has all of it (`felix/rules` of upstream, `FilterRuleToIPVersion`).
fn exists_for(rule: &ActiveRule, family: Family) -> bool {
    let has_family = |nets: &[Cidr]| nets.is_empty() || nets.iter().any(|net| net.family() == family);
    let spares_any = |nets: &[Cidr]| !nets.iter().any(|net| net.family() == family && net.length() == 0);
    rule.family.is_none_or(|only| only == family)
        && [&rule.source, &rule.destination]
            .into_iter()
            .all(|entity| has_family(&entity.nets) && has_family(&entity.not_nets) && spares_any(&entity.not_nets))
}

/// Type and code, for packets of the ICMP that belongs to their family: others have none to compare, wanted or unwanted.
fn icmp_of(flow: &Flow) -> Option<(u8, u8)> {
    let number = match flow.family() {
        Family::V4 => 1,
        Family::V6 => 58,
    };
    flow.icmp.filter(|_| flow.protocol == number)
}

fn icmp_matches(icmp: Icmp, (icmp_type, code): (u8, u8)) -> bool {
    icmp.icmp_type.is_none_or(|wanted| wanted == icmp_type) && icmp.code.is_none_or(|wanted| wanted == code)
}

const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

/// A rule with port numbers, wanted or unwanted, is about packets that have ports.
fn looks_at_port_numbers(rule: &ActiveRule) -> bool {
    [&rule.source, &rule.destination].into_iter().any(|side| !side.ports.is_empty() || !side.not_ports.is_empty())
}

#[cfg(test)]
mod tests;
