//! What selectors can see of labels: names that they use, and of their values those that they mention.
//!
//! Of two hundred thousand label sets a few dozen are left, whatever else pods are labelled with. The projection of a label set changes
//! when selectors begin to use a name or to mention a value that it has; that they cease to is left alone until then.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::interner::Symbol;
use super::key_index::KeyIndex;
use super::raw;
use super::store::{Content, Store, says};
use super::strings::{Label, Strings};

/// Not worked out yet.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// One projection.
#[derive(Debug)]
pub(super) struct Projection {
    /// Sorted by name; holds its strings.
    labels: Box<[Label]>,
    references: u32,
}

says!(Projection, labels: [Label]);

/// All projections, found by what they say.
#[derive(Debug, Default)]
pub(super) struct Projections {
    store: Store<Projection>,
    scratch: Vec<Label>,
}

impl Projections {
    /// The projection of raw labels, held once more.
    pub(super) fn project(&mut self, raw: &[u8], names: &KeyIndex, strings: &mut Strings) -> u32 {
        let mut labels = mem::take(&mut self.scratch);
        labels.extend(raw::read(raw).filter_map(|(name, value)| Some((name, names.see(name, value, strings)?))));
        let key = self.intern(&mut labels, strings);
        // Whoever saw them held them until here.
        labels.drain(..).for_each(|(_, value)| strings.values.release(value));
        self.scratch = labels;
        key
    }

    /// What several hand down together, held once more: of each name the label of the first that has it.
    pub(super) fn merge(&mut self, layers: impl IntoIterator<Item = u32>, strings: &mut Strings) -> u32 {
        let mut labels = mem::take(&mut self.scratch);
        for layer in layers {
            let before = labels.len();
            for label in self.labels(layer) {
                if !labels.iter().take(before).any(|(name, _)| *name == label.0) {
                    labels.push(*label);
                }
            }
        }
        let key = self.intern(&mut labels, strings);
        labels.clear();
        self.scratch = labels;
        key
    }

    /// Labels of a projection; none where it is not known.
    pub(super) fn labels(&self, key: u32) -> &[Label] {
        self.store.get(key).map_or(&[], |projection| &projection.labels)
    }

    pub(super) fn retain(&mut self, key: u32) {
        self.store.retain(key);
    }

    pub(super) fn release(&mut self, key: u32, strings: &mut Strings) {
        let last = self.store.release(key);
        last.iter().flat_map(|projection| &projection.labels).for_each(|label| strings.release(*label));
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.store.iter().count()
    }

    fn intern(&mut self, labels: &mut [Label], strings: &mut Strings) -> u32 {
        labels.sort_unstable();
        let (key, new) = self.store.acquire(labels, || Projection { labels: (*labels).into(), references: 0 });
        if new {
            labels.iter().for_each(|label| strings.retain(*label));
        }
        key
    }
}

/// Labels of an item: its own projection, then that of its kin.
pub(super) fn overlay(own: &[Label], kin: &[Label], out: &mut Vec<Label>) {
    out.clear();
    out.extend_from_slice(own);
    out.extend(kin.iter().filter(|label| value_of(own, label.0).is_none()));
    out.sort_unstable();
}

/// The value of a label.
pub(super) fn value_of(labels: &[Label], name: Symbol) -> Option<Symbol> {
    let position = labels.binary_search_by_key(&name, |label| label.0).ok()?;
    labels.get(position).map(|label| label.1)
}
