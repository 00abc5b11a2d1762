//! What is stored, compared with the worked example of upstream's form and with the states that upstream leaves behind.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::model::{Model, NOW, addresses, assign, host};
use crate::ipam::{Assign, Block, Holder, IpamError, Want};
use crate::net::Cidr;
use crate::resource::{
    AffinityState, BlockAffinity, IpPoolSpec, IpamBlock, IpamConfig, IpamHandle, Resource, ResourceKey,
};
use crate::time::Timestamp;

fn json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap()
}

fn one_block() -> Model {
    Model::with_pools(&[("10.65.3.8/29", 29)])
}

fn block(value: serde_json::Value) -> Resource {
    Resource::IpamBlock(serde_json::from_value(value).unwrap())
}

fn affinity(state: AffinityState) -> Resource {
    Resource::BlockAffinity(BlockAffinity { state, deleted: false })
}

fn affinity_key(node: &str, cidr: &str) -> ResourceKey {
    ResourceKey::Affinity { owner: host(node), block: cidr.parse().unwrap() }
}

fn block_key(cidr: &str) -> ResourceKey {
    ResourceKey::Block(cidr.parse().unwrap())
}

#[test]
fn an_allocation_is_stored_in_upstreams_form() {
    let mut model = one_block();
    let request = assign("node-a", "k8s-pod-network.7d3e", 1, 0);
    assert_eq!(addresses(&model.run(request).unwrap()), ["10.65.3.8"]);
    let stored = serde_json::json!({
        "cidr": "10.65.3.8/29", "affinity": "host:node-a", "affinity_claim_time": "2026-08-17T20:53:20Z",
        "allocations": [0, null, null, null, null, null, null, null], "unallocated": [1, 2, 3, 4, 5, 6, 7],
        "attributes": [{"handle_id": "k8s-pod-network.7d3e", "secondary": {"node": "node-a"}}],
        "sequenceNumber": 1_787_000_000_000_000_000_u64,
        "sequenceNumberForAllocation": {"0": 1_787_000_000_000_000_000_u64}, "deleted": false,
    });
    assert_eq!(json(model.stored_block("10.65.3.8/29")), stored);
    let handle = serde_json::json!({"block": {"10.65.3.8/29": 1}, "deleted": false});
    assert_eq!(json(model.stored_handle("k8s-pod-network.7d3e").unwrap()), handle);
    let claim = serde_json::json!({"state": "confirmed", "deleted": false});
    assert_eq!(json(&model.affinity("node-a", "10.65.3.8/29").unwrap()), claim);

    model.run(assign("node-a", "other", 1, 0)).unwrap();
    model.release("k8s-pod-network.7d3e");
    let stored = model.stored_block("10.65.3.8/29");
    assert_eq!(json(&stored.allocations), serde_json::json!([null, 0, null, null, null, null, null, null]));
    assert_eq!(stored.unallocated, [2, 3, 4, 5, 6, 7, 0], "freed ordinals go to the tail");
    assert_eq!(stored.attributes.len(), 1, "nobody refers to the first entry any more");
    assert_eq!(stored.sequence_number, 1_787_000_000_000_000_002);
    assert_eq!(Vec::from_iter(stored.sequence_number_for_allocation.keys()), ["1"]);
    assert!(model.stored_handle("k8s-pod-network.7d3e").is_none());
}

#[test]
fn a_released_address_rests_for_the_cooldown() {
    let mut model = one_block();
    model.put_config(IpamConfig { ip_cooldown_seconds: 60, ..Default::default() });
    model.run(assign("node-a", "a", 1, 0)).unwrap();
    model.release("a");
    let stored = model.stored_block("10.65.3.8/29");
    assert_eq!(json(&stored.attributes), serde_json::json!([{"releasedAt": "2026-08-17T20:53:20Z"}]));
    assert_eq!(stored.allocations.first(), Some(&Some(0)));
    let fill = |model: &mut Model, seconds, count| {
        model.run(Assign { now: NOW.plus_secs(seconds), ..assign("node-a", "b", count, 0) })
    };
    assert!(fill(&mut model, 59, 8).unwrap_err().is_exhausted(), "one of eight rests");
    let again = Assign { want: Want::Address("10.65.3.8".parse().unwrap()), ..assign("node-a", "b", 0, 0) };
    assert!(matches!(model.run(again), Err(IpamError::AlreadyAssigned { holder: None, .. })));
    assert_eq!(addresses(&fill(&mut model, 60, 8).unwrap()).last().unwrap(), "10.65.3.8", "and comes last");
}

