//! What goes out: control messages at once, routes as fast as the connection drains.

use core::net::Ipv4Addr;
use std::collections::HashMap;
use std::sync::Arc;

use calico_core::bgp::PeerId;
use calico_core::net::Family;

use super::{ConnectionId, Speaker};
use crate::rib::{ExportTarget, Exporter, Sent, Step};
use crate::session::offer::local_as;
use crate::time::Timestamp;
use crate::wire::update::{encode_announcements, encode_end_of_rib, encode_withdrawals};
use crate::wire::{EncodeContext, Nlri, PathAttributes};

/// Prefixes looked at in one go: some full messages, and far less than a hold time of work.
const QUANTUM: usize = 2048;

impl Speaker {
    /// The next connection that has something to send and had nothing before.
    pub fn poll_ready(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.ready.pop_front() {
            if self.owners.contains_key(&id) {
                return Some(id);
            }
        }
        None
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
        while established && into.len() == before && self.next_routes(connection, into) {}
        self.count_sent(connection, into.get(before..).unwrap_or_default());
        if into.len() == before
            && let Some(known) = self.connection(connection)
        {
            known.is_ready = false;
        }
    }

    /// Encodes the next pending prefixes. Says whether there were any: they may all turn out to need no message.
    fn next_routes(&mut self, id: ConnectionId, into: &mut Vec<u8>) -> bool {
        let (Some(local), Some(peer_id)) = (&self.local, self.owners.get(&id)) else {
            return false;
        };
        let (Some(own), Some(peer)) = (local.ipv4, self.peers.get_mut(peer_id)) else {
            return false;
        };
        if !peer.adj_out.has_pending() {
            return false;
        }
        let exporter = Exporter { as_number: local_as(local, &peer.desired), address: own, policy: &self.export };
        let target = ExportTarget { peer: peer.index, kind: peer.kind };
        let (loc, table) = (&self.loc, &mut self.attributes);
        let context = peer.established().and_then(|known| known.negotiated.as_ref()).map(|known| known.encode);
        let steps = peer.adj_out.take(QUANTUM, |prefix| exporter.export(*prefix, loc.best(prefix)?, target, table));
        encode(steps, context.unwrap_or_default(), into);
        true
    }

    pub(super) fn send_control(&mut self, now: Timestamp, id: ConnectionId, message: &[u8]) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        connection.control.extend_from_slice(message);
        connection.stalled_since.get_or_insert(now);
        self.notify(id);
    }

    /// Tells the transport that a peer's established connection has something to send.
    pub(super) fn mark_ready(&mut self, peer_id: PeerId) {
        let established = self.peers.get_mut(&peer_id).and_then(|peer| peer.established().map(|known| known.id));
        if let Some(id) = established {
            self.notify(id);
        }
    }

    fn notify(&mut self, id: ConnectionId) {
        let newly = self.connection(id).is_some_and(|known| !core::mem::replace(&mut known.is_ready, true));
        if newly {
            self.ready.push_back(id);
        }
    }
}

/// Withdrawals first, then announcements grouped by what they say, then the marker.
fn encode(steps: Vec<Step>, context: EncodeContext, into: &mut Vec<u8>) {
    let mut withdrawn: Vec<Nlri> = Vec::new();
    // By identity of the interned set; the list keeps the order, and with it runs from one seed equal.
    let mut places: HashMap<(*const PathAttributes, Ipv4Addr), usize> = HashMap::new();
    let mut groups: Vec<(Sent, Vec<Nlri>)> = Vec::new();
    let mut end_of_rib = false;
    for step in steps {
        match step {
            Step::Withdraw(prefix) => withdrawn.push(prefix.into()),
            Step::EndOfRib => end_of_rib = true,
            Step::Announce(prefix, sent) => {
                let place = *places.entry((Arc::as_ptr(&sent.attributes), sent.next_hop)).or_insert(groups.len());
                match groups.get_mut(place) {
                    Some((_, routes)) => routes.push(prefix.into()),
                    None => groups.push((sent, vec![prefix.into()])),
                }
            }
        }
    }
    let mut announcements = Vec::new();
    for (sent, routes) in groups {
        let next_hop = sent.next_hop.into();
        if let Err(error) = encode_announcements(&sent.attributes, next_hop, &routes, context, &mut announcements) {
            tracing::warn!(?routes, %error, "these prefixes cannot be sent: they are withdrawn instead");
            // What the peer may have heard before leads nowhere any more.
            withdrawn.extend(routes);
        }
    }
    encode_withdrawals(&withdrawn, context, into);
    into.append(&mut announcements);
    if end_of_rib {
        encode_end_of_rib(Family::V4, into);
    }
}

#[cfg(test)]
mod tests {
    use calico_core::net::Cidr;

    use super::*;

    #[test]
    fn what_does_not_fit_is_withdrawn_and_hides_nothing() {
        let prefix = |number: u8| -> Cidr { format!("10.0.{number}.0/24").parse().unwrap() };
        let sent = |communities| Sent {
            attributes: Arc::new(PathAttributes { communities, ..PathAttributes::default() }),
            next_hop: Ipv4Addr::LOCALHOST,
        };
        let (small, large) = (sent(vec![1]), sent(vec![1; 1100]));
        let mut out = Vec::new();
        let context = EncodeContext::default();
        encode(vec![Step::Announce(prefix(1), large), Step::Announce(prefix(2), small.clone())], context, &mut out);
        let mut expected = Vec::new();
        encode_withdrawals(&[prefix(1).into()], context, &mut expected);
        let next_hop = small.next_hop.into();
        encode_announcements(&small.attributes, next_hop, &[prefix(2).into()], context, &mut expected).unwrap();
        assert_eq!(out, expected);
    }
}
