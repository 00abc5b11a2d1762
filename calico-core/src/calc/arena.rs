//! Values under the label index's dense integers, found by resource key as well; the key is held once.

use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::label::slab::Slots;
use crate::resource::ResourceKey;

/// The values.
#[derive(Debug)]
pub(super) struct Arena<T> {
    slots: Slots<(ResourceKey, T)>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { slots: Slots::default(), table: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<T> Arena<T> {
    /// The integer of a key.
    pub(super) fn find(&self, key: &ResourceKey) -> Option<u32> {
        let same = |id: &u32| self.key(*id) == Some(key);
        self.table.find(self.hasher.hash_one(key), same).copied()
    }

    /// Puts a value in under an integer that is free.
    pub(super) fn insert(&mut self, id: u32, key: ResourceKey, value: T) {
        let hash = self.hasher.hash_one(&key);
        self.slots.put(id, (key, value));
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |id: &u32| slots.get(*id).map_or(0, |(key, _)| hasher.hash_one(key));
        self.table.insert_unique(hash, id, rehash);
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<(ResourceKey, T)> {
        let (key, value) = self.slots.take(id)?;
        if let Ok(found) = self.table.find_entry(self.hasher.hash_one(&key), |other| *other == id) {
            found.remove();
        }
        Some((key, value))
    }

    pub(super) fn key(&self, id: u32) -> Option<&ResourceKey> {
        self.slots.get(id).map(|(key, _)| key)
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.slots.get(id).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slots.get_mut(id).map(|(_, value)| value)
    }
}
