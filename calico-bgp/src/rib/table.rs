//! All prefixes of one family, by a dense number.
//!
//! A prefix has its number for as long as anything refers to it: a path, our own origination, an update group that tells of it or has yet
//! to say that it is gone, or a report that is due. Everything else here knows prefixes by number.

use core::hash::BuildHasher;
use core::net::IpAddr;
use std::sync::Arc;

use calico_core::net::Cidr;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::path::Paths;
use super::report::Forward;

/// Number of a prefix in its family's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PrefixId(pub(crate) u32);

impl PrefixId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the decision came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    Nothing,
    /// We originate it.
    Originated,
    /// The path at this place.
    Path(usize),
}

/// A prefix and everything known of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) prefix: Cidr,
    /// [`Chosen`] in two octets.
    chosen: u16,
    /// Update groups with an entry of it.
    pub(crate) groups: u16,
    pub(crate) originated: bool,
    /// Queues in which it waits.
    waiting: u8,
    pub(crate) paths: Paths,
    pub(crate) reported: Option<Arc<Forward>>,
}

/// A queue of prefixes that somebody has to look at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Update groups.
    Export = 1,
    /// Whoever forwards.
    Report = 2,
}

impl Entry {
    const fn new(prefix: Cidr) -> Self {
        let paths = Paths::Several(Vec::new());
        Self { prefix, chosen: 0, groups: 0, originated: false, waiting: 0, paths, reported: None }
    }

    pub(crate) fn chosen(&self) -> Chosen {
        match self.chosen {
            0 => Chosen::Nothing,
            1 => Chosen::Originated,
            place => Chosen::Path(usize::from(place.saturating_sub(2))),
        }
    }

    pub(crate) fn choose(&mut self, chosen: Chosen) {
        self.chosen = match chosen {
            Chosen::Nothing => 0,
            Chosen::Originated => 1,
            Chosen::Path(place) => u16::try_from(place).unwrap_or(u16::MAX).saturating_add(2),
        };
    }

    /// Notes that it waits. Says whether it did not before.
    pub(crate) const fn enqueue(&mut self, queue: Queue) -> bool {
        let before = self.waiting;
        self.waiting |= queue as u8;
        before != self.waiting
    }

    pub(crate) const fn dequeue(&mut self, queue: Queue) {
        self.waiting &= !(queue as u8);
    }

    const fn is_unused(&self) -> bool {
        let no_path = matches!(&self.paths, Paths::Several(paths) if paths.is_empty());
        no_path && !self.originated && self.groups == 0 && self.waiting == 0 && self.reported.is_none()
    }
}

/// The prefixes of a family.
#[derive(Debug, Default)]
pub(crate) struct Table {
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    entries: Vec<Option<Entry>>,
    free: Vec<PrefixId>,
}

impl Table {
    pub(crate) fn find(&self, prefix: &Cidr) -> Option<PrefixId> {
        let is_it = |id: &u32| self.get(PrefixId(*id)).is_some_and(|entry| entry.prefix == *prefix);
        self.index.find(hash(&self.hasher, prefix), is_it).copied().map(PrefixId)
    }

    pub(crate) fn find_or_insert(&mut self, prefix: Cidr) -> PrefixId {
        if let Some(id) = self.find(&prefix) {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            PrefixId(u32::try_from(self.entries.len().saturating_sub(1)).unwrap_or(u32::MAX))
        });
        if let Some(slot) = self.entries.get_mut(id.index()) {
            *slot = Some(Entry::new(prefix));
        }
        let (entries, hasher) = (&self.entries, &self.hasher);
        let rehash = |id: &u32| {
            let known = entries.get(PrefixId(*id).index()).and_then(Option::as_ref);
            known.map_or(0, |entry| hash(hasher, &entry.prefix))
        };
        self.index.insert_unique(hash(hasher, &prefix), id.0, rehash);
        id
    }

    pub(crate) fn get(&self, id: PrefixId) -> Option<&Entry> {
        self.entries.get(id.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: PrefixId) -> Option<&mut Entry> {
        self.entries.get_mut(id.index())?.as_mut()
    }

    /// Forgets a prefix that nothing refers to any more.
    pub(crate) fn release(&mut self, id: PrefixId) {
        let Some(entry) = self.get(id).filter(|entry| entry.is_unused()) else {
            return;
        };
        let hash = hash(&self.hasher, &entry.prefix);
        if let Ok(found) = self.index.find_entry(hash, |known| *known == id.0) {
            found.remove();
        }
        if let Some(slot) = self.entries.get_mut(id.index()) {
            *slot = None;
            self.free.push(id);
        }
        if self.index.is_empty() {
            *self = Self { hasher: core::mem::take(&mut self.hasher), ..Self::default() };
        }
    }

    /// One more or one less update group has an entry of a prefix.
    pub(crate) fn group_entry(&mut self, id: PrefixId, is_more: bool) {
        if let Some(entry) = self.get_mut(id) {
            entry.groups = if is_more { entry.groups.saturating_add(1) } else { entry.groups.saturating_sub(1) };
        }
        if !is_more {
            self.release(id);
        }
    }

    /// Number of prefixes.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// All numbers are below it.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }
}

fn hash(hasher: &DefaultHashBuilder, prefix: &Cidr) -> u64 {
    match prefix.address() {
        IpAddr::V4(address) => hasher.hash_one(u64::from(address.to_bits()) << 8 | u64::from(prefix.length())),
        IpAddr::V6(address) => hasher.hash_one((address.to_bits(), prefix.length())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_come_again() {
        let prefix = |number: u8| -> Cidr { format!("10.0.{number}.0/24").parse().unwrap() };
        let mut table = Table::default();
        let ids: Vec<PrefixId> = (0..100).map(|number| table.find_or_insert(prefix(number))).collect();
        for (number, id) in (0..).zip(&ids) {
            assert_eq!((id.0, table.find(&prefix(number))), (u32::from(number), Some(*id)));
            table.get_mut(*id).unwrap().originated = true;
        }
        table.release(ids[7]);
        assert_eq!(table.len(), 100, "it is in use");
        for number in [7, 9] {
            table.get_mut(ids[number]).unwrap().originated = false;
            table.release(ids[number]);
        }
        assert_eq!((table.find(&prefix(7)), table.len()), (None, 98));
        assert_eq!(table.find_or_insert(prefix(200)), ids[9]);
        assert_eq!(size_of::<Entry>(), 64, "a table of a million prefixes is a million of these");
    }
}
