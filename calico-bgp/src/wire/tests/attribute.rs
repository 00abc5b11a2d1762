//! Values of attributes: what is read, and what becomes of what cannot be.

use core::net::Ipv4Addr;

use calico_core::net::AsNumber;

use super::build::{
    EXTERNAL, INTERNAL, NLRI, OPTIONAL, OPTIONAL_TRANSITIVE, WELL_KNOWN, accepted, announce, as_path, assert_withdrawn,
    attribute, body, decode, decode_with, mandatory, next_hop, nlri, origin, updates,
};
use crate::wire::attribute::{
    BLACKHOLE, GRACEFUL_SHUTDOWN, LLGR_STALE, NO_ADVERTISE, NO_EXPORT, NO_EXPORT_SUBCONFED, NO_LLGR,
};
use crate::wire::{Aigp, EncodeContext, FaultReason, PathAttributes, Treatment, Update};

/// For each known attribute: flags, code, a good value, and what follows from other flags and from other lengths. Each is tried
/// with the three other flags, empty, one octet short, one long, and far too long.
#[test]
fn malformed_known_attributes() {
    use Treatment::{Discard, Withdraw};
    let known: [(u8, u8, Vec<u8>, Treatment, Treatment); 15] = [
        (WELL_KNOWN, 1, vec![0], Withdraw, Withdraw),
        (WELL_KNOWN, 2, vec![2, 1, 0, 0, 0xfc, 1], Withdraw, Withdraw),
        (WELL_KNOWN, 3, vec![10, 0, 0, 2], Withdraw, Withdraw),
        (OPTIONAL, 4, vec![0; 4], Withdraw, Withdraw),
        (WELL_KNOWN, 5, vec![0; 4], Withdraw, Withdraw),
        (WELL_KNOWN, 6, vec![], Withdraw, Discard),
        (OPTIONAL_TRANSITIVE, 7, vec![0, 0, 0xfc, 1, 10, 0, 0, 2], Withdraw, Discard),
        (OPTIONAL_TRANSITIVE, 8, vec![0; 4], Withdraw, Withdraw),
        (OPTIONAL, 9, vec![10, 0, 0, 9], Withdraw, Withdraw),
        (OPTIONAL, 10, vec![10, 0, 0, 9], Withdraw, Withdraw),
        (OPTIONAL_TRANSITIVE, 16, vec![0; 8], Withdraw, Withdraw),
        (OPTIONAL_TRANSITIVE, 25, vec![0; 20], Withdraw, Withdraw),
        (OPTIONAL, 26, vec![1, 0, 11, 0, 0, 0, 0, 0, 0, 0, 7], Discard, Discard),
        (OPTIONAL_TRANSITIVE, 32, vec![0; 12], Withdraw, Withdraw),
        (OPTIONAL_TRANSITIVE, 35, vec![0, 0, 0xfc, 1], Withdraw, Withdraw),
    ];
    for (flags, code, good, bad_flags, bad_value) in known {
        let with = |flags: u8, value: &[u8]| {
            let others = [(1, origin()), (2, as_path()), (3, next_hop())];
            let others: Vec<u8> = others.into_iter().filter(|(known, _)| *known != code).flat_map(|(_, a)| a).collect();
            decode(&[others, attribute(flags, code, value)].concat()).unwrap()
        };
        let fine = with(flags, &good);
        assert_eq!((fine.reach.len(), fine.faults.len()), (1, 0), "attribute {code}: {fine:?}");
        let expect = |update: &Update, treatment, why: &str| match treatment {
            Withdraw => assert_withdrawn(update, &format!("attribute {code}, {why}")),
            Discard => {
                assert_eq!((update.reach.len(), update.faults[0].treatment), (1, Discard), "attribute {code}, {why}");
                assert_eq!(update.attributes, with_only_mandatory(), "attribute {code}, {why}");
            }
        };
        for wrong in [0, WELL_KNOWN, OPTIONAL, OPTIONAL_TRANSITIVE].into_iter().filter(|wrong| *wrong != flags) {
            let update = with(wrong, &good);
            expect(&update, bad_flags, &format!("flags {wrong:x}"));
            assert_eq!(update.faults[0].reason, FaultReason::Flags);
        }
        let longer = [&good[..], &[1]].concat();
        let shorter = good.split_last().map(|(_, shorter)| shorter.to_vec());
        let empty = (!matches!(code, 2 | 6)).then(Vec::new);
        for bad in shorter.into_iter().chain(empty).chain([longer, vec![0; 3001]]) {
            let update = with(flags, &bad);
            expect(&update, bad_value, &format!("{} bytes", bad.len()));
            assert_eq!(update.faults[0].reason, FaultReason::Value);
        }
    }
}

