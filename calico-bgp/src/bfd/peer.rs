//! What is configured, what arrives, what goes out, and what is told.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use calico_core::bgp::{Bfd as Parameters, PeerId};
use calico_core::net::InterfaceName;

use super::Discriminator;
use super::packet::{Diagnostic, PACKET_LENGTH, PacketError, State};

/// Configuration of a [`Bfd`](super::Bfd).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct BfdConfig {
    /// Seed of jitter and discriminators; one that differs from host to host and from start to start.
    pub seed: u64,
    /// The C bit: this machine goes on while the routing process restarts. False unless it runs in a process of its own.
    pub control_plane_independent: bool,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct BfdPeer {
    /// The other end. One whose address is link-local (IPv6) names the interface.
    pub id: PeerId,
    /// Own address; without one, what the kernel chooses, and any address of this host is taken as destination.
    pub local: Option<IpAddr>,
    /// Intervals are taken between 10 ms and 71 minutes, the multiplier as 1 at least.
    pub parameters: Parameters,
    /// Held down, and said to be so: the other end takes it for no failure.
    pub admin_down: bool,
}

/// A datagram that came in on one of BFD's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct Received<'a> {
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// Where it came in; needed if the source is link-local (IPv6).
    pub interface: Option<InterfaceName>,
    /// TTL or hop limit, as received.
    pub hop_limit: u8,
    /// It came to port 4784, not 3784.
    pub multihop: bool,
    /// UDP's payload.
    pub payload: &'a [u8],
}

/// A datagram to send, with a TTL of 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a datagram")]
pub struct Transmit {
    /// The session: each has a source port of its own.
    pub session: Discriminator,
    /// Destination.
    pub to: PeerId,
    /// Source, if one is configured.
    pub local: Option<IpAddr>,
    /// It goes to port 4784, not 3784.
    pub multihop: bool,
    /// UDP's payload.
    pub payload: [u8; PACKET_LENGTH],
}

/// What the routing protocol should know. A session that goes down and up before anybody asks is told as both, however often it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BfdEvent {
    /// Both ends hear each other.
    Up {
        /// Whose session.
        peer: PeerId,
    },
    /// They did, and do no more.
    Down {
        /// Whose session.
        peer: PeerId,
        /// Why.
        loss: Loss,
        /// The other end's C bit: its BFD does not fall with its control plane, so that this is no restart (RFC 5882 section 4.3).
        control_plane_independent: bool,
    },
}

/// Why a session is no longer up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Nothing was heard for the detection time.
    Expired,
    /// The other end hears nothing, or began anew.
    NeighborDown(Diagnostic),
    /// The other end's operator holds the session down.
    NeighborAdminDown,
    /// It is held down here.
    AdminDown,
    /// Its path has changed: another own address, single-hop instead of multihop or the reverse.
    Reconfigured,
}

/// What [`Bfd::status`](super::Bfd::status) says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BfdStatus {
    /// Configured sessions, by peer.
    pub sessions: Vec<BfdSessionStatus>,
    /// Packets that reached no session, by reason.
    pub discarded: BTreeMap<Discard, u64>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BfdSessionStatus {
    /// The other end.
    pub peer: PeerId,
    /// State here.
    pub state: State,
    /// State there, as last heard.
    pub remote_state: State,
    /// Why the state here last changed for the worse.
    pub diagnostic: Diagnostic,
    /// The same, as the other end says it.
    pub remote_diagnostic: Diagnostic,
    /// Discriminator here.
    pub discriminator: Discriminator,
    /// Discriminator there, while it is heard.
    pub remote_discriminator: Option<Discriminator>,
    /// Pause between packets that are sent, before jitter; none while the other end wants no periodic ones.
    pub transmit_interval: Option<Duration>,
    /// Silence after which the session goes down, as far as the other end's part of it is known.
    pub detection_time: Option<Duration>,
    /// Packets taken.
    pub received: u64,
    /// Packets handed out to be sent.
    pub sent: u64,
    /// Of those, such as the transport could not send.
    pub unsent: u64,
    /// How often the session came up.
    pub ups: u64,
}

/// Why a packet reached no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Discard {
    /// Single-hop, and from farther away than one hop (RFC 5881 section 5).
    #[error("the hop limit is not 255")]
    HopLimit,
    /// It is no proper packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// No such session, or not between these addresses.
    #[error("no such session")]
    UnknownSession,
}

impl Loss {
    /// Whether the path is to be taken for dead. An operator's doing, at either end, is not (RFC 5882 section 3.2).
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Expired | Self::NeighborDown(_))
    }
}
