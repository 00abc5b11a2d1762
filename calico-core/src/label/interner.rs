//! One copy of each string, counted, under a small integer.

use alloc::sync::Arc;

use super::store::{Content, Store, says};

/// An interned string. Equal strings of one interner have equal symbols while any of them is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Symbol(u32);

impl Symbol {
    /// No symbol of an interner: a string that none needs to know.
    pub(super) const OTHER: Self = Self(u32::MAX);

    pub(super) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u32 {
        self.0
    }
}

/// The strings.
#[derive(Debug, Default)]
pub(super) struct Interner(Store<Entry>);

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    references: u32,
}

says!(Entry, text: str);

impl Interner {
    /// The symbol of a string, held once more.
    pub(super) fn acquire(&mut self, text: &str) -> Symbol {
        Symbol(self.0.acquire(text, || Entry { text: text.into(), references: 0 }).0)
    }

    /// The same of a string that its owner shares: it is not copied.
    pub(super) fn acquire_shared(&mut self, text: &Arc<str>) -> Symbol {
        Symbol(self.0.acquire(text, || Entry { text: text.clone(), references: 0 }).0)
    }

    /// The symbol of a string that somebody holds.
    pub(super) fn find(&self, text: &str) -> Option<Symbol> {
        self.0.find(text).map(Symbol)
    }

    /// Holds a symbol once more.
    pub(super) fn retain(&mut self, symbol: Symbol) {
        self.0.retain(symbol.0);
    }

    /// Gives one hold up; the last one forgets the string.
    pub(super) fn release(&mut self, symbol: Symbol) {
        self.0.release(symbol.0);
    }

    /// The string.
    pub(super) fn text(&self, symbol: Symbol) -> &str {
        self.0.get(symbol.0).map_or("", |entry| &entry.text)
    }

    /// How many strings are held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().count()
    }
}
