//! What is known of the daemons, and what of it nobody has been told yet. No sockets, no clock.
//!
//! In come desired states, observations and the time; out come events and the status. An event is a state that was not told yet, so nothing here
//! grows but with peers and routes.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use calico_core::bgp::{DesiredBgp, DesiredPeer, PeerId};
use calico_core::net::{Cidr, Family};

use crate::bird::client::{BirdRoute, DaemonStatus, Protocol};
use crate::bird::{PeerOrRange, Rendered};
use crate::time::Timestamp;
use crate::{BgpEvent, BgpStatus, LearnedRoute, PeerStatus, SessionDetails, SessionState};

/// So long nothing new comes from peers that have said all.
const QUIET: Duration = Duration::from_secs(2);

/// One look at a daemon.
#[derive(Debug, Clone, Default)]
pub(super) struct Observation {
    pub(super) status: DaemonStatus,
    /// Its configuration is in force.
    pub(super) loaded: bool,
    /// With details; none if nothing has changed.
    pub(super) protocols: Option<Vec<Protocol>>,
    /// Learned routes, if those are asked for.
    pub(super) routes: Option<Vec<BirdRoute>>,
}

/// Of one daemon.
#[derive(Debug, Default)]
struct Daemon {
    sessions: BTreeMap<String, PeerId>,
    last_boot: Option<String>,
    /// Its configuration is in force, and it waits for nobody.
    calm: bool,
    /// It cannot be asked, or refuses its configuration.
    trouble: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Picture {
    deferral: Duration,
    daemons: Vec<Daemon>,
    peers: BTreeMap<PeerId, PeerStatus>,
    routes: BTreeMap<Cidr, LearnedRoute>,
    /// Not told yet.
    changed_peers: BTreeSet<PeerId>,
    /// When the state of a session changed, as far as that was seen.
    changed_at: BTreeMap<PeerId, Timestamp>,
    changed_routes: BTreeSet<Cidr>,
    restarted: bool,
    settling: Settling,
    /// There is a speaker; without one there are no peers to know of yet.
    has_speaker: bool,
    /// What peers had announced when all of them were up, and since when it is the same.
    counts: Option<(BTreeMap<PeerId, usize>, Timestamp)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settling {
    /// Nothing is desired yet.
    NotStarted,
    /// At this time at the latest.
    Until(Timestamp),
    /// It has, and that is to be told.
    Tell,
    Told,
}

impl Picture {
    /// `deferral` is the longest wait for peers.
    pub(super) const fn new(deferral: Duration) -> Self {
        Self {
            deferral,
            daemons: Vec::new(),
            peers: BTreeMap::new(),
            routes: BTreeMap::new(),
            changed_peers: BTreeSet::new(),
            changed_at: BTreeMap::new(),
            changed_routes: BTreeSet::new(),
            restarted: false,
            settling: Settling::NotStarted,
            has_speaker: false,
            counts: None,
        }
    }

    /// What is wanted from now on, as it was written for each daemon.
    pub(super) fn set_desired(&mut self, now: Timestamp, desired: &DesiredBgp, rendered: &[Rendered]) {
        self.daemons.resize_with(rendered.len(), Daemon::default);
        for (daemon, rendered) in self.daemons.iter_mut().zip(rendered) {
            daemon.sessions.clone_from(&rendered.sessions);
            daemon.calm = false;
        }
        let left_out: BTreeMap<PeerId, String> = rendered
            .iter()
            .flat_map(|rendered| &rendered.left_out)
            .filter_map(|left_out| match left_out.peer {
                PeerOrRange::Peer(id) => Some((id, left_out.what.to_string())),
                PeerOrRange::Range(_) => None,
            })
            .collect();
        let wanted = if desired.local.is_some() { desired.peers.as_slice() } else { &[] };
        let ids: BTreeSet<PeerId> = wanted.iter().map(|peer| peer.id).collect();
        self.peers.retain(|id, _| ids.contains(id));
        self.changed_peers.retain(|id| ids.contains(id));
        self.changed_at.retain(|id, _| ids.contains(id));
        for peer in wanted {
            self.want(peer, left_out.get(&peer.id));
        }
        self.has_speaker = desired.local.is_some();
        self.counts = None;
        if self.settling == Settling::NotStarted {
            self.settling = Settling::Until(now.after(self.deferral));
        }
    }

    fn want(&mut self, peer: &DesiredPeer, left_out: Option<&String>) {
        let fresh = PeerStatus::idle(peer.clone());
        let known = self.peers.entry(peer.id).or_insert_with(|| {
            self.changed_peers.insert(peer.id);
            fresh
        });
        known.peer.clone_from(peer);
        if let Some(reason) = left_out {
            if known.state != SessionState::Idle || known.last_error.as_ref() != Some(reason) {
                self.changed_peers.insert(peer.id);
            }
            (known.state, known.received, known.last_error) = (SessionState::Idle, 0, Some(reason.clone()));
        }
    }

    /// A daemon was looked at.
    pub(super) fn observe(&mut self, now: Timestamp, place: usize, observation: Observation) {
        let Some(daemon) = self.daemons.get_mut(place) else { return };
        let Observation { status, loaded, protocols, routes } = observation;
        let another = daemon.last_boot.is_some() && daemon.last_boot != status.last_boot;
        daemon.last_boot = status.last_boot;
        daemon.calm = loaded && !status.recovering && !status.configuring;
        if loaded {
            daemon.trouble = None;
        }
        if another {
            self.begin_anew(now);
        }
        if let Some(protocols) = protocols {
            self.see_sessions(now, place, &protocols);
        }
        if let Some(routes) = routes {
            self.see_routes(place, &routes);
        }
        self.settle(now);
    }

    /// A daemon cannot be asked, or refuses what it should take: its sessions are not known to be up. Learned routes stay.
    pub(super) fn trouble(&mut self, now: Timestamp, place: usize, reason: &str) {
        let Some(daemon) = self.daemons.get_mut(place) else { return };
        daemon.calm = false;
        daemon.trouble = Some(reason.to_owned());
        for id in daemon.sessions.values() {
            if let Some(peer) = self.peers.get_mut(id)
                && (peer.state != SessionState::Idle || peer.last_error.as_deref() != Some(reason))
            {
                (peer.state, peer.received, peer.last_error) = (SessionState::Idle, 0, Some(reason.to_owned()));
                self.changed_peers.insert(*id);
            }
        }
        self.settle(now);
    }

    /// The daemon that is there now knows nothing of what the former one told.
    fn begin_anew(&mut self, now: Timestamp) {
        self.restarted = true;
        self.routes.clear();
        self.changed_routes.clear();
        self.counts = None;
        self.settling = Settling::Until(now.after(self.deferral));
    }

    fn see_sessions(&mut self, now: Timestamp, place: usize, protocols: &[Protocol]) {
        let Some(daemon) = self.daemons.get(place) else { return };
        for protocol in protocols {
            let Some(peer) = daemon.sessions.get(&protocol.name).and_then(|id| self.peers.get_mut(id)) else {
                continue;
            };
            let remark = protocol.last_error.as_deref().or_else(|| protocol.remark());
            let seen = PeerStatus {
                state: protocol.session_state(),
                received: protocol.imported,
                last_error: remark.map(str::to_owned).or_else(|| daemon.trouble.clone()),
                ..PeerStatus::idle(peer.peer.clone())
            };
            if seen.state != peer.state {
                self.changed_at.insert(peer.peer.id, now);
            }
            // How many routes there are is no event; it is in the status.
            if (seen.state, &seen.last_error) != (peer.state, &peer.last_error) {
                self.changed_peers.insert(peer.peer.id);
            }
            *peer = seen;
        }
    }

    fn see_routes(&mut self, place: usize, routes: &[BirdRoute]) {
        let mut seen = BTreeMap::new();
        for route in routes.iter().filter(|route| route.primary) {
            if let (Some(next_hop), Some(peer)) = (route.next_hop(), route.from) {
                seen.insert(route.prefix, LearnedRoute::new(route.prefix, next_hop, peer.into()));
            }
        }
        // Of two daemons each has one family.
        let family = if self.daemons.len() < 2 { None } else { [Family::V4, Family::V6].get(place).copied() };
        let is_its = |prefix: &Cidr| family.is_none_or(|family| prefix.family() == family);
        for (prefix, route) in &seen {
            if self.routes.insert(*prefix, route.clone()).as_ref() != Some(route) {
                self.changed_routes.insert(*prefix);
            }
        }
        let gone: Vec<Cidr> =
            self.routes.keys().filter(|prefix| is_its(prefix) && !seen.contains_key(prefix)).copied().collect();
        for prefix in gone {
            self.routes.remove(&prefix);
            self.changed_routes.insert(prefix);
        }
    }

    /// Settled is what waits for nobody and whose peers are all up and say nothing new for a while (BIRD does not tell of their end-of-RIB); or
    /// what has waited long enough.
    fn settle(&mut self, now: Timestamp) {
        let Settling::Until(deadline) = self.settling else { return };
        let awaited = || self.peers.values().filter(|peer| self.is_written(peer.peer.id));
        let calm = self.daemons.iter().all(|daemon| daemon.calm);
        let all_up = awaited().all(|peer| peer.state == SessionState::Established);
        let counts: BTreeMap<PeerId, usize> = awaited().map(|peer| (peer.peer.id, peer.received)).collect();
        let same = self.counts.take().filter(|(former, _)| *former == counts);
        let since = same.map_or(now, |(_, since)| since);
        let quiet = now.since(since) >= QUIET;
        if now >= deadline || calm && all_up && quiet && self.has_speaker {
            self.settling = Settling::Tell;
        }
        self.counts = (calm && all_up).then_some((counts, since));
    }

    fn is_written(&self, id: PeerId) -> bool {
        self.daemons.iter().any(|daemon| daemon.sessions.values().any(|written| *written == id))
    }

    /// What is to be told next.
    pub(super) fn poll_event(&mut self) -> Option<BgpEvent> {
        if core::mem::take(&mut self.restarted) {
            return Some(BgpEvent::Restarted);
        }
        while let Some(id) = self.changed_peers.pop_first() {
            if let Some(peer) = self.peers.get(&id) {
                return Some(BgpEvent::Session(Box::new(peer.clone())));
            }
        }
        if let Some(prefix) = self.changed_routes.pop_first() {
            let route = self.routes.get(&prefix).cloned();
            return Some(route.map_or(BgpEvent::RouteRemoved(prefix), BgpEvent::RouteSet));
        }
        let tell = self.settling == Settling::Tell;
        if tell {
            self.settling = Settling::Told;
        }
        tell.then_some(BgpEvent::Settled)
    }

    /// All sessions. For how long they have been so is known of those that changed while they were looked at.
    pub(super) fn status(&self, now: Timestamp) -> BgpStatus {
        let peers = self.peers.values().map(|peer| {
            let state_for = self.changed_at.get(&peer.peer.id).map(|since| now.since(*since));
            PeerStatus { details: SessionDetails { state_for, ..peer.details.clone() }, ..peer.clone() }
        });
        BgpStatus { peers: peers.collect(), problem: None }
    }
}

#[cfg(test)]
mod tests {
    use calico_core::bgp::{LocalSpeaker, PeerKind};
    use calico_core::net::AsNumber;

    use super::*;
    use crate::bird::{BirdSettings, Dialect, render};

    const DEFERRAL: Duration = Duration::from_secs(120);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_secs(seconds))
    }

