//! Rules as written to rules that the dataplane can carry out: selectors and named ports become sets.
//!
//! A rule that cannot be carried out as written fails closed, and says so: a Deny loses the condition and denies more; so does a
//! Pass, which becomes a Deny, for without it a later Allow of its tier would let through what the Pass would have handed to the
//! tiers that follow; any other is left out. That holds for what the stored rule has and this version does not understand, for selectors that do not
//! parse, for HTTP (which the kernel cannot see) and for services that cannot be told, or of which nobody tells.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::diagnostic::{Problem, RuleEffect, RuleFault};
use super::event::{ActiveEntity, ActiveRule, ActiveRules, IpSetKind, SetId};
use super::peer_sets::{PeerSet, PeerSets};
use super::services::ServiceSet;
use crate::few::Few;
use crate::net::{Family, Port, PortRange, Protocol};
use crate::resource::{Action, EntityRule, Icmp, PolicyType, Rule, ServiceMatch};
use crate::selector::{Selector, unique_digest, unique_id};
use crate::service::ServiceKey;

/// What a set is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// Endpoints and network sets that contribute.
    pub(super) selector: Selector,
    /// Absent: their prefixes. Present: their addresses with the ports of those names.
    pub(super) port: Option<NamedPort>,
    /// Worked out once: most rules refer to a set that is there.
    id: SetId,
}

/// Ports by name. All names of a list are one set: a set for each would multiply the kernel's rules by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPort {
    /// Sorted, none twice.
    pub(super) names: Vec<String>,
    /// Only ports of this protocol.
    pub(super) protocol: Option<u8>,
}

impl Definition {
    pub(super) fn new(selector: Selector, port: Option<NamedPort>) -> Self {
        let digest = match &port {
            None => unique_digest("s", selector.canonical()),
            Some(port) => {
                let protocol = match port.protocol {
                    None => "any".into(),
                    Some(6) => "tcp".into(),
                    Some(17) => "udp".into(),
                    Some(132) => "sctp".into(),
                    Some(number) => format!("{number}"),
                };
                let filter = unique_id("s", selector.canonical());
                unique_digest("n", &format!("{filter},{protocol},{}", port.names.join(",")))
            }
        };
        Self { selector, port, id: SetId::of_digest(digest) }
    }

    pub(super) const fn id(&self) -> SetId {
        self.id
    }

    pub(super) const fn kind(&self) -> IpSetKind {
        if self.port.is_some() { IpSetKind::AddrPort } else { IpSetKind::Net }
    }
}

/// A policy's or profile's rules, the sets that they refer to, and what is wrong with them.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) rules: ActiveRules,
    pub(super) sets: Refs,
    pub(super) problems: Vec<Problem>,
}

/// Sets by what they are made of.
#[derive(Debug, Default)]
pub(super) struct Refs {
    pub(super) selected: Vec<Definition>,
    pub(super) services: Vec<ServiceSet>,
}

/// What rules are scanned with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The policy's namespace; none of a global one or a profile.
    pub(super) namespace: Option<&'a str>,
    /// Whether somebody tells what stands behind services.
    pub(super) knows_services: bool,
}

/// Scans the rules of a policy or profile; `peers` may be what was remembered of others.
pub(super) fn scan(scope: Scope<'_>, peers: &mut PeerSets, ingress: &[Rule], egress: &[Rule]) -> Scan {
    let mut scan = Scan::default();
    let mut problems = Few::default();
    for (direction, rules) in [(PolicyType::Ingress, ingress), (PolicyType::Egress, egress)] {
        let scanned = rules.iter().enumerate().filter_map(|(index, rule)| {
            let scanner = Scanner { scope, peers: &mut *peers, rule, faults: Vec::new(), sets: Refs::default() };
            scanner.run(direction, index, &mut scan.sets, &mut problems)
        });
        let scanned = scanned.collect();
        match direction {
            PolicyType::Ingress => scan.rules.ingress = scanned,
            PolicyType::Egress => scan.rules.egress = scanned,
        }
    }
    scan.problems = problems.finish(Problem::More);
    scan
}

