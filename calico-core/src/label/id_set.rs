//! Sets of small integers that are mostly tiny: none or few in place, many in a hash table.

use alloc::vec::Vec;

use hashbrown::HashSet;

/// Beyond this many the vector's linear search costs more than hashing.
const MANY: usize = 32;

/// A set of integers.
#[derive(Debug)]
pub(crate) enum IdSet {
    Few(Vec<u32>),
    Many(HashSet<u32>),
}

impl Default for IdSet {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl IdSet {
    /// Adds one; says whether it was new.
    pub(crate) fn insert(&mut self, id: u32) -> bool {
        match self {
            Self::Few(ids) if ids.contains(&id) => false,
            Self::Few(ids) if ids.len() < MANY => {
                ids.push(id);
                true
            }
            Self::Few(ids) => {
                let mut many: HashSet<u32> = ids.drain(..).collect();
                many.insert(id);
                *self = Self::Many(many);
                true
            }
            Self::Many(ids) => ids.insert(id),
        }
    }

    /// Removes one; says whether it was there.
    pub(crate) fn remove(&mut self, id: u32) -> bool {
        match self {
            Self::Few(ids) => {
                let position = ids.iter().position(|other| *other == id);
                position.map(|position| ids.swap_remove(position)).is_some()
            }
            Self::Many(ids) => ids.remove(&id),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Few(ids) => ids.is_empty(),
            Self::Many(ids) => ids.is_empty(),
        }
    }

    /// The members, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let (few, many) = match self {
            Self::Few(ids) => (Some(ids), None),
            Self::Many(ids) => (None, Some(ids)),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten()).copied()
    }
}