    fn desired(peers: &[&str]) -> DesiredBgp {
        let peer =
            |address: &&str| DesiredPeer::new(address.parse().unwrap(), AsNumber::DEFAULT, PeerKind::Mesh, *address);
        DesiredBgp {
            local: Some(LocalSpeaker::new("us", AsNumber::DEFAULT, [10, 0, 0, 1].into())),
            peers: peers.iter().map(peer).collect(),
            ..DesiredBgp::default()
        }
    }

    fn picture(peers: &[&str]) -> Picture {
        let (mut picture, desired) = (Picture::new(DEFERRAL), desired(peers));
        picture.set_desired(at(0), &desired, &[render(&desired, Dialect::Two, &BirdSettings::default())]);
        picture
    }

    fn seen(boot: &str, info: &str, imported: usize) -> Observation {
        let protocol = Protocol { name: "Mesh_10_0_0_2".into(), info: info.into(), imported, ..Protocol::default() };
        Observation {
            status: DaemonStatus { last_boot: Some(boot.into()), ..DaemonStatus::default() },
            loaded: true,
            protocols: Some(vec![protocol]),
            routes: None,
        }
    }

    fn drain(picture: &mut Picture) -> Vec<BgpEvent> {
        core::iter::from_fn(|| picture.poll_event()).collect()
    }

