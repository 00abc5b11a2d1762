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

pub(super) fn matches(rule: &ActiveRule, flow: &Flow, members: &impl Members) -> bool {
    let sides = [(&rule.source, flow.source, flow.source_port), side_of_destination(rule, flow)];
    concerns(rule, flow)
        && sides.into_iter().all(|(entity, address, port)| {
            let triple = Member::AddrPort { address, protocol: flow.protocol, port };
            nets_match(entity, address) && sets_match(entity, address, members) && ports_match(entity, triple, members)
        })
}

/// The members by which a rule that matches does so.
pub(super) fn evidence(rule: &ActiveRule, flow: &Flow, members: &impl Members) -> Vec<Matched> {
    let mut found = Vec::new();
    let source = (&rule.source, flow.source, flow.source_port);
    for (side, (entity, address, port)) in
        [(Side::Source, source), (Side::Destination, side_of_destination(rule, flow))]
    {
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

type Ask<'a> = (&'a ActiveEntity, IpAddr, u16);

const fn side_of_destination<'a>(rule: &'a ActiveRule, flow: &Flow) -> Ask<'a> {
    (&rule.destination, flow.destination, flow.destination_port)
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

fn sets_match(entity: &ActiveEntity, address: IpAddr, members: &impl Members) -> bool {
    let holds = |set: &SetId| members.net(*set, address).is_some();
    entity.sets.iter().all(holds) && !entity.not_sets.iter().any(holds)
}

fn ports_match(entity: &ActiveEntity, triple: Member, members: &impl Members) -> bool {
    let Member::AddrPort { port, .. } = triple else { return false };
    let holds = |ranges: &[PortRange], sets: &[SetId]| {
        ranges.iter().any(|range| range.contains(port)) || sets.iter().any(|set| members.has_port(*set, triple))
    };
    let any = entity.ports.is_empty() && entity.port_sets.is_empty();
    (any || holds(&entity.ports, &entity.port_sets)) && !holds(&entity.not_ports, &entity.not_port_sets)
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
