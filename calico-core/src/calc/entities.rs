//! Contributions under the label index's dense integers, found by resource key: of all endpoints and network sets of the cluster.
//!
//! Nobody asks for a key, so it is kept only as far as it takes to know it again: its namespace is held once for all.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::contribution::Contribution;
use crate::label::slab::Slots;
use crate::label::store::{Content, Keys, Store, says};
use crate::resource::{Kind, ResourceKey};

/// The contributions.
#[derive(Debug, Default)]
pub(super) struct Entities {
    slots: Slots<(Key, Contribution)>,
    ids: Keys,
    namespaces: Store<Namespace>,
}

/// That a key is not there.
#[derive(Debug)]
pub(super) struct Vacant(u32);

#[derive(Debug)]
enum Key {
    /// Its namespace is one of [`Entities::namespaces`], or [`NONE`].
    Named {
        kind: Kind,
        namespace: u32,
        name: Arc<str>,
    },
    Other(Box<ResourceKey>),
}

#[derive(Debug)]
struct Namespace {
    name: Arc<str>,
    references: u32,
}

says!(Namespace, name: str);

impl Entities {
    /// The integer of a key, or where it would go.
    pub(super) fn find(&self, key: &ResourceKey) -> Result<u32, Vacant> {
        let hash = self.ids.hash(key);
        let is = |id| self.slots.get(id).is_some_and(|(known, _)| self.is(known, key));
        self.ids.find(hash, is).ok_or(Vacant(hash))
    }

    /// Puts a contribution in under an integer that is free.
    pub(super) fn insert(&mut self, place: Vacant, id: u32, key: &ResourceKey, contribution: Contribution) {
        self.ids.insert(place.0, id);
        let key = match key {
            ResourceKey::Named { kind, namespace, name } => {
                let namespace = namespace.as_ref().map_or(NONE, |name| {
                    self.namespaces.acquire(name, || Namespace { name: name.clone(), references: 0 }).0
                });
                Key::Named { kind: *kind, namespace, name: name.clone() }
            }
            other => Key::Other(Box::new(other.clone())),
        };
        self.slots.put(id, (key, contribution));
    }

    /// Takes the one of a key out, whose integer that is.
    pub(super) fn remove(&mut self, id: u32, key: &ResourceKey) {
        self.ids.remove(self.ids.hash(key), id);
        if let Some((Key::Named { namespace, .. }, _)) = self.slots.take(id) {
            self.namespaces.release(namespace);
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&Contribution> {
        self.slots.get(id).map(|(_, contribution)| contribution)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Contribution> {
        self.slots.get_mut(id).map(|(_, contribution)| contribution)
    }

    fn is(&self, known: &Key, key: &ResourceKey) -> bool {
        match (known, key) {
            (
                Key::Named { kind, namespace, name },
                ResourceKey::Named { kind: kind_two, namespace: two, name: name_two },
            ) => {
                let namespace = self.namespaces.get(*namespace).map(|known| &known.name);
                name == name_two && kind == kind_two && namespace == two.as_ref()
            }
            (Key::Other(known), key) => **known == *key,
            _ => false,
        }
    }
}

/// No namespace: the store gives out no such key.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;

    use proptest::prelude::*;

    use super::super::contribution::PortsKey;
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
        fn are_found_by_their_whole_key(steps in prop::collection::vec((0..16u8, any::<bool>()), 0..60)) {
            let mut entities = Entities::default();
            let mut twin = BTreeMap::new();
            for (number, present) in steps {
                let (id, key) = (u32::from(number), key(number));
                let net = [format!("10.0.0.{number}/32").parse().unwrap()];
                match entities.find(&key) {
                    Err(place) if present => {
                        entities.insert(place, id, &key, Contribution::new(&net, PortsKey::NONE));
                        twin.insert(key, id);
                    }
                    Ok(_) if !present => {
                        entities.remove(id, &key);
                        twin.remove(&key);
                    }
                    _ => {}
                }
                for number in 0..16 {
                    prop_assert_eq!(entities.find(&self::key(number)).ok(), twin.get(&self::key(number)).copied());
                }
            }
            twin.iter().for_each(|(key, id)| entities.remove(*id, key));
            prop_assert_eq!(entities.namespaces.iter().count(), 0, "a namespace is held for ever");
        }
    }
}
