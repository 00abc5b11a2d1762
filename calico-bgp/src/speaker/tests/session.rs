//! What sessions are made of: each parameter, by what the peer sees of it.

use calico_core::bgp::{DynamicPeers, Families, Password, Role, Secret};
use calico_core::net::{AsNumber, Family};

use super::bench::{Bench, IDENTIFIER, PEER, THEIR_AS, US, graceful, open};
use crate::backend::SessionState;
use crate::bfd::{BfdEvent, Diagnostic, Loss};
use crate::wire::capability::{LongLivedGracefulRestart, LongLivedGracefulRestartFamily};
use crate::wire::notification::cease;
use crate::wire::{AddressFamily, Capability, Message, Notification, Open, RefreshKind, RouteRefresh};
use crate::{Action, SpeakerConfig};

const ROUTE: &str = "10.2.0.0/26";
const OTHER: &str = "10.2.0.64/26";

fn said(bench: &Bench) -> &Open {
    match bench.sent.first() {
        Some(Message::Open(open)) => open,
        other => panic!("no OPEN: {other:?}"),
    }
}

#[test]
fn the_open_says_what_is_wanted() {
    let mut bench = Bench::new(|peer| {
        peer.session.families = Families::BOTH;
        peer.session.local_as = Some(AsNumber::new(64999));
        peer.session.hold_time = Some(30);
        peer.session.restart_time = Some(77);
        peer.session.long_lived = Some(3600);
        peer.session.extended_next_hop = true;
        peer.session.role = Some(Role::Customer);
    });
    assert!(bench.call());
    let open = said(&bench);
    assert_eq!((open.as_number, open.hold_time, open.identifier), (AsNumber::new(64999), 30, US));
    assert_eq!((open.families(), open.role().unwrap()), (Families::BOTH, Some(Role::Customer)));
    assert!(open.has_route_refresh() && open.has_enhanced_route_refresh() && open.has_extended_message());
    assert!(open.has_extended_next_hop(AddressFamily::IPV4_UNICAST, 2));
    let restart = open.graceful_restart().unwrap();
    assert_eq!((restart.restart_time, restart.families.len(), restart.notification), (77, 2, false));
    let long = open.long_lived_graceful_restart().unwrap();
    assert_eq!(long.families.iter().map(|row| row.stale_time).collect::<Vec<_>>(), [3600, 3600]);
}

#[test]
fn the_open_says_no_more_than_is_wanted() {
    let mut bench = Bench::with(SpeakerConfig { extended_messages: false, ..SpeakerConfig::default() }, |peer| {
        // An internal session has no role.
        peer.as_number = AsNumber::DEFAULT;
        peer.session.role = Some(Role::Customer);
        peer.session.hold_time = Some(1);
        peer.session.restart_time = Some(u16::MAX);
    });
    assert!(bench.call());
    let open = said(&bench);
    assert_eq!((open.families(), open.role().unwrap(), open.hold_time), (Families::IPV4, None, 3));
    assert!(!open.has_extended_message() && !open.has_extended_next_hop(AddressFamily::IPV4_UNICAST, 2));
    assert_eq!(open.graceful_restart().unwrap().restart_time, 4095);
    assert_eq!(open.long_lived_graceful_restart().unwrap().families, []);
}

#[test]
fn opens_that_do_not_fit_are_refused_with_the_reason() {
    let role = |role| open(Families::IPV4, &[Capability::Role(role)]);
    let rows: [(Open, (u8, u8), &str); 4] = [
        (Open { as_number: AsNumber::new(1), capabilities: vec![], ..role(Role::Peer) }, (2, 2), "AS"),
        (open(Families::IPV6, &[]), (2, 7), "IPv4 unicast"),
        (role(Role::Provider), (2, 11), "role"),
        (role(Role::Customer), (2, 11), "role"),
    ];
    for (theirs, refusal, reason) in rows {
        let mut bench = Bench::new(|peer| peer.session.role = Some(Role::Provider));
        let fits = theirs == role(Role::Customer);
        assert!(bench.call());
        bench.send(&theirs.encode());
        if fits {
            assert_eq!(bench.state(), SessionState::OpenConfirm, "a customer fits its provider");
            continue;
        }
        assert_eq!(bench.refusal(), Some(refusal));
        let details = bench.status().unwrap();
        assert!(details.last_error.unwrap().contains(reason) && details.details.last_sent.unwrap().contains(reason));
    }
    let mut internal = Bench::new(|peer| peer.as_number = AsNumber::DEFAULT);
    assert!(internal.call());
    let capabilities = vec![Capability::FourOctetAs(AsNumber::DEFAULT)];
    let twin = Open { as_number: AsNumber::DEFAULT, hold_time: 90, identifier: US, capabilities };
    internal.send(&twin.encode());
    assert_eq!(internal.refusal(), Some((2, 3)), "a clone of ourselves");
    let mut external = Bench::new(|_| ());
    external.establish(&Open { identifier: US, ..open(Families::IPV4, &[]) });
}

