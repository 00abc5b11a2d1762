//! Revisions of stored objects.

use std::fmt;

/// A store's revision: equal revisions of one key mean equal content. Opaque to whoever uses a store; only the store that gave it
/// can compare it with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Revision(u64);

impl Revision {
    /// For stores: wraps their own number.
    pub const fn from_raw(value: u64) -> Self {
        Self(value)
    }

    /// For stores: their own number back.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
