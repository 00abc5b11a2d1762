//! One session: the state variables of RFC 5880 section 6.8.1 and the rules of 6.8.3 to 6.8.7. Its timers are the machine's.

use core::num::NonZeroU8;
use core::time::Duration;

use calico_core::bgp::Bfd as Parameters;

use super::Discriminator;
use super::intervals::Intervals;
use super::packet::{ControlPacket, Diagnostic, State};
use super::peer::{BfdEvent, BfdPeer, BfdSessionStatus, Loss};
use crate::time::Timestamp;

/// What is known of the other end.
#[derive(Debug)]
struct Remote {
    discriminator: Option<Discriminator>,
    state: State,
    diagnostic: Diagnostic,
    demand: bool,
    control_plane_independent: bool,
    multiplier: NonZeroU8,
    /// Microseconds, as on the wire.
    desired_min_tx: u32,
    required_min_rx: u32,
}

/// Packets that are to go out now.
#[derive(Debug, Default)]
struct Owed {
    /// The answer to a poll.
    answer: bool,
    /// One that is due, or says something new.
    packet: bool,
}

/// What the routing protocol was told, and what not yet.
#[derive(Debug, Default)]
struct Told {
    up: bool,
    lost: Option<Loss>,
}

#[derive(Debug)]
pub(super) struct Session {
    peer: BfdPeer,
    discriminator: Discriminator,
    control_plane_independent: bool,
    state: State,
    diagnostic: Diagnostic,
    intervals: Intervals,
    remote: Remote,
    /// When the last packet was taken.
    heard: Option<Timestamp>,
    owed: Owed,
    told: Told,
    leaving: bool,
    received: u64,
    sent: u64,
    unsent: u64,
    ups: u64,
}

impl Session {
    pub(super) fn new(peer: BfdPeer, discriminator: Discriminator, control_plane_independent: bool) -> Self {
        let held = peer.admin_down;
        Self {
            discriminator,
            control_plane_independent,
            state: if held { State::AdminDown } else { State::Down },
            diagnostic: if held { Diagnostic::ADMIN_DOWN } else { Diagnostic::NONE },
            intervals: Intervals::new(&peer.parameters),
            peer,
            remote: Remote::default(),
            heard: None,
            owed: Owed::default(),
            told: Told::default(),
            leaving: false,
            received: 0,
            sent: 0,
            unsent: 0,
            ups: 0,
        }
    }

    /// Takes the place of a session over another path.
    pub(super) fn replace(&mut self, old: &Self) {
        self.told.up = old.told.up;
        self.told.lost = old.told.up.then_some(Loss::Reconfigured);
    }

    /// Takes another configuration of the same path.
    pub(super) fn configure(&mut self, peer: &BfdPeer) {
        self.leaving = false;
        self.owed.packet |= self.intervals.configure(&peer.parameters);
        self.peer.clone_from(peer);
        match (peer.admin_down, self.state) {
            (true, State::AdminDown) | (false, State::Down | State::Init | State::Up) => {}
            (true, _) => self.hold_down(),
            (false, State::AdminDown) => self.fall(State::Down, Diagnostic::NONE, Loss::AdminDown),
        }
        self.apply_intervals();
    }

    /// It is configured no more. Says how long the other end must be told so; not at all, if it was never heard.
    pub(super) fn leave(&mut self) -> Option<Duration> {
        self.leaving = true;
        self.told = Told::default();
        self.hold_down();
        self.apply_intervals();
        let interval = self.intervals.announced().transmit.max(self.remote.required_min_rx);
        let patience = microseconds(interval).saturating_mul(u32::from(self.intervals.multiplier().get()));
        self.remote.discriminator.map(|_| patience)
    }

