//! The strings of an index: names of labels and parents on one side, values that selectors mention on the other.

use super::interner::{Interner, Symbol};

/// The strings. A value that no selector mentions is nowhere but in the labels that have it ([`super::raw`]).
#[derive(Debug, Default)]
pub(super) struct Strings {
    pub(super) names: Interner,
    pub(super) values: Interner,
}

/// A label as selectors see it: its name, and its value, or [`Symbol::OTHER`] for one that none of them mentions.
pub(super) type Label = (Symbol, Symbol);

impl Strings {
    /// Holds a label once more.
    pub(super) fn retain(&mut self, (name, value): Label) {
        self.names.retain(name);
        self.values.retain(value);
    }

    /// Gives one hold of a label up. [`Symbol::OTHER`] is nobody's to hold.
    pub(super) fn release(&mut self, (name, value): Label) {
        self.names.release(name);
        self.values.release(value);
    }
}
