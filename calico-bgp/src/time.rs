//! The only way time enters the speaker: as an argument.

use core::time::Duration;

/// A moment on the caller's monotonic clock, counted from an origin of the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(Duration);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// The moment that lies `elapsed` after the origin.
    pub const fn from_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Distance from the origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The moment `delay` later, or the last representable one.
    pub const fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }

    /// Time since `earlier`; zero when that lies in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