    fn settled(picture: &mut Picture) -> bool {
        drain(picture).contains(&BgpEvent::Settled)
    }

    #[test]
    fn settles_once_when_all_are_up_and_nothing_more_comes() {
        let mut picture = picture(&["10.0.0.2"]);
        for (info, imported) in [("Active", 0), ("Established", 0), ("Established", 7)] {
            picture.observe(at(1), 0, seen("1", info, imported));
            assert!(!settled(&mut picture), "{info} {imported}");
        }
        let recovering = DaemonStatus { recovering: true, last_boot: Some("1".into()), ..DaemonStatus::default() };
        picture.observe(at(2), 0, Observation { status: recovering, ..seen("1", "Established", 7) });
        assert!(!settled(&mut picture), "it waits for others");
        picture.observe(at(3), 0, seen("1", "Established", 7));
        picture.observe(at(4), 0, seen("1", "Established", 8));
        picture.observe(at(5), 0, seen("1", "Established", 8));
        assert!(!settled(&mut picture), "more has come");
        picture.observe(at(6), 0, seen("1", "Established", 8));
        assert!(settled(&mut picture));
        picture.observe(at(7), 0, seen("1", "Established", 7));
        assert!(!settled(&mut picture), "once in a life");
    }

    #[test]
    fn settles_at_the_latest_when_it_has_waited_long_enough() {
        let mut picture = picture(&["10.0.0.2"]);
        picture.trouble(at(119), 0, "no daemon");
        assert!(!settled(&mut picture));
        picture.trouble(at(120), 0, "no daemon");
        assert!(settled(&mut picture));
    }

