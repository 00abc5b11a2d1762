//! The rules of selection: pools, limits, borrowing, certain addresses, release by address.

use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::model::{Model, NOW, addresses, assign};
use crate::ipam::{Assign, FamilyWant, HeldBy, IpamError, PoolRef, Release, ReleaseAddresses, Want};
use crate::net::Cidr;
use crate::resource::{
    AllowedUse, AssignmentMode, Condition, IpPool, IpPoolSpec, IpamConfig, Kind, Resource, ResourceKey,
};

fn pool(cidr: &str) -> IpPoolSpec {
    IpPoolSpec { cidr: cidr.parse().unwrap(), block_size: Some(30), ..Default::default() }
}

fn from_pools(pools: &[&str], request: Assign) -> Assign {
    let v4 = FamilyWant { count: 1, pools: pools.iter().map(|name| PoolRef::parse(name)).collect() };
    Assign { want: Want::Any { v4, v6: FamilyWant::default() }, ..request }
}

fn certain(address: &str, node: &str, handle: &str) -> Assign {
    Assign { want: Want::Address(address.parse().unwrap()), ..assign(node, handle, 0, 0) }
}

#[test]
fn pools_are_selected_by_state_labels_mode_and_use() {
    let mut model = Model::default();
    let wanted = assign("node-a", "a", 1, 0);
    assert!(matches!(model.run(wanted.clone()), Err(IpamError::NoPool { .. })));
    model.put_pool("a-disabled", IpPoolSpec { disabled: true, ..pool("10.0.1.0/28") });
    assert!(matches!(model.run(wanted.clone()), Err(IpamError::NoPool { .. })));
    model.put_pool("b-manual", IpPoolSpec { assignment_mode: AssignmentMode::Manual, ..pool("10.0.2.0/28") });
    assert!(matches!(model.run(wanted.clone()), Err(IpamError::NoPoolForNode { .. })));
    model.put_pool("c-rack", IpPoolSpec { node_selector: Some("rack == '7'".into()), ..pool("10.0.3.0/28") });
    assert!(matches!(model.run(wanted.clone()), Err(IpamError::Unusable { .. })), "the node is not known");
    model.put_node("node-a", &[("rack", "8")]);
    assert!(matches!(model.run(wanted.clone()), Err(IpamError::NoPoolForNode { .. })));
    model.put_pool("d-bad", IpPoolSpec { node_selector: Some("rack ==".into()), ..pool("10.0.4.0/28") });
    assert!(matches!(model.run(wanted.clone()), Err(IpamError::NoPoolForNode { .. })), "bad selectors select nothing");
    model.put_pool("e-namespace", IpPoolSpec { namespace_selector: Some("has(x)".into()), ..pool("10.0.5.0/28") });
    let error = model.run(wanted.clone()).unwrap_err();
    assert!(matches!(error, IpamError::NoPoolForNamespace { known: false, .. }) && error.is_configuration(), "{error}");
    model.put_pool("f-tunnel", IpPoolSpec { allowed_uses: vec![AllowedUse::Tunnel], ..pool("10.0.6.0/28") });
    assert!(matches!(model.run(wanted.clone()), Err(IpamError::NoPoolForUse { .. })));
    model.put_node("node-a", &[("rack", "7")]);
    let got = model.run(wanted).unwrap();
    assert_eq!(got.first().unwrap().block.to_string().rsplit_once('.').unwrap().0, "10.0.3");
}

