//! Whether one rule matches one flow, and by which members.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::step::{Matched, Side};
use crate::calc::event::{ActiveEntity, ActiveRule, Member, SetId};
use crate::flow::Flow;
use crate::net::{Cidr, Family, PortRange};
use crate::resource::Icmp;

/// Who knows the members of sets.
pub(super) trait Members {
    /// The prefix of a set that holds an address.
    fn net(&self, set: SetId, address: IpAddr) -> Option<Cidr>;

    /// Whether a set has this address, protocol and port.
    fn has_port(&self, set: SetId, member: Member) -> bool;
}

/// What the sets of one side of one rule say to one flow.
pub(super) trait Answers {
    /// Whether each of `sets` holds the address.
    fn in_each(&self, side: Side) -> bool;

    /// Whether one of `not_sets` holds the address.
    fn in_one_unwanted(&self, side: Side) -> bool;

    /// Whether one of `port_sets` holds address, protocol and port.
    fn port_in_one(&self, side: Side) -> bool;

    /// Whether one of `not_port_sets` does.
    fn port_in_one_unwanted(&self, side: Side) -> bool;
}

/// Answers by looking every set up.
pub(super) struct LookUp<'a, M> {
    pub(super) rule: &'a ActiveRule,
    pub(super) flow: &'a Flow,
    pub(super) members: &'a M,
}

impl<M: Members> LookUp<'_, M> {
    fn holds(&self, side: Side) -> impl Fn(&SetId) -> bool {
        let (_, address, _) = on(side, self.rule, self.flow);
        move |set| self.members.net(*set, address).is_some()
    }

    fn holds_port(&self, side: Side) -> impl Fn(&SetId) -> bool {
        let (_, address, port) = on(side, self.rule, self.flow);
        let member = Member::AddrPort { address, protocol: self.flow.protocol, port };
        move |set| self.members.has_port(*set, member)
    }
}

impl<M: Members> Answers for LookUp<'_, M> {
    fn in_each(&self, side: Side) -> bool {
        entity(side, self.rule).sets.iter().all(self.holds(side))
    }

    fn in_one_unwanted(&self, side: Side) -> bool {
        entity(side, self.rule).not_sets.iter().any(self.holds(side))
    }

    fn port_in_one(&self, side: Side) -> bool {
        entity(side, self.rule).port_sets.iter().any(self.holds_port(side))
    }

    fn port_in_one_unwanted(&self, side: Side) -> bool {
        entity(side, self.rule).not_port_sets.iter().any(self.holds_port(side))
    }
}

/// All given conditions hold.
pub(super) fn matches(rule: &ActiveRule, flow: &Flow, sets: &impl Answers) -> bool {
    concerns(rule, flow)
        && [Side::Source, Side::Destination].into_iter().all(|side| {
            let (entity, address, port) = on(side, rule, flow);
            nets_match(entity, address)
                && sets.in_each(side)
                && !sets.in_one_unwanted(side)
                && ports_match(entity, port, side, sets)
        })
}

/// The members by which a rule that matches does so.
pub(super) fn evidence(rule: &ActiveRule, flow: &Flow, members: &impl Members) -> Vec<Matched> {
    let mut found = Vec::new();
    for side in [Side::Source, Side::Destination] {
        let (entity, address, port) = on(side, rule, flow);
        let net = entity.nets.iter().find(|net| net.contains(address));
        found.extend(net.map(|net| Matched { side, set: None, member: Member::Net(*net) }));
        found.extend(entity.sets.iter().filter_map(|set| {
            let net = members.net(*set, address)?;
            Some(Matched { side, set: Some(*set), member: Member::Net(net) })
        }));
        let member = Member::AddrPort { address, protocol: flow.protocol, port };
        let holding = entity.port_sets.iter().filter(|set| members.has_port(**set, member));
        found.extend(holding.map(|set| Matched { side, set: Some(*set), member }));
    }
    found
}

const fn entity(side: Side, rule: &ActiveRule) -> &ActiveEntity {
    match side {
        Side::Source => &rule.source,
        Side::Destination => &rule.destination,
    }
}

/// Conditions, address and port of a side.
const fn on<'a>(side: Side, rule: &'a ActiveRule, flow: &Flow) -> (&'a ActiveEntity, IpAddr, u16) {
    match side {
        Side::Source => (&rule.source, flow.source, flow.source_port),
        Side::Destination => (&rule.destination, flow.destination, flow.destination_port),
    }
}

/// All conditions but those on addresses and ports.
fn concerns(rule: &ActiveRule, flow: &Flow) -> bool {
    exists_for(rule, flow.family())
        && rule.protocol.is_none_or(|protocol| protocol == flow.protocol)
        && rule.not_protocol.is_none_or(|protocol| protocol != flow.protocol)
        && (has_ports(flow.protocol) || !looks_at_port_numbers(rule))
        && rule.icmp.is_none_or(|icmp| icmp_of(flow).is_some_and(|found| icmp_matches(icmp, found)))
        && rule.not_icmp.is_none_or(|icmp| icmp_of(flow).is_some_and(|found| !icmp_matches(icmp, found)))
}

fn nets_match(entity: &ActiveEntity, address: IpAddr) -> bool {
    let holds = |nets: &[Cidr]| nets.iter().any(|net| net.contains(address));
    (entity.nets.is_empty() || holds(&entity.nets)) && !holds(&entity.not_nets)
}

fn ports_match(entity: &ActiveEntity, port: u16, side: Side, sets: &impl Answers) -> bool {
    let in_range = |ranges: &[PortRange]| ranges.iter().any(|range| range.contains(port));
    let any = entity.ports.is_empty() && entity.port_sets.is_empty();
    (any || in_range(&entity.ports) || sets.port_in_one(side))
        && !in_range(&entity.not_ports)
        && !sets.port_in_one_unwanted(side)
}

/// Whether a rule is there for a family at all: it is left out when it is for the other one, when a list of prefixes has none of
/// this family, or when a negated list has all of it (`felix/rules` of upstream, `FilterRuleToIPVersion`).
pub(super) fn exists_for(rule: &ActiveRule, family: Family) -> bool {
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

pub(super) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

/// A rule with port numbers, wanted or unwanted, is about packets that have ports.
pub(super) fn looks_at_port_numbers(rule: &ActiveRule) -> bool {
    [&rule.source, &rule.destination].into_iter().any(|side| !side.ports.is_empty() || !side.not_ports.is_empty())
}
