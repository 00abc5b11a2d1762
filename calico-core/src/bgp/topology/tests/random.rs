//! Random updates of everything: what follows depends on the last state of each object only, and sessions are those of a plain reading.

use alloc::format;

use serde_json::json;

use super::peers::{configuration, dual, object, peer};
use super::*;
use crate::net::Family;

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const ROLES: [&str; 3] = ["x", "y", "z"];

fn any_update() -> impl Strategy<Value = Update> {
    (0..6u8, 0..4usize, 0..3usize, 0..4u8, any::<bool>(), any::<bool>()).prop_map(
        |(kind, name, role, value, flag, delete)| {
            let (node, role) = (NODES[name], ROLES[role]);
            let number = u8::try_from(name).unwrap() + 1;
            let update = match kind {
                0 => {
                    let id = if flag { format!("1.1.1.{}", value % 2) } else { String::new() };
                    let number_of_as = [64512, 64512, 64513, 65000][usize::from(value)];
                    dual(node, number, role, json!({"asNumber": number_of_as, "routeReflectorClusterID": id}))
                }
                1 => {
                    let remote = match value {
                        0 => json!({"peerIP": format!("10.192.0.{number}"), "asNumber": 64512}),
                        1 => json!({"peerSelector": format!("role == '{role}'")}),
                        2 => json!({"peerIP": format!("2001::{number}"), "asNumber": 64513, "localASNumber": 7}),
                        _ => json!({"peerIP": format!("192.0.2.{number}"), "asNumber": 64512, "node": role}),
                    };
                    let mut spec = remote;
                    if flag {
                        spec["nodeSelector"] = format!("role == '{role}'").into();
                    } else if value == 1 {
                        spec["node"] = node.into();
                    }
                    if value == 2 && flag {
                        spec["reversePeering"] = "Manual".into();
                    }
                    peer(["p", "q", "r", "s"][name], spec)
                }
                2 => configuration(
                    "default",
                    json!({"nodeToNodeMeshEnabled": flag, "listenPort": if value == 0 { 500 } else { 179 }}),
                ),
                3 => configuration(&format!("node.{node}"), json!({"listenPort": 500 + u16::from(value)})),
                4 => object(
                    Kind::BgpFilter,
                    "f",
                    json!({}),
                    json!({"importV4": [{"action": if flag { "Accept" } else { "Reject" }}]}),
                ),
                _ => pool(node, &format!("10.{value}.0.0/16"), flag),
            };
            if delete { gone(&update) } else { update }
        },
    )
}

/// Addresses of this node's sessions that BGPPeers want, read plainly: forward, then mirrored.
fn wanted(objects: &BTreeMap<ResourceKey, Arc<Resource>>) -> BTreeSet<IpAddr> {
    let nodes: Vec<_> = objects
        .values()
        .filter_map(|value| match &**value {
            Resource::Node(node) => Some((node.metadata.name.as_str(), node)),
            _ => None,
        })
        .collect();
    let default = match objects.get(&ResourceKey::cluster(Kind::BgpConfiguration, "default")).map(|value| &**value) {
        Some(Resource::BgpConfiguration(object)) => Some(object.spec.clone()),
        _ => None,
    };
    let addresses = |name: &str| -> Vec<IpAddr> {
        let bgp = nodes.iter().find(|(one, _)| *one == name).and_then(|(_, node)| node.spec.bgp.clone());
        let both = bgp.into_iter().flat_map(|bgp| [bgp.ipv4_address, bgp.ipv6_address]);
        both.flatten().map(|address| address.address()).collect()
    };
    let selected = |text: &str| -> Vec<&str> {
        let selector = crate::selector::Selector::parse(text).unwrap();
        nodes.iter().filter(|(_, node)| selector.matches(&node.metadata.labels)).map(|(name, _)| *name).collect()
    };
    let mut found = BTreeSet::new();
    for value in objects.values() {
        let Resource::BgpPeer(object) = &**value else { continue };
        let spec = &object.spec;
        let locals: Vec<&str> = match (spec.node_selector.as_str(), spec.node.as_str()) {
            ("", "") => selected("all()"),
            ("", node) => vec![node],
            (selector, _) => selected(selector),
        };
        let is_global = spec.node_selector.is_empty() && spec.node.is_empty();
        let remotes: Vec<&str> = if spec.peer_selector.is_empty() {
            let ip: IpAddr = spec.peer_ip.parse().unwrap();
            let of = |node: &NodeSpec| node.bgp.as_ref().and_then(|bgp| bgp.as_number).unwrap_or(AsNumber::DEFAULT);
            let meant = nodes
                .iter()
                .filter(|(name, node)| addresses(name).contains(&ip) && Some(of(&node.spec)) == spec.as_number);
            meant.map(|(name, _)| *name).collect()
        } else {
            selected(&spec.peer_selector)
        };
        if is_global || locals.contains(&"a") {
            match spec.peer_ip.parse() {
                Ok(ip) if spec.peer_selector.is_empty() => {
                    found.insert(ip);
                }
                _ => found.extend(remotes.iter().flat_map(|name| addresses(name))),
            }
        }
        if spec.reverse_peering != Some(crate::resource::ReversePeering::Manual) && remotes.contains(&"a") {
            let family = spec.peer_ip.parse().ok().map(Family::of).filter(|_| spec.peer_selector.is_empty());
            let ends = locals.iter().flat_map(|name| addresses(name));
            found.extend(ends.filter(|end| family.is_none_or(|family| Family::of(*end) == family)));
        }
    }
    // The mesh.
    let reflects = |node: &NodeSpec| {
        node.bgp.as_ref().and_then(|bgp| bgp.route_reflector_cluster_id.clone()).is_some_and(|id| !id.is_empty())
    };
    let own = nodes.iter().find(|(name, _)| *name == "a");
    let meshed = default.and_then(|spec| spec.node_to_node_mesh_enabled) != Some(false);
    if meshed && own.is_some_and(|(_, node)| !reflects(&node.spec)) {
        found.extend(nodes.iter().filter(|(_, node)| !reflects(&node.spec)).flat_map(|(name, _)| addresses(name)));
    }
    let mine = addresses("a");
    found.retain(|address| !mine.contains(address));
    if mine.is_empty() { BTreeSet::new() } else { found }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn only_the_last_state_of_each_object_counts(updates in proptest::collection::vec(any_update(), 0..40)) {
        let mut topology = Topology::new("a");
        for update in &updates {
            let before = topology.desired();
            if !topology.handle_update(update) {
                prop_assert_eq!(before, topology.desired(), "{:?} was no change", update.key);
            }
        }
        let last: BTreeMap<_, _> = updates.iter().map(|update| (update.key.clone(), update.clone())).collect();
        let reversed: Vec<Update> = last.values().rev().cloned().collect();
        let scratch = after(&reversed);
        prop_assert_eq!(topology.desired(), scratch.desired());
        prop_assert_eq!(topology.diagnostics(), scratch.diagnostics());
        prop_assert_eq!(topology.secrets(), scratch.secrets());
        let objects = last.iter().filter_map(|(key, update)| Some((key.clone(), update.value.clone()?))).collect();
        let found: BTreeSet<IpAddr> = topology.desired().peers.iter().map(|peer| peer.id.address).collect();
        prop_assert_eq!(found, wanted(&objects));
        prop_assert!(topology.desired().peers.is_sorted_by_key(|peer| peer.id));
    }
}
