//! The one queue of deadlines: the driver sleeps until its first, whatever the number of sessions.

use std::collections::{BTreeMap, BTreeSet};

use super::Discriminator;
use crate::time::Timestamp;

/// Which timer of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimerKind {
    /// When to send next.
    Transmit,
    /// When to look whether the detection time has passed. Packets do not move it: it looks at the time of the last one.
    Detect,
    /// When a session that is configured no more is forgotten.
    Leave,
}

type Key = (Discriminator, TimerKind);

/// Armed timers by deadline; each is armed at most once.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queue: BTreeSet<(Timestamp, Key)>,
    deadlines: BTreeMap<Key, Timestamp>,
}

impl Timers {
    /// Arms a timer, or moves it.
    pub(super) fn arm(&mut self, session: Discriminator, kind: TimerKind, deadline: Timestamp) {
        let key = (session, kind);
        if let Some(old) = self.deadlines.insert(key, deadline) {
            self.queue.remove(&(old, key));
        }
        self.queue.insert((deadline, key));
    }

    /// Arms a timer, or moves it forward; one that is due earlier stays.
    pub(super) fn arm_by(&mut self, session: Discriminator, kind: TimerKind, deadline: Timestamp) {
        if self.deadlines.get(&(session, kind)).is_none_or(|armed| *armed > deadline) {
            self.arm(session, kind, deadline);
        }
    }

    pub(super) fn disarm(&mut self, session: Discriminator, kind: TimerKind) {
        let key = (session, kind);
        if let Some(old) = self.deadlines.remove(&key) {
            self.queue.remove(&(old, key));
        }
    }

    /// The next timer that is due, which is thereby disarmed.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<Key> {
        let (deadline, key) = *self.queue.first()?;
        (deadline <= now).then(|| {
            self.disarm(key.0, key.1);
            key
        })
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }
}
