//! A table that uses every word of the table language, for tests of backends.

#![expect(clippy::unwrap_used, reason = "a fixture made of literals")]

use calico_core::net::{Family, PortRange};
use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, CtState, Datum, Delta, Element, ElementDelta, Field, FieldType, Hook,
    Match, RateLimit, Reject, Rule, SetDecl, SetKind, SetName, Statement, Table, TcpFlags, Value, Verdict,
};

/// A chain name of the ARP table.
pub fn arp_chain(name: &str) -> ChainName {
    ChainName::of(Table::Arp, name).unwrap()
}

/// A set name of the ARP table.
pub fn arp_set(name: &str) -> SetName {
    SetName::of(Table::Arp, name).unwrap()
}

/// A chain name.
pub fn chain_name(name: &str) -> ChainName {
    ChainName::new(name).unwrap()
}

/// A set name.
pub fn set_name(name: &str) -> SetName {
    SetName::new(name).unwrap()
}

/// An element of a set.
pub fn member(key: impl IntoIterator<Item = Datum>) -> Element {
    Element { key: key.into_iter().collect(), data: None }
}

/// An address as part of a key.
pub fn addr(text: &str) -> Datum {
    Datum::Addr(text.parse().unwrap())
}

/// A prefix as a key.
pub fn net(text: &str) -> Datum {
    Datum::Net(text.parse().unwrap())
}

/// An interface name as part of a key.
pub fn interface(text: &str) -> Datum {
    Datum::Interface(text.parse().unwrap())
}

/// A rule of one match and a verdict.
pub fn rule(condition: Match, verdict: Verdict) -> Rule {
    Rule { matches: vec![condition], verdict: Some(verdict), ..Rule::default() }
}

/// Each set that [`delta`] declares, with its elements.
pub fn sets() -> Vec<(SetDecl, Vec<Element>)> {
    let decl = |name, key: &[FieldType], kind| SetDecl { name: set_name(name), key: key.to_vec(), kind };
    let (v4, v6) = (FieldType::Addr(Family::V4), FieldType::Addr(Family::V6));
    let leads = |name, verdict| Element::verdict([interface(name)], verdict);
    let port = |address, port| member([addr(address), Datum::Proto(6), Datum::Port(port)]);
    vec![
        (decl("hosts4", &[v4], SetKind::Hash), vec![member([addr("10.0.0.1")]), member([addr("10.0.0.2")])]),
        (decl("hosts6", &[v6], SetKind::Hash), vec![member([addr("fd00::1")])]),
        (
            decl("nets4", &[v4], SetKind::Interval),
            // Neighbours, a host, and both ends of the address space.
            ["10.0.0.0/25", "10.0.0.128/25", "10.9.9.9/32", "0.0.0.0/8", "240.0.0.0/4"]
                .map(|cidr| member([net(cidr)]))
                .into(),
        ),
        (decl("nets6", &[v6], SetKind::Interval), vec![member([net("fd00::/64")]), member([net("fd00:0:0:1::/64")])]),
        (
            decl("ports", &[v4, FieldType::Proto, FieldType::Port], SetKind::Hash),
            vec![port("10.0.0.1", 80), port("10.0.0.1", 443)],
        ),
        (
            decl("spoof", &[FieldType::Interface, v4], SetKind::Hash),
            vec![member([interface("cali1"), addr("10.0.0.1")])],
        ),
        (
            decl("spoof6", &[FieldType::Interface, v6], SetKind::Hash),
            vec![member([interface("cali1"), addr("fd00::1")])],
        ),
        (decl("service", &[FieldType::Port], SetKind::Hash), vec![member([Datum::Port(53)])]),
        (decl("protocol", &[FieldType::Proto], SetKind::Hash), vec![member([Datum::Proto(132)])]),
        (
            decl("dispatch", &[FieldType::Interface], SetKind::VerdictMap),
            vec![
                leads("cali1", Verdict::Goto(chain_name("stack-1"))),
                leads("cali2", Verdict::Jump(chain_name("stack-1"))),
                leads("cali3", Verdict::Drop),
                leads("cali4", Verdict::Accept),
                leads("cali5", Verdict::Return),
            ],
        ),
        (
            decl("floating4", &[v4], SetKind::AddressMap(Family::V4)),
            vec![
                Element::address([addr("192.0.2.1")], "10.0.0.1".parse().unwrap()),
                Element::address([addr("192.0.2.2")], "10.0.0.2".parse().unwrap()),
            ],
        ),
        (
            decl("floating6", &[FieldType::Interface, v6], SetKind::AddressMap(Family::V6)),
            vec![Element::address([interface("eth0"), addr("2001:db8::1")], "fd00::1".parse().unwrap())],
        ),
        // The same name in the other table is another set.
        (SetDecl { name: arp_set("hosts4"), key: vec![v4], kind: SetKind::Hash }, vec![member([addr("10.0.0.3")])]),
        (
            SetDecl { name: arp_set("dispatch"), key: vec![FieldType::Interface], kind: SetKind::VerdictMap },
            vec![leads("cali1", Verdict::Goto(arp_chain("stack-1"))), leads("cali2", Verdict::Drop)],
        ),
    ]
}

