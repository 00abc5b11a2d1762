//! The one queue of deadlines.
//!
//! Every protocol timer of every session is an entry here; the runtime sleeps until [`Timers::next_deadline`]. Timers that are
//! pushed back by every message (hold) are not re-armed each time: their owner looks at the time of the last message when they
//! fire, and arms them anew for the rest.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use super::connection::ConnectionId;
use crate::time::Timestamp;

/// Which timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TimerKey {
    /// ConnectRetryTimer, IdleHoldTimer and the delay of the first attempt: when to connect next.
    Retry(IpAddr),
    /// HoldTimer; before the OPEN exchange, the limit for that.
    Hold(ConnectionId),
    /// KeepaliveTimer.
    Keepalive(ConnectionId),
    /// How long stale routes of a restarting peer are kept (RFC 4724).
    Retention(IpAddr),
    /// Selection_Deferral_Timer (RFC 4724).
    Deferral,
}

/// Armed timers by deadline; each key is armed at most once.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Timestamp, TimerKey)>,
    deadlines: BTreeMap<TimerKey, Timestamp>,
}

impl Timers {
    /// Arms a timer, or moves it.
    pub(crate) fn arm(&mut self, key: TimerKey, deadline: Timestamp) {
        if let Some(old) = self.deadlines.insert(key, deadline) {
            self.queue.remove(&(old, key));
        }
        self.queue.insert((deadline, key));
    }

    pub(crate) fn disarm(&mut self, key: TimerKey) {
        if let Some(old) = self.deadlines.remove(&key) {
            self.queue.remove(&(old, key));
        }
    }

    #[cfg(test)]
    pub(crate) fn is_armed(&self, key: TimerKey) -> bool {
        self.deadlines.contains_key(&key)
    }

    /// The next timer that is due, which is thereby disarmed.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<TimerKey> {
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
        Disarm(u64),
        Pop(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0..5_u64, 0..20_u64).prop_map(|(key, at)| Operation::Arm(key, at)),
            (0..5_u64).prop_map(Operation::Disarm),
            (0..20_u64).prop_map(Operation::Pop),
        ]
    }

    proptest! {
        /// The twin is a plain list.
        #[test]
        fn agrees_with_a_list(operations in prop::collection::vec(operation(), 0..60)) {
            let key = |number| TimerKey::Hold(ConnectionId::new(number));
            let at = |seconds| Timestamp::from_origin(Duration::from_secs(seconds));
            let (mut timers, mut twin) = (Timers::default(), Vec::<(u64, u64)>::new());
            for operation in operations {
                match operation {
                    Operation::Arm(number, time) => {
                        timers.arm(key(number), at(time));
                        twin.retain(|(_, known)| *known != number);
                        twin.push((time, number));
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
