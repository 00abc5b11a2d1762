//! Values that are found by what they say, each held once and counted.

use core::hash::{BuildHasher as _, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::slab::Slab;

/// What a value says, as bytes or otherwise.
pub(crate) trait Content {
    /// What is compared.
    type Said: Hash + Eq + ?Sized;
    /// Where that stands, if not in the value itself.
    type Room: Default;

    /// It.
    fn said<'a>(&'a self, room: &'a Self::Room) -> &'a Self::Said;

    /// How many hold it.
    fn references(&mut self) -> &mut u32;
}

/// The values.
#[derive(Debug)]
pub(crate) struct Store<T: Content> {
    slab: Slab<T>,
    keys: Keys,
    room: T::Room,
}

impl<T: Content> Default for Store<T> {
    fn default() -> Self {
        Self { slab: Slab::default(), keys: Keys::default(), room: T::Room::default() }
    }
}

impl<T: Content> Store<T> {
    /// The key of what says that, held once more, and whether `make` had to make it.
    pub(crate) fn acquire(&mut self, said: &T::Said, make: impl FnOnce() -> T) -> (u32, bool) {
        self.acquire_in_room(said, |_| make())
    }

    /// The same of what stands in the room.
    pub(crate) fn acquire_in_room(&mut self, said: &T::Said, make: impl FnOnce(&mut T::Room) -> T) -> (u32, bool) {
        let hash = self.keys.hash(said);
        let found = self.find_by_hash(hash, said);
        let (key, new) = match found {
            Some(key) => (key, false),
            None => {
                let key = self.slab.insert(make(&mut self.room));
                let Self { slab, keys, room } = self;
                keys.insert(hash, key, |key| slab.get(key).map(|value| value.said(room)));
                (key, true)
            }
        };
        self.retain(key);
        (key, new)
    }

    /// The key of what says that.
    pub(crate) fn find(&self, said: &T::Said) -> Option<u32> {
        self.find_by_hash(self.keys.hash(said), said)
    }

    fn find_by_hash(&self, hash: u64, said: &T::Said) -> Option<u32> {
        self.keys.find(hash, |key| self.slab.get(key).is_some_and(|value| value.said(&self.room) == said))
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
        self.keys.remove(self.keys.hash(value.said(&self.room)), key);
        self.slab.remove(key)
    }

    /// Where what values say stands.
    pub(crate) const fn room(&self) -> &T::Room {
        &self.room
    }

    pub(crate) const fn room_mut(&mut self) -> &mut T::Room {
        &mut self.room
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

/// Integers by the hash of what they stand for. Nothing else is held: who has a table grow shows again what they stand for.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Keys {
    /// The hash of something.
    pub(crate) fn hash(&self, said: &(impl Hash + ?Sized)) -> u64 {
        self.hasher.hash_one(said)
    }

    /// The integer of that hash that stands for what is meant.
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.table.find(hash, |key| is(*key)).copied()
    }

    /// Adds one that is not there; `said` is to show what each of the others stands for.
    pub(crate) fn insert<'a, T: Hash + ?Sized + 'a>(
        &mut self,
        hash: u64,
        key: u32,
        said: impl Fn(u32) -> Option<&'a T>,
    ) {
        let Self { table, hasher } = self;
        table.insert_unique(hash, key, |key| said(*key).map_or(0, |said| hasher.hash_one(said)));
    }

    pub(crate) fn remove(&mut self, hash: u64, key: u32) {
        if let Ok(found) = self.table.find_entry(hash, |entry| *entry == key) {
            found.remove();
        }
    }
}

/// Declares that a type says what one of its fields holds.
macro_rules! says {
    ($type:ty, $field:ident: $said:ty) => {
        impl Content for $type {
            type Said = $said;
            type Room = ();

            fn said<'a>(&'a self, (): &'a ()) -> &'a Self::Said {
                &self.$field
            }

            fn references(&mut self) -> &mut u32 {
                &mut self.references
            }
        }
    };
}
pub(crate) use says;