/// A pool may be disabled, about to go, or found to be in the way of another one.
#[test]
fn a_pool_that_is_not_allocatable_gives_nothing_and_keeps_what_it_gave() {
    let disabled = |pool: &mut IpPool| pool.spec.disabled = true;
    let dying = |pool: &mut IpPool| pool.metadata.deletion_timestamp = Some("2026-01-02T03:04:05Z".into());
    let overlapping = |pool: &mut IpPool| pool.status.conditions = vec![condition("Allocatable", "False")];
    for unwant in [disabled, dying, overlapping] {
        let mut model = Model::default();
        model.put_pool("a", pool("10.0.1.0/28"));
        let held = model.run(assign("node-a", "old", 1, 0)).unwrap();
        let mut given = IpPool::named("a", pool("10.0.1.0/28"));
        unwant(&mut given);
        model.put(ResourceKey::cluster(Kind::IpPool, "a"), Resource::IpPool(given));

        assert!(matches!(model.run(assign("node-a", "new", 1, 0)), Err(IpamError::NoPool { .. })));
        let named = from_pools(&["a"], assign("node-a", "new", 0, 0));
        assert!(matches!(model.run(named), Err(IpamError::UnknownPool { .. })));
        assert!(matches!(model.run(certain("10.0.1.9", "node-a", "new")), Err(IpamError::NotInPool { .. })));
        model.put_pool("b", pool("10.0.2.0/28"));
        let elsewhere = model.run(assign("node-a", "new", 1, 0)).unwrap();
        assert!(elsewhere[0].address.to_string().starts_with("10.0.2."));

        assert_eq!(model.run(assign("node-a", "old", 1, 0)), Ok(held.clone()), "asked for again");
        assert_eq!(model.run(HeldBy { handle: "old".into() }), Ok(held.clone()));
        let release = Release { address: held[0].address, handle: Some("old".into()), sequence: None };
        let released = model.run(ReleaseAddresses { releases: vec![release], now: NOW }).unwrap();
        assert_eq!(released.released, [held[0].address]);
    }
}

#[test]
fn only_a_condition_that_denies_it_keeps_a_pool_from_being_used() {
    for (condition_type, status) in [("Allocatable", "True"), ("Allocatable", "Unknown"), ("Ready", "False")] {
        let mut model = Model::default();
        let mut given = IpPool::named("a", pool("10.0.1.0/28"));
        given.status.conditions = vec![condition(condition_type, status)];
        model.put(ResourceKey::cluster(Kind::IpPool, "a"), Resource::IpPool(given));
        assert!(model.run(assign("node-a", "a", 1, 0)).is_ok(), "{condition_type} {status}");
    }
}

fn condition(condition_type: &str, status: &str) -> Condition {
    Condition { condition_type: condition_type.into(), status: status.into(), ..Condition::default() }
}

/// A condition on a namespace that nobody knows holds for no one, least of all one on what it has not.
#[test]
fn pools_that_select_namespaces_serve_known_ones_only() {
    let labelled = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Assign { namespace_labels: Some(labels), ..assign("node-a", "a", 1, 0) }
    };
    let unknown = || assign("node-a", "a", 1, 0);
    for (selector, without, with, nobody) in [
        ("!has(x)", true, false, false),
        ("has(x)", false, true, false),
        ("x != 'b'", true, true, false),
        ("x ==", false, false, false),
        ("all()", true, true, true),
        ("", true, true, true),
    ] {
        let mut model = Model::default();
        model.put_pool("p", IpPoolSpec { namespace_selector: Some(selector.into()), ..pool("10.0.1.0/28") });
        for (request, served) in [(labelled(&[]), without), (labelled(&[("x", "a")]), with), (unknown(), nobody)] {
            let known = request.namespace_labels.is_some();
            match model.clone().run(request) {
                Ok(_) => assert!(served, "{selector}"),
                Err(IpamError::NoPoolForNamespace { known: told, pools, .. }) => {
                    assert!(!served && told == known && pools == ["p"], "{selector}");
                }
                Err(other) => panic!("{selector}: {other}"),
            }
        }
        assert!(model.run(from_pools(&["p"], unknown())).is_ok(), "{selector}: asked for by name");
    }
    let mut model = Model::default();
    model.put_pool("p", IpPoolSpec { namespace_selector: Some("!has(x)".into()), ..pool("10.0.1.0/28") });
    let text = model.run(unknown()).unwrap_err().to_string();
    assert!(
        text.contains("(p) has a namespaceSelector, and the labels of the workload's namespace are not known"),
        "{text}"
    );
}

