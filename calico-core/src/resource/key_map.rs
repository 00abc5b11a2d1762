//! Values by the key of a stored object, for who has a quarter of a million of them.
//!
//! A key is kept only as far as it takes to know it again: its name is the caller's, and its namespace is held once for all. What is
//! allocated beyond need is little, and to grow moves integers only; a hash map of keys takes more than twice as much.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Kind, ResourceKey};
use crate::label::slab::Slab;
use crate::label::store::{Content, Keys, Store, says};

/// The values.
#[derive(Debug)]
pub struct KeyMap<V> {
    slots: Slab<(Key, V)>,
    ids: Keys,
    namespaces: Namespaces,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { slots: Slab::default(), ids: Keys::default(), namespaces: Namespaces::default() }
    }
}

impl<V> KeyMap<V> {
    /// Puts a value under a key; answers with the one that was there.
    pub fn insert(&mut self, key: &ResourceKey, value: V) -> Option<V> {
        let hash = self.ids.hash(key);
        if let Some(id) = self.find(hash, key) {
            return self.slots.get_mut(id).map(|(_, known)| core::mem::replace(known, value));
        }
        let id = self.slots.insert((self.namespaces.keep(key), value));
        self.ids.insert(hash, id);
        None
    }

    /// Takes a key out; answers with its value.
    pub fn remove(&mut self, key: &ResourceKey) -> Option<V> {
        let hash = self.ids.hash(key);
        let id = self.find(hash, key)?;
        self.ids.remove(hash, id);
        let (key, value) = self.slots.remove(id)?;
        self.namespaces.forget(&key);
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
        meant.map(|(_, (key, _))| self.namespaces.whole(key)).collect()
    }

    fn find(&self, hash: u32, key: &ResourceKey) -> Option<u32> {
        let is = |id| self.slots.get(id).is_some_and(|(known, _)| self.namespaces.is(known, key));
        self.ids.find(hash, is)
    }
}

/// A key, as far as it takes to know it again.
#[derive(Debug)]
pub(crate) enum Key {
    /// Its namespace is one of [`Namespaces`], or [`NONE`].
    Named { kind: Kind, namespace: u32, name: Arc<str> },
    /// Any other.
    Other(Box<ResourceKey>),
}

/// The namespaces of keys, each held once.
#[derive(Debug, Default)]
pub(crate) struct Namespaces(Store<Namespace>);

#[derive(Debug)]
struct Namespace {
    name: Arc<str>,
    references: u32,
}

says!(Namespace, name: str);

/// No namespace: the store gives out no such key.
const NONE: u32 = u32::MAX;

impl Namespaces {
    /// A key in short, which is to be forgotten one day.
    pub(crate) fn keep(&mut self, key: &ResourceKey) -> Key {
        match key {
            ResourceKey::Named { kind, namespace, name } => {
                let namespace = namespace
                    .as_ref()
                    .map_or(NONE, |name| self.0.acquire(name, || Namespace { name: name.clone(), references: 0 }).0);
                Key::Named { kind: *kind, namespace, name: name.clone() }
            }
            other => Key::Other(Box::new(other.clone())),
        }
    }

    /// Gives up what a key held.
    pub(crate) fn forget(&mut self, key: &Key) {
        if let Key::Named { namespace, .. } = key {
            self.0.release(*namespace);
        }
    }

    /// Whether a key in short is that one.
    pub(crate) fn is(&self, known: &Key, key: &ResourceKey) -> bool {
        match (known, key) {
            (
                Key::Named { kind, namespace, name },
                ResourceKey::Named { kind: kind_two, namespace: two, name: name_two },
            ) => name == name_two && kind == kind_two && self.name(*namespace) == two.as_ref(),
            (Key::Other(known), key) => **known == *key,
            _ => false,
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.iter().count()
    }

    fn whole(&self, key: &Key) -> ResourceKey {
        match key {
            Key::Named { kind, namespace, name } => {
                ResourceKey::Named { kind: *kind, namespace: self.name(*namespace).cloned(), name: name.clone() }
            }
            Key::Other(key) => (**key).clone(),
        }
    }

    fn name(&self, namespace: u32) -> Option<&Arc<str>> {
        self.0.get(namespace).map(|known| &known.name)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;

    use proptest::prelude::*;

    use super::*;

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
            prop_assert_eq!(map.namespaces.count(), 0, "a namespace is held for ever");
        }
    }
}
