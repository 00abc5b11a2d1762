//! The timers of sessions.

use super::Discriminator;

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

/// Armed timers of all sessions.
pub(super) type Timers = crate::timer::Timers<(Discriminator, TimerKind)>;
