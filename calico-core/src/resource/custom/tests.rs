//! Custom resources: upstream's examples, and every field of every shape by chance.

use alloc::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::resource::AffinityState;
use crate::resource::tests::{Dice, known_fields, present_fields, samples};

fn faults(kind: Kind, document: &Value) -> Vec<String> {
    from_custom_strict(kind, document).unwrap_err().into_iter().map(|fault| fault.path).collect()
}

fn block() -> Value {
    json!({
        "kind": "IPAMBlock", "apiVersion": "crd.projectcalico.org/v1",
        "metadata": {"name": "10-65-0-0-31", "resourceVersion": "7", "uid": "u", "finalizers": ["f"]},
        "spec": {
            "cidr": "10.65.0.0/31", "affinity": "host:a", "affinityClaimTime": "2026-08-22T06:33:20Z",
            "allocations": [0, null], "unallocated": [1],
            "attributes": [{"handle_id": "h", "secondary": {"pod": "p"}, "releasedAt": "2026-08-22T06:33:20Z"}],
            "sequenceNumber": 5, "sequenceNumberForAllocation": {"0": 4}, "deleted": false, "strictAffinity": false,
        },
    })
}

#[test]
fn a_block_is_ipams_and_comes_back() {
    let (key, resource) = from_custom_strict(Kind::IpamBlock, &block()).unwrap();
    assert_eq!(key, ResourceKey::Block("10.65.0.0/31".parse().unwrap()));
    // Field by field the same as with etcd, but for one name.
    let mut stored = block()["spec"].clone();
    let time = stored.as_object_mut().unwrap().shift_remove("affinityClaimTime").unwrap();
    stored["affinity_claim_time"] = time;
    assert_eq!(Resource::decode(Kind::IpamBlock, &stored).as_ref(), Ok(&resource));
    let mut newer = block();
    newer["spec"]["later"] = json!({"a": 1});
    newer["spec"]["attributes"][0]["later"] = json!(1);
    assert_eq!(to_custom(&key, &resource, CustomGroup::Crd, Some(&newer)), Some(newer));
    let fresh = to_custom(&key, &resource, CustomGroup::Api, None).unwrap();
    assert_eq!(fresh["apiVersion"], "projectcalico.org/v3");
    assert_eq!(fresh["metadata"], json!({"name": "10-65-0-0-31"}));
    assert_eq!(fresh["spec"], block()["spec"]);
}

#[test]
fn a_block_without_an_owner_has_neither_owner_nor_time() {
    let (key, Resource::IpamBlock(mut free)) = from_custom(Kind::IpamBlock, &block()).unwrap() else { unreachable!() };
    (free.affinity, free.affinity_claim_time) = (None, None);
    let document = to_custom(&key, &Resource::IpamBlock(free.clone()), CustomGroup::Crd, Some(&block())).unwrap();
    let spec = document["spec"].as_object().unwrap();
    assert!(!spec.contains_key("affinity") && !spec.contains_key("affinityClaimTime"), "{document}");
    assert_eq!(from_custom_strict(Kind::IpamBlock, &document), Ok((key, Resource::IpamBlock(free))));
}

#[test]
fn what_the_schema_refuses_is_refused_where_it_stands() {
    for (field, value, stored_too) in [
        ("affinity", json!("pod:a"), false),
        ("affinity", json!("host:"), false),
        ("affinity", json!("host:a b"), false),
        ("affinityClaimTime", json!("yesterday"), false),
        ("cidr", json!("10.65.0.0"), true),
        ("cidr", json!("x"), true),
        ("allocations", json!([0]), true),
        ("allocations", json!([1, null]), true),
        ("allocations", json!(null), true),
        ("unallocated", json!([2]), true),
        ("unallocated", json!([-1]), true),
        ("attributes", json!(null), true),
        ("sequenceNumber", json!(-1), true),
        ("sequenceNumberForAllocation", json!({"0": "x"}), true),
        ("deleted", json!("no"), true),
        ("later", json!(1), false),
    ] {
        let mut document = block();
        document["spec"][field] = value;
        assert_eq!(faults(Kind::IpamBlock, &document), [format!("spec.{field}")], "{document}");
        let stored = from_custom(Kind::IpamBlock, &document);
        let is_refused = stored.is_err();
        assert_eq!(is_refused, stored_too, "{document}: {stored:?}");
    }
    let handle = |spec: Value| json!({"metadata": {"name": "h"}, "spec": spec});
    assert_eq!(faults(Kind::IpamHandle, &handle(json!({}))), ["spec.handleID", "spec.block"]);
    assert_eq!(faults(Kind::IpamHandle, &handle(json!({"handleID": "h", "block": {"x": 1}}))), ["spec.block"]);
    assert_eq!(faults(Kind::IpamHandle, &json!({})), ["spec"]);
    let claim = |spec: Value| json!({"metadata": {"name": "c"}, "spec": spec});
    let cidr = "10.65.0.0/26";
    assert_eq!(faults(Kind::BlockAffinity, &claim(json!({"node": "n"}))), ["spec.cidr"]);
    assert_eq!(faults(Kind::BlockAffinity, &claim(json!({"cidr": cidr}))), ["spec.node"]);
    assert_eq!(faults(Kind::BlockAffinity, &claim(json!({"cidr": cidr, "node": "n", "type": "pod"}))), ["spec.type"]);
    assert_eq!(faults(Kind::BlockAffinity, &claim(json!({"cidr": cidr, "node": "n", "state": "x"}))), ["spec.state"]);
    assert!(from_custom(Kind::IpamConfig, &json!({})).is_err());
}

