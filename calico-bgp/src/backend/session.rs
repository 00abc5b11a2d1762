//! What an operator asks of one session.

use core::net::Ipv4Addr;
use core::time::Duration;

use calico_core::bgp::{Families, Role};

/// A session beyond its state. What a backend does not know stays as [`Default`] says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals over the default")]
pub struct SessionDetails {
    /// For how long it has been in its state.
    pub state_for: Option<Duration>,
    /// Changes of state so far.
    pub transitions: u64,
    /// How often it was Established.
    pub established: u64,
    /// Messages to the peer, over all its sessions.
    pub messages_sent: MessageCounts,
    /// Messages from the peer, over all its sessions.
    pub messages_received: MessageCounts,
    /// The last NOTIFICATION that was sent, with the reason.
    pub last_sent: Option<String>,
    /// The last NOTIFICATION that came.
    pub last_received: Option<String>,
    /// IPv4 and IPv6 prefixes that it has announced.
    pub prefixes_received: [usize; 2],
    /// Prefixes that were announced to it.
    pub prefixes_sent: usize,
    /// The peer is one because it called from a range.
    pub is_dynamic: bool,
    /// Whether BFD reaches it; none where BFD is not asked for.
    pub bfd_up: Option<bool>,
    /// What both ends agreed on, while Established.
    pub agreed: Option<Agreed>,
}

/// Messages by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the message types of RFC 4271 and 2918")]
pub struct MessageCounts {
    /// OPEN.
    pub opens: u64,
    /// UPDATE.
    pub updates: u64,
    /// NOTIFICATION.
    pub notifications: u64,
    /// KEEPALIVE.
    pub keepalives: u64,
    /// ROUTE-REFRESH.
    pub route_refreshes: u64,
}

/// What two OPENs agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct Agreed {
    /// The peer's BGP identifier.
    pub identifier: Ipv4Addr,
    /// Families whose routes are exchanged.
    pub families: Families,
    /// Hold time; none if there is none.
    pub hold_time: Option<Duration>,
    /// Pause between two KEEPALIVEs.
    pub keepalive: Option<Duration>,
    /// AS numbers of four octets.
    pub four_octet_as: bool,
    /// The peer answers route refreshes …
    pub route_refresh: bool,
    /// … and marks their begin and end, as this end does.
    pub enhanced_route_refresh: bool,
    /// Messages of up to 65 535 octets.
    pub extended_messages: bool,
    /// Families of which several paths come.
    pub add_path_receive: Families,
    /// Families of which several paths go.
    pub add_path_send: Families,
    /// IPv4 prefixes may have IPv6 next hops.
    pub extended_next_hop: bool,
    /// Families whose routes are kept while the peer restarts, and for how long.
    pub graceful_restart: Families,
    /// For how long that is.
    pub restart_time: Duration,
    /// Families whose routes the peer may be kept even longer.
    pub long_lived: Families,
    /// NOTIFICATIONs count as restarts, too.
    pub notification_restarts: bool,
    /// Role of the peer.
    pub role: Option<Role>,
}
