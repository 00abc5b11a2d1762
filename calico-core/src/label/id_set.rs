//! Sets of small integers that are mostly tiny: two in place, more in a vector, many in a hash table.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashSet;

/// As many as fit beside the tag in two words.
const FEW: usize = 2;

/// Beyond this many the vector's linear search costs more than hashing.
const MANY: usize = 32;

/// A set of integers.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "most sets are tiny, and there are very many")]
pub(crate) enum IdSet {
    Few { length: u8, ids: [u32; FEW] },
    Some(Box<Vec<u32>>),
    Many(Box<HashSet<u32>>),
}

impl Default for IdSet {
    fn default() -> Self {
        Self::Few { length: 0, ids: [0; FEW] }
    }
}

impl IdSet {
    /// Adds one; says whether it was new.
    pub(crate) fn insert(&mut self, id: u32) -> bool {
        match self {
            Self::Many(ids) => return ids.insert(id),
            listed if listed.contains(id) => return false,
            Self::Few { length, ids } => match ids.get_mut(usize::from(*length)) {
                Some(slot) => {
                    *slot = id;
                    *length += 1;
                }
                None => *self = Self::Some(Box::new(ids.iter().copied().chain([id]).collect())),
            },
            Self::Some(ids) if ids.len() < MANY => ids.push(id),
            Self::Some(ids) => *self = Self::Many(Box::new(ids.drain(..).chain([id]).collect())),
        }
        true
    }

    /// Removes one; says whether it was there.
    pub(crate) fn remove(&mut self, id: u32) -> bool {
        match self {
            Self::Few { length, ids } => {
                let held = ids.get_mut(..usize::from(*length)).unwrap_or_default();
                let Some(position) = held.iter().position(|other| *other == id) else { return false };
                held.swap(position, held.len() - 1);
                *length -= 1;
                true
            }
            Self::Some(ids) => {
                let position = ids.iter().position(|other| *other == id);
                position.map(|position| ids.swap_remove(position)).is_some()
            }
            Self::Many(ids) => ids.remove(&id),
        }
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        match self {
            Self::Many(ids) => ids.contains(&id),
            listed => listed.listed().contains(&id),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Many(ids) => ids.is_empty(),
            listed => listed.listed().is_empty(),
        }
    }

    /// The members, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let many = match self {
            Self::Many(ids) => Some(ids.iter()),
            _ => None,
        };
        self.listed().iter().chain(many.into_iter().flatten()).copied()
    }

    fn listed(&self) -> &[u32] {
        match self {
            Self::Few { length, ids } => ids.get(..usize::from(*length)).unwrap_or_default(),
            Self::Some(ids) => ids,
            Self::Many(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_set_at_every_size(steps in prop::collection::vec((0..60u32, 0..4u8), 0..300)) {
            let mut set = IdSet::default();
            let mut twin = BTreeSet::new();
            for (id, step) in steps {
                // Mostly growing, so that every form is reached.
                if step == 0 {
                    prop_assert_eq!(set.remove(id), twin.remove(&id));
                } else {
                    prop_assert_eq!(set.insert(id), twin.insert(id));
                }
                prop_assert_eq!(set.is_empty(), twin.is_empty());
                prop_assert_eq!(set.contains(id), twin.contains(&id));
                let mut listed: Vec<u32> = set.iter().collect();
                listed.sort_unstable();
                prop_assert_eq!(listed, twin.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
