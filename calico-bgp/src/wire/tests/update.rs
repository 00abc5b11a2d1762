//! Framing of UPDATEs, and attributes that are not understood.

use core::net::Ipv4Addr;

use calico_core::net::{AsNumber, Family};

use super::build::{
    BOTH, EXTERNAL, INTERNAL, NLRI, OPTIONAL, OPTIONAL_TRANSITIVE, WELL_KNOWN, accepted, announce, as_path,
    assert_withdrawn, attribute, body, decode, decode_with, end_of_rib, mandatory, next_hop, nlri, origin, refusal,
    updates,
};
use crate::wire::{
    AttributeFault, DecodeContext, EncodeContext, Families, FaultReason, NextHop, Notification, OtherAttribute,
    Treatment, Update,
};

#[test]
fn a_plain_update() {
    let update = Update::decode(&body(&[24, 10, 9, 9], &mandatory(), &NLRI), EXTERNAL).unwrap();
    assert_eq!(update.withdrawn, [nlri("10.9.9.0/24")]);
    assert_eq!(update.reach[0].next_hop, NextHop::V4(Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!(update.reach[0].routes, [nlri("10.1.0.0/26")]);
    assert_eq!(update.attributes.as_path.systems(), [AsNumber::new(64513)]);
    assert_eq!((update.faults.len(), update.end_of_rib), (0, None));
}

#[test]
fn lengths_that_contradict_each_other() {
    // 22
    for bytes in [&[0, 5, 0, 0][..], &[0, 0, 0, 5], &[0, 0, 0], &[0], &[], &[255, 255, 255, 255]] {
        assert_eq!(refusal(Update::decode(bytes, INTERNAL)), (3, 1), "{bytes:?}");
    }
    let bare = Update::decode(&body(&[], &[], &NLRI), INTERNAL).unwrap();
    assert_withdrawn(&bare, "prefixes without any attribute");
}

#[test]
fn the_end_of_rib_marker_is_exact() {
    let unreach = |value: &[u8]| attribute(OPTIONAL, 15, value);
    let (only_v4, both) = (INTERNAL, BOTH);
    let only_v6 = DecodeContext { families: Families::IPV6, ..INTERNAL };
    // 22, 42
    let rows: [(&str, Vec<u8>, DecodeContext, Option<Family>); 11] = [
        ("nothing at all", vec![0; 4], only_v4, Some(Family::V4)),
        ("ours", end_of_rib(Family::V4)[19..].to_vec(), both, Some(Family::V4)),
        ("ours", end_of_rib(Family::V6)[19..].to_vec(), both, Some(Family::V6)),
        ("IPv4 in the other form", body(&[], &unreach(&[0, 1, 1]), &[]), only_v4, Some(Family::V4)),
        ("IPv6", body(&[], &unreach(&[0, 2, 1]), &[]), both, Some(Family::V6)),
        ("IPv6, not negotiated", body(&[], &unreach(&[0, 2, 1]), &[]), only_v4, None),
        ("IPv4, not negotiated", vec![0; 4], only_v6, None),
        ("a family that nobody knows", body(&[], &unreach(&[0, 1, 128]), &[]), both, None),
        ("it withdraws something", body(&[], &unreach(&[0, 2, 1, 0]), &[]), both, None),
        ("it is not alone", body(&[], &[unreach(&[0, 1, 1]), origin()].concat(), &[]), both, None),
        ("it withdraws something in the body", body(&[24, 10, 9, 9], &[], &[]), both, None),
    ];
    for (why, bytes, context, expected) in rows {
        assert_eq!(Update::decode(&bytes, context).unwrap().end_of_rib, expected, "{why}");
    }
    assert_eq!(end_of_rib(Family::V4).len(), 23, "RFC 4724 section 2");
}

#[test]
fn attribute_lists_that_are_cut_short() {
    // 23: the total length still tells where the prefixes are
    for tail in [&[0x40][..], &[0x40, 5], &[0x50, 5, 0], &[0x40, 5, 9, 0], &[0x50, 5, 255, 255, 1]] {
        let attributes = [&mandatory(), tail].concat();
        assert_withdrawn(&decode(&attributes).unwrap(), &format!("{tail:?}"));
        let without_prefix = Update::decode(&body(&[], &attributes, &[]), INTERNAL);
        assert_eq!(refusal(without_prefix), (3, 1), "the prefixes meant may be hidden: {tail:?}");
    }
    let reach = attribute(OPTIONAL, 14, &[&[0, 1, 1, 4, 10, 0, 0, 2, 0][..], &NLRI].concat());
    let update = Update::decode(&body(&[], &[reach, vec![0x40]].concat(), &[]), INTERNAL).unwrap();
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
    let both = Update::decode(&body(&NLRI, &mandatory(), &[NLRI, NLRI].concat()), INTERNAL).unwrap();
    assert_eq!(both.reach[0].routes.len(), 2, "announced twice and withdrawn: the session takes withdrawals first");
}

#[test]
fn order_and_number_of_attributes_do_not_matter() {
    // 25
    let reversed = [next_hop(), as_path(), origin()].concat();
    assert_eq!(decode(&reversed).unwrap(), decode(&mandatory()).unwrap());
    let many: Vec<u8> = (100..=255).flat_map(|code| attribute(OPTIONAL_TRANSITIVE, code, &[])).collect();
    assert_eq!(accepted(&many).extra.others.len(), 156);
    assert_eq!(accepted(&attribute(OPTIONAL_TRANSITIVE, 0, &[])).extra.others.len(), 1);
}

#[test]
fn unknown_attributes() {
    // 26, 27, 36
    for size in [0, 1, 255, 256, 4000] {
        let value = vec![7; size];
        let attributes = accepted(&attribute(OPTIONAL_TRANSITIVE, 99, &value));
        assert_eq!(attributes.extra.others, [OtherAttribute { code: 99, value: value.clone().into(), partial: true }]);
        let message = announce(&attributes, Ipv4Addr::LOCALHOST, &[nlri("10.1.0.0/26")], EncodeContext::default());
        assert_eq!(updates(&message, INTERNAL)[0].attributes, attributes, "{size} bytes must pass unchanged");
        let sent = attribute(OPTIONAL_TRANSITIVE | 0x20, 99, &value);
        assert!(message.windows(sent.len()).any(|window| window == sent), "byte for byte, with the Partial bit");
    }
    assert!(accepted(&attribute(OPTIONAL, 99, &[1, 2])).extra.others.is_empty(), "non-transitive: dropped");
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
    let message = announce(&low_bits, Ipv4Addr::LOCALHOST, &[nlri("10.1.0.0/26")], EncodeContext::default());
    assert!(message.windows(3).any(|window| window == [OPTIONAL, 4, 4]), "reserved bits are cleared when sent");
}

#[test]
fn unknown_attributes_are_bounded() {
    let context = DecodeContext { extended_message: true, ..INTERNAL };
    let attributes =
        [mandatory(), attribute(OPTIONAL_TRANSITIVE, 98, &[1]), attribute(OPTIONAL_TRANSITIVE, 99, &vec![7; 4096])];
    let update = decode_with(&attributes.concat(), context).unwrap();
    assert_eq!(update.reach.len(), 1);
    assert_eq!(
        update.faults,
        [AttributeFault { code: 99, reason: FaultReason::TooLarge, treatment: Treatment::Discard }]
    );
    assert_eq!(update.attributes.extra.others.len(), 1);
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

/// What an error says survives only as long as it can be sent.
#[test]
fn what_is_echoed_is_bounded() {
    let context = DecodeContext { extended_message: true, ..INTERNAL };
    let unknown = attribute(WELL_KNOWN, 99, &vec![7; 30_000]);
    let notification = decode_with(&[mandatory(), unknown].concat(), context).unwrap_err().notification();
    assert_eq!((notification.code, notification.subcode), (3, 2));
    assert_eq!(notification.encode().len(), 4096);
}