#[test]
fn both_families_are_awaited() {
    let mut bench = Bench::new(|peer| peer.session.families = Families::BOTH);
    bench.establish(&open(Families::BOTH, &[graceful(Families::BOTH, 120, false)]));
    bench.finish(Family::V4);
    assert!(!bench.settled);
    bench.finish(Family::V6);
    assert!(bench.settled);
    let agreed = bench.status().unwrap().details.agreed.unwrap();
    assert_eq!(
        (agreed.families, agreed.graceful_restart, agreed.identifier),
        (Families::BOTH, Families::BOTH, IDENTIFIER)
    );
}

#[test]
fn whoever_waits_does_not_call() {
    let calls = |bench: &Bench| bench.actions.iter().any(|action| matches!(action, Action::Connect { .. }));
    let mut bench = Bench::new(|peer| peer.session.passive = true);
    bench.establish(&open(Families::IPV4, &[]));
    bench.lose();
    bench.wait(600);
    assert!(!calls(&bench));
    bench.peer().session.passive = false;
    bench.apply();
    bench.wait(1);
    assert!(calls(&bench), "nobody waits any more");
}

/// KEEPALIVEs come as often as wanted, but never too rarely for the hold time.
#[test]
fn keepalives() {
    for (wanted, least, most) in [(None, 3, 4), (Some(2), 14, 20), (Some(60), 3, 4)] {
        let mut bench = Bench::new(|peer| peer.session.keepalive = wanted);
        bench.establish(&Open { hold_time: 30, ..open(Families::IPV4, &[]) });
        bench.sent.clear();
        bench.wait(29);
        let count = bench.sent.iter().filter(|message| **message == Message::Keepalive).count();
        assert!((least - 1..=most).contains(&count), "{wanted:?}: {count}");
    }
}

#[test]
fn too_many_prefixes_end_the_session_for_a_while() {
    let mut bench = Bench::new(|peer| peer.session.maximum_prefixes = Some(1));
    bench.establish(&open(Families::IPV4, &[graceful(Families::IPV4, 120, true)]));
    bench.announce(ROUTE);
    assert!(bench.has(ROUTE) && !bench.closed);
    bench.announce(OTHER);
    assert_eq!(bench.last_word(), Some(&Notification::maximum_prefixes(AddressFamily::IPV4_UNICAST, 1)));
    assert!(bench.routes.is_empty(), "its routes are not to be kept");
    assert!(!bench.call(), "too early");
    bench.wait(301);
    assert!(bench.call());
}

#[test]
fn a_range_makes_peers_of_its_callers() {
    let mut bench = Bench::new(|_| ());
    let like = bench.desired.peers.remove(0);
    bench.desired.dynamic = vec![DynamicPeers { range: "10.0.0.0/24".parse().unwrap(), limit: 1, like }];
    bench.apply();
    assert_eq!(bench.status(), None);
    bench.establish(&open(Families::IPV4, &[graceful(Families::IPV4, 120, false)]));
    bench.announce(ROUTE);
    let other = "10.0.0.3".parse::<core::net::IpAddr>().unwrap();
    assert_eq!(bench.speaker.handle_accepted(bench.now, other.into()), None, "the range is full");
    bench.lose();
    assert!(bench.has(ROUTE) && bench.status().is_some(), "it may be restarting");
    bench.wait(121);
    assert!(!bench.has(ROUTE) && bench.status().is_none(), "it is gone for good");
    bench.from = other.into();
    bench.establish(&open(Families::IPV4, &[]));
    bench.desired.dynamic.clear();
    bench.apply();
    assert_eq!((bench.refusal(), bench.status()), (Some((6, cease::PEER_DECONFIGURED)), None));
    bench.from = "10.0.1.3".parse::<core::net::IpAddr>().unwrap().into();
    assert!(!bench.call(), "outside of the range");
}