fn with_only_mandatory() -> PathAttributes {
    decode(&mandatory()).unwrap().attributes
}

#[test]
fn origin_and_as_path_values() {
    // 28, 29
    for value in [3, 255] {
        let update = decode(&[attribute(WELL_KNOWN, 1, &[value]), as_path(), next_hop()].concat()).unwrap();
        assert_withdrawn(&update, "ORIGIN");
    }
    let path = |value: &[u8]| decode(&[origin(), attribute(WELL_KNOWN, 2, value), next_hop()].concat()).unwrap();
    let bad: [&[u8]; 9] = [
        &[0, 1, 0, 0, 0, 1],    // segment type 0
        &[5, 1, 0, 0, 0, 1],    // and 5
        &[2, 0],                // no systems
        &[2, 2, 0, 0, 0, 1],    // fewer systems than said
        &[2, 1, 0, 0, 0, 1, 2], // a byte too many
        &[2, 1, 0, 0, 0, 0],    // AS 0 (RFC 7607)
        &[1, 1, 0, 0, 0, 1],    // AS_SET (RFC 9774)
        &[3, 1, 0, 0, 0, 1],    // confederation sequence
        &[4, 1, 0, 0, 0, 1],    // confederation set
    ];
    for value in bad {
        assert_withdrawn(&path(value), &format!("{value:?}"));
    }
    assert_eq!(path(&[]).reach.len(), 1, "an empty path is fine here: an internal route");
    let segment = |systems: u8| [&[2, systems][..], &[0, 0, 0xfc, 1].repeat(systems.into())].concat();
    assert_eq!(path(&segment(255)).attributes.as_path.len(), 255);
    let long = path(&[segment(255), segment(255), segment(255)].concat());
    assert_eq!(long.attributes.as_path.len(), 765);
    let message = announce(&long.attributes, Ipv4Addr::LOCALHOST, &[nlri("10.1.0.0/26")], EncodeContext::default());
    assert_eq!(updates(&message, INTERNAL)[0].attributes, long.attributes);
    let longest = [segment(255), segment(255), segment(255), segment(255), segment(4)].concat();
    assert_eq!(path(&longest).attributes.as_path.len(), 1024);
    for value in [[longest, segment(1)].concat(), segment(200).repeat(10)] {
        let update = path(&value);
        assert_withdrawn(&update, "more than 1024 systems");
        assert_eq!(update.faults[0].reason, FaultReason::PathTooLong);
    }
}

#[test]
fn attributes_of_internal_sessions_are_dropped_from_external_ones() {
    // 31, 34
    let extra: [(u8, u8); 3] = [(WELL_KNOWN, 5), (OPTIONAL, 9), (OPTIONAL, 10)];
    for (flags, code) in extra {
        for value in [&[0, 0, 0, 7][..], &[0]] {
            let attributes = [mandatory(), attribute(flags, code, value)].concat();
            let update = Update::decode(&body(&[], &attributes, &NLRI), EXTERNAL).unwrap();
            assert_eq!(update.reach.len(), 1, "attribute {code}");
            assert_eq!(update.faults[0].treatment, Treatment::Discard);
            let attributes = update.attributes;
            assert_eq!((attributes.local_pref, attributes.originator_id), (None, None));
            assert!(attributes.cluster_list.is_empty());
        }
    }
    for number in [0, u32::MAX] {
        let value = number.to_be_bytes();
        let attributes = accepted(&[attribute(OPTIONAL, 4, &value), attribute(WELL_KNOWN, 5, &value)].concat());
        assert_eq!((attributes.med, attributes.local_pref), (Some(number), Some(number)));
    }
}

