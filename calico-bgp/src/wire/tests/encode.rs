//! Packed messages: how many, how full, and what goes where.

use core::net::{Ipv4Addr, Ipv6Addr};

use calico_core::net::{AsNumber, Cidr, Family};

use super::build::{BOTH, announce, end_of_rib, nlri, path, updates};
use crate::wire::update::{encode_announcements, encode_withdrawals};
use crate::wire::{
    DecodeContext, EncodeContext, EncodeError, ExtraAttributes, Families, NextHop, Nlri, OtherAttribute, PathAttributes,
};

fn many(family: Family) -> Vec<Nlri> {
    let prefix = |n: u32| match family {
        Family::V4 => Cidr::new(Ipv4Addr::from(n << 8).into(), 24).unwrap(),
        Family::V6 => Cidr::new(Ipv6Addr::from(u128::from(n) << 64).into(), 64).unwrap(),
    };
    (0..5000).map(|n| prefix(n).into()).collect()
}

/// Lengths of the messages of a stream.
fn lengths(mut stream: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, high, low, ..] = *stream {
        let length = usize::from(u16::from_be_bytes([high, low]));
        lengths.push(length);
        stream = &stream[length..];
    }
    lengths
}

#[test]
fn many_prefixes_share_messages() {
    let attributes = PathAttributes::default();
    let long = EncodeContext { extended_message: true, ..EncodeContext::default() };
    let ids = EncodeContext { add_path: Families::BOTH, ..EncodeContext::default() };
    // family, context, next hop, messages that announce, messages that withdraw
    let rows = [
        (Family::V4, EncodeContext::default(), NextHop::V4(Ipv4Addr::LOCALHOST), 5, 5),
        (Family::V4, EncodeContext::default(), NextHop::V6(Ipv6Addr::LOCALHOST), 5, 5),
        (Family::V6, EncodeContext::default(), NextHop::V6(Ipv6Addr::LOCALHOST), 12, 12),
        (Family::V4, ids, NextHop::V4(Ipv4Addr::LOCALHOST), 10, 10),
        (Family::V4, long, NextHop::V4(Ipv4Addr::LOCALHOST), 1, 1),
        (Family::V6, long, NextHop::V6(Ipv6Addr::LOCALHOST), 1, 1),
    ];
    for (family, encode, next_hop, announcing, withdrawing) in rows {
        let routes = many(family);
        let decode = DecodeContext {
            add_path: encode.add_path,
            extended_message: encode.extended_message,
            extended_next_hop: Families::IPV4,
            ..BOTH
        };
        let announcements = announce(&attributes, next_hop, &routes, encode);
        let mut withdrawals = Vec::new();
        encode_withdrawals(&routes, encode, &mut withdrawals);
        let counts = (lengths(&announcements).len(), lengths(&withdrawals).len());
        assert_eq!(counts, (announcing, withdrawing), "{family}, {encode:?}, {next_hop}");
        for stream in [&announcements, &withdrawals] {
            let lengths = lengths(stream);
            let limit = encode.max_message_length();
            assert!(lengths.iter().all(|length| *length <= limit), "{lengths:?}");
            let full = lengths.split_last().unwrap().1;
            assert!(full.iter().all(|length| *length > limit - 13), "no room is wasted: {lengths:?}");
        }
        let announced: Vec<Nlri> =
            updates(&announcements, decode).into_iter().flat_map(|u| u.reach[0].routes.clone()).collect();
        let withdrawn: Vec<Nlri> =
            updates(&withdrawals, decode).into_iter().flat_map(|update| update.withdrawn).collect();
        assert!(announced == routes && withdrawn == routes, "{family}, {encode:?}");
    }
}

