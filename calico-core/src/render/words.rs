//! Short words for what many chains say.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use crate::net::{Family, InterfaceName};
use crate::table::{
    BaseChain, Chain, ChainName, ChainType, CtState, Field, Hook, Match, Rule, SetName, Statement, Value, Verdict,
};

pub(super) fn chain(name: &str, rules: Vec<Rule>) -> Chain {
    Chain { name: ChainName::composed(name), base: None, rules }
}

pub(super) fn base(name: &str, hook: Hook, priority: i32, rules: Vec<Rule>) -> Chain {
    let base = BaseChain { chain_type: ChainType::Filter, hook, priority };
    Chain { base: Some(base), ..chain(name, rules) }
}

pub(super) fn accept(matches: Vec<Match>) -> Rule {
    Rule { matches, verdict: Some(Verdict::Accept), ..Rule::default() }
}

pub(super) fn deny(matches: Vec<Match>, comment: &str) -> Rule {
    Rule { verdict: Some(Verdict::Drop), comment: Some(comment.to_string()), ..accept(matches) }
}

pub(super) fn jump(target: &str) -> Rule {
    Rule { verdict: Some(Verdict::Jump(ChainName::composed(target))), ..Rule::default() }
}

pub(super) fn goto(matches: Vec<Match>, target: &str) -> Rule {
    Rule { verdict: Some(Verdict::Goto(ChainName::composed(target))), ..accept(matches) }
}

/// Looks up one field in a verdict map.
pub(super) fn lookup(field: Field, map: &str) -> Rule {
    let verdict = Some(Verdict::Lookup { key: vec![field], map: SetName::composed(map) });
    Rule { verdict, ..Rule::default() }
}

/// The set of a family: `pools4`.
pub(super) fn family_set(name: &str, family: Family) -> SetName {
    let version = match family {
        Family::V4 => 4,
        Family::V6 => 6,
    };
    SetName::composed(&format!("{name}{version}"))
}

pub(super) fn established() -> Rule {
    accept(vec![Match::CtState(CtState::ESTABLISHED.or(CtState::RELATED))])
}

pub(super) const fn protocol(number: u8) -> Match {
    Match::Equal { field: Field::L4Proto, value: Value::Proto(number), negated: false }
}

pub(super) const fn starts(field: Field, prefix: InterfaceName) -> Match {
    Match::InterfacePrefix { field, prefix, negated: false }
}

/// Whether all bits of a mark are set, or none is.
pub(super) const fn marked(bits: u32, set: bool) -> Match {
    Match::Mark { mask: bits, value: if set { bits } else { 0 }, negated: false }
}

/// Sets or clears bits of the mark.
pub(super) const fn mark(bits: u32, set: bool) -> Statement {
    Statement::SetMark { mask: bits, value: if set { bits } else { 0 } }
}
