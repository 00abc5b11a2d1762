//! The speaker: BGP as a machine without sockets, clock or tasks.

mod bfd;
mod config;
mod connect;
mod desired;
mod dynamic;
mod end;
mod hindrance;
mod limits;
mod receive;
mod report;
mod restart;
mod routes;
mod transmit;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use calico_core::bgp::{DynamicPeers, LocalSpeaker, PeerId};

pub use self::config::SpeakerConfig;
pub use crate::session::connection::ConnectionId;

use crate::bfd::BfdPeer;
use crate::rib::Rib;
use crate::session::backoff::Jitter;
use crate::session::graceful_restart::Recovery;
use crate::session::peer::Peer;
use crate::session::peer_index::PeerIndices;
use crate::session::timer::{TimerKey, Timers};
use crate::session::transport::{Listening, Transport};
use crate::time::Timestamp;

/// What the transport should do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a transport must carry out every one")]
pub enum Action {
    /// Open a TCP connection; answer with [`Speaker::handle_connected`] or [`Speaker::handle_closed`].
    Connect {
        /// Its name from now on.
        connection: ConnectionId,
        /// Whom to connect to.
        peer: PeerId,
        /// Which port.
        port: u16,
        /// How.
        transport: Transport,
    },
    /// Write these last bytes if there are any and the connection still takes them, then close it. The speaker has forgotten the
    /// connection already.
    Disconnect {
        /// Which.
        connection: ConnectionId,
        /// What to write first.
        last: Vec<u8>,
    },
    /// Listen there and nowhere else from now on, and know these keys; hand in who calls with [`Speaker::handle_accepted`].
    Listen(Listening),
    /// Watch these paths by BFD, and no others from now on; hand in what becomes of them with [`Speaker::handle_bfd`].
    Watch(Vec<BfdPeer>),
}

/// A BGP speaker.
///
/// Time is an argument; effects are return values. One caller drives it (it is neither clever about threads nor needs to be):
///
/// | Methods | Class |
/// |---|---|
/// | [`set_desired`](Self::set_desired), [`reset`](Self::reset) | command |
/// | [`handle_connected`](Self::handle_connected), [`handle_accepted`](Self::handle_accepted), [`handle_bytes`](Self::handle_bytes), [`handle_closed`](Self::handle_closed) | transport in |
/// | [`handle_bfd`](Self::handle_bfd) | liveness in |
/// | [`handle_timeout`](Self::handle_timeout) | time in |
/// | [`poll_action`](Self::poll_action), [`transport`](Self::transport), [`poll_ready`](Self::poll_ready), [`poll_transmit`](Self::poll_transmit) | transport out |
/// | [`poll_event`](Self::poll_event) | routes, sessions and completeness out |
/// | [`poll_timeout`](Self::poll_timeout) | time out |
/// | [`status`](Self::status), [`explain`](Self::explain), [`routes`](Self::routes), [`received_from`](Self::received_from), [`advertised_to`](Self::advertised_to) | picture, at any time |
///
/// After any command or input, in this order: carry out every [`Action`]; for each connection that `poll_ready` names, take
/// bytes with `poll_transmit` as fast as the connection drains and until nothing is left; take events at whatever pace suits
/// (they are states, and coalesce); sleep until `poll_timeout`.
///
/// Everything that waits inside is bounded by configuration and by the number of prefixes: neither a peer that does not read
/// nor a consumer that does not poll makes it grow.
///
/// Dropping it says nothing to anybody: peers that know graceful restart keep our routes.
///
/// ```
/// use calico_bgp::{Action, Speaker, SpeakerConfig, Timestamp};
/// use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Originated, PeerKind};
/// use calico_core::net::AsNumber;
///
/// let own = "192.168.0.2".parse()?;
/// let as_number = AsNumber::DEFAULT;
/// let peer = DesiredPeer::new("192.168.0.1".parse()?, as_number, PeerKind::Mesh, "b");
/// let desired = DesiredBgp {
///     local: Some(LocalSpeaker::new("a", as_number, own)),
///     peers: vec![peer],
///     originated: vec![Originated::block("10.1.0.0/26".parse()?)],
///     ..DesiredBgp::default()
/// };
///
/// let mut speaker = Speaker::new(SpeakerConfig::default());
/// speaker.set_desired(Timestamp::ZERO, &desired);
/// speaker.handle_timeout(Timestamp::ZERO);
/// let Some(Action::Listen(listening)) = speaker.poll_action() else { panic!("peers may call") };
/// assert_eq!(listening.port, 179);
/// let Some(Action::Connect { connection, .. }) = speaker.poll_action() else { panic!("it calls at once") };
/// speaker.handle_connected(Timestamp::ZERO, connection);
/// let mut open = Vec::new();
/// speaker.poll_transmit(connection, &mut open);
/// assert_eq!(open[18], 1, "an OPEN");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Speaker {
    config: SpeakerConfig,
    local: Option<LocalSpeaker>,
    peers: BTreeMap<PeerId, Peer>,
    /// Ranges whose callers become peers.
    dynamic: Vec<DynamicPeers>,
    indices: PeerIndices,
    /// Which peer a connection belongs to.
    owners: HashMap<ConnectionId, PeerId>,
    rib: Rib,
    timers: Timers,
    jitter: Jitter,
    recovery: Recovery,
    next_connection: u64,
    actions: VecDeque<Action>,
    ready: VecDeque<ConnectionId>,
    /// Peers whose status has changed since it was last reported.
    changed: BTreeSet<PeerId>,
    /// What the transport was told last.
    listening: Listening,
    watched: Vec<BfdPeer>,
    /// The latest time that the speaker was told.
    seen: Timestamp,
}

impl Speaker {
    /// A speaker without sessions. `config.seed` decides all its jitter.
    pub fn new(config: SpeakerConfig) -> Self {
        let jitter = Jitter::new(config.seed);
        Self {
            config,
            local: None,
            peers: BTreeMap::new(),
            dynamic: Vec::new(),
            indices: PeerIndices::default(),
            owners: HashMap::new(),
            rib: Rib::default(),
            timers: Timers::default(),
            jitter,
            recovery: Recovery::NotStarted,
            next_connection: 0,
            actions: VecDeque::new(),
            ready: VecDeque::new(),
            changed: BTreeSet::new(),
            listening: Listening::default(),
            watched: Vec::new(),
            seen: Timestamp::ZERO,
        }
    }

    /// Time has come to what [`poll_timeout`](Self::poll_timeout) said. Calling it early does no harm.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.seen = now;
        while let Some(key) = self.timers.pop_due(now) {
            match key {
                TimerKey::Retry(peer) => self.retry_due(now, peer),
                TimerKey::Hold(connection) => self.hold_due(now, connection),
                TimerKey::Keepalive(connection) => self.keepalive_due(now, connection),
                TimerKey::Retention(peer, family) => self.retention_due(now, peer, family),
                TimerKey::Deferral => self.end_recovery(),
            }
        }
    }

    /// What the transport should do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.timers.next_deadline()
    }

    fn new_connection_id(&mut self) -> ConnectionId {
        self.next_connection += 1;
        ConnectionId::new(self.next_connection)
    }
}
