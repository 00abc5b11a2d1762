//! From one desired state to the next: only what differs is touched.
//!
//! | Change | What happens |
//! |---|---|
//! | AS number, router id, address or cluster id of this speaker | all sessions end (Cease/6); without a speaker, Cease/2 |
//! | where it listens | the transport listens elsewhere; sessions stay |
//! | a peer comes or goes, or a range with its peers | that session; one that goes is told Cease/3 |
//! | its AS number, local AS, families, source, TTL security, hold time, restart time, long-lived time, paths, next hops, role | the session ends (Cease/6) and begins anew |
//! | its password | the session ends without a word, as by a restart, and begins anew: nothing that is sent under way would arrive |
//! | its port, name, kind, gateway, limit of prefixes, BFD, KEEPALIVE interval; whether it waits to be called | taken over; the session stays |
//! | its policy; what is originated, exported or put into the kernel | carried out on the session |

use std::collections::BTreeMap;

use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Password, PeerId, SessionParameters};
use calico_core::net::Family;

use super::end::End;
use super::hindrance::hindrance;
use super::{Action, Speaker};
use crate::session::graceful_restart::Recovery;
use crate::session::peer::Peer;
use crate::session::timer::TimerKey;
use crate::session::transport::Listening;
use crate::time::Timestamp;
use crate::wire::Notification;
use crate::wire::notification::cease;

/// What a change of a peer means for its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It stays.
    Keeps,
    /// It ends without a word.
    Rekeys,
    /// It ends.
    Resets,
}

impl Speaker {
    /// Takes over what should be. Sessions whose parameters stay the same stay up; `speaker/desired.rs` says what ends which.
    pub fn set_desired(&mut self, now: Timestamp, desired: &DesiredBgp) {
        self.seen = now;
        if !same_speaker(self.local.as_ref(), desired.local.as_ref()) {
            let reason =
                if desired.local.is_some() { cease::CONFIGURATION_CHANGE } else { cease::ADMINISTRATIVE_SHUTDOWN };
            for peer_id in self.peers.keys().copied().collect::<Vec<_>>() {
                self.remove_peer(now, peer_id, reason);
            }
        }
        self.local.clone_from(&desired.local);
        self.dynamic.clone_from(&desired.dynamic);
        let peers = desired.local.as_ref().map_or_else(BTreeMap::new, |local| wanted_peers(local, &desired.peers));
        self.set_peers(now, peers);
        self.set_routes(desired);
        self.wants_changed();
        if self.recovery == Recovery::NotStarted {
            self.timers.arm(TimerKey::Deferral, now.after(self.config.deferral));
            let awaited = self.peers.values().filter(|peer| !self.is_hindered(&peer.desired)).map(Peer::id);
            self.recovery = Recovery::Waiting(awaited.collect());
        }
        self.settle_if_alone();
    }

