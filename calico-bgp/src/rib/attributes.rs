//! Interned attribute sets.

use std::collections::HashSet;
use std::sync::Arc;

use crate::wire::PathAttributes;

/// Smallest size at which unused sets are looked for.
const FIRST_SWEEP: usize = 1024;

/// Every distinct attribute set in use, once.
#[derive(Debug)]
pub(crate) struct AttributeTable {
    sets: HashSet<Arc<PathAttributes>>,
    sweep_at: usize,
}

impl Default for AttributeTable {
    fn default() -> Self {
        Self { sets: HashSet::new(), sweep_at: FIRST_SWEEP }
    }
}

impl AttributeTable {
    /// The shared form of a set.
    pub(crate) fn intern(&mut self, attributes: PathAttributes) -> Arc<PathAttributes> {
        if let Some(known) = self.sets.get(&attributes) {
            return Arc::clone(known);
        }
        if self.sets.len() >= self.sweep_at {
            self.sweep();
        }
        let shared = Arc::new(attributes);
        self.sets.insert(Arc::clone(&shared));
        shared
    }

    /// Number of sets held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Forgets sets that nothing but this table holds. Doubling the threshold keeps the cost per insertion constant.
    fn sweep(&mut self) {
        self.sets.retain(|set| Arc::strong_count(set) > 1);
        self.sweep_at = (self.sets.len() * 2).max(FIRST_SWEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_are_one_allocation_and_unused_ones_go() {
        let mut table = AttributeTable::default();
        let with = |med| PathAttributes { med: Some(med), ..PathAttributes::default() };
        let first = table.intern(with(1));
        assert!(Arc::ptr_eq(&first, &table.intern(with(1))));
        for med in 0..10_000 {
            table.intern(with(med));
        }
        assert!(table.len() <= FIRST_SWEEP + 1, "{} sets survived", table.len());
        assert!(Arc::ptr_eq(&first, &table.intern(with(1))), "a set in use must survive every sweep");
    }
}
