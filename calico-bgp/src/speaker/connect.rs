//! Connections coming and going, and the timers that make them.

use core::time::Duration;

use calico_core::bgp::PeerId;

use super::{Action, ConnectionId, Speaker};
use crate::session::collision::Direction;
use crate::session::connection::Connection;
use crate::session::state::ConnectionState;
use crate::session::timer::TimerKey;
use crate::time::Timestamp;
use crate::wire::{self, AddressFamily, Capability, GracefulRestart, GracefulRestartFamily, Notification, Open};

/// Limit for setting up TCP. A host that is down answers nothing; upstream waits as long before it retries.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for the OPEN exchange: RFC 4271 section 8.2.2 suggests four minutes.
const OPEN_TIMEOUT: Duration = Duration::from_secs(240);
/// A hold timer that fires later than this fires after a pause of our own (a suspended machine, a starved process). What the
/// peer has sent meanwhile waits in the socket, so it is given as long again to be read before the peer is declared dead.
const STALL: Duration = Duration::from_secs(2);
/// Shortest SendHoldTimer (RFC 9687).
const SEND_HOLD: Duration = Duration::from_secs(480);

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The transport lost it, or could not make it.
    Lost,
    /// Another connection to the same peer takes its place.
    Collision,
    /// The peer said why.
    Received(Notification),
    /// We said why.
    Sent(Notification, String),
    /// Nothing was heard for the hold time.
    HoldExpired,
    /// Nothing could be sent for the send hold time.
    SendHoldExpired,
}

impl Speaker {
    /// A connection that [`Action::Connect`] asked for is up.
    pub fn handle_connected(&mut self, now: Timestamp, connection: ConnectionId) {
        self.send_open(now, connection);
    }

    /// A peer has connected; the interface counts where its address is a link-local one. `None` refuses: close the connection
    /// without a word.
    pub fn handle_accepted(&mut self, now: Timestamp, from: PeerId) -> Option<ConnectionId> {
        let from = PeerId { address: from.address.to_canonical(), ..from };
        let peer = self.peers.get(&from).filter(|peer| !peer.is_idle)?;
        // A second one means that the peer has given the first one up.
        if let Some(old) = peer.pending(Direction::Incoming) {
            self.close(now, old, End::Lost);
        }
        let id = self.new_connection_id();
        self.peers.get_mut(&from)?.connections.push(Connection::new(id, Direction::Incoming, now));
        self.owners.insert(id, from);
        self.send_open(now, id);
        Some(id)
    }

    /// The transport has lost a connection or failed to make it.
    pub fn handle_closed(&mut self, now: Timestamp, connection: ConnectionId) {
        self.end(now, connection, &End::Lost);
    }