#[test]
fn routes_are_kept_as_a_last_resort() {
    let long = Capability::LongLivedGracefulRestart(LongLivedGracefulRestart {
        families: vec![LongLivedGracefulRestartFamily {
            family: AddressFamily::IPV4_UNICAST,
            forwarding_preserved: true,
            stale_time: 1000,
        }],
    });
    for (wanted, kept) in [(None, 120), (Some(500), 620), (Some(5000), 1120)] {
        let mut bench = Bench::new(|peer| peer.session.long_lived = wanted);
        bench.establish(&open(Families::IPV4, &[graceful(Families::IPV4, 120, false), long.clone()]));
        bench.announce(ROUTE);
        bench.lose();
        bench.wait(kept - 1);
        assert!(bench.has(ROUTE), "{wanted:?}");
        bench.wait(2);
        assert!(!bench.has(ROUTE), "{wanted:?}");
    }
}

#[test]
fn what_ends_a_session_and_what_is_a_restart() {
    let with = |notification| SpeakerConfig { notification_restarts: notification, ..SpeakerConfig::default() };
    let plain = Notification::cease(cease::CONFIGURATION_CHANGE);
    for (both, sent, kept) in [
        (true, plain.clone(), true),
        (true, plain.clone().into_hard_reset(), false),
        (true, Notification::hold_timer_expired(), true),
        (false, plain, false),
    ] {
        let mut bench = Bench::with(with(both), |_| ());
        bench.establish(&open(Families::IPV4, &[graceful(Families::IPV4, 120, true)]));
        bench.announce(ROUTE);
        bench.send(&sent.encode());
        assert!(bench.closed);
        assert_eq!(bench.has(ROUTE), kept, "{both} {sent:?}");
        assert_eq!(bench.status().unwrap().details.last_received, Some(sent.to_string()));
    }
    let mut removed = Bench::with(with(true), |_| ());
    removed.establish(&open(Families::IPV4, &[graceful(Families::IPV4, 120, true)]));
    removed.desired.peers.clear();
    removed.apply();
    let expected = Notification::cease(cease::PEER_DECONFIGURED).into_hard_reset();
    assert_eq!(removed.last_word(), Some(&expected), "it must not wait for us");
}

#[test]
fn what_does_not_come_again_in_a_refresh_goes() {
    let enhanced = [Capability::RouteRefresh, Capability::EnhancedRouteRefresh];
    for (capabilities, swept) in [(&enhanced[..], true), (&enhanced[..1], false)] {
        let mut bench = Bench::new(|_| ());
        bench.establish(&open(Families::IPV4, capabilities));
        bench.announce(ROUTE);
        bench.announce(OTHER);
        let mark = |kind| RouteRefresh { family: AddressFamily::IPV4_UNICAST, kind }.encode();
        bench.send(&mark(RefreshKind::End));
        assert!(bench.has(ROUTE) && bench.has(OTHER), "an end without a beginning");
        bench.send(&mark(RefreshKind::Begin));
        bench.announce(ROUTE);
        assert!(bench.has(OTHER));
        bench.send(&mark(RefreshKind::End));
        assert_eq!((bench.has(ROUTE), bench.has(OTHER)), (true, !swept));
        bench.send(&mark(RefreshKind::Begin));
        bench.send(&[RouteRefresh { family: AddressFamily::IPV6_UNICAST, kind: RefreshKind::End }.encode()].concat());
        assert!(bench.has(ROUTE), "another family's");
        for _ in 0..8 {
            bench.send(&crate::wire::keepalive());
            bench.wait(60);
        }
        assert_eq!(bench.has(ROUTE), !swept, "a refresh that never ends");
    }
}

