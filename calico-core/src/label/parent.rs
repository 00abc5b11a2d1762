//! Parents: labels that items inherit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::class::Class;
use super::compiled::value_of;
use super::id_set::IdSet;
use super::interner::Symbol;
use super::pair::{Pair, Pairs};
use super::slab::Slab;

/// One parent, existing or only named by a class.
#[derive(Debug)]
pub(super) struct Parent {
    name: Symbol,
    /// Its labels, sorted by name; none while it does not exist.
    pub(super) labels: Option<Box<[Pair]>>,
    /// Classes that name it.
    pub(super) classes: IdSet,
}

/// All parents.
#[derive(Debug, Default)]
pub(super) struct Parents {
    pub(super) slab: Slab<Parent>,
    by_name: HashMap<Symbol, u32>,
    /// What labels are going to be; taken over by the next settling.
    pub(super) pending: HashMap<u32, Option<Box<[Pair]>>>,
}

impl Parents {
    /// The parent of that name, made when there is none. The caller holds `name` for each time that this returns `true`.
    pub(super) fn intern(&mut self, name: Symbol) -> (u32, bool) {
        if let Some(key) = self.by_name.get(&name) {
            return (*key, false);
        }
        let key = self.slab.insert(Parent { name, labels: None, classes: IdSet::default() });
        self.by_name.insert(name, key);
        (key, true)
    }

    /// Forgets a parent that neither exists nor is named by anyone; returns its name for release.
    pub(super) fn forget_unused(&mut self, key: u32) -> Option<Symbol> {
        let parent = self.slab.get(key)?;
        if parent.labels.is_some() || self.pending.contains_key(&key) || !parent.classes.is_empty() {
            return None;
        }
        let name = parent.name;
        self.slab.remove(key);
        self.by_name.remove(&name);
        Some(name)
    }

    /// Labels of a class as selectors see them: its own first, then those of each parent in order; the first that has a name
    /// decides.
    pub(super) fn effective(&self, class: &Class, pairs: &Pairs, out: &mut Vec<(Symbol, Symbol)>) {
        out.clear();
        out.extend(class.own().filter_map(|pair| pairs.get(pair)));
        for labels in class.parents().iter().filter_map(|key| self.slab.get(*key)?.labels.as_deref()) {
            let sorted = out.len();
            for pair in labels.iter().filter_map(|pair| pairs.get(*pair)) {
                if value_of(out.get(..sorted).unwrap_or_default(), pair.0).is_none() {
                    out.push(pair);
                }
            }
            if out.len() > sorted {
                out.sort_unstable();
            }
        }
    }
}
