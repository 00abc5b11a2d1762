//! The inverted index: by label name and value, the classes that have it and the selectors that demand it.
//!
//! A name is indexed only while a selector is anchored at it.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::compiled::{Anchor, Pairs};
use super::id_set::IdSet;
use super::interner::Symbol;

/// What is known of one label name.
#[derive(Debug, Default)]
struct Name {
    /// Selectors anchored here; the name leaves the index with the last.
    references: u32,
    /// Whether all classes have been posted under it.
    complete: bool,
    /// Selectors that demand the name, whatever its value.
    present: IdSet,
    by_value: HashMap<Symbol, Value>,
}

#[derive(Debug, Default)]
struct Value {
    selectors: IdSet,
    classes: IdSet,
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct KeyIndex {
    names: HashMap<Symbol, Name>,
    /// Selectors without an anchor: candidates for every class.
    unanchored: IdSet,
    incomplete: Vec<Symbol>,
}

impl KeyIndex {
    /// Makes room for a selector; its name must be completed before the selector can be looked up.
    pub(super) fn reserve(&mut self, anchor: &Anchor) {
        let (Anchor::Values(name, _) | Anchor::Present(name)) = anchor else { return };
        let entry = self.names.entry(*name).or_default();
        entry.references += 1;
        if entry.references == 1 {
            self.incomplete.push(*name);
        }
    }

    /// Whether some name still lacks its classes.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Posts a class under the names that lack their classes.
    pub(super) fn complete_with(&mut self, class: u32, pairs: &Pairs) {
        for (name, value) in pairs {
            if let Some(entry) = self.names.get_mut(name).filter(|entry| !entry.complete) {
                entry.by_value.entry(*value).or_default().classes.insert(class);
            }
        }
    }

    /// Every class has been posted.
    pub(super) fn completed(&mut self) {
        for name in self.incomplete.drain(..) {
            if let Some(entry) = self.names.get_mut(&name) {
                entry.complete = true;
            }
        }
    }

    pub(super) fn post(&mut self, class: u32, pairs: &Pairs) {
        for (name, value) in pairs {
            if let Some(entry) = self.names.get_mut(name).filter(|entry| entry.complete) {
                entry.by_value.entry(*value).or_default().classes.insert(class);
            }
        }
    }

    pub(super) fn unpost(&mut self, class: u32, pairs: &Pairs) {
        for (name, value) in pairs {
            let Some(entry) = self.names.get_mut(name) else { continue };
            let Some(posted) = entry.by_value.get_mut(value) else { continue };
            posted.classes.remove(class);
            if posted.classes.is_empty() && posted.selectors.is_empty() {
                entry.by_value.remove(value);
            }
        }
    }

    /// Lets class changes find the selector from now on.
    pub(super) fn add_selector(&mut self, selector: u32, anchor: &Anchor) {
        match anchor {
            Anchor::Values(name, values) => {
                let Some(entry) = self.names.get_mut(name) else { return };
                for value in values {
                    entry.by_value.entry(*value).or_default().selectors.insert(selector);
                }
            }
            Anchor::Present(name) => {
                if let Some(entry) = self.names.get_mut(name) {
                    entry.present.insert(selector);
                }
            }
            Anchor::None => {
                self.unanchored.insert(selector);
            }
            Anchor::Never => {}
        }
    }

    /// Undoes [`Self::reserve`] and [`Self::add_selector`].
    pub(super) fn remove_selector(&mut self, selector: u32, anchor: &Anchor) {
        self.unanchored.remove(selector);
        let (Anchor::Values(name, _) | Anchor::Present(name)) = anchor else { return };
        let Some(entry) = self.names.get_mut(name) else { return };
        entry.present.remove(selector);
        if let Anchor::Values(_, values) = anchor {
            for value in values {
                let Some(posted) = entry.by_value.get_mut(value) else { continue };
                posted.selectors.remove(selector);
                if posted.classes.is_empty() && posted.selectors.is_empty() {
                    entry.by_value.remove(value);
                }
            }
        }
        entry.references -= 1;
        if entry.references == 0 {
            self.names.remove(name);
            self.incomplete.retain(|other| other != name);
        }
    }

    /// Selectors that labels may satisfy.
    pub(super) fn selectors_for(&self, pairs: &Pairs, out: &mut Vec<u32>) {
        out.clear();
        out.extend(self.unanchored.iter());
        for (name, value) in pairs {
            let Some(entry) = self.names.get(name) else { continue };
            out.extend(entry.present.iter());
            if let Some(posted) = entry.by_value.get(value) {
                out.extend(posted.selectors.iter());
            }
        }
    }

    /// Classes that may satisfy an anchor; `None` means any.
    pub(super) fn classes_for(&self, anchor: &Anchor) -> Option<Vec<u32>> {
        let classes = |value: &Value| value.classes.iter().collect::<Vec<_>>();
        match anchor {
            Anchor::None => None,
            Anchor::Never => Some(Vec::new()),
            Anchor::Values(name, values) => {
                let entry = self.names.get(name);
                let posted = values.iter().filter_map(|value| entry?.by_value.get(value));
                Some(posted.flat_map(classes).collect())
            }
            Anchor::Present(name) => {
                let entry = self.names.get(name);
                Some(entry.into_iter().flat_map(|entry| entry.by_value.values()).flat_map(classes).collect())
            }
        }
    }
}
