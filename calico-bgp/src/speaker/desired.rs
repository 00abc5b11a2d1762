//! From one desired state to the next: only what differs is touched.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Originated};
use calico_core::net::{Cidr, Family};

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
            for address in self.peers.keys().copied().collect::<Vec<_>>() {
                self.remove_peer(now, address, reason);
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
            self.recovery = Recovery::Waiting(awaited.map(|(address, _)| *address).collect());
        }
        self.external_peers = self.peers.values().filter(|peer| peer.kind == PeerType::External).count();
        self.settle_if_alone();
    }

    fn set_peers(&mut self, now: Timestamp, mut wanted: BTreeMap<IpAddr, DesiredPeer>) {
        for address in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some(known) = self.peers.get_mut(&address) else {
                continue;
            };
            match wanted.remove(&address) {
                None => self.remove_peer(now, address, cease::PEER_DECONFIGURED),
                Some(new) if same_session(&known.desired, &new) => known.desired = new,
                Some(new) => {
                    self.remove_peer(now, address, cease::CONFIGURATION_CHANGE);
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
        let address = desired.id.address;
        let kind = peer_type(local, &desired);
        // Upstream's rule compares the addresses as text: the end whose peer is greater waits to be called.
        let waits = local.ipv4.is_some_and(|own| address.to_string() > own.to_string());
        let delay = if waits { self.config.passive_delay } else { core::time::Duration::ZERO };
        let hindrance = hindrance(&desired);
        let is_idle = hindrance.is_some();
        self.peers.insert(address, Peer { is_idle, last_error: hindrance, ..Peer::new(desired, kind) });
        self.changed.insert(address);
        if is_idle {
            return;
        }
        if let Recovery::Waiting(peers) = &mut self.recovery {
            peers.insert(address);
        }
        self.timers.arm(TimerKey::Retry(address), now.after(delay));
    }

    fn remove_peer(&mut self, now: Timestamp, address: IpAddr, reason: u8) {
        self.close_all(now, address, &Notification::cease(reason));
        self.timers.disarm(TimerKey::Retry(address));
        self.drop_routes(address);
        self.peers.remove(&address);
        self.changed.remove(&address);
        self.done_with(&address);
    }

    /// What peers may hear is another matter now: every prefix is looked at again, and only what differs is sent.
    fn set_export(&mut self, desired: &DesiredBgp) {
        if self.export == desired.export {
            return;
        }
        self.export = Arc::clone(&desired.export);
        let established: Vec<IpAddr> =
            self.peers.iter_mut().filter_map(|(address, peer)| peer.established().map(|_| *address)).collect();
        for address in established {
            if let Some(peer) = self.peers.get_mut(&address) {
                self.loc.prefixes().for_each(|prefix| peer.adj_out.touch(prefix));
            }
            self.mark_ready(address);
        }
    }

    fn set_originated(&mut self, wanted: &[Originated]) {
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

    /// Nobody to wait for. Without an address there are no peers to know of yet, and the timer alone decides.
    fn settle_if_alone(&mut self) {
        let alone = matches!(&self.recovery, Recovery::Waiting(peers) if peers.is_empty());
        if alone && self.local.is_some() {
            self.end_recovery();
        }
    }
}

/// Only IPv4 transport in this form of the speaker; a session with ourselves is a mistake upstream's mesh filters out, too.
fn wanted_peers(local: &LocalSpeaker, peers: &[DesiredPeer]) -> BTreeMap<IpAddr, DesiredPeer> {
    let usable = |peer: &&DesiredPeer| peer.id.address.is_ipv4() && Some(peer.id.address) != local.ipv4.map(IpAddr::V4);
    peers.iter().filter(usable).map(|peer| (peer.id.address, peer.clone())).collect()
}

fn same_speaker(old: Option<&LocalSpeaker>, new: Option<&LocalSpeaker>) -> bool {
    let identity = |local: &LocalSpeaker| (local.as_number, local.router_id, local.ipv4);
    old.map(identity) == new.map(identity)
}

fn same_session(old: &DesiredPeer, new: &DesiredPeer) -> bool {
    // Nothing of the policy is carried out on a session yet, so that a change of it can only be a change of what hinders it.
    (old.port, old.as_number, &old.session, &old.policy) == (new.port, new.as_number, &new.session, &new.policy)
}
