//! Who of the cluster has the addresses that somebody here wants as floating ones.
//!
//! In come the addresses that are asked about, and what each endpoint has and had; out comes which answers changed. Of a quarter of a million
//! endpoints nothing is kept while nobody asks, and no more than what is asked about then: who asks anew costs one look at each.

use alloc::collections::BTreeSet;
use core::mem;
use core::net::IpAddr;

use hashbrown::HashMap;

use super::contribution::Contribution;
use crate::net::Cidr;
use crate::resource::{Kind, ResourceKey};

/// The answers.
#[derive(Debug, Default)]
pub(super) struct Holders {
    asked: HashMap<IpAddr, BTreeSet<ResourceKey>>,
    changed: BTreeSet<IpAddr>,
}

impl Holders {
    /// Asks about addresses from now on; `each` is to show all that there is.
    pub(super) fn ask(&mut self, addresses: &BTreeSet<IpAddr>, each: impl Iterator<Item = (IpAddr, ResourceKey)>) {
        self.asked.extend(addresses.iter().map(|address| (*address, BTreeSet::new())));
        for (address, key) in each {
            if let Some(holders) = self.asked.get_mut(&address) {
                holders.insert(key);
            }
        }
    }

    pub(super) fn forget(&mut self, address: IpAddr) {
        self.asked.remove(&address);
        self.changed.remove(&address);
    }

    pub(super) fn is_asked(&self, address: IpAddr) -> bool {
        self.asked.contains_key(&address)
    }

    /// What an object has instead of what it had.
    pub(super) fn replace(&mut self, key: &ResourceKey, old: &Contribution, new: &Contribution) {
        if self.asked.is_empty() || key.kind() != Kind::WorkloadEndpoint {
            return;
        }
        for (contribution, present) in [(old, false), (new, true)] {
            for address in hosts(contribution) {
                let Some(holders) = self.asked.get_mut(&address) else { continue };
                let is_other = if present { holders.insert(key.clone()) } else { holders.remove(key) };
                if is_other {
                    self.changed.insert(address);
                }
            }
        }
    }

    /// The first by name that has an address.
    pub(super) fn of(&self, address: IpAddr) -> Option<&ResourceKey> {
        self.asked.get(&address)?.first()
    }

    /// The addresses that others may have now than at the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<IpAddr> {
        mem::take(&mut self.changed)
    }
}

/// The lone addresses that an object has.
pub(super) fn hosts(contribution: &Contribution) -> impl Iterator<Item = IpAddr> {
    contribution.nets().filter(Cidr::is_host).map(|net| net.address())
}
