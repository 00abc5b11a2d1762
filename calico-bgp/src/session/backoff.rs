//! When to try again.
//!
//! A mesh converges as fast as its slowest pair connects, so the first retries are quick and only their growth is bounded by
//! upstream's values (connect retry 5 s, error wait 5 to 30 s). All delays are jittered to 75–100 % (RFC 4271 section 10), from
//! the seed that the speaker was given.

use core::time::Duration;

use crate::random::Random;

/// First wait after a failed or lost connection: a node that restarts is back within a second or two.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// Longest wait between attempts to connect.
const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// First wait after a NOTIFICATION: something must change before it can go better.
const ERROR_FIRST: Duration = Duration::from_secs(5);
/// Longest wait after NOTIFICATIONs.
const ERROR_LONGEST: Duration = Duration::from_secs(30);

/// Waiting times of one peer.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
    errors: u32,
}

impl Backoff {
    /// Wait before the next attempt to connect.
    pub(crate) fn retry(&mut self, jitter: &mut Jitter) -> Duration {
        let delay = doubled(RETRY_FIRST, self.attempts, RETRY_LONGEST);
        self.attempts = self.attempts.saturating_add(1);
        jitter.apply(delay)
    }

    /// Wait after a NOTIFICATION.
    pub(crate) fn error(&mut self, jitter: &mut Jitter) -> Duration {
        let delay = doubled(ERROR_FIRST, self.errors, ERROR_LONGEST);
        self.errors = self.errors.saturating_add(1);
        jitter.apply(delay)
    }

    /// All is well again.
    pub(crate) const fn reset(&mut self) {
        self.attempts = 0;
        self.errors = 0;
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << times.min(8)).min(longest)
}

/// Spread of delays, by seed.
#[derive(Debug)]
pub(crate) struct Jitter(Random);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Between 75 and 100 % of a delay.
    pub(crate) fn apply(&mut self, delay: Duration) -> Duration {
        self.0.spread(delay, 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_its_limit_and_starts_anew() {
        let (mut backoff, mut jitter) = (Backoff::default(), Jitter::new(7));
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            let delay = backoff.retry(&mut jitter);
            assert!(delay >= RETRY_FIRST * 3 / 4 && delay <= RETRY_LONGEST, "{delay:?}");
            longest = longest.max(delay);
        }
        assert!(longest > RETRY_LONGEST * 3 / 4, "{longest:?}");
        backoff.reset();
        assert!(backoff.retry(&mut jitter) <= RETRY_FIRST);
        assert!(backoff.error(&mut jitter) >= ERROR_FIRST * 3 / 4);
    }
}
