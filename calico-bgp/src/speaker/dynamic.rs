//! Peers that nobody named: whoever calls from a range is one until it is gone for good.

use calico_core::bgp::{DesiredPeer, DynamicPeers, Families, PeerId};
use calico_core::net::Cidr;

use super::Speaker;
use super::hindrance::hindrance;
use crate::session::peer::Peer;
use crate::session::transport::is_link_local;
use crate::time::Timestamp;

impl Speaker {
    /// Makes a peer of a caller, if a range says so and has room. The narrowest range counts.
    pub(super) fn admit(&mut self, now: Timestamp, from: PeerId) -> bool {
        let Some(local) = &self.local else {
            return false;
        };
        let covers = |peers: &&DynamicPeers| peers.range.contains(from.address);
        let Some(found) = self.dynamic.iter().filter(covers).max_by_key(|peers| peers.range.length()) else {
            return false;
        };
        let range = found.range;
        let known = self.peers.values().filter(|peer| peer.range == Some(range)).count();
        let desired = instance(found, from);
        if u32::try_from(known).unwrap_or(u32::MAX) >= found.limit {
            tracing::warn!(peer = %from, %range, limit = found.limit, "refused a BGP peer: its range is full");
            return false;
        }
        if local.address(calico_core::net::Family::of(from.address)) == Some(from.address)
            || hindrance(local, &desired).is_some()
        {
            return false;
        }
        let mut peer = Peer { range: Some(range), ..Peer::new(desired, self.indices.take()) };
        peer.note_state(now);
        self.peers.insert(from, peer);
        self.wants_changed();
        true
    }

    /// What a peer of a range is to be like now; none if the range is gone.
    pub(super) fn wanted_of(&self, range: Cidr, id: PeerId) -> Option<DesiredPeer> {
        self.dynamic.iter().find(|peers| peers.range == range).map(|peers| instance(peers, id))
    }

    /// Forgets a peer that only its call had made one, once it has neither a connection nor routes.
    pub(super) fn forget_if_gone(&mut self, peer_id: PeerId) {
        let Some(peer) = self.peers.get(&peer_id) else {
            return;
        };
        let keeps = peer.is_idle || Families::BOTH.iter().any(|family| self.has_stale(peer_id, family));
        if peer.range.is_none() || keeps || !peer.connections.is_empty() {
            return;
        }
        self.forget(peer_id);
        self.wants_changed();
    }
}

/// One of a range.
fn instance(peers: &DynamicPeers, id: PeerId) -> DesiredPeer {
    let interface = id.interface.filter(|_| is_link_local(id.address));
    let id = PeerId { interface, ..id };
    let mut desired = DesiredPeer { id, name: id.to_string(), ..peers.like.clone() };
    desired.session.passive = true;
    desired
}
