//! Connections coming and going, and the timers that make them.

use core::time::Duration;

use calico_core::bgp::PeerId;

use super::end::End;
use super::{Action, ConnectionId, Speaker};
use crate::session::collision::Direction;
use crate::session::connection::Connection;
use crate::session::offer::offer;
use crate::session::state::ConnectionState;
use crate::session::timer::TimerKey;
use crate::session::transport::{Transport, is_link_local};
use crate::time::Timestamp;
use crate::wire::{self, Open};

/// Limit for setting up TCP. A host that is down answers nothing; upstream waits as long before it retries.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for the OPEN exchange: RFC 4271 section 8.2.2 suggests four minutes.
const OPEN_TIMEOUT: Duration = Duration::from_secs(240);
/// A hold timer that fires later than this fires after a pause of our own (a suspended machine, a starved process). What the
/// peer has sent meanwhile waits in the socket, so it is given as long again to be read before the peer is declared dead.
const STALL: Duration = Duration::from_secs(2);
/// Shortest SendHoldTimer (RFC 9687).
const SEND_HOLD: Duration = Duration::from_secs(480);

impl Speaker {
    /// A connection that [`Action::Connect`] asked for is up.
    pub fn handle_connected(&mut self, now: Timestamp, connection: ConnectionId) {
        self.seen = now;
        self.send_open(now, connection);
    }

    /// A peer has connected; the interface counts where its address is a link-local one. `None` refuses: close the connection
    /// without a word.
    pub fn handle_accepted(&mut self, now: Timestamp, from: PeerId) -> Option<ConnectionId> {
        self.seen = now;
        let address = from.address.to_canonical();
        let from = PeerId { address, interface: from.interface.filter(|_| is_link_local(address)) };
        if !self.peers.contains_key(&from) && !self.admit(now, from) {
            return None;
        }
        let id = self.new_connection_id();
        let peer = self.peers.get_mut(&from).filter(|peer| !peer.is_idle)?;
        let older = peer.pending(Direction::Incoming);
        peer.connections.push(Connection::new(id, Direction::Incoming, now));
        self.owners.insert(id, from);
        // A second one means that the peer has given the first one up.
        if let Some(older) = older {
            self.close(now, older, End::Lost);
        }
        self.send_open(now, id);
        Some(id)
    }

    /// What an accepted connection needs of TCP, besides what [`Action::Listen`] said.
    pub fn transport(&self, connection: ConnectionId) -> Option<Transport> {
        let peer = self.peers.get(self.owners.get(&connection)?)?;
        Some(Transport::of(self.local.as_ref()?, &peer.desired, self.config.hold_time))
    }

    /// The transport has lost a connection or failed to make it.
    pub fn handle_closed(&mut self, now: Timestamp, connection: ConnectionId) {
        self.seen = now;
        self.end(now, connection, &End::Lost);
    }

    pub(super) fn retry_due(&mut self, now: Timestamp, peer_id: PeerId) {
        let Some((local, peer)) = self.local.as_ref().zip(self.peers.get_mut(&peer_id)) else {
            return;
        };
        peer.is_idle = false;
        peer.note_state(now);
        self.changed.insert(peer_id);
        if peer.desired.session.passive {
            return self.forget_if_gone(peer_id);
        }
        if peer.is_established() || peer.pending(Direction::Outgoing).is_some() {
            return;
        }
        if peer.pending(Direction::Incoming).is_some() {
            // Let it finish: a connection of our own would only collide with it.
            let delay = peer.backoff.retry(&mut self.jitter);
            self.timers.arm(TimerKey::Retry(peer_id), now.after(delay));
            return;
        }
        let transport = Transport::of(local, &peer.desired, self.config.hold_time);
        let port = peer.desired.port;
        let id = self.new_connection_id();
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.connections.push(Connection::new(id, Direction::Outgoing, now));
        }
        self.owners.insert(id, peer_id);
        self.timers.arm(TimerKey::Hold(id), now.after(CONNECT_TIMEOUT));
        self.actions.push_back(Action::Connect { connection: id, peer: peer_id, port, transport });
        self.note_changed(now, id);
    }

    fn send_open(&mut self, now: Timestamp, id: ConnectionId) {
        let Some(open) = self.owners.get(&id).and_then(|peer_id| self.open(*peer_id)) else {
            return;
        };
        let Some(connection) = self.connection(id).filter(|known| known.state == ConnectionState::Connect) else {
            return;
        };
        connection.state = ConnectionState::OpenSent;
        connection.heard_at = now;
        let message = open.encode();
        connection.sent_open = Some(open);
        self.timers.arm(TimerKey::Hold(id), now.after(OPEN_TIMEOUT));
        self.send_control(now, id, &message);
        self.note_changed(now, id);
    }

    fn open(&self, peer_id: PeerId) -> Option<Open> {
        let (local, peer) = (self.local.as_ref()?, self.peers.get(&peer_id)?);
        Some(offer(local, &peer.desired, &self.config, self.recovery.is_running()))
    }

    pub(super) fn hold_due(&mut self, now: Timestamp, id: ConnectionId) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let limit = match (connection.state, &connection.negotiated) {
            (ConnectionState::Connect, _) => return self.close(now, id, End::Lost),
            (_, Some(negotiated)) => negotiated.hold,
            (_, None) => Some(OPEN_TIMEOUT),
        };
        let Some(limit) = limit else {
            return;
        };
        let expires = connection.heard_at.after(limit);
        if expires > now {
            self.timers.arm(TimerKey::Hold(id), expires);
        } else if now.since(expires) > STALL && !core::mem::replace(&mut connection.excused, true) {
            self.timers.arm(TimerKey::Hold(id), now.after(STALL));
        } else {
            self.close(now, id, End::HoldExpired);
        }
    }

    pub(super) fn keepalive_due(&mut self, now: Timestamp, id: ConnectionId) {
        let wanted = self.owners.get(&id).and_then(|peer_id| self.peers.get(peer_id));
        let wanted = wanted.and_then(|peer| peer.desired.session.keepalive);
        let Some(connection) = self.connection(id) else {
            return;
        };
        let Some((interval, hold)) =
            connection.negotiated.as_ref().and_then(|known| Some((known.keepalive(wanted)?, known.hold?)))
        else {
            return;
        };
        let limit = SEND_HOLD.max(hold * 2);
        if connection.stalled_since.is_some_and(|since| now.since(since) >= limit) {
            return self.close(now, id, End::SendHoldExpired);
        }
        // One that still waits says it all: a peer that does not read must not make the buffer grow.
        if connection.control.is_empty() {
            self.send_control(now, id, &wire::keepalive());
        }
        let delay = self.jitter.apply(interval);
        self.timers.arm(TimerKey::Keepalive(id), now.after(delay));
    }

    pub(super) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let owner = self.owners.get(&id)?;
        self.peers.get_mut(owner)?.connection(id)
    }
}
