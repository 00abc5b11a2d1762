//! One rule of a policy or profile as kernel rules.
//!
//! Most rules become one kernel rule. There are more where nf_tables has no "or": for each family when addresses are looked at,
//! for hosts and prefixes of a set, for port numbers beside port names. Parts of sets that do not exist have no members: an alternative that
//! wants one is left out, and so is a condition that wants none.

use alloc::vec;
use alloc::vec::Vec;

use super::action::Context;
use super::fold;
use super::names::{SetPart, kernel_set};
use super::set::Sets;
use crate::calc::event::{ActiveEntity, ActiveRule, SetId};
use crate::net::{Cidr, Family, PortRange};
use crate::resource::Icmp;
use crate::table::{Field, Match, Rule, Value};

/// The kernel rules of a list of rules, in order.
pub(super) fn render(rules: &[ActiveRule], context: &Context<'_>) -> Vec<Rule> {
    let folded = fold::is_unseen(context.config).then(|| fold::fold(rules));
    let numbered = folded.as_deref().unwrap_or(rules).iter().enumerate();
    let act = |(position, rule): (usize, &ActiveRule)| -> Vec<Rule> {
        alternatives(rule, context.sets)
            .into_iter()
            .map(|matches| context.act(position, rule.action, matches))
            .collect()
    };
    numbered.flat_map(act).collect()
}

/// The lists of matches of which one must hold. Empty when the rule can never match.
fn alternatives(rule: &ActiveRule, sets: &Sets) -> Vec<Vec<Match>> {
    let families: &[Option<Family>] = match rule.family {
        _ if looks_at_family(rule) => &[Some(Family::V4), Some(Family::V6)],
        None => &[None],
        Some(Family::V4) => &[Some(Family::V4)],
        Some(Family::V6) => &[Some(Family::V6)],
    };
    let allowed = |family: &&Option<Family>| family.is_none() || rule.family.is_none() || rule.family == **family;
    families.iter().filter(allowed).filter_map(|family| in_family(rule, *family, sets)).flatten().collect()
}

fn looks_at_family(rule: &ActiveRule) -> bool {
    let entity = |entity: &ActiveEntity| {
        let nets = !entity.nets.is_empty() || !entity.not_nets.is_empty();
        let sets = [&entity.sets, &entity.not_sets, &entity.port_sets, &entity.not_port_sets];
        nets || sets.iter().any(|sets| !sets.is_empty())
    };
    let icmp = [rule.icmp, rule.not_icmp].into_iter().flatten().any(|icmp| icmp.icmp_type.is_some());
    icmp || entity(&rule.source) || entity(&rule.destination)
}

/// Alternatives for one family (none: the rule looks at nothing that depends on it); none when the rule does not apply to it.
fn in_family(rule: &ActiveRule, family: Option<Family>, sets: &Sets) -> Option<Vec<Vec<Match>>> {
    let mut found = vec![Vec::new()];
    for options in protocol_options(rule)? {
        fork(&mut found, &options);
    }
    if let Some(family) = family {
        icmp_matches(rule, family, &mut found)?;
    }
    for (entity, side) in [(&rule.source, Side::Source), (&rule.destination, Side::Destination)] {
        if let Some(family) = family {
            net_matches(entity, side.addr(family), family, &mut found)?;
            set_matches(entity, side.addr(family), family, sets, &mut found);
        }
        port_matches(entity, side, family, sets, &mut found);
    }
    for matches in &mut found {
        matches.sort_by_key(cost);
        if let Some(family) = family.filter(|_| !matches.iter().any(looks_at_address)) {
            matches.push(Match::Family(family));
        }
    }
    Some(found)
}

/// What a condition costs, in classes (measured: one comparison 3 to 6 ns, a hash 75 to 115, an interval tree 170 to 490): what is cheap is
/// asked first, and what is dear of few packets. The order of conditions means nothing else.
fn cost(condition: &Match) -> u8 {
    match condition {
        Match::InPorts { ranges, .. } if ranges.len() > 1 => 1,
        Match::InCidrs { .. } => 3,
        Match::InSet { set, .. } if set.as_str().starts_with("nets") => 3,
        Match::InSet { .. } => 2,
        _ => 0,
    }
}

/// Whether the condition fails for packets of the other family anyway.
fn looks_at_address(condition: &Match) -> bool {
    match condition {
        Match::InCidr { .. } | Match::InCidrs { .. } => true,
        Match::InSet { key, .. } => key.iter().any(|field| matches!(field, Field::SrcAddr(_) | Field::DstAddr(_))),
        _ => false,
    }
}

/// Conditions on the protocol, each a list of alternatives. Port numbers mean TCP, UDP or SCTP: of other protocols, no packet
/// has a port.
fn protocol_options(rule: &ActiveRule) -> Option<Vec<Vec<Match>>> {
    let is = |number| Match::Equal { field: Field::L4Proto, value: Value::Proto(number), negated: false };
    let numbered = |entity: &ActiveEntity| !entity.ports.is_empty() || !entity.not_ports.is_empty();
    let needs_ports = numbered(&rule.source) || numbered(&rule.destination);
    let named_only = |entity: &ActiveEntity| entity.ports.is_empty() && !entity.port_sets.is_empty();
    let mut conditions = Vec::new();
    match rule.protocol {
        Some(number) if needs_ports && !WITH_PORTS.contains(&number) => return None,
        Some(number) => conditions.push(vec![is(number)]),
        // The port sets hold the protocol themselves.
        None if !needs_ports || named_only(&rule.source) || named_only(&rule.destination) => {}
        None => conditions.push(WITH_PORTS.into_iter().map(is).collect()),
    }
    if let Some(number) = rule.not_protocol {
        conditions.push(vec![Match::Equal { field: Field::L4Proto, value: Value::Proto(number), negated: true }]);
    }
    Some(conditions)
}

