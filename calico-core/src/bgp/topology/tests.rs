use alloc::string::{String, ToString};

use proptest::prelude::*;

use super::*;
use crate::net::AsNumber;
use crate::resource::{
    AffinityState, BlockAffinity, IpPool, IpPoolSpec, NodeBgpSpec, NodeSpec, Object, ReportedObject,
    WorkloadEndpointSpec,
};

mod peers;
mod random;
mod settings;
mod workloads;

fn node(name: &str, address: &str, as_number: Option<u32>, reflector: bool) -> Update {
    let spec = NodeSpec {
        bgp: Some(NodeBgpSpec {
            as_number: as_number.map(AsNumber::new),
            ipv4_address: Some(address.parse().unwrap()),
            route_reflector_cluster_id: reflector.then(|| "224.0.0.1".into()),
            ..NodeBgpSpec::default()
        }),
        ..NodeSpec::default()
    };
    let value = Some(Arc::new(Resource::Node(ReportedObject { spec, ..Default::default() }.into())));
    Update { key: ResourceKey::cluster(Kind::Node, name), value }
}

fn pool(name: &str, cidr: &str, disable_bgp_export: bool) -> Update {
    let spec = IpPoolSpec { cidr: cidr.parse().unwrap(), disable_bgp_export, ..IpPoolSpec::default() };
    let value = Some(Arc::new(Resource::IpPool(IpPool { spec, ..IpPool::default() })));
    Update { key: ResourceKey::cluster(Kind::IpPool, name), value }
}

fn affinity(host: &str, block: &str, state: AffinityState) -> Update {
    let key = ResourceKey::Affinity { owner: AffinityOwner::Host(host.into()), block: block.parse().unwrap() };
    Update { key, value: Some(Arc::new(Resource::BlockAffinity(BlockAffinity { state, deleted: false }))) }
}

