//! Rules that want what a packet has: a word for 64 of the rule space, whatever the stack.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::holders::ConditionId;
use super::index::Index;
use super::layout::{Layout, Line, Lines};
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

/// What was worked out before. Many addresses are held by the same conditions, and few services are asked for.
#[derive(Debug, Default)]
pub(super) struct Memo {
    v4: HashMap<Box<[u32]>, usize>,
    v6: HashMap<Box<[u32]>, usize>,
    known: Vec<Wanting>,
    /// Words that are held.
    size: usize,
}

#[derive(Debug)]
struct Wanting {
    words: Words,
    /// The same in the order of layouts, by their numbers.
    gathered: HashMap<u32, Lines>,
}

impl Memo {
    /// The words of a key in the order of a layout, with its number; worked out if need be.
    pub(super) fn lines(
        &mut self,
        family: Family,
        key: &[u32],
        (number, layout): (u32, &Layout<'_>),
        make: impl FnOnce() -> Words,
    ) -> &[Line] {
        if self.size > MOST_WORDS {
            *self = Self::default();
        }
        let at = match self.by_key(family).get(key) {
            Some(at) => *at,
            None => self.add(family, key, make()),
        };
        let Self { known, size, .. } = self;
        let Some(Wanting { words, gathered }) = known.get_mut(at) else { return &[] };
        gathered.entry(number).or_insert_with(|| {
            let lines = layout.gather(words);
            *size += lines.as_flattened().len();
            lines
        })
    }

    fn add(&mut self, family: Family, key: &[u32], words: Words) -> usize {
        let at = self.known.len();
        self.size += words.len();
        self.known.push(Wanting { words, gathered: HashMap::new() });
        self.by_key(family).insert(key.into(), at);
        at
    }

    const fn by_key(&mut self, family: Family) -> &mut HashMap<Box<[u32]>, usize> {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }
}

/// 16 MiB.
const MOST_WORDS: usize = 2 << 20;
