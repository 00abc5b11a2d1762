//! Runs a packet through the table, as the kernel would.
//!
//! Connections are tracked between the chains below [`TRACKING`] and the others at the first hook of a packet's way. Chains of type
//! `nat` see only what may begin a connection; all of them run where the kernel translates, whatever their own priority says, and
//! the first that translates is the last.

use std::net::IpAddr;

use calico_core::flow::Decision;
use calico_core::net::{Family, PortRange};
use calico_core::table::{
    Chain, ChainName, ChainType, CtState, Datum, ElementData, Field, Hook, Key, Reject, Rule, SetName, Statement,
    Table, Verdict,
};

use super::condition::datum;
use super::surroundings::Place;
use super::{Evaluation, Packet, Ruleset, Surroundings, Visit};

/// Priority of connection tracking.
const TRACKING: i32 = -200;
/// Priorities of translation, of the destination and of the source.
const DESTINATION: i32 = -100;
const SOURCE: i32 = 100;

/// The kernel's `NFT_JUMP_STACK_SIZE`: it refuses deeper programs, so nothing deeper is ever run.
const MAX_DEPTH: usize = 16;

pub(super) enum Outcome {
    /// End of the chain, or `return`.
    Back,
    Accept,
    /// Accepted with another address: no further chain translates here.
    Translated,
    Drop,
    Reject(Reject),
}

/// What a rule without or after a look-up comes to.
enum Step {
    /// A condition does not hold, or a statement or look-up leaves the rule.
    Left,
    Next,
    Back,
    End(Outcome),
    Goto(ChainName),
    Jump(ChainName),
}

/// A packet on its way.
pub(super) struct Run<'a> {
    pub(super) packet: Packet,
    pub(super) surroundings: &'a mut Surroundings,
    trace: Vec<Visit>,
    /// Tracking has not seen the packet yet.
    before_tracking: bool,
}

impl Ruleset {
    /// Runs a packet through the hooks in order, on a host without addresses where nothing was counted before.
    pub fn evaluate(&self, hooks: &[Hook], packet: Packet) -> Evaluation {
        self.evaluate_in(hooks, packet, &mut Surroundings::default())
    }

    /// Runs a packet through the hooks in order. Between base chains only a drop is final.
    pub fn evaluate_in(&self, hooks: &[Hook], packet: Packet, surroundings: &mut Surroundings) -> Evaluation {
        let arriving = packet.flow;
        let mut run = Run { packet, surroundings, trace: Vec::new(), before_tracking: true };
        let mut rejected = None;
        let mut decision = Decision::Allow;
        for hook in hooks {
            match self.at_hook(*hook, &mut run) {
                Outcome::Drop => decision = Decision::Deny,
                Outcome::Reject(how) => (decision, rejected) = (Decision::Deny, Some(how)),
                _ => continue,
            }
            break;
        }
        let Run { packet, trace, surroundings, .. } = run;
        if decision == Decision::Deny && packet.ct_state == CtState::NEW {
            // A connection whose first packet is gone never comes about.
            surroundings.end_connection(&arriving);
            surroundings.end_connection(&packet.flow);
        }
        Evaluation { decision, rejected, packet, trace }
    }

    fn at_hook(&self, hook: Hook, run: &mut Run<'_>) -> Outcome {
        let table = if run.packet.arp.is_some() { Table::Arp } else { Table::Inet };
        let mut chains: Vec<(i32, i32, ChainType, &Chain)> = self
            .chains()
            .filter_map(|chain| {
                let base = chain.base.filter(|base| base.hook == hook && chain.name.table() == table)?;
                let translation = if matches!(hook, Hook::Prerouting | Hook::Output) { DESTINATION } else { SOURCE };
                let effective = if base.chain_type == ChainType::Nat { translation } else { base.priority };
                Some((effective, base.priority, base.chain_type, chain))
            })
            .collect();
        chains.sort_by_key(|(effective, own, ..)| (*effective, *own));
        let mut translated = false;
        for (priority, _, chain_type, chain) in chains {
            run.before_tracking &= matches!(hook, Hook::Prerouting | Hook::Output) && priority < TRACKING;
            if chain_type == ChainType::Nat && (translated || !run.may_translate()) {
                continue;
            }
            match self.run(chain, run, 0) {
                Outcome::Translated => translated = true,
                Outcome::Back | Outcome::Accept => {}
                end => return end,
            }
        }
        Outcome::Accept
    }

    fn run(&self, chain: &Chain, run: &mut Run<'_>, depth: usize) -> Outcome {
        if depth > MAX_DEPTH {
            return Outcome::Drop;
        }
        for (index, rule) in chain.rules.iter().enumerate() {
            match self.step(chain, index, rule, run) {
                Step::Left | Step::Next => {}
                Step::Back => return Outcome::Back,
                Step::End(outcome) => return outcome,
                Step::Goto(target) => return self.call(&target, run, depth),
                Step::Jump(target) => match self.call(&target, run, depth) {
                    Outcome::Back => {}
                    end => return end,
                },
            }
        }
        Outcome::Back
    }

    fn call(&self, target: &ChainName, run: &mut Run<'_>, depth: usize) -> Outcome {
        match self.chains.get(target) {
            Some(chain) => self.run(chain, run, depth + 1),
            None => Outcome::Drop,
        }
    }

