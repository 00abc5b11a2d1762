//! BGPConfiguration and Node: what holds for the cluster and for this node.

use alloc::format;

use serde_json::{Value, json};

use super::peers::{configuration, dual, object, peer, problems, sessions};
use super::*;
use crate::bgp::{Bfd, ByFamily, PoolRouting};

fn strings<T: ToString>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(|item| item.to_string()).collect()
}

#[test]
fn the_mesh_follows_its_configuration() {
    let nodes = [dual("a", 1, "x", json!({})), dual("b", 2, "x", json!({})), dual("c", 3, "x", json!({"asNumber": 7}))];
    let mut topology = after(&nodes);
    topology.handle_update(&configuration("default", json!({"asNumber": 65001, "bindMode": "NodeIP"})));
    assert_eq!(
        sessions(&topology),
        ["Mesh 10.192.0.2 as 65001", "Mesh 10.192.0.3 as 7", "Mesh 2001::2 as 65001", "Mesh 2001::3 as 7"]
    );
    let local = topology.desired().local.unwrap();
    assert_eq!((local.as_number.value(), local.listen.own_addresses), (65001, true));
    assert_eq!(local.ipv6, Some("2001::1".parse().unwrap()));
    topology.handle_update(&configuration("default", json!({"nodeToNodeMeshEnabled": false})));
    assert!(sessions(&topology).is_empty());
    // Of a family in which this node has no address there are no sessions.
    topology.handle_update(&gone(&configuration("default", json!({}))));
    topology.handle_update(&object(Kind::Node, "a", json!({}), json!({"bgp": {"ipv4Address": "10.192.0.1/16"}})));
    assert_eq!(sessions(&topology), ["Mesh 10.192.0.2 as 64512", "Mesh 10.192.0.3 as 7"]);
}

#[test]
fn a_configuration_of_one_node_overrides_three_fields() {
    let all = json!({
        "nodeToNodeMeshEnabled": false, "asNumber": 5, "serviceClusterIPs": [{"cidr": "10.96.0.0/12"}], "bindMode": "NodeIP",
        "programClusterRoutes": "Disabled", "ipv4NormalRoutePriority": 7, "listenPort": 500,
    });
    let topology =
        after(&[dual("a", 1, "x", json!({})), dual("b", 2, "x", json!({})), configuration("node.a", all.clone())]);
    let plain = after(&[dual("a", 1, "x", json!({})), dual("b", 2, "x", json!({}))]).desired();
    let mut desired = topology.desired();
    assert_eq!(core::mem::replace(&mut desired.local.as_mut().unwrap().listen.port, 179), 500);
    assert_eq!(desired, plain);
    let told = problems(&topology, "node.a");
    let fields = [
        "nodeToNodeMeshEnabled",
        "asNumber",
        "serviceClusterIPs",
        "bindMode",
        "programClusterRoutes",
        "ipv4NormalRoutePriority",
    ];
    let expected = fields.map(|field| format!("its {field} counts on the BGPConfiguration called default only"));
    assert_eq!(told, expected);
    let topology = after(&[configuration("elsewhere", json!({})), configuration("node.x", json!({}))]);
    assert_eq!(problems(&topology, "elsewhere"), ["only BGPConfigurations called default and node.NAME are read"]);
    assert_eq!(problems(&topology, "node.x"), ["node x does not exist"]);
}

#[test]
fn communities_of_the_node_replace_those_of_the_cluster() {
    let spec = |value: &str, cidr: &str| {
        json!({
            "communities": [{"name": "bgp", "value": value}],
            "prefixAdvertisements": [{"cidr": cidr, "communities": ["bgp", "64512:9", "1:2:3", "64512:9"]}],
        })
    };
    let mut topology = after(&[dual("a", 1, "x", json!({})), configuration("default", spec("64512:1", "10.0.0.0/8"))]);
    let told = |topology: &Topology| -> Vec<String> {
        let export = topology.desired().export;
        export.communities.iter().map(|(cidr, list)| format!("{cidr} {}", strings(list).join(" "))).collect()
    };
    assert_eq!(told(&topology), ["10.0.0.0/8 64512:1 64512:9 1:2:3"]);
    topology.handle_update(&configuration("node.a", spec("64512:2", "fd00::/8")));
    assert_eq!(told(&topology), ["fd00::/8 64512:2 64512:9 1:2:3"]);
    // A name is one of the same object.
    let foreign = json!({"prefixAdvertisements": [{"cidr": "10.0.0.0/8", "communities": ["bgp"]}]});
    topology.handle_update(&configuration("node.a", foreign));
    assert_eq!(told(&topology), ["10.0.0.0/8 "]);
    let expected = "its prefixAdvertisements name community bgp, which it does not define; it is left out";
    assert_eq!(problems(&topology, "node.a"), [expected]);
}

