//! One TCP connection to a peer, as the protocol sees it.

use core::fmt;

use calico_core::bgp::Families;

use super::collision::{Direction, Standing};
use super::negotiate::Negotiated;
use super::state::ConnectionState;
use crate::time::Timestamp;
use crate::wire::{DecodeContext, Framer, Open, PeerType};

/// Names one connection for as long as it lives; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) direction: Direction,
    pub(crate) state: ConnectionState,
    pub(crate) framer: Framer,
    /// Messages other than UPDATE, which go out first: a KEEPALIVE must not queue behind routes.
    pub(crate) control: Vec<u8>,
    /// Our OPEN.
    pub(crate) sent_open: Option<Open>,
    /// What the OPENs agreed on.
    pub(crate) negotiated: Option<Negotiated>,
    /// When the last message arrived.
    pub(crate) heard_at: Timestamp,
    /// Whether silence beyond the hold time was put down to a stall of our own, once.
    pub(crate) excused: bool,
    pub(crate) established_at: Option<Timestamp>,
    /// Families whose end-of-RIB has not come.
    pub(crate) awaited: Families,
    /// Since when `control` has been waiting for the transport.
    pub(crate) stalled_since: Option<Timestamp>,
    /// Whether the transport has been told that something waits.
    pub(crate) is_ready: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, direction: Direction, now: Timestamp) -> Self {
        Self {
            id,
            direction,
            state: ConnectionState::Connect,
            framer: Framer::default(),
            control: Vec::new(),
            sent_open: None,
            negotiated: None,
            heard_at: now,
            excused: false,
            established_at: None,
            awaited: Families::NONE,
            stalled_since: None,
            is_ready: false,
        }
    }

    pub(crate) fn standing(&self, now: Timestamp) -> Standing {
        Standing {
            direction: self.direction,
            state: self.state,
            established_for: self.established_at.map(|since| now.since(since)),
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        self.state == ConnectionState::Established
    }

    /// How messages are to be read. Internal until the OPEN has said otherwise; no attribute is read before.
    pub(crate) fn decode_context(&self) -> DecodeContext {
        self.negotiated.as_ref().map_or(DecodeContext::new(PeerType::Internal), |negotiated| negotiated.decode)
    }
}
