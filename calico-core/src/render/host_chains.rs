//! The base chains of host endpoints. Their plan stands at [`hosts`](super::hosts).

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::hosts::HOST_INTERFACES;
use super::names::Direction;
use super::owner::Layer;
use super::stage::Stage;
use super::words::{accept, base, chain, deny, established, goto, jump, lookup, mark, marked, starts};
use super::{RenderConfig, ended, failsafe, stack};
use crate::calc::event::ActiveHostEndpoint;
use crate::net::InterfaceName;
use crate::table::{Chain, CtState, Field, Hook, Match, Rule, SetName, Statement, Value, Verdict};

/// What the base chains depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) config: &'a RenderConfig,
    /// Whoever has all interfaces that nobody names.
    pub(super) wildcard: Option<&'a ActiveHostEndpoint>,
    /// Whether any policy is about untracked traffic. Both directions are asked then, as a connection has two.
    pub(super) raw: bool,
    /// Whether any policy comes before destination NAT.
    pub(super) pre_dnat: bool,
}

impl Parts<'_> {
    pub(super) fn chains(self) -> Vec<Chain> {
        let mut chains = failsafe::chains(self.config, self.raw);
        if self.raw {
            chains.extend(self.untracked("raw-in", Hook::Prerouting, Stage::UntrackedIn));
            chains.extend(self.untracked("raw-out", Hook::Output, Stage::UntrackedOut));
        }
        if self.pre_dnat {
            chains.extend(self.pre_dnat());
        }
        chains.push(self.host_in());
        chains.extend(self.host_out());
        chains.extend(self.forward());
        chains
    }

    fn untracked(self, name: &str, hook: Hook, stage: Stage) -> [Chain; 3] {
        let mut rules = vec![self.carry(false)];
        rules.push(failsafe::jump(stage.direction()));
        rules.extend(failsafe::jump_replies(self.config, stage.direction()));
        let policy = format!("{name}-policy");
        rules.extend([self.carry(true), jump(&policy), self.carry(false)]);
        let statements = vec![Statement::NoTrack];
        let untrack = Rule { matches: vec![self.carried()], statements, ..Rule::default() };
        [
            chain(&policy, self.policy(stage)),
            base(name, hook, -300, rules),
            base(&format!("{name}-notrack"), hook, -299, vec![untrack]),
        ]
    }

    fn pre_dnat(self) -> [Chain; 2] {
        // What raw accepted is settled.
        let first = if self.raw { accept(vec![self.carried()]) } else { self.carry(false) };
        let mut rules = vec![first, established()];
        rules.extend(self.invalid(Field::IifName));
        rules.push(failsafe::jump(Direction::Ingress));
        rules.extend([self.carry(true), jump("pre-dnat-policy"), self.carry(false)]);
        let policy = chain("pre-dnat-policy", self.policy(Stage::PreDnat));
        [base("pre-dnat", Hook::Prerouting, -150, rules), policy]
    }

    fn host_in(self) -> Chain {
        let mut rules = Vec::new();
        if self.raw || self.pre_dnat {
            rules.push(self.settled());
        }
        rules.extend(self.workloads(Field::IifName));
        rules.extend([established(), ended::rule()]);
        rules.extend(self.invalid(Field::IifName));
        rules.push(failsafe::jump(Direction::Ingress));
        rules.extend(self.policy(Stage::HostIn));
        base("host-in", Hook::Input, 2, rules)
    }

    fn host_out(self) -> Vec<Chain> {
        let ending = |stage| {
            let mut rules = self.workloads(Field::OifName);
            rules.extend(self.invalid(Field::OifName));
            rules.push(failsafe::jump(Direction::Egress));
            rules.extend(self.policy(stage));
            rules
        };
        let first = if self.raw { self.settled() } else { self.carry(false) };
        let mut output = vec![first, established(), ended::rule()];
        let later = Rule { statements: vec![self.bit(true)], ..accept(vec![Match::Translated { negated: false }]) };
        output.push(later);
        let mut postrouting = vec![accept(vec![self.marked(false)]), self.carry(false)];
        let mut chains = Vec::new();
        if Layer::Mangle.shared(self.config) == Layer::Filter {
            chains.push(chain("host-out-policy", ending(Stage::HostOut)));
            output.push(goto(Vec::new(), "host-out-policy"));
            postrouting.push(goto(Vec::new(), "host-out-policy"));
        } else {
            output.extend(ending(Stage::HostOut));
            postrouting.extend(ending(Stage::HostOutDnat));
        }
        chains.push(base("host-out", Hook::Output, 0, output));
        chains.push(base("host-out-dnat", Hook::Postrouting, -150, postrouting));
        chains
    }

    fn forward(self) -> [Chain; 2] {
        let half = |first: Option<Rule>, stage: Stage| {
            let mut rules: Vec<Rule> = first.into_iter().collect();
            rules.push(established());
            // One of the two is enough.
            rules.extend((stage == Stage::ForwardIn).then(ended::rule));
            rules.extend(self.invalid(stage.field()));
            rules.extend(self.policy(stage));
            rules
        };
        // Settled or not, the bit ends here: at postrouting it says something else.
        let first = if self.raw || self.pre_dnat { self.settled() } else { self.carry(false) };
        [
            base("forward-host-in", Hook::Forward, 2, half(Some(first), Stage::ForwardIn)),
            base("forward-host-out", Hook::Forward, 3, half(None, Stage::ForwardOut)),
        ]
    }

    /// The look-up of the named interfaces, then whoever has all others.
    fn policy(self, stage: Stage) -> Vec<Rule> {
        let mut rules = vec![lookup(stage.field(), stage.map())];
        if let Some(stack) = self.wildcard.map(|endpoint| stage.stack(endpoint)) {
            let verdict = Some(Verdict::Goto(stack::name(stack, stage.course(self.config))));
            let goto = || Rule { matches: self.others(stage.field()), verdict, ..Rule::default() };
            rules.extend(stage.leads_to(stack).then(goto));
        }
        rules
    }

    /// What belongs to no connection is dropped on the interfaces of host endpoints. The look-up is for such packets only.
    fn invalid(self, field: Field) -> Vec<Rule> {
        let dropped = |on: Vec<Match>| {
            let matches = [Match::CtState(CtState::INVALID)].into_iter().chain(on);
            deny(matches.collect(), "invalid connection state")
        };
        let named = Match::InSet { key: vec![field], set: SetName::composed(HOST_INTERFACES), negated: false };
        let named = self.config.drop_invalid.then(|| dropped(vec![named]));
        let others = self.wildcard.filter(|_| self.config.drop_invalid).map(|_| dropped(self.others(field)));
        named.into_iter().chain(others).collect()
    }

    /// Interfaces that can be a wildcard's: neither a workload's nor the way to oneself.
    fn others(self, field: Field) -> Vec<Match> {
        let workloads = self.config.workload_prefixes.iter();
        let workloads = workloads.map(|prefix| Match::InterfacePrefix { field, prefix: *prefix, negated: true });
        let value = Value::Interface(InterfaceName::LOOPBACK);
        workloads.chain([Match::Equal { field, value, negated: true }]).collect()
    }

    fn workloads(self, field: Field) -> Vec<Rule> {
        self.config.workload_prefixes.iter().map(|prefix| accept(vec![starts(field, *prefix)])).collect()
    }

    /// Accepts what was accepted before.
    fn settled(self) -> Rule {
        Rule { statements: vec![self.bit(false)], ..accept(vec![self.carried()]) }
    }

    fn carry(self, set: bool) -> Rule {
        Rule { statements: vec![self.bit(set)], ..Rule::default() }
    }

    const fn bit(self, set: bool) -> Statement {
        mark(self.config.mark_mask.carried(), set)
    }

    const fn carried(self) -> Match {
        self.marked(true)
    }

    const fn marked(self, set: bool) -> Match {
        marked(self.config.mark_mask.carried(), set)
    }
}
