use core::net::Ipv4Addr;

use calico_core::net::AsNumber;

use crate::wire::Role;
use crate::wire::capability::{
    AddPath, AddPathMode, ExtendedNextHop, LongLivedGracefulRestart, LongLivedGracefulRestartFamily,
};
use crate::wire::{
    AddressFamily, Capability, Families, GracefulRestart, GracefulRestartFamily, Notification, Open, WireError,
};

/// A body with the capabilities given as bytes, in one optional parameter.
fn body(my_as: u16, capabilities: &[u8]) -> Vec<u8> {
    let length = u8::try_from(capabilities.len()).unwrap();
    let total = length.saturating_add(2);
    let parameters = if capabilities.is_empty() { vec![0] } else { [&[total, 2, length], capabilities].concat() };
    [fixed(4, my_as, 90, 0x0a00_0002), parameters].concat()
}

fn fixed(version: u8, my_as: u16, hold: u16, identifier: u32) -> Vec<u8> {
    let mut bytes = vec![version];
    bytes.extend_from_slice(&my_as.to_be_bytes());
    bytes.extend_from_slice(&hold.to_be_bytes());
    bytes.extend_from_slice(&identifier.to_be_bytes());
    bytes
}

fn as4(number: u32) -> Vec<u8> {
    [&[65, 4][..], &number.to_be_bytes()].concat()
}

fn refusal(body: &[u8]) -> Notification {
    Open::decode(body).unwrap_err().notification()
}

#[test]
fn versions_other_than_four() {
    // 14
    for version in [3, 5] {
        let open = [fixed(version, 64512, 90, 1), vec![0]].concat();
        assert_eq!(refusal(&open), Notification::new(2, 1, vec![0, 4]));
    }
}

#[test]
fn as_numbers() {
    // 15
    assert_eq!(refusal(&body(0, &[])), Notification::new(2, 2, Vec::new()));
    assert_eq!(refusal(&body(23456, &[])), Notification::new(2, 2, Vec::new()), "AS_TRANS alone");
    assert_eq!(refusal(&body(64512, &as4(64513))), Notification::new(2, 2, Vec::new()), "contradiction");
    assert_eq!(refusal(&body(23456, &as4(0))), Notification::new(2, 2, Vec::new()));
    assert_eq!(refusal(&body(23456, &as4(23456))), Notification::new(2, 2, Vec::new()));
    assert_eq!(refusal(&body(64512, &[as4(64512), as4(64513)].concat())), Notification::new(2, 2, Vec::new()));
    assert_eq!(Open::decode(&body(64512, &[])).unwrap().as_number, AsNumber::new(64512));
    assert_eq!(Open::decode(&body(64512, &as4(64512))).unwrap().as_number, AsNumber::new(64512));
    assert_eq!(Open::decode(&body(23456, &as4(4_200_000_000))).unwrap().as_number, AsNumber::new(4_200_000_000));
}

#[test]
fn identifiers_and_hold_times() {
    // 16, 17
    let open = |hold, identifier| [fixed(4, 64512, hold, identifier), vec![0]].concat();
    assert_eq!(refusal(&open(90, 0)), Notification::new(2, 3, Vec::new()));
    assert_eq!(Open::decode(&open(90, u32::MAX)).unwrap().identifier, Ipv4Addr::BROADCAST, "RFC 6286");
    for (hold, good) in [(0, true), (1, false), (2, false), (3, true), (65535, true)] {
        match Open::decode(&open(hold, 1)) {
            Ok(open) => assert!(good && open.hold_time == hold),
            Err(error) => assert!(!good && error.notification() == Notification::new(2, 6, Vec::new())),
        }
    }
}

#[test]
fn optional_parameters() {
    // 18
    let with = |tail: &[u8]| [&fixed(4, 64512, 90, 1)[..], tail].concat();
    let malformed: [&[u8]; 9] = [
        &[],                        // no length at all
        &[5],                       // longer than the rest
        &[0, 1],                    // shorter than the rest
        &[1, 2],                    // no parameter length
        &[2, 2, 5],                 // a parameter beyond the end
        &[4, 2, 2, 2, 5],           // a capability beyond its parameter
        &[3, 2, 1, 2],              // a capability without length
        &[255, 255, 0],             // extended form, length cut
        &[255, 255, 0, 9, 2, 0, 0], // extended form, length wrong
    ];
    for tail in malformed {
        assert_eq!(refusal(&with(tail)), Notification::new(2, 0, Vec::new()), "{tail:?}");
    }
    for code in [0, 1, 3] {
        assert_eq!(refusal(&with(&[2, code, 0])), Notification::new(2, 4, Vec::new()), "parameter {code}");
    }
    let extended = with(&[255, 255, 0, 5, 2, 0, 2, 2, 0]);
    assert_eq!(Open::decode(&extended).unwrap().capabilities, [Capability::RouteRefresh], "RFC 9072");
}

