//! The monotonic clock, as the machines here count it.

use tokio::time::Instant;

use crate::time::Timestamp;

/// Translates between the runtime's clock and the machines'.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.origin.elapsed())
    }

    /// Never, where there is no deadline or it is too far away to be expressed.
    pub(crate) async fn sleep_until(&self, deadline: Option<Timestamp>) {
        match deadline.and_then(|deadline| self.origin.checked_add(deadline.since_origin())) {
            Some(instant) => tokio::time::sleep_until(instant).await,
            None => core::future::pending().await,
        }
    }
}
