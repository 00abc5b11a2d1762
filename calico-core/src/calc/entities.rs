//! Contributions under the label index's dense integers, found by resource key: of all endpoints and network sets of the cluster.
//!
//! Nobody asks for a key, so it is kept only as far as it takes to know it again.

use super::contribution::Contribution;
use crate::label::slab::Slots;
use crate::label::store::Keys;
use crate::resource::ResourceKey;
use crate::resource::short_key::{ShortKey, ShortKeys};

/// The contributions.
#[derive(Debug, Default)]
pub(super) struct Entities {
    slots: Slots<(ShortKey, Contribution)>,
    ids: Keys,
    keys: ShortKeys,
}

/// That a key is not there.
#[derive(Debug)]
pub(super) struct Vacant(u32);

impl Entities {
    /// The integer of a key, or where it would go.
    pub(super) fn find(&self, key: &ResourceKey) -> Result<u32, Vacant> {
        let hash = self.ids.hash(key);
        let is = |id| self.slots.get(id).is_some_and(|(known, _)| self.keys.is(known, key));
        self.ids.find(hash, is).ok_or(Vacant(hash))
    }

    /// Puts a contribution in under an integer that is free.
    pub(super) fn insert(&mut self, place: Vacant, id: u32, key: &ResourceKey, contribution: Contribution) {
        self.ids.insert(place.0, id);
        let key = self.keys.keep(key);
        self.slots.put(id, (key, contribution));
    }

    /// Takes the one of a key out, whose integer that is.
    pub(super) fn remove(&mut self, id: u32, key: &ResourceKey) {
        self.ids.remove(self.ids.hash(key), id);
        if let Some((key, _)) = self.slots.take(id) {
            self.keys.forget(&key);
        }
    }

    /// All of them, and a way to their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (impl Fn() -> ResourceKey, &Contribution)> {
        self.slots.iter().map(move |(_, (key, contribution))| (move || self.keys.whole(key), contribution))
    }

    pub(super) fn get(&self, id: u32) -> Option<&Contribution> {
        self.slots.get(id).map(|(_, contribution)| contribution)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Contribution> {
        self.slots.get_mut(id).map(|(_, contribution)| contribution)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;

    use proptest::prelude::*;

    use super::super::contribution::PortsKey;
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
            prop_assert_eq!(entities.keys.held(), (0, 0), "a part of a key is held for ever");
        }
    }
}
