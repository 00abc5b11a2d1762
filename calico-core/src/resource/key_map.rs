//! Values by the key of a stored object, for who has a quarter of a million of them.
//!
//! What is allocated beyond need is little, and to grow moves integers only; a hash map of keys takes more than twice as much.

use alloc::vec::Vec;

use super::ResourceKey;
use super::short_key::{ShortKey, ShortKeys};
use crate::label::slab::Slab;
use crate::label::store::Keys;

/// The values.
#[derive(Debug)]
pub struct KeyMap<V> {
    slots: Slab<(ShortKey, V)>,
    ids: Keys,
    keys: ShortKeys,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { slots: Slab::default(), ids: Keys::default(), keys: ShortKeys::default() }
    }
}

impl<V> KeyMap<V> {
    /// Puts a value under a key; answers with the one that was there.
    pub fn insert(&mut self, key: &ResourceKey, value: V) -> Option<V> {
        let hash = self.ids.hash(key);
        if let Some(id) = self.find(hash, key) {
            return self.slots.get_mut(id).map(|(_, known)| core::mem::replace(known, value));
        }
        let id = self.slots.insert((self.keys.keep(key), value));
        self.ids.insert(hash, id);
        None
    }

    /// Takes a key out; answers with its value.
    pub fn remove(&mut self, key: &ResourceKey) -> Option<V> {
        let hash = self.ids.hash(key);
        let id = self.find(hash, key)?;
        self.ids.remove(hash, id);
        let (key, value) = self.slots.remove(id)?;
        self.keys.forget(&key);
        Some(value)
    }

    /// The value of a key.
    pub fn get(&self, key: &ResourceKey) -> Option<&V> {
        let id = self.find(self.ids.hash(key), key)?;
        self.slots.get(id).map(|(_, value)| value)
    }

    /// The keys whose values are meant, in no order.
    pub fn keys_where(&self, mut is_meant: impl FnMut(&V) -> bool) -> Vec<ResourceKey> {
        let meant = self.slots.iter().filter(|(_, (_, value))| is_meant(value));
        meant.map(|(_, (key, _))| self.keys.whole(key)).collect()
    }

    fn find(&self, hash: u32, key: &ResourceKey) -> Option<u32> {
        let is = |id| self.slots.get(id).is_some_and(|(known, _)| self.keys.is(known, key));
        self.ids.find(hash, is)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;

    use proptest::prelude::*;

    use super::*;
    use crate::resource::Kind;

    /// Keys that differ in one part only.
    fn key(number: u8) -> ResourceKey {
        let kind = if number & 1 == 0 { Kind::WorkloadEndpoint } else { Kind::NetworkSet };
        let name = format!("n{}", number >> 1 & 1);
        match number >> 2 & 3 {
            0 => ResourceKey::cluster(kind, &name),
            3 => ResourceKey::Handle(format!("{number}").into()),
            namespace => ResourceKey::namespaced(kind, &format!("s{namespace}"), &name),
        }
    }

    proptest! {
        #[test]
        fn is_what_a_tree_is(steps in prop::collection::vec((0..16u8, any::<Option<u8>>()), 0..60)) {
            let (mut map, mut twin) = (KeyMap::default(), BTreeMap::new());
            for (number, value) in steps {
                match value {
                    Some(value) => prop_assert_eq!(map.insert(&key(number), value), twin.insert(key(number), value)),
                    None => prop_assert_eq!(map.remove(&key(number)), twin.remove(&key(number))),
                }
                for number in 0..16 {
                    prop_assert_eq!(map.get(&key(number)), twin.get(&key(number)));
                }
                let mut large = map.keys_where(|value| *value > 99);
                large.sort();
                let expected = twin.iter().filter(|(_, value)| **value > 99).map(|(key, _)| key.clone());
                prop_assert_eq!(large, expected.collect::<Vec<_>>());
            }
            for key in twin.keys() {
                map.remove(key);
            }
            prop_assert_eq!(map.keys.held(), (0, 0), "a part of a key is held for ever");
        }
    }
}
