//! What one peer has announced.
//!
//! A peer has lives, of each family: a graceful restart, or the answer to a route refresh, begins a new one. Paths of an earlier life are
//! stale. They are not marked one by one; each path carries the life in which it was announced, and the sweep that ends it looks at this
//! peer's prefixes only.

use std::collections::BTreeSet;

use calico_core::net::{Cidr, Family};

use crate::session::per_family::PerFamily;

/// Prefixes with a path by this peer.
#[derive(Debug, Default)]
pub(crate) struct AdjIn {
    channels: PerFamily<Channel>,
}

#[derive(Debug, Default)]
struct Channel {
    prefixes: BTreeSet<Cidr>,
    life: u32,
    /// Whether paths of an earlier life may be left.
    stale: bool,
}

impl AdjIn {
    pub(crate) fn insert(&mut self, prefix: Cidr) {
        self.channels.of_mut(prefix.family()).prefixes.insert(prefix);
    }

    pub(crate) fn remove(&mut self, prefix: &Cidr) -> bool {
        self.channels.of_mut(prefix.family()).prefixes.remove(prefix)
    }

    /// Everything announced so far becomes stale.
    pub(crate) fn begin_life(&mut self, family: Family) {
        let channel = self.channels.of_mut(family);
        channel.life = channel.life.wrapping_add(1);
        channel.stale = !channel.prefixes.is_empty();
    }

    /// Says that no stale path is left.
    pub(crate) const fn end_stale(&mut self, family: Family) {
        self.channels.of_mut(family).stale = false;
    }

    pub(crate) fn drain(&mut self, family: Family) -> BTreeSet<Cidr> {
        let channel = self.channels.of_mut(family);
        channel.stale = false;
        core::mem::take(&mut channel.prefixes)
    }

    /// The life in which announcements are now made.
    pub(crate) const fn life(&self, family: Family) -> u32 {
        self.channels.of(family).life
    }

    pub(crate) const fn has_stale(&self, family: Family) -> bool {
        self.channels.of(family).stale
    }

    pub(crate) fn count(&self, family: Family) -> usize {
        self.channels.of(family).prefixes.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.count(Family::V4) + self.count(Family::V6)
    }

    pub(crate) fn prefixes(&self, family: Family) -> impl Iterator<Item = Cidr> + '_ {
        self.channels.of(family).prefixes.iter().copied()
    }
}
