//! Equal values held once: stacks of endpoints, rules of policies. Tens of thousands of namespaces have the same profile but for its name.

use alloc::sync::Arc;
use core::hash::Hash;

use hashbrown::HashSet;

/// The values.
#[derive(Debug)]
pub(super) struct Shared<T> {
    values: HashSet<Arc<T>>,
    /// Values in use when unused ones were last thrown out.
    kept: usize,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), kept: 0 }
    }
}

impl<T: Hash + Eq> Shared<T> {
    /// The one that equals a value.
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        match self.values.get(&value) {
            Some(shared) => shared.clone(),
            None => {
                let shared = Arc::new(value);
                self.values.insert(shared.clone());
                shared
            }
        }
    }

    /// Throws out values that nobody has any more, once there may be as many of those as of others.
    pub(super) fn forget_unused(&mut self) {
        const SMALL: usize = 64;
        if self.values.len() > SMALL.max(2 * self.kept) {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.kept = self.values.len();
        }
    }
}
