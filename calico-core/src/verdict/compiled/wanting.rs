//! Rules that want what a packet has: a word for 64 of the rule space, whatever the stack.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::holders::ConditionId;
use super::index::Index;
use super::postings::Postings;
use super::space::Lane;
use crate::net::Family;
use crate::verdict::step::Side;

/// Words, all of the space.
pub(in crate::verdict) type Words = Box<[u64]>;

impl Index {
    /// Rules that may want an address of which is known what holds it.
    pub(super) fn wanting_address(&self, family: Family, side: Side, conditions: &[ConditionId]) -> Words {
        let mut words = self.lanes(family, |lane| match side {
            Side::Source => lane.source,
            Side::Destination => lane.destination,
        });
        let rules = |id: &ConditionId| self.conditions.get(*id).map(|condition| condition.of(side));
        conditions.iter().filter_map(rules).for_each(|rules| add(&mut words, &rules.wanted));
        for (word, bits) in conditions.iter().filter_map(rules).flat_map(|rules| rules.unwanted.words()) {
            if let Some(known) = words.get_mut(*word as usize) {
                *known &= !bits;
            }
        }
        words
    }

    /// Rules that may want a protocol and port; of the destination is known what has that port of it.
    pub(super) fn wanting_service(&self, family: Family, protocol: u8, port: u16, named: &[ConditionId]) -> Words {
        let mut words = self.lanes(family, |lane| lane.service);
        self.services.of(protocol, port).for_each(|postings| add(&mut words, postings));
        let named = named.iter().filter_map(|id| self.conditions.get(*id));
        named.for_each(|condition| add(&mut words, &condition.service));
        words
    }

    /// The same of any destination.
    pub(super) fn wanting_service_anywhere(&self, family: Family, protocol: u8, port: u16) -> Words {
        let mut words = self.wanting_service(family, protocol, port, &[]);
        self.conditions.iter().for_each(|condition| add(&mut words, &condition.service));
        words
    }

    fn lanes(&self, family: Family, part: impl Fn(&Lane) -> u64) -> Words {
        self.space.lanes(family).iter().map(part).collect()
    }
}

fn add(words: &mut [u64], postings: &Postings) {
    for (word, bits) in postings.words() {
        if let Some(known) = words.get_mut(*word as usize) {
            *known |= bits;
        }
    }
}

/// Words that were worked out before. Many addresses are held by the same conditions, and few services are asked for.
#[derive(Debug, Default)]
pub(super) struct Memo {
    v4: HashMap<Box<[u32]>, usize>,
    v6: HashMap<Box<[u32]>, usize>,
    words: Vec<Words>,
}

impl Memo {
    /// The words of a key, which are worked out if need be.
    pub(super) fn words(&mut self, family: Family, key: &[u32], make: impl FnOnce() -> Words) -> &[u64] {
        let at = match self.known(family).get(key) {
            Some(at) => *at,
            None => self.add(family, key, make()),
        };
        self.words.get(at).map(|words| &**words).unwrap_or_default()
    }

    fn add(&mut self, family: Family, key: &[u32], made: Words) -> usize {
        if (self.words.len() + 1) * made.len() > MOST_WORDS {
            *self = Self::default();
        }
        let at = self.words.len();
        self.words.push(made);
        self.known(family).insert(key.into(), at);
        at
    }

    const fn known(&mut self, family: Family) -> &mut HashMap<Box<[u32]>, usize> {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }
}

/// 16 MiB.
const MOST_WORDS: usize = 2 << 20;
