//! Values by the key of a stored object, for who has a quarter of a million of them.
//!
//! What is allocated beyond need is little, and to grow moves integers only; a hash map of keys takes more than twice as much.

use alloc::vec::Vec;

use super::ResourceKey;
use super::key_ids::{KeyIds, Vacant};
use super::short_key::ShortKey;
use crate::label::slab::Slab;

/// The values.
#[derive(Debug)]
pub struct KeyMap<V> {
    slots: Slab<(ShortKey, V)>,
    ids: KeyIds,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { slots: Slab::default(), ids: KeyIds::default() }
    }
}

impl<V> KeyMap<V> {
    /// Puts a value under a key; answers with the one that was there.
    pub fn insert(&mut self, key: &ResourceKey, value: V) -> Option<V> {
        match self.find(key) {
            Ok(id) => self.slots.get_mut(id).map(|(_, known)| core::mem::replace(known, value)),
            Err(place) => {
                let id = self.slots.insert((self.ids.keep(key), value));
                self.ids.insert(place, id);
                None
            }
        }
    }

    /// Takes a key out; answers with its value.
    pub fn remove(&mut self, key: &ResourceKey) -> Option<V> {
        let id = self.find(key).ok()?;
        let (known, value) = self.slots.remove(id)?;
        self.ids.remove(id, key, Some(&known));
        Some(value)
    }

    /// The value of a key.
    pub fn get(&self, key: &ResourceKey) -> Option<&V> {
        let id = self.find(key).ok()?;
        self.slots.get(id).map(|(_, value)| value)
    }

    /// The keys whose values are meant, in no order.
    pub fn keys_where(&self, mut is_meant: impl FnMut(&V) -> bool) -> Vec<ResourceKey> {
        let meant = self.slots.iter().filter(|(_, (_, value))| is_meant(value));
        meant.map(|(_, (key, _))| self.ids.whole(key)).collect()
    }

    fn find(&self, key: &ResourceKey) -> Result<u32, Vacant> {
        self.ids.find(key, |id| self.slots.get(id).map(|(known, _)| known))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::resource::key_ids::tests::key;

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
            prop_assert_eq!(map.ids.held(), (0, 0), "a part of a key is held for ever");
        }
    }
}
