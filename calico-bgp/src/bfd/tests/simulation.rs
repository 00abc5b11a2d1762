//! Two machines and a wire that loses, delays and reorders, under virtual time.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use calico_core::bgp::{Bfd as Parameters, PeerId};

use crate::bfd::{
    Bfd, BfdConfig, BfdEvent, BfdPeer, BfdSessionStatus, ControlPacket, Diagnostic, Loss, Received, State,
};
use crate::time::Timestamp;

pub(super) const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(super) const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const MS: Duration = Duration::from_millis(1);

pub(super) const fn parameters(transmit: u64, receive: u64, multiplier: u8) -> Parameters {
    Parameters {
        transmit: Duration::from_millis(transmit),
        receive: Duration::from_millis(receive),
        multiplier,
        multihop: false,
    }
}

pub(super) fn peer(local: IpAddr, remote: IpAddr, parameters: Parameters) -> BfdPeer {
    BfdPeer { id: PeerId::from(remote), local: Some(local), parameters, admin_down: false }
}

/// A datagram on its way.
struct Flying {
    from: IpAddr,
    to: IpAddr,
    multihop: bool,
    bytes: Vec<u8>,
}

/// One direction of the wire.
#[derive(Clone, Copy, Default)]
struct Direction {
    cut: bool,
    /// Of a hundred packets, so many vanish.
    loss: u64,
    /// Delay in milliseconds, from zero to this: enough of it reorders.
    spread: u64,
}

/// One end and all that it said and sent.
struct End {
    address: IpAddr,
    bfd: Bfd,
    way: Direction,
    events: Vec<(Duration, BfdEvent)>,
    sent: Vec<(Duration, ControlPacket)>,
}

struct Pair {
    now: Timestamp,
    ends: [End; 2],
    wire: BTreeMap<(Timestamp, u64), Flying>,
    random: u64,
}

impl Pair {
    fn new(seed: u64, a: Parameters, b: Parameters) -> Self {
        let end = |address, remote, parameters, seed| {
            let mut bfd = Bfd::new(BfdConfig { seed, control_plane_independent: false });
            bfd.set_peers(Timestamp::ZERO, &[peer(address, remote, parameters)]);
            End { address, bfd, way: Direction::default(), events: Vec::new(), sent: Vec::new() }
        };
        let ends = [end(A, B, a, seed), end(B, A, b, seed + 1000)];
        Self { now: Timestamp::ZERO, ends, wire: BTreeMap::new(), random: seed }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below.max(1)
    }

