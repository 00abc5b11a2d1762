//! Contributions under the label index's dense integers, found by resource key: of all endpoints and network sets of the cluster.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::contribution::Contribution;
use super::holders;
use crate::label::slab::Slots;
use crate::resource::{KeyMap, Kind, ResourceKey};

/// The contributions.
#[derive(Debug, Default)]
pub(super) struct Entities {
    slots: Slots<Contribution>,
    ids: KeyMap<u32>,
}

impl Entities {
    /// The integer of a key.
    pub(super) fn find(&self, key: &ResourceKey) -> Option<u32> {
        self.ids.get(key)
    }

    /// The integer of a key, which is made when there is none; says whether it was. A contribution is then to be [put](Self::put) there.
    pub(super) fn find_or_make(&mut self, key: &ResourceKey, make: impl FnOnce() -> u32) -> (u32, bool) {
        self.ids.get_or_insert_with(key, make)
    }

    /// Puts in the contribution of an integer that was made.
    pub(super) fn put(&mut self, id: u32, contribution: Contribution) {
        self.slots.put(id, contribution);
    }

    /// Takes the one of a key out, whose integer that is.
    pub(super) fn remove(&mut self, id: u32, key: &ResourceKey) {
        self.slots.take(id);
        self.ids.remove(key);
    }

    /// The workloads that have one of these addresses to themselves.
    pub(super) fn workloads_at(&self, addresses: &BTreeSet<IpAddr>) -> impl Iterator<Item = (IpAddr, ResourceKey)> {
        let asked = |contribution| holders::hosts(contribution).filter(|address| addresses.contains(address));
        let ids: BTreeSet<u32> =
            self.slots.iter().filter(|(_, contribution)| asked(contribution).next().is_some()).map(|(id, _)| id).collect();
        let keys = if ids.is_empty() { Vec::new() } else { self.ids.keys_where(|id| ids.contains(&id)) };
        let workloads = keys.into_iter().filter(|key| key.kind() == Kind::WorkloadEndpoint);
        workloads.flat_map(move |key| {
            let contribution = self.find(&key).and_then(|id| self.get(id));
            contribution.into_iter().flat_map(asked).map(move |address| (address, key.clone()))
        })
    }

    pub(super) fn get(&self, id: u32) -> Option<&Contribution> {
        self.slots.get(id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Contribution> {
        self.slots.get_mut(id)
    }
}
