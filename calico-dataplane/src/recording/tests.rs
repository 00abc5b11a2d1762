//! What the interpreter makes of the words whose meaning is easily got wrong, and what the memory refuses as a kernel does.

use calico_core::flow::{Decision, Flow};
use calico_core::net::Family;
use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, CtState, Datum, Delta, Element, ElementDelta, Field, FieldType, Hook,
    Match, Rule, SetDecl, SetKind, SetName, Statement, Verdict,
};

use super::*;

fn chain(name: &str, base: Option<i32>, rules: Vec<Rule>) -> Chain {
    let base = base.map(|priority| BaseChain { chain_type: ChainType::Filter, hook: Hook::Forward, priority });
    Chain { name: ChainName::new(name).unwrap(), base, rules }
}

fn rule(verdict: Verdict) -> Rule {
    Rule { verdict: Some(verdict), ..Rule::default() }
}

fn when(condition: Match, verdict: Verdict) -> Rule {
    Rule { matches: vec![condition], ..rule(verdict) }
}

fn jump(name: &str) -> Verdict {
    Verdict::Jump(ChainName::new(name).unwrap())
}

fn goto(name: &str) -> Verdict {
    Verdict::Goto(ChainName::new(name).unwrap())
}

fn packet() -> Packet {
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let flow = Flow { source, destination, protocol: 6, source_port: 40_000, destination_port: 80, icmp: None };
    Packet { iif: None, oif: None, flow, ct_state: CtState::NEW, mark: 0 }
}

fn evaluate(chains: Vec<Chain>) -> Evaluation {
    let mut ruleset = Ruleset::default();
    ruleset.apply(&Delta { chains_set: chains, ..Delta::default() }).unwrap();
    ruleset.evaluate(&[Hook::Forward], packet())
}

fn decide(chains: Vec<Chain>) -> Decision {
    evaluate(chains).decision
}

#[test]
fn accept_ends_its_own_base_chain_only_and_drop_ends_all() {
    let accept = || chain("first", Some(0), vec![rule(Verdict::Accept), rule(Verdict::Drop)]);
    assert_eq!(decide(vec![accept()]), Decision::Allow);
    assert_eq!(decide(vec![accept(), chain("second", Some(1), vec![rule(Verdict::Drop)])]), Decision::Deny);
    assert_eq!(decide(vec![chain("a", Some(1), vec![rule(Verdict::Drop)]), accept()]), Decision::Deny);
    assert_eq!(decide(vec![]), Decision::Allow);
}

#[test]
fn jump_comes_back_and_goto_does_not() {
    let target = || chain("target", None, vec![rule(Verdict::Return), rule(Verdict::Accept)]);
    let base = |verdict| chain("base", Some(0), vec![rule(verdict), rule(Verdict::Drop)]);
    assert_eq!(decide(vec![base(jump("target")), target()]), Decision::Deny);
    assert_eq!(decide(vec![base(goto("target")), target()]), Decision::Allow);
    // A goto from a chain that was jumped to comes back behind the jump.
    let middle = chain("middle", None, vec![rule(goto("target")), rule(Verdict::Accept)]);
    assert_eq!(decide(vec![base(jump("middle")), middle, target()]), Decision::Deny);
}

#[test]
fn marks_are_kept_between_chains() {
    let mark = Statement::SetMark { mask: 0xff00, value: 0x1200 };
    let set = Rule { statements: vec![mark], ..Rule::default() };
    let check = |value, negated| when(Match::Mark { mask: 0xff00, value, negated }, Verdict::Drop);
    let with = |check| vec![chain("a", Some(0), vec![set.clone()]), chain("b", Some(1), vec![check])];
    assert_eq!(decide(with(check(0x1200, false))), Decision::Deny);
    assert_eq!(decide(with(check(0x1200, true))), Decision::Allow);
}

#[test]
fn a_condition_on_the_other_family_holds_neither_way() {
    for negated in [false, true] {
        let cidr = "fd00::/8".parse().unwrap();
        let condition = Match::InCidr { field: Field::SrcAddr(Family::V6), cidr, negated };
        assert_eq!(decide(vec![chain("a", Some(0), vec![when(condition, Verdict::Drop)])]), Decision::Allow);
    }
}

#[test]
fn the_trace_names_what_matched() {
    let target = chain("target", None, vec![when(Match::Family(Family::V6), Verdict::Drop), rule(Verdict::Drop)]);
    let found = evaluate(vec![chain("base", Some(0), vec![rule(jump("target"))]), target]);
    let way: Vec<String> = found.trace.iter().map(ToString::to_string).collect();
    assert_eq!(way, ["base: jump target", "target: drop"]);
}

#[test]
fn what_a_kernel_refuses_changes_nothing() {
    let map = SetName::new("map").unwrap();
    let decl = SetDecl { name: map.clone(), key: vec![FieldType::Port], kind: SetKind::VerdictMap };
    let leads = |verdict| ElementDelta {
        set: map.clone(),
        removed: Vec::new(),
        added: vec![Element { key: [Datum::Port(80)].into(), verdict: Some(verdict) }],
    };
    let mut ruleset = Ruleset::default();
    let good = Delta {
        sets_added: vec![decl],
        chains_set: vec![chain("target", None, Vec::new())],
        elements: vec![leads(goto("target"))],
        ..Delta::default()
    };
    ruleset.apply(&good).unwrap();
    let before = ruleset.clone();
    let target = vec![ChainName::new("target").unwrap()];
    let refused = [
        Delta { elements: vec![leads(Verdict::Drop)], ..Delta::default() },
        Delta { chains_removed: target, ..Delta::default() },
        Delta { chains_set: vec![chain("bad", None, vec![rule(jump("nowhere"))])], ..Delta::default() },
        Delta { chains_set: vec![chain("target", Some(0), Vec::new())], ..Delta::default() },
    ];
    for delta in refused {
        assert!(ruleset.apply(&delta).is_err(), "{delta}");
        assert_eq!(ruleset, before);
    }
}
