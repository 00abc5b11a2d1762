//! One speaker against a peer that is played byte by byte.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Originated, PeerKind};
use calico_core::net::{AsNumber, Cidr, Family};

use crate::wire::update::{encode_announcements, encode_withdrawals};
use crate::wire::{
    self, AddressFamily, Capability, DecodeContext, EncodeContext, Framer, GracefulRestart, GracefulRestartFamily,
    Message, MessageKind, Notification, Open, PathAttributes, PeerType, RouteRefresh, Update, header,
};
use crate::{Action, BgpEvent, ConnectionId, SessionState, Speaker, SpeakerConfig, Timestamp};

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SECOND: Duration = Duration::from_secs(1);

/// The speaker, the present connection, and what was seen of both.
struct Bench {
    speaker: Speaker,
    now: Timestamp,
    connection: ConnectionId,
    framer: Framer,
    peer_as: AsNumber,
    /// How the peer reads.
    context: DecodeContext,
    /// What the speaker has sent and nobody has looked at.
    sent: Vec<Message>,
    closed: bool,
    routes: std::collections::BTreeMap<Cidr, IpAddr>,
}

impl Bench {
    fn new() -> Self {
        Self::with(AsNumber::DEFAULT, SpeakerConfig::default())
    }

    fn external() -> Self {
        Self::with(AsNumber::new(64513), SpeakerConfig::default())
    }

    fn with(peer_as: AsNumber, config: SpeakerConfig) -> Self {
        let local = LocalSpeaker::new("us", AsNumber::DEFAULT, US);
        let peer = DesiredPeer::new(PEER.into(), peer_as, PeerKind::Mesh, "peer");
        let mut speaker = Speaker::new(config);
        let originated = vec![Originated::block(cidr("10.1.0.0/26"))];
        speaker.set_desired(
            Timestamp::ZERO,
            &DesiredBgp { local: Some(local), peers: vec![peer], originated, ..DesiredBgp::default() },
        );
        let mut bench = Self {
            speaker,
            now: Timestamp::ZERO,
            connection: ConnectionId::new(u64::MAX),
            framer: Framer::default(),
            peer_as,
            context: DecodeContext::new(PeerType::Internal),
            sent: Vec::new(),
            closed: false,
            routes: std::collections::BTreeMap::new(),
        };
        bench.connect();
        bench
    }

    /// The peer calls; our OPEN is taken.
    fn connect(&mut self) {
        assert!(self.try_connect(), "refused");
        assert!(matches!(self.take().as_slice(), [Message::Open(_)]));
    }

    fn try_connect(&mut self) -> bool {
        let accepted = self.speaker.handle_accepted(self.now, IpAddr::V4(PEER).into());
        self.framer = Framer::default();
        self.sent.clear();
        self.closed = accepted.is_none();
        self.connection = accepted.unwrap_or(self.connection);
        self.pump();
        accepted.is_some()
    }

    fn establish(&mut self, open: &Open) {
        self.send(&open.encode());
        self.send(&wire::keepalive());
        assert_eq!(self.state(), SessionState::Established);
        self.take();
    }

    fn send(&mut self, bytes: &[u8]) {
        self.speaker.handle_bytes(self.now, self.connection, bytes);
        self.pump();
    }

    fn lose(&mut self) {
        self.speaker.handle_closed(self.now, self.connection);
        self.pump();
    }

    /// Time passes, and every timer fires when it is due. Our own calls are not answered.
    fn wait(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(next) = self.speaker.poll_timeout().filter(|next| *next <= end) {
            self.now = next;
            self.speaker.handle_timeout(next);
            self.pump();
        }
        self.now = end;
    }

    fn pump(&mut self) {
        let mut bytes = Vec::new();
        while let Some(id) = self.speaker.poll_ready() {
            let mut more = Vec::new();
            self.speaker.poll_transmit(id, &mut more);
            while !more.is_empty() && id == self.connection {
                bytes.append(&mut more);
                self.speaker.poll_transmit(id, &mut more);
            }
        }
        while let Some(action) = self.speaker.poll_action() {
            match action {
                Action::Disconnect { connection, last } if connection == self.connection => {
                    bytes.extend(last);
                    self.closed = true;
                }
                Action::Connect { .. } | Action::Disconnect { .. } | Action::Listen(_) | Action::Watch(_) => {}
            }
        }
        self.framer.push(&bytes);
        while let Some((kind, body)) = self.framer.next_message().unwrap() {
            self.sent.push(Message::decode(kind, body, self.context).unwrap());
        }
        while let Some(event) = self.speaker.poll_event() {
            match event {
                BgpEvent::RouteSet(route) => drop(self.routes.insert(route.prefix, route.next_hop)),
                BgpEvent::RouteRemoved(prefix) => drop(self.routes.remove(&prefix)),
                _ => {}
            }
        }
    }

