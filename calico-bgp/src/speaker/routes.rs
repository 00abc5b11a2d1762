//! Routes in: UPDATEs, their effect on the Loc-RIB, and who must hear of it.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeSet;
use std::sync::Arc;

use calico_core::bgp::{DesiredBgp, Families, Originated, PeerId};
use calico_core::net::{Cidr, Family};

use super::{ConnectionId, Speaker};
use crate::rib::{AdjOut, BestChange, Exporter, Path, PathSource, Source};
use crate::session::graceful_restart::Recovery;
use crate::session::offer::local_as;
use crate::session::retention::Retain;
use crate::session::timer::TimerKey;
use crate::time::Timestamp;
use crate::wire::{PathAttributes, PeerType, Update};

/// Routes that are not to be kept beyond the restart time (RFC 9494 section 4.4).
const NO_LLGR: u32 = 0xffff_0007;

impl Speaker {
    /// A session is up: the peer gets everything that it may have of these families, and the end-of-RIB if it is not to wait for that.
    pub(super) fn channels_up(&mut self, peer_id: PeerId, families: Families, finish: bool) {
        let Some(kind) = self.peers.get(&peer_id).map(|peer| peer.kind) else {
            return;
        };
        let wanted =
            |prefix: &Cidr| families.contains(prefix.family()) && Exporter::may_export(self.source(prefix), kind);
        let exportable: Vec<Cidr> = self.loc.prefixes().filter(wanted).collect();
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.adj_out = AdjOut::default();
            for prefix in exportable {
                peer.adj_out.touch(prefix);
            }
            if finish {
                peer.adj_out.finish();
            }
        }
        self.mark_ready(peer_id);
    }

    /// A session is down: the peer has been told nothing any more.
    pub(super) fn channels_down(&mut self, peer_id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.adj_out = AdjOut::default();
        }
    }

    /// What becomes of a peer's routes without a session. A second call with a later stage is about those that are left.
    pub(super) fn retain(&mut self, peer_id: PeerId, family: Family, retain: Retain) {
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        let index = peer.index;
        let gone: Vec<Cidr> = match retain {
            Retain::Drop => peer.adj_in.drain(family).into_iter().collect(),
            Retain::Stale { .. } => {
                peer.adj_in.begin_life(family);
                return;
            }
            Retain::LongLived { .. } => {
                if !peer.adj_in.has_stale(family) {
                    peer.adj_in.begin_life(family);
                }
                let unwilling = |prefix: &Cidr| {
                    self.loc.path(prefix, index).is_some_and(|path| path.attributes.communities.contains(&NO_LLGR))
                };
                let gone: Vec<Cidr> = peer.adj_in.prefixes(family).filter(unwilling).collect();
                for prefix in &gone {
                    peer.adj_in.remove(prefix);
                }
                gone
            }
        };
        for prefix in gone {
            let change = self.loc.withdraw(prefix, index);
            self.propagate(change);
        }
    }

    pub(super) fn handle_update(&mut self, now: Timestamp, id: ConnectionId, peer_id: PeerId, update: Update) {
        for fault in &update.faults {
            tracing::warn!(peer = %peer_id, %fault, "malformed BGP UPDATE");
        }
        for route in update.withdrawn {
            self.withdraw(peer_id, route.prefix);
        }
        if !update.reach.is_empty() {
            self.announce(now, id, peer_id, update.attributes, update.reach);
        }
        if let Some(family) = update.end_of_rib {
            self.handle_end_of_rib(id, peer_id, family);
        }
    }

    fn announce(
        &mut self,
        now: Timestamp,
        id: ConnectionId,
        peer_id: PeerId,
        attributes: PathAttributes,
        reach: Vec<crate::wire::Reach>,
    ) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let Some(identifier) = connection.negotiated.as_ref().map(|negotiated| negotiated.identifier) else {
            return;
        };
        let kind = connection.decode_context().peer;
        let Some(index) = self.peers.get(&peer_id).map(|peer| peer.index) else {
            return;
        };
        let source = PathSource { peer: peer_id, index, identifier, kind };
        let loops = self.is_refused(source, &attributes);
        let attributes = self.attributes.intern(attributes);
        for (next_hop, prefix) in reach.into_iter().flat_map(|reach| {
            let next_hop = reach.next_hop.address();
            reach.routes.into_iter().map(move |route| (next_hop, route.prefix))
        }) {
            // An unusable path still replaces the usable one that the peer announced before.
            if loops || !self.is_usable(next_hop) {
                self.withdraw(peer_id, prefix);
                continue;
            }
            let Some(peer) = self.peers.get_mut(&peer_id) else {
                return;
            };
            peer.adj_in.insert(prefix);
            let (life, count) = (peer.adj_in.life(prefix.family()), peer.adj_in.count(prefix.family()));
            let path = Path { source, next_hop, attributes: Arc::clone(&attributes), life };
            let change = self.loc.announce(prefix, path);
            self.propagate(change);
            if self.exceeds_limit(now, id, peer_id, prefix.family(), count) {
                return;
            }
        }
    }

    /// Loops, and paths that an external neighbour did not put its own system on (RFC 4271 section 6.3).
    fn is_refused(&self, source: PathSource, attributes: &PathAttributes) -> bool {
        let Some(local) = &self.local else {
            return true;
        };
        let neighbour = self.peers.get(&source.peer).map(|peer| peer.desired.as_number);
        let as_number = self.peers.get(&source.peer).map_or(local.as_number, |peer| local_as(local, &peer.desired));
        let foreign = source.kind == PeerType::External && attributes.as_path.first() != neighbour;
        foreign
            || attributes.as_path.contains(local.as_number)
            || attributes.as_path.contains(as_number)
            || attributes.originator_id == Some(local.router_id)
            || attributes.cluster_list.contains(&local.router_id)
    }

    /// Whether traffic could go there at all. 240/4 may be in use; ourselves, loopback, multicast and nothing may not.
    fn is_usable(&self, next_hop: IpAddr) -> bool {
        let own = self.local.as_ref().and_then(|local| local.ipv4);
        match next_hop {
            IpAddr::V4(address) => {
                let in_zero = address.octets().first() == Some(&0);
                !(in_zero || address.is_loopback() || address.is_multicast() || address == Ipv4Addr::BROADCAST)
                    && Some(address) != own
            }
            IpAddr::V6(_) => false,
        }
    }

    fn withdraw(&mut self, peer_id: PeerId, prefix: Cidr) {
        if let Some(peer) = self.peers.get_mut(&peer_id)
            && peer.adj_in.remove(&prefix)
        {
            let change = self.loc.withdraw(prefix, peer.index);
            self.propagate(change);
        }
    }

    /// All of a family that the peer announced so far is stale, unless it comes again before [`end_refresh`](Self::sweep).
    pub(super) fn begin_refresh(&mut self, peer_id: PeerId, family: Family) {
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.adj_in.begin_life(family);
        }
    }

    /// Removes what a peer has not announced again in its present life.
    pub(super) fn sweep(&mut self, peer_id: PeerId, family: Family) {
        let Some(peer) = self.peers.get_mut(&peer_id).filter(|peer| peer.adj_in.has_stale(family)) else {
            return;
        };
        let (life, index) = (peer.adj_in.life(family), peer.index);
        let current = |prefix: &Cidr| self.loc.path(prefix, index).is_some_and(|path| path.life == life);
        let stale: Vec<Cidr> = peer.adj_in.prefixes(family).filter(|prefix| !current(prefix)).collect();
        peer.adj_in.end_stale(family);
        for prefix in stale {
            self.withdraw(peer_id, prefix);
        }
    }

    /// Tells every peer that may hear of it.
    pub(super) fn propagate(&mut self, change: Option<BestChange>) {
        let Some(BestChange { prefix, old, new }) = change else {
            return;
        };
        let concerns = |kind| Exporter::may_export(old, kind) || Exporter::may_export(new, kind);
        let (internal, external) = (concerns(PeerType::Internal), concerns(PeerType::External));
        // In a mesh, most changes concern nobody else: one test spares the walk over all peers.
        if !internal && (!external || self.external_peers == 0) {
            return;
        }
        let mut touched = Vec::new();
        for (peer_id, peer) in &mut self.peers {
            let concerned = if peer.kind == PeerType::Internal { internal } else { external };
            if concerned && peer.established().is_some() {
                peer.adj_out.touch(prefix);
                touched.push(*peer_id);
            }
        }
        for peer_id in touched {
            self.mark_ready(peer_id);
        }
    }

    /// The peer wants all of a family again.
    pub(super) fn refresh(&mut self, peer_id: PeerId, family: Family) {
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            peer.adj_out.refresh(family);
        }
        self.mark_ready(peer_id);
    }

    /// What peers may hear is another matter now: every prefix is looked at again, and only what differs is sent.
    pub(super) fn set_export(&mut self, desired: &DesiredBgp) {
        if self.export == desired.export {
            return;
        }
        self.export = Arc::clone(&desired.export);
        let established: Vec<PeerId> =
            self.peers.iter_mut().filter_map(|(peer_id, peer)| peer.established().map(|_| *peer_id)).collect();
        for peer_id in established {
            if let Some(peer) = self.peers.get_mut(&peer_id) {
                self.loc.prefixes().for_each(|prefix| peer.adj_out.touch(prefix));
            }
            self.mark_ready(peer_id);
        }
    }

    pub(super) fn set_originated(&mut self, wanted: &[Originated]) {
        let wanted: BTreeSet<Cidr> =
            wanted.iter().map(|wanted| wanted.prefix).filter(|prefix| prefix.family() == Family::V4).collect();
        let known = core::mem::replace(&mut self.originated, wanted);
        let gone: Vec<Cidr> = known.difference(&self.originated).copied().collect();
        let new: Vec<Cidr> = self.originated.difference(&known).copied().collect();
        for (prefix, originated) in gone.into_iter().map(|p| (p, false)).chain(new.into_iter().map(|p| (p, true))) {
            let change = self.loc.originate(prefix, originated);
            self.propagate(change);
        }
    }

    fn source(&self, prefix: &Cidr) -> Source {
        match self.loc.best(prefix) {
            None => Source::Nothing,
            Some(crate::rib::Best::Originated) => Source::Originated,
            Some(crate::rib::Best::Path(path)) => Source::Peer(path.source),
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
        let established: Vec<PeerId> =
            self.peers.iter_mut().filter_map(|(peer_id, peer)| peer.established().map(|_| *peer_id)).collect();
        for peer_id in established {
            if let Some(peer) = self.peers.get_mut(&peer_id) {
                peer.adj_out.finish();
            }
            self.mark_ready(peer_id);
        }
    }
}
