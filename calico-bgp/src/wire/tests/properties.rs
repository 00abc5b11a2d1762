use core::net::Ipv4Addr;

use calico_core::net::{AsNumber, Cidr};
use proptest::prelude::*;

use crate::testing::{fuzz_framer, fuzz_message, fuzz_open, fuzz_speaker, fuzz_update};
use crate::wire::update::encode_announcements;
use crate::wire::{Aggregator, Origin, OtherAttribute, PathAttributes, PeerType, Update};

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn system() -> impl Strategy<Value = AsNumber> {
    (1..=u32::MAX).prop_map(AsNumber::new)
}

fn attributes() -> impl Strategy<Value = PathAttributes> {
    let scalars = (
        prop_oneof![Just(Origin::Igp), Just(Origin::Egp), Just(Origin::Incomplete)],
        prop::collection::vec(system(), 0..300),
        any::<Option<u32>>(),
        any::<Option<u32>>(),
        any::<bool>(),
        prop::option::of((system(), address())),
    );
    let lists = (
        prop::collection::vec(any::<u32>(), 0..90),
        prop::option::of(address()),
        prop::collection::vec(address(), 0..90),
        prop::collection::vec(any::<[u8; 8]>(), 0..50),
        prop::collection::btree_set(any::<[u8; 12]>(), 0..50),
        prop::collection::btree_map(100..=255_u8, (prop::collection::vec(any::<u8>(), 0..300), any::<bool>()), 0..2),
    );
    (scalars, lists).prop_map(|(scalars, lists)| {
        let (origin, as_path, med, local_pref, atomic_aggregate, aggregator) = scalars;
        let (communities, originator_id, cluster_list, extended_communities, large, others) = lists;
        let other = |(code, (value, _)): (u8, (Vec<u8>, bool))| OtherAttribute { code, value, partial: true };
        PathAttributes {
            origin,
            as_path: as_path.into_iter().collect(),
            med,
            local_pref,
            atomic_aggregate,
            aggregator: aggregator.map(|(as_number, address)| Aggregator { as_number, address }),
            communities,
            originator_id,
            cluster_list,
            extended_communities,
            large_communities: large.into_iter().collect(),
            others: others.into_iter().map(other).collect(),
            partial: Vec::new(),
        }
    })
}

fn prefixes() -> impl Strategy<Value = Vec<Cidr>> {
    let prefix = (address(), 0..=32_u8).prop_map(|(address, length)| Cidr::new(address.into(), length).unwrap());
    prop::collection::vec(prefix, 1..200)
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(attributes in attributes(), next_hop in address(), prefixes in prefixes()) {
        let mut announced = Vec::new();
        for message in encode_announcements(&attributes, next_hop, &prefixes) {
            let update = Update::decode(&message[19..], PeerType::Internal).unwrap();
            prop_assert_eq!(&update.faults, &[]);
            prop_assert_eq!(&update.attributes, &attributes);
            for reach in update.reach {
                prop_assert_eq!(reach.next_hop, next_hop);
                announced.extend(reach.prefixes);
            }
        }
        prop_assert_eq!(announced, prefixes);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_framer(&bytes);
        fuzz_open(&bytes);
        fuzz_update(&bytes);
        fuzz_speaker(&bytes);
    }

    /// A valid UPDATE with a few bytes changed reaches deeper than noise.
    #[test]
    fn damaged_updates_are_survived(
        attributes in attributes(),
        prefixes in prefixes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for message in encode_announcements(&attributes, Ipv4Addr::LOCALHOST, &prefixes) {
            let mut body = message[19..].to_vec();
            for (position, value) in &damage {
                let position = position.index(body.len());
                body[position] = *value;
            }
            fuzz_update(&body);
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
