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
                self.keys.insert(hash, key);
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

    fn find_by_hash(&self, hash: u32, said: &T::Said) -> Option<u32> {
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

/// Integers by the hash of what they stand for. The hash is kept beside them: to grow, the table need not look at that again.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    table: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

impl Keys {
    /// The hash of something.
    #[expect(clippy::cast_possible_truncation, reason = "a part of a hash is one")]
    pub(crate) fn hash(&self, said: &(impl Hash + ?Sized)) -> u32 {
        self.hasher.hash_one(said) as u32
    }

    /// The integer of that hash that stands for what is meant.
    pub(crate) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.table.find(spread(hash), |entry| entry.0 == hash && is(entry.1)).map(|entry| entry.1)
    }

    /// Adds one that is not there.
    pub(crate) fn insert(&mut self, hash: u32, key: u32) {
        self.table.insert_unique(spread(hash), (hash, key), |entry| spread(entry.0));
    }

    pub(crate) fn remove(&mut self, hash: u32, key: u32) {
        if let Ok(found) = self.table.find_entry(spread(hash), |entry| *entry == (hash, key)) {
            found.remove();
        }
    }
}

/// The table takes its lowest bits for the place and its highest to tell entries apart.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
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