    /// A packet that was found to be this session's: RFC 5880 section 6.8.6, from "Set bfd.RemoteDiscr" on.
    pub(super) fn receive(&mut self, now: Timestamp, packet: &ControlPacket) {
        self.received = self.received.saturating_add(1);
        self.remote = Remote::from(packet);
        if packet.answer {
            self.intervals.answered();
        }
        if self.state == State::AdminDown {
            return;
        }
        match next_state(self.state, packet.state) {
            same if same == self.state => {}
            State::Up => self.rise(),
            State::Init => {
                self.state = State::Init;
                self.owed.packet = true;
            }
            State::Down | State::AdminDown => {
                let loss = match packet.state {
                    State::AdminDown => Loss::NeighborAdminDown,
                    _ => Loss::NeighborDown(packet.diagnostic),
                };
                self.fall(State::Down, Diagnostic::NEIGHBOR_DOWN, loss);
            }
        }
        self.owed.answer |= packet.poll;
        self.heard = Some(now);
        self.apply_intervals();
    }

    /// Looks whether the detection time has passed (RFC 5880 section 6.8.4).
    pub(super) fn detect(&mut self, now: Timestamp) {
        if self.detection_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        // Whoever comes next may be another instance with other wishes: a forgotten one must not keep this end silent.
        self.remote = Remote { control_plane_independent: self.remote.control_plane_independent, ..Remote::default() };
        self.heard = None;
        if matches!(self.state, State::Init | State::Up) {
            self.fall(State::Down, Diagnostic::EXPIRED, Loss::Expired);
        }
        self.apply_intervals();
    }

    /// It is time for a packet.
    pub(super) const fn owe(&mut self) {
        self.owed.packet = true;
    }

    /// The packet that is to go out, if one is. An answer stands for what else was due: it says the same.
    pub(super) fn transmit(&mut self) -> Option<ControlPacket> {
        let Owed { answer, packet } = core::mem::take(&mut self.owed);
        if !answer && !packet {
            return None;
        }
        self.sent = self.sent.saturating_add(1);
        let announced = self.intervals.announced();
        Some(ControlPacket {
            diagnostic: self.diagnostic,
            state: self.state,
            poll: !answer && self.intervals.is_polling(),
            answer,
            control_plane_independent: self.control_plane_independent,
            demand: false,
            multiplier: self.intervals.multiplier(),
            my_discriminator: self.discriminator,
            your_discriminator: self.remote.discriminator,
            desired_min_tx: announced.transmit,
            required_min_rx: announced.receive,
            required_min_echo_rx: 0,
        })
    }

    pub(super) const fn count_unsent(&mut self) {
        self.unsent = self.unsent.saturating_add(1);
    }

    /// What the routing protocol is to be told next.
    pub(super) fn event(&mut self) -> Option<BfdEvent> {
        let (peer, lost) = (self.peer.id, self.told.lost.take());
        if let Some(loss) = lost.filter(|_| self.told.up) {
            self.told.up = false;
            let control_plane_independent = self.remote.control_plane_independent;
            return Some(BfdEvent::Down { peer, loss, control_plane_independent });
        }
        if self.told.up || self.state != State::Up {
            return None;
        }
        self.told.up = true;
        Some(BfdEvent::Up { peer })
    }

    /// Pause between periodic packets, before jitter (RFC 5880 section 6.8.7).
    pub(super) fn transmit_interval(&self) -> Option<Duration> {
        let both_up = self.state == State::Up && self.remote.state == State::Up;
        let unwanted = self.remote.demand && both_up && !self.intervals.is_polling();
        let interval = self.intervals.in_force().transmit.max(self.remote.required_min_rx);
        (self.remote.required_min_rx != 0 && !unwanted).then(|| microseconds(interval))
    }

    /// When the detection time will have passed, if nothing is heard until then.
    pub(super) fn detection_deadline(&self) -> Option<Timestamp> {
        Some(self.heard?.after(self.detection_time()))
    }

    pub(super) fn has_output(&self) -> bool {
        self.owed.answer || self.owed.packet
    }

