//! All sessions: finds the one that a packet is for, and keeps their timers.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use calico_core::bgp::PeerId;

use super::Discriminator;
use super::packet::{ControlPacket, State};
use super::peer::{BfdConfig, BfdEvent, BfdPeer, BfdStatus, Discard, Received, Transmit};
use super::random::{discriminator, jitter};
use super::session::{Session, is_same_path};
use super::timer::{TimerKind, Timers};
use crate::random::Random;
use crate::time::Timestamp;

/// The most that a removed session goes on to say so, whatever intervals the other end has asked for.
const LONGEST_FAREWELL: Duration = Duration::from_secs(10);

/// BFD as a machine without sockets and clock.
///
/// | Inputs | |
/// |---|---|
/// | [`set_peers`](Self::set_peers) | which sessions there are |
/// | [`handle_packet`](Self::handle_packet) | a datagram from port 3784 or 4784 |
/// | [`handle_timeout`](Self::handle_timeout) | at the time that `poll_timeout` says, or later |
/// | [`handle_unsent`](Self::handle_unsent) | a datagram that could not be sent |
///
/// | Outputs, until `None`, after any input | |
/// |---|---|
/// | [`poll_transmit`](Self::poll_transmit) | datagrams to send |
/// | [`poll_closed`](Self::poll_closed) | sessions whose source port is needed no more |
/// | [`poll_event`](Self::poll_event) | sessions that are up or down |
/// | [`poll_timeout`](Self::poll_timeout) | when to be woken |
///
/// Datagrams that wait are to be handed in before time is: a process that was stopped for a while must not take its own absence for
/// everybody else's. Time must not go backwards.
#[derive(Debug)]
pub struct Bfd {
    config: BfdConfig,
    random: Random,
    sessions: BTreeMap<Discriminator, Session>,
    peers: BTreeMap<PeerId, Discriminator>,
    timers: Timers,
    /// Sessions that have something to send.
    ready: BTreeSet<Discriminator>,
    /// Sessions that have something to tell.
    changed: BTreeSet<Discriminator>,
    closed: VecDeque<Discriminator>,
    discarded: BTreeMap<Discard, u64>,
}

impl Bfd {
    /// Without sessions.
    pub fn new(config: BfdConfig) -> Self {
        Self {
            config,
            random: Random::new(config.seed),
            sessions: BTreeMap::new(),
            peers: BTreeMap::new(),
            timers: Timers::default(),
            ready: BTreeSet::new(),
            changed: BTreeSet::new(),
            closed: VecDeque::new(),
            discarded: BTreeMap::new(),
        }
    }

    /// Says which sessions there are. Those that stay go on, with new intervals agreed by a Poll Sequence; the other end of one
    /// that goes is told so (AdminDown), so that it does not take it for a failure. Of two peers with one `id` the first counts.
    pub fn set_peers(&mut self, now: Timestamp, peers: &[BfdPeer]) {
        let wanted: BTreeMap<PeerId, &BfdPeer> = peers.iter().rev().map(|peer| (peer.id, peer)).collect();
        let staying = |session: &Session| session.is_leaving() || wanted.contains_key(&session.peer().id);
        let gone: Vec<_> = self.sessions.iter().filter(|(_, session)| !staying(session)).map(|(key, _)| *key).collect();
        for session in gone {
            self.leave(now, session);
        }
        for peer in wanted.into_values() {
            self.set_peer(now, peer);
        }
    }

    /// Takes a datagram: RFC 5880 section 6.8.6, RFC 5881 section 5.
    pub fn handle_packet(&mut self, now: Timestamp, received: &Received<'_>) {
        match self.find(received) {
            Ok((session, packet)) => self.update(now, session, |session| session.receive(now, &packet)),
            Err(reason) => {
                let count = self.discarded.entry(reason).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((key, kind)) = self.timers.pop_due(now) {
            match kind {
                TimerKind::Transmit => {
                    self.update(now, key, Session::owe);
                    self.schedule(now, key);
                }
                TimerKind::Detect => self.update(now, key, |session| session.detect(now)),
                TimerKind::Leave => drop(self.close(key)),
            }
        }
    }

    /// A datagram of this session could not be sent.
    pub fn handle_unsent(&mut self, session: Discriminator) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.count_unsent();
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        while let Some(key) = self.ready.pop_first() {
            let Some(session) = self.sessions.get_mut(&key) else {
                continue;
            };
            if let Some(packet) = session.transmit() {
                let BfdPeer { id, local, parameters, .. } = session.peer();
                let (to, local, multihop) = (*id, *local, parameters.multihop);
                return Some(Transmit { session: key, to, local, multihop, payload: packet.encode() });
            }
        }
        None
    }

    /// The next session that is no more.
    pub fn poll_closed(&mut self) -> Option<Discriminator> {
        self.closed.pop_front()
    }

    /// The next thing that the routing protocol should know.
    pub fn poll_event(&mut self) -> Option<BfdEvent> {
        while let Some(key) = self.changed.pop_first() {
            if let Some(session) = self.sessions.get_mut(&key)
                && let Some(event) = session.event()
            {
                if session.has_event() {
                    self.changed.insert(key);
                }
                return Some(event);
            }
        }
        None
    }

    /// When to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.timers.next_deadline()
    }

