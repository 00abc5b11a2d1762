//! Small values by the key of a stored object, for who has a quarter of a million of them.
//!
//! Keys stand in order, in blocks, each as far as it is not like the one before it: a key and its value take some twenty bytes, where a
//! hash map that holds keys takes over a hundred. A search looks at a few blocks' first keys and goes through one block; who asks in order
//! mostly skips the former. Nothing of a caller's is held on to.

mod block;
mod names;
mod packed;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::ResourceKey;
use block::{Block, Gap};
use names::Names;
pub use packed::Packed;

/// The values.
#[derive(Debug)]
pub struct KeyMap<V> {
    names: Names,
    /// In order, none empty.
    blocks: Vec<Block<V>>,
    /// Those whose keys have no name.
    others: BTreeMap<ResourceKey, V>,
    /// The block that was found last.
    last: usize,
    scratch: Vec<u8>,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self {
            names: Names::default(),
            blocks: Vec::new(),
            others: BTreeMap::new(),
            last: 0,
            scratch: Vec::new(),
        }
    }
}

/// A block, and where in it a key is or would go.
type Place = (usize, Result<usize, Gap>);

impl<V: Packed> KeyMap<V> {
    /// Puts a value under a key; answers with the one that was there.
    pub fn insert(&mut self, key: &ResourceKey, value: V) -> Option<V> {
        let mut bytes = mem::take(&mut self.scratch);
        let former = if self.names.acquire(key, &mut bytes) {
            let place = self.place(&bytes);
            let former = self.value(place);
            match place {
                (block, Ok(at)) => {
                    self.names.release(&bytes);
                    self.blocks.get_mut(block).into_iter().for_each(|block| block.set(at, &value));
                }
                (block, Err(gap)) => self.put(block, gap, &bytes, &value),
            }
            former
        } else {
            self.others.insert(key.clone(), value)
        };
        self.scratch = bytes;
        former
    }

    /// The value of a key, made where there is none; says whether it was.
    pub fn get_or_insert_with(&mut self, key: &ResourceKey, make: impl FnOnce() -> V) -> (V, bool) {
        let mut bytes = mem::take(&mut self.scratch);
        let found = if self.names.acquire(key, &mut bytes) {
            let place = self.place(&bytes);
            match (self.value(place), place) {
                (Some(value), _) => {
                    self.names.release(&bytes);
                    (value, false)
                }
                (None, (block, Err(gap))) => {
                    let value = make();
                    self.put(block, gap, &bytes, &value);
                    (value, true)
                }
                // What was written is read again.
                (None, (_, Ok(_))) => (make(), true),
            }
        } else {
            match self.others.get(key) {
                Some(value) => (*value, false),
                None => {
                    let value = make();
                    self.others.insert(key.clone(), value);
                    (value, true)
                }
            }
        };
        self.scratch = bytes;
        found
    }

    /// Takes a key out; answers with its value.
    pub fn remove(&mut self, key: &ResourceKey) -> Option<V> {
        let mut bytes = mem::take(&mut self.scratch);
        let value = match self.names.find(key, &mut bytes) {
            None => self.others.remove(key),
            Some(false) => None,
            Some(true) => self.take(&bytes),
        };
        self.scratch = bytes;
        value
    }

    /// The value of a key.
    pub fn get(&self, key: &ResourceKey) -> Option<V> {
        let mut bytes = Vec::new();
        match self.names.find(key, &mut bytes) {
            None => self.others.get(key).copied(),
            Some(false) => None,
            Some(true) => self.blocks.get(self.block_of(&bytes))?.get(&bytes),
        }
    }

    /// The keys whose values are meant, in no order that means anything.
    pub fn keys_where(&self, mut is_meant: impl FnMut(V) -> bool) -> Vec<ResourceKey> {
        let meant = self.others.iter().filter(|(_, value)| is_meant(**value)).map(|(key, _)| key.clone());
        let mut keys: Vec<ResourceKey> = meant.collect();
        // One namespace's keys lie together, and share its name.
        let mut namespace: Option<Arc<str>> = None;
        for block in &self.blocks {
            block.for_each(|bytes, value| {
                if is_meant(value) {
                    keys.extend(self.names.whole(bytes, &mut namespace));
                }
            });
        }
        keys
    }

    /// Changes all values.
    pub fn change_all(&mut self, mut change: impl FnMut(&mut V)) {
        self.others.values_mut().for_each(&mut change);
        self.blocks.iter_mut().for_each(|block| block.change_all(&mut change));
    }

    fn value(&self, place: Place) -> Option<V> {
        self.blocks.get(place.0)?.value(place.1.ok()?)
    }

    fn place(&mut self, bytes: &[u8]) -> Place {
        let begins_behind = |block: Option<&Block<V>>| block.is_some_and(|block| block.first() > bytes);
        let is_last = self.last < self.blocks.len()
            && !begins_behind(self.blocks.get(self.last))
            && self.blocks.get(self.last + 1).is_none_or(|next| begins_behind(Some(next)));
        if !is_last {
            self.last = self.block_of(bytes);
        }
        let gap = || Gap::default();
        (self.last, self.blocks.get(self.last).map_or_else(|| Err(gap()), |block| block.search(bytes)))
    }

    /// The block in which a key is, if it is anywhere.
    fn block_of(&self, bytes: &[u8]) -> usize {
        self.blocks.partition_point(|block| block.first() <= bytes).saturating_sub(1)
    }

    fn put(&mut self, at: usize, gap: Gap, bytes: &[u8], value: &V) {
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let Some(block) = self.blocks.get_mut(at) else { return };
        block.insert(gap, bytes, value);
        if let Some(behind) = block.split() {
            self.blocks.insert(at + 1, behind);
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Option<V> {
        let (at, Ok(place)) = self.place(bytes) else { return None };
        let block = self.blocks.get_mut(at)?;
        let value = block.remove(place);
        if block.is_empty() {
            self.blocks.remove(at);
        }
        self.names.release(bytes);
        value
    }

    /// What is held of keys: blocks, their bytes, names.
    #[cfg(test)]
    pub(crate) fn held(&self) -> [usize; 4] {
        let bytes = self.blocks.iter().map(Block::bytes).sum();
        [self.blocks.len(), bytes, self.names.held(), self.others.len()]
    }
}

#[cfg(test)]
mod tests;
