//! One copy of each label (name and value together), counted: a label set is a list of small integers, and taking one in costs one
//! lookup for each label.

use alloc::vec::Vec;
use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::interner::{Interner, Symbol};
use super::slab::Slab;

/// An interned label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pair(u32);

impl Pair {
    pub(super) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u32 {
        self.0
    }
}

#[derive(Debug)]
struct Entry {
    name: Symbol,
    value: Symbol,
    references: u32,
}

/// The labels, and the strings that they and selectors are made of.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) strings: Interner,
    entries: Slab<Entry>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Pairs {
    /// Takes labels in, each held once more, sorted by the symbol of their name.
    pub(super) fn acquire_all<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        out: &mut Vec<Pair>,
    ) {
        out.extend(labels.into_iter().map(|(name, value)| self.acquire(name, value)));
        let entries = &self.entries;
        out.sort_unstable_by_key(|pair| entries.get(pair.0).map(|entry| entry.name));
    }

    fn acquire(&mut self, name: &str, value: &str) -> Pair {
        let hash = self.hasher.hash_one((name, value));
        let (entries, strings) = (&self.entries, &self.strings);
        let same = |key: &u32| {
            entries
                .get(*key)
                .is_some_and(|entry| strings.text(entry.value) == value && strings.text(entry.name) == name)
        };
        if let Some(&key) = self.table.find(hash, same) {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.references += 1;
            }
            return Pair(key);
        }
        let (name, value) = (self.strings.acquire(name), self.strings.acquire(value));
        let key = self.entries.insert(Entry { name, value, references: 1 });
        let (entries, strings, hasher) = (&self.entries, &self.strings, &self.hasher);
        self.table.insert_unique(hash, key, |key| {
            entries.get(*key).map_or(0, |entry| hasher.hash_one((strings.text(entry.name), strings.text(entry.value))))
        });
        Pair(key)
    }

    pub(super) fn release_all(&mut self, pairs: impl IntoIterator<Item = Pair>) {
        pairs.into_iter().for_each(|pair| self.release(pair));
    }

    fn release(&mut self, pair: Pair) {
        let Some(entry) = self.entries.get_mut(pair.0) else { return };
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        let Some(Entry { name, value, .. }) = self.entries.remove(pair.0) else { return };
        let hash = self.hasher.hash_one((self.strings.text(name), self.strings.text(value)));
        if let Ok(found) = self.table.find_entry(hash, |key| *key == pair.0) {
            found.remove();
        }
        self.strings.release(name);
        self.strings.release(value);
    }

    /// Name and value.
    pub(super) fn get(&self, pair: Pair) -> Option<(Symbol, Symbol)> {
        self.entries.get(pair.0).map(|entry| (entry.name, entry.value))
    }
}
