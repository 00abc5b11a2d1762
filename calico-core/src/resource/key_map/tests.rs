//! The map against a tree.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use proptest::prelude::*;

use super::*;
use crate::resource::{AffinityOwner, Kind};

/// Keys that differ in one part only, or in how the same letters are cut into parts.
fn keys() -> Vec<ResourceKey> {
    let mut keys = Vec::new();
    let names = [
        "",
        "-",
        "--",
        "---",
        "a",
        "b",
        "a-b",
        "a-b-",
        "a-b-c",
        "a-b-c-",
        "a-b-c-d",
        "a-b-c-e",
        "a-b-c--d-e",
        "a--b-c-d-e",
        "a-b--c-d-e",
        "ab-k8s-x--1-eth0",
        "ab-k8s-x--2-eth0",
        "ab-k8s-x--1-eth1",
        "ac-k8s-x--1-eth0",
        "\0",
        "\0\u{1}",
        "é-é-é-é",
    ];
    for name in names {
        for kind in [Kind::WorkloadEndpoint, Kind::NetworkSet] {
            keys.push(ResourceKey::cluster(kind, name));
            keys.extend(["", "a", "a-b-", "\0"].map(|namespace| ResourceKey::namespaced(kind, namespace, name)));
        }
        keys.push(ResourceKey::Handle(name.into()));
    }
    let block: crate::net::Cidr = "10.0.0.0/26".parse().unwrap();
    let owner = AffinityOwner::Host("a".into());
    keys.extend([ResourceKey::Block(block), ResourceKey::Affinity { owner, block }, ResourceKey::IpamConfig]);
    keys
}

/// A step with the key of a number, of a few or of many that need several blocks.
fn key(keys: &[ResourceKey], number: u16) -> ResourceKey {
    match keys.get(usize::from(number)) {
        Some(key) => key.clone(),
        None => {
            let name =
                format!("host--{}-k8s-app--{:x}-eth0", number % 7, u32::from(number).wrapping_mul(2_654_435_761));
            ResourceKey::namespaced(Kind::WorkloadEndpoint, &format!("n{}", number % 5), &name)
        }
    }
}

fn check(map: &KeyMap<u64>, twin: &BTreeMap<ResourceKey, u64>) {
    let mut all = map.keys_where(|_| true);
    all.sort();
    assert_eq!(all, twin.keys().cloned().collect::<Vec<_>>());
    twin.iter().for_each(|(key, value)| assert_eq!(map.get(key), Some(*value), "{key:?}"));
    for (one, next) in map.blocks.iter().zip(map.blocks.iter().skip(1)) {
        assert!(map.view(one).first() < map.view(next).first(), "blocks in order");
    }
    assert!(map.blocks.iter().all(|block| !block.is_empty()));
}

proptest! {
    #[test]
    fn is_what_a_tree_is(
        range in 1..2000u16,
        steps in prop::collection::vec((any::<u16>(), 0..5u8, any::<u64>(), 0..64u32), 0..400),
    ) {
        let keys = keys();
        let (mut map, mut twin) = (KeyMap::default(), BTreeMap::new());
        for (number, step, value, shift) in steps {
            let (key, value) = (key(&keys, number % range), value >> shift);
            match step {
                0 => prop_assert_eq!(map.remove(&key), twin.remove(&key)),
                _ => prop_assert_eq!(map.insert(&key, value), twin.insert(key.clone(), value)),
            }
            prop_assert_eq!(map.get(&key), twin.get(&key).copied());
        }
        check(&map, &twin);
        map.change_all(|value| *value = value.rotate_left(9));
        twin.values_mut().for_each(|value| *value = value.rotate_left(9));
        check(&map, &twin);
        let mut even = map.keys_where(|value| value % 2 == 0);
        even.sort();
        prop_assert_eq!(even, twin.iter().filter(|(_, value)| **value % 2 == 0).map(|(key, _)| key.clone()).collect::<Vec<_>>());
        for (key, value) in &twin {
            prop_assert_eq!(map.remove(key), Some(*value));
        }
        prop_assert_eq!(map.held(), [0; 4], "a part of a key is held for ever");
    }

    #[test]
    fn is_what_a_tree_is_for_any_text(steps in prop::collection::vec(("[-a\0é]{0,6}", "[-a\0é]{0,9}", any::<bool>()), 0..60)) {
        let (mut map, mut twin) = (KeyMap::default(), BTreeMap::new());
        for (namespace, name, present) in steps {
            let key = ResourceKey::namespaced(Kind::WorkloadEndpoint, &namespace, &name);
            if present {
                prop_assert_eq!(map.insert(&key, 1), twin.insert(key, 1));
            } else {
                prop_assert_eq!(map.remove(&key), twin.remove(&key));
            }
            check(&map, &twin);
        }
    }
}

/// In whatever order they come, and in which they go.
#[test]
fn many_keys_take_little_room_and_leave_none() {
    let keys = keys();
    for stride in [1_u32, 7919, 19_999] {
        let mut map = KeyMap::<u64>::default();
        let number = |at: u32| u16::try_from(at * stride % 20_000).unwrap() + 1000;
        for at in 0..20_000 {
            assert_eq!(map.insert(&key(&keys, number(at)), at.into()), None);
        }
        assert!((0..20_000).all(|at| map.get(&key(&keys, number(at))) == Some(at.into())));
        let [blocks, bytes, frames, others] = map.held();
        assert!(bytes < 20_000 * 20 && blocks < bytes / 256, "{bytes} bytes in {blocks} blocks, stride {stride}");
        assert_eq!((frames, others), (7, 0));
        for at in (0..20_000).rev() {
            assert_eq!(map.remove(&key(&keys, number(at))), Some(at.into()));
        }
        assert_eq!(map.held(), [0; 4]);
    }
}

/// A key that fits into no block is alone in one.
#[test]
fn a_name_may_have_any_length() {
    let long = |length| ResourceKey::cluster(Kind::NetworkSet, &String::from("x").repeat(length));
    let mut map = KeyMap::default();
    for length in [1, 5000, 70_000, 5001, 70_001] {
        assert_eq!(map.insert(&long(length), length as u64), None);
    }
    assert!([1, 5000, 70_000, 5001, 70_001].iter().all(|length| map.get(&long(*length)) == Some(*length as u64)));
    assert_eq!(map.keys_where(|value| value == 70_001), [long(70_001)]);
    for length in [5000, 70_001, 1, 70_000, 5001] {
        assert_eq!(map.remove(&long(length)), Some(length as u64));
    }
    assert_eq!(map.held(), [0; 4]);
}

#[test]
fn endpoints_of_a_host_share_the_frame_of_their_names() {
    let mut map = KeyMap::default();
    for name in ["a--1-k8s-pod--x-eth0", "a--1-k8s-pod--y-eth0", "a--1-k8s-pod--x-eth1"] {
        map.insert(&ResourceKey::namespaced(Kind::WorkloadEndpoint, "n", name), 1_u64);
    }
    assert_eq!(map.held()[2], 2);
}
