use core::net::Ipv4Addr;

use calico_core::net::AsNumber;

use crate::wire::{AddressFamily, Capability, GracefulRestart, GracefulRestartFamily, Notification, Open, WireError};

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
    let odd: [&[u8]; 16] = [
        &[1, 3, 0, 1, 0],
        &[1, 5, 0, 1, 0, 1, 0],
        &[2, 1, 0],
        &[5, 5, 0, 1, 0, 1, 0],
        &[9, 1, 0],
        &[64, 1, 0],
        &[64, 3, 0, 120, 0],
        &[64, 7, 0, 120, 0, 1, 1, 0x80, 0],
        &[65, 3, 0, 0, 1],
        &[69, 4, 0, 1, 1, 4],
        &[71, 6, 0, 1, 1, 0, 0, 0],
        &[73, 3, 200, b'a', 1],
        &[75, 0],
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
    assert_eq!(Open::decode(&body(64512, &hundred)).unwrap().capabilities.len(), 100);
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

#[test]
fn a_long_open_takes_the_extended_form() {
    let capabilities = vec![Capability::Other { code: 200, value: vec![7; 255] }; 4];
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
