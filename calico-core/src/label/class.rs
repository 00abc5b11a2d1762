//! Items with the same own labels and the same parents are one class: selectors are evaluated per class, not per item.

use alloc::boxed::Box;
use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::pair::Pair;
use super::slab::Slab;

/// No item, no class.
pub(super) const NONE: u32 = u32::MAX;

/// One class. There may be as many as items, so it is kept small.
#[derive(Debug)]
pub(super) struct Class {
    /// Own labels, sorted by name, then parents in order.
    content: Box<[u32]>,
    /// How many of `content` are labels.
    labels: u32,
    /// Selectors that match, sorted.
    pub(super) matching: Box<[u32]>,
    /// First of the list of items that are reported as being in it.
    pub(super) first: u32,
    /// Items that are in it, reported or not.
    pub(super) references: u32,
    /// Whether `matching` has been worked out and the class stands in the label index.
    pub(super) evaluated: bool,
}

impl Class {
    pub(super) fn own(&self) -> impl Iterator<Item = Pair> {
        let labels = self.content.get(..self.labels as usize).unwrap_or_default();
        labels.iter().copied().map(Pair::from_raw)
    }

    pub(super) fn parents(&self) -> &[u32] {
        self.content.get(self.labels as usize..).unwrap_or_default()
    }

    fn is(&self, content: &[u32], labels: u32) -> bool {
        self.labels == labels && *self.content == *content
    }
}

/// All classes, found by content.
#[derive(Debug, Default)]
pub(super) struct Classes {
    slab: Slab<Class>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Classes {
    pub(super) fn find(&self, content: &[u32], labels: u32) -> Option<u32> {
        let hash = self.hasher.hash_one((labels, content));
        let same = |key: &u32| self.slab.get(*key).is_some_and(|class| class.is(content, labels));
        self.table.find(hash, same).copied()
    }

    pub(super) fn insert(&mut self, content: &[u32], labels: u32) -> u32 {
        let hash = self.hasher.hash_one((labels, content));
        let key = self.slab.insert(Class {
            content: content.into(),
            labels,
            matching: Box::default(),
            first: NONE,
            references: 0,
            evaluated: false,
        });
        let (slab, hasher) = (&self.slab, &self.hasher);
        self.table.insert_unique(hash, key, |key| {
            slab.get(*key).map_or(0, |class| hasher.hash_one((class.labels, &*class.content)))
        });
        key
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Class> {
        let class = self.slab.remove(key)?;
        let hash = self.hasher.hash_one((class.labels, &*class.content));
        if let Ok(found) = self.table.find_entry(hash, |other| *other == key) {
            found.remove();
        }
        Some(class)
    }

    pub(super) fn get(&self, key: u32) -> Option<&Class> {
        self.slab.get(key)
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Class> {
        self.slab.get_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        self.slab.iter()
    }
}
