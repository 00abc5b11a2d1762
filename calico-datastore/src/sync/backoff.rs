//! How long to wait before asking a store again.

use std::time::Duration;

/// First wait. Short, because the usual cause is a watch that fell behind, or a server that was replaced.
const FIRST: Duration = Duration::from_millis(100);

/// Doubling waits, with a ceiling.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    next: Duration,
    ceiling: Duration,
}

impl Backoff {
    pub(super) fn new(ceiling: Duration) -> Self {
        Self { next: FIRST.min(ceiling), ceiling }
    }

    /// The store works: the next trouble is a new one.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.ceiling);
    }

    /// The wait before the next try.
    pub(super) fn advance(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.ceiling);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_ceiling_and_starts_over() {
        let mut backoff = Backoff::new(Duration::from_millis(350));
        let waits: Vec<_> = (0..4).map(|_| backoff.advance().as_millis()).collect();
        assert_eq!(waits, [100, 200, 350, 350]);
        backoff.reset();
        assert_eq!(backoff.advance().as_millis(), 100);
    }
}
