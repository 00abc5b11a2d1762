//! What one peer has announced.
//!
//! A peer has lives: a graceful restart begins a new one. Paths of an earlier life are stale. They are not marked one by one;
//! each path carries the life in which it was announced, and the sweep after the end-of-RIB looks at this peer's prefixes only.

use std::collections::BTreeSet;

use calico_core::net::Cidr;

/// Prefixes with a path by this peer.
#[derive(Debug, Default)]
pub(crate) struct AdjIn {
    prefixes: BTreeSet<Cidr>,
    life: u32,
    /// Whether paths of an earlier life may be left.
    stale: bool,
}

impl AdjIn {
    pub(crate) fn insert(&mut self, prefix: Cidr) {
        self.prefixes.insert(prefix);
    }

    pub(crate) fn remove(&mut self, prefix: &Cidr) -> bool {
        self.prefixes.remove(prefix)
    }

    /// Everything announced so far becomes stale.
    pub(crate) fn begin_life(&mut self) {
        self.life = self.life.wrapping_add(1);
        self.stale = !self.prefixes.is_empty();
    }

    /// Says that no stale path is left.
    pub(crate) const fn end_stale(&mut self) {
        self.stale = false;
    }

    pub(crate) fn drain(&mut self) -> BTreeSet<Cidr> {
        self.stale = false;
        core::mem::take(&mut self.prefixes)
    }

    /// The life in which announcements are now made.
    pub(crate) const fn life(&self) -> u32 {
        self.life
    }

    pub(crate) const fn has_stale(&self) -> bool {
        self.stale
    }

    pub(crate) fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub(crate) fn prefixes(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.prefixes.iter().copied()
    }
}