/// `cluster_routes`, `felix_cluster_routing`.
#[test]
fn who_programs_which_routes() {
    let named = |name: &str, cidr: &str, ipip: &str, vxlan: &str| {
        object(Kind::IpPool, name, json!({}), json!({"cidr": cidr, "ipipMode": ipip, "vxlanMode": vxlan}))
    };
    let base = [
        dual("a", 1, "x", json!({})),
        named("always", "10.1.0.0/16", "Always", "Never"),
        named("cross", "10.2.0.0/16", "CrossSubnet", "Never"),
        named("plain", "10.3.0.0/16", "Never", "Never"),
        named("vxlan", "10.4.0.0/16", "Never", "CrossSubnet"),
        named("plain6", "fd01::/48", "Never", "Never"),
        named("vxlan6", "fd02::/48", "Never", "Always"),
    ];
    use PoolRouting::{Elsewhere, Plain, Tunnel, TunnelAcrossSubnets};
    for (word, always, cross, plain) in [
        (None, Elsewhere, Elsewhere, Plain),
        (Some("EnabledNoEncapOnly"), Elsewhere, Elsewhere, Plain),
        (Some("Enabled"), Tunnel, TunnelAcrossSubnets, Plain),
        (Some("EnabledIPIPOnly"), Tunnel, TunnelAcrossSubnets, Elsewhere),
        (Some("Disabled"), Elsewhere, Elsewhere, Elsewhere),
    ] {
        let mut topology = after(&base);
        topology.handle_update(&configuration("default", json!({"programClusterRoutes": word})));
        let kernel = topology.desired().kernel;
        let routings: Vec<PoolRouting> = kernel.pools.values().copied().collect();
        assert_eq!(routings, [always, cross, plain, Elsewhere, plain, Elsewhere], "{word:?}");
        assert_eq!(kernel.subnet.ipv4, Some("10.192.0.0/16".parse().unwrap()));
        assert_eq!(kernel.subnet.ipv6, Some("2001::/64".parse().unwrap()));
    }
}

#[test]
fn configurations_that_contradict_each_other() {
    let felix = |spec: Value| object(Kind::FelixConfiguration, "default", json!({}), spec);
    let mut topology = after(&[]);
    assert!(problems(&topology, "default").is_empty());
    topology.handle_update(&configuration("default", json!({"programClusterRoutes": "Enabled"})));
    let both = "programClusterRoutes of BGPConfiguration and FelixConfiguration give routes of IP-in-IP pools to both";
    assert_eq!(problems(&topology, "default"), [both]);
    topology.handle_update(&felix(json!({"programClusterRoutes": "Disabled"})));
    assert!(problems(&topology, "default").is_empty());
    topology.handle_update(&configuration("default", json!({"ipv4NormalRoutePriority": 500})));
    assert_eq!(
        problems(&topology, "default"),
        [
            "programClusterRoutes of BGPConfiguration and FelixConfiguration give routes of IP-in-IP pools to neither",
            "its ipv4NormalRoutePriority is 500, but that of FelixConfiguration is 1024: they must be equal",
        ]
    );
    topology.handle_update(&felix(json!({"ipv4NormalRoutePriority": 500})));
    assert!(problems(&topology, "default").is_empty());
    assert!(
        after(&[configuration("default", json!({"ignoredInterfaces": ["eth1"], "logSeverityScreen": "Debug"}))])
            .diagnostics()
            .len()
            == 2
    );
}

#[test]
fn identities() {
    let only6 = object(Kind::Node, "a", json!({}), json!({"bgp": {"ipv6Address": "2001::1/64"}}));
    let topology = after(&[only6.clone(), dual("b", 2, "x", json!({}))]);
    assert_eq!(topology.desired(), DesiredBgp::default());
    assert_eq!(
        problems(&topology, "a"),
        ["it has no IPv4 address and no router id is configured; it does not speak BGP"]
    );
    // The first octets of SHA-256("a") are ca 97 81 12.
    for (source, id) in [
        (RouterIdSource::NameHash, Ipv4Addr::new(0xca, 0x97, 0x81, 0x12)),
        (RouterIdSource::Literal(Ipv4Addr::new(1, 2, 3, 4)), Ipv4Addr::new(1, 2, 3, 4)),
    ] {
        let mut topology = Topology::new("a").with_router_id(source);
        topology.handle_update(&only6);
        topology.handle_update(&dual("b", 2, "x", json!({})));
        assert_eq!(topology.desired().local.unwrap().router_id, id);
        assert_eq!(sessions(&topology), ["Mesh 2001::2 as 64512"]);
    }
    let topology = after(&[dual("a", 1, "x", json!({})), dual("b", 1, "x", json!({}))]);
    assert_eq!(problems(&topology, "b").len(), 2, "{:?}", problems(&topology, "b"));
    assert!(sessions(&topology).is_empty());
}

