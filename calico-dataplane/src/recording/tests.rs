//! What the interpreter makes of the words whose meaning is easily got wrong, and what the memory refuses as a kernel does.

use std::net::IpAddr;
use std::time::Duration;

use calico_core::flow::{Decision, Flow};
use calico_core::net::{Family, InterfaceName, PortRange};
use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, CtState, Datum, Delta, Element, ElementDelta, Field, FieldType, Hook,
    Match, RateLimit, Reject, Rule, SetDecl, SetKind, SetName, Statement, Table, TcpFlags, Value, Verdict,
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
    Packet::new(flow)
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
fn a_port_leads_where_its_range_says() {
    let decide = |verdicts: &[(u16, u16, Verdict)]| {
        let range = |(min, max, verdict): &(u16, u16, Verdict)| (PortRange::new(*min, *max).unwrap(), verdict.clone());
        let by_port = Verdict::ByPort { field: Field::DstPort, verdicts: verdicts.iter().map(range).collect() };
        let target = chain("target", None, vec![]);
        decide(vec![chain("base", Some(0), vec![rule(by_port), rule(Verdict::Drop)]), target])
    };
    let around = |verdict| vec![(1, 79, Verdict::Drop), (80, 80, verdict), (81, 90, Verdict::Drop)];
    assert_eq!(decide(&around(Verdict::Accept)), Decision::Allow);
    assert_eq!(decide(&around(goto("target"))), Decision::Allow);
    assert_eq!(decide(&around(jump("target"))), Decision::Deny, "it comes back behind the jump");
    assert_eq!(decide(&[(81, 90, Verdict::Accept)]), Decision::Deny, "no range has the port: it goes on");
    // What it leads to must be there.
    let lost = Verdict::ByPort { field: Field::DstPort, verdicts: vec![(PortRange::single(80), goto("nowhere"))] };
    let delta = Delta { chains_set: vec![chain("base", Some(0), vec![rule(lost)])], ..Delta::default() };
    assert!(Ruleset::default().apply(&delta).is_err());
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

fn statement(statement: Statement) -> Rule {
    Rule { statements: vec![statement], ..Rule::default() }
}

fn ruleset(chains: Vec<Chain>) -> Ruleset {
    let mut ruleset = Ruleset::default();
    ruleset.apply(&Delta { chains_set: chains, ..Delta::default() }).unwrap();
    ruleset
}

fn at(chain_type: ChainType, hook: Hook, priority: i32, name: &str, rules: Vec<Rule>) -> Chain {
    Chain { base: Some(BaseChain { chain_type, hook, priority }), ..chain(name, None, rules) }
}

#[test]
fn before_tracking_all_is_invalid_and_may_be_exempted() {
    let sees = |state| when(Match::CtState(state), Verdict::Drop);
    let raw = |rules| at(ChainType::Filter, Hook::Prerouting, -300, "raw", rules);
    let later = |rules| at(ChainType::Filter, Hook::Prerouting, -150, "later", rules);
    let decide = |chains| ruleset(chains).evaluate(&[Hook::Prerouting, Hook::Forward], packet()).decision;
    assert_eq!(decide(vec![raw(vec![sees(CtState::INVALID)])]), Decision::Deny);
    assert_eq!(decide(vec![raw(vec![sees(CtState::NEW)])]), Decision::Allow);
    assert_eq!(decide(vec![later(vec![sees(CtState::NEW)])]), Decision::Deny);
    let exempt = || statement(Statement::NoTrack);
    assert_eq!(decide(vec![raw(vec![exempt(), sees(CtState::UNTRACKED)])]), Decision::Deny);
    assert_eq!(decide(vec![raw(vec![exempt()]), later(vec![sees(CtState::NEW)])]), Decision::Allow);
    assert_eq!(decide(vec![raw(vec![exempt()]), later(vec![sees(CtState::UNTRACKED)])]), Decision::Deny);
    // Too late.
    let rules = vec![exempt(), sees(CtState::UNTRACKED)];
    assert_eq!(decide(vec![later(rules)]), Decision::Allow);
}

#[test]
fn without_a_connection_nothing_is_said_of_its_translation() {
    for (ct_state, translated, denied) in [
        (CtState::NEW, true, [true, false]),
        (CtState::ESTABLISHED, false, [false, true]),
        (CtState::UNTRACKED, false, [false, false]),
        (CtState::INVALID, true, [false, false]),
    ] {
        let found = [false, true].map(|negated| {
            let drops = chain("a", Some(0), vec![when(Match::Translated { negated }, Verdict::Drop)]);
            let packet = Packet { ct_state, translated, ..packet() };
            ruleset(vec![drops]).evaluate(&[Hook::Forward], packet).decision == Decision::Deny
        });
        assert_eq!(found, denied, "{ct_state}");
    }
}

#[test]
fn flags_are_those_of_tcp() {
    let mask = TcpFlags::SYN.and(TcpFlags::ACK);
    for (protocol, tcp_flags, found) in [
        (6, TcpFlags::SYN, [true, false]),
        (6, TcpFlags::SYN.and(TcpFlags::RST), [true, false]),
        (6, TcpFlags::SYN.and(TcpFlags::ACK), [false, true]),
        (6, TcpFlags::ACK, [false, true]),
        (17, TcpFlags::SYN, [false, false]),
    ] {
        let dropped = [false, true].map(|negated| {
            let begins = Match::Tcp { mask, value: TcpFlags::SYN, negated };
            let packet = Packet { tcp_flags: tcp_flags.bits(), ..packet() };
            let packet = Packet { flow: Flow { protocol, ..packet.flow }, ..packet };
            let drops = chain("a", Some(0), vec![when(begins, Verdict::Drop)]);
            ruleset(vec![drops]).evaluate(&[Hook::Forward], packet).decision == Decision::Deny
        });
        assert_eq!(dropped, found, "{protocol} {tcp_flags}");
    }
}

#[test]
fn limits_take_their_burst_and_then_their_rate() {
    for over in [false, true] {
        let limit = RateLimit { rate: 2, seconds: 1, burst: 3, over };
        let rules = vec![Rule { statements: vec![Statement::Limit(limit)], ..rule(Verdict::Drop) }];
        let ruleset = ruleset(vec![chain("a", Some(0), rules)]);
        let mut host = Surroundings::default();
        let within = |host: &mut Surroundings, packets| {
            let evaluate = |_| ruleset.evaluate_in(&[Hook::Forward], packet(), host).decision;
            (0..packets).map(evaluate).filter(|found| (*found == Decision::Deny) != over).count()
        };
        assert_eq!(within(&mut host, 5), 3);
        host.advance(Duration::from_millis(499));
        assert_eq!(within(&mut host, 2), 0);
        host.advance(Duration::from_millis(1));
        assert_eq!(within(&mut host, 2), 1);
        host.advance(Duration::from_secs(100));
        assert_eq!(within(&mut host, 5), 3);
    }
}

#[test]
fn connections_are_counted_until_they_end() {
    let rules = vec![Rule { statements: vec![Statement::ConnectionsOver(2)], ..rule(Verdict::Drop) }];
    let ruleset = ruleset(vec![chain("a", Some(0), rules)]);
    let mut host = Surroundings::default();
    let open = |host: &mut Surroundings, source_port, ct_state| {
        let flow = Flow { source_port, ..packet().flow };
        ruleset.evaluate_in(&[Hook::Forward], Packet { ct_state, ..Packet::new(flow) }, host).decision
    };
    assert_eq!(open(&mut host, 1, CtState::NEW), Decision::Allow);
    assert_eq!(open(&mut host, 2, CtState::NEW), Decision::Allow);
    assert_eq!(open(&mut host, 2, CtState::ESTABLISHED), Decision::Allow);
    assert_eq!(open(&mut host, 3, CtState::NEW), Decision::Deny);
    // The third never came about.
    assert_eq!(open(&mut host, 1, CtState::ESTABLISHED), Decision::Allow);
    host.end_connection(&Flow { source_port: 2, ..packet().flow });
    assert_eq!(open(&mut host, 4, CtState::NEW), Decision::Allow);
}

#[test]
fn the_first_translation_is_the_last_and_what_follows_sees_it() {
    let eth0: InterfaceName = "eth0".parse().unwrap();
    let own: IpAddr = [192, 0, 2, 1].into();
    let mut host = Surroundings::new([(eth0, vec!["fd00::1".parse().unwrap(), own])]);
    let ports = PortRange::new(5000, 6000);
    let tcp = || Match::Equal { field: Field::L4Proto, value: Value::Proto(6), negated: false };
    let masquerade = when(tcp(), Verdict::Masquerade { ports, random: false });
    let other = rule(Verdict::Snat { address: [192, 0, 2, 9].into(), ports: None, random: false });
    let six = rule(Verdict::Snat { address: "fd00::9".parse().unwrap(), ports: None, random: false });
    // Where the kernel translates, an accept before it ends only its own chain.
    let ruleset = ruleset(vec![
        at(ChainType::Nat, Hook::Postrouting, 90, "first", vec![six, rule(Verdict::Accept)]),
        at(ChainType::Nat, Hook::Postrouting, 110, "second", vec![masquerade]),
        at(ChainType::Nat, Hook::Postrouting, 120, "third", vec![other]),
        at(
            ChainType::Filter,
            Hook::Postrouting,
            105,
            "after",
            vec![when(Match::Local { field: Field::SrcAddr(Family::V4), negated: false }, Verdict::Return)],
        ),
    ]);
    let packet = Packet { oif: Some(eth0), ..packet() };
    let found = ruleset.evaluate_in(&[Hook::Postrouting], packet, &mut host);
    assert_eq!((found.packet.flow.source, found.packet.flow.source_port), (own, 5000));
    assert_eq!(found.trace.last().unwrap().chain.as_str(), "after", "a filter chain behind sees the new source");
    let established = Packet { ct_state: CtState::ESTABLISHED, ..packet };
    assert_eq!(ruleset.evaluate_in(&[Hook::Postrouting], established, &mut host).packet, established);
}

#[test]
fn maps_of_addresses_translate_what_they_hold() {
    let map = SetName::new("map").unwrap();
    let inside: IpAddr = [10, 0, 0, 9].into();
    let decl = |name| SetDecl::new(name, vec![FieldType::Addr(Family::V4)], SetKind::AddressMap(Family::V4));
    let key = |field| vec![field];
    let dnat = rule(Verdict::DnatLookup { key: key(Field::DstAddr(Family::V4)), map: map.clone() });
    let snat = rule(Verdict::SnatLookup { key: key(Field::SrcAddr(Family::V4)), map: map.clone() });
    let added = vec![
        Element::address([Datum::Addr(packet().flow.destination)], inside),
        Element::address([Datum::Addr(packet().flow.source)], inside),
    ];
    let mut ruleset = Ruleset::default();
    let delta = Delta {
        sets_added: vec![decl(map.clone())],
        chains_set: vec![
            at(ChainType::Nat, Hook::Prerouting, -100, "pre", vec![dnat]),
            at(ChainType::Nat, Hook::Postrouting, 100, "post", vec![snat]),
        ],
        elements: vec![ElementDelta { set: map.clone(), removed: vec![], added }],
        ..Delta::default()
    };
    ruleset.apply(&delta).unwrap();
    let found = ruleset.evaluate(&[Hook::Prerouting], packet()).packet;
    assert_eq!((found.flow.destination, found.translated), (inside, true));
    let found = ruleset.evaluate(&[Hook::Postrouting], packet()).packet;
    assert_eq!((found.flow.source, found.translated), (inside, false));
    let other = Packet::new(Flow { destination: [9, 9, 9, 9].into(), ..packet().flow });
    assert_eq!(ruleset.evaluate(&[Hook::Prerouting], other).packet, other);
    // An address of the other family is nothing that this map holds, nor is a verdict.
    let bad = [
        Element::address([Datum::Addr([1, 1, 1, 1].into())], "fd00::1".parse().unwrap()),
        Element::verdict([Datum::Addr([1, 1, 1, 1].into())], Verdict::Drop),
        Element::member([Datum::Addr([1, 1, 1, 1].into())]),
    ];
    for element in bad {
        let change = ElementDelta { set: map.clone(), removed: vec![], added: vec![element] };
        assert!(ruleset.apply(&Delta { elements: vec![change], ..Delta::default() }).is_err());
    }
}

#[test]
fn either_table_sees_its_own_packets() {
    let sender = [10, 0, 0, 7].into();
    let from = |reply| Packet::arp(Arp { reply, sender });
    let is_sender = Match::Equal { field: Field::ArpSender, value: Value::Addr(sender.into()), negated: false };
    let rule = Rule { matches: vec![Match::ArpReply, is_sender], ..rule(Verdict::Drop) };
    let base = BaseChain { chain_type: ChainType::Filter, hook: Hook::Output, priority: 0 };
    let name = |table| ChainName::of(table, "output").unwrap();
    let arp = Chain { name: name(Table::Arp), base: Some(base), rules: vec![rule] };
    let inet = Chain { name: name(Table::Inet), base: Some(base), rules: vec![self::rule(Verdict::Drop)] };
    let decide = |chains: &[&Chain], packet| {
        ruleset(chains.iter().map(|chain| (*chain).clone()).collect()).evaluate(&[Hook::Output], packet).decision
    };
    assert_eq!(decide(&[&arp], from(true)), Decision::Deny);
    assert_eq!(decide(&[&arp], from(false)), Decision::Allow);
    assert_eq!(decide(&[&arp], packet()), Decision::Allow);
    assert_eq!(decide(&[&inet], from(true)), Decision::Allow);
    assert_eq!(decide(&[&inet, &arp], packet()), Decision::Deny);
    let forwarded = Chain { base: Some(BaseChain { hook: Hook::Forward, ..base }), ..arp };
    let delta = Delta { chains_set: vec![forwarded], ..Delta::default() };
    assert!(Ruleset::default().apply(&delta).is_err(), "ARP has no such hook");
}

#[test]
fn a_refusal_says_how() {
    let refuse = |reject| vec![chain("a", Some(0), vec![rule(Verdict::Reject(reject))])];
    let found = ruleset(refuse(Reject::PortUnreachable)).evaluate(&[Hook::Forward], packet());
    assert_eq!((found.decision, found.rejected), (Decision::Deny, Some(Reject::PortUnreachable)));
}

#[test]
fn a_code_point_is_set_on_its_own_family_only() {
    let set = |family| statement(Statement::SetDscp { family, value: 46 });
    let chains =
        vec![chain("a", Some(0), vec![Rule { verdict: Some(Verdict::Drop), ..set(Family::V6) }, set(Family::V4)])];
    let found = ruleset(chains).evaluate(&[Hook::Forward], packet());
    assert_eq!((found.decision, found.packet.dscp), (Decision::Allow, 46));
}

/// What a kernel says of words at hooks that cannot have them.
#[test]
fn words_stand_only_where_they_may() {
    let masquerade = || rule(Verdict::Masquerade { ports: None, random: false });
    let through = || rule(jump("target"));
    let below = |chain_type, hook, priority, rule: Rule| {
        vec![at(chain_type, hook, priority, "base", vec![through()]), chain("target", None, vec![rule])]
    };
    let filter = |hook, rule| below(ChainType::Filter, hook, 0, rule);
    let nat = |hook, rule| below(ChainType::Nat, hook, 0, rule);
    let reject = || rule(Verdict::Reject(Reject::PortUnreachable));
    let apply = |chains| Ruleset::default().apply(&Delta { chains_set: chains, ..Delta::default() });
    for good in [
        nat(Hook::Postrouting, masquerade()),
        filter(Hook::Input, reject()),
        vec![chain("alone", None, vec![masquerade(), reject()])],
        below(ChainType::Route, Hook::Output, 0, rule(Verdict::Accept)),
    ] {
        apply(good).unwrap();
    }
    for bad in [
        nat(Hook::Prerouting, masquerade()),
        filter(Hook::Postrouting, masquerade()),
        filter(Hook::Postrouting, reject()),
        nat(Hook::Forward, rule(Verdict::Accept)),
        below(ChainType::Nat, Hook::Postrouting, -300, rule(Verdict::Accept)),
        below(ChainType::Route, Hook::Forward, 0, rule(Verdict::Accept)),
        vec![chain("a", None, vec![rule(Verdict::Reject(Reject::TcpReset))])],
    ] {
        assert!(apply(bad.clone()).is_err(), "{bad:?}");
    }
}

#[test]
fn what_a_kernel_refuses_changes_nothing() {
    let map = SetName::new("map").unwrap();
    let decl = SetDecl { name: map.clone(), key: vec![FieldType::Port], kind: SetKind::VerdictMap };
    let leads = |verdict| ElementDelta {
        set: map.clone(),
        removed: Vec::new(),
        added: vec![Element::verdict([Datum::Port(80)], verdict)],
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
