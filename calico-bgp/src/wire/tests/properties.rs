//! Random values and random damage.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_core::net::{AsNumber, Cidr};
use proptest::prelude::*;

use super::build::updates;
use crate::testing::{codec_variants, fuzz_framer, fuzz_message, fuzz_open, fuzz_speaker, fuzz_update};
use crate::wire::update::{encode_announcements, encode_withdrawals};
use crate::wire::{
    Aggregator, Aigp, AsPath, ExtraAttributes, NextHop, Nlri, Origin, OtherAttribute, PathAttributes, PathId, PeerType,
    Update,
};

pub(super) fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

/// Small ones and large ones alike.
fn system() -> impl Strategy<Value = AsNumber> {
    prop_oneof![1..=70_000_u32, 1..=u32::MAX].prop_map(AsNumber::new)
}

fn extra() -> impl Strategy<Value = ExtraAttributes> {
    let lists = (
        prop::collection::vec(any::<[u8; 8]>(), 0..50),
        prop::collection::vec(any::<[u8; 20]>(), 0..20),
        prop::collection::btree_set(any::<[u8; 12]>(), 0..50),
        prop::collection::btree_map(100..=255_u8, prop::collection::vec(any::<u8>(), 0..200), 0..2),
    );
    let scalars = (prop::option::of((system(), address())), any::<Option<u64>>(), prop::option::of(system()));
    (lists, scalars).prop_map(|(lists, (aggregator, aigp, only_to_customer))| {
        let (extended_communities, ipv6_extended_communities, large, others) = lists;
        let other = |(code, value): (u8, Vec<u8>)| OtherAttribute { code, value: value.into(), partial: true };
        ExtraAttributes {
            aggregator: aggregator.map(|(as_number, address)| Aggregator { as_number, address }),
            extended_communities,
            ipv6_extended_communities,
            aigp: aigp.map(Aigp::new),
            large_communities: large.into_iter().collect(),
            only_to_customer,
            others: others.into_iter().map(other).collect(),
        }
    })
}

pub(super) fn attributes() -> impl Strategy<Value = PathAttributes> {
    let scalars = (
        prop_oneof![Just(Origin::Igp), Just(Origin::Egp), Just(Origin::Incomplete)],
        prop::collection::vec(system(), 0..200),
        any::<Option<u32>>(),
        any::<Option<u32>>(),
        any::<bool>(),
    );
    let lists = (
        prop::collection::vec(any::<u32>(), 0..90),
        prop::option::of(address()),
        prop::collection::vec(address(), 0..90),
        prop_oneof![Just(ExtraAttributes::default()), extra()],
    );
    (scalars, lists).prop_map(|((origin, as_path, med, local_pref, atomic_aggregate), lists)| {
        let (communities, originator_id, cluster_list, extra) = lists;
        PathAttributes {
            origin,
            as_path: as_path.into_iter().collect::<AsPath>(),
            med,
            local_pref,
            atomic_aggregate,
            communities,
            originator_id,
            cluster_list,
            extra: extra.into(),
            ..PathAttributes::default()
        }
    })
}

pub(super) fn next_hop() -> impl Strategy<Value = NextHop> {
    let v6 = || any::<u128>().prop_map(Ipv6Addr::from);
    prop_oneof![
        address().prop_map(NextHop::V4),
        v6().prop_map(NextHop::V6),
        (v6(), v6()).prop_map(|(global, link_local)| NextHop::V6LinkLocal { global, link_local }),
    ]
}

/// Of both families, with path identifiers.
pub(super) fn routes() -> impl Strategy<Value = Vec<Nlri>> {
    let v4 = (address(), 0..=32_u8).prop_map(|(address, length)| (IpAddr::V4(address), length));
    let v6 = (any::<u128>(), 0..=128_u8).prop_map(|(address, length)| (Ipv6Addr::from(address).into(), length));
    let route = (prop_oneof![v4, v6], any::<u32>()).prop_map(|((address, length), path_id)| Nlri {
        prefix: Cidr::new(address, length).unwrap(),
        path_id: PathId::new(path_id),
    });
    prop::collection::vec(route, 1..200)
}

