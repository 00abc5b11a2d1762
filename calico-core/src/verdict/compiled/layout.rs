//! Many packets that have one end in common: that end's stack, laid out for all of them.

use alloc::vec::Vec;
use core::{net::IpAddr, ops::Range};

use super::Compiled;
use super::conditions::Asked;
use super::facts::{Facts, Known};
use super::holders::{ConditionId, Triple};
use super::stacks::{Directed, OwnerId, StackId};
use super::wanting::Words;
use crate::calc::event::{ActiveRule, EndpointId};
use crate::flow::{Decision, Flow};
use crate::net::Family;
use crate::resource::{Action, DefaultAction, PolicyType};
use crate::verdict::rule;
use crate::verdict::step::Side;

/// One direction of a stack, as words of the space in order. What is asked often is gathered in that order once, and looked at in one go.
#[derive(Debug, Default)]
pub(in crate::verdict) struct Layout<'a> {
    words: Vec<u32>,
    /// Up to 64 rules for each word.
    rules: Vec<(&'a [ActiveRule], &'a [Asked])>,
    sections: Vec<Section>,
}

/// Tiers, and profiles, each for itself.
#[derive(Debug)]
struct Section {
    /// Where its words end.
    end: usize,
    /// Whether its end denies.
    denies: bool,
}

impl Compiled {
    /// Rules that may want a service: a word for 64 of the space. Rules that ask for a port by name are among them, as that is the
    /// destination's to say.
    pub(in crate::verdict) fn wanting_service(&self, family: Family, protocol: u8, port: u16) -> Words {
        self.index.wanting_service_anywhere(family, protocol, port)
    }

    /// Rules that may want an address of which is known what holds it.
    pub(in crate::verdict) fn wanting_address(&self, family: Family, side: Side, conditions: &[ConditionId]) -> Words {
        self.index.wanting_address(family, side, conditions)
    }

    pub(in crate::verdict) fn layout(&self, stack: StackId, direction: PolicyType) -> Option<Layout<'_>> {
        let stack = self.stacks.stack(stack)?;
        let mut layout = Layout::default();
        for tier in &stack.tiers {
            let denies = tier.default_action != DefaultAction::Pass;
            if !self.lay_out(&tier.policies, denies, direction, &mut layout) {
                return Some(layout);
            }
        }
        for profile in &stack.profiles {
            if !self.lay_out(&[*profile], false, direction, &mut layout) {
                break;
            }
        }
        Some(layout)
    }

    /// Whether what follows matters: an owner that is not active denies.
    fn lay_out<'a>(&'a self, owners: &[OwnerId], denies: bool, direction: PolicyType, layout: &mut Layout<'a>) -> bool {
        let mut known = true;
        for owner in owners {
            match self.stacks.rules(*owner, direction) {
                Some(_) if self.stacks.is_staged(*owner) => {}
                Some(rules) => layout.add(rules),
                None => {
                    known = false;
                    break;
                }
            }
        }
        layout.sections.push(Section { end: layout.words.len(), denies: denies || !known });
        known
    }

    /// Conditions that hold an address, in order.
    pub(in crate::verdict) fn holders_of(&self, address: IpAddr) -> Vec<ConditionId> {
        let mut found = Vec::new();
        self.index.conditions.holders().of_address(address, &mut found);
        found
    }

    /// Conditions that have a port of an address, in order.
    pub(in crate::verdict) fn holders_of_port(&self, triple: &Triple) -> &[ConditionId] {
        self.index.conditions.holders().of_port(triple)
    }

    pub(in crate::verdict) fn is_host(&self, id: &EndpointId) -> bool {
        self.host_endpoints.contains_key(id) && !self.endpoints.contains_key(id)
    }
}

impl<'a> Layout<'a> {
    fn add(&mut self, Directed { rules, list }: Directed<'a>) {
        let chunks = rules.chunks(64).zip(list.asked.chunks(64));
        for (word, chunk) in (list.first..).zip(chunks) {
            self.words.push(word);
            self.rules.push(chunk);
        }
    }

    /// Words of the space in this order.
    pub(in crate::verdict) fn gather(&self, words: &[u64]) -> Words {
        self.words.iter().map(|word| words.get(*word as usize).copied().unwrap_or_default()).collect()
    }

    /// What it says to a packet; none when nothing decides. The candidates are the rules that both have, in this order.
    pub(in crate::verdict) fn run(
        &self,
        own: &[u64],
        other: &[u64],
        flow: &Flow,
        facts: &Facts<'_>,
    ) -> Option<Decision> {
        let mut from = 0;
        for Section { end, denies } in &self.sections {
            match self.section(from..*end, own, other, flow, facts) {
                Some(Action::Allow) => return Some(Decision::Allow),
                Some(Action::Deny) => return Some(Decision::Deny),
                Some(Action::Pass) => {}
                Some(Action::Log) | None if *denies => return Some(Decision::Deny),
                Some(Action::Log) | None => {}
            }
            from = *end;
        }
        None
    }

    /// The action of the first matching rule that does more than log.
    fn section(
        &self,
        range: Range<usize>,
        own: &[u64],
        other: &[u64],
        flow: &Flow,
        facts: &Facts<'_>,
    ) -> Option<Action> {
        // Eight words at a time are one line of the cache, and most lines have no candidate.
        let (own_lines, own_rest) = own.get(range.clone())?.as_chunks::<8>();
        let (other_lines, other_rest) = other.get(range.clone())?.as_chunks::<8>();
        let mut at = range.start;
        for (own, other) in own_lines.iter().zip(other_lines) {
            let any = own.iter().zip(other).fold(0, |any, (own, other)| any | own & other);
            if any != 0
                && let Some(action) = self.line(at, own, other, flow, facts)
            {
                return Some(action);
            }
            at += own.len();
        }
        self.line(at, own_rest, other_rest, flow, facts)
    }

    fn line(&self, at: usize, own: &[u64], other: &[u64], flow: &Flow, facts: &Facts<'_>) -> Option<Action> {
        for (at, (own, other)) in (at..).zip(own.iter().zip(other)) {
            let mut candidates = own & other;
            while candidates != 0 {
                let index = candidates.trailing_zeros() as usize;
                let (rules, asked) = self.rules.get(at)?;
                let (rule, asked) = (rules.get(index)?, asked.get(index)?);
                if rule.action != Action::Log && rule::matches(rule, flow, &Known { facts, asked }) {
                    return Some(rule.action);
                }
                candidates &= candidates - 1;
            }
        }
        None
    }
}