#[test]
fn equal_owners_share_an_attribute() {
    let mut model = one_block();
    model.run(assign("node-a", "a", 3, 0)).unwrap();
    model.run(assign("node-a", "b", 2, 0)).unwrap();
    let stored = model.stored_block("10.65.3.8/29");
    assert_eq!(stored.allocations, [Some(0), Some(0), Some(0), Some(1), Some(1), None, None, None]);
    assert_eq!(stored.attributes.len(), 2);
    model.release("a");
    let stored = model.stored_block("10.65.3.8/29");
    assert_eq!(stored.allocations, [None, None, None, Some(0), Some(0), None, None, None], "renumbered");
    assert_eq!(stored.unallocated, [5, 6, 7, 0, 1, 2]);
}

/// Every state of claim and block that a process can leave when it dies, and what the owner's next assignment makes of it.
#[test]
fn interrupted_claims_are_completed() {
    for state in
        [AffinityState::Pending, AffinityState::PendingDeletion, AffinityState::Confirmed, AffinityState::Unset]
    {
        for has_block in [false, true] {
            let mut model = one_block();
            model.put(affinity_key("node-a", "10.65.3.8/29"), affinity(state));
            if has_block {
                let fresh = Block::create("10.65.3.8/29".parse().unwrap(), &host("node-a"), Timestamp::from_secs(5));
                model.put(block_key("10.65.3.8/29"), Resource::IpamBlock(fresh.unwrap().into_created()));
            }
            assert_eq!(addresses(&model.run(assign("node-a", "a", 1, 0)).unwrap()), ["10.65.3.8"], "{state:?}");
            model.check_affinities();
            model.check_handles(true);
        }
    }
}

#[test]
fn a_lost_claim_is_made_again() {
    let mut model = one_block();
    model.run(assign("node-a", "a", 1, 0)).unwrap();
    model.objects.remove(&affinity_key("node-a", "10.65.3.8/29"));
    assert_eq!(addresses(&model.run(assign("node-a", "b", 1, 0)).unwrap()), ["10.65.3.9"]);
    model.check_affinities();
}

#[test]
fn a_stale_claim_is_given_up() {
    let mut model = Model::with_pools(&[("10.0.0.0/29", 30)]);
    let first = model.run(assign("node-a", "a", 1, 0)).unwrap();
    let taken = first.first().unwrap().block.to_string();
    model.put(affinity_key("node-b", &taken), affinity(AffinityState::Pending));
    let second = model.run(assign("node-b", "b", 1, 0)).unwrap();
    assert_ne!(second.first().unwrap().block.to_string(), taken);
    assert!(model.affinity("node-b", &taken).is_none());
    model.check_affinities();
}

#[test]
fn an_over_counting_handle_is_made_exact() {
    let mut model = one_block();
    let other: Cidr = "10.65.9.0/29".parse().unwrap();
    let counts = [("10.65.3.8/29".parse().unwrap(), 7), (other, 2)].into();
    model.put(ResourceKey::Handle("a".into()), Resource::IpamHandle(IpamHandle { block: counts, deleted: false }));
    assert_eq!(addresses(&model.run(assign("node-a", "a", 2, 0)).unwrap()), ["10.65.3.8", "10.65.3.9"]);
    model.check_handles(true);
    let counts = [(other, 2)].into();
    model.put(ResourceKey::Handle("b".into()), Resource::IpamHandle(IpamHandle { block: counts, deleted: false }));
    assert!(model.release("b").released.is_empty());
    assert!(model.stored_handle("b").is_none(), "upstream would leave it for ever");
}