#[test]
fn what_is_absent_is_filled_in() {
    let mut document = block();
    document["spec"].as_object_mut().unwrap().retain(|name, _| !name.starts_with("sequence") && name != "deleted");
    let (_, Resource::IpamBlock(block)) = from_custom(Kind::IpamBlock, &document).unwrap() else { unreachable!() };
    assert_eq!((block.sequence_number, block.deleted), (0, false));
    let claim = json!({"spec": {"cidr": "10.65.0.0/26", "node": "n", "state": "confirmed"}});
    let (key, claim) = from_custom(Kind::BlockAffinity, &claim).unwrap();
    let owner = AffinityOwner::Host("n".into());
    assert_eq!(key, ResourceKey::Affinity { owner, block: "10.65.0.0/26".parse().unwrap() });
    assert_eq!(claim, Resource::BlockAffinity(BlockAffinity { state: AffinityState::Confirmed, deleted: false }));
}

#[test]
fn names_are_upstreams() {
    let affinity = |host: &str, block: &str| {
        let owner = AffinityOwner::Host(host.into());
        custom_name(&ResourceKey::Affinity { owner, block: block.parse().unwrap() }).unwrap()
    };
    let block = |text: &str| custom_name(&ResourceKey::Block(text.parse().unwrap())).unwrap();
    assert_eq!(block("10.65.0.0/26"), "10-65-0-0-26");
    assert_eq!(block("fd00::/122"), "fd00---122");
    assert_eq!(custom_name(&ResourceKey::Handle("Net.AbC".into())).as_deref(), Some("net.abc"));
    assert_eq!(affinity("node-1", "10.65.0.0/26"), "node-1-10-65-0-0-26");
    assert_eq!(affinity(&"a".repeat(239), "10.65.0.0/26"), format!("{}-10-65-0-0-26", "a".repeat(239)));
    // By `printf %s $host+10-65-0-0-26 | sha256sum`.
    let long = affinity(&"a".repeat(240), "10.65.0.0/26");
    assert_eq!(long, format!("{}-10-65-0-0-26-{LONG}", "a".repeat(227)));
    assert_eq!(custom_name(&ResourceKey::IpamConfig), None);
}

#[test]
fn a_claim_of_one_group_is_written_in_the_form_of_the_other() {
    let claim = json!({"spec": {"cidr": "10.65.0.0/26", "node": "n", "state": "confirmed"}});
    let (key, claim) = from_custom(Kind::BlockAffinity, &claim).unwrap();
    let of = |group, base: Option<&Value>| to_custom(&key, &claim, group, base).unwrap();
    for (from, to) in [(CustomGroup::Crd, CustomGroup::Api), (CustomGroup::Api, CustomGroup::Crd)] {
        let mut base = of(from, None);
        base["spec"]["later"] = json!(1);
        let moved = of(to, Some(&base));
        assert_eq!((&moved["spec"]["deleted"], &moved["spec"]["later"]), (&of(to, None)["spec"]["deleted"], &json!(1)));
    }
    assert_ne!(of(CustomGroup::Crd, None)["spec"]["deleted"], of(CustomGroup::Api, None)["spec"]["deleted"]);
}

const LONG: &str = "dfc5e19067d";

fn text(dice: &mut Dice) -> String {
    (*dice.pick(&["a", "Node-1", "x.y_z", "k8s-pod-network.0aB"])).to_owned()
}

fn time(dice: &mut Dice) -> Option<String> {
    dice.pick(&[None, Some("2026-08-22T06:33:20Z")]).map(str::to_owned)
}

fn map(dice: &mut Dice) -> BTreeMap<String, String> {
    (0..dice.roll(3)).map(|_| (text(dice), text(dice))).collect()
}

fn cidr(dice: &mut Dice) -> Cidr {
    dice.pick(&["10.65.0.0/29", "10.65.0.8/29", "fd00::/125", "fd00::8/125"]).parse().unwrap()
}

