//! Parents: labels that items inherit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::compiled::{Pairs, value_of};
use super::id_set::IdSet;
use super::interner::Symbol;
use super::slab::Slab;

/// One parent, existing or only named by a class.
#[derive(Debug)]
pub(super) struct Parent {
    pub(super) name: Symbol,
    /// Its labels, sorted by name; none while it does not exist.
    pub(super) labels: Option<Box<Pairs>>,
    /// What its labels are going to be; taken over by the next settling.
    pub(super) pending: Option<Option<Box<Pairs>>>,
    /// Classes that name it.
    pub(super) classes: IdSet,
}

/// All parents.
#[derive(Debug, Default)]
pub(super) struct Parents {
    pub(super) slab: Slab<Parent>,
    by_name: HashMap<Symbol, u32>,
}

impl Parents {
    /// The parent of that name, made when there is none. The caller holds `name` for each time that this returns `true`.
    pub(super) fn intern(&mut self, name: Symbol) -> (u32, bool) {
        if let Some(key) = self.by_name.get(&name) {
            return (*key, false);
        }
        let parent = Parent { name, labels: None, pending: None, classes: IdSet::default() };
        let key = self.slab.insert(parent);
        self.by_name.insert(name, key);
        (key, true)
    }

    /// Forgets a parent that neither exists nor is named by anyone; returns its name for release.
    pub(super) fn forget_unused(&mut self, key: u32) -> Option<Symbol> {
        let parent = self.slab.get(key)?;
        if parent.labels.is_some() || parent.pending.is_some() || !parent.classes.is_empty() {
            return None;
        }
        let name = parent.name;
        self.slab.remove(key);
        self.by_name.remove(&name);
        Some(name)
    }

    /// Own labels first, then those of each parent in order; the first that has a name decides.
    pub(super) fn effective(&self, own: &Pairs, parents: &[u32], out: &mut Vec<(Symbol, Symbol)>) {
        out.clear();
        out.extend_from_slice(own);
        for labels in parents.iter().filter_map(|key| self.slab.get(*key)?.labels.as_deref()) {
            let sorted = out.len();
            for pair in labels {
                if value_of(out.get(..sorted).unwrap_or_default(), pair.0).is_none() {
                    out.push(*pair);
                }
            }
            if out.len() > sorted {
                out.sort_unstable();
            }
        }
    }
}
