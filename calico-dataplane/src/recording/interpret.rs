//! Runs a packet through the table, as the kernel would.

use std::fmt;
use std::net::IpAddr;

use calico_core::flow::{Decision, Flow};
use calico_core::net::{Family, InterfaceName};
use calico_core::table::{Chain, ChainName, CtState, Datum, Field, Hook, Match, SetKind, Statement, Value, Verdict};

use super::Ruleset;
use super::ruleset::StoredSet;

/// A packet at a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Packet {
    /// Interface it came in by.
    pub iif: Option<InterfaceName>,
    /// Interface it goes out by.
    pub oif: Option<InterfaceName>,
    /// Addresses, protocol, ports.
    pub flow: Flow,
    /// What connection tracking says.
    pub ct_state: CtState,
    /// Mark.
    pub mark: u32,
}

/// What became of a packet, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer: what and why")]
pub struct Evaluation {
    /// Whether it went through.
    pub decision: Decision,
    /// The rules that matched, in order.
    pub trace: Vec<Visit>,
}

/// A rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer: where and what")]
pub struct Visit {
    /// The chain it stands in.
    pub chain: ChainName,
    /// Its text; of a map look-up, also what was found.
    pub rule: String,
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.chain, self.rule)
    }
}

enum Outcome {
    /// End of the chain, or `return`.
    Back,
    Accept,
    Drop,
}

/// The kernel's `NFT_JUMP_STACK_SIZE`: it refuses deeper programs, so nothing deeper is ever run.
const MAX_DEPTH: usize = 16;

impl Ruleset {
    /// Runs a packet through the hooks in order. Between base chains only a drop is final.
    pub fn evaluate(&self, hooks: &[Hook], mut packet: Packet) -> Evaluation {
        let mut trace = Vec::new();
        for hook in hooks {
            let at_hook = |chain: &&Chain| chain.base.is_some_and(|base| base.hook == *hook);
            let mut chains: Vec<&Chain> = self.chains().filter(at_hook).collect();
            chains.sort_by_key(|chain| chain.base.map(|base| base.priority));
            for chain in chains {
                if let Outcome::Drop = self.run(chain, &mut packet, &mut trace, 0) {
                    return Evaluation { decision: Decision::Deny, trace };
                }
            }
        }
        Evaluation { decision: Decision::Allow, trace }
    }

    fn run(&self, chain: &Chain, packet: &mut Packet, trace: &mut Vec<Visit>, depth: usize) -> Outcome {
        if depth > MAX_DEPTH {
            return Outcome::Drop;
        }
        for rule in &chain.rules {
            if !rule.matches.iter().all(|condition| self.holds(condition, packet)) {
                continue;
            }
            for statement in &rule.statements {
                if let Statement::SetMark { mask, value } = statement {
                    packet.mark = packet.mark & !mask | value;
                }
            }
            let found = match &rule.verdict {
                Some(Verdict::Lookup { key, map }) => match self.look_up(key, map.as_str(), packet) {
                    Some(verdict) => verdict,
                    None => continue,
                },
                Some(verdict) => verdict,
                None => {
                    trace.push(Visit { chain: chain.name.clone(), rule: rule.to_string() });
                    continue;
                }
            };
            let looked_up = if rule.verdict.as_ref() == Some(found) { String::new() } else { format!(" -> {found}") };
            trace.push(Visit { chain: chain.name.clone(), rule: format!("{rule}{looked_up}") });
            match found {
                Verdict::Accept | Verdict::Masquerade { .. } => return Outcome::Accept,
                Verdict::Drop => return Outcome::Drop,
                Verdict::Return => return Outcome::Back,
                Verdict::Goto(target) => return self.call(target, packet, trace, depth),
                Verdict::Jump(target) => match self.call(target, packet, trace, depth) {
                    Outcome::Back => {}
                    end => return end,
                },
                // A verdict that this interpreter does not know must not let anything through.
                _ => return Outcome::Drop,
            }
        }
        Outcome::Back
    }

    fn call(&self, target: &ChainName, packet: &mut Packet, trace: &mut Vec<Visit>, depth: usize) -> Outcome {
        match self.chains.get(target) {
            Some(chain) => self.run(chain, packet, trace, depth + 1),
            None => Outcome::Drop,
        }
    }