    fn set_peers(&mut self, now: Timestamp, mut wanted: BTreeMap<PeerId, DesiredPeer>) {
        for peer_id in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some((known, local)) = self.peers.get(&peer_id).zip(self.local.as_ref()) else {
                continue;
            };
            let named = wanted.remove(&peer_id);
            let is_named = named.is_some();
            let new = named.or_else(|| known.range.and_then(|range| self.wanted_of(range, peer_id)));
            let Some(new) = new else {
                self.remove_peer(now, peer_id, cease::PEER_DECONFIGURED);
                continue;
            };
            match change(local, &known.desired, &new) {
                Change::Keeps => self.take_over(now, peer_id, new, is_named),
                Change::Rekeys => {
                    self.close_all(now, peer_id, &End::Rekeyed);
                    // One that only its call had made a peer may be gone now; it will call again.
                    self.take_over(now, peer_id, new, is_named);
                }
                Change::Resets => {
                    self.remove_peer(now, peer_id, cease::CONFIGURATION_CHANGE);
                    if is_named {
                        self.add_peer(now, new);
                    }
                }
            }
        }
        for new in wanted.into_values() {
            self.add_peer(now, new);
        }
    }

    /// A change that leaves the session, or what is left of it, alone.
    fn take_over(&mut self, now: Timestamp, peer_id: PeerId, new: DesiredPeer, is_named: bool) {
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        let calls_now = peer.desired.session.passive && !new.session.passive;
        if new.session.bfd.is_none() {
            peer.record.bfd_up = None;
        }
        peer.desired = new;
        if is_named {
            peer.range = None;
        }
        if calls_now && !peer.is_idle && !peer.is_established() {
            self.timers.arm(TimerKey::Retry(peer_id), now);
        }
    }

    fn add_peer(&mut self, now: Timestamp, desired: DesiredPeer) {
        let Some(local) = &self.local else {
            return;
        };
        let peer_id = desired.id;
        // Upstream's rule compares the addresses as text: the end whose peer is greater waits to be called.
        let own = local.address(Family::of(peer_id.address));
        let waits = own.is_some_and(|own| peer_id.address.to_string() > own.to_string());
        let delay = if waits { self.config.passive_delay } else { core::time::Duration::ZERO };
        let hindrance = hindrance(local, &desired);
        let (is_idle, calls) = (hindrance.is_some(), !desired.session.passive);
        let mut peer = Peer { is_idle, ..Peer::new(desired, self.indices.take()) };
        peer.record.last_error = hindrance;
        peer.note_state(now);
        self.peers.insert(peer_id, peer);
        self.changed.insert(peer_id);
        if is_idle {
            return;
        }
        if let Recovery::Waiting(peers) = &mut self.recovery {
            peers.insert(peer_id);
        }
        if calls {
            self.timers.arm(TimerKey::Retry(peer_id), now.after(delay));
        }
    }

    fn remove_peer(&mut self, now: Timestamp, peer_id: PeerId, reason: u8) {
        let notification = Notification::cease(reason);
        let text = notification.to_string();
        self.close_all(now, peer_id, &End::Sent(notification, text));
        self.forget(peer_id);
    }

    /// Forgets a peer that has no connection any more, and its routes.
    pub(super) fn forget(&mut self, peer_id: PeerId) {
        self.timers.disarm(TimerKey::Retry(peer_id));
        self.drop_routes(peer_id);
        if let Some(peer) = self.peers.remove(&peer_id) {
            self.rib.remove_peer(peer.index);
            self.indices.give_back(peer.index);
        }
        self.changed.remove(&peer_id);
        self.done_with(&peer_id);
    }

    /// Tells the transport what is wanted of it, if that is something else now.
    pub(super) fn wants_changed(&mut self) {
        let listening = self.local.as_ref().map(|local| self.listening_of(local)).unwrap_or_default();
        if listening != self.listening {
            self.listening.clone_from(&listening);
            self.actions.push_back(Action::Listen(listening));
        }
        let watched = self.watched();
        if watched != self.watched {
            self.watched.clone_from(&watched);
            self.actions.push_back(Action::Watch(watched));
        }
    }

    fn listening_of(&self, local: &LocalSpeaker) -> Listening {
        let named = self.peers.values().filter(|peer| peer.range.is_none() && !self.is_hindered(&peer.desired));
        let named = named.map(|peer| (peer.id(), None, &peer.desired.session.password));
        let ranges = self
            .dynamic
            .iter()
            .map(|peers| (PeerId::from(peers.range.address()), Some(peers.range), &peers.like.session.password));
        Listening::of(local, local.listen.port, named.chain(ranges))
    }

    fn is_hindered(&self, desired: &DesiredPeer) -> bool {
        self.local.as_ref().is_none_or(|local| hindrance(local, desired).is_some())
    }

    /// Nobody to wait for. Without an address there are no peers to know of yet, and the timer alone decides.
    fn settle_if_alone(&mut self) {
        let alone = matches!(&self.recovery, Recovery::Waiting(peers) if peers.is_empty());
        if alone && self.local.is_some() {
            self.end_recovery();
        }
    }
}

/// A session with ourselves is a mistake upstream's mesh filters out, too.
fn wanted_peers(local: &LocalSpeaker, peers: &[DesiredPeer]) -> BTreeMap<PeerId, DesiredPeer> {
    let usable = |peer: &&DesiredPeer| Some(peer.id.address) != local.address(Family::of(peer.id.address));
    peers.iter().filter(usable).map(|peer| (peer.id, peer.clone())).collect()
}

fn same_speaker(old: Option<&LocalSpeaker>, new: Option<&LocalSpeaker>) -> bool {
    let identity = |local: &LocalSpeaker| (local.as_number, local.router_id, local.ipv4, local.ipv6, local.cluster_id);
    old.map(identity) == new.map(identity)
}

/// What the change of a peer means for its session.
fn change(local: &LocalSpeaker, old: &DesiredPeer, new: &DesiredPeer) -> Change {
    let hindered = hindrance(local, old) != hindrance(local, new);
    if hindered || old.as_number != new.as_number || offered(&old.session) != offered(&new.session) {
        return Change::Resets;
    }
    match (&old.session.password, &new.session.password) {
        (Password::None | Password::Key(_), Password::None | Password::Key(_))
            if old.session.password != new.session.password =>
        {
            Change::Rekeys
        }
        _ => Change::Keeps,
    }
}

/// The part of a session's parameters that is agreed on or was bound at its beginning; the rest is taken over while it is up.
fn offered(session: &SessionParameters) -> SessionParameters {
    let kept = SessionParameters::default();
    SessionParameters {
        passive: kept.passive,
        password: kept.password,
        keepalive: kept.keepalive,
        bfd: kept.bfd,
        gateway: kept.gateway,
        maximum_prefixes: kept.maximum_prefixes,
        ..session.clone()
    }
}
