//! Runs of policies: who of them is asked about a packet.
//!
//! ```text
//! segment-…     by protocol and destination port: goto policies-…, goto the one policy, or return
//! policies-…    jump to one policy after the other, until one has passed
//! ```
//!
//! A tier of many policies is cut into segments. A policy that cannot match a packet by its protocol and port ([`Footprint`]) is not asked
//! about it: one comparison or one look-up takes the place of a walk, and nobody can tell, as rules that do not match do nothing.
//!
//! Which policies stand in a segment follows from their names and order alone, never from their rules, and so do the names of the segment and of
//! its lists. A segment ends where a hash of a policy's name says so: one more policy changes one segment of a stack, and stacks that have
//! a run of policies in common share its chains. A policy whose footprint changes rewrites the segments in which it stands, and
//! nothing else.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::candidates::{Candidates, List};
use super::footprint::Footprint;
use super::names::{Direction, stack_chain};
use super::owner::{Layer, Owner};
use super::words::{marked, protocol};
use crate::calc::event::PolicyId;
use crate::net::PortRange;
use crate::table::{Chain, ChainName, Field, Match, Rule, Verdict};

/// Where the policies run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) direction: Direction,
    pub(super) layer: Layer,
    /// The mark of what has passed.
    pub(super) pass: u32,
}

/// Fewer policies than this are asked one after the other.
const SHORTEST: usize = 8;
const LONGEST: usize = 64;
/// Of so many policies one ends a segment.
const AVERAGE: u32 = 24;

/// Cuts the policies of a tier. Pieces of fewer than [`SHORTEST`] are no segments.
pub(super) fn cut(policies: &[PolicyId]) -> Vec<&[PolicyId]> {
    let mut pieces = Vec::new();
    let mut rest = policies;
    while !rest.is_empty() {
        let ends = |place: &usize| *place >= LONGEST || rest.get(place - 1).is_some_and(ends_segment);
        let length = (SHORTEST..rest.len()).find(ends).unwrap_or(rest.len());
        let Some((piece, behind)) = rest.split_at_checked(length) else { break };
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

pub(super) const fn is_segment(piece: &[PolicyId]) -> bool {
    piece.len() >= SHORTEST
}

/// By the name, so that it stays when others come and go.
fn ends_segment(policy: &PolicyId) -> bool {
    let parts = [policy.0.namespace().unwrap_or_default(), policy.0.name().unwrap_or_default()];
    let octets = parts.into_iter().flat_map(str::bytes);
    // FNV-1a; its upper bits are the better ones.
    let hash = octets.fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    (hash >> 8).is_multiple_of(AVERAGE)
}

/// Appends what tells a policy from all others.
pub(super) fn describe(text: &mut String, policy: &PolicyId) {
    text.push_str(&format!("policy {}\n", policy.0.to_string().escape_debug()));
}

pub(super) fn name(policies: &[PolicyId], way: Way) -> ChainName {
    named("segment", policies.iter(), way)
}

fn named<'a>(kind: &str, policies: impl Iterator<Item = &'a PolicyId>, way: Way) -> ChainName {
    let mut text = String::new();
    policies.for_each(|policy| describe(&mut text, policy));
    stack_chain(&text, way.direction, &format!("{}{kind}-", way.layer.prefix()))
}

/// Asks one policy after the other until one has passed; whether one may have done so before.
pub(super) fn ask<'a>(policies: impl Iterator<Item = &'a PolicyId>, way: Way, may_have_passed: &mut bool) -> Vec<Rule> {
    let ask = |policy: &PolicyId| {
        let owner = Owner::Policy(policy.clone());
        let verdict = Verdict::Jump(owner.chain(way.direction, way.layer));
        unless_passed(verdict, way, may_have_passed, owner.is_staged())
    };
    policies.map(ask).collect()
}

/// Asks a segment as [`ask`] asks a policy.
pub(super) fn ask_segment(policies: &[PolicyId], way: Way, may_have_passed: &mut bool) -> Rule {
    let only_staged = policies.iter().all(PolicyId::is_staged);
    unless_passed(Verdict::Jump(name(policies, way)), way, may_have_passed, only_staged)
}

fn unless_passed(verdict: Verdict, way: Way, may_have_passed: &mut bool, is_staged: bool) -> Rule {
    let matches = if *may_have_passed { vec![marked(way.pass, false)] } else { Vec::new() };
    *may_have_passed |= !is_staged;
    Rule { matches, verdict: Some(verdict), ..Rule::default() }
}

/// The chain of a segment, and the lists that it leads to.
pub(super) fn render(policies: &[PolicyId], footprints: &[&Footprint], way: Way) -> (Chain, Vec<Chain>) {
    let mut lists = Lists { policies, way, chains: BTreeMap::new() };
    let rules = match Candidates::of(footprints) {
        Some(candidates) => lists.dispatch(&candidates),
        None => ask(policies.iter(), way, &mut false),
    };
    (Chain { name: name(policies, way), base: None, rules }, lists.chains.into_values().collect())
}

