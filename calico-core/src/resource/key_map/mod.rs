//! Small values by the key of a stored object, for who has a quarter of a million of them.
//!
//! Keys stand in order, in blocks, each as far as it is not like the one before it: a key and its value take some thirty bytes, where a
//! hash map that holds keys takes over a hundred. A search looks at a few blocks' first keys and goes through one block: a microsecond,
//! or less for who asks in order. Nothing of a caller's is held on to.

mod block;
mod names;
mod packed;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::ResourceKey;
use crate::label::runs::Runs;
use block::{Block, Gap, View};
use names::Names;
pub use packed::Packed;

/// The values.
#[derive(Debug)]
pub struct KeyMap<V> {
    names: Names,
    /// In order, none empty.
    blocks: Vec<Block>,
    /// Where they stand.
    runs: Runs,
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
            runs: Runs::default(),
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
                    self.set(block, at, &value);
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
            Some(true) => {
                let block = self.block_of(&bytes);
                self.value((block, self.search(block, &bytes)))
            }
        }
    }

    /// The keys whose values are meant, in no order that means anything.
    pub fn keys_where(&self, mut is_meant: impl FnMut(V) -> bool) -> Vec<ResourceKey> {
        let meant = self.others.iter().filter(|(_, value)| is_meant(**value)).map(|(key, _)| key.clone());
        let mut keys: Vec<ResourceKey> = meant.collect();
        // One namespace's keys lie together, and share its name.
        let mut namespace: Option<Arc<str>> = None;
        for block in &self.blocks {
            self.view(block).for_each(|bytes, value| {
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
        for block in &mut self.blocks {
            let changed = block.view(&self.runs).changed(&mut change);
            block.put(&changed, &mut self.runs);
        }
    }

    fn view(&self, block: &Block) -> View<'_, V> {
        block.view(&self.runs)
    }

    fn value(&self, place: Place) -> Option<V> {
        self.view(self.blocks.get(place.0)?).value(place.1.ok()?)
    }

    fn place(&mut self, bytes: &[u8]) -> Place {
        let begins_behind = |block: &Block| self.view(block).first() > bytes;
        let is_last = self.blocks.get(self.last).is_some_and(|block| !begins_behind(block))
            && self.blocks.get(self.last + 1).is_none_or(begins_behind);
        if !is_last {
            self.last = self.block_of(bytes);
        }
        (self.last, self.search(self.last, bytes))
    }

    fn search(&self, block: usize, bytes: &[u8]) -> Result<usize, Gap> {
        self.blocks.get(block).map_or_else(|| Err(Gap::default()), |block| self.view(block).search(bytes))
    }

    /// The block in which a key is, if it is anywhere.
    fn block_of(&self, bytes: &[u8]) -> usize {
        self.blocks.partition_point(|block| self.view(block).first() <= bytes).saturating_sub(1)
    }

    fn put(&mut self, at: usize, gap: Gap, bytes: &[u8], value: &V) {
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let Some(block) = self.blocks.get_mut(at) else { return };
        let edit = block.view(&self.runs).insert(gap, bytes, value);
        block.edit(&edit, &mut self.runs);
        if let Some((before, behind)) = block.view::<V>(&self.runs).halves() {
            block.put(&before, &mut self.runs);
            self.blocks.insert(at + 1, Block::new(&behind, &mut self.runs));
        }
    }

    fn set(&mut self, at: usize, place: usize, value: &V) {
        let Some(block) = self.blocks.get_mut(at) else { return };
        if let Some(edit) = block.view(&self.runs).set(place, value) {
            block.edit(&edit, &mut self.runs);
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Option<V> {
        let (at, Ok(place)) = self.place(bytes) else { return None };
        let block = self.blocks.get_mut(at)?;
        let (value, edit) = block.view::<V>(&self.runs).remove(place)?;
        block.edit(&edit, &mut self.runs);
        if block.is_empty() {
            self.blocks.remove(at);
        }
        self.names.release(bytes);
        Some(value)
    }

    /// What is held of keys: blocks, their bytes, names.
    #[cfg(test)]
    pub(crate) fn held(&self) -> [usize; 4] {
        let rooms: usize = self.blocks.iter().map(Block::room).sum();
        assert_eq!(rooms, self.runs.held(), "room that is no block's");
        [self.blocks.len(), rooms, self.names.held(), self.others.len()]
    }
}

#[cfg(test)]
mod tests;
