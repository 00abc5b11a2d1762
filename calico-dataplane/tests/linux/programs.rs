//! Random programs of the whole table language, for both encoders. The same seed gives the same program.

use calico_core::net::{Cidr, Family, PortRange};
use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, CtState, Delta, Field, Hook, Match, RateLimit, Reject, Rule, SetName,
    Statement, Table, Value, Verdict,
};
use calico_core::testing::Random;
use calico_dataplane::testing::sample;

/// A chain to fill: where it hangs, and which of its words only such a chain has.
type Place = (Table, &'static str, Option<(ChainType, Hook, i32)>);

const PLACES: [Place; 6] = [
    (Table::Inet, "plain", None),
    (Table::Inet, "raw", Some((ChainType::Filter, Hook::Prerouting, -300))),
    (Table::Inet, "source", Some((ChainType::Nat, Hook::Postrouting, 110))),
    (Table::Inet, "destination", Some((ChainType::Nat, Hook::Prerouting, -110))),
    (Table::Inet, "route", Some((ChainType::Route, Hook::Output, -150))),
    (Table::Arp, "arp", Some((ChainType::Filter, Hook::Input, 3))),
];

/// The chains of every program.
pub(crate) fn chains() -> Vec<(Table, &'static str)> {
    PLACES.iter().map(|(table, name, _)| (*table, *name)).collect()
}

/// The sets of the sample, the one chain that they lead to, and chains of random rules.
pub(crate) fn program(seed: u64) -> Delta {
    let mut random = Random::new(seed);
    let mut delta = sample::delta();
    let targets = delta.chains_set.into_iter().filter(|chain| chain.name.as_str() == "stack-1");
    let targets: Vec<_> = targets.map(|chain| Chain { rules: Vec::new(), ..chain }).collect();
    let filled = PLACES.iter().map(|place| {
        let (table, name, base) = *place;
        let base = base.map(|(chain_type, hook, priority)| BaseChain { chain_type, hook, priority });
        let rules = (0..30).map(|_| rule(&mut random, place)).collect();
        Chain { name: ChainName::of(table, name).unwrap(), base, rules }
    });
    delta.chains_set = filled.chain(targets).collect();
    delta
}

fn rule(random: &mut Random, place: &Place) -> Rule {
    let family = random.pick(&[Family::V4, Family::V6]);
    let protocol = random.pick(&[6u8, 17, 132]);
    let mut matches = Vec::new();
    if place.0 == Table::Inet && random.chance(60) {
        let field = Field::L4Proto;
        matches.push(Match::Equal { field, value: Value::Proto(protocol), negated: false });
    }
    for _ in 0..random.below(4) {
        let one = if place.0 == Table::Arp { arp_condition(random) } else { condition(random, family) };
        // Of two conditions on one thing `nft` may make one.
        let seen = |other: &Match| std::mem::discriminant(other) == std::mem::discriminant(&one);
        if !matches.iter().any(seen) {
            matches.push(one);
        }
    }
    let statements: Vec<_> = (0..random.below(3)).map(|_| statement(random, family, place)).collect();
    let verdict = random.chance(80).then(|| verdict(random, family, place));
    let mut rule = Rule { matches, statements, verdict, comment: random.chance(20).then(|| "some words".into()) };
    if rule.check(place.0).is_err() {
        rule.verdict = Some(Verdict::Return);
    }
    if rule.matches.is_empty() && rule.statements.is_empty() && rule.verdict.is_none() {
        rule.statements.push(Statement::Counter);
    }
    rule
}

fn cidr(random: &mut Random, family: Family) -> Cidr {
    let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
    match family {
        Family::V4 => Cidr::new((bits as u32).to_be_bytes().into(), 1 + random.below(32) as u8).unwrap(),
        Family::V6 => Cidr::new(bits.to_be_bytes().into(), 1 + random.below(128) as u8).unwrap(),
    }
}

/// Prefixes of which none touches another: `nft` makes one range of neighbours.
fn cidrs(random: &mut Random, family: Family) -> Vec<Cidr> {
    let first = |number: u8| match family {
        Family::V4 => Cidr::new([10, number, 0, 0].into(), 16 + number % 8).unwrap(),
        Family::V6 => Cidr::new([0xfd00, number.into(), 0, 0, 0, 0, 0, 0].into(), 32 + number % 8).unwrap(),
    };
    (0..2 + random.below(4)).map(|number| first(2 * number as u8 + 1)).collect()
}

fn ports(random: &mut Random) -> Vec<PortRange> {
    let start = random.below(60_000) as u16;
    let width = if random.chance(50) { 0 } else { random.below(20) as u16 };
    let range = |number: u16| PortRange::new(start + 100 * number, start + 100 * number + width).unwrap();
    (0..1 + random.below(4) as u16).map(range).collect()
}

fn condition(random: &mut Random, family: Family) -> Match {
    let negated = random.chance(40);
    let address = random.pick(&[Field::SrcAddr(family), Field::DstAddr(family)]);
    let port = random.pick(&[Field::SrcPort, Field::DstPort]);
    let set = |key: Vec<Field>, name| Match::InSet { key, set: sample::set_name(name), negated };
    let four = family == Family::V4;
    match random.below(14) {
        0 => Match::Family(family),
        1 => Match::Equal { field: Field::IifName, value: Value::Interface("eth0".parse().unwrap()), negated },
        2 => Match::Equal { field: address, value: Value::Addr(cidr(random, family).address()), negated },
        3 => Match::InterfacePrefix { field: Field::IifName, prefix: "cali".parse().unwrap(), negated },
        4 => Match::InCidr { field: address, cidr: cidr(random, family), negated },
        5 => Match::InCidrs { field: address, cidrs: cidrs(random, family), negated },
        6 => Match::InPorts { field: port, ranges: ports(random), negated },
        7 => set(vec![address], if four { "nets4" } else { "nets6" }),
        8 => set(vec![Field::IifName, address], if four { "spoof" } else { "spoof6" }),
        9 if four => set(vec![address, Field::L4Proto, port], "ports"),
        9 => set(vec![port], "service"),
        10 => Match::CtState(random.pick(&[CtState::NEW, CtState::ESTABLISHED.or(CtState::RELATED)])),
        11 => Match::Translated { negated },
        12 => Match::Local { field: address, negated },
        _ => Match::Mark { mask: 0xff00, value: 0x100 * random.below(200) as u32, negated },
    }
}

fn arp_condition(random: &mut Random) -> Match {
    let negated = random.chance(40);
    let field = Field::ArpSender;
    match random.below(6) {
        0 => Match::ArpReply,
        1 => Match::Equal { field, value: Value::Addr(cidr(random, Family::V4).address()), negated },
        2 => Match::InCidr { field, cidr: cidr(random, Family::V4), negated },
        3 => Match::InCidrs { field, cidrs: cidrs(random, Family::V4), negated },
        4 => Match::InSet { key: vec![field], set: sample::arp_set("hosts4"), negated },
        _ => Match::Mark { mask: 0xff, value: random.below(200) as u32, negated },
    }
}

fn statement(random: &mut Random, family: Family, place: &Place) -> Statement {
    let prefix = format!("word-{}", random.below(100));
    let rate = RateLimit {
        rate: 1 + random.below(10_000) as u32,
        seconds: random.pick(&[1, 60, 3600, 86_400]),
        burst: 1 + random.below(100) as u32,
        over: random.chance(50),
    };
    match random.below(8) {
        0 | 1 => Statement::Counter,
        2 => Statement::Log { prefix },
        3 => Statement::LogGroup { group: random.below(9) as u16, prefix, snaplen: random.below(200) as u32 },
        4 => Statement::Limit(rate),
        5 if place.0 == Table::Inet && place.1 != "raw" => Statement::ConnectionsOver(random.below(1000) as u32),
        6 if place.1 == "raw" => Statement::NoTrack,
        6 if place.0 == Table::Inet => Statement::SetDscp { family, value: random.below(64) as u8 },
        _ => {
            let mask = random.bits() as u32 | 1;
            Statement::SetMark { mask, value: random.bits() as u32 & mask }
        }
    }
}

fn by_port(random: &mut Random, target: &ChainName) -> Verdict {
    let field = random.pick(&[Field::SrcPort, Field::DstPort]);
    // `nft` makes one of neighbours that lead to the same.
    let verdicts = [Verdict::Goto(target.clone()), Verdict::Return, Verdict::Jump(target.clone()), Verdict::Drop];
    Verdict::ByPort { field, verdicts: ports(random).into_iter().zip(verdicts).collect() }
}

fn verdict(random: &mut Random, family: Family, place: &Place) -> Verdict {
    let (table, name, _) = *place;
    let target = ChainName::of(table, "stack-1").unwrap();
    let map = |name| SetName::of(table, name).unwrap();
    let random_ports = random.chance(50);
    let ports = random.chance(50).then(|| PortRange::new(1024, 1024 + random.below(3) as u16).unwrap());
    let address = cidr(random, family).address();
    let by_address = |v4: Field, v6: Field, interface| match family {
        Family::V4 => (vec![v4], map("floating4")),
        Family::V6 => (vec![interface, v6], map("floating6")),
    };
    let (source4, source6) = (Field::SrcAddr(Family::V4), Field::SrcAddr(Family::V6));
    let (to4, to6) = (Field::DstAddr(Family::V4), Field::DstAddr(Family::V6));
    match (random.below(10), name) {
        (9, _) if table == Table::Inet => by_port(random, &target),
        (0..=1, "source") => Verdict::Masquerade { ports, random: random_ports },
        (2..=3, "source") => Verdict::Snat { address, ports, random: random_ports },
        (4..=5, "source") => {
            let (key, map) = by_address(source4, source6, Field::OifName);
            Verdict::SnatLookup { key, map }
        }
        (0..=4, "destination") => {
            let (key, map) = by_address(to4, to6, Field::IifName);
            Verdict::DnatLookup { key, map }
        }
        (0, "plain") => Verdict::Reject(Reject::TcpReset),
        (1, "plain") => Verdict::Reject(Reject::PortUnreachable),
        (2, _) => Verdict::Lookup { key: vec![Field::OifName], map: map("dispatch") },
        (3, _) => Verdict::Jump(target),
        (4, _) => Verdict::Goto(target),
        (5, _) => Verdict::Drop,
        (6, _) => Verdict::Return,
        _ => Verdict::Accept,
    }
}