#[test]
fn capabilities_that_make_no_sense_are_declined_not_punished() {
    // 19
    let odd: [&[u8]; 25] = [
        &[1, 3, 0, 1, 0],
        &[1, 5, 0, 1, 0, 1, 0],
        &[2, 1, 0],
        &[5, 5, 0, 1, 0, 1, 0],
        &[5, 6, 0, 1, 1, 1, 0, 2], // a SAFI of 257
        &[6, 1, 0],
        &[9, 0],
        &[9, 1, 5],
        &[9, 2, 0, 0],
        &[70, 1, 0],
        &[64, 1, 0],
        &[64, 3, 0, 120, 0],
        &[64, 7, 0, 120, 0, 1, 1, 0x80, 0],
        &[65, 3, 0, 0, 1],
        &[69, 3, 0, 1, 1],
        &[69, 4, 0, 1, 1, 0],
        &[69, 8, 0, 1, 1, 3, 0, 2, 1, 4],
        &[71, 6, 0, 1, 1, 0, 0, 0],
        &[73, 3, 200, b'a', 1],
        &[73, 5, 1, b'a', 1, b'b', b'c'],
        &[75, 0],
        &[75, 1, 0],
        &[75, 2, 200, 1],
        &[200, 0],
        &[255, 2, 1, 2],
    ];
    for capability in odd {
        let open = Open::decode(&body(64512, &[capability, &as4(64512)].concat())).unwrap();
        let other = Capability::Other { code: capability[0], value: capability[2..].to_vec() };
        assert_eq!(open.capabilities, [other, Capability::FourOctetAs(AsNumber::new(64512))]);
    }
    let hundred = [2, 0].repeat(100);
    assert_eq!(Open::decode(&body(64512, &hundred)).unwrap().capabilities, [Capability::RouteRefresh]);
}

#[test]
fn families_and_restarts() {
    // 21, and 19's duplicates
    let offers =
        |capabilities: &[u8]| Open::decode(&body(64512, capabilities)).unwrap().offers(AddressFamily::IPV4_UNICAST);
    assert!(offers(&[]), "none implies IPv4 unicast");
    assert!(offers(&[1, 4, 0, 1, 0, 1]));
    assert!(offers(&[1, 4, 0, 2, 0, 1, 1, 4, 0, 1, 0, 1]));
    assert!(!offers(&[1, 4, 0, 2, 0, 1]), "only IPv6");
    let twice = [64, 2, 0, 10, 64, 6, 0xc0, 120, 0, 1, 1, 0x80];
    let open = Open::decode(&body(64512, &twice)).unwrap();
    let expected = GracefulRestart {
        restarting: true,
        notification: true,
        restart_time: 120,
        families: vec![GracefulRestartFamily { family: AddressFamily::IPV4_UNICAST, forwarding_preserved: true }],
    };
    assert_eq!(open.graceful_restart(), Some(&expected), "the last one counts");
}

/// Each capability that means something: bytes, and what they say. They are written as they were read.
#[test]
fn capabilities_that_mean_something() {
    let (v4, v6) = (AddressFamily::IPV4_UNICAST, AddressFamily::IPV6_UNICAST);
    let long_lived = LongLivedGracefulRestartFamily { family: v6, forwarding_preserved: true, stale_time: 0x01_0203 };
    let rows: [(&[u8], Capability); 9] = [
        (&[1, 4, 0, 2, 0, 1], Capability::Multiprotocol(v6)),
        (&[2, 0], Capability::RouteRefresh),
        (&[5, 6, 0, 1, 0, 1, 0, 2], Capability::ExtendedNextHop(vec![ExtendedNextHop { family: v4, next_hop_afi: 2 }])),
        (&[6, 0], Capability::ExtendedMessage),
        (&[9, 1, 3], Capability::Role(Role::Customer)),
        (
            &[69, 8, 0, 1, 1, 1, 0, 2, 1, 3],
            Capability::AddPath(vec![
                AddPath { family: v4, mode: AddPathMode::Receive },
                AddPath { family: v6, mode: AddPathMode::Both },
            ]),
        ),
        (&[70, 0], Capability::EnhancedRouteRefresh),
        (
            &[71, 7, 0, 2, 1, 0x80, 1, 2, 3],
            Capability::LongLivedGracefulRestart(LongLivedGracefulRestart { families: vec![long_lived] }),
        ),
        (&[65, 4, 0, 0, 0xfc, 0], Capability::FourOctetAs(AsNumber::new(64512))),
    ];
    for (bytes, expected) in rows {
        let open = Open::decode(&body(64512, bytes)).unwrap();
        assert_eq!(open.capabilities, [expected], "{bytes:?}");
        assert_eq!(open.capabilities[0].encode(), bytes);
    }
}

