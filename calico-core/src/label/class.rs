//! Items with the same own labels and the same parents are one class: selectors are evaluated per class, not per item.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::compiled::Pairs;
use super::interner::Symbol;
use super::slab::Slab;

/// One class.
#[derive(Debug)]
pub(super) struct Class {
    /// Own labels, sorted by name.
    pub(super) own: Box<Pairs>,
    /// Parents in order.
    pub(super) parents: Box<[u32]>,
    /// Selectors that match, sorted.
    pub(super) matching: Vec<u32>,
    /// Items that are reported as being in it.
    pub(super) items: Vec<u32>,
    /// Items that are in it, reported or not.
    pub(super) references: u32,
    /// Whether `matching` has been worked out and the class stands in the label index.
    pub(super) evaluated: bool,
}

/// All classes, found by content.
#[derive(Debug, Default)]
pub(super) struct Classes {
    slab: Slab<Class>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Classes {
    pub(super) fn find(&self, own: &Pairs, parents: &[u32]) -> Option<u32> {
        let hash = self.hasher.hash_one((own, parents));
        let same =
            |key: &u32| self.slab.get(*key).is_some_and(|class| *class.own == *own && *class.parents == *parents);
        self.table.find(hash, same).copied()
    }

    pub(super) fn insert(&mut self, own: &[(Symbol, Symbol)], parents: &[u32]) -> u32 {
        let hash = self.hasher.hash_one((own, parents));
        let key = self.slab.insert(Class {
            own: own.into(),
            parents: parents.into(),
            matching: Vec::new(),
            items: Vec::new(),
            references: 0,
            evaluated: false,
        });
        let (slab, hasher) = (&self.slab, &self.hasher);
        self.table.insert_unique(hash, key, |key| {
            slab.get(*key).map_or(0, |class| hasher.hash_one((&*class.own, &*class.parents)))
        });
        key
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Class> {
        let class = self.slab.remove(key)?;
        let hash = self.hasher.hash_one((&*class.own, &*class.parents));
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
