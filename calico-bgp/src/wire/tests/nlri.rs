//! Prefixes and next hops, in the message body and in multiprotocol attributes.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::build::{BOTH, INTERNAL, OPTIONAL, WELL_KNOWN, attribute, body, decode, mandatory, nlri, path, refusal};
use crate::wire::{DecodeContext, Families, NextHop, Nlri, Update, WireError};

#[test]
fn prefixes() {
    // 37–40
    let read = |bytes: &[u8]| Update::decode(&body(&[], &mandatory(), bytes), INTERNAL);
    for bad in [&[33, 1, 2, 3, 4, 5][..], &[129], &[255], &[24, 10, 1], &[32, 10, 1, 0], &[8]] {
        assert_eq!(refusal(read(bad)), (3, 10), "{bad:?}");
        assert_eq!(refusal(Update::decode(&body(bad, &[], &[]), INTERNAL)), (3, 10), "withdrawn {bad:?}");
    }
    let masked = read(&[26, 10, 1, 0, 63]).unwrap();
    assert_eq!(masked.reach[0].routes, [nlri("10.1.0.0/26")], "host bits are irrelevant");
    let odd = read(&[0, 32, 240, 0, 0, 1, 8, 127, 4, 224, 8, 0]).unwrap();
    let shown: Vec<String> = odd.reach[0].routes.iter().map(|route| route.prefix.to_string()).collect();
    assert_eq!(shown, ["0.0.0.0/0", "240.0.0.1/32", "127.0.0.0/8", "224.0.0.0/4", "0.0.0.0/8"]);
}

#[test]
fn ipv6_prefixes() {
    let reach = |bytes: &[u8]| decode_reach(&[&[0, 2, 1, 16][..], &GLOBAL.octets(), &[0], bytes].concat(), BOTH);
    let unreach = |bytes: &[u8]| {
        let attribute = attribute(OPTIONAL, 15, &[&[0, 2, 1][..], bytes].concat());
        Update::decode(&body(&[], &attribute, &[]), BOTH)
    };
    for bad in [&[129][..], &[255], &[64, 0x20, 1], &[128, 1, 2, 3]] {
        assert_eq!(refusal(reach(bad)), (3, 9), "{bad:?}");
        assert_eq!(refusal(unreach(bad)), (3, 9), "withdrawn {bad:?}");
    }
    let odd = [&[0, 9, 0xfe, 0xff][..], &[10, 0xfe, 0xbf], &[128], &Ipv6Addr::LOCALHOST.octets()].concat();
    let expected = [nlri("::/0"), nlri("fe80::/9"), nlri("fe80::/10"), nlri("::1/128")];
    assert_eq!(reach(&odd).unwrap().reach[0].routes, expected);
    assert_eq!(unreach(&odd).unwrap().withdrawn, expected);
}

const GLOBAL: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// An UPDATE with this MP_REACH_NLRI, ORIGIN and AS_PATH, and no body.
fn decode_reach(value: &[u8], context: DecodeContext) -> Result<Update, WireError> {
    Update::decode(&body(&[], &[attribute(OPTIONAL, 14, value), mandatory()].concat(), &[]), context)
}

