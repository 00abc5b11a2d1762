//! Routes: what of sessions, UPDATEs and configuration concerns the RIB.

use calico_core::bgp::{ByFamily, DesiredBgp, DesiredPeer, Families, LocalSpeaker, PeerId};
use calico_core::net::{Cidr, Family};

use super::{ConnectionId, Speaker};
use crate::backend::LearnedRoute;
use crate::rib::{Channel, Explanation, PathReport, PeerSettings, Retain as Keep, Session, Told};
use crate::session::graceful_restart::Recovery;
use crate::session::negotiate::Negotiated;
use crate::session::offer::local_as;
use crate::session::peer::{Peer, RouteCounts};
use crate::session::peer_index::PeerIndex;
use crate::session::retention::Retain;
use crate::session::timer::TimerKey;
use crate::session::transport::{is_link_local, source};
use crate::time::Timestamp;
use crate::wire::{AddressFamily, NextHop, Nlri, Update};

impl Speaker {
    /// Why a prefix is routed and announced as it is; none if nothing is known of it.
    pub fn explain(&self, prefix: Cidr) -> Option<Explanation> {
        self.rib.explain(prefix)
    }

    /// All learned routes in use, as they were reported last.
    pub fn routes(&self) -> impl Iterator<Item = LearnedRoute> {
        self.rib.routes()
    }

    /// Everything that a peer announced, and what became of it.
    pub fn received_from(&self, peer: &PeerId) -> Vec<PathReport> {
        self.index_of(*peer).map(|index| self.rib.received_from(index)).unwrap_or_default()
    }

    /// Everything that a peer is told.
    pub fn advertised_to(&self, peer: &PeerId) -> Vec<(Nlri, Told)> {
        self.index_of(*peer).map(|index| self.rib.advertised_to(index)).unwrap_or_default()
    }

    /// Takes over what is originated, what may be said, and what is said to whom.
    pub(super) fn set_routes(&mut self, desired: &DesiredBgp) {
        self.rib.set_local(self.local.clone());
        self.rib.set_originated(if self.local.is_some() { &desired.originated } else { &[] });
        self.rib.set_export(&desired.export);
        if let Some(local) = &self.local {
            for peer in self.peers.values() {
                self.rib.set_peer(peer.index, settings(local, &peer.desired));
            }
        }
    }

    pub(super) fn route_counts(&self, peer: &Peer) -> RouteCounts {
        let received = |family| self.rib.received(peer.index, family);
        RouteCounts {
            accepted: Families::BOTH.iter().map(|family| received(family).accepted).sum(),
            received: [received(Family::V4).paths, received(Family::V6).paths],
            sent: self.rib.advertised(peer.index),
        }
    }

    fn index_of(&self, peer_id: PeerId) -> Option<PeerIndex> {
        self.peers.get(&peer_id).map(|peer| peer.index)
    }

    /// A session is up: the peer gets everything that it may have, and the end-of-RIB if it is not to wait for that.
    pub(super) fn channels_up(&mut self, peer_id: PeerId, negotiated: &Negotiated, finish: bool) {
        let (Some(local), Some(peer)) = (&self.local, self.peers.get(&peer_id)) else {
            return;
        };
        self.rib.set_peer(peer.index, settings(local, &peer.desired));
        self.rib.session_up(peer.index, session(local, &peer.desired, negotiated));
        if finish {
            self.rib.finish(peer.index);
        }
    }

    /// A session is down: the peer has been told nothing any more.
    pub(super) fn channels_down(&mut self, peer_id: PeerId) {
        if let Some(index) = self.index_of(peer_id) {
            self.rib.session_down(index);
        }
    }

    /// What becomes of a peer's routes without a session. A second call with a later stage is about those that are left.
    pub(super) fn retain(&mut self, peer_id: PeerId, family: Family, retain: Retain) {
        let keep = match retain {
            Retain::Drop => Keep::Drop,
            Retain::Stale { .. } => Keep::Stale,
            Retain::LongLived { .. } => Keep::LongLived,
        };
        if let Some(index) = self.index_of(peer_id) {
            self.rib.retain(index, family, keep);
        }
    }

