//! Integers by the key of a stored object. Who holds values by those integers holds the keys in short beside them.

use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::ResourceKey;
use super::short_key::{ShortKey, ShortKeys};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KeyIds {
    /// Beside their hashes: to grow, the table need not put keys together.
    ids: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
    keys: ShortKeys,
}

/// That a key is not there.
#[derive(Debug)]
pub(crate) struct Vacant(u32);

impl KeyIds {
    /// The integer of a key, or where it would go. `known` is to show the key of an integer.
    pub(crate) fn find<'a>(
        &self,
        key: &ResourceKey,
        known: impl Fn(u32) -> Option<&'a ShortKey>,
    ) -> Result<u32, Vacant> {
        let hash = self.hash(key);
        let is = |id| known(id).is_some_and(|known| self.keys.is(known, key));
        let found = self.ids.find(spread(hash), |entry| entry.0 == hash && is(entry.1));
        found.map(|entry| entry.1).ok_or(Vacant(hash))
    }

    /// A key in short, which is to be [taken out](Self::remove) one day.
    pub(crate) fn keep(&mut self, key: &ResourceKey) -> ShortKey {
        self.keys.keep(key)
    }

    /// Gives a key that was kept its integer.
    pub(crate) fn insert(&mut self, place: Vacant, id: u32) {
        self.ids.insert_unique(spread(place.0), (place.0, id), |entry| spread(entry.0));
    }

    /// Takes a key out.
    pub(crate) fn remove(&mut self, id: u32, key: &ResourceKey, known: Option<&ShortKey>) {
        let hash = self.hash(key);
        if let Ok(found) = self.ids.find_entry(spread(hash), |entry| *entry == (hash, id)) {
            found.remove();
        }
        known.into_iter().for_each(|known| self.keys.forget(known));
    }

    /// A key in full.
    pub(crate) fn whole(&self, key: &ShortKey) -> ResourceKey {
        self.keys.whole(key)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a part of a hash is one")]
    fn hash(&self, key: &ResourceKey) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// What is held of keys.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        self.keys.held()
    }
}

/// The table takes its lowest bits for the place and its highest to tell entries apart.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::format;

    use super::*;
    use crate::resource::Kind;

    /// Keys that differ in one part only.
    pub(crate) fn key(number: u8) -> ResourceKey {
        let kind = if number & 1 == 0 { Kind::WorkloadEndpoint } else { Kind::NetworkSet };
        let name = format!("n{}", number >> 1 & 1);
        match number >> 2 & 3 {
            0 => ResourceKey::cluster(kind, &name),
            3 => ResourceKey::Handle(format!("{number}").into()),
            namespace => ResourceKey::namespaced(kind, &format!("s{namespace}"), &name),
        }
    }
}
