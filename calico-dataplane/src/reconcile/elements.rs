//! Elements of sets and maps, desired beside observed: one tracker for each set.
//!
//! There may be hundreds of thousands, and names of sets begin alike: within its set, an element is found by its key alone. Invariant: a
//! set is pending exactly when one of its elements is, so asking costs O(pending).

use std::collections::{BTreeMap, BTreeSet};

use calico_core::delta::{Difference, Tracker};
use calico_core::table::{ElementData, Key, SetName};

use crate::ObservedSet;

pub(super) type Data = Option<ElementData>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Elements {
    sets: BTreeMap<SetName, Tracker<Key, Data>>,
    pending: BTreeSet<SetName>,
}

impl Elements {
    /// Changes what is desired or observed of one set.
    pub(super) fn change<T>(&mut self, set: &SetName, change: impl FnOnce(&mut Tracker<Key, Data>) -> T) -> T {
        let tracker = self.sets.entry(set.clone()).or_default();
        let was_pending = tracker.pending_len() > 0;
        let result = change(tracker);
        let (is_pending, is_empty) = (tracker.pending_len() > 0, tracker.is_empty());
        if is_pending && !was_pending {
            self.pending.insert(set.clone());
        } else if was_pending && !is_pending {
            self.pending.remove(set);
        }
        if is_empty {
            self.sets.remove(set);
        }
        result
    }

    /// Nothing is wanted in the set any more.
    pub(super) fn remove_desired_of(&mut self, set: &SetName) {
        self.change(set, |tracker| tracker.keys().for_each(|key| tracker.remove_desired(key)));
    }

    /// Takes note of all that a set holds. Whether anything was as it should be and is not any more.
    pub(super) fn observe_set(&mut self, set: &SetName, found: Option<&ObservedSet>) -> bool {
        let elements = found.into_iter().flat_map(|set| &set.elements);
        let elements = elements.map(|element| (element.key.clone(), element.data.clone()));
        self.change(set, |tracker| tracker.observe_all(elements).next().is_some())
    }

    /// Takes a whole look at the host. Gives the sets of which anything was as it should be and is not any more.
    pub(super) fn observe_all(&mut self, seen: &BTreeMap<SetName, ObservedSet>) -> Vec<SetName> {
        let known: BTreeSet<SetName> = self.sets.keys().chain(seen.keys()).cloned().collect();
        known.into_iter().filter(|name| self.observe_set(name, seen.get(name))).collect()
    }

    /// What differs, by set and key.
    pub(super) fn pending(&self) -> impl Iterator<Item = (&SetName, Difference<'_, Key, Data>)> {
        let trackers = self.pending.iter().filter_map(|name| Some((name, self.sets.get(name)?)));
        trackers.flat_map(|(name, tracker)| tracker.pending().map(move |difference| (name, difference)))
    }

    /// Sets with differences, and these.
    pub(super) fn pending_sets(&self) -> impl Iterator<Item = (&SetName, &Tracker<Key, Data>)> {
        self.pending.iter().filter_map(|name| Some((name, self.sets.get(name)?)))
    }

    pub(super) fn pending_len(&self) -> usize {
        self.pending_sets().map(|(_, tracker)| tracker.pending_len()).sum()
    }

    /// All that is desired or observed of one set.
    pub(super) fn of(&self, set: &SetName) -> Option<&Tracker<Key, Data>> {
        self.sets.get(set)
    }

    /// Whether all elements of a set are as they should be.
    pub(super) fn is_set_settled(&self, set: &SetName) -> bool {
        !self.pending.contains(set)
    }
}