/// Any object of IPAM with its key.
fn object(kind: Kind, dice: &mut Dice) -> (ResourceKey, Resource) {
    let deleted = dice.roll(2) == 0;
    match kind {
        Kind::IpamBlock => {
            let attributes: Vec<_> = (0..dice.roll(4))
                .map(|_| AllocationAttribute {
                    handle_id: Some(text(dice)).filter(|_| dice.roll(3) > 0),
                    secondary: map(dice),
                    alternate_owner: map(dice),
                    released_at: time(dice),
                })
                .collect();
            let allocations: Vec<_> = (0..8).map(|_| Some(dice.roll(5)).filter(|at| *at < attributes.len())).collect();
            let free = (0_u32..8).zip(&allocations).filter(|(_, taken)| taken.is_none());
            let block = IpamBlock {
                cidr: cidr(dice),
                affinity: Some(format!("{}:{}", dice.pick(&["host", "virtual"]), text(dice))).filter(|_| deleted),
                affinity_claim_time: time(dice),
                unallocated: free.map(|(ordinal, _)| ordinal).collect(),
                sequence_number: u64::MAX - dice.0,
                sequence_number_for_allocation: (0..dice.roll(3)).map(|at| (at.to_string(), dice.0)).collect(),
                allocations,
                attributes,
                deleted,
                host_affinity: None,
            };
            (ResourceKey::Block(block.cidr), Resource::IpamBlock(block))
        }
        Kind::IpamHandle => {
            let block = (0..dice.roll(3)).map(|_| (cidr(dice), 7)).collect();
            (ResourceKey::Handle(text(dice).as_str().into()), Resource::IpamHandle(IpamHandle { block, deleted }))
        }
        _ => {
            let name = text(dice).as_str().into();
            let owner = if dice.roll(2) == 0 { AffinityOwner::Host(name) } else { AffinityOwner::Virtual(name) };
            let states = [AffinityState::Unset, AffinityState::Confirmed, AffinityState::Pending];
            let state = *dice.pick(&states);
            let key = ResourceKey::Affinity { owner, block: cidr(dice) };
            (key, Resource::BlockAffinity(BlockAffinity { state, deleted }))
        }
    }
}

/// The first object that came back as something else, or a field that none of them had.
pub(in crate::resource) fn round_trips(kind: Kind) -> Option<String> {
    let (mut known, mut seen) = (BTreeSet::new(), BTreeSet::new());
    known_fields(shape(kind).unwrap().member("spec").unwrap(), "spec", &mut known);
    for seed in 0..200 {
        let (key, resource) = object(kind, &mut Dice(seed));
        for group in [CustomGroup::Crd, CustomGroup::Api] {
            let document = to_custom(&key, &resource, group, None).unwrap();
            present_fields(&document["spec"], "spec", &mut seen);
            if from_custom_strict(kind, &document) != Ok((key.clone(), resource.clone())) {
                return Some(format!("seed {seed}: {document}"));
            }
        }
    }
    known.difference(&seen).next().map(|path| format!("no object had {path}"))
}

proptest! {
    /// Whatever stands there has an answer, and what can be read can be written.
    #[test]
    fn no_document_panics(index in 0..3_usize, seed: u64, spoils in 0..6_usize) {
        let kind = CUSTOM_KINDS[index];
        let mut dice = Dice(seed);
        let (key, resource) = object(kind, &mut dice);
        let mut document = to_custom(&key, &resource, CustomGroup::Crd, None).unwrap();
        let samples = samples();
        for _ in 0..spoils {
            let spec = document["spec"].as_object_mut().unwrap();
            let at = dice.roll(spec.len());
            if let Some(member) = spec.values_mut().nth(at) {
                *member = dice.pick(&samples).clone();
            }
        }
        if let Ok((key, resource)) = from_custom(kind, &document) {
            let written = to_custom(&key, &resource, CustomGroup::Crd, Some(&document)).unwrap();
            prop_assert_eq!(from_custom(kind, &written), Ok((key, resource)), "{}", written);
        }
    }

    /// What a newer version wrote is there afterwards.
    #[test]
    fn unknown_fields_survive(index in 0..3_usize, seed: u64) {
        let kind = CUSTOM_KINDS[index];
        let (key, resource) = object(kind, &mut Dice(seed));
        let mut document = to_custom(&key, &resource, CustomGroup::Api, None).unwrap();
        document["later"] = json!(1);
        document["metadata"]["later"] = json!([2]);
        document["spec"]["later"] = json!({"x": 3});
        if let Some(attribute) = document["spec"]["attributes"].get_mut(0) {
            attribute["later"] = json!(4);
        }
        prop_assert_eq!(to_custom(&key, &resource, CustomGroup::Api, Some(&document)), Some(document));
    }
}
