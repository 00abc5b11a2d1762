//! From received bytes to state changes.

use calico_core::bgp::PeerId;

use super::end::End;
use super::{ConnectionId, Speaker};
use crate::session::collision::{self, Direction, Identity, Verdict};
use crate::session::negotiate::negotiate;
use crate::session::offer::local_as;
use crate::session::state::ConnectionState;
use crate::session::timer::TimerKey;
use crate::time::Timestamp;
use crate::wire::{self, Message, MessageKind, Notification, Open, WireError};

impl Speaker {
    /// Bytes have arrived. Any split is fine.
    pub fn handle_bytes(&mut self, now: Timestamp, connection: ConnectionId, bytes: &[u8]) {
        self.seen = now;
        let Some(known) = self.connection(connection).filter(|known| known.state != ConnectionState::Connect) else {
            return;
        };
        known.framer.push(bytes);
        loop {
            let Some(known) = self.connection(connection) else {
                return;
            };
            let context = known.decode_context();
            let message = match known.framer.next_message() {
                Ok(None) => return,
                Ok(Some((message, body))) => {
                    known.heard_at = now;
                    known.excused = false;
                    Message::decode(message, body, context).map(|decoded| (message, decoded))
                }
                Err(error) => Err(error),
            };
            match message {
                Ok((kind, message)) => {
                    self.count_received(connection, kind);
                    self.handle_message(now, connection, kind, message);
                }
                Err(error) => self.fail(now, connection, &error),
            }
        }
    }

    fn handle_message(&mut self, now: Timestamp, id: ConnectionId, kind: MessageKind, message: Message) {
        let Some(peer_id) = self.owners.get(&id).copied() else {
            return;
        };
        let Some(connection) = self.connection(id) else {
            return;
        };
        let before = connection.state;
        if let Err(subcode) = before.after(kind) {
            let notification = Notification::fsm_error(subcode);
            let reason = format!("{notification}: {kind:?} in {before:?}");
            return self.close(now, id, End::Sent(notification, reason));
        }
        match message {
            Message::Open(open) => self.handle_open(now, id, peer_id, &open),
            Message::Notification(notification) => self.close(now, id, End::Received(notification)),
            Message::Keepalive if before == ConnectionState::OpenConfirm => self.establish(now, id, peer_id),
            Message::Keepalive | Message::RouteRefresh(None) => {}
            Message::Update(update) => self.handle_update(now, id, peer_id, *update),
            Message::RouteRefresh(Some(refresh)) => self.handle_refresh(now, id, peer_id, refresh),
        }
    }

    fn handle_open(&mut self, now: Timestamp, id: ConnectionId, peer_id: PeerId, open: &Open) {
        let (Some(local), Some(peer)) = (&self.local, self.peers.get(&peer_id)) else {
            return;
        };
        let connection = peer.connections.iter().find(|known| known.id == id);
        let Some(sent) = connection.and_then(|known| known.sent_open.as_ref()) else {
            return;
        };
        let keepalive = peer.desired.session.keepalive;
        let negotiated = match negotiate(local, &peer.desired, sent, open) {
            Ok(negotiated) => negotiated,
            Err(error) => return self.fail(now, id, &error),
        };
        if !self.survives_collision(now, id, peer_id, open) {
            return self.close(now, id, End::Collision);
        }
        let Some(connection) = self.connection(id) else {
            return;
        };
        connection.state = ConnectionState::OpenConfirm;
        let (hold, keepalive) = (negotiated.hold, negotiated.keepalive(keepalive));
        connection.framer.set_extended(negotiated.decode.extended_message);
        connection.awaited = negotiated.families();
        connection.negotiated = Some(negotiated);
        connection.sent_open = None;
        self.send_control(now, id, &wire::keepalive());
        match (hold, keepalive) {
            (Some(hold), Some(keepalive)) => {
                self.timers.arm(TimerKey::Hold(id), now.after(hold));
                let delay = self.jitter.apply(keepalive);
                self.timers.arm(TimerKey::Keepalive(id), now.after(delay));
            }
            _ => self.timers.disarm(TimerKey::Hold(id)),
        }
        self.note_changed(now, id);
    }

    /// Compares with the peer's other connections, and closes those that lose.
    fn survives_collision(&mut self, now: Timestamp, id: ConnectionId, peer_id: PeerId, open: &Open) -> bool {
        let (Some(local), Some(peer)) = (&self.local, self.peers.get(&peer_id)) else {
            return false;
        };
        let ours = Identity { identifier: local.router_id, as_number: local_as(local, &peer.desired) };
        let theirs = Identity { identifier: open.identifier, as_number: open.as_number };
        let restarted = open.graceful_restart().is_some_and(|restart| restart.restarting);
        let direction = peer.connections.iter().find(|known| known.id == id).map(|known| known.direction);
        let direction = direction.unwrap_or(Direction::Incoming);
        let others = peer.connections.iter().filter(|known| known.id != id);
        let verdicts: Vec<(ConnectionId, Verdict)> = others
            .map(|other| (other.id, collision::decide(ours, theirs, direction, restarted, other.standing(now))))
            .collect();
        if verdicts.iter().any(|(_, verdict)| *verdict == Verdict::KeepOther) {
            return false;
        }
        for (other, verdict) in verdicts {
            if verdict == Verdict::KeepNew {
                self.close(now, other, End::Collision);
            }
        }
        true
    }

    fn establish(&mut self, now: Timestamp, id: ConnectionId, peer_id: PeerId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        peer.backoff.reset();
        peer.record.last_error = None;
        // Another connection may have failed meanwhile; that must not count against the next one.
        peer.is_idle = false;
        let connecting: Vec<ConnectionId> = peer
            .connections
            .iter()
            .filter(|known| known.state == ConnectionState::Connect)
            .map(|known| known.id)
            .collect();
        let Some(connection) = peer.connection(id) else {
            return;
        };
        connection.state = ConnectionState::Established;
        connection.established_at = Some(now);
        for other in connecting {
            self.close(now, other, End::Collision);
        }
        self.timers.disarm(TimerKey::Retry(peer_id));
        self.session_up(now, peer_id);
        self.note_changed(now, id);
    }

    fn fail(&mut self, now: Timestamp, id: ConnectionId, error: &WireError) {
        self.close(now, id, End::Sent(error.notification(), error.to_string()));
    }
}
