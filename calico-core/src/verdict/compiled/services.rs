//! Rules by protocol and destination port.

use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::postings::{Place, Postings};
use crate::label::slab::Slab;
use crate::net::PortRange;

/// A protocol; none means each.
type Protocol = Option<u8>;

/// Rules that ask for a protocol, or for ports of their destination by number.
#[derive(Debug)]
pub(super) struct Services {
    protocols: HashMap<u8, Postings>,
    single: HashMap<(Protocol, u16), Postings>,
    ranges: Slab<(Protocol, PortRange, Postings)>,
    by_range: HashMap<(Protocol, PortRange), u32>,
    /// Ranges that have a port with this high octet.
    buckets: Vec<Vec<u32>>,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            protocols: HashMap::new(),
            single: HashMap::new(),
            ranges: Slab::default(),
            by_range: HashMap::new(),
            buckets: vec![Vec::new(); 256],
        }
    }
}

impl Services {
    /// A rule wants a protocol, whatever the port.
    pub(super) fn set_protocol(&mut self, protocol: u8, place: Place, present: bool) {
        change(&mut self.protocols, protocol, place, present);
    }

    /// A rule wants a port out of a range.
    pub(super) fn set_range(&mut self, protocol: Protocol, range: PortRange, place: Place, present: bool) {
        if range.min() == range.max() {
            change(&mut self.single, (protocol, range.min()), place, present);
            return;
        }
        let known = self.by_range.get(&(protocol, range)).copied();
        let id = match known {
            Some(id) => id,
            None if present => self.add_range(protocol, range),
            None => return,
        };
        let Some((_, _, postings)) = self.ranges.get_mut(id) else { return };
        postings.set(place, present);
        if postings.is_empty() {
            self.ranges.remove(id);
            self.by_range.remove(&(protocol, range));
            self.buckets_of(range).for_each(|bucket| bucket.retain(|other| *other != id));
        }
    }

    fn add_range(&mut self, protocol: Protocol, range: PortRange) -> u32 {
        let id = self.ranges.insert((protocol, range, Postings::default()));
        self.by_range.insert((protocol, range), id);
        self.buckets_of(range).for_each(|bucket| bucket.push(id));
        id
    }

    fn buckets_of(&mut self, range: PortRange) -> impl Iterator<Item = &mut Vec<u32>> {
        let (first, last) = (high(range.min()), high(range.max()));
        self.buckets.iter_mut().skip(first).take(last - first + 1)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let tables = self.protocols.is_empty() && self.single.is_empty() && self.by_range.is_empty();
        tables && self.ranges.iter().next().is_none() && self.buckets.iter().all(Vec::is_empty)
    }

    /// Rules that want this protocol or port.
    pub(super) fn of(&self, protocol: u8, port: u16) -> impl Iterator<Item = &Postings> {
        let exact = [self.single.get(&(Some(protocol), port)), self.single.get(&(None, port))];
        let bucket = self.buckets.get(high(port)).map(Vec::as_slice).unwrap_or_default();
        let ranges = bucket
            .iter()
            .filter_map(|id| self.ranges.get(*id))
            .filter(move |(wanted, range, _)| range.contains(port) && wanted.is_none_or(|wanted| wanted == protocol));
        let exact = exact.into_iter().chain([self.protocols.get(&protocol)]).flatten();
        exact.chain(ranges.map(|(_, _, postings)| postings))
    }
}

const fn high(port: u16) -> usize {
    (port >> 8) as usize
}

fn change<K: core::hash::Hash + Eq + Copy>(table: &mut HashMap<K, Postings>, key: K, place: Place, present: bool) {
    if present {
        table.entry(key).or_default().set(place, true);
    } else if let Some(postings) = table.get_mut(&key) {
        postings.set(place, false);
        if postings.is_empty() {
            table.remove(&key);
        }
    }
}