    fn take(&mut self) -> Vec<Message> {
        core::mem::take(&mut self.sent)
    }

    fn state(&self) -> SessionState {
        self.speaker.status().peers[0].state
    }

    /// Code and subcode of the NOTIFICATION that closed the connection.
    fn refusal(&mut self) -> (u8, u8) {
        assert!(self.closed, "still open");
        match self.take().as_slice() {
            [.., Message::Notification(Notification { code, subcode, .. })] => (*code, *subcode),
            other => panic!("no NOTIFICATION: {other:?}"),
        }
    }

    fn open(&self) -> Open {
        Open {
            as_number: self.peer_as,
            hold_time: 90,
            identifier: PEER,
            capabilities: vec![
                Capability::Multiprotocol(AddressFamily::IPV4_UNICAST),
                Capability::FourOctetAs(self.peer_as),
                Capability::GracefulRestart(graceful(120, true)),
            ],
        }
    }

    fn announce(&mut self, prefix: &str, next_hop: Ipv4Addr, change: impl FnOnce(&mut PathAttributes)) {
        let mut attributes = PathAttributes::default();
        if self.peer_as != AsNumber::DEFAULT {
            attributes.as_path = [self.peer_as].into_iter().collect();
        }
        change(&mut attributes);
        let mut messages = Vec::new();
        let routes = [cidr(prefix).into()];
        encode_announcements(&attributes, next_hop.into(), &routes, EncodeContext::default(), &mut messages).unwrap();
        self.send(&messages);
    }

    fn has(&self, prefix: &str) -> bool {
        self.routes.contains_key(&cidr(prefix))
    }
}

fn graceful(restart_time: u16, forwarding_preserved: bool) -> GracefulRestart {
    let family = AddressFamily::IPV4_UNICAST;
    GracefulRestart {
        restarting: false,
        notification: false,
        restart_time,
        families: vec![GracefulRestartFamily { family, forwarding_preserved }],
    }
}

