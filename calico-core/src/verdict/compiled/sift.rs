//! Many packets that have one end in common: what is left of that end's stack for all of them.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::Compiled;
use super::conditions::Asked;
use super::holders::{ConditionId, Triple};
use super::postings::Postings;
use super::scratch::{Facts, Known};
use super::space::Lane;
use super::stacks::{Directed, OwnerId, StackId};
use crate::calc::event::{ActiveRule, EndpointId};
use crate::flow::{Decision, Flow};
use crate::net::Family;
use crate::resource::{Action, DefaultAction, PolicyType};
use crate::verdict::rule;
use crate::verdict::step::Side;

/// The words of one direction of a stack in which a rule may match, in order.
#[derive(Debug, Default)]
pub(in crate::verdict) struct Sifted<'a> {
    /// Where in the space, and the bits of the rules: apart from the rules, as most are looked at and left.
    words: Vec<(u32, u64)>,
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
    pub(in crate::verdict) fn wanting_service(&self, family: Family, protocol: u8, port: u16) -> Vec<u64> {
        let mut words = self.lanes(family, |lane| lane.service);
        self.index.services.of(protocol, port).for_each(|postings| add(&mut words, postings));
        self.index.conditions.iter().for_each(|condition| add(&mut words, &condition.service));
        words
    }

    /// Rules that may want an address, of which is known what holds it.
    pub(in crate::verdict) fn wanting_address(
        &self,
        family: Family,
        side: Side,
        conditions: &[ConditionId],
    ) -> Vec<u64> {
        let mut words = self.lanes(family, |lane| match side {
            Side::Source => lane.source,
            Side::Destination => lane.destination,
        });
        let rules = |id: &ConditionId| self.index.conditions.get(*id).map(|condition| condition.of(side));
        conditions.iter().filter_map(rules).for_each(|rules| add(&mut words, &rules.wanted));
        for (word, bits) in conditions.iter().filter_map(rules).flat_map(|rules| rules.unwanted.words()) {
            if let Some(known) = words.get_mut(*word as usize) {
                *known &= !bits;
            }
        }
        words
    }

    fn lanes(&self, family: Family, part: impl Fn(&Lane) -> u64) -> Vec<u64> {
        self.index.space.lanes(family).iter().map(part).collect()
    }

    /// What is left of a stack for packets of which this is known.
    pub(in crate::verdict) fn sift(
        &self,
        stack: StackId,
        direction: PolicyType,
        address: &[u64],
        service: &[u64],
    ) -> Option<Sifted<'_>> {
        let stack = self.stacks.stack(stack)?;
        let mut sifted = Sifted::default();
        for tier in &stack.tiers {
            let denies = tier.default_action != DefaultAction::Pass;
            if !self.sift_all(&tier.policies, denies, direction, [address, service], &mut sifted) {
                return Some(sifted);
            }
        }
        for profile in &stack.profiles {
            if !self.sift_all(&[*profile], false, direction, [address, service], &mut sifted) {
                break;
            }
        }
        Some(sifted)
    }

    /// Whether what follows matters: an owner that is not active denies.
    fn sift_all<'a>(
        &'a self,
        owners: &[OwnerId],
        denies: bool,
        direction: PolicyType,
        wanting: [&[u64]; 2],
        sifted: &mut Sifted<'a>,
    ) -> bool {
        let mut known = true;
        for owner in owners {
            match self.stacks.rules(*owner, direction) {
                Some(_) if self.stacks.is_staged(*owner) => {}
                Some(rules) => sifted.add(rules, wanting),
                None => {
                    known = false;
                    break;
                }
            }
        }
        sifted.sections.push(Section { end: sifted.words.len(), denies: denies || !known });
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

fn add(words: &mut [u64], postings: &Postings) {
    for (word, bits) in postings.words() {
        if let Some(known) = words.get_mut(*word as usize) {
            *known |= bits;
        }
    }
}

impl<'a> Sifted<'a> {
    fn add(&mut self, rules: Directed<'a>, [address, service]: [&[u64]; 2]) {
        let chunks = rules.rules.chunks(64).zip(rules.list.asked.chunks(64));
        for (word, chunk) in (rules.list.first..).zip(chunks) {
            let at = word as usize;
            let bits = address.get(at).zip(service.get(at)).map_or(0, |(address, service)| address & service);
            if bits != 0 {
                self.words.push((word, bits));
                self.rules.push(chunk);
            }
        }
    }

    /// What it says to one of the packets; none when nothing decides.
    pub(in crate::verdict) fn run(&self, other: &[u64], flow: &Flow, facts: &Facts<'_>) -> Option<Decision> {
        let mut from = 0;
        for Section { end, denies } in &self.sections {
            match self.section(from, *end, other, flow, facts) {
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
    fn section(&self, from: usize, end: usize, other: &[u64], flow: &Flow, facts: &Facts<'_>) -> Option<Action> {
        let words = self.words.get(from..end)?;
        for (at, (word, bits)) in (from..).zip(words) {
            let mut candidates = bits & other.get(*word as usize)?;
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