fn icmp_matches(rule: &ActiveRule, family: Family, found: &mut [Vec<Match>]) -> Option<()> {
    let number = match family {
        Family::V4 => 1,
        Family::V6 => 58,
    };
    let conditions = [(rule.icmp, false), (rule.not_icmp, true)];
    for (icmp, negated) in conditions.into_iter().filter_map(|(icmp, negated)| Some((icmp?, negated))) {
        let Icmp { icmp_type: Some(icmp_type), code } = icmp else { continue };
        if rule.protocol.is_some_and(|protocol| protocol != number) {
            return None;
        }
        require(found, Match::Icmp { family, icmp_type, code, negated });
    }
    Some(())
}

fn net_matches(entity: &ActiveEntity, field: Field, family: Family, found: &mut [Vec<Match>]) -> Option<()> {
    for (nets, negated) in [(&entity.nets, false), (&entity.not_nets, true)] {
        if nets.is_empty() {
            continue;
        }
        // A list that the family empties takes the rule out of the family, negated or not (upstream's FilterRuleToIPVersion).
        let mine = widest(nets.iter().copied().filter(|net| net.family() == family));
        let everything = mine.iter().any(|net| net.length() == 0);
        match *mine.as_slice() {
            [] => return None,
            _ if everything && negated => return None,
            _ if everything => {}
            [cidr] => require(found, Match::InCidr { field, cidr, negated }),
            _ => require(found, Match::InCidrs { field, cidrs: mine, negated }),
        }
    }
    Some(())
}

fn set_matches(entity: &ActiveEntity, field: Field, family: Family, sets: &Sets, found: &mut Vec<Vec<Match>>) {
    let member = |id: SetId, negated| -> Vec<Match> {
        let parts = [SetPart::Hosts, SetPart::Nets].into_iter().filter(|part| sets.has(id, *part, family));
        parts.map(|part| Match::InSet { key: vec![field], set: kernel_set(id, part, family), negated }).collect()
    };
    for id in &entity.sets {
        fork(found, &member(*id, false));
    }
    for condition in entity.not_sets.iter().flat_map(|id| member(*id, true)) {
        require(found, condition);
    }
}

fn port_matches(entity: &ActiveEntity, side: Side, family: Option<Family>, sets: &Sets, found: &mut Vec<Vec<Match>>) {
    let named = |id: &SetId, negated| {
        let family = family.filter(|family| sets.has(*id, SetPart::Ports, *family))?;
        let key = vec![side.addr(family), Field::L4Proto, side.port()];
        Some(Match::InSet { key, set: kernel_set(*id, SetPart::Ports, family), negated })
    };
    let numbers = |ranges: &[PortRange], negated| {
        let ranges = merged(ranges);
        (!ranges.is_empty()).then(|| Match::InPorts { field: side.port(), ranges, negated })
    };
    let mut options: Vec<Match> = numbers(&entity.ports, false).into_iter().collect();
    options.extend(entity.port_sets.iter().filter_map(|id| named(id, false)));
    if !entity.ports.is_empty() || !entity.port_sets.is_empty() {
        fork(found, &options);
    }
    let excluded = numbers(&entity.not_ports, true).into_iter();
    for condition in excluded.chain(entity.not_port_sets.iter().filter_map(|id| named(id, true))) {
        require(found, condition);
    }
}

#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

impl Side {
    const fn addr(self, family: Family) -> Field {
        match self {
            Self::Source => Field::SrcAddr(family),
            Self::Destination => Field::DstAddr(family),
        }
    }

    const fn port(self) -> Field {
        match self {
            Self::Source => Field::SrcPort,
            Self::Destination => Field::DstPort,
        }
    }
}

fn require(found: &mut [Vec<Match>], condition: Match) {
    for matches in found {
        matches.push(condition.clone());
    }
}

fn fork(found: &mut Vec<Vec<Match>>, options: &[Match]) {
    let forked =
        found.iter().flat_map(|matches| options.iter().map(|option| matches.iter().chain([option]).cloned().collect()));
    *found = forked.collect();
}

/// Without prefixes that others cover, in order.
fn widest(nets: impl Iterator<Item = Cidr>) -> Vec<Cidr> {
    let mut nets: Vec<Cidr> = nets.collect();
    // Sorted by address and then length, whatever covers a prefix comes before it, and nothing uncovered between.
    nets.sort_by_key(|net| (net.address(), net.length()));
    let mut kept: Vec<Cidr> = Vec::new();
    for net in nets {
        if !kept.last().is_some_and(|last| last.covers(&net)) {
            kept.push(net);
        }
    }
    kept
}

/// In order, and none touches another.
pub(super) fn merged(ranges: &[PortRange]) -> Vec<PortRange> {
    let mut ranges = ranges.to_vec();
    ranges.sort();
    let mut kept: Vec<PortRange> = Vec::new();
    for range in ranges {
        match kept.last_mut() {
            Some(last) if range.min() <= (*last).max().saturating_add(1) => {
                let (min, max) = ((*last).min(), (*last).max());
                *last = PortRange::new(min, u16::max(max, range.max())).unwrap_or(*last);
            }
            _ => kept.push(range),
        }
    }
    kept
}

/// TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];
