//! Policies that no endpoint of this host can match, as none has a label that they need: in a large cluster nearly all.
//!
//! In come policies with their selectors, and which labels endpoints of this host have or inherit; out come policies whose time has
//! come. One that waits is its key and its resource, found by the label: its selector is read again then.

use core::hash::BuildHasher as _;

use alloc::vec::Vec;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::policy::Policy;
use crate::label::slab::Slab;
use crate::label::store::Keys;
use crate::label::{IdSet, needed};
use crate::resource::ResourceKey;
use crate::selector::Selector;

/// The policies.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    policies: Slab<(ResourceKey, Policy)>,
    keys: Keys,
    /// By the hash of a label that they need. A policy that will do with any of several stands under each.
    by_label: HashMap<u32, IdSet>,
    /// How often endpoints of this host have labels, by the same hash. That two labels share one only wakes a policy early.
    present: HashMap<u32, u32>,
    hasher: DefaultHashBuilder,
}

/// A policy that can match from now on.
pub(super) type Woken = (ResourceKey, Policy, Selector);

impl Waiting {
    /// Whether a policy can wait: it needs a label that is not there.
    pub(super) fn can_wait(&self, selector: &Selector) -> bool {
        self.hashes(selector).is_some_and(|hashes| !hashes.iter().any(|hash| self.present.contains_key(hash)))
    }

    /// Takes a policy in that can wait and does not yet.
    pub(super) fn add(&mut self, key: &ResourceKey, policy: Policy, selector: &Selector) {
        let hashes = self.hashes(selector).unwrap_or_default();
        let id = self.policies.insert((key.clone(), policy));
        let Self { policies, keys, .. } = self;
        keys.insert(keys.hash(key), id, |id| policies.get(id).map(|(key, _)| key));
        for hash in hashes {
            self.by_label.entry(hash).or_default().insert(id);
        }
    }

    /// Takes a policy out, if it waits.
    pub(super) fn remove(&mut self, key: &ResourceKey) {
        let is = |id| self.policies.get(id).is_some_and(|(known, _)| known == key);
        if let Some(id) = self.keys.find(self.keys.hash(key), is) {
            self.take(id);
        }
    }

    /// Somebody has labels; says which policies that wakes.
    pub(super) fn arrive<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Woken> {
        let mut woken = Vec::new();
        for label in labels {
            let hash = self.hash(label);
            let count = self.present.entry(hash).or_default();
            *count += 1;
            if *count == 1 {
                let ids: Vec<u32> = self.by_label.get(&hash).into_iter().flat_map(IdSet::iter).collect();
                woken.extend(ids.into_iter().filter_map(|id| self.take(id)));
            }
        }
        woken
    }

    /// Somebody has labels no more.
    pub(super) fn leave<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for label in labels {
            let hash = self.hash(label);
            let Some(count) = self.present.get_mut(&hash) else { continue };
            *count -= 1;
            if *count == 0 {
                self.present.remove(&hash);
            }
        }
    }

    fn take(&mut self, id: u32) -> Option<Woken> {
        let (key, policy) = self.policies.remove(id)?;
        self.keys.remove(self.keys.hash(&key), id);
        let selector = policy.selector(&key)?;
        for hash in self.hashes(&selector).unwrap_or_default() {
            let Some(ids) = self.by_label.get_mut(&hash) else { continue };
            ids.remove(id);
            if ids.is_empty() {
                self.by_label.remove(&hash);
            }
        }
        Some((key, policy, selector))
    }

    /// Of labels of which it needs one; none when it may do without any.
    fn hashes(&self, selector: &Selector) -> Option<Vec<u32>> {
        Some(needed(selector)?.into_iter().map(|label| self.hash(label)).collect())
    }

    #[expect(clippy::cast_possible_truncation, reason = "a part of a hash is one")]
    fn hash(&self, label: (&str, &str)) -> u32 {
        self.hasher.hash_one(label) as u32
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::format;
    use alloc::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::resource::{GlobalNetworkPolicySpec, Kind, Metadata, Object, Resource};

    type Labels = &'static [(&'static str, &'static str)];

    /// Selectors, and the labels of which each needs one; those without may match anything.
    const SELECTORS: [(&str, Option<Labels>); 7] = [
        ("a == 'x'", Some(&[("a", "x")])),
        ("a in {'x', 'y'}", Some(&[("a", "x"), ("a", "y")])),
        ("a in {'y', 'z'} && b == 'x' && has(c)", Some(&[("b", "x")])),
        ("b == 'x' || b == 'y'", Some(&[("b", "x"), ("b", "y")])),
        ("a == 'x' || b == 'y'", None),
        ("has(a)", None),
        ("a != 'x'", None),
    ];
    const LABELS: [(&str, &str); 5] = [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x"), ("b", "y")];

    fn policy(number: usize) -> Woken {
        let name = format!("p{number}");
        let spec = GlobalNetworkPolicySpec {
            selector: SELECTORS[number % SELECTORS.len()].0.into(),
            ..GlobalNetworkPolicySpec::default()
        };
        let resource = Resource::GlobalNetworkPolicy(Object { metadata: Metadata::named(&name), spec });
        let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, &name);
        let (policy, selector) = Policy::admit(&key, &Arc::new(resource)).0.unwrap();
        (key, policy, selector)
    }

    proptest! {
        #[test]
        fn wait_exactly_until_one_has_a_label_that_they_need(steps in prop::collection::vec((0..20usize, 0..4u8), 0..80)) {
            let mut waiting = Waiting::default();
            let (mut present, mut twin) = (BTreeMap::<usize, usize>::new(), BTreeSet::new());
            for (number, step) in steps {
                let label = number % LABELS.len();
                let (key, policy, selector) = policy(number);
                let needs = |number: usize, label| SELECTORS[number % SELECTORS.len()].1.is_some_and(|needed| needed.contains(&label));
                match step {
                    0 => {
                        let woken: BTreeSet<_> = waiting.arrive([LABELS[label]]).into_iter().map(|(key, ..)| key).collect();
                        *present.entry(label).or_default() += 1;
                        let expected = twin.extract_if(.., |number| needs(*number, LABELS[label]));
                        prop_assert_eq!(woken, expected.map(|number| self::policy(number).0).collect());
                    }
                    1 => if let Some(count) = present.get_mut(&label) {
                        waiting.leave([LABELS[label]]);
                        *count -= 1;
                        present.retain(|_, count| *count > 0);
                    },
                    2 => {
                        waiting.remove(&key);
                        twin.remove(&number);
                    }
                    _ => {
                        let demands = SELECTORS[number % SELECTORS.len()].1.is_some();
                        let expected = demands && !present.keys().any(|label| needs(number, LABELS[*label]));
                        prop_assert_eq!(waiting.can_wait(&selector), expected);
                        if expected && twin.insert(number) {
                            waiting.add(&key, policy, &selector);
                        }
                    }
                }
                prop_assert_eq!(waiting.policies.iter().count(), twin.len());
            }
            twin.iter().for_each(|number| waiting.remove(&policy(*number).0));
            prop_assert!(waiting.by_label.is_empty(), "something is held for ever");
        }
    }
}
