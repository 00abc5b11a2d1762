//! What to write: a [`Tracker`] holds what should be beside what is, and knows at any time what differs.
//!
//! In come desired values (from the renderer), observed values (from a look at the host, or a change somebody made there) and
//! acknowledgements (our own writes). Out goes the difference. The reconciler of `calico-dataplane` keeps one tracker for each kind of object.
//!
//! Invariants: what differs and what does not lie in two maps, so asking for the difference costs O(pending), never O(everything), and what is
//! as it should be is kept once. No key is in both.

mod merge;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use merge::merge;

/// Desired beside observed state of one kind of object.
#[derive(Debug, Clone)]
pub struct Tracker<K, V> {
    settled: BTreeMap<K, V>,
    pending: BTreeMap<K, Sides<V>>,
}

/// Both sides of a comparison, which differ.
#[derive(Debug, Clone)]
struct Sides<V> {
    desired: Option<V>,
    observed: Option<V>,
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Desired,
    Observed,
}

/// One difference.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two sides of a comparison")]
pub struct Difference<'a, K, V> {
    /// Which object.
    pub key: &'a K,
    /// What should be; none means absent.
    pub desired: Option<&'a V>,
    /// What is; none means absent.
    pub observed: Option<&'a V>,
}

impl<'a, K, V> Difference<'a, K, V> {
    const fn none((key, value): (&'a K, &'a V)) -> Self {
        Self { key, desired: Some(value), observed: Some(value) }
    }

    const fn some((key, sides): (&'a K, &'a Sides<V>)) -> Self {
        Self { key, desired: sides.desired.as_ref(), observed: sides.observed.as_ref() }
    }
}