fn workload(name: &str, host: &str, address: &str) -> Update {
    let spec = WorkloadEndpointSpec {
        node: host.into(),
        ip_networks: vec![address.parse().unwrap()],
        interface_name: Some(if name == "odd" { "eth0" } else { "cali1" }.parse().unwrap()),
        ..WorkloadEndpointSpec::default()
    };
    let value = Some(Arc::new(Resource::WorkloadEndpoint(Object { spec, ..Object::default() })));
    Update { key: ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", name), value }
}

fn gone(update: &Update) -> Update {
    Update { key: update.key.clone(), value: None }
}

fn after(updates: &[Update]) -> Topology {
    let mut topology = Topology::new("a");
    for update in updates {
        topology.handle_update(update);
    }
    topology
}

fn originated(topology: &Topology) -> Vec<String> {
    topology.desired().originated.iter().map(|one| one.prefix.to_string()).collect()
}

#[test]
fn mesh_is_everybody_else_that_is_no_reflector() {
    let nodes = [
        node("a", "10.0.0.1/24", None, false),
        node("b", "10.0.0.2/24", Some(65001), false),
        node("c", "10.0.0.3/24", None, true),
        node("d", "10.0.0.4/24", None, false),
    ];
    let desired = after(&nodes).desired();
    let peers: Vec<_> =
        desired.peers.iter().map(|peer| (peer.name.as_str(), peer.as_number.value(), peer.port)).collect();
    assert_eq!(peers, [("b", 65001, 179), ("d", 64512, 179)]);
    assert_eq!(desired.local.unwrap().router_id, Ipv4Addr::new(10, 0, 0, 1));

    let reflector = [node("a", "10.0.0.1/24", None, true), nodes[1].clone()];
    assert!(after(&reflector).desired().peers.is_empty());
}

/// AS 0 is nobody's (RFC 7607): who has it stored takes no part.
#[test]
fn nobody_speaks_as_as_0() {
    let (a, b) = (node("a", "10.0.0.1/24", None, false), node("b", "10.0.0.2/24", Some(0), false));
    let mut topology = after(&[a, b]);
    let desired = topology.desired();
    assert!(desired.local.is_some() && desired.peers.is_empty(), "{desired:?}");
    assert!(topology.handle_update(&node("b", "10.0.0.2/24", Some(1), false)));
    assert_eq!(topology.desired().peers[0].as_number.value(), 1);
    assert!(topology.handle_update(&node("a", "10.0.0.1/24", Some(0), false)));
    assert_eq!(topology.desired(), DesiredBgp::default());
}

#[test]
fn without_an_address_nothing_is_spoken() {
    assert_eq!(after(&[node("b", "10.0.0.2/24", None, false)]).desired(), DesiredBgp::default());
}

#[test]
fn a_peer_without_an_as_number_has_the_clusters_and_not_ours() {
    let nodes = [node("a", "10.0.0.1/24", Some(65000), false), node("b", "10.0.0.2/24", None, false)];
    assert_eq!(after(&nodes).desired().peers[0].as_number, AsNumber::DEFAULT);
}

#[test]
fn own_confirmed_blocks_are_announced() {
    let base = [
        node("a", "10.0.0.1/24", None, false),
        pool("p", "192.168.0.0/16", false),
        affinity("a", "192.168.0.0/26", AffinityState::Confirmed),
        affinity("a", "192.168.0.64/26", AffinityState::Pending),
        affinity("a", "192.168.0.128/26", AffinityState::Unset),
        affinity("a", "192.168.9.9/32", AffinityState::Confirmed),
        affinity("b", "192.168.1.0/26", AffinityState::Confirmed),
    ];
    let mut topology = after(&base);
    assert_eq!(originated(&topology), ["192.168.0.0/26", "192.168.0.128/26", "192.168.9.9/32"]);
    let blocks: Vec<_> = topology.local_blocks().iter().map(ToString::to_string).collect();
    assert_eq!(blocks, ["192.168.0.0/26", "192.168.0.128/26"]);
    assert!(topology.handle_update(&affinity("a", "192.168.0.0/26", AffinityState::PendingDeletion)));
    assert!(topology.handle_update(&gone(&base[4])));
    assert_eq!(originated(&topology), ["192.168.9.9/32"]);
}

#[test]
fn pools_kept_out_of_bgp_are_kept_out_and_the_longest_decides() {
    let base = [
        node("a", "10.0.0.1/24", None, false),
        pool("wide", "192.168.0.0/16", true),
        pool("narrow", "192.168.1.0/24", false),
        affinity("a", "192.168.0.0/26", AffinityState::Confirmed),
        affinity("a", "192.168.1.0/26", AffinityState::Confirmed),
    ];
    assert_eq!(originated(&after(&base)), ["192.168.1.0/26"]);
}

/// As upstream: of what a pool gave, nothing changes when nothing more is taken from it.
#[test]
fn a_pool_that_is_not_allocatable_is_announced_as_before() {
    let document = serde_json::json!({
        "metadata": {"name": "p", "deletionTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"cidr": "192.168.0.0/24", "disabled": true},
        "status": {"conditions": [{"type": "Allocatable", "status": "False", "reason": "Terminating"}]},
    });
    let value = Some(Arc::new(Resource::decode(Kind::IpPool, &document).unwrap()));
    let base = [
        node("a", "10.0.0.1/24", None, false),
        Update { key: ResourceKey::cluster(Kind::IpPool, "p"), value },
        affinity("a", "192.168.0.0/26", AffinityState::Confirmed),
        workload("borrowed", "a", "192.168.0.200/32"),
    ];
    assert_eq!(originated(&after(&base)), ["192.168.0.0/26", "192.168.0.200/32"]);
}

fn unreadable(name: &str, spec: &serde_json::Value) -> Update {
    let document = serde_json::json!({ "spec": spec });
    assert!(Resource::decode(Kind::IpPool, &document).is_err(), "{document}");
    let value = Resource::remains(Kind::IpPool, &document).map(Arc::new);
    Update { key: ResourceKey::cluster(Kind::IpPool, name), value }
}

/// What was private before a pool became unreadable stays so, from the start as well; what was not is announced as ever.
#[test]
fn a_pool_that_cannot_be_read_still_keeps_its_blocks_out() {
    let base = [
        node("a", "10.0.0.1/24", None, false),
        pool("open", "192.168.0.0/24", false),
        affinity("a", "192.168.0.0/26", AffinityState::Confirmed),
        affinity("a", "192.168.1.0/26", AffinityState::Confirmed),
        affinity("a", "192.168.2.0/26", AffinityState::Confirmed),
        workload("borrowed", "a", "192.168.1.200/32"),
    ];
    let all = ["192.168.0.0/26", "192.168.1.0/26", "192.168.2.0/26"];
    let without_1 = ["192.168.0.0/26", "192.168.2.0/26"];
    for (spec, expected) in [
        (serde_json::json!({"cidr": "192.168.1.0/24", "disableBGPExport": true, "blockSize": "x"}), &without_1[..]),
        (serde_json::json!({"cidr": "192.168.1.0/24", "disableBGPExport": "x"}), &without_1[..]),
        (serde_json::json!({"cidr": "192.168.1.x/24", "disableBGPExport": true}), &all[..1]),
        (serde_json::json!({"cidr": "192.168.1.x/24"}), &all[..]),
    ] {
        let broken = unreadable("p", &spec);
        let mut started = after(&base);
        started.handle_update(&broken);
        assert_eq!(originated(&started), expected, "{spec}");
        let mut running = after(&base);
        for update in [pool("p", "192.168.1.0/24", true), broken] {
            running.handle_update(&update);
        }
        assert_eq!(originated(&running), expected, "{spec}");
        running.handle_update(&gone(&pool("p", "192.168.1.0/24", true)));
        assert_eq!(originated(&running), all, "{spec}: deleted");
    }
    let mut topology = after(&base);
    let spec = serde_json::json!({"cidr": "192.168.1.0/24", "blockSize": "x"});
    topology.handle_update(&unreadable("p", &spec));
    assert_eq!(originated(&topology), [all[0], all[1], "192.168.1.200/32", all[2]]);
}

#[test]
fn borrowed_addresses_are_announced_one_by_one() {
    let base = [
        node("a", "10.0.0.1/24", None, false),
        pool("p", "192.168.0.0/16", false),
        affinity("a", "192.168.0.0/26", AffinityState::Confirmed),
        workload("own", "a", "192.168.0.5/32"),
        workload("borrowed", "a", "192.168.7.5/32"),
        workload("foreign", "b", "192.168.7.6/32"),
        workload("outside", "a", "203.0.113.1/32"),
        workload("odd", "a", "192.168.7.7/32"),
    ];
    assert_eq!(originated(&after(&base)), ["192.168.0.0/26", "192.168.7.5/32"]);
}

/// Nearly every change of a workload is one inside of an own block.
#[test]
fn only_borrowed_addresses_of_workloads_change_anything() {
    let mut topology = after(&[
        node("a", "10.0.0.1/24", None, false),
        pool("p", "192.168.0.0/16", false),
        pool("q", "192.168.8.0/24", true),
        affinity("a", "192.168.0.0/26", AffinityState::Confirmed),
    ]);
    for (address, matters) in [
        ("192.168.0.5/32", false),
        ("192.168.7.5/32", true),
        ("192.168.8.5/32", false),
        ("203.0.113.1/32", false),
        ("fd00::1/128", false),
    ] {
        let update = workload("x", "a", address);
        assert_eq!(topology.handle_update(&update), matters, "{address}");
        assert!(!topology.handle_update(&update), "{address} again");
        assert_eq!(topology.handle_update(&gone(&update)), matters, "{address} gone");
    }
}

/// What the node of these objects announces, by looking at every pool and block for each prefix.
fn naive(objects: &BTreeMap<ResourceKey, Arc<Resource>>) -> Vec<Cidr> {
    let (mut pools, mut blocks, mut addresses, mut speaks) = (vec![], vec![], vec![], false);
    for (key, value) in objects {
        match (key, &**value) {
            (ResourceKey::Named { name, .. }, Resource::Node(_)) => speaks |= &**name == "a",
            (_, Resource::IpPool(pool)) => pools.push(&pool.spec),
            (_, Resource::WorkloadEndpoint(endpoint)) if endpoint.spec.node == "a" => {
                addresses.extend(&endpoint.spec.ip_networks);
            }
            (ResourceKey::Affinity { owner, block }, Resource::BlockAffinity(affinity))
                if *owner == AffinityOwner::Host("a".into()) && affinity.is_confirmed() =>
            {
                blocks.push(block);
            }
            _ => {}
        }
    }
    let exports = |prefix: &Cidr| {
        let mut around: Vec<_> = pools.iter().filter(|pool| pool.cidr.covers(prefix)).collect();
        around.sort_by_key(|pool| (pool.cidr.length(), pool.disable_bgp_export));
        around.last().map(|pool| !pool.disable_bgp_export)
    };
    let mut announced: Vec<Cidr> =
        blocks.iter().filter(|block| exports(block) != Some(false)).map(|one| **one).collect();
    let borrowed = addresses.into_iter().filter(|address| !blocks.iter().any(|block| block.covers(address)));
    announced.extend(borrowed.filter(|address| exports(address) == Some(true)));
    announced.sort();
    announced.dedup();
    if speaks { announced } else { vec![] }
}

fn updates() -> impl Strategy<Value = Vec<Update>> {
    let one = (0..4u8, 0..3u8, 0..4u8, any::<bool>()).prop_map(|(kind, name, value, flag)| {
        let name = ["a", "b", "c"][usize::from(name)];
        match kind {
            0 => node(name, &alloc::format!("10.0.0.{value}/24"), flag.then_some(65000), flag && value == 0),
            1 if value == 3 => unreadable(name, &serde_json::json!({"cidr": "x", "disableBGPExport": flag})),
            1 => pool(name, &alloc::format!("192.168.0.0/{}", 16 + value * 4), flag),
            2 => {
                let state = if flag { AffinityState::Confirmed } else { AffinityState::Pending };
                affinity(name, &alloc::format!("192.168.0.{}/26", value * 64), state)
            }
            _ => workload(name, if flag { "a" } else { "b" }, &alloc::format!("192.168.0.{}/32", value * 50)),
        }
    });
    let one = (one, any::<bool>()).prop_map(|(update, delete)| if delete { gone(&update) } else { update });
    proptest::collection::vec(one, 0..40)
}

proptest! {
    /// The path does not matter: only the last update of each key does.
    #[test]
    fn incremental_equals_from_scratch(updates in updates()) {
        let incremental = after(&updates);
        let mut last = BTreeMap::new();
        for update in &updates {
            last.insert(update.key.clone(), update.clone());
        }
        let last: Vec<_> = last.into_values().rev().collect();
        let scratch = after(&last);
        let objects = last.iter().filter_map(|update| Some((update.key.clone(), update.value.clone()?))).collect();
        let originated: Vec<Cidr> = incremental.desired().originated.iter().map(|one| one.prefix).collect();
        prop_assert_eq!(originated, naive(&objects));
        prop_assert_eq!(incremental.desired(), scratch.desired());
        prop_assert_eq!(incremental.local_blocks(), scratch.local_blocks());
    }

    /// What is reported as no change is none.
    #[test]
    fn no_change_is_no_change(updates in updates()) {
        let mut topology = Topology::new("a");
        for update in &updates {
            let before = (topology.desired(), topology.local_blocks());
            if !topology.handle_update(update) {
                prop_assert_eq!(before, (topology.desired(), topology.local_blocks()));
            }
        }
    }
}
