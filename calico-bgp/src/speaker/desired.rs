//! From one desired state to the next: only what differs is touched.

use core::net::IpAddr;
use std::collections::BTreeMap;

use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, PeerId};

use super::Speaker;
use super::hindrance::hindrance;
use crate::session::graceful_restart::Recovery;
use crate::session::negotiate::peer_type;
use crate::session::peer::Peer;
use crate::session::timer::TimerKey;
use crate::time::Timestamp;
use crate::wire::notification::cease;
use crate::wire::{Notification, PeerType};

impl Speaker {
    /// Takes over what should be. Sessions whose parameters stay the same stay up.
    pub fn set_desired(&mut self, now: Timestamp, desired: &DesiredBgp) {
        if !same_speaker(self.local.as_ref(), desired.local.as_ref()) {
            let reason =
                if desired.local.is_some() { cease::CONFIGURATION_CHANGE } else { cease::ADMINISTRATIVE_SHUTDOWN };
            for peer_id in self.peers.keys().copied().collect::<Vec<_>>() {
                self.remove_peer(now, peer_id, reason);
            }
        }
        self.local.clone_from(&desired.local);
        let peers = match &desired.local {
            Some(local) if local.ipv4.is_some() => wanted_peers(local, &desired.peers),
            _ => BTreeMap::new(),
        };
        self.set_originated(if self.local.is_some() { &desired.originated } else { &[] });
        self.set_export(desired);
        self.set_peers(now, peers);
        if self.recovery == Recovery::NotStarted {
            self.timers.arm(TimerKey::Deferral, now.after(self.config.deferral));
            let awaited = self.peers.iter().filter(|(_, peer)| hindrance(&peer.desired).is_none());
            self.recovery = Recovery::Waiting(awaited.map(|(peer_id, _)| *peer_id).collect());
        }
        self.external_peers = self.peers.values().filter(|peer| peer.kind == PeerType::External).count();
        self.settle_if_alone();
    }

    fn set_peers(&mut self, now: Timestamp, mut wanted: BTreeMap<PeerId, DesiredPeer>) {
        for peer_id in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some(known) = self.peers.get_mut(&peer_id) else {
                continue;
            };
            match wanted.remove(&peer_id) {
                None => self.remove_peer(now, peer_id, cease::PEER_DECONFIGURED),
                Some(new) if same_session(&known.desired, &new) => known.desired = new,
                Some(new) => {
                    self.remove_peer(now, peer_id, cease::CONFIGURATION_CHANGE);
                    self.add_peer(now, new);
                }
            }
        }
        for new in wanted.into_values() {
            self.add_peer(now, new);
        }
    }

    fn add_peer(&mut self, now: Timestamp, desired: DesiredPeer) {
        let Some(local) = &self.local else {
            return;
        };
        let peer_id = desired.id;
        let kind = peer_type(local, &desired);
        // Upstream's rule compares the addresses as text: the end whose peer is greater waits to be called.
        let waits = local.ipv4.is_some_and(|own| peer_id.address.to_string() > own.to_string());
        let delay = if waits { self.config.passive_delay } else { core::time::Duration::ZERO };
        let hindrance = hindrance(&desired);
        let is_idle = hindrance.is_some();
        let index = self.indices.take();
        self.peers.insert(peer_id, Peer { is_idle, last_error: hindrance, ..Peer::new(desired, index, kind) });
        self.changed.insert(peer_id);
        if is_idle {
            return;
        }
        if let Recovery::Waiting(peers) = &mut self.recovery {
            peers.insert(peer_id);
        }
        self.timers.arm(TimerKey::Retry(peer_id), now.after(delay));
    }

    fn remove_peer(&mut self, now: Timestamp, peer_id: PeerId, reason: u8) {
        self.close_all(now, peer_id, &Notification::cease(reason));
        self.timers.disarm(TimerKey::Retry(peer_id));
        self.drop_routes(peer_id);
        if let Some(peer) = self.peers.remove(&peer_id) {
            self.indices.give_back(peer.index);
        }
        self.changed.remove(&peer_id);
        self.done_with(&peer_id);
    }

    /// Nobody to wait for. Without an address there are no peers to know of yet, and the timer alone decides.
    fn settle_if_alone(&mut self) {
        let alone = matches!(&self.recovery, Recovery::Waiting(peers) if peers.is_empty());
        if alone && self.local.is_some() {
            self.end_recovery();
        }
    }
}

/// Only IPv4 transport in this form of the speaker; a session with ourselves is a mistake upstream's mesh filters out, too.
fn wanted_peers(local: &LocalSpeaker, peers: &[DesiredPeer]) -> BTreeMap<PeerId, DesiredPeer> {
    let usable = |peer: &&DesiredPeer| peer.id.address.is_ipv4() && Some(peer.id.address) != local.ipv4.map(IpAddr::V4);
    peers.iter().filter(usable).map(|peer| (peer.id, peer.clone())).collect()
}

fn same_speaker(old: Option<&LocalSpeaker>, new: Option<&LocalSpeaker>) -> bool {
    let identity = |local: &LocalSpeaker| (local.as_number, local.router_id, local.ipv4);
    old.map(identity) == new.map(identity)
}

fn same_session(old: &DesiredPeer, new: &DesiredPeer) -> bool {
    // Nothing of the policy is carried out on a session yet, so that a change of it can only be a change of what hinders it.
    (old.port, old.as_number, &old.session, &old.policy) == (new.port, new.as_number, &new.session, &new.policy)
}
