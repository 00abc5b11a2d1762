//! The monotonic clock, as the speaker counts it.

use tokio::time::Instant;

use crate::time::Timestamp;

/// Translates between the runtime's clock and the speaker's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.origin.elapsed())
    }

    /// The runtime's name for a moment. One too far away to be expressed is replaced by one that is far enough.
    pub(super) fn instant(&self, moment: Timestamp) -> Instant {
        const FAR: core::time::Duration = core::time::Duration::from_secs(86_400);
        self.origin.checked_add(moment.since_origin()).unwrap_or_else(|| Instant::now() + FAR)
    }
}
