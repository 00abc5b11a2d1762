//! One stack being run through: candidates in order, each checked.

use alloc::vec::Vec;

use super::Compiled;
use super::conditions::Asked;
use super::facts::{Facts, Known};
use super::index::List;
use super::stacks::{Compact, Directed, OwnerId, Tier};
use crate::calc::event::ActiveRule;
use crate::flow::{Decision, Flow};
use crate::resource::{Action, DefaultAction, PolicyType};
use crate::verdict::rule;
use crate::verdict::step::{Owner, RuleStep, Step};

/// The run.
pub(super) struct Walk<'r, 'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) facts: Facts<'r>,
    /// Rules that want source, destination and service; none where each rule is to be checked.
    pub(super) wanting: Option<[&'r [u64]; 3]>,
    pub(super) flow: &'r Flow,
    pub(super) direction: PolicyType,
    pub(super) explains: bool,
}

impl Walk<'_, '_> {
    /// None when nothing decides.
    pub(super) fn run(&self, stack: &Compact, steps: &mut Vec<Step>) -> Option<Decision> {
        for tier in &stack.tiers {
            if let Some(decision) = self.tier(tier, steps) {
                return Some(decision);
            }
        }
        for profile in &stack.profiles {
            let Some(rules) = self.compiled.stacks.rules(*profile, self.direction) else {
                return Some(self.unknown(*profile, None, steps));
            };
            match self.first_match(*profile, None, rules, steps) {
                Some(Action::Allow) => return Some(Decision::Allow),
                Some(Action::Deny) => return Some(Decision::Deny),
                Some(Action::Pass | Action::Log) | None => {}
            }
        }
        None
    }

    /// None when the tier passes the flow on.
    fn tier(&self, tier: &Tier, steps: &mut Vec<Step>) -> Option<Decision> {
        for policy in &tier.policies {
            if self.has_no_candidate(*policy) {
                continue;
            }
            let Some(rules) = self.compiled.stacks.rules(*policy, self.direction) else {
                return Some(self.unknown(*policy, Some(tier), steps));
            };
            if self.compiled.stacks.is_staged(*policy) {
                self.try_out(*policy, tier, rules, steps);
                continue;
            }
            match self.first_match(*policy, Some(tier), rules, steps) {
                Some(Action::Allow) => return Some(Decision::Allow),
                Some(Action::Deny) => return Some(Decision::Deny),
                Some(Action::Pass) => return None,
                Some(Action::Log) | None => {}
            }
        }
        let action = tier.default_action;
        if self.explains {
            steps.push(Step::EndOfTier { tier: tier.name.clone(), action });
        }
        (action != DefaultAction::Pass).then_some(Decision::Deny)
    }

    /// Whether no rule can match, as far as is known without looking at any.
    fn has_no_candidate(&self, owner: OwnerId) -> bool {
        let (Some(wanting), Some(span)) = (self.wanting, self.compiled.stacks.span(owner, self.direction)) else {
            return false;
        };
        let range = span.first as usize..(span.first + span.words) as usize;
        let [source, destination, service] = wanting.map(|all| all.get(range.clone()).unwrap_or_default());
        let mut words = source.iter().zip(destination).zip(service);
        words.all(|((source, destination), service)| source & destination & service == 0)
    }

    fn try_out(&self, policy: OwnerId, tier: &Tier, rules: Directed<'_>, steps: &mut Vec<Step>) {
        if !self.explains {
            return;
        }
        let mut tried = Vec::new();
        self.first_match(policy, Some(tier), rules, &mut tried);
        steps.extend(tried.into_iter().map(|step| match step {
            Step::Rule(step) => Step::Staged(step),
            other => other,
        }));
    }

    fn unknown(&self, owner: OwnerId, tier: Option<&Tier>, steps: &mut Vec<Step>) -> Decision {
        if self.explains {
            steps.extend(self.owner(owner, tier).map(Step::UnknownReference));
        }
        Decision::Deny
    }

    /// The action of the first matching rule that does more than log, if there is one.
    fn first_match(
        &self,
        owner: OwnerId,
        tier: Option<&Tier>,
        rules: Directed<'_>,
        steps: &mut Vec<Step>,
    ) -> Option<Action> {
        let mut from = 0;
        while let Some((index, rule)) = self.next_match(rules, from) {
            if self.explains {
                let matched = rule::evidence(rule, self.flow, &self.compiled.state);
                let step =
                    |owner| RuleStep { owner, direction: self.direction, rule: index, action: rule.action, matched };
                steps.extend(self.owner(owner, tier).map(step).map(Step::Rule));
            }
            if rule.action != Action::Log {
                return Some(rule.action);
            }
            from = index + 1;
        }
        None
    }

    /// The next rule of a list that matches, from this position on.
    fn next_match<'l>(&self, rules: Directed<'l>, from: usize) -> Option<(usize, &'l ActiveRule)> {
        if let Some(wanting) = self.wanting {
            return self.next_candidate(wanting, rules, from);
        }
        let later = rules.rules.iter().zip(&rules.list.asked).enumerate().skip(from);
        later
            .map(|(index, (rule, asked))| (index, rule, asked))
            .find_map(|(index, rule, asked)| self.matches(rule, asked).then_some((index, rule)))
    }

    /// Of 64 rules those may match that want what holds source and destination, and protocol and port.
    fn next_candidate<'l>(
        &self,
        wanting: [&[u64]; 3],
        rules: Directed<'l>,
        from: usize,
    ) -> Option<(usize, &'l ActiveRule)> {
        let List { first, words, asked } = rules.list;
        let words = wanting.map(|all| all.get(*first as usize..(*first + *words) as usize).unwrap_or_default());
        let [source, destination, service] = words;
        let words = source.iter().zip(destination).zip(service).enumerate().skip(from / 64);
        for (word, ((source, destination), service)) in words {
            let mut candidates = source & destination & service;
            if word == from / 64 {
                candidates &= u64::MAX << (from % 64);
            }
            while candidates != 0 {
                let index = word * 64 + candidates.trailing_zeros() as usize;
                let rule = rules.rules.get(index)?;
                if self.matches(rule, asked.get(index)?) {
                    return Some((index, rule));
                }
                candidates &= candidates - 1;
            }
        }
        None
    }

    fn matches(&self, rule: &ActiveRule, asked: &Asked) -> bool {
        rule::matches(rule, self.flow, &Known { facts: &self.facts, asked })
    }

    fn owner(&self, owner: OwnerId, tier: Option<&Tier>) -> Option<Owner> {
        self.compiled.stacks.owner(owner, tier.map(|tier| &tier.name))
    }
}