    /// Lets time pass.
    fn run(&mut self, time: Duration) {
        let until = self.now.after(time);
        loop {
            self.collect();
            let due = self.ends.iter().filter_map(|end| end.bfd.poll_timeout());
            let next = due.chain(self.wire.keys().map(|(at, _)| *at)).min().unwrap_or(until).max(self.now);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= next) {
                let flying = entry.remove();
                let end = self.ends.iter_mut().find(|end| end.address == flying.to).unwrap();
                let Flying { from, to, multihop, bytes } = &flying;
                let (from, to, multihop) = (*from, *to, *multihop);
                let received = Received { from, to, interface: None, hop_limit: 255, multihop, payload: bytes };
                end.bfd.handle_packet(next, &received);
            }
            for end in &mut self.ends {
                end.bfd.handle_timeout(next);
            }
        }
    }

    fn collect(&mut self) {
        for index in 0..2 {
            while let Some(transmit) = self.ends[index].bfd.poll_transmit() {
                let (way, at) = (self.ends[index].way, self.now.since_origin());
                let packet = ControlPacket::decode(&transmit.payload).unwrap();
                self.ends[index].sent.push((at, packet));
                let (lost, delay, tie) = (self.draw(100) < way.loss, self.draw(way.spread + 1), self.draw(u64::MAX));
                if way.cut || lost {
                    continue;
                }
                let flying = Flying {
                    from: self.ends[index].address,
                    to: transmit.to.address,
                    multihop: transmit.multihop,
                    bytes: transmit.payload.to_vec(),
                };
                self.wire.insert((self.now.after(MS * u32::try_from(delay).unwrap()), tie), flying);
            }
            let end = &mut self.ends[index];
            while let Some(event) = end.bfd.poll_event() {
                end.events.push((self.now.since_origin(), event));
            }
        }
    }

    fn set(&mut self, index: usize, parameters: Parameters) {
        let (end, other) = (self.ends[index].address, self.ends[1 - index].address);
        self.ends[index].bfd.set_peers(self.now, &[peer(end, other, parameters)]);
    }

    fn status(&self, index: usize) -> BfdSessionStatus {
        self.ends[index].bfd.status().sessions[0].clone()
    }

    fn states(&self) -> [State; 2] {
        [self.status(0).state, self.status(1).state]
    }

    /// The only loss of an end, and when it was told.
    fn loss(&self, index: usize) -> (Duration, Loss) {
        let losses: Vec<_> = self.ends[index].events.iter().filter_map(loss_of).collect();
        assert_eq!(losses.len(), 1, "{losses:?}");
        losses[0]
    }

    fn losses(&self) -> usize {
        self.ends.iter().flat_map(|end| &end.events).filter_map(loss_of).count()
    }

    /// Pauses between packets of an end since a moment.
    fn pauses(&self, index: usize, since: Duration) -> Vec<Duration> {
        let times: Vec<_> = self.ends[index].sent.iter().map(|(at, _)| *at).filter(|at| *at > since).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

fn loss_of((at, event): &(Duration, BfdEvent)) -> Option<(Duration, Loss)> {
    match event {
        BfdEvent::Down { loss, .. } => Some((*at, *loss)),
        BfdEvent::Up { .. } => None,
    }
}

fn within(pauses: &[Duration], least: u64, most: u64) {
    assert!(pauses.len() > 10, "{pauses:?}");
    let bad: Vec<_> = pauses.iter().filter(|pause| **pause < MS * least as u32 || **pause > MS * most as u32).collect();
    assert!(bad.is_empty(), "not within {least}..{most} ms: {bad:?}");
}

#[test]
fn comes_up_and_agrees_on_intervals() {
    for seed in 0..50 {
        let mut pair = Pair::new(seed, parameters(100, 300, 3), parameters(50, 200, 5));
        pair.run(Duration::from_secs(4));
        assert_eq!(pair.states(), [State::Up; 2], "seed {seed}");
        let (a, b) = (pair.status(0), pair.status(1));
        // Each sends as rarely as either wants it, and waits for the other's multiple of that.
        assert_eq!((a.transmit_interval, a.detection_time), (Some(MS * 200), Some(MS * 1500)), "seed {seed}");
        assert_eq!((b.transmit_interval, b.detection_time), (Some(MS * 300), Some(MS * 600)), "seed {seed}");
        let since = pair.now.since_origin();
        pair.run(Duration::from_secs(60));
        within(&pair.pauses(0, since), 150, 200);
        within(&pair.pauses(1, since), 225, 300);
        for index in 0..2 {
            let last = pair.ends[index].sent.last().unwrap().1;
            assert!(!last.poll && !last.answer, "the Poll Sequence has ended: {last:?}");
        }
        assert_eq!((pair.losses(), pair.ends[0].events.len(), pair.ends[1].events.len()), (0, 1, 1));
    }
}

#[test]
fn a_multiplier_of_one_never_loses_a_session_to_jitter() {
    let mut pair = Pair::new(1, parameters(100, 100, 1), parameters(100, 100, 1));
    pair.run(Duration::from_secs(4));
    let since = pair.now.since_origin();
    pair.run(Duration::from_secs(300));
    within(&pair.pauses(0, since), 75, 90);
    assert_eq!((pair.states(), pair.losses()), ([State::Up; 2], 0));
}

#[test]
fn is_slow_until_it_is_up() {
    let mut pair = Pair::new(1, parameters(20, 20, 3), parameters(20, 20, 3));
    pair.ends[1].way.cut = true;
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.states(), [State::Down, State::Init]);
    within(&pair.pauses(0, Duration::ZERO), 750, 1000);
    assert!(pair.ends.iter().flat_map(|end| &end.sent).all(|(_, packet)| packet.desired_min_tx == 1_000_000));
}

#[test]
fn silence_is_noticed_after_the_detection_time_and_not_before() {
    for seed in 0..50 {
        let mut pair = Pair::new(seed, parameters(50, 50, 3), parameters(80, 100, 4));
        pair.run(Duration::from_secs(5));
        pair.ends[1].way.cut = true;
        pair.run(Duration::from_secs(3));
        // B sends every 80 ms at most; its multiplier counts.
        let last =
            pair.ends[1].sent.iter().map(|(at, _)| *at).filter(|at| *at <= Duration::from_secs(5)).max().unwrap();
        assert_eq!(pair.loss(0), (last + MS * 320, Loss::Expired), "seed {seed}");
        // And A says so at once: the other way is whole.
        assert_eq!(pair.loss(1), (last + MS * 320, Loss::NeighborDown(Diagnostic::EXPIRED)), "seed {seed}");
        assert_eq!((pair.status(0).diagnostic, pair.status(0).remote_discriminator), (Diagnostic::EXPIRED, None));
        pair.ends[1].way.cut = false;
        pair.run(Duration::from_secs(4));
        assert_eq!(pair.states(), [State::Up; 2], "seed {seed}");
    }
}

#[test]
fn loss_delay_and_reordering_are_borne() {
    for seed in 0..20 {
        let mut pair = Pair::new(seed, parameters(50, 50, 10), parameters(50, 50, 10));
        for end in &mut pair.ends {
            end.way = Direction { cut: false, loss: 10, spread: 120 };
        }
        pair.run(Duration::from_secs(15));
        assert_eq!(pair.states(), [State::Up; 2], "seed {seed}");
        let before = pair.losses();
        pair.run(Duration::from_secs(120));
        assert_eq!((pair.states(), pair.losses()), ([State::Up; 2], before), "seed {seed}");
    }
}