    pub(super) fn handle_update(&mut self, now: Timestamp, id: ConnectionId, peer_id: PeerId, update: Update) {
        for fault in &update.faults {
            tracing::warn!(peer = %peer_id, %fault, "malformed BGP UPDATE");
        }
        let Some(index) = self.index_of(peer_id) else {
            return;
        };
        self.rib.withdraw(index, &update.withdrawn);
        for reach in &update.reach {
            let Some(family) = reach.routes.first().map(|route| route.prefix.family()) else { continue };
            let before = self.rib.received(index, family).paths;
            self.rib.announce(index, update.attributes.clone(), reach.next_hop, &reach.routes);
            let count = self.rib.received(index, family).paths;
            if self.exceeds_limit(now, id, peer_id, family, before..=count) {
                return;
            }
        }
        if let Some(family) = update.end_of_rib {
            self.handle_end_of_rib(id, peer_id, family);
        }
    }

    /// Whether routes of an earlier life of a peer may be left.
    pub(super) fn has_stale(&self, peer_id: PeerId, family: Family) -> bool {
        self.index_of(peer_id).is_some_and(|index| self.rib.has_stale(index, family))
    }

    /// All of a family that the peer announced so far is stale, unless it comes again before [`sweep`](Self::sweep).
    pub(super) fn begin_refresh(&mut self, peer_id: PeerId, family: Family) {
        if let Some(index) = self.index_of(peer_id) {
            self.rib.begin_life(index, family);
        }
    }

    /// Removes what a peer has not announced again in its present life.
    pub(super) fn sweep(&mut self, peer_id: PeerId, family: Family) {
        if let Some(index) = self.index_of(peer_id) {
            self.rib.sweep(index, family);
        }
    }

    /// The peer wants all of a family again.
    pub(super) fn refresh(&mut self, peer_id: PeerId, family: Family) {
        if let Some(index) = self.index_of(peer_id) {
            self.rib.refresh(index, family);
        }
    }

    /// A peer need not be waited for any more.
    pub(super) fn done_with(&mut self, peer_id: &PeerId) {
        if self.recovery.done_with(peer_id) {
            self.end_recovery();
        }
    }

    /// The start is over: peers may forget what we announced in an earlier life.
    pub(super) fn end_recovery(&mut self) {
        if !self.recovery.is_running() {
            return;
        }
        self.timers.disarm(TimerKey::Deferral);
        self.recovery = Recovery::Over { reported: false };
        for peer in self.peers.values() {
            self.rib.finish(peer.index);
        }
    }
}

/// What the RIB is told of a peer.
fn settings(local: &LocalSpeaker, peer: &DesiredPeer) -> PeerSettings {
    PeerSettings {
        id: peer.id,
        remote_as: peer.as_number,
        local_as: local_as(local, peer),
        role: peer.session.role,
        policy: peer.policy.clone(),
    }
}

/// What the RIB is told of a session.
fn session(local: &LocalSpeaker, peer: &DesiredPeer, negotiated: &Negotiated) -> Session {
    let (decode, encode) = (negotiated.decode, negotiated.encode);
    let channel = |family: Family| {
        let unicast = AddressFamily::unicast(family);
        let extended_next_hop = decode.extended_next_hop.contains(family);
        let long_lived = negotiated.long_lived.is_some()
            && negotiated.graceful_restart.as_ref().is_some_and(|restart| {
                // Without families it says that such routes of others are understood.
                restart.families.is_empty() || restart.family(unicast).is_some()
            });
        decode.families.contains(family).then(|| Channel {
            own_next_hop: own_next_hop(local, peer, family, extended_next_hop),
            extended_next_hop,
            add_path: if encode.add_path.contains(family) { peer.session.add_path.send } else { 0 },
            long_lived,
            enhanced_refresh: negotiated.enhanced_route_refresh,
        })
    };
    let channels = ByFamily { ipv4: channel(Family::V4), ipv6: channel(Family::V6) };
    Session { identifier: negotiated.identifier, encode, channels }
}

/// Where we are: the address that the session comes from, or the node's of that family. IPv4 prefixes of a session over IPv6 lead to an
/// IPv6 address where that was agreed on.
fn own_next_hop(local: &LocalSpeaker, peer: &DesiredPeer, family: Family, extended: bool) -> Option<NextHop> {
    let carrier = Family::of(peer.id.address);
    let family = if extended && family == Family::V4 { carrier } else { family };
    let from = source(local, peer).ok().flatten().filter(|from| Family::of(*from) == family);
    match (from, local.ipv6) {
        (Some(core::net::IpAddr::V6(link_local)), Some(global)) if is_link_local(link_local.into()) => {
            Some(NextHop::V6LinkLocal { global, link_local })
        }
        _ => from.or_else(|| local.address(family)).map(NextHop::from),
    }
}
