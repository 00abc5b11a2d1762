//! Items: which class each is in, and the list of a class's items, linked through the items themselves.

use super::class::{Class, NONE};
use super::slab::Slab;

/// One item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// The class whose matches have been reported for it.
    pub(super) reported: u32,
    /// The class that it is in.
    pub(super) current: u32,
    next: u32,
    previous: u32,
}

/// All items.
#[derive(Debug, Default)]
pub(super) struct Items(Slab<Item>);

impl Items {
    pub(super) fn insert(&mut self, class: u32) -> u32 {
        self.0.insert(Item { reported: NONE, current: class, next: NONE, previous: NONE })
    }

    pub(super) fn get(&self, key: u32) -> Option<&Item> {
        self.0.get(key)
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Item> {
        self.0.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: u32) {
        self.0.remove(key);
    }

    /// Puts an item at the head of a class's list.
    pub(super) fn link(&mut self, key: u32, class: &mut Class) {
        if let Some(first) = self.0.get_mut(class.first) {
            first.previous = key;
        }
        if let Some(item) = self.0.get_mut(key) {
            (item.next, item.previous) = (class.first, NONE);
        }
        class.first = key;
    }

    /// Takes an item out of its class's list.
    pub(super) fn unlink(&mut self, key: u32, class: &mut Class) {
        let Some(Item { next, previous, .. }) = self.0.get(key).copied() else { return };
        match self.0.get_mut(previous) {
            Some(item) => item.next = next,
            None => class.first = next,
        }
        if let Some(item) = self.0.get_mut(next) {
            item.previous = previous;
        }
    }

    /// The items of a class's list.
    pub(super) fn of(&self, class: &Class) -> impl Iterator<Item = u32> {
        let existing = |key: u32| self.0.get(key).map(|item| (key, item));
        core::iter::successors(existing(class.first), move |(_, item)| existing(item.next)).map(|(key, _)| key)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.iter().count()
    }
}
