//! What to write: a [`Tracker`] holds what should be beside what is, and knows at any time what differs.
//!
//! In come desired values (from the renderer), observed values (from a look at the host, or a change somebody made there) and
//! acknowledgements (our own writes). Out goes the difference. Invariant: a key is pending exactly when its desired and its
//! observed value differ, so asking costs O(pending), never O(everything). The reconciler of `calico-dataplane` keeps one
//! tracker for each kind of object.

#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};

/// Desired beside observed state of one kind of object.
#[derive(Debug, Clone)]
pub struct Tracker<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    pending: BTreeSet<K>,
}

#[derive(Debug, Clone)]
struct Entry<V> {
    desired: Option<V>,
    observed: Option<V>,
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

impl<V> Entry<V> {
    const fn is_absent(&self) -> bool {
        self.desired.is_none() && self.observed.is_none()
    }
}

impl<K, V> Default for Tracker<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), pending: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: PartialEq> Tracker<K, V> {
    /// Wants the object to be `value`.
    pub fn set_desired(&mut self, key: K, value: V) {
        self.update(key, |entry| entry.desired = Some(value));
    }

    /// Wants the object to be absent.
    pub fn remove_desired(&mut self, key: K) {
        self.update(key, |entry| entry.desired = None);
    }

    /// Takes note of what one object is now: a write of ours that took effect, or a change that somebody else made.
    pub fn set_observed(&mut self, key: K, value: Option<V>) {
        self.update(key, |entry| entry.observed = value);
    }

    /// Takes note of what one object was found to be. Says whether it was as it should be, and is not any more.
    pub fn observe(&mut self, key: K, value: Option<V>) -> bool {
        let before = self.is_settled(&key);
        self.set_observed(key.clone(), value);
        before && !self.is_settled(&key)
    }

    /// Takes a whole look at the host: what is not in it is absent. Says what was as it should be, and is not any more.
    pub fn observe_all<I: IntoIterator<Item = (K, V)>>(
        &mut self,
        snapshot: I,
    ) -> impl Iterator<Item = &K> + use<'_, I, K, V> {
        for entry in self.entries.values_mut() {
            entry.observed = None;
        }
        for (key, value) in snapshot {
            let entry = self.entries.entry(key).or_insert(Entry { desired: None, observed: None });
            entry.observed = Some(value);
        }
        self.entries.retain(|_, entry| !entry.is_absent());
        let differing = self.entries.iter().filter(|(_, entry)| entry.desired != entry.observed);
        let differing = differing.map(|(key, _)| key.clone()).collect();
        let before = core::mem::replace(&mut self.pending, differing);
        self.pending.iter().filter(move |key| !before.contains(*key))
    }

    /// What differs, by key.
    pub fn pending(&self) -> impl Iterator<Item = Difference<'_, K, V>> {
        self.pending.iter().filter_map(|key| self.difference(key))
    }

    /// The difference at one key, if there is one.
    pub fn difference<'a>(&'a self, key: &'a K) -> Option<Difference<'a, K, V>> {
        let entry = self.entries.get(key)?;
        let (desired, observed) = (entry.desired.as_ref(), entry.observed.as_ref());
        (desired != observed).then_some(Difference { key, desired, observed })
    }

    /// Whether the object is as it should be.
    pub fn is_settled(&self, key: &K) -> bool {
        !self.pending.contains(key)
    }

    /// Whether nothing is desired and nothing observed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything that is desired or observed.
    pub fn keys(&self) -> alloc::vec::IntoIter<K> {
        self.entries.keys().cloned().collect::<alloc::vec::Vec<_>>().into_iter()
    }

    /// Number of differences.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// What the object should be.
    pub fn desired(&self, key: &K) -> Option<&V> {
        self.entries.get(key)?.desired.as_ref()
    }

    /// What the object is, as far as known.
    pub fn observed(&self, key: &K) -> Option<&V> {
        self.entries.get(key)?.observed.as_ref()
    }

    /// Everything that should be.
    pub fn iter_desired(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().filter_map(|(key, entry)| entry.desired.as_ref().map(|value| (key, value)))
    }

    /// Everything that is, as far as known.
    pub fn iter_observed(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().filter_map(|(key, entry)| entry.observed.as_ref().map(|value| (key, value)))
    }

    /// Keys in a range, desired or observed, with both sides.
    pub fn range<R: core::ops::RangeBounds<K>>(&self, range: R) -> impl Iterator<Item = Difference<'_, K, V>> {
        self.entries.range(range).map(|(key, entry)| Difference {
            key,
            desired: entry.desired.as_ref(),
            observed: entry.observed.as_ref(),
        })
    }

    fn update(&mut self, key: K, change: impl FnOnce(&mut Entry<V>)) {
        let settled = if let Some(entry) = self.entries.get_mut(&key) {
            change(entry);
            let (absent, settled) = (entry.is_absent(), entry.desired == entry.observed);
            if absent {
                self.entries.remove(&key);
            }
            settled
        } else {
            let mut entry = Entry { desired: None, observed: None };
            change(&mut entry);
            let settled = entry.desired == entry.observed;
            if !entry.is_absent() {
                self.entries.insert(key.clone(), entry);
            }
            settled
        };
        if settled {
            self.pending.remove(&key);
        } else {
            self.pending.insert(key);
        }
    }
}
