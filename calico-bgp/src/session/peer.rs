//! A configured peer: its connections and its two RIBs.

use calico_core::bgp::DesiredPeer;

use super::backoff::Backoff;
use super::collision::Direction;
use super::connection::{Connection, ConnectionId};
use super::peer_index::PeerIndex;
use super::state::ConnectionState;
use crate::backend::{PeerStatus, SessionState};
use crate::rib::{AdjIn, AdjOut};
use crate::time::Timestamp;
use crate::wire::PeerType;

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) desired: DesiredPeer,
    /// Its name in the RIBs.
    pub(crate) index: PeerIndex,
    pub(crate) kind: PeerType,
    pub(crate) connections: Vec<Connection>,
    pub(crate) adj_in: AdjIn,
    pub(crate) adj_out: AdjOut,
    pub(crate) backoff: Backoff,
    /// Refuses connections until the retry timer fires: the last one ended with an error that will not mend itself.
    pub(crate) is_idle: bool,
    pub(crate) last_error: Option<String>,
    /// When stale routes go at the latest, however often the peer restarts until then.
    pub(crate) stale_limit: Option<Timestamp>,
}

impl Peer {
    pub(crate) fn new(desired: DesiredPeer, index: PeerIndex, kind: PeerType) -> Self {
        Self {
            desired,
            index,
            kind,
            connections: Vec::new(),
            adj_in: AdjIn::default(),
            adj_out: AdjOut::default(),
            backoff: Backoff::default(),
            is_idle: false,
            last_error: None,
            stale_limit: None,
        }
    }

    pub(crate) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    pub(crate) fn established(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.is_established())
    }

    /// A connection of that direction that is not established (yet).
    pub(crate) fn pending(&self, direction: Direction) -> Option<ConnectionId> {
        let pending = |connection: &&Connection| connection.direction == direction && !connection.is_established();
        self.connections.iter().find(pending).map(|connection| connection.id)
    }

    pub(crate) fn status(&self) -> PeerStatus {
        let furthest = self.connections.iter().map(|connection| connection.state).max();
        let state = match furthest {
            Some(ConnectionState::Established) => SessionState::Established,
            Some(ConnectionState::OpenConfirm) => SessionState::OpenConfirm,
            Some(ConnectionState::OpenSent) => SessionState::OpenSent,
            Some(ConnectionState::Connect) => SessionState::Connect,
            None if self.is_idle => SessionState::Idle,
            None => SessionState::Active,
        };
        PeerStatus {
            peer: self.desired.clone(),
            state,
            received: self.adj_in.len(),
            last_error: self.last_error.clone(),
        }
    }
}
