//! Interned values: equal ones are one allocation.
//!
//! Two that are alive are equal exactly if they are the same pointer, so that comparing and grouping cost nothing.

use core::hash::Hash;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::wire::{NextHop, PathAttributes};

/// Smallest size at which unused values are looked for.
const FIRST_SWEEP: usize = 1024;

/// What a path says, or what is said of one: everything but the prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PathSet {
    pub(crate) attributes: PathAttributes,
    pub(crate) next_hop: NextHop,
}

/// Every distinct value in use, once.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    values: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: HashSet::default(), sweep_at: FIRST_SWEEP }
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// The shared form of a value.
    pub(crate) fn intern(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.sweep_at {
            self.sweep();
        }
        let shared = Arc::new(value);
        self.values.insert(Arc::clone(&shared));
        shared
    }

    /// Forgets values that nothing but this table holds. Doubling the threshold keeps the cost per insertion constant.
    pub(crate) fn sweep(&mut self) {
        self.values.retain(|value| Arc::strong_count(value) > 1);
        self.sweep_at = self.values.len().saturating_mul(2).max(FIRST_SWEEP);
        if self.values.is_empty() {
            self.values.shrink_to_fit();
        }
    }

    /// Number of values held, those included that nobody uses any more and that the next sweep takes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// Whether two interned values are equal.
pub(crate) fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_allocation_and_unused_ones_go() {
        let mut table = Interner::default();
        let first = table.intern(1);
        assert!(Arc::ptr_eq(&first, &table.intern(1)));
        for number in 0..10_000 {
            table.intern(number);
        }
        assert!(table.len() <= FIRST_SWEEP + 1, "{} values survived", table.len());
        assert!(Arc::ptr_eq(&first, &table.intern(1)), "a value in use must survive every sweep");
        drop(first);
        table.sweep();
        assert_eq!(table.len(), 0);
    }
}
