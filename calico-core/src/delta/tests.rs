//! The tracker against its naive twin: two maps, compared in full at every question.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Desire(u8, u8),
    DesireAll(Vec<(u8, u8)>),
    Drop(u8),
    Observe(u8, Option<u8>),
    ObserveAll(Vec<(u8, u8)>),
    Find(u8, Option<u8>),
    Snapshot(BTreeMap<u8, u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let (key, value) = (0..6_u8, 0..3_u8);
    prop_oneof![
        (key.clone(), value.clone()).prop_map(|(k, v)| Step::Desire(k, v)),
        several().prop_map(Step::DesireAll),
        several().prop_map(Step::ObserveAll),
        key.clone().prop_map(Step::Drop),
        (key.clone(), proptest::option::of(value.clone())).prop_map(|(k, v)| Step::Observe(k, v)),
        (key.clone(), proptest::option::of(value.clone())).prop_map(|(k, v)| Step::Find(k, v)),
        proptest::collection::btree_map(key, value, 0..4).prop_map(Step::Snapshot),
    ]
}

/// In order or not.
fn several() -> impl Strategy<Value = Vec<(u8, u8)>> {
    let ordered = proptest::collection::btree_map(0..6_u8, 0..3_u8, 0..6).prop_map(|map| map.into_iter().collect());
    prop_oneof![3 => ordered, 1 => proptest::collection::vec((0..6_u8, 0..3_u8), 0..6)]
}

proptest! {
    #[test]
    fn pending_is_what_two_maps_say(steps in proptest::collection::vec(step(), 0..60)) {
        let mut tracker = Tracker::default();
        let (mut desired, mut observed) = (BTreeMap::new(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Desire(key, value) => {
                    tracker.set_desired(key, value);
                    desired.insert(key, value);
                }
                Step::DesireAll(values) => {
                    tracker.set_all_desired(values.clone());
                    desired.extend(values);
                }
                Step::ObserveAll(values) => {
                    tracker.set_all_observed(values.iter().map(|(key, value)| (key, value)));
                    observed.extend(values);
                }
                Step::Drop(key) => {
                    tracker.remove_desired(key);
                    desired.remove(&key);
                }
                Step::Observe(key, value) => {
                    tracker.set_observed(key, value);
                    match value {
                        Some(value) => observed.insert(key, value),
                        None => observed.remove(&key),
                    };
                }
                Step::Find(key, value) => {
                    let wanted = desired.get(&key);
                    let undone = wanted == observed.get(&key) && wanted != value.as_ref();
                    prop_assert_eq!(tracker.observe(key, value), undone);
                    match value {
                        Some(value) => observed.insert(key, value),
                        None => observed.remove(&key),
                    };
                }
                Step::Snapshot(snapshot) => {
                    let undone: Vec<u8> = tracker.observe_all(snapshot.clone()).collect();
                    let wanted = |key: &u8| desired.get(key);
                    let naive = (0..6).filter(|k| wanted(k) == observed.get(k) && wanted(k) != snapshot.get(k));
                    prop_assert_eq!(undone, naive.collect::<Vec<_>>());
                    observed = snapshot;
                }
            }
            let naive: Vec<(u8, Option<u8>, Option<u8>)> = (0..6)
                .map(|key| (key, desired.get(&key).copied(), observed.get(&key).copied()))
                .filter(|(_, wanted, found)| wanted != found)
                .collect();
            let pending: Vec<_> =
                tracker.pending().map(|d| (*d.key, d.desired.copied(), d.observed.copied())).collect();
            prop_assert_eq!(&pending, &naive);
            prop_assert_eq!(tracker.pending_len(), naive.len());
            prop_assert!((0..6).all(|key| tracker.is_settled(&key) != naive.iter().any(|(k, ..)| *k == key)));
            let range = tracker.range(2..5).map(|found| (*found.key, found.desired.copied(), found.observed.copied()));
            let both = |key| (key, desired.get(&key).copied(), observed.get(&key).copied());
            let both = (2..5).map(both).filter(|(_, desired, observed)| desired.is_some() || observed.is_some());
            prop_assert!(range.eq(both));
            let keys: BTreeSet<u8> = tracker.keys().collect();
            prop_assert_eq!(&keys, &desired.keys().chain(observed.keys()).copied().collect());
            prop_assert_eq!(tracker.keys().len(), keys.len());
            prop_assert_eq!(tracker.is_empty(), keys.is_empty());
            prop_assert!(tracker.iter_desired().eq(desired.iter()));
            prop_assert!(tracker.iter_observed().eq(observed.iter()));
        }
    }
}
