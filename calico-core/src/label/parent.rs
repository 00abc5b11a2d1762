//! Parents: labels that items inherit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::id_set::IdSet;
use super::interner::Symbol;
use super::projection::UNKNOWN;
use super::slab::Slab;

/// One parent, existing or only named by a kin.
#[derive(Debug)]
pub(super) struct Parent {
    name: Symbol,
    /// Its raw labels; none while it does not exist.
    pub(super) labels: Option<Box<[u8]>>,
    /// Whether the labels are posted, and seen as `projection` says. A change waits for the next settling.
    pub(super) settled: bool,
    /// What selectors saw of it when it was last settled.
    pub(super) projection: u32,
    /// Kins that name it.
    pub(super) kins: IdSet,
}

/// All parents.
#[derive(Debug, Default)]
pub(super) struct Parents {
    pub(super) slab: Slab<Parent>,
    /// By the name's symbol; symbols are dense.
    by_name: Vec<u32>,
}

impl Parents {
    /// The parent of that name, made when there is none. The caller holds `name` for each time that this returns `true`.
    pub(super) fn intern(&mut self, name: Symbol) -> (u32, bool) {
        let at = name.raw() as usize;
        if self.by_name.len() <= at {
            self.by_name.resize(at + 1, NONE);
        }
        let known = self.by_name.get_mut(at);
        if let Some(key) = known.as_ref().map(|key| **key).filter(|key| *key != NONE) {
            return (key, false);
        }
        let parent = Parent { name, labels: None, settled: true, projection: UNKNOWN, kins: IdSet::default() };
        let key = self.slab.insert(parent);
        if let Some(known) = known {
            *known = key;
        }
        (key, true)
    }

    /// Notes that a kin names it.
    pub(super) fn named_by(&mut self, key: u32, kin: u32) {
        if let Some(parent) = self.slab.get_mut(key) {
            parent.kins.insert(kin);
        }
    }

    /// Forgets a parent that neither exists nor is named by anyone nor waits to be settled; returns its name for release.
    pub(super) fn forget_unused(&mut self, key: u32) -> Option<Symbol> {
        let parent = self.slab.get(key)?;
        if parent.labels.is_some() || !parent.settled || !parent.kins.is_empty() {
            return None;
        }
        let name = parent.name;
        self.slab.remove(key);
        if let Some(known) = self.by_name.get_mut(name.raw() as usize) {
            *known = NONE;
        }
        Some(name)
    }
}

/// No parent.
const NONE: u32 = u32::MAX;
