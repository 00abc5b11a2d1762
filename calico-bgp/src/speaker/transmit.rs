//! What goes out: control messages at once, routes as fast as the connection drains.

use super::{ConnectionId, Speaker};
use crate::time::Timestamp;

/// Octets of routes that are taken in one go: what the RIB makes in one step is enough.
const BUDGET: usize = 1;

impl Speaker {
    /// The next connection that has something to send and had nothing before.
    pub fn poll_ready(&mut self) -> Option<ConnectionId> {
        loop {
            while let Some(id) = self.ready.pop_front() {
                if self.owners.contains_key(&id) {
                    return Some(id);
                }
            }
            let index = self.rib.poll_ready()?;
            let peer = self.rib.id_of(index).and_then(|id| self.peers.get_mut(&id));
            if let Some(id) = peer.and_then(|peer| peer.established().map(|known| known.id)) {
                self.notify(id);
            }
        }
    }

    /// Appends the next bytes of a connection, some messages at a time. Nothing appended means that there is nothing to send
    /// and that [`poll_ready`](Self::poll_ready) will name the connection again when there is.
    pub fn poll_transmit(&mut self, connection: ConnectionId, into: &mut Vec<u8>) {
        let before = into.len();
        let Some(known) = self.connection(connection) else {
            return;
        };
        into.append(&mut known.control);
        known.stalled_since = None;
        let established = known.is_established();
        let index = self.owners.get(&connection).and_then(|owner| self.peers.get(owner)).map(|peer| peer.index);
        if let Some(index) = index.filter(|_| established && into.len() == before) {
            self.rib.poll_transmit(index, BUDGET, into);
        }
        self.count_sent(connection, into.get(before..).unwrap_or_default());
        if into.len() == before
            && let Some(known) = self.connection(connection)
        {
            known.is_ready = false;
        }
    }

    pub(super) fn send_control(&mut self, now: Timestamp, id: ConnectionId, message: &[u8]) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        connection.control.extend_from_slice(message);
        connection.stalled_since.get_or_insert(now);
        self.notify(id);
    }

    fn notify(&mut self, id: ConnectionId) {
        let newly = self.connection(id).is_some_and(|known| !core::mem::replace(&mut known.is_ready, true));
        if newly {
            self.ready.push_back(id);
        }
    }
}
