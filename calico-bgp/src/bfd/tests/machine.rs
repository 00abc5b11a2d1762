//! One machine and hand-made packets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::num::{NonZeroU8, NonZeroU32};
use core::time::Duration;

use calico_core::bgp::PeerId;

use super::simulation::{A, B, parameters, peer};
use crate::bfd::{
    Bfd, BfdConfig, BfdEvent, BfdPeer, ControlPacket, Diagnostic, Discard, Loss, PacketError, Received, State, Transmit,
};
use crate::time::Timestamp;

const THEIRS: NonZeroU32 = NonZeroU32::new(0xb0b).unwrap();

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(milliseconds))
}

fn machine() -> Bfd {
    let mut bfd = Bfd::new(BfdConfig { seed: 1, control_plane_independent: false });
    bfd.set_peers(at(0), &[peer(A, B, parameters(50, 50, 3))]);
    bfd
}

/// What B says, not knowing us yet.
fn hello(state: State) -> ControlPacket {
    ControlPacket {
        diagnostic: Diagnostic::NONE,
        state,
        poll: false,
        answer: false,
        control_plane_independent: false,
        demand: false,
        multiplier: NonZeroU8::new(3).unwrap(),
        my_discriminator: THEIRS,
        your_discriminator: None,
        desired_min_tx: 50_000,
        required_min_rx: 50_000,
        required_min_echo_rx: 0,
    }
}

fn to_us(bfd: &Bfd, state: State) -> ControlPacket {
    ControlPacket { your_discriminator: Some(bfd.status().sessions[0].discriminator), ..hello(state) }
}

fn datagram(payload: &[u8]) -> Received<'_> {
    Received { from: B, to: A, interface: None, hop_limit: 255, multihop: false, payload }
}

fn hear(bfd: &mut Bfd, now: u64, packet: ControlPacket) {
    bfd.handle_packet(at(now), &datagram(&packet.encode()));
}

fn sent(bfd: &mut Bfd) -> Vec<ControlPacket> {
    core::iter::from_fn(|| bfd.poll_transmit()).map(|sent| ControlPacket::decode(&sent.payload).unwrap()).collect()
}

fn events(bfd: &mut Bfd) -> Vec<BfdEvent> {
    core::iter::from_fn(|| bfd.poll_event()).collect()
}

/// A session that is up, all of whose output was taken.
fn up() -> Bfd {
    let mut bfd = machine();
    let packet = to_us(&bfd, State::Init);
    hear(&mut bfd, 100, packet);
    let answer = ControlPacket { answer: true, ..to_us(&bfd, State::Up) };
    hear(&mut bfd, 101, answer);
    assert_eq!(events(&mut bfd), [BfdEvent::Up { peer: PeerId::from(B) }]);
    sent(&mut bfd);
    bfd
}

#[test]
fn a_handshake_packet_by_packet() {
    let mut bfd = machine();
    bfd.handle_timeout(at(250));
    let ours = bfd.status().sessions[0].discriminator;
    let expected = ControlPacket { my_discriminator: ours, desired_min_tx: 1_000_000, ..hello(State::Down) };
    assert_eq!(sent(&mut bfd), [expected]);
    hear(&mut bfd, 300, hello(State::Down));
    let init = ControlPacket { state: State::Init, your_discriminator: Some(THEIRS), ..expected };
    assert_eq!(sent(&mut bfd), [init], "a change of state is told at once");
    let up = to_us(&bfd, State::Up);
    hear(&mut bfd, 301, up);
    let up = ControlPacket { state: State::Up, desired_min_tx: 50_000, poll: true, ..init };
    assert_eq!(sent(&mut bfd), [up], "the faster interval is polled for");
    assert_eq!(events(&mut bfd), [BfdEvent::Up { peer: PeerId::from(B) }]);
    bfd.handle_timeout(at(351));
    assert_eq!(sent(&mut bfd), [up], "until it is answered");
    let answer = ControlPacket { answer: true, ..to_us(&bfd, State::Up) };
    hear(&mut bfd, 352, answer);
    bfd.handle_timeout(at(401));
    assert_eq!(sent(&mut bfd), [ControlPacket { poll: false, ..up }]);
}

