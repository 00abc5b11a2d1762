//! The rule space: a bit for each rule of each policy and profile, in words; a list of rules begins a new word.
//!
//! A packet's candidates are found word by word: rules that ask nothing of an address, protocol or port stand in the space itself,
//! those that do are added by whoever knows the packet.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::net::Family;

/// 64 rules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lane {
    /// Rules that ask nothing of protocol and destination port.
    pub(super) service: u64,
    /// Rules that want nothing of the source address.
    pub(super) source: u64,
    /// Rules that want nothing of the destination address.
    pub(super) destination: u64,
}

/// The space, for each family.
#[derive(Debug, Default)]
pub(super) struct Space {
    v4: Vec<Lane>,
    v6: Vec<Lane>,
    /// Words that are not in use, by how many are together.
    free: BTreeMap<u32, Vec<u32>>,
}

impl Space {
    /// The first of so many words that are empty.
    pub(super) fn take(&mut self, words: u32) -> u32 {
        if let Some(first) = self.free.get_mut(&words).and_then(Vec::pop) {
            return first;
        }
        let first = u32::try_from(self.v4.len()).unwrap_or(u32::MAX);
        let end = self.v4.len() + words as usize;
        self.v4.resize(end, Lane::default());
        self.v6.resize(end, Lane::default());
        first
    }

    /// Gives words back, in which no rule stands any more.
    pub(super) fn give(&mut self, first: u32, words: u32) {
        self.free.entry(words).or_default().push(first);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let clear = |lane: &Lane| lane.service | lane.source | lane.destination == 0;
        let given: usize = self.free.iter().map(|(words, firsts)| *words as usize * firsts.len()).sum();
        given == self.v4.len() && self.v4.iter().chain(&self.v6).all(clear)
    }

    pub(super) fn lanes(&self, family: Family) -> &[Lane] {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    pub(super) fn lane_mut(&mut self, family: Family, word: u32) -> Option<&mut Lane> {
        let lanes = match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        };
        lanes.get_mut(word as usize)
    }
}
