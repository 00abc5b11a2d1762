//! The inverted index: by label name and value, the classes that have it and the selectors that demand it.
//!
//! A name is indexed only while a selector is anchored at it.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::compiled::{Anchor, Labels};
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
    /// Selectors that demand a value.
    selectors: HashMap<Symbol, IdSet>,
    /// Classes by value.
    classes: HashMap<Symbol, IdSet>,
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
        let Some(name) = anchor.name() else { return };
        let entry = self.names.entry(name).or_default();
        entry.references += 1;
        if entry.references == 1 {
            self.incomplete.push(name);
        }
    }

    /// Whether some name still lacks its classes.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Posts a class under the names that lack their classes.
    pub(super) fn complete_with(&mut self, class: u32, labels: &Labels) {
        self.post_where(class, labels, |name| !name.complete);
    }

    /// Every class has been posted.
    pub(super) fn completed(&mut self) {
        for name in self.incomplete.drain(..) {
            if let Some(entry) = self.names.get_mut(&name) {
                entry.complete = true;
            }
        }
    }

    /// Posts a class under the names that have theirs.
    pub(super) fn post(&mut self, class: u32, labels: &Labels) {
        self.post_where(class, labels, |name| name.complete);
    }

    fn post_where(&mut self, class: u32, labels: &Labels, wanted: impl Fn(&Name) -> bool) {
        for (name, value) in labels {
            if let Some(entry) = self.names.get_mut(name).filter(|entry| wanted(entry)) {
                entry.classes.entry(*value).or_default().insert(class);
            }
        }
    }

    pub(super) fn unpost(&mut self, class: u32, labels: &Labels) {
        for (name, value) in labels {
            let Some(entry) = self.names.get_mut(name) else { continue };
            remove_from(&mut entry.classes, *value, class);
        }
    }

    /// Lets class changes find the selector from now on.
    pub(super) fn add_selector(&mut self, selector: u32, anchor: &Anchor) {
        if *anchor == Anchor::None {
            self.unanchored.insert(selector);
        }
        let Some(entry) = anchor.name().and_then(|name| self.names.get_mut(&name)) else { return };
        if matches!(anchor, Anchor::Present(_)) {
            entry.present.insert(selector);
        }
        for value in anchor.values() {
            entry.selectors.entry(*value).or_default().insert(selector);
        }
    }

    /// Undoes [`Self::reserve`] and [`Self::add_selector`].
    pub(super) fn remove_selector(&mut self, selector: u32, anchor: &Anchor) {
        self.unanchored.remove(selector);
        let Some(name) = anchor.name() else { return };
        let Some(entry) = self.names.get_mut(&name) else { return };
        entry.present.remove(selector);
        for value in anchor.values() {
            remove_from(&mut entry.selectors, *value, selector);
        }
        entry.references -= 1;
        if entry.references == 0 {
            // It may stay in `incomplete`: completing a name that is gone does nothing.
            self.names.remove(&name);
        }
    }

    /// Selectors that labels may satisfy.
    pub(super) fn selectors_for(&self, labels: &Labels, out: &mut Vec<u32>) {
        out.clear();
        out.extend(self.unanchored.iter());
        for (name, value) in labels {
            let Some(entry) = self.names.get(name) else { continue };
            out.extend(entry.present.iter());
            out.extend(entry.selectors.get(value).into_iter().flat_map(IdSet::iter));
        }
    }

    /// Classes that may satisfy an anchor; `None` means any.
    pub(super) fn classes_for(&self, anchor: &Anchor) -> Option<Vec<u32>> {
        if *anchor == Anchor::None {
            return None;
        }
        let Some(entry) = anchor.name().and_then(|name| self.names.get(&name)) else { return Some(Vec::new()) };
        Some(match anchor {
            Anchor::Present(_) => entry.classes.values().flat_map(IdSet::iter).collect(),
            anchor => {
                anchor.values().iter().filter_map(|value| entry.classes.get(value)).flat_map(IdSet::iter).collect()
            }
        })
    }
}

fn remove_from(map: &mut HashMap<Symbol, IdSet>, value: Symbol, id: u32) {
    let Some(ids) = map.get_mut(&value) else { return };
    ids.remove(id);
    if ids.is_empty() {
        map.remove(&value);
    }
}