/// One rule for each match, negated where that is possible, each statement and each verdict of a filter chain.
pub fn rules() -> Vec<Rule> {
    let (src4, dst4) = (Field::SrcAddr(Family::V4), Field::DstAddr(Family::V4));
    let (src6, dst6) = (Field::SrcAddr(Family::V6), Field::DstAddr(Family::V6));
    let tcp = Match::Equal { field: Field::L4Proto, value: Value::Proto(6), negated: false };
    let mut matches = vec![
        vec![Match::Family(Family::V4)],
        vec![Match::Family(Family::V6)],
        vec![Match::CtState(CtState::ESTABLISHED.or(CtState::RELATED))],
        vec![Match::CtState(CtState::INVALID)],
    ];
    for negated in [false, true] {
        let equal = |field, value| Match::Equal { field, value, negated };
        let set = |key: &[Field], set| Match::InSet { key: key.to_vec(), set: set_name(set), negated };
        let prefix = |field, prefix: &str| Match::InterfacePrefix { field, prefix: prefix.parse().unwrap(), negated };
        let cidr = |field, cidr: &str| Match::InCidr { field, cidr: cidr.parse().unwrap(), negated };
        let cidrs = |field, cidrs: &[&str]| Match::InCidrs {
            field,
            cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
            negated,
        };
        let flags = TcpFlags::FIN.and(TcpFlags::SYN).and(TcpFlags::RST).and(TcpFlags::ACK);
        let begins = Match::Tcp { mask: flags, value: TcpFlags::SYN, negated };
        let ports = |field, ranges: &[(u16, u16)]| Match::InPorts {
            field,
            ranges: ranges.iter().map(|(min, max)| PortRange::new(*min, *max).unwrap()).collect(),
            negated,
        };
        let icmp = |family, icmp_type, code| Match::Icmp { family, icmp_type, code, negated };
        matches.extend([
            vec![equal(Field::IifName, Value::Interface("eth0".parse().unwrap()))],
            vec![equal(Field::OifName, Value::Interface("cali12345678901".parse().unwrap()))],
            vec![equal(src4, Value::Addr("10.0.0.1".parse().unwrap()))],
            vec![equal(dst6, Value::Addr("fd00::1".parse().unwrap()))],
            vec![equal(Field::L4Proto, Value::Proto(17))],
            vec![tcp.clone(), equal(Field::DstPort, Value::Port(80))],
            vec![prefix(Field::IifName, "cali")],
            vec![prefix(Field::OifName, "cali")],
            vec![cidr(src4, "10.0.0.0/8")],
            vec![cidr(dst4, "10.0.0.0/12")],
            vec![cidr(src6, "fd00::/64")],
            vec![cidr(dst6, "fd00::/61")],
            vec![cidrs(src4, &["10.0.0.0/8", "192.168.0.0/16"])],
            vec![cidrs(dst4, &["10.0.0.1/32", "10.0.0.2/32"])],
            vec![cidrs(dst6, &["fd00::/64", "fd00:0:0:2::/64"])],
            vec![tcp.clone(), ports(Field::DstPort, &[(80, 90)])],
            vec![tcp.clone(), ports(Field::SrcPort, &[(1, 1023), (8080, 8080)])],
            vec![tcp.clone(), ports(Field::DstPort, &[(80, 80), (443, 443)])],
            vec![set(&[src4], "hosts4")],
            vec![set(&[dst6], "hosts6")],
            vec![set(&[src4], "nets4")],
            vec![set(&[src6], "nets6")],
            vec![set(&[dst4, Field::L4Proto, Field::DstPort], "ports")],
            vec![set(&[Field::IifName, src4], "spoof")],
            vec![set(&[Field::IifName, src6], "spoof6")],
            vec![set(&[Field::L4Proto], "protocol")],
            vec![tcp.clone(), set(&[Field::DstPort], "service")],
            vec![icmp(Family::V4, 8, None)],
            vec![icmp(Family::V4, 3, Some(4))],
            vec![icmp(Family::V6, 128, Some(0))],
            vec![Match::Mark { mask: 0xff00, value: 0x1200, negated }],
            vec![Match::Translated { negated }],
            vec![tcp.clone(), begins.clone()],
            vec![begins],
            vec![Match::Local { field: src4, negated }],
            vec![Match::Local { field: dst6, negated }],
        ]);
    }
    let mut rules: Vec<Rule> = matches
        .into_iter()
        .map(|matches| Rule { matches, verdict: Some(Verdict::Accept), ..Rule::default() })
        .collect();
    let statement = |statement| Rule { statements: vec![statement], ..Rule::default() };
    rules.extend([
        statement(Statement::Counter),
        statement(Statement::Log { prefix: "calico: ".into() }),
        statement(Statement::SetMark { mask: 0xff, value: 0x12 }),
        statement(Statement::LogGroup { group: 1, prefix: "DPI|default".into(), snaplen: 80 }),
        statement(Statement::SetDscp { family: Family::V4, value: 10 }),
        statement(Statement::SetDscp { family: Family::V6, value: 33 }),
        statement(Statement::ConnectionsOver(100)),
        Rule { matches: vec![tcp], verdict: Some(Verdict::Reject(Reject::TcpReset)), ..Rule::default() },
    ]);
    let limits = [(10, 1, 5, false), (300, 60, 10, true), (7, 3600, 1, false), (u32::MAX, 86_400, 2, true)];
    rules.extend(
        limits
            .map(|(rate, seconds, burst, over)| statement(Statement::Limit(RateLimit { rate, seconds, burst, over }))),
    );
    rules.extend(rules_by_port());
    let verdicts = [
        Verdict::Reject(Reject::PortUnreachable),
        Verdict::Lookup { key: vec![Field::IifName], map: set_name("dispatch") },
        Verdict::Jump(chain_name("stack-1")),
        Verdict::Goto(chain_name("stack-1")),
        Verdict::Drop,
        Verdict::Return,
    ];
    rules.extend(verdicts.map(|verdict| Rule { verdict: Some(verdict), ..Rule::default() }));
    if let Some(last) = rules.last_mut() {
        last.comment = Some("the last one".into());
    }
    rules
}

