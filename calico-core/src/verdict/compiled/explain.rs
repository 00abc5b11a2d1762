//! The steps of a verdict, noted while a packet's candidates are looked at.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::Compiled;
use super::facts::{Facts, Known};
use super::layout::{Asking, Chunk, Section, Visit};
use super::stacks::{OwnerId, Tier};
use crate::calc::event::{Member, SetId};
use crate::flow::Flow;
use crate::net::Cidr;
use crate::resource::{Action, PolicyType};
use crate::verdict::rule::{self, Members};
use crate::verdict::step::{Owner, RuleStep, Step};

/// Who wants to know the steps, too.
pub(super) struct Explain<'r> {
    pub(super) compiled: &'r Compiled,
    pub(super) flow: &'r Flow,
    pub(super) facts: &'r Facts<'r>,
    /// Of source and destination, the lengths of the prefixes by which conditions hold it.
    pub(super) lengths: [&'r [u8]; 2],
    pub(super) direction: PolicyType,
    pub(super) steps: &'r mut Vec<Step>,
    /// The staged policy that would have decided: its further rules do not count.
    pub(super) tried: Option<OwnerId>,
}

impl Visit for Explain<'_> {
    fn candidate(
        &mut self,
        section: &Section<'_>,
        chunk: &Chunk<'_>,
        index: usize,
        (rule, asked): Asking<'_>,
    ) -> Option<Action> {
        let facts = self.facts;
        if self.tried == Some(chunk.owner) || !rule::matches(rule, self.flow, &Known { facts, asked }) {
            return None;
        }
        let matched = rule::evidence(rule, self.flow, self);
        let step = |owner| RuleStep { owner, direction: self.direction, rule: index, action: rule.action, matched };
        let step = self.owner(chunk.owner, section.tier).map(step);
        self.steps.extend(step.map(if chunk.is_staged { Step::Staged } else { Step::Rule }));
        let decides = rule.action != Action::Log;
        if chunk.is_staged && decides {
            self.tried = Some(chunk.owner);
        }
        (decides && !chunk.is_staged).then_some(rule.action)
    }

    fn end(&mut self, section: &Section<'_>) {
        let unknown = section.unknown.and_then(|owner| self.owner(owner, section.tier));
        let end = |tier: &Tier| Step::EndOfTier { tier: tier.name.clone(), action: tier.default_action };
        self.steps.extend(unknown.map(Step::UnknownReference).or_else(|| section.tier.map(end)));
    }
}

impl Explain<'_> {
    fn owner(&self, owner: OwnerId, tier: Option<&Tier>) -> Option<Owner> {
        self.compiled.stacks.owner(owner, tier.map(|tier| &tier.name))
    }
}

/// What was found when the packet's addresses were looked up. Prefixes of a set do not overlap, so the one is the only one.
impl Members for Explain<'_> {
    fn net(&self, set: SetId, address: IpAddr) -> Option<Cidr> {
        let id = self.compiled.index.conditions.id_of(set)?;
        let [source, destination] = self.lengths;
        let (held, lengths) = if address == self.flow.source {
            (&self.facts.source, source)
        } else {
            (&self.facts.destination, destination)
        };
        let at = held.address.binary_search(&id).ok()?;
        Cidr::new(address, *lengths.get(at)?)
    }

    fn has_port(&self, set: SetId, member: Member) -> bool {
        let Flow { source: address, source_port: port, protocol, .. } = *self.flow;
        let is_source = member == Member::AddrPort { address, protocol, port };
        let held = if is_source { &self.facts.source } else { &self.facts.destination };
        self.compiled.index.conditions.id_of(set).is_some_and(|id| held.port.binary_search(&id).is_ok())
    }
}
