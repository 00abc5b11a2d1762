//! What becomes of a peer's routes when its session ends (RFC 4724, 8538, 9494), family by family.
//!
//! In: what the two OPENs agreed on, and how the session ended. Out: a [`Retain`] for each family, which the RIB carries out, and the
//! deadline at which its next stage begins. However often a peer comes and goes without telling all it knows, the deadline of the first
//! loss stands, so that routes of a peer that never finishes do not live for ever.

use core::time::Duration;

use crate::time::Timestamp;

/// What becomes of the routes of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retain {
    /// They go at once.
    Drop,
    /// They stay and count as before, until then.
    Stale {
        /// When the next stage begins, or they go.
        until: Timestamp,
    },
    /// They stay as a last resort; those that say NO_LLGR go.
    LongLived {
        /// When they go.
        until: Timestamp,
    },
}

/// For how long routes of a family may be kept, as agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Patience {
    /// The peer's restart time; zero for none.
    pub(crate) restart: Duration,
    /// Beyond that, as a last resort; zero for none.
    pub(crate) long_lived: Duration,
}

/// How far the retention of one family of one peer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Retention {
    /// The long-lived stage that follows; zero if none does.
    follows: Duration,
    /// Until when anything of it may be kept.
    limit: Option<Timestamp>,
}

impl Retention {
    /// The session is lost; `grace` is added to the agreed times for the peer to tell all after it is back.
    pub(crate) fn begin(&mut self, now: Timestamp, patience: Patience, grace: Duration) -> Retain {
        let Patience { restart, long_lived } = patience;
        if restart.is_zero() && long_lived.is_zero() {
            *self = Self::default();
            return Retain::Drop;
        }
        let limit = *self.limit.get_or_insert_with(|| now.after(restart).after(long_lived).after(grace));
        if restart.is_zero() {
            self.follows = Duration::ZERO;
            return Retain::LongLived { until: now.after(long_lived).min(limit) };
        }
        self.follows = long_lived;
        Retain::Stale { until: now.after(restart).min(limit) }
    }

    /// The deadline has come and the peer has not. `Drop` is the last stage.
    pub(crate) fn advance(&mut self, now: Timestamp) -> Retain {
        let follows = core::mem::take(&mut self.follows);
        let until = now.after(follows).min(self.limit.unwrap_or(now));
        if until <= now {
            *self = Self::default();
            return Retain::Drop;
        }
        Retain::LongLived { until }
    }

    /// The peer is back: until when it may take to tell all.
    pub(crate) fn returned(&self, now: Timestamp, grace: Duration) -> Timestamp {
        now.after(grace).min(self.limit.unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_secs(seconds))
    }

    const fn patience(restart: u64, long_lived: u64) -> Patience {
        Patience { restart: Duration::from_secs(restart), long_lived: Duration::from_secs(long_lived) }
    }

    const GRACE: Duration = Duration::from_secs(360);

    #[test]
    fn stages_follow_each_other() {
        let mut both = Retention::default();
        assert_eq!(both.begin(at(0), patience(120, 3600), GRACE), Retain::Stale { until: at(120) });
        assert_eq!(both.advance(at(120)), Retain::LongLived { until: at(3720) });
        assert_eq!(both.advance(at(3720)), Retain::Drop);
        let mut short = Retention::default();
        assert_eq!(short.begin(at(0), patience(120, 0), GRACE), Retain::Stale { until: at(120) });
        assert_eq!(short.advance(at(120)), Retain::Drop);
        let mut long = Retention::default();
        assert_eq!(long.begin(at(0), patience(0, 60), GRACE), Retain::LongLived { until: at(60) });
        assert_eq!(long.advance(at(60)), Retain::Drop);
        assert_eq!(long.begin(at(0), patience(0, 0), GRACE), Retain::Drop);
    }

    /// The first loss decides, whatever comes after it.
    #[test]
    fn a_peer_that_never_finishes_gets_no_more_time() {
        let mut retention = Retention::default();
        retention.begin(at(0), patience(120, 0), GRACE);
        for again in 1..100 {
            assert!(retention.returned(at(again * 10), GRACE) <= at(480));
            let Retain::Stale { until } = retention.begin(at(again * 10), patience(120, 0), GRACE) else {
                panic!("stale routes went early")
            };
            assert!(until <= at(480), "{until:?}");
        }
    }
}