fn end_of_rib() -> Vec<u8> {
    let mut message = Vec::new();
    wire::update::encode_end_of_rib(Family::V4, &mut message);
    message
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

/// The peer's OPEN with another graceful restart capability.
fn with_graceful(mut open: Open, restart: Option<GracefulRestart>) -> Open {
    open.capabilities.retain(|capability| !matches!(capability, Capability::GracefulRestart(_)));
    open.capabilities.extend(restart.map(Capability::GracefulRestart));
    open
}

#[test]
fn our_open_says_who_we_are_and_that_we_may_have_restarted() {
    let mut bench = Bench::new();
    bench.lose();
    assert!(bench.try_connect());
    let [Message::Open(open)] = &bench.take()[..] else { panic!("no OPEN") };
    assert_eq!((open.as_number, open.identifier, open.hold_time), (AsNumber::DEFAULT, US, 90));
    assert!(open.offers(AddressFamily::IPV4_UNICAST) && open.has_four_octet_as());
    let expected = GracefulRestart { restarting: true, ..graceful(120, true) };
    assert_eq!(open.graceful_restart(), Some(&expected));
    // Once settled, a new connection is no restart any more.
    let theirs = bench.open();
    bench.establish(&theirs);
    bench.send(&end_of_rib());
    bench.lose();
    assert!(bench.try_connect());
    let [Message::Open(open)] = &bench.take()[..] else { panic!("no OPEN") };
    assert_eq!(open.graceful_restart(), Some(&graceful(120, true)));
}

#[test]
fn our_routes_come_first_and_the_end_of_rib_last() {
    let mut bench = Bench::new();
    let open = bench.open();
    bench.send(&open.encode());
    bench.send(&wire::keepalive());
    let updates = |messages: Vec<Message>| -> Vec<Update> {
        let only = |message| if let Message::Update(update) = message { Some(*update) } else { None };
        messages.into_iter().filter_map(only).collect()
    };
    let sent = updates(bench.take());
    assert_eq!(sent.len(), 1, "the end-of-RIB waits for the peer's: {sent:?}");
    assert_eq!(sent[0].reach[0].routes, [cidr("10.1.0.0/26").into()]);
    assert_eq!(sent[0].reach[0].next_hop, US.into());
    bench.send(&end_of_rib());
    assert_eq!(updates(bench.take())[0].end_of_rib, Some(Family::V4));
}

#[test]
fn messages_in_the_wrong_state() {
    let update = end_of_rib();
    // In OpenSent.
    for message in [wire::keepalive(), update.clone()] {
        let mut bench = Bench::new();
        bench.send(&message);
        assert_eq!(bench.refusal(), (5, 1));
    }
    // In OpenConfirm.
    let refresh = RouteRefresh::request(AddressFamily::IPV4_UNICAST).encode();
    for message in [Bench::new().open().encode(), update, refresh] {
        let mut bench = Bench::new();
        let open = bench.open();
        bench.send(&open.encode());
        bench.send(&message);
        assert_eq!(bench.refusal(), (5, 2));
    }
    let mut bench = Bench::new();
    let open = bench.open();
    bench.establish(&open);
    bench.send(&open.encode());
    assert_eq!(bench.refusal(), (5, 3));
}

#[test]
fn a_notification_is_never_answered() {
    let mut bench = Bench::new();
    bench.send(&Notification::new(2, 2, vec![1, 2, 3]).encode());
    assert!(bench.closed);
    assert_eq!(bench.take(), []);
    let error = bench.speaker.status().peers[0].last_error.clone();
    assert_eq!(error.as_deref(), Some("received: OPEN: bad peer AS (2/2)"));
}

#[test]
fn opens_that_do_not_fit_the_configuration() {
    let refused = |change: &dyn Fn(&mut Open)| {
        let mut bench = Bench::new();
        let mut open = bench.open();
        change(&mut open);
        bench.send(&open.encode());
        bench.refusal()
    };
    assert_eq!(refused(&|open| (open.as_number, open.capabilities) = (AsNumber::new(64999), Vec::new())), (2, 2));
    assert_eq!(refused(&|open| open.identifier = US), (2, 3));
    let other_family = Capability::Multiprotocol(AddressFamily::IPV6_UNICAST);
    assert_eq!(refused(&|open| open.capabilities[0] = other_family.clone()), (2, 7), "no IPv4 unicast");
    let mut external = Bench::external();
    let open = Open { identifier: US, ..external.open() };
    external.establish(&open);
}

/// RFC 6793: each end writes AS numbers as the other reads them.
#[test]
fn a_peer_with_as_numbers_of_two_octets() {
    let mut bench = Bench::external();
    let mut open = bench.open();
    open.capabilities.retain(|capability| !matches!(capability, Capability::FourOctetAs(_)));
    bench.context.four_octet_as = false;
    bench.send(&open.encode());
    bench.send(&wire::keepalive());
    assert_eq!(bench.state(), SessionState::Established);
    let sent = bench.take();
    let path = sent.iter().find_map(|message| match message {
        Message::Update(update) if !update.reach.is_empty() => Some(update.attributes.as_path.systems().to_vec()),
        _ => None,
    });
    assert_eq!(path, Some(vec![AsNumber::DEFAULT]));
    let attributes =
        PathAttributes { as_path: [bench.peer_as, AsNumber::new(70_000)].into_iter().collect(), ..Default::default() };
    let context = EncodeContext { four_octet_as: false, ..EncodeContext::default() };
    let mut message = Vec::new();
    encode_announcements(&attributes, PEER.into(), &[cidr("10.9.0.0/26").into()], context, &mut message).unwrap();
    bench.send(&message);
    assert!(bench.has("10.9.0.0/26"));
}

#[test]
fn after_an_error_the_peer_is_held_down_for_a_while() {
    let mut bench = Bench::new();
    bench.send(&[0; 19]);
    assert_eq!(bench.refusal(), (1, 1));
    assert_eq!(bench.state(), SessionState::Idle);
    assert!(!bench.try_connect(), "it must not be let in at once");
    bench.wait(5 * SECOND);
    assert!(bench.try_connect());
}

/// A bench whose first connection is gone, a call of our own that the peer has taken, and then a call of the peer's.
fn with_second_connection() -> (Bench, ConnectionId) {
    let mut bench = Bench::new();
    bench.lose();
    bench.now = bench.speaker.poll_timeout().unwrap();
    bench.speaker.handle_timeout(bench.now);
    let Some(Action::Connect { connection, .. }) = bench.speaker.poll_action() else { panic!("no call") };
    bench.speaker.handle_connected(bench.now, connection);
    bench.connect();
    (bench, connection)
}

#[test]
fn a_second_connection_that_fails_does_not_count_against_the_session() {
    let (mut bench, second) = with_second_connection();
    bench.speaker.handle_bytes(bench.now, second, &[0; 19]);
    let open = bench.open();
    bench.establish(&open);
    bench.lose();
    assert!(bench.try_connect(), "held down for an error before the session");

    let (mut bench, second) = with_second_connection();
    bench.establish(&open);
    bench.speaker.handle_bytes(bench.now, second, &[0; 19]);
    let status = bench.speaker.status();
    assert_eq!((status.peers[0].state, status.peers[0].last_error.as_deref()), (SessionState::Established, None));
}

#[test]
fn hold_times() {
    let mut bench = Bench::new();
    let open = Open { hold_time: 3, ..bench.open() };
    bench.establish(&open);
    bench.wait(2 * SECOND);
    let sent = bench.take();
    assert!(sent.len() >= 2 && sent.iter().all(|message| *message == Message::Keepalive), "{sent:?}");
    bench.send(&wire::keepalive());
    bench.wait(Duration::from_millis(2900));
    assert!(!bench.closed);
    bench.wait(Duration::from_millis(200));
    assert_eq!(bench.refusal(), (4, 0));

    let mut bench = Bench::new();
    let open = Open { hold_time: 0, ..bench.open() };
    bench.establish(&open);
    bench.wait(100_000 * SECOND);
    assert!(
        !bench.closed && bench.take().iter().all(|message| *message != Message::Keepalive),
        "hold time 0: no timers"
    );
}

#[test]
fn a_stall_of_our_own_is_not_the_silence_of_the_peer() {
    for speaks in [true, false] {
        let mut bench = Bench::new();
        let open = bench.open();
        bench.establish(&open);
        // Nothing runs for five minutes; then timers are looked at before the socket is.
        bench.now = bench.now.after(300 * SECOND);
        bench.speaker.handle_timeout(bench.now);
        bench.pump();
        assert!(!bench.closed);
        if speaks {
            bench.send(&wire::keepalive());
            bench.wait(89 * SECOND);
            assert!(!bench.closed);
            bench.wait(2 * SECOND);
        } else {
            bench.wait(3 * SECOND);
        }
        assert_eq!(bench.refusal(), (4, 0), "the peer was heard after the stall: {speaks}");
    }
}

#[test]
fn a_peer_that_dribbles_is_timed_out_before_its_open_is_complete() {
    let mut bench = Bench::new();
    for byte in bench.open().encode().into_iter().take(20) {
        bench.send(&[byte]);
        bench.wait(15 * SECOND);
    }
    assert_eq!(bench.refusal(), (4, 0));
}

/// Nothing is taken from the speaker: what it holds stays small, and in the end it gives up.
#[test]
fn a_peer_that_does_not_read_is_given_up_after_the_send_hold_time() {
    let mut bench = Bench::new();
    let open = bench.open();
    bench.establish(&open);
    for _ in 0..600 {
        let end = bench.now.after(SECOND);
        while let Some(next) = bench.speaker.poll_timeout().filter(|next| *next <= end) {
            bench.speaker.handle_timeout(next);
        }
        bench.now = end;
        bench.speaker.handle_bytes(end, bench.connection, &wire::keepalive());
    }
    let disconnected = core::iter::from_fn(|| bench.speaker.poll_action()).find_map(|action| match action {
        Action::Disconnect { connection, last } if connection == bench.connection => Some(last),
        _ => None,
    });
    let last = [wire::keepalive(), Notification::send_hold_timer_expired().encode()].concat();
    assert_eq!(disconnected, Some(last), "one KEEPALIVE at most may have piled up, and the reason comes after it");
    let error = bench.speaker.status().peers[0].last_error.clone();
    assert_eq!(error.as_deref(), Some("the peer has stopped reading"));
}

#[test]
fn next_hops_that_lead_nowhere() {
    let nowhere = [
        Ipv4Addr::UNSPECIFIED,
        US,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(0, 0, 0, 9),
    ];
    for next_hop in nowhere {
        let mut bench = Bench::new();
        let open = bench.open();
        bench.establish(&open);
        bench.announce("10.2.0.0/26", PEER, |_| ());
        assert!(bench.has("10.2.0.0/26"));
        bench.announce("10.2.0.0/26", next_hop, |_| ());
        assert!(!bench.has("10.2.0.0/26"), "{next_hop} must replace the path that could be used");
        assert!(!bench.closed);
        bench.announce("10.2.0.0/26", Ipv4Addr::new(240, 0, 0, 1), |_| ());
        assert!(bench.has("10.2.0.0/26"), "240/4 may be in use");
    }
}

#[test]
fn loops_and_foreign_paths_are_refused() {
    let mut internal = Bench::new();
    let open = internal.open();
    internal.establish(&open);
    internal.announce("10.2.0.0/26", PEER, |attributes| attributes.as_path = path(&[1, 64512]));
    internal.announce("10.2.1.0/26", PEER, |attributes| attributes.originator_id = Some(US));
    internal.announce("10.2.2.0/26", PEER, |attributes| attributes.cluster_list = vec![US]);
    assert!(internal.routes.is_empty(), "{:?}", internal.routes);
    internal.announce("10.2.3.0/26", PEER, |attributes| attributes.as_path = path(&[1, 2]));
    assert!(internal.has("10.2.3.0/26"));

    let mut external = Bench::external();
    let open = external.open();
    external.establish(&open);
    for systems in [&[][..], &[1], &[1, 64513], &[64513, 64512]] {
        external.announce("10.2.0.0/26", PEER, |attributes| attributes.as_path = path(systems));
        assert!(external.routes.is_empty(), "{systems:?}");
    }
    external.announce("10.2.0.0/26", PEER, |attributes| attributes.as_path = path(&[64513, 1]));
    assert!(external.has("10.2.0.0/26") && !external.closed);
}

fn path(systems: &[u32]) -> wire::AsPath {
    systems.iter().map(|system| AsNumber::new(*system)).collect()
}

#[test]
fn a_malformed_update_withdraws_its_prefixes_and_nothing_else() {
    let mut bench = Bench::new();
    let open = bench.open();
    bench.establish(&open);
    bench.announce("10.2.0.0/26", PEER, |_| ());
    bench.announce("10.2.1.0/26", PEER, |_| ());
    // ORIGIN 9, an empty AS_PATH, NEXT_HOP.
    let attributes = [0x40, 1, 1, 9, 0x40, 2, 0, 0x40, 3, 4, 10, 0, 0, 2];
    let body = [&[0, 0, 0, 14][..], &attributes, &[26, 10, 2, 0, 0]].concat();
    bench.send(&header::frame(MessageKind::Update, &body));
    assert!(!bench.has("10.2.0.0/26") && bench.has("10.2.1.0/26") && !bench.closed);
    bench.send(&header::frame(MessageKind::Update, &body));
    assert!(!bench.closed, "a withdrawal of what was never there");
    let mut withdrawal = Vec::new();
    encode_withdrawals(&[cidr("10.9.0.0/26").into()], EncodeContext::default(), &mut withdrawal);
    bench.send(&withdrawal);
    assert!(!bench.closed);
    bench.send(&header::frame(MessageKind::Update, &[0, 0, 0, 0, 33]));
    assert_eq!(bench.refusal(), (3, 10));
    assert!(bench.routes.is_empty(), "a reset by us ends graceful restart");
}

#[test]
fn a_refresh_brings_everything_again_and_foreign_ones_nothing() {
    let mut bench = Bench::new();
    let open = bench.open();
    bench.establish(&open);
    bench.send(&RouteRefresh::request(AddressFamily::IPV6_UNICAST).encode());
    bench.send(&header::frame(MessageKind::RouteRefresh, &[0, 1, 2, 1]));
    assert_eq!(bench.take(), []);
    bench.send(&RouteRefresh::request(AddressFamily::IPV4_UNICAST).encode());
    let [Message::Update(update)] = &bench.take()[..] else { panic!("no UPDATE") };
    assert_eq!(update.reach[0].routes, [cidr("10.1.0.0/26").into()]);
    for _ in 0..1000 {
        bench.send(&RouteRefresh::request(AddressFamily::IPV4_UNICAST).encode());
    }
    assert!(!bench.closed && bench.take().len() == 1000);
}

/// Establishes, announces, loses the connection; says whether the route is still there.
fn retained_after_loss(open: impl FnOnce(&Bench) -> Open) -> (Bench, bool) {
    let mut bench = Bench::new();
    let open = open(&bench);
    bench.establish(&open);
    bench.announce("10.2.0.0/26", PEER, |_| ());
    bench.send(&end_of_rib());
    bench.lose();
    let retained = bench.has("10.2.0.0/26");
    (bench, retained)
}

#[test]
fn who_is_retained() {
    let retained =
        |restart: Option<GracefulRestart>| retained_after_loss(|bench| with_graceful(bench.open(), restart)).1;
    assert!(retained(Some(graceful(120, true))));
    assert!(retained(Some(graceful(4095, false))), "F speaks of the restart that was, not of the one to come");
    assert!(!retained(Some(graceful(0, true))));
    assert!(!retained(Some(GracefulRestart { families: Vec::new(), ..graceful(120, true) })));
    assert!(!retained(None));
}

#[test]
fn what_becomes_of_stale_routes_when_the_peer_returns() {
    let returns = |restart: Option<GracefulRestart>| {
        let (mut bench, retained) = retained_after_loss(Bench::open);
        assert!(retained);
        bench.connect();
        let open = with_graceful(bench.open(), restart);
        bench.establish(&open);
        bench
    };
    assert!(!returns(None).has("10.2.0.0/26"), "it does not know of its earlier life");
    assert!(!returns(Some(graceful(120, false))).has("10.2.0.0/26"), "its forwarding was interrupted");
    let mut bench = returns(Some(graceful(120, true)));
    assert!(bench.has("10.2.0.0/26"));
    bench.announce("10.2.1.0/26", PEER, |_| ());
    bench.send(&end_of_rib());
    assert!(!bench.has("10.2.0.0/26") && bench.has("10.2.1.0/26"));

    // One that never says that it is done: kept alive by KEEPALIVEs, given up in the end.
    let mut bench = returns(Some(graceful(120, true)));
    for _ in 0..35 {
        bench.wait(10 * SECOND);
        bench.send(&wire::keepalive());
    }
    assert!(bench.has("10.2.0.0/26"));
    bench.wait(20 * SECOND);
    assert!(!bench.has("10.2.0.0/26") && !bench.closed);
}

#[test]
fn a_peer_that_returns_only_to_complain_gets_no_more_time() {
    let (mut bench, _) = retained_after_loss(Bench::open);
    bench.wait(100 * SECOND);
    bench.connect();
    bench.send(&Notification::cease(4).encode());
    assert!(bench.has("10.2.0.0/26"));
    bench.wait(21 * SECOND);
    assert!(!bench.has("10.2.0.0/26"), "the restart time counts from the loss");
}

#[test]
fn restarts_in_a_row_do_not_keep_stale_routes_for_ever() {
    let (mut bench, _) = retained_after_loss(Bench::open);
    let mut elapsed = Duration::ZERO;
    while bench.has("10.2.0.0/26") {
        bench.connect();
        let open = bench.open();
        bench.establish(&open);
        bench.wait(20 * SECOND);
        bench.lose();
        elapsed += 20 * SECOND;
        assert!(elapsed <= 500 * SECOND, "restart time and stale time together are 480 s");
    }
    assert!(elapsed >= 400 * SECOND, "{elapsed:?}");
}

#[test]
fn a_notification_ends_graceful_restart() {
    let (mut bench, _) = retained_after_loss(Bench::open);
    bench.connect();
    let open = bench.open();
    bench.establish(&open);
    bench.send(&Notification::cease(2).encode());
    assert!(bench.routes.is_empty());
    // Not so the loser of a collision: the other connection goes on.
    let (mut bench, _) = retained_after_loss(Bench::open);
    bench.connect();
    let open = bench.open();
    bench.establish(&open);
    bench.send(&Notification::cease(7).encode());
    assert!(bench.has("10.2.0.0/26"));
}