#[test]
fn named_pools_need_not_select_the_node_but_must_be_enabled() {
    let mut model = Model::default();
    model.put_pool("off", IpPoolSpec { disabled: true, ..pool("10.0.1.0/28") });
    model.put_pool("manual", IpPoolSpec { assignment_mode: AssignmentMode::Manual, ..pool("10.0.2.0/28") });
    model.put_pool("rack", IpPoolSpec { node_selector: Some("rack == '7'".into()), ..pool("10.0.3.0/28") });
    model.put_pool("six", IpPoolSpec { block_size: None, ..pool("fd00::/120") });
    for name in ["manual", "10.0.2.0/28", "rack", "10.0.3.0/28"] {
        let got = model.run(from_pools(&[name], assign("node-a", name, 0, 0)));
        assert_eq!(got.map(|got| got.len()), Ok(1), "{name}");
    }
    for name in ["off", "10.0.1.0/28", "none", "10.0.9.0/28"] {
        let error = model.run(from_pools(&[name], assign("node-a", "x", 0, 0))).unwrap_err();
        assert_eq!(error.to_string(), alloc::format!("the given pool ({name}) does not exist, or is not enabled"));
    }
    let error = model.run(from_pools(&["six"], assign("node-a", "x", 0, 0))).unwrap_err();
    assert!(matches!(error, IpamError::WrongFamily { .. }), "{error}");
}

#[test]
fn the_first_pool_fills_first_and_asking_again_changes_nothing() {
    let mut model = Model::with_pools(&[("10.0.1.0/30", 30), ("10.0.2.0/30", 30)]);
    let first = model.run(assign("node-a", "a", 6, 0)).unwrap();
    let in_first = first.iter().filter(|one| one.address.to_string().starts_with("10.0.1.")).count();
    assert_eq!(in_first, 4);
    let before = model.clone();
    assert_eq!(BTreeSet::from_iter(model.run(assign("node-a", "a", 6, 0)).unwrap()), BTreeSet::from_iter(first));
    assert_eq!(model.objects, before.objects);
}

#[test]
fn both_families_or_neither() {
    let mut model = Model::with_pools(&[("10.0.1.0/30", 30)]);
    let before = model.clone();
    assert!(model.run(assign("node-a", "a", 1, 1)).is_err());
    assert_eq!(model.objects, before.objects);
    model.put_pool("six", IpPoolSpec { block_size: Some(122), ..pool("fd00::/112") });
    let got = model.run(assign("node-a", "a", 1, 1)).unwrap();
    assert_eq!(got.len(), 2);
    model.check_handles(true);
}

#[test]
fn the_block_limit_ends_it() {
    let mut model = Model::with_pools(&[("10.0.0.0/24", 30)]);
    let error = model.run(Assign { max_blocks: 2, ..assign("node-a", "a", 9, 0) }).unwrap_err();
    assert_eq!(error, IpamError::BlockLimit { limit: 2 });
    assert!(error.is_exhausted());
    assert_eq!(model.run(Assign { max_blocks: 2, ..assign("node-a", "a", 8, 0) }).unwrap().len(), 8);
    model.put_config(IpamConfig { max_blocks_per_host: 3, ..Default::default() });
    let error = model.run(Assign { max_blocks: 5, ..assign("node-a", "a", 13, 0) }).unwrap_err();
    assert_eq!(error, IpamError::BlockLimit { limit: 3 }, "the smaller of the two");
    model.objects.remove(&ResourceKey::IpamConfig);
    let error = model.run(assign("node-a", "a", 81, 0)).unwrap_err();
    assert_eq!(error, IpamError::BlockLimit { limit: 20 }, "where nothing is said");
}