#[test]
fn next_hops() {
    // 41: family, next hop, whether RFC 8950 was agreed on, result
    let two = |first: Ipv6Addr| [first.octets(), LINK_LOCAL.octets()].concat();
    let mapped = Ipv4Addr::new(10, 0, 0, 9).to_ipv6_mapped();
    let both = NextHop::V6LinkLocal { global: GLOBAL, link_local: LINK_LOCAL };
    let good: [(u8, Vec<u8>, bool, NextHop); 9] = [
        (1, vec![10, 0, 0, 9], false, NextHop::V4(Ipv4Addr::new(10, 0, 0, 9))),
        (1, vec![10, 0, 0, 9], true, NextHop::V4(Ipv4Addr::new(10, 0, 0, 9))),
        (1, GLOBAL.octets().to_vec(), true, NextHop::V6(GLOBAL)),
        (1, two(GLOBAL), true, both),
        (2, GLOBAL.octets().to_vec(), false, NextHop::V6(GLOBAL)),
        (2, two(GLOBAL), false, both),
        (2, LINK_LOCAL.octets().to_vec(), false, NextHop::V6(LINK_LOCAL)),
        (
            2,
            two(Ipv6Addr::UNSPECIFIED),
            false,
            NextHop::V6LinkLocal { global: Ipv6Addr::UNSPECIFIED, link_local: LINK_LOCAL },
        ),
        (2, mapped.octets().to_vec(), false, NextHop::V6(mapped)),
    ];
    let context =
        |agreed| DecodeContext { extended_next_hop: if agreed { Families::IPV4 } else { Families::NONE }, ..BOTH };
    let value = |afi: u8, next_hop: &[u8]| {
        [&[0, afi, 1, u8::try_from(next_hop.len()).unwrap()][..], next_hop, &[0, 16, 0x20, 1]].concat()
    };
    for (afi, next_hop, agreed, expected) in good {
        let update = decode_reach(&value(afi, &next_hop), context(agreed)).unwrap();
        assert_eq!(update.reach[0].next_hop, expected, "AFI {afi}, {next_hop:?}");
    }
    for (afi, agreed, lengths) in [
        (1, false, &[0, 5, 16, 24, 32, 48][..]),
        (1, true, &[0, 5, 12, 24, 48]),
        (2, false, &[0, 4, 5, 24, 48]),
        (2, true, &[0, 4, 5, 24, 48]),
    ] {
        for length in lengths {
            let bytes = value(afi, &vec![1; *length]);
            assert_eq!(refusal(decode_reach(&bytes, context(agreed))), (3, 9), "AFI {afi}, {length} octets");
        }
    }
    assert_eq!((both.address(), both.link_local()), (GLOBAL.into(), Some(LINK_LOCAL)));
    assert_eq!(NextHop::V6(LINK_LOCAL).link_local(), Some(LINK_LOCAL));
    assert_eq!(NextHop::V6(GLOBAL).link_local(), None);
    assert_eq!(both.to_string(), "2001:db8::1 (fe80::1)");
}

#[test]
fn multiprotocol_attributes() {
    // 41
    let reach = |value: &[u8]| decode(&[mandatory(), attribute(OPTIONAL, 14, value)].concat());
    for cut in [&[][..], &[0, 1], &[0, 1, 1], &[0, 1, 1, 4, 1], &[0, 1, 1, 4, 1, 2, 3, 4]] {
        assert_eq!(refusal(reach(cut)), (3, 9), "{cut:?}");
    }
    assert_eq!(refusal(reach(&[0, 1, 1, 4, 10, 0, 0, 9, 0, 33, 1, 2, 3, 4, 5])), (3, 9));
    let nonzero_reserved = reach(&[0, 1, 1, 4, 10, 0, 0, 9, 7, 24, 10, 5, 5]).unwrap();
    assert_eq!(nonzero_reserved.reach.len(), 2, "the octet that once counted SNPAs is ignored");
    let empty = reach(&[0, 1, 1, 4, 10, 0, 0, 9, 0]).unwrap();
    assert_eq!((empty.reach.len(), empty.faults.len()), (1, 0), "no prefixes in it");
    for family in [[0, 2, 1], [0, 1, 128], [25, 0, 70]] {
        let foreign = reach(&[&family[..], &[16], &[0; 16], &[0, 200, 1, 2]].concat()).unwrap();
        assert_eq!(foreign.reach.len(), 1, "a family that was not negotiated is ignored");
    }
    let unreach = |value: &[u8]| decode(&[mandatory(), attribute(OPTIONAL, 15, value)].concat());
    assert_eq!(unreach(&[0, 1, 1, 24, 10, 5, 5]).unwrap().withdrawn, [nlri("10.5.5.0/24")]);
    assert_eq!(unreach(&[0, 2, 1, 200, 10, 5]).unwrap().withdrawn, [], "42: a family that was not negotiated");
    assert_eq!(refusal(unreach(&[0, 1, 1, 24, 10, 5])), (3, 9));
    assert_eq!(refusal(unreach(&[0, 1])), (3, 9));
    let wrong_flags = decode(&attribute(WELL_KNOWN, 14, &[0, 1, 1, 4, 10, 0, 0, 9, 0, 24, 10, 5, 5])).unwrap();
    assert!(wrong_flags.withdrawn.contains(&nlri("10.5.5.0/24")), "found, and withdrawn");
}

