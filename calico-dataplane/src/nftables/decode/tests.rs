use std::collections::{BTreeMap, BTreeSet};

use calico_core::net::{Cidr, Family};
use calico_core::table::{Datum, Delta, Element, ElementDelta, FieldType, SetDecl, SetKind};
use proptest::prelude::*;

use super::*;
use crate::netlink::wire::{find, messages, read_text};
use crate::nftables::encode::{Dialect, encode};
use crate::nftables::uapi::{NEW_CHAIN, NEW_ELEMENT, NEW_RULE, NEW_SET, element};
use crate::testing::sample::{self, set_name};

fn encoded(delta: &Delta) -> Vec<u8> {
    encode(delta, Dialect { destroy: true, recreated: &BTreeSet::new() }, 1, Vec::new()).unwrap().bytes
}

/// What was written is what a listing says: the kernel uses the same messages both ways.
#[test]
fn reads_what_the_encoder_writes() {
    let bytes = encoded(&sample::delta());
    let mut chains = Chains::default();
    let mut sets = Sets::default();
    // Those of the maps of a rule stand before it.
    let mut elements = Elements::default();
    for message in messages(&bytes) {
        match message.kind {
            NEW_CHAIN => chains.add_chain(message.body),
            NEW_RULE => chains.add_rule(message.body),
            NEW_SET => sets.add(message.body),
            NEW_ELEMENT if leads_by_map(message.body) => elements.add(message.body),
            _ => None,
        };
        for map in chains.take_maps() {
            chains.add_map(&map, std::mem::take(&mut elements).target());
        }
    }
    let chains = chains.finish();
    for chain in sample::chains() {
        let found = &chains[&chain.name];
        assert_eq!((found.chain.base, found.chain.fingerprint), (chain.base, Some(chain.fingerprint())));
        assert_eq!(found.hangs, chain.base.is_some());
    }
    let expected: BTreeMap<_, _> =
        sample::sets().into_iter().map(|(decl, _)| (decl.name.clone(), Some(decl))).collect();
    assert_eq!(sets.finish(), expected);
}

fn leads_by_map(body: &[u8]) -> bool {
    let name = attributes_of(body).and_then(|(_, attributes)| find(attributes, element::LIST_SET)).and_then(read_text);
    name.is_some_and(|name| name.starts_with("__map"))
}

fn written(decl: &SetDecl, elements: &BTreeSet<Element>) -> Option<BTreeSet<Element>> {
    let change = ElementDelta { set: decl.name.clone(), removed: vec![], added: elements.iter().cloned().collect() };
    let bytes = encoded(&Delta { elements: vec![change], ..Delta::default() });
    let mut found = Elements::default();
    for message in messages(&bytes).filter(|message| message.kind == NEW_ELEMENT) {
        found.add(message.body);
    }
    found.observe(decl)
}

fn decl(key: &[FieldType], kind: SetKind) -> SetDecl {
    SetDecl { name: set_name("s"), key: key.to_vec(), kind }
}

/// Prefixes of which none overlaps another: what is covered is left out.
fn disjoint(all: impl IntoIterator<Item = Cidr>) -> BTreeSet<Element> {
    let mut kept: Vec<Cidr> = Vec::new();
    for cidr in all {
        if !kept.iter().any(|other| other.overlaps(&cidr)) {
            kept.push(cidr);
        }
    }
    kept.into_iter().map(|cidr| Element { key: [Datum::Net(cidr)].into(), data: None }).collect()
}

proptest! {
    #[test]
    fn any_prefixes_survive(list in proptest::collection::vec((0u8..4, any::<[u8; 3]>(), 0u8..=32), 0..40)) {
        // Few first octets, so that neighbours and both ends of the address space are frequent.
        let cidrs = list.into_iter().filter_map(|(first, [b, c, d], length)| {
            Cidr::new([first.wrapping_sub(2), b, c, d].into(), length)
        });
        let elements = disjoint(cidrs);
        let decl = decl(&[FieldType::Addr(Family::V4)], SetKind::Interval);
        prop_assert_eq!(written(&decl, &elements), Some(elements));
    }

    #[test]
    fn any_keys_survive(list in proptest::collection::btree_set((any::<u32>(), any::<u128>(), any::<u8>(), any::<u16>()), 0..40)) {
        let key = [FieldType::Addr(Family::V4), FieldType::Addr(Family::V6), FieldType::Proto, FieldType::Port, FieldType::Interface];
        let element = |(four, six, proto, port): (u32, u128, u8, u16)| Element {
            key: [
                Datum::Addr(four.to_be_bytes().into()),
                Datum::Addr(six.to_be_bytes().into()),
                Datum::Proto(proto),
                Datum::Port(port),
                Datum::Interface(format!("cali{port}").parse().unwrap()),
            ].into(),
            data: None,
        };
        let elements: BTreeSet<_> = list.into_iter().map(element).collect();
        let decl = decl(&key, SetKind::Hash);
        prop_assert_eq!(written(&decl, &elements), Some(elements));
    }

    #[test]
    fn mutated_listings_are_read_without_panic(changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..30), cut: proptest::sample::Index) {
        let mut bytes = encoded(&sample::delta());
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        decode_any(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        decode_any(&bytes);
    }
}

/// One set of more elements than a message holds.
#[test]
fn elements_spread_over_messages() {
    let elements: BTreeSet<_> = (0..50_000u32)
        .map(|number| Element { key: [Datum::Addr(number.to_be_bytes().into())].into(), data: None })
        .collect();
    assert_eq!(written(&decl(&[FieldType::Addr(Family::V4)], SetKind::Hash), &elements), Some(elements));
}
