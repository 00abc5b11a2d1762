//! The index of all active rules: lists of rules come and go, each at its own cost.

use alloc::boxed::Box;

use super::conditions::{Asked, Conditions, Rules};
use super::holders::ConditionId;
use super::postings::Place;
use super::services::Services;
use super::space::Space;
use crate::calc::event::ActiveRule;
use crate::net::Family;
use crate::verdict::rule::exists_for;
use crate::verdict::step::Side;

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) conditions: Conditions,
    pub(super) services: Services,
    pub(super) space: Space,
}

/// A list of rules in the index.
#[derive(Debug)]
pub(super) struct List {
    /// Its first word in the space.
    pub(super) first: u32,
    /// How many words it has.
    pub(super) words: u32,
    /// What each rule asks of sets.
    pub(super) asked: Box<[Asked]>,
}

impl Index {
    pub(super) fn add(&mut self, rules: &[ActiveRule]) -> List {
        let words = u32::try_from(rules.len().div_ceil(64)).unwrap_or(u32::MAX);
        let asked = rules.iter().map(|rule| Asked::of(rule, &mut self.conditions)).collect();
        let list = List { first: self.space.take(words), words, asked };
        self.place_all(rules, &list, true);
        list
    }

    /// Removes what [`add`](Self::add) made of the same rules.
    pub(super) fn remove(&mut self, rules: &[ActiveRule], list: List) {
        self.place_all(rules, &list, false);
        self.space.give(list.first, list.words);
        list.asked.into_iter().for_each(|asked| asked.release(&mut self.conditions));
    }

    fn place_all(&mut self, rules: &[ActiveRule], list: &List, present: bool) {
        let places = (list.first..).flat_map(|word| (0..64).map(move |bit| Place { word, bit: 1 << bit }));
        for ((rule, asked), place) in rules.iter().zip(&list.asked).zip(places) {
            self.place(rule, asked, place, present);
        }
    }

    fn place(&mut self, rule: &ActiveRule, asked: &Asked, place: Place, present: bool) {
        let ports = &rule.destination.ports;
        let any_port = ports.is_empty() && asked.destination.port_sets.is_empty();
        for family in [Family::V4, Family::V6].into_iter().filter(|family| exists_for(rule, *family)) {
            let Some(lane) = self.space.lane_mut(family, place.word) else { continue };
            let free = [
                (&mut lane.service, any_port && rule.protocol.is_none()),
                (&mut lane.source, asked.source.key().is_none()),
                (&mut lane.destination, asked.destination.key().is_none()),
            ];
            for (bits, _) in free.into_iter().filter(|(_, is_free)| *is_free) {
                *bits = if present { *bits | place.bit } else { *bits & !place.bit };
            }
        }
        match rule.protocol {
            Some(protocol) if any_port => self.services.set_protocol(protocol, place, present),
            _ => ports.iter().for_each(|range| self.services.set_range(rule.protocol, *range, place, present)),
        }
        self.place_conditions(asked, place, present);
    }

    fn place_conditions(&mut self, asked: &Asked, place: Place, present: bool) {
        for (wanted, side) in [(&asked.source, Side::Source), (&asked.destination, Side::Destination)] {
            if let Some(rules) = wanted.key().and_then(|id| self.rules_of(id, side)) {
                rules.wanted.set(place, present);
            }
            for id in wanted.unwanted() {
                if let Some(rules) = self.rules_of(id, side) {
                    rules.unwanted.set(place, present);
                }
            }
        }
        for id in &asked.destination.port_sets {
            if let Some(condition) = self.conditions.get_mut(*id) {
                condition.service.set(place, present);
            }
        }
    }

    fn rules_of(&mut self, id: ConditionId, side: Side) -> Option<&mut Rules> {
        let condition = self.conditions.get_mut(id)?;
        Some(match side {
            Side::Source => &mut condition.source,
            Side::Destination => &mut condition.destination,
        })
    }
}
