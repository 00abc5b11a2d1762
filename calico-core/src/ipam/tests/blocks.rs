//! A block against a naive twin: a queue of free ordinals, a map of who holds what, a map of what rests since when.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use proptest::prelude::*;

use super::model::{NOW, host};
use crate::ipam::{Allocation, Block, Holder};
use crate::net::Cidr;
use crate::time::Timestamp;

#[derive(Debug, Clone)]
enum Deed {
    Take {
        handle: u8,
        count: usize,
    },
    TakeAddress {
        handle: u8,
        ordinal: u8,
    },
    ReleaseHandle {
        handle: u8,
    },
    ReleaseAddress {
        ordinal: u8,
    },
    Collect,
    /// The block is stored and read back.
    Store,
    Wait {
        seconds: u64,
    },
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0_u8..4, 1_usize..4).prop_map(|(handle, count)| Deed::Take { handle, count }),
        2 => (0_u8..4, 0_u8..9).prop_map(|(handle, ordinal)| Deed::TakeAddress { handle, ordinal }),
        2 => (0_u8..4).prop_map(|handle| Deed::ReleaseHandle { handle }),
        3 => (0_u8..9).prop_map(|ordinal| Deed::ReleaseAddress { ordinal }),
        3 => Just(Deed::Collect),
        1 => Just(Deed::Store),
        2 => (1_u64..40).prop_map(|seconds| Deed::Wait { seconds }),
    ]
}

struct Twin {
    free: VecDeque<u8>,
    held: BTreeMap<u8, String>,
    resting: BTreeMap<u8, Timestamp>,
}

fn address(ordinal: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, ordinal])
}

fn holder(handle: u8) -> Holder {
    // Handles 0 and 2 share their attributes with nobody, 1 and 3 with everybody.
    let attributes = if handle.is_multiple_of(2) { [("id".to_string(), handle.to_string())].into() } else { [].into() };
    Holder { handle: alloc::format!("h{handle}").into(), attributes }
}

fn ordinals(addresses: &[IpAddr]) -> Vec<u8> {
    let last = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(_) => panic!("{address}"),
    };
    addresses.iter().map(last).collect()
}

fn step(block: &mut Block, twin: &mut Twin, deed: &Deed, now: &mut Timestamp, cooldown: u32) {
    match deed {
        Deed::Take { handle, count } => {
            let taken = ordinals(&block.take(*count, &holder(*handle)));
            let expected: Vec<_> = twin.free.drain(..(*count).min(twin.free.len())).collect();
            assert_eq!(taken, expected);
            twin.held.extend(taken.into_iter().map(|ordinal| (ordinal, holder(*handle).handle.to_string())));
        }
        Deed::TakeAddress { handle, ordinal } => {
            let was_free = twin.free.contains(ordinal);
            assert_eq!(block.take_address(address(*ordinal), &holder(*handle)), was_free);
            if was_free {
                twin.free.retain(|free| free != ordinal);
                twin.held.insert(*ordinal, holder(*handle).handle.to_string());
            }
        }
        Deed::ReleaseHandle { handle } => {
            let released = ordinals(&block.release_handle(&holder(*handle).handle, *now));
            let of_handle = |(_, holding): &(&u8, &String)| **holding == *holder(*handle).handle;
            let expected: Vec<_> = twin.held.iter().filter(of_handle).map(|(ordinal, _)| *ordinal).collect();
            assert_eq!(released, expected);
            for ordinal in released {
                twin.held.remove(&ordinal);
                twin.resting.insert(ordinal, *now);
            }
        }
        Deed::ReleaseAddress { ordinal } => {
            let was_held = twin.held.remove(ordinal).is_some();
            assert_eq!(block.release_address(address(*ordinal), *now), was_held);
            if was_held {
                twin.resting.insert(*ordinal, *now);
            }
        }
        Deed::Collect => {
            block.collect(*now, cooldown);
            let over = |since: &Timestamp| since.plus_secs(cooldown.into()) <= *now;
            twin.free.extend(twin.resting.iter().filter(|(_, since)| over(since)).map(|(ordinal, _)| *ordinal));
            twin.resting.retain(|_, since| !over(since));
        }
        Deed::Store => {
            let before = block.clone().into_created().sequence_number;
            let stored = block.clone().into_stored();
            assert_eq!(stored.sequence_number, before + 1);
            let text = serde_json::to_string(&stored).unwrap();
            *block = Block::admit(stored.cidr, &serde_json::from_str(&text).unwrap()).unwrap();
        }
        Deed::Wait { seconds } => *now = now.plus_secs(*seconds),
    }
}

fn compare(block: &Block, twin: &Twin) {
    for ordinal in 0..8 {
        let expected = match (twin.held.get(&ordinal), twin.resting.contains_key(&ordinal)) {
            (Some(handle), _) => handle.as_str(),
            (None, true) => "resting",
            (None, false) => "free",
        };
        let found = match block.allocation(address(ordinal)) {
            Some(Allocation::Held(attribute)) => attribute.handle_id.clone().unwrap(),
            Some(Allocation::Resting) => "resting".to_string(),
            Some(Allocation::Free) => "free".to_string(),
            None => panic!("{ordinal} is in the block"),
        };
        assert_eq!(found, expected, "ordinal {ordinal}");
    }
    assert!(block.allocation(address(8)).is_none());
    assert_eq!(block.free(), twin.free.len());
    assert_eq!(block.is_empty(), twin.held.is_empty() && twin.resting.is_empty());
}

proptest! {
    #[test]
    fn blocks_agree_with_a_naive_twin(
        deeds in prop::collection::vec(deed(), 0..60),
        cooldown in prop_oneof![Just(0_u32), Just(30)],
    ) {
        let cidr: Cidr = "10.0.0.0/29".parse().unwrap();
        let mut block = Block::create(cidr, &host("a"), NOW).unwrap();
        let mut twin = Twin { free: (0..8).collect(), held: BTreeMap::new(), resting: BTreeMap::new() };
        let mut now = NOW;
        for deed in &deeds {
            step(&mut block, &mut twin, deed, &mut now, cooldown);
            compare(&block, &twin);
            // Whatever was done, what would be stored is consistent, and no attribute outlives a collection unused.
            prop_assert!(Block::admit(cidr, &block.clone().into_stored()).is_ok());
        }
        block.collect(now, cooldown);
        let stored = block.into_stored();
        let used = (0..stored.attributes.len()).all(|index| stored.allocations.contains(&Some(index)));
        prop_assert!(used, "an attribute that nobody refers to: {:?}", stored);
    }
}
