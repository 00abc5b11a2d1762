//! Tiers, and the stacks of policies that endpoints run through.
//!
//! Order of tiers: those that exist before those that are only named, then by order (absent last), then by name. Order of
//! policies in a tier: by order (absent last), then by the text `name/namespace/kind`, which users see as the tie-break.
//! A tier is in a stack only if one of its policies governs that direction of that endpoint. It ends in Pass where all of those are
//! staged, and where they stand before the policies proper (`doNotTrack`, `preDNAT`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use hashbrown::HashMap;

use super::diagnostic::Problem;
use super::event::{Directions, PolicyId, ProfileId, Stack, StackTier};
use super::policy::{Policy, Stage};
use super::shared::Shared;
use crate::resource::{DefaultAction, PolicyType, ResourceKey, TierSpec};

/// The node.
#[derive(Debug, Default)]
pub(super) struct PolicyOrder {
    tiers: HashMap<Arc<str>, TierSpec>,
    stacks: Shared<Stack>,
}

impl PolicyOrder {
    /// Takes a tier's new state; says whether anything about it changed.
    pub(super) fn set_tier(&mut self, name: &Arc<str>, tier: Option<TierSpec>) -> bool {
        match tier {
            Some(tier) => self.tiers.insert(name.clone(), tier.clone()).as_ref() != Some(&tier),
            None => self.tiers.remove(name).is_some(),
        }
    }

    /// Tiers of policies that do not exist.
    pub(super) fn missing_tiers(&self, sorted: &[Placed<'_>]) -> Vec<Problem> {
        let mut missing = Vec::new();
        for tier in sorted.iter().map(|placed| placed.policy.tier()).filter(|tier| !self.tiers.contains_key(*tier)) {
            let problem = Problem::MissingTier { tier: tier.into() };
            if !missing.contains(&problem) {
                missing.push(problem);
            }
        }
        missing
    }

    /// The policies of an endpoint in order.
    pub(super) fn sort<'a>(&self, policies: impl Iterator<Item = (&'a ResourceKey, &'a Policy)>) -> Vec<Placed<'a>> {
        let mut placed: Vec<_> = policies.map(|(key, policy)| Placed { key, policy }).collect();
        placed.sort_by(|a, b| self.compare_tiers(a.policy.tier(), b.policy.tier()).then_with(|| a.compare_in_tier(b)));
        placed
    }

    /// Both directions' stacks of a stage.
    pub(super) fn stacks(&mut self, sorted: &[Placed<'_>], profiles: &[ProfileId], stage: Stage) -> Directions {
        Directions {
            ingress: self.stack(sorted, profiles, stage, PolicyType::Ingress),
            egress: self.stack(sorted, profiles, stage, PolicyType::Egress),
        }
    }

    /// One direction's stack of a stage; equal stacks are one value.
    pub(super) fn stack(
        &mut self,
        sorted: &[Placed<'_>],
        profiles: &[ProfileId],
        stage: Stage,
        direction: PolicyType,
    ) -> Arc<Stack> {
        let mut tiers: Vec<StackTier> = Vec::new();
        let stands = |policy: &Policy| policy.stands_in(stage) && policy.governs(direction);
        for Placed { key, policy } in sorted.iter().filter(|placed| stands(placed.policy)) {
            let id = PolicyId((*key).clone());
            let name = policy.tier();
            if tiers.last().is_none_or(|tier| *tier.name != *name) {
                let default_action = DefaultAction::Pass;
                tiers.push(StackTier { name: name.into(), policies: Vec::new(), default_action });
            }
            let Some(tier) = tiers.last_mut() else { continue };
            if matches!(stage, Stage::Normal | Stage::Forward) && !policy.is_staged() {
                tier.default_action = self.default_action(name);
            }
            tier.policies.push(id);
        }
        tiers.iter_mut().for_each(|tier| tier.policies.shrink_to_fit());
        self.stacks.share(Stack { tiers, profiles: profiles.to_vec() })
    }

    /// Throws out stacks that no endpoint has any more.
    pub(super) fn forget_unused(&mut self) {
        self.stacks.forget_unused();
    }

    fn default_action(&self, tier: &str) -> DefaultAction {
        self.tiers.get(tier).and_then(|tier| tier.default_action).unwrap_or_default()
    }

    fn compare_tiers(&self, a: &str, b: &str) -> Ordering {
        let place = |name| self.tiers.get(name).map(|tier| tier.order);
        match (place(a), place(b)) {
            (Some(one), Some(other)) => compare_orders(one, other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
        .then_with(|| a.cmp(b))
    }
}

/// A policy of one endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) key: &'a ResourceKey,
    pub(super) policy: &'a Policy,
}

impl Placed<'_> {
    fn compare_in_tier(&self, other: &Self) -> Ordering {
        compare_orders(self.policy.order(), other.policy.order()).then_with(|| self.compare_tie(other))
    }

    /// Order of [`Self::tie`]. Mostly the names differ before either ends.
    fn compare_tie(&self, other: &Self) -> Ordering {
        let names = [self, other].map(|placed| placed.key.name().unwrap_or_default().as_bytes());
        let shorter = names[0].len().min(names[1].len());
        let [one, two] = names.map(|name| name.get(..shorter).unwrap_or_default());
        one.cmp(two).then_with(|| self.tie().cmp(other.tie()))
    }

    /// The bytes of `name/namespace/kind`.
    fn tie(&self) -> impl Iterator<Item = u8> {
        let parts = [self.key.name().unwrap_or_default(), "/", self.key.namespace().unwrap_or_default(), "/"];
        parts.into_iter().chain([self.key.kind().name()]).flat_map(str::bytes)
    }
}

fn compare_orders(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        // JSON has no NaN; minus zero equals zero.
        (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}
