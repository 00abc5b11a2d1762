//! Bidirectional Forwarding Detection: a dead path is noticed in a fraction of a second, whatever BGP's hold time is.
//!
//! RFC 5880 (asynchronous mode), 5881 (one hop, IPv4 and IPv6) and 5883 (several hops); RFC 5882 for what a routing protocol makes of it.
//!
//! | You want | Take |
//! |---|---|
//! | sessions with real peers | `BfdEndpoint` (feature `tokio`): say which peers there are, read [`BfdEvent`]s |
//! | the protocol in your own event loop | [`Bfd`]: datagrams and time in; datagrams, deadlines and events out |
//! | only the packets | [`ControlPacket`] |
//!
//! ```text
//! BfdPeer ─▶ Bfd ── session (states, intervals, polls), one per peer ──▶ BfdEvent
//!             │ └── timer (one queue for all sessions)
//!             ▼
//!           packet
//! ```
//!
//! For review: the number of sessions is the number of configured ones (and, for seconds, of those that were just removed); nothing
//! is made or kept because a packet came, but a counter per reason to discard. Each session owes at most one packet, so one that
//! comes in never causes more than one that goes out.
//!
//! | From | What | Why |
//! |---|---|---|
//! | RFC 5880 6.8.6 | a packet must have the session's addresses and port besides its discriminator | the number alone can be guessed |
//! | RFC 5880 6.8.6 | P with F is discarded | forbidden to send (6.5); answered, it would be answered for ever |
//! | RFC 5880 6.8.1 | when the detection time passes, not only bfd.RemoteDiscr is forgotten | the interval of a peer that is gone must not keep this end from calling its successor |
//! | RFC 5880 6.8.4 | authentication, echo and own demand mode are absent | the hop limit protects single-hop sessions; nobody asked for the others |
//!
//! What a BGP speaker makes of it is in [`Speaker::handle_bfd`](crate::Speaker::handle_bfd): a loss that [is a failure](Loss::is_failure) ends
//! the session with Cease/10 (RFC 9384); its routes go at once, unless graceful restart is agreed and the other end's BFD was not
//! `control_plane_independent` (RFC 5882 section 4.3: then the peer may just be restarting, and its routes become stale). `Up` cuts the
//! wait for the next attempt to connect short. BGP does not wait for BFD to come up: a peer without BFD would never be reached.

use core::num::NonZeroU32;

mod intervals;
mod machine;
mod packet;
mod peer;
mod random;
#[cfg(feature = "tokio")]
mod runtime;
mod session;
#[cfg(test)]
mod tests;
mod timer;

pub use machine::Bfd;
pub use packet::{ControlPacket, Diagnostic, PACKET_LENGTH, PacketError, State};
pub use peer::{BfdConfig, BfdEvent, BfdPeer, BfdSessionStatus, BfdStatus, Discard, Loss, Received, Transmit};
#[cfg(feature = "tokio")]
pub use runtime::{BfdEndpoint, BfdEndpointConfig, BfdError};

/// Number by which the other end names a session here.
pub type Discriminator = NonZeroU32;

/// Destination port of single-hop sessions (RFC 5881).
pub const SINGLE_HOP_PORT: u16 = 3784;
/// Destination port of multihop sessions (RFC 5883).
pub const MULTIHOP_PORT: u16 = 4784;
/// TTL or hop limit of what is sent, and of what a single-hop session takes: it cannot come from beyond the link.
pub const HOP_LIMIT: u8 = 255;
