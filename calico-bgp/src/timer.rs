//! A queue of deadlines: whoever drives a machine sleeps until [`Timers::next_deadline`], whatever the number of sessions.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Timestamp;

/// Armed timers by deadline; each key is armed at most once.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    queue: BTreeSet<(Timestamp, K)>,
    deadlines: BTreeMap<K, Timestamp>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { queue: BTreeSet::new(), deadlines: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Timers<K> {
    /// Arms a timer, or moves it.
    pub(crate) fn arm(&mut self, key: K, deadline: Timestamp) {
        if let Some(old) = self.deadlines.insert(key, deadline) {
            self.queue.remove(&(old, key));
        }
        self.queue.insert((deadline, key));
    }

    /// Arms a timer, or moves it forward; one that is due earlier stays.
    pub(crate) fn arm_by(&mut self, key: K, deadline: Timestamp) {
        if self.deadlines.get(&key).is_none_or(|armed| *armed > deadline) {
            self.arm(key, deadline);
        }
    }

    pub(crate) fn disarm(&mut self, key: K) {
        if let Some(old) = self.deadlines.remove(&key) {
            self.queue.remove(&(old, key));
        }
    }

    #[cfg(test)]
    pub(crate) fn is_armed(&self, key: K) -> bool {
        self.deadlines.contains_key(&key)
    }

    /// The next timer that is due, which is thereby disarmed.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<K> {
        let (deadline, key) = *self.queue.first()?;
        (deadline <= now).then(|| {
            self.disarm(key);
            key
        })
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Arm(u64, u64),
        ArmBy(u64, u64),
        Disarm(u64),
        Pop(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0..5_u64, 0..20_u64).prop_map(|(key, at)| Operation::Arm(key, at)),
            (0..5_u64, 0..20_u64).prop_map(|(key, at)| Operation::ArmBy(key, at)),
            (0..5_u64).prop_map(Operation::Disarm),
            (0..20_u64).prop_map(Operation::Pop),
        ]
    }

    proptest! {
        /// The twin is a plain list.
        #[test]
        fn agrees_with_a_list(operations in prop::collection::vec(operation(), 0..60)) {
            let key = |number: u64| number;
            let at = |seconds| Timestamp::from_origin(Duration::from_secs(seconds));
            let (mut timers, mut twin) = (Timers::default(), Vec::<(u64, u64)>::new());
            for operation in operations {
                match operation {
                    Operation::Arm(number, time) => {
                        timers.arm(key(number), at(time));
                        twin.retain(|(_, known)| *known != number);
                        twin.push((time, number));
                    }
                    Operation::ArmBy(number, time) => {
                        timers.arm_by(key(number), at(time));
                        if !twin.iter().any(|(armed, known)| *known == number && *armed <= time) {
                            twin.retain(|(_, known)| *known != number);
                            twin.push((time, number));
                        }
                    }
                    Operation::Disarm(number) => {
                        timers.disarm(key(number));
                        twin.retain(|(_, known)| *known != number);
                    }
                    Operation::Pop(now) => {
                        twin.sort_unstable();
                        let due = twin.first().copied().filter(|(time, _)| *time <= now);
                        twin.retain(|entry| Some(*entry) != due);
                        prop_assert_eq!(timers.pop_due(at(now)), due.map(|(_, number)| key(number)));
                    }
                }
                prop_assert_eq!(timers.next_deadline(), twin.iter().map(|(time, _)| at(*time)).min());
                for number in 0..5 {
                    let armed = twin.iter().any(|(_, known)| *known == number);
                    prop_assert_eq!(timers.is_armed(key(number)), armed);
                }
            }
        }
    }
}
