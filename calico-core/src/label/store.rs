//! Values that are found by what they say, each held once and counted.

use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::slab::Slab;

/// What a value says, as bytes or otherwise.
pub(crate) trait Content {
    /// What is compared.
    type Said: core::hash::Hash + Eq + ?Sized;

    /// It.
    fn said(&self) -> &Self::Said;

    /// How many hold it.
    fn references(&mut self) -> &mut u32;
}

/// The values.
#[derive(Debug)]
pub(crate) struct Store<T> {
    slab: Slab<T>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { slab: Slab::default(), table: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<T: Content> Store<T> {
    /// The key of what says that, held once more, and whether `make` had to make it.
    pub(crate) fn acquire(&mut self, said: &T::Said, make: impl FnOnce() -> T) -> (u32, bool) {
        let hash = self.hasher.hash_one(said);
        let slab = &self.slab;
        let found = self.table.find(hash, |key| slab.get(*key).is_some_and(|value| value.said() == said)).copied();
        let (key, new) = match found {
            Some(key) => (key, false),
            None => {
                let key = self.slab.insert(make());
                let (slab, hasher) = (&self.slab, &self.hasher);
                let rehash = |key: &u32| slab.get(*key).map_or(0, |value| hasher.hash_one(value.said()));
                self.table.insert_unique(hash, key, rehash);
                (key, true)
            }
        };
        self.retain(key);
        (key, new)
    }

    /// The key of what says that.
    pub(crate) fn find(&self, said: &T::Said) -> Option<u32> {
        let same = |key: &u32| self.slab.get(*key).is_some_and(|value| value.said() == said);
        self.table.find(self.hasher.hash_one(said), same).copied()
    }

    /// Holds it once more.
    pub(crate) fn retain(&mut self, key: u32) {
        if let Some(value) = self.slab.get_mut(key) {
            *value.references() += 1;
        }
    }

    /// Gives one hold up; the last one gets the value.
    pub(crate) fn release(&mut self, key: u32) -> Option<T> {
        let value = self.slab.get_mut(key)?;
        *value.references() -= 1;
        if *value.references() > 0 {
            return None;
        }
        let hash = self.hasher.hash_one(value.said());
        if let Ok(found) = self.table.find_entry(hash, |other| *other == key) {
            found.remove();
        }
        self.slab.remove(key)
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.slab.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.slab.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slab.iter()
    }
}

/// Declares that a type says what one of its fields holds.
macro_rules! says {
    ($type:ty, $field:ident: $said:ty) => {
        impl Content for $type {
            type Said = $said;

            fn said(&self) -> &Self::Said {
                &self.$field
            }

            fn references(&mut self) -> &mut u32 {
                &mut self.references
            }
        }
    };
}
pub(crate) use says;