struct Lists<'a> {
    policies: &'a [PolicyId],
    way: Way,
    chains: BTreeMap<List, Chain>,
}

impl Lists<'_> {
    fn dispatch(&mut self, candidates: &Candidates) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (number, ports) in &candidates.protocols {
            let verdicts: Vec<_> = ports.ranges.iter().map(|(range, list)| (*range, self.lead(list))).collect();
            rules.extend(by_port(*number, verdicts));
            if ports.others != candidates.rest {
                let verdict = Some(self.lead(&ports.others));
                rules.push(Rule { matches: vec![protocol(*number)], verdict, ..Rule::default() });
            }
        }
        if !candidates.rest.is_empty() {
            rules.push(Rule { verdict: Some(self.lead(&candidates.rest)), ..Rule::default() });
        }
        rules
    }

    fn lead(&mut self, list: &List) -> Verdict {
        let (policies, way) = (self.policies, self.way);
        let named_here = || list.iter().filter_map(|place| policies.get(*place));
        let mut asked = named_here();
        let target = match (asked.next(), asked.next()) {
            (None, _) => return Verdict::Return,
            (Some(only), None) => Owner::Policy(only.clone()).chain(way.direction, way.layer),
            _ => {
                let chain = || Chain {
                    name: named("policies", named_here(), way),
                    base: None,
                    rules: ask(named_here(), way, &mut false),
                };
                self.chains.entry(list.clone()).or_insert_with(chain).name.clone()
            }
        };
        Verdict::Goto(target)
    }
}

/// Comparisons where there are few: each costs a tenth of a look-up.
fn by_port(number: u8, verdicts: Vec<(PortRange, Verdict)>) -> Vec<Rule> {
    let field = Field::DstPort;
    if verdicts.len() > FEW {
        let verdict = Some(Verdict::ByPort { field, verdicts });
        return vec![Rule { matches: vec![protocol(number)], verdict, ..Rule::default() }];
    }
    let rule = |(range, verdict)| {
        let in_range = Match::InPorts { field, ranges: vec![range], negated: false };
        Rule { matches: vec![protocol(number), in_range], verdict: Some(verdict), ..Rule::default() }
    };
    verdicts.into_iter().map(rule).collect()
}

const FEW: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{Kind, ResourceKey};

    fn policies(numbers: impl Iterator<Item = usize>) -> Vec<PolicyId> {
        numbers.map(|n| PolicyId(ResourceKey::namespaced(Kind::NetworkPolicy, "shop", &format!("allow-{n}")))).collect()
    }

    #[test]
    fn pieces_are_all_there_is_and_not_too_long() {
        for count in 0..300 {
            let all = policies(0..count);
            let pieces = cut(&all);
            assert_eq!(pieces.concat(), all);
            let (last, others) = pieces.split_last().unzip();
            assert!(last.is_none_or(|piece: &&[PolicyId]| piece.len() <= LONGEST));
            let others: &[&[PolicyId]] = others.unwrap_or_default();
            assert!(others.iter().all(|piece| (SHORTEST..=LONGEST).contains(&piece.len())));
        }
    }

    /// One policy more or less changes the piece where it stands, and now and then some behind it until both cut at one place.
    #[test]
    fn a_change_stays_where_it_is() {
        let all = policies(0..1000);
        let before = cut(&all);
        let mut changed = 0;
        for gone in 0..1000 {
            let after = policies((0..1000).filter(|number| *number != gone));
            changed += cut(&after).iter().filter(|piece| !before.contains(piece)).count();
        }
        assert!(before.len() > 20 && changed < 3000, "{changed} pieces of {} changed in 1000 changes", before.len());
    }

    /// What a segment may have passed is asked no further; staged policies pass nothing.
    #[test]
    fn what_stands_behind_a_segment_is_asked_unless_that_has_passed() {
        let way = Way { direction: Direction::Ingress, layer: Layer::Filter, pass: 1 };
        let real = policies(0..2);
        let staged = [PolicyId(ResourceKey::namespaced(Kind::StagedNetworkPolicy, "shop", "tried"))];
        for (segment, may_pass) in
            [(real.clone(), true), (staged.to_vec(), false), ([&staged, &real[..]].concat(), true)]
        {
            let mut has_passed = false;
            assert_eq!(ask_segment(&segment, way, &mut has_passed).matches, []);
            let expected: &[Match] = if may_pass { &[marked(1, false)] } else { &[] };
            assert_eq!(ask_segment(&real, way, &mut has_passed).matches, expected, "{segment:?}");
        }
    }
}
