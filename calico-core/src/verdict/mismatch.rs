//! Why a rule does not match a flow: the first of its conditions that does not hold, as an operator would look for it.

use core::net::IpAddr;

use super::ActiveState;
use super::rule::{self, LookUp, Members};
use super::step::Side;
use crate::calc::event::{ActiveEntity, ActiveRule, Member, SetId};
use crate::flow::Flow;
use crate::net::{Cidr, PortRange};

/// The condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The rule is for the other address family only.
    Family,
    /// It is for another protocol, or for any but this one.
    Protocol,
    /// It asks for ports, which the protocol does not have.
    NoPorts,
    /// It is for other types or codes of ICMP.
    Icmp,
    /// Something about one side.
    Side(Side, Lack),
}

/// The condition on one side that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// The address lies in none of its prefixes.
    Net,
    /// The address lies in one that is excepted.
    NotNet(Cidr),
    /// The address is no member of a set.
    Set,
    /// The address is a member of a set that is excepted.
    NotSet(Cidr),
    /// The port is another one, or the address does not have it under that name.
    Port,
    /// The port is excepted.
    NotPort,
}

impl ActiveState {
    /// The first condition of a rule that does not hold for a flow; none if it matches.
    pub fn mismatch(&self, rule: &ActiveRule, flow: &Flow) -> Option<Mismatch> {
        if rule::matches(rule, flow, &LookUp { rule, flow, members: self }) {
            return None;
        }
        let source = (Side::Source, &rule.source, flow.source, flow.source_port);
        let destination = (Side::Destination, &rule.destination, flow.destination, flow.destination_port);
        let lack = |(side, entity, address, port): (Side, &ActiveEntity, IpAddr, u16)| {
            let triple = Member::AddrPort { address, protocol: flow.protocol, port };
            let lack = self.lack(entity, address).or_else(|| self.lack_of_port(entity, port, triple));
            lack.map(|lack| Mismatch::Side(side, lack))
        };
        Some(if !rule::exists_for(rule, flow.family()) {
            Mismatch::Family
        } else if rule.protocol.is_some_and(|protocol| protocol != flow.protocol)
            || rule.not_protocol == Some(flow.protocol)
        {
            Mismatch::Protocol
        } else if !rule::has_ports(flow.protocol) && rule::looks_at_port_numbers(rule) {
            Mismatch::NoPorts
        } else {
            // What is left of the conditions are those on ICMP.
            lack(source).or_else(|| lack(destination)).unwrap_or(Mismatch::Icmp)
        })
    }

    fn lack(&self, entity: &ActiveEntity, address: IpAddr) -> Option<Lack> {
        let holding = |nets: &[Cidr]| nets.iter().find(|net| net.contains(address)).copied();
        let member = |sets: &[SetId]| sets.iter().find_map(|set| self.net(*set, address));
        if !entity.nets.is_empty() && holding(&entity.nets).is_none() {
            return Some(Lack::Net);
        }
        if let Some(net) = holding(&entity.not_nets) {
            return Some(Lack::NotNet(net));
        }
        if entity.sets.iter().any(|set| self.net(*set, address).is_none()) {
            return Some(Lack::Set);
        }
        member(&entity.not_sets).map(Lack::NotSet)
    }

    fn lack_of_port(&self, entity: &ActiveEntity, port: u16, triple: Member) -> Option<Lack> {
        let holds = |ranges: &[PortRange], sets: &[SetId]| {
            ranges.iter().any(|range| range.contains(port)) || sets.iter().any(|set| self.has_port(*set, triple))
        };
        let any = entity.ports.is_empty() && entity.port_sets.is_empty();
        if !any && !holds(&entity.ports, &entity.port_sets) {
            return Some(Lack::Port);
        }
        holds(&entity.not_ports, &entity.not_port_sets).then_some(Lack::NotPort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calc::Graph;
    use crate::testing::{Generator, HOST};
    use crate::update::Update;

    /// It is there exactly when the rule does not match, and each sort of it comes up.
    #[test]
    fn whatever_does_not_match_has_a_reason() {
        let mut seen = alloc::collections::BTreeSet::new();
        for seed in 0..60 {
            let mut generator = Generator::new(seed);
            let mut graph = Graph::new(HOST);
            for (key, value) in generator.cluster(60) {
                graph.handle_update(&Update { key, value: Some(value) });
            }
            let mut state = ActiveState::default();
            graph.flush().iter().for_each(|event| state.apply(event));
            let rules = state.policies.values().flat_map(|rules| rules.ingress.iter().chain(&rules.egress));
            for rule in rules {
                for _ in 0..20 {
                    let flow = generator.flow();
                    let mismatch = state.mismatch(rule, &flow);
                    assert_eq!(
                        mismatch.is_none(),
                        rule::matches(rule, &flow, &LookUp { rule, flow: &flow, members: &state }),
                        "seed {seed}: {rule:?} {flow:?}"
                    );
                    seen.insert(match mismatch {
                        None => "matches",
                        Some(Mismatch::Family) => "family",
                        Some(Mismatch::Protocol) => "protocol",
                        Some(Mismatch::NoPorts) => "no ports",
                        Some(Mismatch::Icmp) => {
                            assert!(rule.icmp.is_some() || rule.not_icmp.is_some(), "seed {seed}: {rule:?} {flow:?}");
                            "icmp"
                        }
                        Some(Mismatch::Side(_, Lack::Net)) => "net",
                        Some(Mismatch::Side(_, Lack::NotNet(_))) => "not net",
                        Some(Mismatch::Side(_, Lack::Set)) => "set",
                        Some(Mismatch::Side(_, Lack::NotSet(_))) => "not set",
                        Some(Mismatch::Side(_, Lack::Port)) => "port",
                        Some(Mismatch::Side(_, Lack::NotPort)) => "not port",
                    });
                }
            }
        }
        // Ports without a protocol that has them are refused when they are written, and the generator writes none.
        seen.remove("no ports");
        assert_eq!(seen.len(), 10, "{seen:?}");
    }
}