    fn step(&self, chain: &Chain, index: usize, rule: &Rule, run: &mut Run<'_>) -> Step {
        if !rule.matches.iter().all(|condition| run.holds(self, condition)) {
            return Step::Left;
        }
        for (place, statement) in rule.statements.iter().enumerate() {
            if !run.goes_on(statement, (chain.name.clone(), index, place)) {
                return Step::Left;
            }
        }
        let mut text = rule.to_string();
        let step = match &rule.verdict {
            None => Step::Next,
            Some(
                verdict @ (Verdict::Lookup { key, map }
                | Verdict::SnatLookup { key, map }
                | Verdict::DnatLookup { key, map }),
            ) => {
                let Some(found) = self.data_of(key, map, &run.packet) else { return Step::Left };
                text += &match found {
                    ElementData::Addr(address) => format!(" -> {address}"),
                    found => format!(" -> {}", found.verdict().unwrap_or(&Verdict::Drop)),
                };
                run.decide_by(verdict, found)
            }
            Some(Verdict::ByPort { field, verdicts }) => {
                let Some(found) = by_port(*field, verdicts, &run.packet) else { return Step::Left };
                text += &format!(" -> {found}");
                run.decide(found)
            }
            Some(verdict) => run.decide(verdict),
        };
        if !matches!(step, Step::Left) {
            run.trace.push(Visit { chain: chain.name.clone(), rule: text });
        }
        step
    }

    fn data_of(&self, key: &[Field], map: &SetName, packet: &Packet) -> Option<&ElementData> {
        let key: Option<Key> = key.iter().map(|field| datum(*field, packet)).collect();
        self.sets.get(map)?.elements.get(&key?)?.as_ref()
    }
}

fn by_port<'a>(field: Field, verdicts: &'a [(PortRange, Verdict)], packet: &Packet) -> Option<&'a Verdict> {
    let Some(Datum::Port(port)) = datum(field, packet) else { return None };
    verdicts.iter().find(|(range, _)| range.contains(port)).map(|(_, verdict)| verdict)
}

impl Run<'_> {
    /// What connection tracking says at this place.
    pub(super) fn ct_state(&self) -> CtState {
        let untracked = self.packet.ct_state == CtState::UNTRACKED;
        if self.before_tracking && !untracked { CtState::INVALID } else { self.packet.ct_state }
    }

    /// Whether the packet belongs to a connection.
    pub(super) fn has_connection(&self) -> bool {
        self.ct_state().bits() & (CtState::UNTRACKED.or(CtState::INVALID)).bits() == 0
    }

    fn may_translate(&self) -> bool {
        self.has_connection() && self.ct_state().bits() & CtState::ESTABLISHED.bits() == 0
    }

    /// Carries out a statement; whether the rule goes on.
    fn goes_on(&mut self, statement: &Statement, place: Place) -> bool {
        match statement {
            Statement::Counter | Statement::Log { .. } | Statement::LogGroup { .. } => true,
            Statement::Limit(limit) => self.surroundings.takes(place, *limit) != limit.over,
            Statement::ConnectionsOver(most) => {
                usize::try_from(*most).is_ok_and(|most| self.surroundings.count(place, &self.packet.flow) > most)
            }
            Statement::NoTrack => {
                if self.before_tracking {
                    self.packet.ct_state = CtState::UNTRACKED;
                }
                true
            }
            Statement::SetDscp { family, value } if *family == self.packet.flow.family() => {
                self.packet.dscp = *value;
                true
            }
            Statement::SetMark { mask, value } => {
                self.packet.mark = self.packet.mark & !mask | value;
                true
            }
            // Packets of the other family, and words that this interpreter does not know, leave the rule.
            _ => false,
        }
    }

    fn decide(&mut self, verdict: &Verdict) -> Step {
        match verdict {
            Verdict::Accept => Step::End(Outcome::Accept),
            Verdict::Return => Step::Back,
            Verdict::Goto(target) => Step::Goto(target.clone()),
            Verdict::Jump(target) => Step::Jump(target.clone()),
            Verdict::Reject(how) => Step::End(Outcome::Reject(*how)),
            Verdict::Masquerade { ports, random } => {
                let family = self.packet.flow.family();
                match self.surroundings.masquerade(self.packet.oif, family) {
                    Some(address) => self.translate_source(address, *ports, *random),
                    // The kernel has nothing to write, either.
                    None => Step::End(Outcome::Drop),
                }
            }
            Verdict::Snat { address, .. } if Family::of(*address) != self.packet.flow.family() => Step::Left,
            Verdict::Snat { address, ports, random } => self.translate_source(*address, *ports, *random),
            // A verdict that this interpreter does not know must not let anything through.
            _ => Step::End(Outcome::Drop),
        }
    }

    /// Decides by what a look-up found.
    fn decide_by(&mut self, verdict: &Verdict, found: &ElementData) -> Step {
        match (verdict, found) {
            (Verdict::Lookup { .. }, ElementData::Verdict(found)) => self.decide(found),
            (Verdict::SnatLookup { .. }, ElementData::Addr(address)) => self.translate_source(*address, None, false),
            (Verdict::DnatLookup { .. }, ElementData::Addr(address)) => {
                self.packet.translated |= self.packet.flow.destination != *address;
                self.packet.flow.destination = *address;
                Step::End(Outcome::Translated)
            }
            _ => Step::End(Outcome::Drop),
        }
    }

    /// Of the ports to choose from the lowest stands for all; one's own stays where it may.
    fn translate_source(&mut self, address: IpAddr, ports: Option<PortRange>, random: bool) -> Step {
        let flow = &mut self.packet.flow;
        flow.source = address;
        if let Some(ports) = ports.filter(|ports| random || !ports.contains(flow.source_port)) {
            flow.source_port = ports.min();
        }
        Step::End(Outcome::Translated)
    }
}