/// Ports alone, and ranges that touch, up to the last port.
fn rules_by_port() -> [Rule; 2] {
    let tcp = || Match::Equal { field: Field::L4Proto, value: Value::Proto(6), negated: false };
    let by_port = |verdicts: &[(u16, u16, Verdict)]| {
        let verdicts =
            verdicts.iter().map(|(min, max, verdict)| (PortRange::new(*min, *max).unwrap(), verdict.clone()));
        Verdict::ByPort { field: Field::DstPort, verdicts: verdicts.collect() }
    };
    let goto = || Verdict::Goto(chain_name("stack-1"));
    [
        rule(tcp(), by_port(&[(80, 80, goto()), (443, 443, Verdict::Jump(chain_name("stack-1")))])),
        rule(tcp(), by_port(&[(1, 79, Verdict::Return), (80, 80, goto()), (8000, u16::MAX, Verdict::Drop)])),
    ]
}

/// One rule for each translation of the source.
fn source_translations() -> Vec<Rule> {
    let ports = |min, max| Some(PortRange::new(min, max).unwrap());
    let udp = Match::Equal { field: Field::L4Proto, value: Value::Proto(17), negated: false };
    let (four, six) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let mut verdicts = Vec::new();
    for random in [false, true] {
        for ports in [None, ports(1024, 2047), ports(4000, 4000)] {
            verdicts.push(Verdict::Masquerade { ports, random });
            verdicts.extend([four, six].map(|address| Verdict::Snat { address, ports, random }));
        }
    }
    let mut rules: Vec<Rule> = verdicts.into_iter().map(|verdict| rule(udp.clone(), verdict)).collect();
    let lookups = [
        Verdict::SnatLookup { key: vec![Field::SrcAddr(Family::V4)], map: set_name("floating4") },
        Verdict::SnatLookup { key: vec![Field::OifName, Field::SrcAddr(Family::V6)], map: set_name("floating6") },
    ];
    rules.extend(lookups.map(|verdict| Rule { verdict: Some(verdict), ..Rule::default() }));
    rules
}

fn destination_translations() -> Vec<Rule> {
    let lookups = [
        Verdict::DnatLookup { key: vec![Field::DstAddr(Family::V4)], map: set_name("floating4") },
        Verdict::DnatLookup { key: vec![Field::IifName, Field::DstAddr(Family::V6)], map: set_name("floating6") },
    ];
    lookups.map(|verdict| Rule { verdict: Some(verdict), ..Rule::default() }).into()
}

/// The word that only a base chain before connection tracking may use.
fn before_tracking() -> Vec<Rule> {
    vec![Rule { statements: vec![Statement::NoTrack], ..Rule::default() }]
}

