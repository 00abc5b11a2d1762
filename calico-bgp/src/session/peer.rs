//! A configured peer: its connections, and what is told of it. Its routes are the RIB's, which knows it by its number.

use calico_core::bgp::{DesiredPeer, PeerId};
use calico_core::net::Cidr;

use super::backoff::Backoff;
use super::collision::Direction;
use super::connection::{Connection, ConnectionId};
use super::peer_index::PeerIndex;
use super::per_family::PerFamily;
use super::retention::Retention;
use super::state::ConnectionState;
use crate::backend::{MessageCounts, PeerStatus, SessionDetails, SessionState};
use crate::time::Timestamp;

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) desired: DesiredPeer,
    /// Its name in the RIBs.
    pub(crate) index: PeerIndex,
    /// The range that it called from, if only its call made it a peer.
    pub(crate) range: Option<Cidr>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) backoff: Backoff,
    /// Refuses connections until the retry timer fires: the last one ended with an error that will not mend itself.
    pub(crate) is_idle: bool,
    pub(crate) retention: PerFamily<Retention>,
    pub(crate) record: Record,
}

/// What is remembered for those who ask.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Why there is no session, or the last one ended.
    pub(crate) last_error: Option<String>,
    pub(crate) last_sent: Option<String>,
    pub(crate) last_received: Option<String>,
    pub(crate) sent: MessageCounts,
    pub(crate) received: MessageCounts,
    /// State when it was last looked at, and since when.
    pub(crate) state: Option<(SessionState, Timestamp)>,
    pub(crate) transitions: u64,
    pub(crate) established: u64,
    /// Liveness as BFD sees it, where it is asked for.
    pub(crate) bfd_up: Option<bool>,
}

/// How many routes there are of a peer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RouteCounts {
    /// Paths that it announced and that may be used.
    pub(crate) accepted: usize,
    /// Paths that it announced, by family.
    pub(crate) received: [usize; 2],
    /// Paths that it was told.
    pub(crate) sent: usize,
}

impl Peer {
    pub(crate) fn new(desired: DesiredPeer, index: PeerIndex) -> Self {
        Self {
            desired,
            index,
            range: None,
            connections: Vec::new(),
            backoff: Backoff::default(),
            is_idle: false,
            retention: PerFamily::default(),
            record: Record::default(),
        }
    }

    pub(crate) const fn id(&self) -> PeerId {
        self.desired.id
    }

    pub(crate) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    pub(crate) fn established(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.is_established())
    }

    pub(crate) fn is_established(&self) -> bool {
        self.connections.iter().any(Connection::is_established)
    }

    /// A connection of that direction that is not established (yet).
    pub(crate) fn pending(&self, direction: Direction) -> Option<ConnectionId> {
        let pending = |connection: &&Connection| connection.direction == direction && !connection.is_established();
        self.connections.iter().find(pending).map(|connection| connection.id)
    }

    pub(crate) fn state(&self) -> SessionState {
        let furthest = self.connections.iter().map(|connection| connection.state).max();
        match furthest {
            Some(ConnectionState::Established) => SessionState::Established,
            Some(ConnectionState::OpenConfirm) => SessionState::OpenConfirm,
            Some(ConnectionState::OpenSent) => SessionState::OpenSent,
            Some(ConnectionState::Connect) => SessionState::Connect,
            None if self.is_idle => SessionState::Idle,
            None => SessionState::Active,
        }
    }

    /// Notes a change of state, if there is one.
    pub(crate) fn note_state(&mut self, now: Timestamp) {
        let (state, record) = (self.state(), &mut self.record);
        if record.state.is_none_or(|(before, _)| before != state) {
            record.transitions += u64::from(record.state.is_some());
            record.established += u64::from(state == SessionState::Established);
            record.state = Some((state, now));
        }
    }

    /// A picture of it; the RIB knows the `routes`.
    pub(crate) fn status(&self, now: Timestamp, routes: RouteCounts) -> PeerStatus {
        PeerStatus {
            peer: self.desired.clone(),
            state: self.state(),
            received: routes.accepted,
            last_error: self.record.last_error.clone(),
            details: self.details(now, routes),
        }
    }

    fn details(&self, now: Timestamp, routes: RouteCounts) -> SessionDetails {
        let record = &self.record;
        let established = self.connections.iter().find(|connection| connection.is_established());
        let negotiated = established.and_then(|connection| connection.negotiated.as_ref());
        SessionDetails {
            state_for: record.state.map(|(_, since)| now.since(since)),
            transitions: record.transitions,
            established: record.established,
            messages_sent: record.sent,
            messages_received: record.received,
            last_sent: record.last_sent.clone(),
            last_received: record.last_received.clone(),
            prefixes_received: routes.received,
            prefixes_sent: routes.sent,
            is_dynamic: self.range.is_some(),
            bfd_up: record.bfd_up,
            agreed: negotiated.map(|negotiated| negotiated.agreed(self.desired.session.keepalive)),
        }
    }
}
