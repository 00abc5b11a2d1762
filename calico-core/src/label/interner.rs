//! One copy of each label name and value, counted, under a small integer.

use alloc::boxed::Box;
use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::slab::Slab;

/// An interned string. Equal strings of one interner have equal symbols while any of them is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(u32);

/// The strings.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    table: HashTable<u32>,
    entries: Slab<Entry>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Entry {
    text: Box<str>,
    references: u32,
}

impl Interner {
    /// The symbol of a string, held once more.
    pub(crate) fn acquire(&mut self, text: &str) -> Symbol {
        let hash = self.hasher.hash_one(text);
        let entries = &self.entries;
        let found = self.table.find(hash, |key| entries.get(*key).is_some_and(|entry| *entry.text == *text));
        if let Some(&key) = found {
            self.retain(Symbol(key));
            return Symbol(key);
        }
        let key = self.entries.insert(Entry { text: text.into(), references: 1 });
        let (entries, hasher) = (&self.entries, &self.hasher);
        let rehash = |key: &u32| hasher.hash_one(entries.get(*key).map_or("", |entry| &entry.text));
        self.table.insert_unique(hash, key, rehash);
        Symbol(key)
    }

    /// Holds a symbol once more.
    pub(crate) fn retain(&mut self, symbol: Symbol) {
        if let Some(entry) = self.entries.get_mut(symbol.0) {
            entry.references += 1;
        }
    }

    /// Gives one hold up; the last one forgets the string.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let Some(entry) = self.entries.get_mut(symbol.0) else { return };
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        let hash = self.hasher.hash_one(&*entry.text);
        if let Ok(found) = self.table.find_entry(hash, |key| *key == symbol.0) {
            found.remove();
        }
        self.entries.remove(symbol.0);
    }

    /// The string.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        self.entries.get(symbol.0).map_or("", |entry| &entry.text)
    }

    /// How many strings are held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
