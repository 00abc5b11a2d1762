//! What others made of some objects of our tables, where the host says of which.

use std::collections::BTreeSet;

use calico_core::table::SetName;

use super::machine::{ChainMark, Look, Reconciler};
use super::retry::Object;
use crate::{ObservedObjects, ObservedSet};

impl Reconciler {
    pub(super) fn objects_changed(&mut self, seen: &ObservedObjects) {
        // The look that is to come sees more, and finds what was undone.
        if self.look == Look::Wanted {
            return;
        }
        let mut undone = BTreeSet::new();
        for (name, chain) in &seen.chains {
            if self.chains.observe(name.clone(), chain.map(ChainMark::seen)) {
                undone.insert(Object::Chain(name.clone()));
            }
        }
        for (name, set) in &seen.sets {
            if self.set_changed(name, set.as_ref()) {
                undone.insert(Object::Set(name.clone()));
            }
        }
        // Before, what differs was left by an earlier life, or has not been asked for yet.
        if self.in_sync && self.table_present {
            self.disturbed.append(&mut undone);
        }
    }

    /// Whether anything of it was as it should be, and is not any more.
    fn set_changed(&mut self, name: &SetName, found: Option<&ObservedSet>) -> bool {
        let undone = self.sets.observe(name.clone(), found.map(|set| set.decl.clone()));
        self.elements.observe_set(name, found) | undone
    }
}