    #[test]
    fn without_peers_there_is_nothing_to_wait_for_but_without_a_speaker_there_is() {
        let mut alone = picture(&[]);
        alone.observe(at(1), 0, seen("1", "", 0));
        alone.observe(at(3), 0, seen("1", "", 0));
        assert!(settled(&mut alone));
        let (mut nobody, desired) = (Picture::new(DEFERRAL), DesiredBgp::default());
        nobody.set_desired(at(0), &desired, &[render(&desired, Dialect::Two, &BirdSettings::default())]);
        nobody.observe(at(1), 0, seen("1", "", 0));
        nobody.observe(at(3), 0, seen("1", "", 0));
        assert!(!settled(&mut nobody));
    }

    #[test]
    fn a_daemon_that_was_started_anew_begins_a_new_life() {
        let mut picture = picture(&["10.0.0.2"]);
        picture.observe(at(1), 0, seen("1", "Established", 7));
        picture.observe(at(3), 0, seen("1", "Established", 7));
        assert!(settled(&mut picture));
        picture.observe(at(4), 0, seen("2", "Active", 0));
        assert_eq!(drain(&mut picture).first(), Some(&BgpEvent::Restarted));
        picture.observe(at(5), 0, seen("2", "Established", 7));
        picture.observe(at(7), 0, seen("2", "Established", 7));
        assert!(settled(&mut picture));
    }

    #[test]
    fn trouble_and_what_cannot_be_written_are_in_the_status() {
        let mut desired = desired(&["10.0.0.2", "10.0.0.3"]);
        desired.peers[1].session.hold_time = Some(1);
        let mut picture = Picture::new(DEFERRAL);
        picture.set_desired(at(0), &desired, &[render(&desired, Dialect::Two, &BirdSettings::default())]);
        picture.observe(at(1), 0, seen("1", "Established", 1));
        picture.trouble(at(2), 0, "no daemon");
        let status = picture.status(at(9));
        let [first, second] = status.peers.as_slice() else { panic!("{status:?}") };
        assert_eq!((first.state, first.last_error.as_deref()), (SessionState::Idle, Some("no daemon")));
        assert!(second.last_error.as_ref().unwrap().contains("hold time"), "{second:?}");
        picture.observe(at(3), 0, seen("1", "Established", 1));
        assert_eq!(picture.status(at(9)).peers[0].state, SessionState::Established);
        assert_eq!(picture.status(at(9)).peers[0].last_error, None);
    }
}