impl<K, V> Default for Tracker<K, V> {
    fn default() -> Self {
        Self { settled: BTreeMap::new(), pending: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V: PartialEq> Tracker<K, V> {
    /// Wants the object to be `value`.
    pub fn set_desired(&mut self, key: K, value: V) {
        self.update(key, Side::Desired, Some(value));
    }

    /// Wants each object to be the value beside it. Where nothing is known yet, this is much less work than one by one.
    pub fn set_all_desired<I: IntoIterator<Item = (K, V)>>(&mut self, values: I) {
        if self.is_empty() {
            let sides = |value| Sides { desired: Some(value), observed: None };
            self.pending = values.into_iter().map(|(key, value)| (key, sides(value))).collect();
        } else {
            values.into_iter().for_each(|(key, value)| self.set_desired(key, value));
        }
    }

    /// Wants the object to be absent.
    pub fn remove_desired(&mut self, key: K) {
        self.update(key, Side::Desired, None);
    }

    /// Takes note of what one object is now: a write of ours that took effect, or a change that somebody else made.
    pub fn set_observed(&mut self, key: K, value: Option<V>) {
        self.update(key, Side::Observed, value);
    }

    /// Takes note of what objects are now. Much less work than one by one, if they come in order and are a good part of all.
    pub fn set_all_observed<'a>(&mut self, values: impl ExactSizeIterator<Item = (&'a K, &'a V)>)
    where
        K: 'a,
        V: Clone + 'a,
    {
        // Both maps are made anew below.
        if values.len() < (self.settled.len() + self.pending.len()) / 4 {
            values.for_each(|(key, value)| self.set_observed(key.clone(), Some(value.clone())));
            return;
        }
        let (mut settled, mut pending) = (Vec::new(), Vec::new());
        let mut known = core::mem::take(&mut self.pending).into_iter().peekable();
        let mut values = values.peekable();
        while let Some((key, value)) = values.peek() {
            pending.extend(core::iter::from_fn(|| known.next_if(|(known, _)| known < *key)));
            let as_desired = known.next_if(|(known, sides)| known == *key && sides.desired.as_ref() == Some(*value));
            let Some((key, desired)) = as_desired.and_then(|(key, sides)| Some((key, sides.desired?))) else { break };
            settled.push((key, desired));
            values.next();
        }
        pending.extend(known);
        self.pending = pending.into_iter().collect();
        self.settled.append(&mut settled.into_iter().collect());
        // From the first on that is out of order, or not as it should be.
        values.for_each(|(key, value)| self.set_observed(key.clone(), Some(value.clone())));
    }

    /// Takes note of what one object was found to be. Says whether it was as it should be, and is not any more.
    pub fn observe(&mut self, key: K, value: Option<V>) -> bool {
        let before = self.is_settled(&key);
        self.set_observed(key.clone(), value);
        before && !self.is_settled(&key)
    }

    /// Takes a whole look at the host: what is not in it is absent. Says what was as it should be, and is not any more.
    pub fn observe_all<I: IntoIterator<Item = (K, V)>>(&mut self, snapshot: I) -> alloc::vec::IntoIter<K> {
        let found = snapshot.into_iter().collect::<BTreeMap<K, V>>();
        if found.is_empty() && self.settled.is_empty() {
            // As on a host where nothing of ours has been yet.
            self.pending.retain(|_, sides| {
                sides.observed = None;
                sides.desired.is_some()
            });
            return Vec::new().into_iter();
        }
        let settled = core::mem::take(&mut self.settled).into_iter().map(|(key, value)| (key, (Some(value), true)));
        let pending = core::mem::take(&mut self.pending).into_iter();
        let mut known = merge(settled, pending.map(|(key, sides)| (key, (sides.desired, false)))).peekable();
        let mut found = found.into_iter().peekable();
        let (mut settled, mut pending, mut undone) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let known = known.next_if(|(key, _)| found.peek().is_none_or(|(found, _)| key <= found));
            let found = found.next_if(|(found, _)| known.as_ref().is_none_or(|(key, _)| found == key));
            let (key, desired, was_settled, observed) = match (known, found) {
                (Some((key, (desired, was_settled))), found) => (key, desired, was_settled, found.map(|found| found.1)),
                (None, Some((key, value))) => (key, None, true, Some(value)),
                (None, None) => break,
            };
            match (desired, observed) {
                (None, None) => {}
                (Some(value), Some(found)) if value == found => settled.push((key, value)),
                (desired, observed) => {
                    undone.extend(was_settled.then(|| key.clone()));
                    pending.push((key, Sides { desired, observed }));
                }
            }
        }
        self.settled = settled.into_iter().collect();
        self.pending = pending.into_iter().collect();
        undone.into_iter()
    }

    /// What differs, by key.
    pub fn pending(&self) -> impl Iterator<Item = Difference<'_, K, V>> {
        self.pending.iter().map(Difference::some)
    }

    /// The difference at one key, if there is one.
    pub fn difference<'a>(&'a self, key: &K) -> Option<Difference<'a, K, V>> {
        self.pending.get_key_value(key).map(Difference::some)
    }

    /// Whether the object is as it should be.
    pub fn is_settled(&self, key: &K) -> bool {
        !self.pending.contains_key(key)
    }

    /// Whether nothing is desired and nothing observed.
    pub fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.pending.is_empty()
    }

    /// Everything that is desired or observed, in no order.
    pub fn keys(&self) -> alloc::vec::IntoIter<K> {
        self.settled.keys().chain(self.pending.keys()).cloned().collect::<Vec<_>>().into_iter()
    }

    /// Number of differences.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// What the object should be.
    pub fn desired(&self, key: &K) -> Option<&V> {
        self.settled.get(key).or_else(|| self.pending.get(key)?.desired.as_ref())
    }

    /// What the object is, as far as known.
    pub fn observed(&self, key: &K) -> Option<&V> {
        self.settled.get(key).or_else(|| self.pending.get(key)?.observed.as_ref())
    }

    /// Everything that should be.
    pub fn iter_desired(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(..).filter_map(|found| Some((found.key, found.desired?)))
    }

    /// Everything that is, as far as known.
    pub fn iter_observed(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(..).filter_map(|found| Some((found.key, found.observed?)))
    }

    /// Keys in a range, desired or observed, with both sides.
    pub fn range<R: core::ops::RangeBounds<K> + Clone>(&self, range: R) -> impl Iterator<Item = Difference<'_, K, V>> {
        let settled = self.settled.range(range.clone()).map(|item| (item.0, Difference::none(item)));
        let pending = self.pending.range(range).map(|item| (item.0, Difference::some(item)));
        merge(settled, pending).map(|(_, found)| found)
    }

    fn update(&mut self, key: K, side: Side, value: Option<V>) {
        match self.pending.entry(key) {
            Entry::Occupied(mut known) => {
                let sides = known.get_mut();
                match side {
                    Side::Desired => sides.desired = value,
                    Side::Observed => sides.observed = value,
                }
                if sides.desired == sides.observed {
                    let (key, sides) = known.remove_entry();
                    self.settled.extend(sides.desired.map(|value| (key, value)));
                }
            }
            Entry::Vacant(place) => {
                if self.settled.get(place.key()) == value.as_ref() {
                    return;
                }
                let other = self.settled.remove(place.key());
                place.insert(match side {
                    Side::Desired => Sides { desired: value, observed: other },
                    Side::Observed => Sides { desired: other, observed: value },
                });
            }
        }
    }
}
