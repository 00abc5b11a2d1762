//! Sessions with two-octet AS numbers (RFC 6793).

use core::net::Ipv4Addr;

use calico_core::net::AsNumber;

use super::build::{
    OLD, OPTIONAL_TRANSITIVE, WELL_KNOWN, announce, assert_withdrawn, attribute, decode_with, next_hop, nlri, origin,
    updates,
};
use crate::wire::{Aggregator, EncodeContext, FaultReason, PathAttributes, Treatment, Update};

const TO_OLD: EncodeContext =
    EncodeContext { four_octet_as: false, add_path: crate::wire::Families::NONE, extended_message: false };

fn segment(kind: u8, systems: &[u16]) -> Vec<u8> {
    let numbers = systems.iter().flat_map(|system| system.to_be_bytes());
    [kind, u8::try_from(systems.len()).unwrap()].into_iter().chain(numbers).collect()
}

fn segment4(kind: u8, systems: &[u32]) -> Vec<u8> {
    let numbers = systems.iter().flat_map(|system| system.to_be_bytes());
    [kind, u8::try_from(systems.len()).unwrap()].into_iter().chain(numbers).collect()
}

fn aggregator(system: u16) -> Vec<u8> {
    attribute(OPTIONAL_TRANSITIVE, 7, &[&system.to_be_bytes()[..], &[10, 0, 0, 1]].concat())
}

fn aggregator4(system: u32) -> Vec<u8> {
    attribute(OPTIONAL_TRANSITIVE, 18, &[&system.to_be_bytes()[..], &[10, 0, 0, 4]].concat())
}

fn read(as_path: &[u8], rest: &[u8]) -> Update {
    let as_path = attribute(WELL_KNOWN, 2, as_path);
    decode_with(&[&origin()[..], &as_path, &next_hop(), rest].concat(), OLD).unwrap()
}

fn systems(update: &Update) -> Vec<u32> {
    assert_eq!(update.reach.len(), 1, "{update:?}");
    update.attributes.as_path.systems().iter().map(|system| system.value()).collect()
}

#[test]
fn two_halves_of_a_path() {
    let path = segment(2, &[100, 23456, 23456, 200]);
    let as4 = |value: &[u8]| attribute(OPTIONAL_TRANSITIVE, 17, value);
    let with = |value: &[u8]| systems(&read(&path, &as4(value)));
    let old = vec![100, 23456, 23456, 200];
    assert_eq!(systems(&read(&path, &[])), old, "nothing to merge");
    assert_eq!(with(&segment4(2, &[70_000, 80_000, 200])), [100, 70_000, 80_000, 200]);
    assert_eq!(with(&segment4(2, &[1, 70_000, 80_000, 200])), [1, 70_000, 80_000, 200], "of equal length");
    assert_eq!(with(&segment4(2, &[1, 2, 70_000, 80_000, 200])), old, "longer: somebody shortened the path since");
    assert_eq!(with(&[segment4(2, &[70_000]), segment4(2, &[80_000, 200])].concat()), [100, 70_000, 80_000, 200]);
    let confederation = [segment4(3, &[65_001, 65_002]), segment4(2, &[70_000, 80_000, 200])].concat();
    assert_eq!(with(&confederation), [100, 70_000, 80_000, 200], "confederation segments do not belong there");
    let split = [segment(2, &[100]), segment(2, &[23456, 23456]), segment(2, &[200])].concat();
    assert_eq!(systems(&read(&split, &as4(&segment4(2, &[70_000, 80_000, 200])))), [100, 70_000, 80_000, 200]);
    assert!(systems(&read(&[], &as4(&segment4(2, &[70_000])))).is_empty(), "an empty path");
}