#[test]
fn aggregator_communities_and_partial_bits() {
    // 32, 33, 35
    for bad in [vec![0xfc, 1, 10, 0, 0, 2], vec![0, 0, 0, 0, 10, 0, 0, 2]] {
        assert_eq!(accepted(&attribute(OPTIONAL_TRANSITIVE, 7, &bad)).extra.aggregator, None);
    }
    let well_known = [
        (GRACEFUL_SHUTDOWN, [255, 255, 0, 0]),
        (LLGR_STALE, [255, 255, 0, 6]),
        (NO_LLGR, [255, 255, 0, 7]),
        (BLACKHOLE, [255, 255, 2, 154]),
        (NO_EXPORT, [255, 255, 255, 1]),
        (NO_ADVERTISE, [255, 255, 255, 2]),
        (NO_EXPORT_SUBCONFED, [255, 255, 255, 3]),
    ];
    for (community, octets) in well_known {
        assert_eq!(accepted(&attribute(OPTIONAL_TRANSITIVE, 8, &octets)).communities, [community]);
    }
    let large = [[2; 12], [1; 12], [2; 12]].concat();
    let large = accepted(&attribute(OPTIONAL_TRANSITIVE, 32, &large));
    assert_eq!(large.extra.large_communities, [[1; 12], [2; 12]]);
    let extended = [[0x43, 9, 1, 2, 3, 4, 5, 6], [0, 2, 0, 1, 0, 0, 0, 1]].concat();
    let extended = accepted(&attribute(OPTIONAL_TRANSITIVE, 16, &extended));
    assert_eq!(extended.extra.extended_communities[0], [0x43, 9, 1, 2, 3, 4, 5, 6], "of unknown type, in its place");
    for (code, value) in
        [(7, vec![1; 8]), (8, vec![1; 4]), (16, vec![1; 8]), (25, vec![1; 20]), (32, vec![1; 12]), (35, vec![1; 4])]
    {
        let partial = accepted(&attribute(OPTIONAL_TRANSITIVE | 0x20, code, &value));
        assert!(partial.partial.contains(code), "attribute {code}");
        let message = announce(&partial, Ipv4Addr::LOCALHOST, &[nlri("10.1.0.0/26")], EncodeContext::default());
        assert_eq!(updates(&message, INTERNAL)[0].attributes, partial, "Partial is never cleared again");
        assert_ne!(partial, accepted(&attribute(OPTIONAL_TRANSITIVE, code, &value)));
    }
    let old = [attribute(OPTIONAL_TRANSITIVE, 17, &[1]), attribute(WELL_KNOWN, 18, &[])].concat();
    let update = decode(&[mandatory(), old].concat()).unwrap();
    assert_eq!(update.faults, [], "AS4 attributes say nothing on this session, right or wrong");
    assert_eq!(update.attributes, with_only_mandatory());
}

#[test]
fn metrics_and_markers_of_routes() {
    let aigp = |value: &[u8]| accepted(&attribute(OPTIONAL, 26, value)).extra.aigp.clone();
    let metric = [1, 0, 11, 0, 0, 0, 0, 0, 0, 1, 0];
    assert_eq!(aigp(&metric), Some(Aigp::new(256)));
    let two = aigp(&[&[9, 0, 4, 1][..], &metric, &[1, 0, 11, 0, 0, 0, 0, 0, 0, 9, 9]].concat()).unwrap();
    assert_eq!(two.metric(), Some(256), "the first metric counts, other TLVs are kept");
    for bad in [&[1, 0, 10, 0, 0, 0, 0, 0, 0, 1][..], &[1, 0, 2], &[1, 0, 0], &[9, 0, 5, 1], &[9]] {
        assert_eq!(aigp(bad), None, "{bad:?}");
    }
    let both = [attribute(OPTIONAL, 26, &metric), attribute(OPTIONAL_TRANSITIVE, 35, &[0, 0, 0xfc, 9])].concat();
    let external = decode_with(&[mandatory(), both].concat(), EXTERNAL).unwrap();
    assert_eq!(external.faults, [], "a foreign metric is dropped without a word");
    assert_eq!(external.attributes.extra.aigp, None);
    assert_eq!(external.attributes.extra.only_to_customer, Some(AsNumber::new(64521)));
}

/// Who says nothing equals who never allocated anything to say.
#[test]
fn attributes_are_equal_by_what_they_say() {
    use core::hash::BuildHasher;
    let mut silent = PathAttributes::default();
    silent.extra.make_mut();
    let hasher = std::hash::RandomState::new();
    assert_eq!(silent, PathAttributes::default());
    assert_eq!(hasher.hash_one(&silent), hasher.hash_one(PathAttributes::default()));
    assert!(silent.extra.is_empty() && format!("{:?}", silent.extra) == "None");
    silent.extra.make_mut().only_to_customer = Some(AsNumber::new(1));
    assert_ne!(silent, PathAttributes::default());
    assert!(size_of::<PathAttributes>() <= 96, "{} octets", size_of::<PathAttributes>());
}
