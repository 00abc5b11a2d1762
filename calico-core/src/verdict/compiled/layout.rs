//! The stack of an endpoint in one direction, laid out for many packets: its candidates are found in one go over a few lines of memory.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use super::Compiled;
use super::conditions::Asked;
use super::facts::{Facts, Known};
use super::holders::{ConditionId, Triple};
use super::stacks::{Directed, OwnerId, StackId, Tier};
use super::wanting::Words;
use crate::calc::event::{ActiveRule, EndpointId};
use crate::flow::{Decision, Flow};
use crate::net::Family;
use crate::resource::{Action, DefaultAction, PolicyType};
use crate::verdict::rule;
use crate::verdict::step::Side;

/// Eight words, a line of the processor's cache. Most lines have no candidate.
pub(in crate::verdict) type Line = [u64; 8];

/// Words in the order of a layout.
pub(in crate::verdict) type Lines = Box<[Line]>;

/// One direction of a stack, as words of the space in order. What is asked often is gathered in that order once.
#[derive(Debug, Default)]
pub(in crate::verdict) struct Layout<'a> {
    /// Words of the space; each section begins a new line.
    words: Vec<[u32; 8]>,
    /// What stands in each word.
    chunks: Vec<[Chunk<'a>; 8]>,
    sections: Vec<Section<'a>>,
    rules: usize,
}

/// A tier, or a profile.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// Where its lines end.
    end: usize,
    /// None of a profile.
    pub(super) tier: Option<&'a Tier>,
    /// The first of its policies, or the profile, that is not active: that denies.
    pub(super) unknown: Option<OwnerId>,
}

/// Up to 64 rules of one owner.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chunk<'a> {
    rules: &'a [ActiveRule],
    asked: &'a [Asked],
    pub(super) owner: OwnerId,
    /// Place of the first in the owner's list.
    pub(super) first: usize,
    pub(super) is_staged: bool,
}

/// Who is shown a packet's candidates, in order.
pub(super) trait Visit {
    /// What a candidate does if it matches, decides and is enforced; its place is that in the owner's list.
    fn candidate(&mut self, section: &Section<'_>, chunk: &Chunk<'_>, index: usize, rule: Asking<'_>)
    -> Option<Action>;

    /// Nothing in a section decides.
    fn end(&mut self, section: &Section<'_>);
}

/// A rule, and what it asks of sets.
pub(super) type Asking<'r> = (&'r ActiveRule, &'r Asked);

/// Who only wants to know the decision.
struct Decide<'f> {
    flow: &'f Flow,
    facts: &'f Facts<'f>,
}

impl Visit for Decide<'_> {
    fn candidate(&mut self, _: &Section<'_>, chunk: &Chunk<'_>, _: usize, (rule, asked): Asking<'_>) -> Option<Action> {
        let counts = rule.action != Action::Log && !chunk.is_staged;
        let matches = || rule::matches(rule, self.flow, &Known { facts: self.facts, asked });
        (counts && matches()).then_some(rule.action)
    }

    fn end(&mut self, _: &Section<'_>) {}
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
        let tiers = stack.tiers.iter().map(|tier| (Some(tier), tier.policies.as_slice()));
        let profiles = stack.profiles.iter().map(|profile| (None, core::slice::from_ref(profile)));
        for (tier, owners) in tiers.chain(profiles) {
            let unknown = self.lay_out(owners, direction, &mut layout);
            layout.sections.push(Section { end: layout.words.len(), tier, unknown });
            if unknown.is_some() {
                break;
            }
        }
        Some(layout)
    }

    /// Lays out those that are active before the first that is not.
    fn lay_out<'a>(&'a self, owners: &[OwnerId], direction: PolicyType, layout: &mut Layout<'a>) -> Option<OwnerId> {
        let mut words = Vec::new();
        let mut unknown = None;
        for owner in owners {
            let Some(rules) = self.stacks.rules(*owner, direction) else {
                unknown = Some(*owner);
                break;
            };
            layout.rules += rules.rules.len();
            words.extend(chunks(*owner, self.stacks.is_staged(*owner), rules));
        }
        layout.add(&words);
        unknown
    }

    /// Conditions that hold an address, in order.
    pub(in crate::verdict) fn holders_of(&self, address: IpAddr) -> Vec<ConditionId> {
        let mut found = Vec::new();
        self.index.conditions.holders().of_address(address, &mut found);
        found.into_iter().map(|(id, _)| id).collect()
    }

    /// Conditions that have a port of an address, in order.
    pub(in crate::verdict) fn holders_of_port(&self, triple: &Triple) -> &[ConditionId] {
        self.index.conditions.holders().of_port(triple)
    }

    pub(in crate::verdict) fn is_host(&self, id: &EndpointId) -> bool {
        self.host_endpoints.contains_key(id) && !self.endpoints.contains_key(id)
    }
}