#[test]
fn addresses_are_borrowed_unless_affinity_is_strict_or_it_is_a_tunnels() {
    let mut model = Model::with_pools(&[("10.0.0.0/30", 30)]);
    model.run(assign("node-a", "a", 1, 0)).unwrap();
    let tunnel = Assign { intended_use: AllowedUse::Tunnel, ..assign("node-b", "b", 1, 0) };
    assert!(model.run(tunnel).unwrap_err().is_exhausted());
    model.put_config(IpamConfig { strict_affinity: true, ..Default::default() });
    assert!(model.run(assign("node-b", "b", 1, 0)).unwrap_err().is_exhausted());
    assert!(matches!(model.run(certain("10.0.0.3", "node-b", "b")), Err(IpamError::ForeignBlock { .. })));
    model.objects.remove(&ResourceKey::IpamConfig);
    assert_eq!(addresses(&model.run(assign("node-b", "b", 1, 0)).unwrap()), ["10.0.0.1"]);
    assert_eq!(model.stored_block("10.0.0.0/30").affinity.as_deref(), Some("host:node-a"));
    model.check_affinities();
    model.check_handles(true);
}

#[test]
fn an_empty_block_is_taken_over_after_a_minute() {
    let mut model = Model::with_pools(&[("10.0.0.0/30", 30)]);
    model.put_config(IpamConfig { strict_affinity: true, auto_allocate_blocks: true, ..Default::default() });
    model.run(assign("node-a", "a", 1, 0)).unwrap();
    model.release("a");
    let later = |seconds| Assign { now: NOW.plus_secs(seconds), ..assign("node-b", "b", 1, 0) };
    assert!(model.run(later(59)).is_err());
    assert_eq!(model.run(later(60)).unwrap().len(), 1);
    assert_eq!(model.stored_block("10.0.0.0/30").affinity.as_deref(), Some("host:node-b"));
    assert!(model.affinity("node-a", "10.0.0.0/30").is_none());
    model.check_affinities();
}

#[test]
fn different_nodes_start_in_different_places() {
    let mut model = Model::with_pools(&[("10.0.0.0/16", 26)]);
    let nodes: Vec<_> = (0..20).map(|index| alloc::format!("node-{index}")).collect();
    let mut place = |node: &str, seed| {
        let got = model.run(Assign { seed, ..assign(node, &alloc::format!("{node}-{seed}"), 1, 0) }).unwrap();
        let block = got.first().unwrap().block;
        model = Model::with_pools(&[("10.0.0.0/16", 26)]);
        block
    };
    let places: BTreeSet<_> = nodes.iter().map(|node| place(node, 0)).collect();
    assert!(places.len() > 15, "{places:?}");
    assert_eq!(place("node-0", 0), place("node-0", 0));
    assert_ne!(place("node-0", 0), place("node-0", 1));
}

#[test]
fn certain_addresses() {
    let mut model = Model::with_pools(&[("10.0.0.0/28", 30)]);
    assert_eq!(addresses(&model.run(certain("10.0.0.6", "node-a", "a")).unwrap()), ["10.0.0.6"]);
    assert_eq!(addresses(&model.run(certain("10.0.0.6", "node-a", "a")).unwrap()), ["10.0.0.6"], "again");
    let taken = model.run(certain("10.0.0.6", "node-b", "b")).unwrap_err();
    assert_eq!(taken, IpamError::AlreadyAssigned { address: "10.0.0.6".parse().unwrap(), holder: Some("a".into()) });
    let outside = model.run(certain("10.0.1.6", "node-a", "a")).unwrap_err();
    assert!(matches!(outside, IpamError::NotInPool { .. }) && outside.is_configuration(), "{outside}");
    model.check_affinities();
    model.check_handles(true);
}