    /// What operators want to see.
    pub fn status(&self) -> BfdStatus {
        let sessions = self.peers.values().filter_map(|key| self.sessions.get(key));
        BfdStatus {
            sessions: sessions.filter(|session| !session.is_leaving()).map(Session::status).collect(),
            discarded: self.discarded.clone(),
        }
    }

    /// Whether the peer's session is up; `None` if it has none.
    pub fn is_up(&self, peer: PeerId) -> Option<bool> {
        let session = self.sessions.get(self.peers.get(&peer)?)?;
        (!session.is_leaving()).then(|| session.status().state == State::Up)
    }

    fn find(&self, received: &Received<'_>) -> Result<(Discriminator, ControlPacket), Discard> {
        if !received.multihop && received.hop_limit != super::HOP_LIMIT {
            return Err(Discard::HopLimit);
        }
        let packet = ControlPacket::decode(received.payload)?;
        let by_address = || self.peers.get(&peer_of(received)).copied();
        let key = packet.your_discriminator.or_else(by_address).ok_or(Discard::UnknownSession)?;
        let session = self.sessions.get(&key).ok_or(Discard::UnknownSession)?;
        // A discriminator alone would do for RFC 5880; but then whoever guesses one could take any session down.
        let BfdPeer { id, local, parameters, .. } = session.peer();
        let fits = *id == peer_of(received)
            && local.is_none_or(|local| local == received.to)
            && parameters.multihop == received.multihop;
        if fits { Ok((key, packet)) } else { Err(Discard::UnknownSession) }
    }

    fn set_peer(&mut self, now: Timestamp, peer: &BfdPeer) {
        let key = self.peers.get(&peer.id).copied();
        let old = key.and_then(|key| Some((key, self.sessions.get(&key)?)));
        match old {
            Some((key, session)) if is_same_path(session.peer(), peer) => {
                self.timers.disarm((key, TimerKind::Leave));
                self.update(now, key, |session| session.configure(peer));
            }
            Some((key, _)) => {
                let old = self.close(key);
                let new = self.open(now, peer);
                self.update(now, new, |session| old.iter().for_each(|old| session.replace(old)));
            }
            None => drop(self.open(now, peer)),
        }
    }

    fn open(&mut self, now: Timestamp, peer: &BfdPeer) -> Discriminator {
        let key = loop {
            let key = discriminator(&mut self.random);
            if !self.sessions.contains_key(&key) {
                break key;
            }
        };
        let session = Session::new(peer.clone(), key, self.config.control_plane_independent);
        // The first packets of many sessions are spread over a quarter of a second.
        if let Some(interval) = session.transmit_interval() {
            let spread = interval.saturating_sub(jitter(&mut self.random, interval, session.multiplier()));
            self.timers.arm((key, TimerKind::Transmit), now.after(spread));
        }
        self.sessions.insert(key, session);
        self.peers.insert(peer.id, key);
        key
    }

    fn leave(&mut self, now: Timestamp, key: Discriminator) {
        let mut farewell = None;
        self.update(now, key, |session| farewell = session.leave());
        match farewell {
            Some(farewell) => self.timers.arm((key, TimerKind::Leave), now.after(farewell.min(LONGEST_FAREWELL))),
            None => drop(self.close(key)),
        }
    }

    fn close(&mut self, key: Discriminator) -> Option<Session> {
        for kind in [TimerKind::Transmit, TimerKind::Detect, TimerKind::Leave] {
            self.timers.disarm((key, kind));
        }
        self.ready.remove(&key);
        self.changed.remove(&key);
        self.closed.push_back(key);
        let session = self.sessions.remove(&key)?;
        self.peers.remove(&session.peer().id);
        Some(session)
    }

    /// Changes a session, and sees to what follows for its timers and output.
    fn update(&mut self, now: Timestamp, key: Discriminator, change: impl FnOnce(&mut Session)) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let interval = session.transmit_interval();
        change(session);
        if session.has_output() {
            self.ready.insert(key);
        }
        if session.has_event() {
            self.changed.insert(key);
        }
        if let Some(deadline) = session.detection_deadline() {
            self.timers.arm_by((key, TimerKind::Detect), deadline);
        }
        if session.transmit_interval() != interval {
            self.schedule(now, key);
        }
    }

    /// Sees to it that the next periodic packet is not later than the interval allows.
    fn schedule(&mut self, now: Timestamp, key: Discriminator) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        match session.transmit_interval() {
            Some(interval) => {
                let pause = jitter(&mut self.random, interval, session.multiplier());
                self.timers.arm_by((key, TimerKind::Transmit), now.after(pause));
            }
            None => self.timers.disarm((key, TimerKind::Transmit)),
        }
    }
}

/// Link-local addresses mean nothing without their link.
fn peer_of(received: &Received<'_>) -> PeerId {
    let link_local = matches!(received.from, IpAddr::V6(address) if address.is_unicast_link_local());
    PeerId { address: received.from, interface: received.interface.filter(|_| link_local) }
}