#[test]
fn malformed_halves() {
    let path = segment(2, &[100, 23456]);
    let bad: [&[u8]; 7] = [
        &[],
        &[2],
        &[2, 0],
        &[2, 2, 0, 1, 0, 1],    // fewer systems than said
        &[2, 1, 0, 1, 0, 1, 9], // an octet too many
        &[7, 1, 0, 1, 0, 1],    // no such segment
        &[2, 1, 0, 0, 0, 0],    // AS 0 (RFC 7607)
    ];
    for value in bad {
        for flags in [OPTIONAL_TRANSITIVE, WELL_KNOWN] {
            let update = read(&path, &attribute(flags, 17, value));
            assert_eq!(systems(&update), [100, 23456], "{value:?}");
            assert_eq!(update.faults[0].treatment, Treatment::Discard, "{value:?}");
        }
    }
    for kind in [1, 4] {
        let update = read(&path, &attribute(OPTIONAL_TRANSITIVE, 17, &segment4(kind, &[70_000])));
        assert_withdrawn(&update, "sets (RFC 9774)");
    }
    for value in [&[2, 1, 0][..], &[2, 1, 0, 1, 9], &[2, 1, 0, 0], &[1, 1, 0, 1], &[2, 1, 0, 0, 0xfc, 1]] {
        assert_withdrawn(&read(value, &[]), "an AS_PATH that is no two-octet one");
    }
    let long = segment(2, &[9; 205]).repeat(5);
    let update = read(&long, &[]);
    assert_eq!(update.faults[0].reason, FaultReason::PathTooLong);
    assert_withdrawn(&update, "1025 systems");
}

#[test]
fn two_aggregators() {
    // 32
    let path = segment(2, &[100, 23456]);
    let as4_path = attribute(OPTIONAL_TRANSITIVE, 17, &segment4(2, &[100, 70_000]));
    let made_by =
        |update: &Update| update.attributes.extra.aggregator.map(|known| (known.as_number.value(), known.address));
    let (old, new) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 4));
    // AGGREGATOR, AS4_AGGREGATOR; the aggregator and the path that follow
    let rows = [
        (Some(23456), Some(70_000), Some((70_000, new)), [100, 70_000]),
        (Some(100), Some(70_000), Some((100, old)), [100, 23456]),
        (Some(100), None, Some((100, old)), [100, 70_000]),
        (Some(23456), None, Some((23456, old)), [100, 70_000]),
        (None, Some(70_000), None, [100, 70_000]),
        (Some(23456), Some(0), Some((23456, old)), [100, 70_000]),
    ];
    for (two, four, expected, path_after) in rows {
        let rest: Vec<u8> = two.map(aggregator).into_iter().chain(four.map(aggregator4)).flatten().collect();
        let update = read(&path, &[rest, as4_path.clone()].concat());
        assert_eq!(made_by(&update), expected, "{two:?}, {four:?}");
        assert_eq!(systems(&update), path_after, "{two:?}, {four:?}");
    }
    for (code, bad) in
        [(7, vec![0, 0, 0xfc, 1, 10, 0, 0, 1]), (7, vec![0, 0, 10, 0, 0, 1]), (18, vec![0, 1, 10, 0, 0, 1])]
    {
        let update = read(&path, &attribute(OPTIONAL_TRANSITIVE, code, &bad));
        assert_eq!(made_by(&update), None, "eight octets, AS 0, six octets");
        assert_eq!(update.faults[0].treatment, Treatment::Discard);
    }
}

#[test]
fn what_an_old_speaker_is_sent() {
    let system = |number| AsNumber::new(number);
    let aggregator = |number| Some(Aggregator { as_number: system(number), address: Ipv4Addr::LOCALHOST });
    for (path, made_by, as4) in [
        (vec![100, 200], None, [false, false]),
        (vec![100, 200], aggregator(300), [false, false]),
        (vec![100, 70_000], None, [true, false]),
        (vec![100, 70_000], aggregator(300), [true, false]),
        (vec![100], aggregator(70_000), [false, true]),
        (vec![70_000; 300], aggregator(70_000), [true, true]),
        (vec![], None, [false, false]),
    ] {
        let mut attributes =
            PathAttributes { as_path: path.iter().copied().map(system).collect(), ..PathAttributes::default() };
        if made_by.is_some() {
            attributes.extra.make_mut().aggregator = made_by;
        }
        let stream = announce(&attributes, Ipv4Addr::LOCALHOST, &[nlri("10.0.0.0/8")], TO_OLD);
        assert_eq!(updates(&stream, OLD)[0].attributes, attributes, "{path:?}");
        let codes = codes(&stream[23..stream.len() - 2]);
        assert_eq!([codes.contains(&17), codes.contains(&18)], as4, "{path:?}, {made_by:?}");
    }
}

fn codes(mut list: &[u8]) -> Vec<u8> {
    let mut codes = Vec::new();
    while let [flags, code, rest @ ..] = list {
        codes.push(*code);
        let (head, length) = if flags & 0x10 == 0 {
            (1, usize::from(rest[0]))
        } else {
            (2, usize::from(u16::from_be_bytes([rest[0], rest[1]])))
        };
        list = &rest[head + length..];
    }
    codes
}
