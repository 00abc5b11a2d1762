//! What rules ask of addresses and ports, by number: sets, and the lists of prefixes that rules have themselves.

use alloc::boxed::Box;

use hashbrown::HashMap;

use super::holders::{ConditionId, Holders};
use super::postings::Postings;
use crate::calc::event::{ActiveEntity, ActiveRule, Member, SetId};
use crate::label::slab::Slab;
use crate::net::Cidr;
use crate::verdict::step::Side;

/// All conditions that a rule or an announced set needs.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    slots: Slab<Condition>,
    ids: HashMap<Name, ConditionId>,
    holders: Holders,
}

/// One condition, and the rules that have it.
#[derive(Debug)]
pub(super) struct Condition {
    name: Name,
    /// Rules that refer to it; an announced set is one more.
    users: usize,
    /// Rules that ask it of their source.
    pub(super) source: Rules,
    /// Rules that ask it of their destination.
    pub(super) destination: Rules,
    /// Rules that want it of their destination's port.
    pub(super) service: Postings,
}

/// Rules that ask one thing of one side.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// They match only where it holds.
    pub(super) wanted: Postings,
    /// They match only where it does not.
    pub(super) unwanted: Postings,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    Set(SetId),
    Nets(Box<[Cidr]>),
}

impl Conditions {
    /// The number of a set, which stays while it is in use.
    pub(super) fn take_set(&mut self, set: SetId) -> ConditionId {
        self.take(Name::Set(set)).0
    }

    /// The number of a list of prefixes; none of an empty one.
    pub(super) fn take_nets(&mut self, nets: &[Cidr]) -> Option<ConditionId> {
        if nets.is_empty() {
            return None;
        }
        let (id, is_new) = self.take(Name::Nets(nets.into()));
        if is_new {
            nets.iter().for_each(|net| self.holders.set(Member::Net(*net), id, true));
        }
        Some(id)
    }

    fn take(&mut self, name: Name) -> (ConditionId, bool) {
        if let Some(id) = self.ids.get(&name) {
            if let Some(known) = self.slots.get_mut(*id) {
                known.users += 1;
            }
            return (*id, false);
        }
        let id = self.slots.insert(Condition {
            name: name.clone(),
            users: 1,
            source: Rules::default(),
            destination: Rules::default(),
            service: Postings::default(),
        });
        self.ids.insert(name, id);
        (id, true)
    }

    /// One user less.
    pub(super) fn release(&mut self, id: ConditionId) {
        let Some(known) = self.slots.get_mut(id) else { return };
        known.users -= 1;
        if known.users > 0 {
            return;
        }
        let Some(gone) = self.slots.remove(id) else { return };
        self.ids.remove(&gone.name);
        if let Name::Nets(nets) = &gone.name {
            nets.iter().for_each(|net| self.holders.set(Member::Net(*net), id, false));
        }
    }

    /// A set that is in use gains or loses members.
    pub(super) fn change<'a>(&mut self, set: SetId, members: impl IntoIterator<Item = &'a Member>, present: bool) {
        let Some(id) = self.id_of(set) else { return };
        members.into_iter().for_each(|member| self.holders.set(*member, id, present));
    }

    pub(super) fn id_of(&self, set: SetId) -> Option<ConditionId> {
        self.ids.get(&Name::Set(set)).copied()
    }

    pub(super) fn get(&self, id: ConditionId) -> Option<&Condition> {
        self.slots.get(id)
    }

    pub(super) fn get_mut(&mut self, id: ConditionId) -> Option<&mut Condition> {
        self.slots.get_mut(id)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.slots.iter().next().is_none() && self.holders.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.slots.iter().map(|(_, condition)| condition)
    }

    pub(super) const fn holders(&self) -> &Holders {
        &self.holders
    }
}

impl Condition {
    pub(super) const fn of(&self, side: Side) -> &Rules {
        match side {
            Side::Source => &self.source,
            Side::Destination => &self.destination,
        }
    }
}

/// What one rule asks of sets and lists, by number.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) source: Wanted,
    pub(super) destination: Wanted,
}

/// What it asks of one side.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) sets: Box<[ConditionId]>,
    pub(super) not_sets: Box<[ConditionId]>,
    pub(super) port_sets: Box<[ConditionId]>,
    pub(super) not_port_sets: Box<[ConditionId]>,
    nets: Option<ConditionId>,
    not_nets: Option<ConditionId>,
}

impl Asked {
    /// Takes all that a rule refers to.
    pub(super) fn of(rule: &ActiveRule, conditions: &mut Conditions) -> Self {
        Self { source: Wanted::of(&rule.source, conditions), destination: Wanted::of(&rule.destination, conditions) }
    }

    /// Lets go of it.
    pub(super) fn release(self, conditions: &mut Conditions) {
        for side in [self.source, self.destination] {
            let lists = [side.sets, side.not_sets, side.port_sets, side.not_port_sets];
            let all = lists.into_iter().flatten().chain(side.nets).chain(side.not_nets);
            all.for_each(|id| conditions.release(id));
        }
    }
}

impl Wanted {
    fn of(entity: &ActiveEntity, conditions: &mut Conditions) -> Self {
        let mut take = |sets: &[SetId]| sets.iter().map(|set| conditions.take_set(*set)).collect();
        let (sets, not_sets) = (take(&entity.sets), take(&entity.not_sets));
        let (port_sets, not_port_sets) = (take(&entity.port_sets), take(&entity.not_port_sets));
        let (nets, not_nets) = (conditions.take_nets(&entity.nets), conditions.take_nets(&entity.not_nets));
        Self { sets, not_sets, port_sets, not_port_sets, nets, not_nets }
    }

    /// One condition that must hold, by which the rule is found; none when any address will do.
    pub(super) fn key(&self) -> Option<ConditionId> {
        self.sets.first().copied().or(self.nets)
    }

    /// Conditions of which none may hold.
    pub(super) fn unwanted(&self) -> impl Iterator<Item = ConditionId> {
        self.not_sets.iter().copied().chain(self.not_nets)
    }
}
