//! Integers by the key of a stored object. Who holds values by those integers holds the keys in short beside them.

use super::ResourceKey;
use super::short_key::{ShortKey, ShortKeys};
use crate::label::store::Keys;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KeyIds {
    ids: Keys,
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
        let hash = self.ids.hash(key);
        let is = |id| known(id).is_some_and(|known| self.keys.is(known, key));
        self.ids.find(hash, is).ok_or(Vacant(hash))
    }

    /// A key in short, which is to be [taken out](Self::remove) one day.
    pub(crate) fn keep(&mut self, key: &ResourceKey) -> ShortKey {
        self.keys.keep(key)
    }

    /// Gives a key that was kept its integer.
    pub(crate) fn insert(&mut self, place: Vacant, id: u32) {
        self.ids.insert(place.0, id);
    }

    /// Takes a key out.
    pub(crate) fn remove(&mut self, id: u32, key: &ResourceKey, known: Option<&ShortKey>) {
        self.ids.remove(self.ids.hash(key), id);
        known.into_iter().for_each(|known| self.keys.forget(known));
    }

    /// A key in full.
    pub(crate) fn whole(&self, key: &ShortKey) -> ResourceKey {
        self.keys.whole(key)
    }

    /// What is held of keys.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        self.keys.held()
    }
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