#[test]
fn a_body_without_ipv4_is_ignored() {
    let context = DecodeContext { families: Families::IPV6, ..INTERNAL };
    let update = Update::decode(&body(&[24, 10, 9, 9], &[], &[24, 10, 5, 5]), context).unwrap();
    assert_eq!(update, Update::default());
}

#[test]
fn both_families_in_one_message() {
    let reach = [&[0, 2, 1, 16][..], &GLOBAL.octets(), &[0, 16, 0x20, 1]].concat();
    let unreach = [0, 2, 1, 16, 0x20, 2];
    let attributes = [attribute(OPTIONAL, 14, &reach), mandatory(), attribute(OPTIONAL, 15, &unreach)].concat();
    let update = Update::decode(&body(&[24, 10, 9, 9], &attributes, &[24, 10, 5, 5]), BOTH).unwrap();
    assert_eq!(update.withdrawn, [nlri("10.9.9.0/24"), nlri("2002::/16")]);
    let reach: Vec<_> = update.reach.into_iter().map(|reach| (reach.next_hop.to_string(), reach.routes)).collect();
    let expected =
        [("10.0.0.2".to_owned(), vec![nlri("10.5.5.0/24")]), ("2001:db8::1".to_owned(), vec![nlri("2001::/16")])];
    assert_eq!(reach, expected);
    // A malformed attribute concerns all that is announced.
    let attributes = [attributes, attribute(OPTIONAL, 4, &[1])].concat();
    let update = Update::decode(&body(&[], &attributes, &[24, 10, 5, 5]), BOTH).unwrap();
    assert_eq!(update.withdrawn, [nlri("2002::/16"), nlri("10.5.5.0/24"), nlri("2001::/16")]);
    assert_eq!(update.reach, []);
}

#[test]
fn path_identifiers() {
    // 43
    let context = DecodeContext { add_path: Families::BOTH, ..BOTH };
    let read = |bytes: &[u8], context| Update::decode(&body(&[], &mandatory(), bytes), context);
    let two = [0, 0, 0, 7, 24, 10, 5, 5, 255, 255, 255, 255, 24, 10, 5, 5];
    assert_eq!(read(&two, context).unwrap().reach[0].routes, [path("10.5.5.0/24", 7), path("10.5.5.0/24", u32::MAX)]);
    for (bytes, context, why) in [
        (&[24, 10, 5, 5][..], context, "none where they are agreed on"),
        (&two[..], INTERNAL, "some where they are not"),
        (&two[..3], context, "cut short"),
        (&two[..4], context, "nothing behind it"),
    ] {
        let result = read(bytes, context);
        let other = result.as_ref().is_ok_and(|update| !update.reach[0].routes.contains(&nlri("10.5.5.0/24")));
        assert!(other || refusal(result) == (3, 10), "{why}");
    }
    let withdrawn: Vec<Nlri> = Update::decode(&body(&two, &[], &[]), context).unwrap().withdrawn;
    assert_eq!(withdrawn, [path("10.5.5.0/24", 7), path("10.5.5.0/24", u32::MAX)]);
    // Each family for itself.
    let only_v6 = DecodeContext { add_path: Families::IPV6, ..BOTH };
    let reach = [&[0, 2, 1, 16][..], &GLOBAL.octets(), &[0, 0, 0, 0, 9, 16, 0x20, 1]].concat();
    let update =
        Update::decode(&body(&[], &[attribute(OPTIONAL, 14, &reach), mandatory()].concat(), &[24, 10, 5, 5]), only_v6);
    let routes: Vec<Nlri> = update.unwrap().reach.into_iter().flat_map(|reach| reach.routes).collect();
    assert_eq!(routes, [nlri("10.5.5.0/24"), path("2001::/16", 9)]);
}