    fn look_up(&self, key: &[Field], map: &str, packet: &Packet) -> Option<&Verdict> {
        let set = self.sets.iter().find(|(name, _)| name.as_str() == map).map(|(_, set)| set)?;
        let key: Option<Box<[Datum]>> = key.iter().map(|field| datum(*field, packet)).collect();
        set.elements.get(&key?)?.as_ref()
    }

    fn holds(&self, condition: &Match, packet: &Packet) -> bool {
        let flow = &packet.flow;
        match condition {
            Match::Family(family) => flow.family() == *family,
            Match::Equal { field, value, negated } => {
                let same = |found: Datum| match (found, value) {
                    (Datum::Interface(a), Value::Interface(b)) => a == *b,
                    (Datum::Addr(a), Value::Addr(b)) => a == *b,
                    (Datum::Proto(a), Value::Proto(b)) => a == *b,
                    (Datum::Port(a), Value::Port(b)) => a == *b,
                    _ => false,
                };
                datum(*field, packet).is_some_and(|found| same(found) != *negated)
            }
            Match::InterfacePrefix { field, prefix, negated } => match datum(*field, packet) {
                Some(Datum::Interface(name)) => name.as_str().starts_with(prefix.as_str()) != *negated,
                _ => false,
            },
            Match::InCidr { field, cidr, negated } => {
                address(*field, packet).is_some_and(|address| cidr.contains(address) != *negated)
            }
            Match::InCidrs { field, cidrs, negated } => address(*field, packet)
                .is_some_and(|address| cidrs.iter().any(|cidr| cidr.contains(address)) != *negated),
            Match::InPorts { field, ranges, negated } => match datum(*field, packet) {
                Some(Datum::Port(port)) => ranges.iter().any(|range| range.contains(port)) != *negated,
                _ => false,
            },
            Match::InSet { key, set, negated } => {
                let key: Option<Box<[Datum]>> = key.iter().map(|field| datum(*field, packet)).collect();
                let set = self.sets.get(set);
                set.zip(key).is_some_and(|(set, key)| is_member(set, &key) != *negated)
            }
            Match::Icmp { family, icmp_type, code, negated } => {
                let number = if *family == Family::V4 { 1 } else { 58 };
                let same = |(found, found_code)| found == *icmp_type && code.is_none_or(|code| code == found_code);
                flow.protocol == number && flow.icmp.is_some_and(|found| same(found) != *negated)
            }
            Match::CtState(states) => packet.ct_state.bits() & states.bits() != 0,
            Match::Mark { mask, value, negated } => (packet.mark & mask == *value) != *negated,
            // A condition that this interpreter does not know holds for nothing.
            _ => false,
        }
    }
}

fn is_member(set: &StoredSet, key: &[Datum]) -> bool {
    match (set.decl.kind, key) {
        (SetKind::Interval, [Datum::Addr(address)]) => {
            set.elements.keys().any(|found| matches!(**found, [Datum::Net(cidr)] if cidr.contains(*address)))
        }
        _ => set.elements.contains_key(key),
    }
}

fn address(field: Field, packet: &Packet) -> Option<IpAddr> {
    match datum(field, packet) {
        Some(Datum::Addr(address)) => Some(address),
        _ => None,
    }
}

/// A field's value, if the packet has the field.
fn datum(field: Field, packet: &Packet) -> Option<Datum> {
    let flow = &packet.flow;
    match field {
        Field::IifName => packet.iif.map(Datum::Interface),
        Field::OifName => packet.oif.map(Datum::Interface),
        Field::SrcAddr(family) => (Family::of(flow.source) == family).then_some(Datum::Addr(flow.source)),
        Field::DstAddr(family) => (Family::of(flow.destination) == family).then_some(Datum::Addr(flow.destination)),
        Field::L4Proto => Some(Datum::Proto(flow.protocol)),
        // Of protocols without ports the kernel reads whatever stands there; programs ask for the protocol first.
        Field::SrcPort => Some(Datum::Port(flow.source_port)),
        Field::DstPort => Some(Datum::Port(flow.destination_port)),
        _ => None,
    }
}