#[test]
fn several_words_about_one_thing() {
    let open = |capabilities: &[u8]| Open::decode(&body(64512, capabilities)).unwrap();
    let (v4, v6) = (AddressFamily::IPV4_UNICAST, AddressFamily::IPV6_UNICAST);
    let paths = open(&[69, 8, 0, 1, 1, 1, 0, 2, 1, 2, 69, 4, 0, 1, 1, 3]);
    assert_eq!((paths.add_path(v4), paths.add_path(v6)), (Some(AddPathMode::Both), Some(AddPathMode::Send)));
    let next_hops = open(&[5, 6, 0, 1, 0, 1, 0, 2, 5, 6, 0, 1, 0, 128, 0, 2]);
    assert!(next_hops.has_extended_next_hop(v4, 2) && !next_hops.has_extended_next_hop(v6, 1));
    let restart = open(&[64, 2, 0, 1, 64, 2, 0, 2, 64, 2, 0, 1]);
    assert_eq!(restart.graceful_restart().map(|restart| restart.restart_time), Some(1), "the last one counts");
    assert_eq!(open(&[9, 1, 4, 9, 1, 4]).role(), Ok(Some(Role::Peer)));
    let contradiction = open(&[9, 1, 4, 9, 1, 3]).role().unwrap_err();
    assert_eq!(contradiction.notification(), Notification::new(2, 11, Vec::new()));
    assert_eq!(open(&[2, 0]).role(), Ok(None));
    let both = open(&[1, 4, 0, 2, 0, 1, 1, 4, 0, 1, 0, 1, 1, 4, 0, 1, 0, 128]);
    assert_eq!(both.families(), Families::BOTH);
    assert_eq!(open(&[1, 4, 0, 1, 0, 128]).families(), Families::NONE);
    assert_eq!(open(&[]).families(), Families::IPV4);
    let alone = open(&[71, 7, 0, 1, 1, 0, 0, 0, 9]);
    assert_eq!(alone.long_lived_graceful_restart(), None, "nothing without graceful restart");
    let stale = open(&[64, 2, 0, 1, 71, 7, 0, 1, 1, 0, 0, 0, 9]);
    assert_eq!(stale.long_lived_graceful_restart().and_then(|l| l.family(v4)).map(|l| l.stale_time), Some(9));
}

#[test]
fn roles_that_fit() {
    let all = [Role::Provider, Role::RouteServer, Role::RouteServerClient, Role::Customer, Role::Peer];
    let fitting = [(0, 3), (1, 2), (2, 1), (3, 0), (4, 4)];
    for (ours, a) in all.into_iter().enumerate() {
        for (theirs, b) in all.into_iter().enumerate() {
            assert_eq!(a.fits(b), fitting.contains(&(ours, theirs)), "{a:?} {b:?}");
        }
    }
}

#[test]
fn names_are_shown_safely() {
    let open = Open::decode(&body(64512, b"\x49\x09\x06a\x1b[31m\x01b\x4b\x04\x03v\n1")).unwrap();
    let name = open.fqdn().unwrap();
    assert_eq!((name.host(), name.domain()), ("a\u{fffd}[31m".to_owned(), "b".to_owned()));
    assert_eq!(open.software_version().unwrap().text(), "v\u{fffd}1");
    let again = Open::decode(&open.encode()[19..]);
    assert_eq!(again, Ok(open), "as received");
}

#[test]
fn a_long_open_takes_the_extended_form() {
    let capabilities = (0..4).map(|number| Capability::Other { code: 200, value: vec![number; 255] }).collect();
    let open = Open { as_number: AsNumber::new(1), hold_time: 0, identifier: Ipv4Addr::LOCALHOST, capabilities };
    let encoded = open.encode();
    assert_eq!(encoded[28..30], [255, 255]);
    assert_eq!(Open::decode(&encoded[19..]), Ok(open));
}

#[test]
fn errors_read_well() {
    let error = WireError::BadPeerAs { received: 64999, expected: 64512 };
    assert_eq!(error.to_string(), "peer AS 64999 is unacceptable; expected 64512");
}