    pub(super) fn retry_due(&mut self, now: Timestamp, peer_id: PeerId) {
        let Some(source) = self.local.as_ref().and_then(|local| local.ipv4) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        peer.is_idle = false;
        if peer.established().is_some() || peer.pending(Direction::Outgoing).is_some() {
            return;
        }
        if peer.pending(Direction::Incoming).is_some() {
            // Let it finish: a connection of our own would only collide with it.
            let delay = peer.backoff.retry(&mut self.jitter);
            self.timers.arm(TimerKey::Retry(peer_id), now.after(delay));
            return;
        }
        let port = peer.desired.port;
        let id = self.new_connection_id();
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.connections.push(Connection::new(id, Direction::Outgoing, now));
        }
        self.owners.insert(id, peer_id);
        self.timers.arm(TimerKey::Hold(id), now.after(CONNECT_TIMEOUT));
        self.actions.push_back(Action::Connect { connection: id, peer: peer_id, port, source });
        self.changed.insert(peer_id);
    }

    fn send_open(&mut self, now: Timestamp, id: ConnectionId) {
        let Some(open) = self.open().map(|open| open.encode()) else {
            return;
        };
        let Some(connection) = self.connection(id).filter(|known| known.state == ConnectionState::Connect) else {
            return;
        };
        connection.state = ConnectionState::OpenSent;
        connection.heard_at = now;
        self.timers.arm(TimerKey::Hold(id), now.after(OPEN_TIMEOUT));
        self.send_control(now, id, &open);
        self.note_changed(id);
    }

    pub(super) fn open(&self) -> Option<Open> {
        let local = self.local.as_ref()?;
        let family = AddressFamily::IPV4_UNICAST;
        let restart = GracefulRestart {
            restarting: self.config.restarting && self.recovery.is_running(),
            notification: false,
            restart_time: self.config.restart_time,
            families: vec![GracefulRestartFamily { family, forwarding_preserved: self.config.forwarding_preserved }],
        };
        Some(Open {
            as_number: local.as_number,
            hold_time: self.config.hold_time,
            identifier: local.router_id,
            capabilities: vec![
                Capability::Multiprotocol(family),
                Capability::RouteRefresh,
                Capability::GracefulRestart(restart),
                Capability::FourOctetAs(local.as_number),
            ],
        })
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
        let Some(connection) = self.connection(id) else {
            return;
        };
        let Some((interval, hold)) =
            connection.negotiated.as_ref().and_then(|known| Some((known.keepalive()?, known.hold?)))
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

    /// Closes a connection from our side.
    pub(super) fn close(&mut self, now: Timestamp, id: ConnectionId, end: End) {
        let notification = match &end {
            End::Sent(notification, _) => Some(notification.clone()),
            End::HoldExpired => Some(Notification::hold_timer_expired()),
            End::Collision => Some(Notification::cease(wire::notification::cease::COLLISION)),
            End::Lost | End::Received(_) | End::SendHoldExpired => None,
        };
        let Some(connection) = self.connection(id) else {
            return;
        };
        let mut last = core::mem::take(&mut connection.control);
        if connection.state != ConnectionState::Connect {
            last.extend(notification.iter().flat_map(Notification::encode));
        }
        self.actions.push_back(Action::Disconnect { connection: id, last });
        self.end(now, id, &end);
    }

    /// Closes every connection of a peer that is about to be removed.
    pub(super) fn close_all(&mut self, now: Timestamp, peer_id: PeerId, notification: &Notification) {
        let Some(peer) = self.peers.get(&peer_id) else {
            return;
        };
        for id in peer.connections.iter().map(|connection| connection.id).collect::<Vec<_>>() {
            self.close(now, id, End::Sent(notification.clone(), notification.to_string()));
        }
    }

    /// Forgets a connection and draws the consequences for its peer.
    fn end(&mut self, now: Timestamp, id: ConnectionId, end: &End) {
        let Some(peer_id) = self.owners.remove(&id) else {
            return;
        };
        self.timers.disarm(TimerKey::Hold(id));
        self.timers.disarm(TimerKey::Keepalive(id));
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        let Some(index) = peer.connections.iter().position(|connection| connection.id == id) else {
            return;
        };
        let connection = peer.connections.swap_remove(index);
        let text = end.to_string();
        tracing::debug!(peer = %peer_id, connection = %id, state = ?connection.state, reason = text, "BGP connection ended");
        let established = connection.is_established();
        // What becomes of a second connection says nothing about a session that stands.
        if established || (peer.established().is_none() && !matches!(end, End::Lost | End::Collision)) {
            peer.last_error = Some(text);
        }
        if established {
            let retention = connection.negotiated.as_ref().and_then(|negotiated| negotiated.retention());
            self.session_down(now, peer_id, if end.is_transport_loss() { retention } else { None });
        }
        self.plan_retry(now, peer_id, end);
        self.changed.insert(peer_id);
    }

    fn plan_retry(&mut self, now: Timestamp, peer_id: PeerId, end: &End) {
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        if peer.established().is_some() || *end == End::Collision {
            return;
        }
        let delay = match end {
            End::Received(notification) if notification.is_collision() => peer.backoff.retry(&mut self.jitter),
            End::Received(notification) | End::Sent(notification, _) => {
                peer.is_idle = !notification.is_cease();
                peer.backoff.error(&mut self.jitter)
            }
            End::Lost | End::HoldExpired | End::SendHoldExpired | End::Collision => {
                peer.backoff.retry(&mut self.jitter)
            }
        };
        self.timers.arm(TimerKey::Retry(peer_id), now.after(delay));
    }

    pub(super) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let owner = self.owners.get(&id)?;
        self.peers.get_mut(owner)?.connection(id)
    }

    pub(super) fn note_changed(&mut self, id: ConnectionId) {
        self.changed.extend(self.owners.get(&id));
    }
}

impl End {
    /// Whether RFC 4724 lets routes survive it: the peer may be restarting. A NOTIFICATION, or silence on a connection that
    /// stands, says that it is not (RFC 8538, which changes that, is not offered). The loser of a collision is no end of the
    /// session: the winner takes it over.
    const fn is_transport_loss(&self) -> bool {
        match self {
            Self::Lost | Self::Collision => true,
            Self::Received(notification) => notification.is_collision(),
            Self::Sent(..) | Self::HoldExpired | Self::SendHoldExpired => false,
        }
    }
}

impl core::fmt::Display for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Lost => f.write_str("connection lost"),
            Self::Collision => f.write_str("replaced by another connection"),
            Self::Received(notification) => write!(f, "received: {notification}"),
            Self::Sent(_, reason) => write!(f, "sent: {reason}"),
            Self::HoldExpired => f.write_str("hold timer expired"),
            Self::SendHoldExpired => f.write_str("the peer has stopped reading"),
        }
    }
}