#[test]
fn families_go_where_they_belong() {
    let mixed = [nlri("2001:db8::/32"), nlri("10.1.0.0/26"), nlri("2001:db9::/32")];
    let stream = announce(&PathAttributes::default(), Ipv6Addr::LOCALHOST, &mixed, EncodeContext::default());
    let context = DecodeContext { extended_next_hop: Families::IPV4, ..BOTH };
    let reach: Vec<_> = updates(&stream, context).into_iter().flat_map(|update| update.reach).collect();
    let routes: Vec<_> = reach.iter().map(|reach| reach.routes.clone()).collect();
    assert_eq!(routes, [vec![mixed[1]], vec![mixed[0], mixed[2]]]);
    assert!(reach.iter().all(|reach| reach.next_hop == NextHop::V6(Ipv6Addr::LOCALHOST)));
    assert_eq!(stream[23..25], [0x90, 14], "MP_REACH_NLRI comes first (RFC 7606 section 5.1)");
    let mut withdrawals = Vec::new();
    encode_withdrawals(&mixed, EncodeContext::default(), &mut withdrawals);
    let withdrawn: Vec<_> = updates(&withdrawals, BOTH).into_iter().map(|update| update.withdrawn).collect();
    assert_eq!(withdrawn, [vec![mixed[1]], vec![mixed[0], mixed[2]]]);
    let ipv4_alone = announce(&PathAttributes::default(), Ipv4Addr::LOCALHOST, &mixed[1..2], EncodeContext::default());
    assert!(ipv4_alone.ends_with(&[26, 10, 1, 0, 0]), "in the body");
    assert_eq!(end_of_rib(Family::V6)[19..], [0, 0, 0, 7, 0x90, 15, 0, 3, 0, 2, 1]);
}

#[test]
fn what_cannot_be_sent_leaves_nothing_behind() {
    let with = |length| {
        let others = vec![OtherAttribute { code: 99, value: vec![0; length].into(), partial: true }];
        PathAttributes {
            extra: ExtraAttributes { others, ..ExtraAttributes::default() }.into(),
            ..PathAttributes::default()
        }
    };
    let mut stream = vec![1, 2, 3];
    let mut send = |attributes: &PathAttributes, next_hop: NextHop, route, context| {
        let result = encode_announcements(attributes, next_hop, &[route], context, &mut stream);
        result.inspect_err(|_| assert_eq!(stream, [1, 2, 3])).inspect(|()| stream.truncate(3))
    };
    let (v4, v6) = (nlri("10.1.0.0/26"), path("2001:db8::/128", 7));
    let short = EncodeContext { add_path: Families::BOTH, ..EncodeContext::default() };
    let long = EncodeContext { extended_message: true, ..short };
    let (own, other) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    assert_eq!(send(&with(4070), own, v4, short), Err(EncodeError::AttributesTooLong));
    assert_eq!(send(&with(4030), other, v6, short), Err(EncodeError::AttributesTooLong));
    assert_eq!(send(&with(4000), other, v6, long), Ok(()));
    assert_eq!(send(&with(65_500), other, v6, long), Err(EncodeError::AttributesTooLong));
    assert_eq!(send(&with(100_000), other, v6, long), Err(EncodeError::AttributesTooLong));
    assert_eq!(send(&with(1), own, v6, long), Err(EncodeError::NextHopFamily));
    // One octet decides.
    let fits = (3900..4070).filter(|length| send(&with(*length), other, v6, short).is_ok()).max().unwrap();
    let sent = announce(&with(fits), other, &[v6], short);
    assert!(sent.len() <= 4096 && sent.len() > 4096 - 32, "{}", sent.len());
}

#[test]
fn attributes_are_in_ascending_order() {
    let others = [3, 11, 99, 200].map(|code| OtherAttribute { code, value: [1].into(), partial: true });
    let mut attributes = PathAttributes {
        med: Some(1),
        local_pref: Some(2),
        communities: vec![3],
        as_path: [AsNumber::new(70_000)].into_iter().collect(),
        ..PathAttributes::default()
    };
    attributes.extra.make_mut().others = others.into();
    attributes.extra.make_mut().only_to_customer = Some(AsNumber::new(1));
    let context = EncodeContext { four_octet_as: false, ..EncodeContext::default() };
    let stream = announce(&attributes, Ipv4Addr::LOCALHOST, &[nlri("10.0.0.0/8")], context);
    let mut list = &stream[23..stream.len() - 2];
    let mut codes = Vec::new();
    while let [_, code, length, rest @ ..] = list {
        codes.push(*code);
        list = &rest[usize::from(*length)..];
    }
    assert!(codes.is_sorted() && codes.contains(&17) && codes.contains(&200), "{codes:?}");
}