/// One rule for each word of the ARP table.
fn arp_rules() -> Vec<Rule> {
    let sender = Field::ArpSender;
    let mut matches = vec![vec![Match::ArpReply]];
    for negated in [false, true] {
        let cidr = |text: &str| text.parse().unwrap();
        let set = |key: &[Field]| Match::InSet { key: key.to_vec(), set: arp_set("hosts4"), negated };
        matches.extend([
            vec![Match::Equal { field: sender, value: Value::Addr("10.0.0.1".parse().unwrap()), negated }],
            vec![Match::Equal { field: Field::OifName, value: Value::Interface("eth0".parse().unwrap()), negated }],
            vec![Match::InCidr { field: sender, cidr: cidr("10.0.0.0/8"), negated }],
            vec![Match::InCidr { field: sender, cidr: cidr("10.0.0.0/12"), negated }],
            vec![Match::InCidrs { field: sender, cidrs: vec![cidr("10.0.0.0/8"), cidr("192.168.0.0/16")], negated }],
            vec![Match::ArpReply, set(&[sender])],
            vec![Match::InterfacePrefix { field: Field::OifName, prefix: "cali".parse().unwrap(), negated }],
            vec![Match::Mark { mask: 0xff, value: 0x12, negated }],
        ]);
    }
    let mut rules: Vec<Rule> = matches
        .into_iter()
        .map(|matches| Rule { matches, verdict: Some(Verdict::Return), ..Rule::default() })
        .collect();
    let limit = Statement::Limit(RateLimit { rate: 10, seconds: 1, burst: 5, over: false });
    let group = Statement::LogGroup { group: 1, prefix: "arp".into(), snaplen: 28 };
    let mark = Statement::SetMark { mask: 1, value: 1 };
    let log = Statement::Log { prefix: "arp: ".into() };
    rules.push(Rule { statements: vec![Statement::Counter, limit, group, mark, log], ..Rule::default() });
    let lookup = Verdict::Lookup { key: vec![Field::OifName], map: arp_set("dispatch") };
    let verdicts = [lookup, Verdict::Jump(arp_chain("stack-1")), Verdict::Accept];
    rules.extend(verdicts.map(|verdict| Rule { verdict: Some(verdict), ..Rule::default() }));
    rules
}

/// Chains that use [`rules`] and [`sets`], some of them in hooks, one without rules.
pub fn chains() -> Vec<Chain> {
    let base = |chain_type, hook, priority| Some(BaseChain { chain_type, hook, priority });
    let chain = |name, base, rules| Chain { name: chain_name(name), base, rules };
    let log = Rule { statements: vec![Statement::Counter], verdict: Some(Verdict::Drop), ..Rule::default() };
    let mark = Rule { statements: vec![Statement::SetMark { mask: 1, value: 1 }], ..Rule::default() };
    let arp = |name, base, rules| Chain { name: arp_chain(name), base, rules };
    vec![
        chain("every-match", None, rules()),
        chain("empty", None, Vec::new()),
        chain("stack-1", None, vec![log]),
        chain(
            "filter-forward",
            base(ChainType::Filter, Hook::Forward, -5),
            vec![rule(
                Match::InterfacePrefix { field: Field::IifName, prefix: "cali".parse().unwrap(), negated: false },
                Verdict::Jump(chain_name("every-match")),
            )],
        ),
        chain("nat-postrouting", base(ChainType::Nat, Hook::Postrouting, 100), source_translations()),
        chain("nat-prerouting", base(ChainType::Nat, Hook::Prerouting, -100), destination_translations()),
        chain("raw-prerouting", base(ChainType::Filter, Hook::Prerouting, -300), before_tracking()),
        chain("mangle-output", base(ChainType::Route, Hook::Output, -150), vec![mark]),
        arp("stack-1", None, vec![rule(Match::ArpReply, Verdict::Drop)]),
        arp("filter-output", base(ChainType::Filter, Hook::Output, 0), arp_rules()),
    ]
}

/// Everything at once.
pub fn delta() -> Delta {
    let sets = sets();
    Delta {
        sets_added: sets.iter().map(|(decl, _)| decl.clone()).collect(),
        chains_set: chains(),
        elements: sets
            .into_iter()
            .map(|(decl, added)| ElementDelta { set: decl.name, removed: Vec::new(), added })
            .collect(),
        ..Delta::default()
    }
}

/// Removes what [`delta`] made.
pub fn removal() -> Delta {
    Delta {
        elements: sets()
            .into_iter()
            .map(|(decl, removed)| ElementDelta { set: decl.name, removed, added: Vec::new() })
            .collect(),
        chains_removed: chains().into_iter().map(|chain| chain.name).collect(),
        sets_removed: sets().into_iter().map(|(decl, _)| decl.name).collect(),
        ..Delta::default()
    }
}
