use core::net::{IpAddr, Ipv4Addr};

use calico_core::net::{AsNumber, Cidr};

use crate::wire::update::{encode_announcements, encode_end_of_rib, encode_withdrawals};
use crate::wire::{
    AddressFamily, FaultReason, Notification, OtherAttribute, PathAttributes, PeerType, Treatment, Update, WireError,
};

const WELL_KNOWN: u8 = 0x40;
const OPTIONAL: u8 = 0x80;
const OPTIONAL_TRANSITIVE: u8 = 0xc0;

pub(super) fn attribute(flags: u8, code: u8, value: &[u8]) -> Vec<u8> {
    if value.len() > 255 {
        let length = u16::try_from(value.len()).unwrap().to_be_bytes();
        return [&[flags | 0x10, code][..], &length, value].concat();
    }
    [&[flags, code, u8::try_from(value.len()).unwrap()][..], value].concat()
}

/// ORIGIN, AS_PATH (of 64513) and NEXT_HOP.
fn mandatory() -> Vec<u8> {
    [origin(), as_path(), next_hop()].concat()
}

fn origin() -> Vec<u8> {
    attribute(WELL_KNOWN, 1, &[0])
}

fn as_path() -> Vec<u8> {
    attribute(WELL_KNOWN, 2, &[2, 1, 0, 0, 0xfc, 1])
}

fn next_hop() -> Vec<u8> {
    attribute(WELL_KNOWN, 3, &[10, 0, 0, 2])
}

fn body(withdrawn: &[u8], attributes: &[u8], announced: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length(withdrawn)[..], withdrawn, &length(attributes), attributes, announced].concat()
}

const NLRI: [u8; 5] = [26, 10, 1, 0, 0];

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn decode(attributes: &[u8]) -> Result<Update, WireError> {
    Update::decode(&body(&[], attributes, &NLRI), PeerType::Internal)
}

/// With these attributes beside the mandatory ones, the prefix is announced.
fn accepted(extra: &[u8]) -> PathAttributes {
    let update = decode(&[&mandatory(), extra].concat()).unwrap();
    assert_eq!(update.reach.len(), 1, "{extra:?}: {update:?}");
    update.attributes
}

fn assert_withdrawn(update: &Update, why: &str) {
    assert_eq!(update.withdrawn, [cidr("10.1.0.0/26")], "{why}: {update:?}");
    assert!(
        update.reach.is_empty() && update.faults.iter().any(|fault| fault.treatment == Treatment::Withdraw),
        "{why}"
    );
}

fn refusal(result: Result<Update, WireError>) -> (u8, u8) {
    let Notification { code, subcode, .. } = result.unwrap_err().notification();
    (code, subcode)
}