/// What can be said of `routes` in a session: some next hops do not go with some families.
pub(super) fn sayable(mut routes: Vec<Nlri>, next_hop: NextHop, add_path: bool, crosses: bool) -> Vec<Nlri> {
    routes.retain(|route| match (route.prefix.address(), next_hop) {
        (IpAddr::V4(_), NextHop::V4(_)) => true,
        (IpAddr::V4(_), _) => crosses,
        (IpAddr::V6(_), next_hop) => !matches!(next_hop, NextHop::V4(_)),
    });
    if !add_path {
        routes.iter_mut().for_each(|route| route.path_id = PathId::NONE);
    }
    // Each family in its order, IPv4 first.
    routes.sort_by_key(|route| route.prefix.family());
    routes
}

proptest! {
    /// AS numbers of two and of four octets, path identifiers, IPv6 next hops of IPv4 prefixes: each with and without.
    #[test]
    fn what_is_encoded_decodes_to_the_same(attributes in attributes(), next_hop in next_hop(), routes in routes()) {
        for (decode, encode) in codec_variants().filter(|(decode, _)| decode.peer == PeerType::Internal) {
            let (ids, crosses) = (!encode.add_path.is_empty(), !decode.extended_next_hop.is_empty());
            let routes = sayable(routes.clone(), next_hop, ids, crosses);
            let mut stream = Vec::new();
            encode_announcements(&attributes, next_hop, &routes, encode, &mut stream).unwrap();
            let mut announced = Vec::new();
            for update in updates(&stream, decode) {
                prop_assert_eq!(&update.faults, &[]);
                prop_assert_eq!(&update.attributes, &attributes);
                for reach in update.reach {
                    prop_assert_eq!(reach.next_hop, next_hop);
                    announced.extend(reach.routes);
                }
            }
            prop_assert_eq!(&announced, &routes);
            stream.clear();
            encode_withdrawals(&routes, encode, &mut stream);
            let withdrawn: Vec<Nlri> = updates(&stream, decode).into_iter().flat_map(|update| update.withdrawn).collect();
            prop_assert_eq!(withdrawn, routes);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_framer(&bytes);
        fuzz_open(&bytes);
        fuzz_update(&bytes);
        fuzz_speaker(&bytes);
    }

    /// What is kept of a message is bounded by its size: the most for the least are prefixes of no octets, and paths of old
    /// speakers.
    #[test]
    fn allocation_is_bounded(bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..2000)) {
        for (decode, _) in codec_variants() {
            let Ok(update) = Update::decode(&bytes, decode) else { continue };
            let extra = &update.attributes.extra;
            let routes = update.withdrawn.len() + update.reach.iter().map(|reach| reach.routes.len()).sum::<usize>();
            let pieces = update.attributes.as_path.len() + update.attributes.communities.len() + extra.others.len();
            prop_assert!(routes + pieces <= bytes.len());
        }
    }

    /// A valid UPDATE with a few bytes changed reaches deeper than noise.
    #[test]
    fn damaged_updates_are_survived(
        attributes in attributes(),
        next_hop in next_hop(),
        routes in routes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for (_, encode) in codec_variants().step_by(3) {
            let mut stream = Vec::new();
            let routes = sayable(routes.clone(), next_hop, true, true);
            encode_announcements(&attributes, next_hop, &routes, encode, &mut stream).unwrap();
            let Some(body) = stream.get_mut(19..) else { continue };
            let end = body.len().min(4077);
            for (position, value) in &damage {
                let position = position.index(end);
                body[position] = *value;
            }
            fuzz_update(&body[..end]);
        }
    }
}

/// Everything that fuzzing or an incident has ever found, and a seed per kind of message.
#[test]
fn the_corpus_is_survived() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/bgp");
    let mut bodies = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
        let input = std::fs::read(entry.unwrap().path()).unwrap();
        bodies.extend(input.first());
        fuzz_message(&input);
    }
    assert!(bodies.is_superset(&(0..4).collect()), "a seed for every body: {bodies:?}");
}