#[test]
fn normal_priorities_are_those_of_routes() {
    let mut topology = after(&[
        dual("a", 1, "x", json!({})),
        configuration("default", json!({"ipv4NormalRoutePriority": 500, "ipv6NormalRoutePriority": 600})),
        affinity("a", "10.1.0.0/26", AffinityState::Confirmed),
        affinity("a", "fd00::/122", AffinityState::Confirmed),
        pool("p", "10.1.0.0/16", false),
        workload("w", "a", "10.1.0.5/32"),
    ]);
    let told = |topology: &Topology| -> Vec<String> {
        topology.desired().originated.iter().map(|one| format!("{} {}", one.prefix, one.priority)).collect()
    };
    assert_eq!(told(&topology), ["10.1.0.0/26 500", "fd00::/122 600"]);
    assert_eq!(topology.desired().export.normal_priority, ByFamily { ipv4: 500, ipv6: 600 });
    assert_eq!(topology.desired().kernel.normal_priority, ByFamily { ipv4: 500, ipv6: 600 });
    // A workload that has just come by live migration.
    assert!(topology.handle_priority("10.1.0.5/32".parse().unwrap(), Some(250)));
    assert_eq!(told(&topology), ["10.1.0.0/26 500", "10.1.0.5/32 250", "fd00::/122 600"]);
    assert!(topology.handle_priority("10.1.0.5/32".parse().unwrap(), None));
    assert_eq!(told(&topology).len(), 2);
}

#[test]
fn liveness_is_asked_for_by_annotation() {
    let annotated = |config: &str| json!({"annotations": {"bfd.projectcalico.org/config": config}});
    let far = object(Kind::Node, "c", json!({}), json!({"bgp": {"ipv4Address": "10.7.0.1/16"}}));
    let mut topology = after(&[
        dual("a", 1, "x", json!({})),
        dual("b", 2, "x", json!({})),
        far,
        object(Kind::BgpConfiguration, "default", annotated(r#"{"multiplier": 4}"#), json!({})),
        object(
            Kind::BgpPeer,
            "p",
            annotated(r#"{"transmitInterval": "1s"}"#),
            json!({"peerIP": "192.0.2.1", "asNumber": 1}),
        ),
        peer("q", json!({"peerIP": "192.0.2.2", "asNumber": 1})),
    ]);
    let pause = core::time::Duration::from_millis(300);
    let bfd = Bfd { transmit: pause, receive: pause, multiplier: 4, multihop: false };
    let router = Bfd { transmit: core::time::Duration::from_secs(1), multiplier: 3, multihop: true, ..bfd };
    let found: Vec<_> = topology.desired().peers.into_iter().map(|peer| peer.session.bfd).collect();
    assert_eq!(found, [Some(Bfd { multihop: true, ..bfd }), Some(bfd), Some(router), None, Some(bfd)]);
    topology.handle_update(&object(Kind::BgpPeer, "p", annotated("{"), json!({"peerIP": "192.0.2.1", "asNumber": 1})));
    assert!(problems(&topology, "p")[0].starts_with("its annotation bfd.projectcalico.org/config is not carried out"));
}

/// Nodes that both have a WireGuard device reach each other through it.
#[test]
fn routes_to_wireguard_nodes_are_others() {
    let with = |name: &str, number: u8, device: bool| {
        let bgp = json!({"ipv4Address": format!("10.192.0.{number}/16")});
        let device = if device { format!("10.9.0.{number}") } else { String::new() };
        object(Kind::Node, name, json!({}), json!({"bgp": bgp, "wireguard": {"interfaceIPv4Address": device}}))
    };
    let nodes = [with("a", 1, true), with("b", 2, true), with("c", 3, false)];
    assert_eq!(strings(&after(&nodes).desired().kernel.other_next_hops), ["10.192.0.2"]);
    let nodes = [with("a", 1, false), with("b", 2, true)];
    assert!(after(&nodes).desired().kernel.other_next_hops.is_empty());
}