/// For each rule of [`ActiveRules`] the place of the rule as written that it was made of: those that are left out are not there. Rules are
/// those of one direction of a policy in that namespace, or of a global one or a profile, and services are known.
pub fn rule_origins(namespace: Option<&str>, rules: &[Rule]) -> Vec<usize> {
    let mut nowhere = Few::default();
    let scope = Scope { namespace, knows_services: true };
    let mut peers = PeerSets::default();
    let mut stays = |(index, rule)| {
        let scanner = Scanner { scope, peers: &mut peers, rule, faults: Vec::new(), sets: Refs::default() };
        let scanned = scanner.run(PolicyType::Ingress, index, &mut Refs::default(), &mut nowhere);
        scanned.map(|_| index)
    };
    rules.iter().enumerate().filter_map(&mut stays).collect()
}

/// One rule being scanned.
struct Scanner<'a> {
    scope: Scope<'a>,
    peers: &'a mut PeerSets,
    rule: &'a Rule,
    faults: Vec<RuleFault>,
    sets: Refs,
}

impl Scanner<'_> {
    fn run(
        mut self,
        direction: PolicyType,
        index: usize,
        sets: &mut Refs,
        problems: &mut Few<Problem>,
    ) -> Option<ActiveRule> {
        let mut rule = self.scan();
        if self.faults.is_empty() {
            sets.selected.extend(self.sets.selected);
            sets.services.extend(self.sets.services);
            return Some(rule);
        }
        let effect = match rule.action {
            Action::Deny | Action::Pass => RuleEffect::Denies,
            Action::Allow | Action::Log => RuleEffect::LeftOut,
        };
        for fault in self.faults {
            problems.add(|| Problem::Rule { direction, index, fault, effect });
        }
        if effect == RuleEffect::LeftOut {
            return None;
        }
        rule.action = Action::Deny;
        // An exception by port names reaches as far as the conditions beside it, so it goes with any that is lost.
        rule.source.not_port_sets.clear();
        rule.destination.not_port_sets.clear();
        let lists = [&rule.source, &rule.destination].map(|entity| [&entity.sets, &entity.not_sets, &entity.port_sets]);
        let refers = |id| lists.as_flattened().iter().any(|list| list.contains(&id));
        sets.selected.extend(self.sets.selected.into_iter().filter(|definition| refers(definition.id())));
        sets.services.extend(self.sets.services.into_iter().filter(|definition| refers(definition.id())));
        Some(rule)
    }

    /// The rule without the conditions that are faulty.
    fn scan(&mut self) -> ActiveRule {
        let rule = self.rule;
        let unread = rule.unread.iter().flat_map(|unread| unread.all());
        self.faults.extend(unread.cloned().map(RuleFault::NotUnderstood));
        if rule.http.is_some() {
            self.faults.push(RuleFault::Http);
        }
        ActiveRule {
            action: rule.action,
            family: self.family(),
            protocol: rule.protocol.map(Protocol::number),
            not_protocol: rule.not_protocol.map(Protocol::number),
            icmp: self.icmp(rule.icmp),
            not_icmp: self.icmp(rule.not_icmp),
            source: self.entity(&rule.source, IpSetKind::Net),
            destination: self.entity(&rule.destination, IpSetKind::AddrPort),
        }
    }

    /// The names of the ICMP protocols imply a family, their numbers do not.
    fn family(&mut self) -> Option<Family> {
        match (self.rule.ip_version, self.rule.protocol) {
            (Some(4), _) => Some(Family::V4),
            (Some(6), _) => Some(Family::V6),
            (Some(other), _) => {
                self.faults.push(RuleFault::IpVersion(other));
                None
            }
            (None, Some(Protocol::ICMP)) => Some(Family::V4),
            (None, Some(Protocol::ICMPV6)) => Some(Family::V6),
            (None, _) => None,
        }
    }

    fn icmp(&mut self, icmp: Option<Icmp>) -> Option<Icmp> {
        match icmp {
            Some(Icmp { icmp_type: None, code: Some(_) }) => {
                self.faults.push(RuleFault::IcmpCodeWithoutType);
                None
            }
            Some(Icmp { icmp_type: None, code: None }) | None => None,
            some => some,
        }
    }

    /// `behind` says what of a service's endpoints counts on this side: of a source the address, of a destination the port as well.
    fn entity(&mut self, entity: &EntityRule, behind: IpSetKind) -> ActiveEntity {
        let service = entity.services.as_ref().and_then(|services| self.service_set(services, entity, behind));
        let peers = self.peers.of(self.scope.namespace, entity).unwrap_or_else(|(field, error)| {
            self.faults.push(RuleFault::Selector { field, error });
            PeerSet::default()
        });
        let (ports, names) = Self::split_ports(&entity.ports);
        let (not_ports, not_names) = Self::split_ports(&entity.not_ports);
        let filter = peers.positive.as_ref().map_or_else(Selector::all, |set| set.selector.clone());
        // Members of the named ports' sets are filtered by the selector already; numbers are not.
        let redundant = ports.is_empty() && !names.is_empty();
        let positive = peers.positive.filter(|_| !redundant);
        let (behind_address, behind_port) = match behind {
            IpSetKind::Net => (service, None),
            IpSetKind::AddrPort => (None, service),
        };
        ActiveEntity {
            nets: entity.nets.clone(),
            not_nets: entity.not_nets.clone(),
            sets: positive.map(|set| self.refer(set)).into_iter().chain(behind_address).collect(),
            not_sets: peers.negative.map(|set| self.refer(set)).into_iter().collect(),
            ports,
            port_sets: self.port_set(&filter, names).into_iter().chain(behind_port).collect(),
            not_ports,
            not_port_sets: self.port_set(&filter, not_names).into_iter().collect(),
        }
    }

    fn split_ports(ports: &[Port]) -> (Vec<PortRange>, Vec<String>) {
        let mut numbers = Vec::new();
        let mut names = Vec::new();
        for port in ports {
            match port {
                Port::Range(range) => numbers.push(*range),
                Port::Named(name) => names.push(name.clone()),
            }
        }
        names.sort_unstable();
        names.dedup();
        (numbers, names)
    }

    /// The ports behind a service are alternatives to others of the rule, so they stand alone.
    fn service_set(&mut self, services: &ServiceMatch, entity: &EntityRule, kind: IpSetKind) -> Option<SetId> {
        let namespace = Some(services.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let Some(namespace) = namespace.or(self.scope.namespace).filter(|_| !services.name.is_empty()) else {
            self.faults.push(RuleFault::Services);
            return None;
        };
        if !self.scope.knows_services {
            self.faults.push(RuleFault::UnknownServices);
            return None;
        }
        if kind == IpSetKind::AddrPort && !entity.ports.is_empty() {
            self.faults.push(RuleFault::ServicesWithPorts);
            return None;
        }
        let service = ServiceKey { namespace: namespace.into(), name: services.name.as_str().into() };
        let definition = ServiceSet { service, kind };
        let id = definition.id();
        self.sets.services.push(definition);
        Some(id)
    }

    fn port_set(&mut self, selector: &Selector, names: Vec<String>) -> Option<SetId> {
        if names.is_empty() {
            return None;
        }
        let port = NamedPort { names, protocol: self.rule.protocol.map(Protocol::number) };
        Some(self.refer(Definition::new(selector.clone(), Some(port))))
    }

    fn refer(&mut self, definition: Definition) -> SetId {
        let id = definition.id();
        self.sets.selected.push(definition);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::HttpMatch;

    #[test]
    fn rules_that_are_left_out_have_no_origin() {
        let rule = |action, http: bool| Rule { action, http: http.then(HttpMatch::default), ..Rule::default() };
        let rules = [
            rule(Action::Allow, true),
            rule(Action::Deny, true),
            rule(Action::Log, true),
            rule(Action::Pass, true),
            rule(Action::Allow, false),
        ];
        assert_eq!(rule_origins(None, &rules), [1, 3, 4]);
        let scope = Scope { namespace: None, knows_services: true };
        assert_eq!(scan(scope, &mut PeerSets::default(), &rules, &[]).rules.ingress.len(), 3);
    }
}
