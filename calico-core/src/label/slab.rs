//! Values under dense integer keys that are used again after removal.

use alloc::vec::Vec;

/// Slots are allocated so many at a time: growing moves nothing, and what is allocated beyond need is little of a large slab.
const CHUNK: usize = 1024;

/// Slots that are empty or hold a value.
#[derive(Debug)]
pub(crate) struct Slots<T>(Vec<Vec<Option<T>>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Slots<T> {
    /// Puts a value into a slot.
    pub(crate) fn put(&mut self, key: u32, value: T) {
        let (chunk, at) = place(key);
        while self.0.len() <= chunk {
            // The first chunk grows by need: most are small.
            self.0.push(if self.0.is_empty() { Vec::new() } else { Vec::with_capacity(CHUNK) });
        }
        let Some(chunk) = self.0.get_mut(chunk) else { return };
        if chunk.len() <= at {
            chunk.resize_with(at + 1, || None);
        }
        if let Some(slot) = chunk.get_mut(at) {
            *slot = Some(value);
        }
    }

    /// Empties a slot.
    pub(crate) fn take(&mut self, key: u32) -> Option<T> {
        let (chunk, at) = place(key);
        self.0.get_mut(chunk)?.get_mut(at)?.take()
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        let (chunk, at) = place(key);
        self.0.get(chunk)?.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let (chunk, at) = place(key);
        self.0.get_mut(chunk)?.get_mut(at)?.as_mut()
    }

    /// Full slots with their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let chunks = self.0.iter().zip((0..).step_by(CHUNK));
        let slots = chunks.flat_map(|(chunk, first)| (first..).zip(chunk));
        slots.filter_map(|(key, slot)| Some((key, slot.as_ref()?)))
    }
}

const fn place(key: u32) -> (usize, usize) {
    (key as usize / CHUNK, key as usize % CHUNK)
}

/// Values that are given a key each.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Slots<T>,
    free: Vec<u32>,
    /// No slot from here on was ever used.
    end: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Slots::default(), free: Vec::new(), end: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let key = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        self.slots.put(key, value);
        key
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.slots.take(key)?;
        self.free.push(key);
        Some(value)
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.slots.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.slots.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn keys_find_their_values_across_chunks_and_are_used_again() {
        let mut slab = Slab::default();
        let mut twin = BTreeMap::new();
        for value in 0..3000_u32 {
            assert!(twin.insert(slab.insert(value), value).is_none(), "the key is given twice");
        }
        for key in (0..3000).filter(|key| key % 3 == 0) {
            assert_eq!(slab.remove(key), twin.remove(&key));
            assert_eq!(slab.remove(key), None);
        }
        for value in 3000..3500 {
            assert!(twin.insert(slab.insert(value), value).is_none(), "the key is given twice");
        }
        assert!(twin.keys().all(|key| *key < 3000), "a new key while old ones are free");
        assert_eq!(slab.iter().map(|(key, value)| (key, *value)).collect::<BTreeMap<_, _>>(), twin);
        assert_eq!(slab.get(4000), None);
    }
}