#[test]
fn handles_with_a_line_end_are_still_theirs() {
    let mut model = one_block();
    let cidr: Cidr = "10.65.3.8/29".parse().unwrap();
    let mut old = Block::create(cidr, &host("node-a"), NOW).unwrap();
    old.take(1, &Holder { handle: "a\r\nhost".into(), attributes: [].into() });
    model.put(block_key("10.65.3.8/29"), Resource::IpamBlock(old.into_created()));
    model.put(affinity_key("node-a", "10.65.3.8/29"), affinity(AffinityState::Confirmed));
    let counts = [(cidr, 1)].into();
    model.put(ResourceKey::Handle("a".into()), Resource::IpamHandle(IpamHandle { block: counts, deleted: false }));
    assert_eq!(addresses(&model.run(assign("node-a", "a", 1, 0)).unwrap()), ["10.65.3.8"]);
    assert_eq!(model.release("a").released.len(), 1);
}

#[test]
fn an_abandoned_block_goes_with_its_last_address() {
    let mut model = one_block();
    model.run(assign("node-a", "a", 1, 0)).unwrap();
    model.run(assign("node-a", "b", 1, 0)).unwrap();
    let orphan = IpamBlock { affinity: None, affinity_claim_time: None, ..model.stored_block("10.65.3.8/29").clone() };
    model.put(block_key("10.65.3.8/29"), Resource::IpamBlock(orphan));
    model.objects.remove(&affinity_key("node-a", "10.65.3.8/29"));
    model.release("a");
    assert_eq!(model.blocks().len(), 1, "b is still there");
    model.release("b");
    assert!(model.blocks().is_empty());
}

#[test]
fn inconsistent_blocks_are_refused_and_passed_over() {
    let good = serde_json::json!({
        "cidr": "10.0.0.0/30", "affinity": "host:node-a", "allocations": [0, null, null, null],
        "unallocated": [1, 2, 3], "attributes": [{"handle_id": "x"}], "deleted": false,
    });
    let cidr: Cidr = "10.0.0.0/30".parse().unwrap();
    let admit = |value: &serde_json::Value| Block::admit(cidr, &serde_json::from_value(value.clone()).unwrap());
    assert!(admit(&good).is_ok());
    let broken = [
        ("cidr", serde_json::json!("10.0.0.4/30")),
        ("allocations", serde_json::json!([0, null, null])),
        ("allocations", serde_json::json!([1, null, null, null])),
        ("unallocated", serde_json::json!([1, 2])),
        ("unallocated", serde_json::json!([1, 2, 2])),
        ("unallocated", serde_json::json!([0, 1, 2, 3])),
        ("unallocated", serde_json::json!([1, 2, 4_000_000_000_u32])),
    ];
    for (field, value) in broken {
        let mut bad = good.clone();
        bad[field] = value;
        assert!(admit(&bad).is_err(), "{bad}");
        let mut model = Model::with_pools(&[("10.0.0.0/29", 30)]);
        model.put(block_key("10.0.0.0/30"), block(bad));
        model.put(affinity_key("node-a", "10.0.0.0/30"), affinity(AffinityState::Confirmed));
        let next = model.run(assign("node-a", "a", 1, 0)).unwrap();
        assert_eq!(addresses(&next), ["10.0.0.4"]);
    }
}

#[test]
fn blocks_of_a_former_size_are_not_overlapped() {
    let mut model = Model::with_pools(&[("10.0.0.0/28", 28)]);
    model.run(assign("node-a", "a", 1, 0)).unwrap();
    let spec = IpPoolSpec { cidr: "10.0.0.0/27".parse().unwrap(), block_size: Some(30), ..Default::default() };
    model.put_pool("pool-0", spec);
    let all = model.run(Assign { max_blocks: 30, ..assign("node-b", "b", 16, 0) }).unwrap();
    let old: Cidr = "10.0.0.0/28".parse().unwrap();
    assert!(all.iter().all(|one| !old.contains(one.address)), "{all:?}");
    assert_eq!(model.holders().len(), 17);
}
