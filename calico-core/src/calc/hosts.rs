//! IPv4 addresses, counted: most sets hold little else, and by the hundred thousand.
//!
//! While a set is gathered for the first time, addresses are only written down; then they are sorted once, which costs a small part
//! of putting each in its place. An address that was added once takes six bytes or so.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

/// The addresses.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// Those that are only written down, as often as they were added.
    gathered: Vec<u32>,
    addresses: BTreeSet<u32>,
    /// How often those were added that were added more than once.
    repeated: BTreeMap<u32, u32>,
}

impl Hosts {
    /// Adds one when nobody asks whether it was there.
    pub(super) fn gather(&mut self, address: u32) {
        self.gathered.push(address);
    }

    /// Adds one; says whether it was not there.
    pub(super) fn add(&mut self, address: u32) -> bool {
        self.sort();
        self.put(address)
    }

    /// Takes one back; says whether that was the last.
    pub(super) fn remove(&mut self, address: u32) -> bool {
        self.sort();
        match self.repeated.get_mut(&address) {
            None => return self.addresses.remove(&address),
            Some(count) if *count > 2 => *count -= 1,
            Some(_) => {
                self.repeated.remove(&address);
            }
        }
        false
    }

    /// All from the first to the last, in order.
    pub(super) fn between(&mut self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        self.sort();
        self.addresses.range(first..=last).copied()
    }

    fn put(&mut self, address: u32) -> bool {
        let new = self.addresses.insert(address);
        if !new {
            *self.repeated.entry(address).or_insert(1) += 1;
        }
        new
    }

    fn sort(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let mut gathered = mem::take(&mut self.gathered);
        if !self.addresses.is_empty() {
            gathered.into_iter().for_each(|address| {
                self.put(address);
            });
            return;
        }
        gathered.sort_unstable();
        for (one, _) in gathered.iter().zip(gathered.iter().skip(1)).filter(|(one, other)| one == other) {
            *self.repeated.entry(*one).or_insert(1) += 1;
        }
        // All at once fills its nodes; one by one would leave a third of them empty.
        self.addresses = gathered.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_whatever_the_way_of_adding(steps in prop::collection::vec((0..8u32, 0..4u8), 0..80)) {
            let mut hosts = Hosts::default();
            let mut twin = BTreeMap::<u32, u32>::new();
            for (address, step) in steps {
                let count = twin.get(&address).copied().unwrap_or(0);
                match step {
                    0 => hosts.gather(address),
                    1 => prop_assert_eq!(hosts.add(address), count == 0),
                    _ => prop_assert_eq!(hosts.remove(address), count == 1),
                }
                let count = if step < 2 { count + 1 } else { count.saturating_sub(1) };
                twin.insert(address, count);
                twin.retain(|_, count| *count > 0);
                if step == 3 {
                    prop_assert_eq!(hosts.between(2, 6).collect::<Vec<_>>(), twin.range(2..=6).map(|one| *one.0).collect::<Vec<_>>());
                }
            }
        }
    }
}
