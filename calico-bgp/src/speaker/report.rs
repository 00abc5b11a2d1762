//! What is told: routes, sessions, counts.

use super::{ConnectionId, Speaker};
use crate::backend::{BgpEvent, BgpStatus, MessageCounts};
use crate::rib::RouteReport;
use crate::session::graceful_restart::Recovery;
use crate::time::Timestamp;
use crate::wire::{HEADER_LENGTH, MessageKind};

impl Speaker {
    /// The next thing to tell: first routes, then sessions, and that all is told once it is.
    pub fn poll_event(&mut self) -> Option<BgpEvent> {
        if let Some(report) = self.rib.poll_report() {
            return Some(match report {
                RouteReport::Set(route) => BgpEvent::RouteSet(route),
                RouteReport::Removed(prefix) => BgpEvent::RouteRemoved(prefix),
            });
        }
        while let Some(peer_id) = self.changed.pop_first() {
            if let Some(peer) = self.peers.get(&peer_id) {
                return Some(BgpEvent::Session(Box::new(peer.status(self.seen, self.route_counts(peer)))));
            }
        }
        if self.recovery == (Recovery::Over { reported: false }) {
            self.recovery = Recovery::Over { reported: true };
            return Some(BgpEvent::Settled);
        }
        None
    }

    /// All sessions, at the time that the speaker last heard of.
    pub fn status(&self) -> BgpStatus {
        self.status_at(self.seen)
    }

    pub(crate) fn status_at(&self, now: Timestamp) -> BgpStatus {
        BgpStatus {
            peers: self.peers.values().map(|peer| peer.status(now, self.route_counts(peer))).collect(),
            problem: None,
        }
    }

    /// A peer's state may have changed.
    pub(super) fn note_changed(&mut self, now: Timestamp, id: ConnectionId) {
        let Some(peer_id) = self.owners.get(&id).copied() else {
            return;
        };
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.note_state(now);
        }
        self.changed.insert(peer_id);
    }

    /// Counts the whole messages in what goes out to a peer.
    pub(super) fn count_sent(&mut self, id: ConnectionId, messages: &[u8]) {
        let Some(peer) = self.owners.get(&id).and_then(|peer_id| self.peers.get_mut(peer_id)) else {
            return;
        };
        let mut rest = messages;
        while let Some([high, low, kind]) = rest.get(HEADER_LENGTH - 3..HEADER_LENGTH) {
            if let Some(kind) = MessageKind::from_code(*kind) {
                count(&mut peer.record.sent, kind);
            }
            let length = usize::from(u16::from_be_bytes([*high, *low])).max(HEADER_LENGTH);
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    pub(super) fn count_received(&mut self, id: ConnectionId, kind: MessageKind) {
        if let Some(peer) = self.owners.get(&id).and_then(|peer_id| self.peers.get_mut(peer_id)) {
            count(&mut peer.record.received, kind);
        }
    }
}

const fn count(counts: &mut MessageCounts, kind: MessageKind) {
    let counter = match kind {
        MessageKind::Open => &mut counts.opens,
        MessageKind::Update => &mut counts.updates,
        MessageKind::Notification => &mut counts.notifications,
        MessageKind::Keepalive => &mut counts.keepalives,
        MessageKind::RouteRefresh => &mut counts.route_refreshes,
    };
    *counter = counter.saturating_add(1);
}
