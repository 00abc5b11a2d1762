//! Values under the label index's dense integers, found by resource key as well; the key is held once.

use crate::label::slab::Slots;
use crate::label::store::Keys;
use crate::resource::ResourceKey;

/// The values.
#[derive(Debug)]
pub(super) struct Arena<T> {
    slots: Slots<(ResourceKey, T)>,
    ids: Keys,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { slots: Slots::default(), ids: Keys::default() }
    }
}

impl<T> Arena<T> {
    /// The integer of a key.
    pub(super) fn find(&self, key: &ResourceKey) -> Option<u32> {
        self.ids.find(self.ids.hash(key), |id| self.key(id) == Some(key))
    }

    /// Puts a value in under an integer that is free.
    pub(super) fn insert(&mut self, id: u32, key: ResourceKey, value: T) {
        let hash = self.ids.hash(&key);
        self.slots.put(id, (key, value));
        let Self { slots, ids } = self;
        ids.insert(hash, id, |id| slots.get(id).map(|(key, _)| key));
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<(ResourceKey, T)> {
        let (key, value) = self.slots.take(id)?;
        self.ids.remove(self.ids.hash(&key), id);
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