#[test]
fn a_restarted_neighbour_is_noticed_at_once() {
    let mut pair = Pair::new(7, parameters(50, 50, 3), parameters(50, 50, 3));
    pair.run(Duration::from_secs(4));
    let mut again = Bfd::new(BfdConfig { seed: 77, control_plane_independent: false });
    again.set_peers(pair.now, &[peer(B, A, parameters(50, 50, 3))]);
    pair.ends[1].bfd = again;
    pair.run(Duration::from_secs(4));
    assert!(matches!(pair.loss(0).1, Loss::NeighborDown(Diagnostic::NONE) | Loss::Expired), "{:?}", pair.loss(0));
    assert_eq!(pair.states(), [State::Up; 2]);
}

#[test]
fn intervals_change_while_up_without_a_loss() {
    let steps = [(500, 500, 3), (20, 20, 3), (50, 400, 2), (400, 50, 5), (2000, 2000, 3), (30, 30, 1), (100, 100, 3)];
    for (seed, loss) in [(1, 0), (2, 0), (3, 0), (4, 5), (5, 5)] {
        let mut pair = Pair::new(seed, parameters(100, 100, 3), parameters(100, 100, 9));
        pair.ends[0].way.loss = loss;
        pair.run(Duration::from_secs(5));
        for (transmit, receive, multiplier) in steps {
            let multiplier = if loss == 0 { multiplier } else { multiplier + 7 };
            pair.set(0, parameters(transmit, receive, multiplier));
            pair.run(Duration::from_secs(10));
            let (a, b) = (pair.status(0), pair.status(1));
            assert_eq!(pair.states(), [State::Up; 2], "seed {seed}, step {transmit}");
            assert_eq!(a.transmit_interval, Some(MS * transmit.max(100) as u32), "seed {seed}");
            assert_eq!(b.transmit_interval, Some(MS * receive.max(100) as u32), "seed {seed}");
            assert_eq!(b.detection_time, a.transmit_interval.map(|pause| pause * u32::from(multiplier)), "seed {seed}");
        }
        assert_eq!(pair.losses(), 0, "seed {seed}");
    }
}

#[test]
fn several_changes_at_once_are_agreed_one_after_the_other() {
    let mut pair = Pair::new(3, parameters(100, 100, 3), parameters(100, 100, 3));
    pair.run(Duration::from_secs(4));
    pair.ends[0].way.spread = 30;
    pair.ends[1].way.spread = 30;
    for (transmit, receive) in [(1000, 900), (300, 200), (700, 600), (400, 500)] {
        pair.set(0, parameters(transmit, receive, 3));
        pair.run(MS * 3);
    }
    pair.run(Duration::from_secs(10));
    assert_eq!((pair.states(), pair.losses()), ([State::Up; 2], 0));
    assert_eq!((pair.status(0).transmit_interval, pair.status(1).transmit_interval), (Some(MS * 400), Some(MS * 500)));
}

#[test]
fn admin_down_is_told_and_is_no_failure() {
    let mut pair = Pair::new(5, parameters(50, 50, 3), parameters(50, 50, 3));
    pair.run(Duration::from_secs(4));
    let held = BfdPeer { admin_down: true, ..peer(A, B, parameters(50, 50, 3)) };
    pair.ends[0].bfd.set_peers(pair.now, &[held]);
    pair.run(Duration::from_secs(10));
    assert_eq!(pair.states(), [State::AdminDown, State::Down]);
    let (here, there) = (pair.loss(0), pair.loss(1));
    assert_eq!(
        (here, there),
        ((Duration::from_secs(4), Loss::AdminDown), (Duration::from_secs(4), Loss::NeighborAdminDown))
    );
    assert!(!here.1.is_failure() && !there.1.is_failure());
    assert_eq!(pair.status(1).remote_diagnostic, Diagnostic::ADMIN_DOWN);
    pair.set(0, parameters(50, 50, 3));
    pair.run(Duration::from_secs(4));
    assert_eq!((pair.states(), pair.losses()), ([State::Up; 2], 2));
}

#[test]
fn a_removed_session_says_so_and_is_forgotten() {
    let mut pair = Pair::new(5, parameters(50, 50, 3), parameters(50, 50, 3));
    pair.run(Duration::from_secs(4));
    pair.ends[1].way.loss = 100;
    pair.ends[0].bfd.set_peers(pair.now, &[]);
    assert_eq!(pair.ends[0].bfd.status().sessions, []);
    assert_eq!(pair.ends[0].bfd.poll_closed(), None, "it has yet to say so");
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.loss(1).1, Loss::NeighborAdminDown);
    assert!(pair.ends[0].bfd.poll_closed().is_some());
    assert_eq!((pair.ends[0].bfd.poll_timeout(), pair.ends[0].events.len()), (None, 1));
}