#[test]
fn a_poll_is_answered_at_once_and_many_at_a_time_once() {
    let mut bfd = up();
    let poll = ControlPacket { poll: true, ..to_us(&bfd, State::Up) };
    hear(&mut bfd, 102, poll);
    let answers = sent(&mut bfd);
    assert!(matches!(answers[..], [ControlPacket { answer: true, poll: false, state: State::Up, .. }]), "{answers:?}");
    for _ in 0..1000 {
        hear(&mut bfd, 103, poll);
    }
    assert_eq!(sent(&mut bfd).len(), 1);
}

#[test]
fn what_is_no_session_s_is_counted_and_changes_nothing() {
    let mut bfd = up();
    let before = bfd.status().sessions;
    let down = to_us(&bfd, State::Down).encode();
    let stranger = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
    let zero = hello(State::Down).encode();
    let guessed = ControlPacket { your_discriminator: NonZeroU32::new(12345), ..hello(State::Down) }.encode();
    let mut version = down;
    version[0] = 0x40;
    let mut authenticated = down.to_vec();
    authenticated.extend([1, 4, 1, b'x']);
    authenticated[1] |= 0x04;
    authenticated[3] = 28;
    let unknown = [
        Received { from: stranger, ..datagram(&down) },
        Received { to: stranger, ..datagram(&down) },
        Received { multihop: true, ..datagram(&down) },
        Received { from: stranger, ..datagram(&zero) },
        datagram(&guessed),
    ];
    let others = [
        (Received { hop_limit: 254, ..datagram(&down) }, Discard::HopLimit),
        (datagram(&version), Discard::Packet(PacketError::Version)),
        (datagram(&authenticated), Discard::Packet(PacketError::Authenticated)),
        (datagram(&down[..23]), Discard::Packet(PacketError::Length)),
    ];
    let cases = unknown.into_iter().map(|received| (received, Discard::UnknownSession)).chain(others);
    for (received, reason) in cases {
        let count = |bfd: &Bfd| bfd.status().discarded.get(&reason).copied().unwrap_or(0);
        let counted = count(&bfd);
        bfd.handle_packet(at(110), &received);
        assert_eq!(count(&bfd), counted + 1, "{received:?}");
        assert_eq!(bfd.status().sessions, before, "{received:?}");
        assert_eq!((sent(&mut bfd), events(&mut bfd)), (vec![], vec![]), "{received:?}");
    }
    assert_eq!(bfd.status().discarded.values().sum::<u64>(), 9);
}

#[test]
fn losses_that_nobody_asked_for_are_told_once_with_the_first_reason() {
    let mut bfd = up();
    let peer = PeerId::from(B);
    let down = ControlPacket { control_plane_independent: true, ..to_us(&bfd, State::Down) };
    let init = ControlPacket { control_plane_independent: true, ..to_us(&bfd, State::Init) };
    for round in 0..100 {
        hear(&mut bfd, 110 + round, down);
        hear(&mut bfd, 110 + round, init);
    }
    let loss = Loss::NeighborDown(Diagnostic::NONE);
    assert_eq!(
        events(&mut bfd),
        [BfdEvent::Down { peer, loss, control_plane_independent: true }, BfdEvent::Up { peer }]
    );
    assert_eq!(bfd.status().sessions[0].ups, 101);
    assert_eq!(sent(&mut bfd).len(), 1);
}

#[test]
fn a_neighbour_in_demand_mode_is_left_in_peace() {
    let mut bfd = up();
    let demand = ControlPacket { demand: true, ..to_us(&bfd, State::Up) };
    hear(&mut bfd, 110, demand);
    assert_eq!(bfd.status().sessions[0].transmit_interval, None);
    bfd.handle_timeout(at(250));
    assert_eq!(sent(&mut bfd), []);
    // It is still to be heard itself.
    bfd.handle_timeout(at(260));
    assert!(matches!(events(&mut bfd)[..], [BfdEvent::Down { loss: Loss::Expired, .. }]));
    assert_eq!(bfd.status().sessions[0].transmit_interval, Some(Duration::from_secs(1)));
}

