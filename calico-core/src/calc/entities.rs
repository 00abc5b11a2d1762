//! Contributions under the label index's dense integers, found by resource key: of all endpoints and network sets of the cluster.
//!
//! Nobody asks for a key, so it is kept only as far as it takes to know it again.

use super::contribution::Contribution;
use crate::label::slab::Slots;
use crate::resource::ResourceKey;
use crate::resource::key_ids::KeyIds;
pub(super) use crate::resource::key_ids::Vacant;
use crate::resource::short_key::ShortKey;

/// The contributions.
#[derive(Debug, Default)]
pub(super) struct Entities {
    slots: Slots<(ShortKey, Contribution)>,
    ids: KeyIds,
}

impl Entities {
    /// The integer of a key, or where it would go.
    pub(super) fn find(&self, key: &ResourceKey) -> Result<u32, Vacant> {
        self.ids.find(key, |id| self.slots.get(id).map(|(known, _)| known))
    }

    /// Puts a contribution in under an integer that is free.
    pub(super) fn insert(&mut self, place: Vacant, id: u32, key: &ResourceKey, contribution: Contribution) {
        self.ids.insert(place, id);
        let key = self.ids.keep(key);
        self.slots.put(id, (key, contribution));
    }

    /// Takes the one of a key out, whose integer that is.
    pub(super) fn remove(&mut self, id: u32, key: &ResourceKey) {
        let known = self.slots.take(id).map(|(known, _)| known);
        self.ids.remove(id, key, known.as_ref());
    }

    /// All of them, and a way to their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (impl Fn() -> ResourceKey, &Contribution)> {
        self.slots.iter().map(move |(_, (key, contribution))| (move || self.ids.whole(key), contribution))
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
    use crate::resource::key_ids::tests::key;

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
            prop_assert_eq!(entities.ids.held(), (0, 0), "a part of a key is held for ever");
        }
    }
}