#[test]
fn bfd_ends_what_it_has_seen_die() {
    for (independent, kept) in [(false, true), (true, false)] {
        let mut bench = Bench::new(|peer| peer.session.bfd = Some(bfd()));
        assert!(bench.actions.iter().any(|action| matches!(action, Action::Watch(peers) if peers.len() == 1)));
        bench.establish(&open(Families::IPV4, &[graceful(Families::IPV4, 120, false)]));
        bench.announce(ROUTE);
        let now = bench.now;
        bench.speaker.handle_bfd(now, &BfdEvent::Up { peer: bench.from });
        let down = |loss| BfdEvent::Down { peer: PEER.into(), loss, control_plane_independent: independent };
        bench.speaker.handle_bfd(now, &down(Loss::AdminDown));
        bench.pump();
        assert!(!bench.closed, "somebody switched it off");
        bench.speaker.handle_bfd(now, &down(Loss::NeighborDown(Diagnostic::EXPIRED)));
        bench.pump();
        assert_eq!((bench.refusal(), bench.has(ROUTE)), (Some((6, cease::BFD_DOWN)), kept));
        assert_eq!(bench.status().unwrap().details.bfd_up, Some(false));
        bench.peer().session.bfd = None;
        bench.apply();
        assert_eq!(bench.actions.last(), Some(&Action::Watch(Vec::new())));
    }
}

fn bfd() -> calico_core::bgp::Bfd {
    let interval = core::time::Duration::from_millis(300);
    calico_core::bgp::Bfd { transmit: interval, receive: interval, multiplier: 3, multihop: false }
}

#[test]
fn the_transport_hears_of_keys_and_families() {
    let mut bench = Bench::new(|_| ());
    let listening = |bench: &Bench| {
        bench.actions.iter().rev().find_map(|action| match action {
            Action::Listen(listening) => Some(listening.clone()),
            _ => None,
        })
    };
    assert_eq!(listening(&bench).unwrap().keys, []);
    bench.peer().session.password = Password::Key(Secret::new("key".into()).unwrap());
    bench.apply();
    let told = listening(&bench).unwrap();
    assert_eq!((told.keys.len(), told.port, told.addresses.len()), (1, 179, 2));
    bench.actions.clear();
    bench.apply();
    assert_eq!(bench.actions, [], "nothing is new");
    bench.desired.local.as_mut().unwrap().listen.port = 1790;
    bench.desired.peers.clear();
    bench.apply();
    let told = listening(&bench).unwrap();
    assert_eq!((told.keys.len(), told.port), (0, 1790));
}

#[test]
fn the_status_counts() {
    let mut bench = Bench::new(|_| ());
    bench.establish(&open(Families::IPV4, &[]));
    bench.announce(ROUTE);
    bench.wait(10);
    bench.send(&crate::wire::keepalive());
    let details = bench.status().unwrap().details;
    assert_eq!(details.prefixes_received, [1, 0]);
    assert_eq!((details.established, details.state_for), (1, Some(core::time::Duration::from_secs(10))));
    let (sent, received) = (details.messages_sent, details.messages_received);
    assert_eq!((received.opens, received.keepalives, received.updates), (1, 2, 1));
    assert_eq!((sent.opens, sent.keepalives), (1, 1));
    assert!(details.transitions >= 2, "{details:?}");
    bench.send(&Notification::administrative(cease::ADMINISTRATIVE_SHUTDOWN, "power\u{7}cut").encode());
    let status = bench.status().unwrap();
    assert!(status.last_error.unwrap().contains("power"), "the operator's text is told");
    assert_eq!(status.peer.as_number, THEIR_AS);
}

#[test]
fn a_reset_says_why_and_the_peer_may_come_back_at_once() {
    let mut bench = Bench::new(|_| ());
    bench.establish(&open(Families::IPV4, &[]));
    assert!(bench.speaker.reset(bench.now, bench.from, "new firmware"));
    bench.pump();
    let told = bench.last_word().unwrap();
    assert_eq!((told.subcode, told.shutdown_text().as_deref()), (cease::ADMINISTRATIVE_RESET, Some("new firmware")));
    bench.establish(&open(Families::IPV4, &[]));
    let stranger = "10.9.9.9".parse::<core::net::IpAddr>().unwrap();
    assert!(!bench.speaker.reset(bench.now, stranger.into(), ""));
}

/// Random operations in any order; those of a file are a corpus of their own.
#[test]
fn random_operations_are_survived() {
    for seed in 0..200 {
        let mut random = crate::random::Random::new(seed);
        let data: Vec<u8> = (0..600).filter_map(|_| u8::try_from(random.next() & 0xff).ok()).collect();
        println!("seed {seed}");
        crate::testing::fuzz_speaker(&data);
    }
}
