//! The timers of sessions.
//!
//! Every protocol timer of every session is an entry here; the runtime sleeps until [`next_deadline`](crate::timer::Timers::next_deadline). Timers that are
//! pushed back by every message (hold) are not re-armed each time: their owner looks at the time of the last message when they
//! fire, and arms them anew for the rest.

use calico_core::bgp::PeerId;
use calico_core::net::Family;

use super::connection::ConnectionId;

/// Which timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TimerKey {
    /// ConnectRetryTimer, IdleHoldTimer and the delay of the first attempt: when to connect next.
    Retry(PeerId),
    /// HoldTimer; before the OPEN exchange, the limit for that.
    Hold(ConnectionId),
    /// KeepaliveTimer.
    Keepalive(ConnectionId),
    /// When what is stale of a family goes, or becomes a last resort (RFC 4724, 7313, 9494).
    Retention(PeerId, Family),
    /// Selection_Deferral_Timer (RFC 4724).
    Deferral,
}

/// Armed timers of all sessions.
pub(crate) type Timers = crate::timer::Timers<TimerKey>;