#[test]
fn a_plain_update() {
    let update = Update::decode(&body(&[24, 10, 9, 9], &mandatory(), &NLRI), PeerType::External).unwrap();
    assert_eq!(update.withdrawn, [cidr("10.9.9.0/24")]);
    assert_eq!(update.reach[0].next_hop, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!(update.reach[0].prefixes, [cidr("10.1.0.0/26")]);
    assert_eq!(update.attributes.as_path.systems(), [AsNumber::new(64513)]);
    assert_eq!((update.faults.len(), update.end_of_rib), (0, None));
}

#[test]
fn lengths_that_contradict_each_other() {
    // 22
    for bytes in [&[0, 5, 0, 0][..], &[0, 0, 0, 5], &[0, 0, 0], &[0], &[], &[255, 255, 255, 255]] {
        assert_eq!(refusal(Update::decode(bytes, PeerType::Internal)), (3, 1), "{bytes:?}");
    }
    let bare = Update::decode(&body(&[], &[], &NLRI), PeerType::Internal).unwrap();
    assert_withdrawn(&bare, "prefixes without any attribute");
}

#[test]
fn the_end_of_rib_marker_is_exact() {
    let marker = |bytes: &[u8]| Update::decode(bytes, PeerType::Internal).unwrap().end_of_rib;
    assert_eq!(marker(&[0; 4]), Some(AddressFamily::IPV4_UNICAST));
    assert_eq!(marker(&encode_end_of_rib()[19..]), Some(AddressFamily::IPV4_UNICAST));
    let unreach = |value: &[u8]| attribute(OPTIONAL, 15, value);
    // 42
    assert_eq!(marker(&body(&[], &unreach(&[0, 1, 1]), &[])), Some(AddressFamily::IPV4_UNICAST));
    assert_eq!(marker(&body(&[], &unreach(&[0, 2, 1]), &[])), Some(AddressFamily::IPV6_UNICAST));
    assert_eq!(marker(&body(&[], &unreach(&[0, 2, 1, 0]), &[])), None, "it withdraws something");
    assert_eq!(marker(&body(&[], &[unreach(&[0, 1, 1]), origin()].concat(), &[])), None, "it is not alone");
    assert_eq!(marker(&body(&[24, 10, 9, 9], &[], &[])), None);
}

#[test]
fn attribute_lists_that_are_cut_short() {
    // 23: the total length still tells where the prefixes are
    for tail in [&[0x40][..], &[0x40, 5], &[0x50, 5, 0], &[0x40, 5, 9, 0], &[0x50, 5, 255, 255, 1]] {
        let attributes = [&mandatory(), tail].concat();
        assert_withdrawn(&decode(&attributes).unwrap(), &format!("{tail:?}"));
        let without_prefix = Update::decode(&body(&[], &attributes, &[]), PeerType::Internal);
        assert_eq!(refusal(without_prefix), (3, 1), "the prefixes meant may be hidden: {tail:?}");
    }
    let reach = attribute(OPTIONAL, 14, &[&[0, 1, 1, 4, 10, 0, 0, 2, 0][..], &NLRI].concat());
    let update = Update::decode(&body(&[], &[reach, vec![0x40]].concat(), &[]), PeerType::Internal).unwrap();
    assert_withdrawn(&update, "prefixes found in MP_REACH_NLRI before the cut");
}

#[test]
fn duplicates() {
    // 24
    let twice = accepted(&[attribute(OPTIONAL, 4, &[0, 0, 0, 1]), attribute(OPTIONAL, 4, &[0, 0, 0, 2])].concat());
    assert_eq!(twice.med, Some(1), "the first one counts");
    for value in [&[0, 2, 1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0, 2, 1]] {
        let code = if value.len() > 3 { 14 } else { 15 };
        let attributes = [mandatory(), attribute(OPTIONAL, code, value), attribute(OPTIONAL, code, value)].concat();
        assert_eq!(refusal(decode(&attributes)), (3, 1));
    }
    let both = Update::decode(&body(&NLRI, &mandatory(), &[NLRI, NLRI].concat()), PeerType::Internal).unwrap();
    assert_eq!(both.reach[0].prefixes.len(), 2, "announced twice and withdrawn: the session takes withdrawals first");
}

#[test]
fn order_and_number_of_attributes_do_not_matter() {
    // 25
    let reversed = [next_hop(), as_path(), origin()].concat();
    assert_eq!(decode(&reversed).unwrap(), decode(&mandatory()).unwrap());
    let many: Vec<u8> = (100..=255).flat_map(|code| attribute(OPTIONAL_TRANSITIVE, code, &[])).collect();
    assert_eq!(accepted(&many).others.len(), 156);
    assert_eq!(accepted(&attribute(OPTIONAL_TRANSITIVE, 0, &[])).others.len(), 1);
}

#[test]
fn unknown_attributes() {
    // 26, 27, 36
    for size in [0, 1, 255, 256, 4000] {
        let value = vec![7; size];
        let attributes = accepted(&attribute(OPTIONAL_TRANSITIVE, 99, &value));
        assert_eq!(attributes.others, [OtherAttribute { code: 99, value: value.clone(), partial: true }]);
        let messages = encode_announcements(&attributes, Ipv4Addr::LOCALHOST, &[cidr("10.1.0.0/26")]);
        let again = Update::decode(&messages[0][19..], PeerType::Internal).unwrap();
        assert_eq!(again.attributes, attributes, "{size} bytes must pass unchanged");
    }
    assert!(accepted(&attribute(OPTIONAL, 99, &[1, 2])).others.is_empty(), "non-transitive: dropped");
    let unknown = attribute(WELL_KNOWN, 99, &[1, 2]);
    let error = decode(&[mandatory(), unknown.clone()].concat()).unwrap_err();
    assert_eq!(error.notification(), Notification::new(3, 2, unknown));
    for garbage in [23, 29, 40, 128] {
        accepted(&attribute(OPTIONAL_TRANSITIVE, garbage, &[0xff, 0, 0xff, 9]));
    }
    let low_bits = accepted(&[0x8f & !0x10, 4, 4, 0, 0, 0, 9]);
    assert_eq!(low_bits.med, Some(9), "reserved flag bits are ignored");
    let extended = accepted(&[0x90, 4, 0, 4, 0, 0, 0, 9]);
    assert_eq!(extended.med, Some(9), "an extended length on a short attribute is fine");
}

/// For each known attribute: flags, code, a good value. Each is tried with the other flags, and with lengths around.
#[test]
fn malformed_known_attributes() {
    let known: [(u8, u8, Vec<u8>); 13] = [
        (WELL_KNOWN, 1, vec![0]),
        (WELL_KNOWN, 2, vec![2, 1, 0, 0, 0xfc, 1]),
        (WELL_KNOWN, 3, vec![10, 0, 0, 2]),
        (OPTIONAL, 4, vec![0; 4]),
        (WELL_KNOWN, 5, vec![0; 4]),
        (WELL_KNOWN, 6, vec![]),
        (OPTIONAL_TRANSITIVE, 7, vec![0, 0, 0xfc, 1, 10, 0, 0, 2]),
        (OPTIONAL_TRANSITIVE, 8, vec![0; 4]),
        (OPTIONAL, 9, vec![10, 0, 0, 9]),
        (OPTIONAL, 10, vec![10, 0, 0, 9]),
        (OPTIONAL_TRANSITIVE, 16, vec![0; 8]),
        (OPTIONAL_TRANSITIVE, 32, vec![0; 12]),
        (OPTIONAL_TRANSITIVE, 35, vec![0, 0, 0xfc, 1]),
    ];
    for (flags, code, good) in known {
        let with = |flags: u8, value: &[u8]| {
            let others = [(1, origin()), (2, as_path()), (3, next_hop())];
            let others: Vec<u8> = others.into_iter().filter(|(known, _)| *known != code).flat_map(|(_, a)| a).collect();
            decode(&[others, attribute(flags, code, value)].concat())
        };
        let fine = with(flags, &good).unwrap();
        assert_eq!((fine.reach.len(), fine.faults.len()), (1, 0), "attribute {code}: {fine:?}");
        for wrong in [0, WELL_KNOWN, OPTIONAL, OPTIONAL_TRANSITIVE].into_iter().filter(|wrong| *wrong != flags) {
            let update = with(wrong, &good).unwrap();
            assert_withdrawn(&update, &format!("attribute {code} with flags {wrong:x}"));
            assert_eq!(update.faults[0].reason, FaultReason::Flags);
        }
        let longer = [&good[..], &[1]].concat();
        let huge = vec![0; 3001];
        let shorter = good.split_last().map(|(_, shorter)| shorter.to_vec());
        for bad in shorter.into_iter().chain([longer, huge]) {
            let update = with(flags, &bad).unwrap();
            if matches!(code, 6 | 7) {
                let discarded = (update.reach.len(), update.faults[0].treatment);
                assert_eq!(discarded, (1, Treatment::Discard), "attribute {code}, {} bytes", bad.len());
            } else {
                assert_withdrawn(&update, &format!("attribute {code}, {} bytes", bad.len()));
            }
        }
        if !matches!(code, 2 | 6) {
            let empty = with(flags, &[]).unwrap();
            assert_eq!(empty.reach.is_empty(), code != 7, "attribute {code}, empty");
        }
    }
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
    let messages = encode_announcements(&long.attributes, Ipv4Addr::LOCALHOST, &[cidr("10.1.0.0/26")]);
    assert_eq!(Update::decode(&messages[0][19..], PeerType::Internal).unwrap().attributes, long.attributes);
}

#[test]
fn attributes_of_internal_sessions_are_dropped_from_external_ones() {
    // 31, 34
    let extra: [(u8, u8); 3] = [(WELL_KNOWN, 5), (OPTIONAL, 9), (OPTIONAL, 10)];
    for (flags, code) in extra {
        for value in [&[0, 0, 0, 7][..], &[0]] {
            let attributes = [mandatory(), attribute(flags, code, value)].concat();
            let update = Update::decode(&body(&[], &attributes, &NLRI), PeerType::External).unwrap();
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
        assert_eq!(accepted(&attribute(OPTIONAL_TRANSITIVE, 7, &bad)).aggregator, None);
    }
    let large = [[2; 12], [1; 12], [2; 12]].concat();
    assert_eq!(accepted(&attribute(OPTIONAL_TRANSITIVE, 32, &large)).large_communities, [[1; 12], [2; 12]]);
    let partial = accepted(&attribute(OPTIONAL_TRANSITIVE | 0x20, 8, &[0, 1, 0, 2]));
    assert_eq!((partial.communities.as_slice(), partial.partial.as_slice()), (&[0x1_0002][..], &[8][..]));
    let messages = encode_announcements(&partial, Ipv4Addr::LOCALHOST, &[cidr("10.1.0.0/26")]);
    let again = Update::decode(&messages[0][19..], PeerType::Internal).unwrap();
    assert_eq!(again.attributes, partial, "Partial is never cleared again");
    let old = [attribute(OPTIONAL_TRANSITIVE, 17, &[1]), attribute(OPTIONAL_TRANSITIVE, 18, &[])].concat();
    assert!(accepted(&old).others.is_empty(), "AS4 attributes say nothing on this session");
}

#[test]
fn mandatory_attributes_must_be_there() {
    for without in [[origin(), as_path()], [origin(), next_hop()], [as_path(), next_hop()]] {
        let update = decode(&without.concat()).unwrap();
        assert_withdrawn(&update, "mandatory attribute missing");
        assert_eq!(update.faults[0].reason, FaultReason::Missing);
    }
    let reach = attribute(OPTIONAL, 14, &[&[0, 1, 1, 4, 10, 0, 0, 9, 0][..], &[24, 10, 5, 5]].concat());
    let update = decode(&[mandatory(), reach].concat()).unwrap();
    let next_hops: Vec<_> = update.reach.iter().map(|reach| reach.next_hop.to_string()).collect();
    assert_eq!(next_hops, ["10.0.0.2", "10.0.0.9"], "both lists, each with its own next hop");
}

#[test]
fn prefixes() {
    // 37–40
    let nlri = |bytes: &[u8]| Update::decode(&body(&[], &mandatory(), bytes), PeerType::Internal);
    for bad in [&[33, 1, 2, 3, 4, 5][..], &[129], &[255], &[24, 10, 1], &[32, 10, 1, 0], &[8]] {
        assert_eq!(refusal(nlri(bad)), (3, 10), "{bad:?}");
        assert_eq!(refusal(Update::decode(&body(bad, &[], &[]), PeerType::Internal)), (3, 10), "withdrawn {bad:?}");
    }
    let masked = nlri(&[26, 10, 1, 0, 63]).unwrap();
    assert_eq!(masked.reach[0].prefixes, [cidr("10.1.0.0/26")], "host bits are irrelevant");
    let odd = nlri(&[0, 32, 240, 0, 0, 1, 8, 127, 4, 224, 8, 0]).unwrap();
    let shown: Vec<String> = odd.reach[0].prefixes.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["0.0.0.0/0", "240.0.0.1/32", "127.0.0.0/8", "224.0.0.0/4", "0.0.0.0/8"]);
}

#[test]
fn multiprotocol_attributes() {
    // 41
    let reach = |value: &[u8]| decode(&[mandatory(), attribute(OPTIONAL, 14, value)].concat());
    for length in [0, 5, 16, 24, 32, 48] {
        let value = [&[0, 1, 1, length][..], &vec![1; length.into()], &[0, 24, 10, 5, 5]].concat();
        assert_eq!(refusal(reach(&value)), (3, 9), "next hop of {length} bytes");
    }
    for cut in [&[][..], &[0, 1], &[0, 1, 1], &[0, 1, 1, 4, 1], &[0, 1, 1, 4, 1, 2, 3, 4]] {
        assert_eq!(refusal(reach(cut)), (3, 9), "{cut:?}");
    }
    assert_eq!(refusal(reach(&[0, 1, 1, 4, 10, 0, 0, 9, 0, 33, 1, 2, 3, 4, 5])), (3, 9));
    let nonzero_reserved = reach(&[0, 1, 1, 4, 10, 0, 0, 9, 7, 24, 10, 5, 5]).unwrap();
    assert_eq!(nonzero_reserved.reach.len(), 2, "the octet that once counted SNPAs is ignored");
    for family in [[0, 2, 1], [0, 1, 128], [25, 0, 70]] {
        let foreign = reach(&[&family[..], &[16], &[0; 16], &[0, 200, 1, 2]].concat()).unwrap();
        assert_eq!(foreign.reach.len(), 1, "a family that was not negotiated is ignored");
    }
    let unreach = |value: &[u8]| decode(&[mandatory(), attribute(OPTIONAL, 15, value)].concat());
    assert_eq!(unreach(&[0, 1, 1, 24, 10, 5, 5]).unwrap().withdrawn, [cidr("10.5.5.0/24")]);
    assert_eq!(refusal(unreach(&[0, 1, 1, 24, 10, 5])), (3, 9));
    assert_eq!(refusal(unreach(&[0, 1])), (3, 9));
    let wrong_flags = decode(&attribute(WELL_KNOWN, 14, &[0, 1, 1, 4, 10, 0, 0, 9, 0, 24, 10, 5, 5])).unwrap();
    assert!(wrong_flags.withdrawn.contains(&cidr("10.5.5.0/24")), "found, and withdrawn");
}

#[test]
fn many_prefixes_share_messages() {
    let prefixes: Vec<Cidr> = (0..5000_u32).map(|n| Cidr::new(Ipv4Addr::from(n << 8).into(), 24).unwrap()).collect();
    let announcements = encode_announcements(&PathAttributes::default(), Ipv4Addr::LOCALHOST, &prefixes);
    let withdrawals = encode_withdrawals(&prefixes);
    assert_eq!((announcements.len(), withdrawals.len()), (5, 5), "about a thousand /24 per message");
    assert!(announcements.iter().chain(&withdrawals).all(|message| message.len() <= 4096));
    let read = |messages: Vec<Vec<u8>>| -> Vec<Update> {
        messages.iter().map(|message| Update::decode(&message[19..], PeerType::Internal).unwrap()).collect()
    };
    let announced: Vec<Cidr> = read(announcements).into_iter().flat_map(|u| u.reach[0].prefixes.clone()).collect();
    let withdrawn: Vec<Cidr> = read(withdrawals).into_iter().flat_map(|update| update.withdrawn).collect();
    assert!(announced == prefixes && withdrawn == prefixes);
}

#[test]
fn attributes_that_fill_a_message_are_not_sent() {
    let others = vec![OtherAttribute { code: 99, value: vec![0; 4070], partial: true }];
    let attributes = PathAttributes { others, ..PathAttributes::default() };
    assert_eq!(encode_announcements(&attributes, Ipv4Addr::LOCALHOST, &[cidr("10.1.0.0/26")]), Vec::<Vec<u8>>::new());
}