    pub(super) fn has_event(&self) -> bool {
        !self.leaving && (self.told.lost.is_some() || self.told.up != (self.state == State::Up))
    }

    pub(super) const fn is_leaving(&self) -> bool {
        self.leaving
    }

    pub(super) const fn peer(&self) -> &BfdPeer {
        &self.peer
    }

    pub(super) const fn multiplier(&self) -> NonZeroU8 {
        self.intervals.multiplier()
    }

    pub(super) fn status(&self) -> BfdSessionStatus {
        BfdSessionStatus {
            peer: self.peer.id,
            state: self.state,
            remote_state: self.remote.state,
            diagnostic: self.diagnostic,
            remote_diagnostic: self.remote.diagnostic,
            discriminator: self.discriminator,
            remote_discriminator: self.remote.discriminator,
            transmit_interval: self.transmit_interval(),
            detection_time: self.heard.map(|_| self.detection_time()),
            received: self.received,
            sent: self.sent,
            unsent: self.unsent,
            ups: self.ups,
        }
    }

    /// The other end's multiplier, times the pause that it keeps.
    fn detection_time(&self) -> Duration {
        let interval = self.intervals.in_force().receive.max(self.remote.desired_min_tx);
        microseconds(interval).saturating_mul(u32::from(self.remote.multiplier.get()))
    }

    const fn rise(&mut self) {
        self.state = State::Up;
        self.diagnostic = Diagnostic::NONE;
        self.ups = self.ups.saturating_add(1);
        self.owed.packet = true;
    }

    fn hold_down(&mut self) {
        self.fall(State::AdminDown, Diagnostic::ADMIN_DOWN, Loss::AdminDown);
    }

    fn fall(&mut self, to: State, diagnostic: Diagnostic, loss: Loss) {
        // Of several losses that nobody has asked for yet the first is told: it is what the session that was up died of.
        if self.state == State::Up && self.told.up {
            self.told.lost.get_or_insert(loss);
        }
        self.state = to;
        self.diagnostic = diagnostic;
        self.owed.packet = true;
    }

    fn apply_intervals(&mut self) {
        self.owed.packet |= self.intervals.apply(self.state, self.remote.discriminator.is_some());
    }
}

/// RFC 5880 sections 6.2 and 6.8.6: state here, state in the packet, state then.
pub(super) const fn next_state(local: State, remote: State) -> State {
    match (local, remote) {
        (State::AdminDown, _) => State::AdminDown,
        (_, State::AdminDown) | (State::Down, State::Up) | (State::Up, State::Down) => State::Down,
        (State::Down | State::Init, State::Down) => State::Init,
        (State::Down | State::Init | State::Up, State::Init) | (State::Init | State::Up, State::Up) => State::Up,
    }
}

/// Both have the same path: packets of one are the other's.
pub(super) fn is_same_path(one: &BfdPeer, other: &BfdPeer) -> bool {
    let Parameters { multihop, .. } = other.parameters;
    (one.id, one.local, one.parameters.multihop) == (other.id, other.local, multihop)
}

const fn microseconds(count: u32) -> Duration {
    Duration::from_micros(count as u64)
}

impl Default for Remote {
    fn default() -> Self {
        Self {
            discriminator: None,
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            demand: false,
            control_plane_independent: false,
            multiplier: NonZeroU8::MIN,
            desired_min_tx: 0,
            required_min_rx: 1,
        }
    }
}

impl From<&ControlPacket> for Remote {
    fn from(packet: &ControlPacket) -> Self {
        Self {
            discriminator: Some(packet.my_discriminator),
            state: packet.state,
            diagnostic: packet.diagnostic,
            demand: packet.demand,
            control_plane_independent: packet.control_plane_independent,
            multiplier: packet.multiplier,
            desired_min_tx: packet.desired_min_tx,
            required_min_rx: packet.required_min_rx,
        }
    }
}