#[test]
fn release_by_address_checks_what_the_caller_believes() {
    let mut model = Model::with_pools(&[("10.0.0.0/30", 30)]);
    model.run(assign("node-a", "a", 2, 0)).unwrap();
    let release = |address: &str, handle: Option<&str>, sequence| {
        let release = Release { address: address.parse().unwrap(), handle: handle.map(Into::into), sequence };
        ReleaseAddresses { releases: vec![release], now: NOW }
    };
    let number = *model.stored_block("10.0.0.0/30").sequence_number_for_allocation.get("0").unwrap();
    let error = model.run(release("10.0.0.0", Some("b"), None)).unwrap_err();
    assert!(matches!(error, IpamError::BadHandle { .. }), "{error}");
    let error = model.run(release("10.0.0.0", None, Some(number + 1))).unwrap_err();
    assert!(matches!(error, IpamError::BadSequence { .. }), "{error}");
    let done = model.run(release("10.0.0.0", Some("a"), Some(number))).unwrap();
    assert_eq!(done.released.len(), 1);
    let done = model.run(release("10.0.0.0", Some("a"), None)).unwrap();
    assert_eq!((done.released.len(), done.unallocated.len()), (0, 1), "nobody's is no error");
    model.check_handles(true);

    // The pool is gone: the block is still found.
    model.objects.retain(|key, _| key.name().is_none());
    let done = model.run(release("10.0.0.1", None, None)).unwrap();
    assert_eq!(done.released.len(), 1);
    assert!(model.stored_handle("a").is_none());
    let done = model.run(release("192.0.2.1", None, None)).unwrap();
    assert_eq!(done.unallocated.len(), 1);
}

#[test]
fn unusable_objects_are_named_or_passed_over() {
    let mut model = Model::with_pools(&[("10.0.0.0/29", 30)]);
    let first = model.run(assign("node-a", "a", 5, 0)).unwrap();
    let bad = ResourceKey::Block(first.last().unwrap().block);
    model.unreadable.insert(bad.clone());
    let done = model.release("a");
    assert_eq!((done.released.len(), done.unusable.len()), (4, 1));
    assert_eq!(model.stored_handle("a").unwrap().block.len(), 1, "what cannot be read stays counted");
    assert_eq!(model.run(HeldBy { handle: "a".into() }), Ok(Vec::new()));

    model.unreadable.insert(ResourceKey::Handle("a".into()));
    let error = model.run(assign("node-a", "a", 1, 0)).unwrap_err();
    assert_eq!(error.to_string(), "stored value of IPAMHandle(a) cannot be used: garbled");
    model.unreadable.insert(ResourceKey::IpamConfig);
    model.put_config(IpamConfig::default());
    let error = model.run(assign("node-a", "b", 1, 0)).unwrap_err();
    assert_eq!(error.to_string(), "stored value of IPAMConfig cannot be used: garbled");
}

/// Blocks of another size than the pool's. A stray key may claim all of a pool, and nobody walks through 2^58 places.
#[test]
fn wide_blocks_are_stepped_over() {
    let stray = |cidr: &str| {
        let mut model = Model::default();
        model.put_pool("six", IpPoolSpec { block_size: Some(122), ..pool("fd00::/64") });
        let key = ResourceKey::Block(cidr.parse().unwrap());
        model.put(key.clone(), Resource::IpamConfig(IpamConfig::default()));
        model.unreadable.insert(key);
        model
    };
    for seed in 0..20 {
        let request = |model: &mut Model| model.run(Assign { seed, ..assign("node-a", "a", 0, 1) });
        assert!(request(&mut stray("fd00::/64")).unwrap_err().is_exhausted());
        let upper: Cidr = "fd00::8000:0:0:0/65".parse().unwrap();
        for (cidr, in_upper) in [("fd00::/65", true), ("fd00::8000:0:0:0/65", false)] {
            let got = request(&mut stray(cidr)).unwrap();
            assert_eq!(upper.contains(got[0].address), in_upper, "{cidr} is taken, seed {seed}");
        }
        // A narrow one takes the place that it lies in, and no other.
        assert_eq!(request(&mut stray("fd00::40/123")).unwrap().len(), 1);
    }
}