#[test]
fn a_neighbour_that_wants_no_packets_gets_none() {
    let mut bfd = up();
    let silent = ControlPacket { required_min_rx: 0, ..to_us(&bfd, State::Up) };
    hear(&mut bfd, 110, silent);
    bfd.handle_timeout(at(250));
    assert_eq!(sent(&mut bfd), []);
    let again = to_us(&bfd, State::Up);
    hear(&mut bfd, 251, again);
    bfd.handle_timeout(at(302));
    assert_eq!(sent(&mut bfd).len(), 1);
}

#[test]
fn the_c_bit_says_what_is_configured() {
    for independent in [false, true] {
        let mut bfd = Bfd::new(BfdConfig { seed: 1, control_plane_independent: independent });
        bfd.set_peers(at(0), &[peer(A, B, parameters(50, 50, 3))]);
        bfd.handle_timeout(at(250));
        assert_eq!(sent(&mut bfd)[0].control_plane_independent, independent);
    }
}

#[test]
fn another_path_is_another_session() {
    let mut bfd = up();
    let old = bfd.status().sessions[0].discriminator;
    let mut multihop = peer(A, B, parameters(50, 50, 3));
    multihop.parameters.multihop = true;
    bfd.set_peers(at(120), &[multihop]);
    assert_eq!(bfd.poll_closed(), Some(old));
    assert!(matches!(events(&mut bfd)[..], [BfdEvent::Down { loss: Loss::Reconfigured, .. }]));
    bfd.handle_timeout(at(400));
    let transmit = bfd.poll_transmit().unwrap();
    assert!(transmit.multihop && transmit.session != old);
    // From far away, too.
    let packet = hello(State::Down).encode();
    bfd.handle_packet(at(401), &Received { multihop: true, hop_limit: 3, ..datagram(&packet) });
    assert_eq!(bfd.status().sessions[0].state, State::Init);
}

#[test]
fn link_local_neighbours_are_told_apart_by_their_link() {
    let address = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    let own = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));
    let on = |name: &str| PeerId { address, interface: Some(name.parse().unwrap()) };
    let peer = |name| BfdPeer { id: on(name), local: None, parameters: parameters(50, 50, 3), admin_down: false };
    let mut bfd = Bfd::new(BfdConfig::default());
    bfd.set_peers(at(0), &[peer("eth0"), peer("eth1")]);
    let packet = hello(State::Down).encode();
    let interface = Some("eth1".parse().unwrap());
    let received = Received { from: address, to: own, interface, hop_limit: 255, multihop: false, payload: &packet };
    bfd.handle_packet(at(1), &received);
    let states: Vec<_> = bfd.status().sessions.iter().map(|session| (session.peer, session.state)).collect();
    assert_eq!(states, [(on("eth0"), State::Down), (on("eth1"), State::Init)]);
    assert!(matches!(bfd.poll_transmit(), Some(Transmit { to, .. }) if to == on("eth1")));
}

#[test]
fn nothing_grows_with_what_strangers_send() {
    let mut bfd = machine();
    for number in 1..5000 {
        let from = IpAddr::V4(Ipv4Addr::from(0x0b00_0000 + number));
        let packet = ControlPacket { my_discriminator: NonZeroU32::new(number).unwrap(), ..hello(State::Down) };
        bfd.handle_packet(at(1), &Received { from, ..datagram(&packet.encode()) });
    }
    let status = bfd.status();
    assert_eq!((status.sessions.len(), status.discarded.len()), (1, 1));
    assert_eq!((sent(&mut bfd), events(&mut bfd)), (vec![], vec![]));
}

#[test]
fn packets_become_rarer_only_once_the_neighbour_has_agreed() {
    let mut bfd = up();
    bfd.set_peers(at(110), &[peer(A, B, parameters(500, 500, 3))]);
    let packets = sent(&mut bfd);
    assert!(matches!(packets[..], [ControlPacket { poll: true, desired_min_tx: 500_000, .. }]), "{packets:?}");
    let interval = |bfd: &Bfd| bfd.status().sessions[0].transmit_interval;
    assert_eq!(interval(&bfd), Some(Duration::from_millis(50)));
    let answer = ControlPacket { answer: true, ..to_us(&bfd, State::Up) };
    hear(&mut bfd, 111, answer);
    assert_eq!(interval(&bfd), Some(Duration::from_millis(500)));
}
