//! Items, each in three lists that are linked through the items themselves: of its own labels, of its kin, of its class.

use core::num::NonZeroU32;

use super::slab::Slab;

/// No item, no class.
pub(super) const NONE: u32 = u32::MAX;

/// One item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// One more than the key of its own labels: so an empty slot needs no word to say that it is.
    own: NonZeroU32,
    pub(super) kin: u32,
    /// The class whose matches have been reported for it.
    pub(super) class: u32,
    links: [Link; 3],
}

impl Item {
    pub(super) const fn own(&self) -> u32 {
        self.own.get() - 1
    }

    /// Sets own labels and kin; answers with the former.
    pub(super) const fn replace(&mut self, own: u32, kin: u32) -> (u32, u32) {
        let former = (self.own(), self.kin);
        (self.own, self.kin) = (one_more(own), kin);
        former
    }
}

const fn one_more(own: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(own)
}

#[derive(Debug, Clone, Copy)]
struct Link {
    next: u32,
    previous: u32,
}

/// One of the lists that an item is in.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    Own,
    Kin,
    Class,
}

/// All items.
#[derive(Debug, Default)]
pub(super) struct Items(Slab<Item>);

impl Items {
    pub(super) fn insert(&mut self, own: u32, kin: u32) -> u32 {
        let links = [Link { next: NONE, previous: NONE }; 3];
        self.0.insert(Item { own: one_more(own), kin, class: NONE, links })
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

    /// Puts an item at the head of a list.
    pub(super) fn link(&mut self, key: u32, list: List, first: &mut u32) {
        if let Some(other) = self.link_of(*first, list) {
            other.previous = key;
        }
        if let Some(link) = self.link_of(key, list) {
            *link = Link { next: *first, previous: NONE };
        }
        *first = key;
    }

    /// Takes an item out of a list.
    pub(super) fn unlink(&mut self, key: u32, list: List, first: &mut u32) {
        let Some(Link { next, previous }) = self.link_of(key, list).copied() else { return };
        match self.link_of(previous, list) {
            Some(other) => other.next = next,
            None => *first = next,
        }
        if let Some(other) = self.link_of(next, list) {
            other.previous = previous;
        }
    }

    /// The items of a list.
    pub(super) fn of(&self, list: List, first: u32) -> impl Iterator<Item = u32> {
        let existing = |key: u32| (key != NONE).then_some(key);
        let next = move |key: &u32| existing(self.0.get(*key)?.links.get(list as usize)?.next);
        core::iter::successors(existing(first), next)
    }

    fn link_of(&mut self, key: u32, list: List) -> Option<&mut Link> {
        self.0.get_mut(key)?.links.get_mut(list as usize)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.iter().count()
    }
}