/// Words of an owner's rules, with what stands in them.
fn chunks<'a>(
    owner: OwnerId,
    is_staged: bool,
    Directed { rules, list }: Directed<'a>,
) -> impl Iterator<Item = (u32, Chunk<'a>)> {
    let places = (list.first..).zip((0..).step_by(64));
    let rules = rules.chunks(64).zip(list.asked.chunks(64));
    let chunk = move |((word, first), (rules, asked))| (word, Chunk { rules, asked, owner, first, is_staged });
    places.zip(rules).map(chunk)
}

impl<'a> Layout<'a> {
    fn add(&mut self, words: &[(u32, Chunk<'a>)]) {
        for line in words.chunks(8) {
            let (mut numbers, mut chunks) = ([NO_WORD; 8], [Chunk::default(); 8]);
            for ((number, chunk), (word, rules)) in numbers.iter_mut().zip(&mut chunks).zip(line) {
                (*number, *chunk) = (*word, *rules);
            }
            self.words.push(numbers);
            self.chunks.push(chunks);
        }
    }

    /// How many rules it has.
    pub(super) const fn rules(&self) -> usize {
        self.rules
    }

    /// Words of the space in this order.
    pub(in crate::verdict) fn gather(&self, words: &[u64]) -> Lines {
        let word = |number: u32| words.get(number as usize).copied().unwrap_or_default();
        self.words.iter().map(|line| line.map(word)).collect()
    }

    /// What it says to a packet; none when nothing decides. The candidates are the rules that all of these have, in this order.
    pub(in crate::verdict) fn decide<const N: usize>(
        &self,
        wanting: [&[Line]; N],
        flow: &Flow,
        facts: &Facts<'_>,
    ) -> Option<Decision> {
        self.run(wanting, &mut Decide { flow, facts })
    }

    /// The same, showing the candidates.
    pub(super) fn run<const N: usize>(&self, wanting: [&[Line]; N], visit: &mut impl Visit) -> Option<Decision> {
        let mut first = 0;
        for section in &self.sections {
            match self.section(section, first..section.end, wanting, visit) {
                Some(Action::Allow) => return Some(Decision::Allow),
                Some(Action::Deny) => return Some(Decision::Deny),
                Some(Action::Pass) => {}
                Some(Action::Log) | None => {
                    visit.end(section);
                    if section.denies() {
                        return Some(Decision::Deny);
                    }
                }
            }
            first = section.end;
        }
        None
    }

    /// What the first rule does that decides.
    fn section<const N: usize>(
        &self,
        section: &Section<'_>,
        lines: Range<usize>,
        wanting: [&[Line]; N],
        visit: &mut impl Visit,
    ) -> Option<Action> {
        for at in lines {
            let mut candidates: Line = [u64::MAX; 8];
            for lines in wanting {
                let line = lines.get(at)?;
                candidates.iter_mut().zip(line).for_each(|(all, one)| *all &= one);
            }
            if candidates.iter().fold(0, |any, word| any | word) != 0
                && let Some(action) = self.line(section, at, candidates, visit)
            {
                return Some(action);
            }
        }
        None
    }

    fn line(&self, section: &Section<'_>, at: usize, line: Line, visit: &mut impl Visit) -> Option<Action> {
        for (chunk, mut candidates) in self.chunks.get(at)?.iter().zip(line) {
            while candidates != 0 {
                let index = candidates.trailing_zeros() as usize;
                let Some(rule) = chunk.rules.get(index).zip(chunk.asked.get(index)) else { break };
                if let Some(action) = visit.candidate(section, chunk, chunk.first + index, rule) {
                    return Some(action);
                }
                candidates &= candidates - 1;
            }
        }
        None
    }
}

impl Section<'_> {
    /// Whether its end denies.
    fn denies(&self) -> bool {
        self.unknown.is_some() || self.tier.is_some_and(|tier| tier.default_action != DefaultAction::Pass)
    }
}

/// No word of the space: there fills a line up.
const NO_WORD: u32 = u32::MAX;
