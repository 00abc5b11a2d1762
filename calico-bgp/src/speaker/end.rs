//! How connections and sessions end, and what follows from it.
//!
//! | End | Graceful restart applies | Next attempt |
//! |---|---|---|
//! | the transport lost it, or another connection replaces it | yes | soon |
//! | a NOTIFICATION, or silence | where both ends agreed on RFC 8538 and it is no hard reset | after a NOTIFICATION late, otherwise soon |
//! | the session's key changed | yes: what is still under way is lost without a word | soon |
//! | BFD lost the peer | yes, unless the other end's BFD does not share the fate of its BGP (RFC 5882 section 4.3) | when BFD is up again, or soon |
//! | too many prefixes, removal by configuration | no | after a pause; never |

use calico_core::bgp::PeerId;

use super::{Action, ConnectionId, Speaker};
use crate::session::connection::Connection;
use crate::session::negotiate::Negotiated;
use crate::session::state::ConnectionState;
use crate::session::timer::TimerKey;
use crate::time::Timestamp;
use crate::wire::Notification;
use crate::wire::notification::cease;

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
    /// Its key is another one now: what this connection still sends cannot arrive.
    Rekeyed,
    /// BFD lost the peer.
    Dead {
        /// The peer's BFD does not fail with its BGP, so that this is no restart.
        is_final: bool,
    },
}

impl Speaker {
    /// Ends a peer's session so that it begins anew (Cease/4); the peer's operator is told why (RFC 9003). False if there is no such peer.
    pub fn reset(&mut self, now: Timestamp, peer: PeerId, text: &str) -> bool {
        self.seen = now;
        let notification = Notification::administrative(cease::ADMINISTRATIVE_RESET, text);
        let reason = notification.to_string();
        self.close_all(now, peer, &End::Sent(notification, reason));
        self.peers.contains_key(&peer)
    }

    /// Closes a connection from our side.
    pub(super) fn close(&mut self, now: Timestamp, id: ConnectionId, end: End) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let hard = connection.negotiated.as_ref().is_some_and(|negotiated| negotiated.notification_restarts);
        let mut last = core::mem::take(&mut connection.control);
        if connection.state != ConnectionState::Connect {
            last.extend(end.last_words(hard).iter().flat_map(Notification::encode));
        }
        self.count_sent(id, &last);
        self.actions.push_back(Action::Disconnect { connection: id, last });
        self.end(now, id, &end);
    }

    /// Closes every connection of a peer.
    pub(super) fn close_all(&mut self, now: Timestamp, peer_id: PeerId, end: &End) {
        let Some(peer) = self.peers.get(&peer_id) else {
            return;
        };
        for id in peer.connections.iter().map(|connection| connection.id).collect::<Vec<_>>() {
            self.close(now, id, end.clone());
        }
    }

    /// Forgets a connection and draws the consequences for its peer.
    pub(super) fn end(&mut self, now: Timestamp, id: ConnectionId, end: &End) {
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
        match end {
            End::Received(notification) => peer.record.last_received = Some(notification.to_string()),
            End::Sent(..) | End::HoldExpired | End::Dead { .. } => peer.record.last_sent = Some(text.clone()),
            End::Lost | End::Collision | End::SendHoldExpired | End::Rekeyed => {}
        }
        // What becomes of a second connection says nothing about a session that stands.
        let established = connection.is_established();
        if established || (!peer.is_established() && !matches!(end, End::Lost | End::Collision)) {
            peer.record.last_error = Some(text);
        }
        peer.note_state(now);
        if established {
            self.lose_session(now, peer_id, &connection, end);
        }
        self.plan_retry(now, peer_id, end);
        self.changed.insert(peer_id);
        self.forget_if_gone(peer_id);
    }

    fn lose_session(&mut self, now: Timestamp, peer_id: PeerId, connection: &Connection, end: &End) {
        if let Some(negotiated) = &connection.negotiated {
            self.session_down(now, peer_id, negotiated, end.is_graceful(negotiated));
        }
    }

    fn plan_retry(&mut self, now: Timestamp, peer_id: PeerId, end: &End) {
        let pause = self.config.maximum_prefixes_pause;
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        if peer.is_established() || *end == End::Collision {
            return;
        }
        let delay = match end {
            End::Received(notification) if notification.is_collision() => peer.backoff.retry(&mut self.jitter),
            End::Sent(notification, _) if notification.cease_subcode() == Some(cease::MAXIMUM_PREFIXES) => {
                peer.is_idle = true;
                pause
            }
            End::Received(notification) | End::Sent(notification, _) => {
                peer.is_idle = !notification.is_cease();
                peer.backoff.error(&mut self.jitter)
            }
            _ => peer.backoff.retry(&mut self.jitter),
        };
        peer.note_state(now);
        self.timers.arm(TimerKey::Retry(peer_id), now.after(delay));
    }
}

impl End {
    /// The NOTIFICATION that says so; `hard` where the peer would take an ordinary one for a restart.
    fn last_words(&self, hard: bool) -> Option<Notification> {
        match self {
            Self::Sent(notification, _) if hard && is_final(notification) => {
                Some(notification.clone().into_hard_reset())
            }
            Self::Sent(notification, _) => Some(notification.clone()),
            Self::HoldExpired => Some(Notification::hold_timer_expired()),
            Self::Collision => Some(Notification::cease(cease::COLLISION)),
            Self::Dead { .. } => Some(Notification::cease(cease::BFD_DOWN)),
            Self::SendHoldExpired => Some(Notification::send_hold_timer_expired()),
            Self::Lost | Self::Received(_) | Self::Rekeyed => None,
        }
    }

    /// Whether the peer may be restarting, so that its routes survive as agreed. By RFC 4724 a NOTIFICATION, or silence on a connection
    /// that stands, says that it is not; by RFC 8538 only a hard reset does. The loser of a collision is no end of the session: the
    /// winner takes it over.
    fn is_graceful(&self, negotiated: &Negotiated) -> bool {
        match self {
            Self::Lost | Self::Collision | Self::Rekeyed => true,
            Self::Dead { is_final } => !is_final,
            Self::Received(notification) if notification.is_collision() => true,
            Self::Received(notification) => negotiated.notification_restarts && !notification.is_hard_reset(),
            Self::Sent(notification, _) => negotiated.notification_restarts && !is_final(notification),
            Self::HoldExpired | Self::SendHoldExpired => negotiated.notification_restarts,
        }
    }
}

/// Whether we mean that neither end is to keep routes of the other.
fn is_final(notification: &Notification) -> bool {
    let finals = [cease::MAXIMUM_PREFIXES, cease::ADMINISTRATIVE_SHUTDOWN, cease::PEER_DECONFIGURED];
    notification.is_hard_reset() || notification.cease_subcode().is_some_and(|subcode| finals.contains(&subcode))
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
            Self::Rekeyed => f.write_str("the password has changed"),
            Self::Dead { .. } => f.write_str("BFD does not reach the peer any more"),
        }
    }
}
