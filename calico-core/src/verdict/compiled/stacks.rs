//! Stacks, and the policies and profiles that they name, by number.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::index::{Index, List};
use crate::calc::event::{ActiveRules, PolicyId, ProfileId, Stack};
use crate::label::slab::Slab;
use crate::resource::{DefaultAction, PolicyType};
use crate::verdict::passage::of_direction;
use crate::verdict::step::Owner;

/// Number of a stack.
pub(in crate::verdict) type StackId = u32;
/// Number of a policy or profile.
pub(super) type OwnerId = u32;

/// Policies, profiles and stacks.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    owners: Slab<Rules>,
    ids: HashMap<Name, OwnerId>,
    stacks: Slab<Compact>,
    stack_ids: HashMap<Arc<Stack>, StackId>,
}

/// Whose rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Policy(PolicyId),
    Profile(ProfileId),
}

/// A policy or profile that is active, or is named by a stack.
#[derive(Debug)]
struct Rules {
    name: Name,
    /// Stacks that name it, as often as they do; being active is one more.
    users: usize,
    is_staged: bool,
    active: Option<Active>,
}

/// Rules in the index.
#[derive(Debug)]
pub(super) struct Active {
    rules: Arc<ActiveRules>,
    lists: [List; 2],
}

/// A stack by numbers.
#[derive(Debug)]
pub(super) struct Compact {
    value: Arc<Stack>,
    users: usize,
    pub(super) tiers: Vec<Tier>,
    pub(super) profiles: Vec<OwnerId>,
}

/// A tier of it.
#[derive(Debug)]
pub(super) struct Tier {
    pub(super) name: Arc<str>,
    pub(super) default_action: DefaultAction,
    pub(super) policies: Vec<OwnerId>,
}

/// Rules of one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directed<'a> {
    pub(super) rules: &'a [crate::calc::event::ActiveRule],
    pub(super) list: &'a List,
}

impl Stacks {
    /// A policy or profile becomes active, changes, or ceases to be active.
    pub(super) fn set_rules(&mut self, name: Name, rules: Option<&Arc<ActiveRules>>, index: &mut Index) {
        let known = self.ids.get(&name).copied();
        let id = match (known, rules) {
            (None, None) => return,
            (known, Some(_)) => known.unwrap_or_else(|| self.insert(name)),
            (Some(id), None) => id,
        };
        // What both versions refer to is not let go of in between.
        let active = rules
            .map(|rules| Active { rules: rules.clone(), lists: [index.add(&rules.ingress), index.add(&rules.egress)] });
        let Some(owner) = self.owners.get_mut(id) else { return };
        let former = core::mem::replace(&mut owner.active, active);
        owner.users += usize::from(owner.active.is_some());
        if let Some(Active { rules, lists: [ingress, egress] }) = former {
            index.remove(&rules.ingress, ingress);
            index.remove(&rules.egress, egress);
            self.release_owner(id);
        }
    }

    /// The number of a stack, which stays while it is in use.
    pub(super) fn take(&mut self, stack: &Arc<Stack>) -> StackId {
        if let Some(id) = self.stack_ids.get(stack) {
            if let Some(known) = self.stacks.get_mut(*id) {
                known.users += 1;
            }
            return *id;
        }
        let mut owner = |name| self.take_owner(name);
        let tiers = stack.tiers.iter().map(|tier| Tier {
            name: tier.name.clone(),
            default_action: tier.default_action,
            policies: tier.policies.iter().map(|policy| owner(Name::Policy(policy.clone()))).collect(),
        });
        let tiers = tiers.collect();
        let profiles = stack.profiles.iter().map(|profile| owner(Name::Profile(profile.clone()))).collect();
        let id = self.stacks.insert(Compact { value: stack.clone(), users: 1, tiers, profiles });
        self.stack_ids.insert(stack.clone(), id);
        id
    }

    /// One user less.
    pub(super) fn release(&mut self, id: StackId) {
        let Some(known) = self.stacks.get_mut(id) else { return };
        known.users -= 1;
        if known.users > 0 {
            return;
        }
        let Some(gone) = self.stacks.remove(id) else { return };
        self.stack_ids.remove(&gone.value);
        let policies = gone.tiers.into_iter().flat_map(|tier| tier.policies);
        policies.chain(gone.profiles).for_each(|owner| self.release_owner(owner));
    }

    fn take_owner(&mut self, name: Name) -> OwnerId {
        let known = self.ids.get(&name).copied();
        let id = known.unwrap_or_else(|| self.insert(name));
        if let Some(owner) = self.owners.get_mut(id) {
            owner.users += 1;
        }
        id
    }

    fn insert(&mut self, name: Name) -> OwnerId {
        let is_staged = matches!(&name, Name::Policy(policy) if policy.is_staged());
        let id = self.owners.insert(Rules { name: name.clone(), users: 0, is_staged, active: None });
        self.ids.insert(name, id);
        id
    }

    fn release_owner(&mut self, id: OwnerId) {
        let Some(owner) = self.owners.get_mut(id) else { return };
        owner.users -= 1;
        if owner.users == 0
            && let Some(gone) = self.owners.remove(id)
        {
            self.ids.remove(&gone.name);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.owners.iter().next().is_none() && self.stack_ids.is_empty()
    }

    pub(super) fn stack(&self, id: StackId) -> Option<&Compact> {
        self.stacks.get(id)
    }

    /// Whether an owner's rules are only tried out.
    pub(super) fn is_staged(&self, id: OwnerId) -> bool {
        self.owners.get(id).is_some_and(|owner| owner.is_staged)
    }

    /// An owner's rules; none when it is not active.
    pub(super) fn rules(&self, id: OwnerId, direction: PolicyType) -> Option<Directed<'_>> {
        let Active { rules, lists: [ingress, egress] } = self.owners.get(id)?.active.as_ref()?;
        let rules = of_direction([&rules.ingress, &rules.egress], direction);
        Some(Directed { rules, list: of_direction([ingress, egress], direction) })
    }

    /// An owner as steps name it.
    pub(super) fn owner(&self, id: OwnerId, tier: Option<&Arc<str>>) -> Option<Owner> {
        Some(match &self.owners.get(id)?.name {
            Name::Policy(policy) => Owner::Policy { tier: tier?.clone(), policy: policy.clone() },
            Name::Profile(profile) => Owner::Profile(profile.clone()),
        })
    }
}
