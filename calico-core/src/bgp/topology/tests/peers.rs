//! BGPPeers: inputs of upstream's template tests (`confd/tests/mock_data/calicoctl`) told as sessions.

use alloc::format;

use serde_json::{Value, json};

use super::*;
use crate::bgp::{NextHop, Password, Secret, Source};

/// An object as it is stored.
pub(super) fn object(kind: Kind, name: &str, metadata: Value, spec: Value) -> Update {
    let mut metadata = metadata;
    metadata["name"] = name.into();
    let document = json!({"metadata": metadata, "spec": spec});
    let value = Resource::decode(kind, &document).unwrap_or_else(|faults| panic!("{document}: {faults:?}"));
    Update { key: ResourceKey::cluster(kind, name), value: Some(Arc::new(value)) }
}

pub(super) fn peer(name: &str, spec: Value) -> Update {
    object(Kind::BgpPeer, name, json!({}), spec)
}

pub(super) fn configuration(name: &str, spec: Value) -> Update {
    object(Kind::BgpConfiguration, name, json!({}), spec)
}

/// A node with both families, a label `role`, and further BGP settings.
pub(super) fn dual(name: &str, number: u8, role: &str, bgp: Value) -> Update {
    let mut settings = json!({
        "ipv4Address": format!("10.192.0.{number}/16"), "ipv6Address": format!("2001::{number}/64"),
    });
    settings.as_object_mut().unwrap().extend(bgp.as_object().cloned().unwrap_or_default());
    object(Kind::Node, name, json!({"labels": {"role": role}}), json!({"bgp": settings}))
}

/// `KIND ADDRESS:PORT AS` of each session, and what is not as by default.
pub(super) fn sessions(topology: &Topology) -> Vec<String> {
    let peers = topology.desired().peers;
    let told = peers.iter().map(|peer| {
        let mut text = format!("{:?} {}", peer.kind, peer.id);
        if peer.port != 179 {
            text += &format!(" port {}", peer.port);
        }
        text += &format!(" as {}", peer.as_number);
        if peer.policy.reflector_client {
            text += " client";
        }
        if let Some(number) = peer.session.local_as {
            text += &format!(" local {number}");
        }
        text
    });
    told.collect()
}

fn mesh_off() -> Update {
    configuration("default", json!({"nodeToNodeMeshEnabled": false}))
}

pub(super) fn problems(topology: &Topology, name: &str) -> Vec<String> {
    let all = topology.diagnostics().into_iter();
    all.filter(|(key, _)| key.name() == Some(name)).map(|(_, problem)| problem.to_string()).collect()
}

/// `explicit_peering`: global, node-specific, by selector, of routers and of nodes.
#[test]
fn who_has_which_sessions() {
    let base = [
        mesh_off(),
        dual("a", 1, "worker", json!({})),
        dual("b", 2, "reflector", json!({"asNumber": 64513})),
        dual("c", 3, "worker", json!({})),
    ];
    let mesh_names: [&str; 0] = [];
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (json!({"peerIP": "192.0.2.1", "asNumber": 64567}), vec!["Global 192.0.2.1 as 64567"]),
        (json!({"peerIP": "192.0.2.1:1790", "asNumber": 64567}), vec!["Global 192.0.2.1 port 1790 as 64567"]),
        (json!({"peerIP": "[fd00::1]:500", "asNumber": 64567}), vec!["Global fd00::1 port 500 as 64567"]),
        (json!({"node": "a", "peerIP": "192.0.2.1", "asNumber": 64567}), vec!["Node 192.0.2.1 as 64567"]),
        (json!({"node": "c", "peerIP": "192.0.2.1", "asNumber": 64567}), mesh_names.to_vec()),
        (
            json!({"nodeSelector": "role == 'worker'", "peerIP": "192.0.2.1", "asNumber": 1}),
            vec!["Node 192.0.2.1 as 1"],
        ),
        (json!({"nodeSelector": "role == 'reflector'", "peerIP": "192.0.2.1", "asNumber": 1}), vec![]),
        (json!({"peerSelector": "role == 'reflector'"}), vec!["Global 10.192.0.2 as 64513", "Global 2001::2 as 64513"]),
        (
            json!({"nodeSelector": "role == 'worker'", "peerSelector": "all()"}),
            vec![
                "Node 10.192.0.2 as 64513",
                "Node 10.192.0.3 as 64512",
                "Node 2001::2 as 64513",
                "Node 2001::3 as 64512",
            ],
        ),
        // Mirror images: of a selector both families, of an address its own.
        (
            json!({"nodeSelector": "role == 'reflector'", "peerSelector": "role == 'worker'"}),
            vec!["Node 10.192.0.2 as 64513", "Node 2001::2 as 64513"],
        ),
        (
            json!({"node": "b", "peerIP": "2001::1", "asNumber": 64512, "localASNumber": 5, "reachableBy": "fd00::5"}),
            vec!["Node 2001::2 as 64513"],
        ),
        (
            json!({"nodeSelector": "role == 'reflector'", "peerSelector": "role == 'worker'", "reversePeering": "Manual"}),
            vec![],
        ),
        (json!({"node": "b", "peerIP": "10.192.0.1", "asNumber": 7}), vec![]),
        (json!({"node": "b", "peerIP": "10.192.0.1:179", "asNumber": 64512}), vec!["Node 10.192.0.2 as 64513"]),
        // Its own address is nobody's else.
        (json!({"peerIP": "10.192.0.1", "asNumber": 64512, "node": "a"}), vec![]),
        // What cannot be read has no session.
        (json!({"peerIP": "fe80::1", "asNumber": 64512}), vec![]),
        (json!({"peerIP": "192.0.2.1"}), vec![]),
        (json!({}), vec![]),
        // The AS number that is presented decides whether the session is internal.
        (
            json!({"peerIP": "192.0.2.1", "asNumber": 64567, "localASNumber": 64567}),
            vec!["Global 192.0.2.1 as 64567 local 64567"],
        ),
    ];
    for (spec, expected) in cases {
        let mut topology = after(&base);
        topology.handle_update(&peer("p", spec.clone()));
        assert_eq!(sessions(&topology), expected, "{spec}");
        let mut reversed = Topology::new("a");
        reversed.handle_update(&peer("p", spec.clone()));
        base.iter().rev().for_each(|update| {
            reversed.handle_update(update);
        });
        assert_eq!(reversed.desired(), topology.desired(), "{spec}");
        topology.handle_update(&gone(&peer("p", spec)));
        assert!(sessions(&topology).is_empty());
    }
}

#[test]
fn who_comes_first_has_the_address() {
    let base = [mesh_off(), dual("a", 1, "x", json!({})), dual("b", 2, "x", json!({}))];
    let router = |node: &str, number: u32| json!({"node": node, "peerIP": "192.0.2.1", "asNumber": number});
    let all = [
        peer("z-global", json!({"peerIP": "192.0.2.1", "asNumber": 1})),
        peer("y-global", json!({"peerIP": "192.0.2.1", "asNumber": 2})),
        peer("a-node", router("a", 3)),
        peer("b-node", router("a", 4)),
    ];
    let mut topology = after(&base);
    all.iter().for_each(|update| {
        topology.handle_update(update);
    });
    let expected = ["Global 192.0.2.1 as 2", "Global 192.0.2.1 as 1", "Node 192.0.2.1 as 3", "Node 192.0.2.1 as 4"];
    for (first, at) in expected.into_iter().zip([1, 0, 2, 3]) {
        assert_eq!(sessions(&topology), [first]);
        topology.handle_update(&gone(&all[at]));
    }
    assert!(sessions(&topology).is_empty());

    // Mirror images give way to what is said, and the mesh to both.
    let mut topology = after(&base[1..]);
    assert_eq!(sessions(&topology), ["Mesh 10.192.0.2 as 64512", "Mesh 2001::2 as 64512"]);
    topology.handle_update(&peer("m", json!({"node": "b", "peerIP": "10.192.0.1", "asNumber": 64512})));
    assert_eq!(sessions(&topology), ["Node 10.192.0.2 as 64512", "Mesh 2001::2 as 64512"]);
    assert_eq!(problems(&topology, "m"), ["its sessions take the place of 1 of the mesh's"]);
    topology.handle_update(&peer("g", json!({"peerIP": "10.192.0.2", "asNumber": 64512})));
    assert_eq!(sessions(&topology), ["Global 10.192.0.2 as 64512", "Mesh 2001::2 as 64512"]);
    assert!(problems(&topology, "m").is_empty(), "a mirror image that gives way is no news");
}

#[test]
fn what_is_left_out_is_told() {
    let mut topology = after(&[mesh_off(), dual("a", 1, "x", json!({}))]);
    topology.handle_update(&peer("a", json!({"peerIP": "192.0.2.1", "asNumber": 1})));
    topology
        .handle_update(&peer("b", json!({"node": "a", "peerIP": "192.0.2.1:180", "asNumber": 1, "filters": ["f"]})));
    assert_eq!(
        problems(&topology, "b"),
        [
            "its filter f does not exist; routes pass as if it were not listed",
            "its session with 192.0.2.1 is left out: BGPPeer(a) has one with that address",
        ]
    );
}

/// Ports of nodes: their own, else the cluster's, else that of the program.
#[test]
fn ports_of_nodes() {
    let base = [
        configuration("default", json!({"listenPort": 1179})),
        configuration("node.b", json!({"listenPort": 500})),
        configuration("node.a", json!({"listenPort": 600})),
        dual("a", 1, "x", json!({})),
        dual("b", 2, "x", json!({})),
        dual("c", 3, "x", json!({})),
    ];
    let topology = after(&base);
    let ports = |topology: &Topology| -> Vec<u16> { topology.desired().peers.iter().map(|peer| peer.port).collect() };
    assert_eq!(ports(&topology), [500, 1179, 500, 1179]);
    assert_eq!(topology.desired().local.unwrap().listen.port, 600);
    // An address of a node is the node; a router has its own port.
    let mut topology = after(&base);
    topology.handle_update(&mesh_off());
    topology.handle_update(&peer("b", json!({"peerIP": "10.192.0.2", "asNumber": 64512})));
    topology.handle_update(&peer("r", json!({"peerIP": "192.0.2.1", "asNumber": 64512})));
    assert_eq!(ports(&topology), [500, 179]);
    // A port that is given means a node that listens on it; its own is compared with the cluster's as well.
    for (cluster, given, mirrored) in
        [(None, 600, true), (None, 601, false), (Some(700), 600, false), (Some(600), 600, true)]
    {
        let mut topology = after(&base[2..5]);
        let default = json!({"nodeToNodeMeshEnabled": false, "listenPort": cluster});
        topology.handle_update(&configuration("default", default));
        let address = format!("10.192.0.1:{given}");
        topology.handle_update(&peer("m", json!({"node": "b", "peerIP": address, "asNumber": 64512})));
        assert_eq!(sessions(&topology).len(), usize::from(mirrored), "{cluster:?} {given}");
    }
}

/// `next_hop_mode`, `sourceaddr_gracefulrestart`, `ttl_security`, `reachable_by`.
#[test]
fn what_a_session_is_made_of() {
    let mut topology = after(&[mesh_off(), dual("a", 1, "x", json!({})), dual("b", 2, "y", json!({}))]);
    let spec = json!({
        "peerIP": "192.0.2.1", "asNumber": 64512, "sourceAddress": "None", "maxRestartTime": "10.6s", "keepaliveTime": "20s",
        "ttlSecurity": 3, "reachableBy": "10.192.0.254", "numAllowedLocalASNumbers": 2, "nextHopMode": "Self",
    });
    topology.handle_update(&peer("p", spec));
    let peers = topology.desired().peers;
    let (session, policy) = (&peers[0].session, &peers[0].policy);
    assert_eq!((session.source, session.restart_time, session.keepalive), (Source::Kernel, Some(11), Some(20)));
    assert_eq!((session.ttl_security, session.gateway), (Some(3), Some("10.192.0.254".parse().unwrap())));
    assert_eq!((policy.own_as_allowed, policy.next_hop, session.passive), (2, NextHop::Own, false));
    let next_hop = |topology: &Topology| topology.desired().peers[0].policy.next_hop;
    for (fields, internal, external) in [
        (json!({}), NextHop::Auto, NextHop::Auto),
        (json!({"nextHopMode": "Auto"}), NextHop::Auto, NextHop::Auto),
        (json!({"nextHopMode": "Keep"}), NextHop::Keep, NextHop::Keep),
        (json!({"keepOriginalNextHop": true}), NextHop::Auto, NextHop::Keep),
        (json!({"keepOriginalNextHop": true, "nextHopMode": "Self"}), NextHop::Own, NextHop::Own),
    ] {
        for (number, expected) in [(64512, internal), (64513, external)] {
            let mut spec = json!({"peerIP": "192.0.2.1", "asNumber": number});
            spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
            topology.handle_update(&peer("p", spec));
            assert_eq!(next_hop(&topology), expected, "{fields} {number}");
        }
    }
    // The gateway is one of the near end; whoever is selected knows this node by its own AS number.
    topology.handle_update(&peer(
        "p",
        json!({"node": "b", "peerIP": "10.192.0.1", "asNumber": 64512, "reachableBy": "10.0.0.1"}),
    ));
    assert_eq!(topology.desired().peers[0].session.gateway, None);
    topology.handle_update(&peer("p", json!({"peerIP": "192.0.2.1", "asNumber": 1, "reachableBy": "fd00::1"})));
    assert!(topology.desired().peers.is_empty());
    assert!(
        problems(&topology, "p")[0].starts_with("its reachableBy is \"fd00::1\""),
        "{:?}",
        problems(&topology, "p")
    );
}

/// Who is a client of a reflector: every internal peer but those with the same cluster id.
#[test]
fn clients_of_reflectors() {
    let reflector = |name: &str, number, id: &str| dual(name, number, "x", json!({"routeReflectorClusterID": id}));
    let mut topology = after(&[
        reflector("a", 1, "244.0.0.1"),
        reflector("b", 2, "244.0.0.1"),
        reflector("c", 3, "244.0.0.2"),
        dual("d", 4, "x", json!({"asNumber": 65000})),
        object(Kind::Node, "e", json!({}), json!({"bgp": {"ipv4Address": "10.192.0.5/16"}})),
        peer("all", json!({"peerSelector": "all()", "nodeSelector": "all()"})),
        peer("r", json!({"peerIP": "192.0.2.1", "asNumber": 64512})),
    ]);
    let v4: Vec<_> = sessions(&topology).into_iter().filter(|text| !text.contains("2001")).collect();
    assert_eq!(
        v4,
        [
            "Node 10.192.0.2 as 64512",
            "Node 10.192.0.3 as 64512 client",
            "Node 10.192.0.4 as 65000",
            "Node 10.192.0.5 as 64512 client",
            "Global 192.0.2.1 as 64512 client",
        ]
    );
    assert_eq!(topology.desired().local.unwrap().cluster_id, Some(Ipv4Addr::new(244, 0, 0, 1)));
    topology.handle_update(&dual("a", 1, "x", json!({})));
    assert!(!sessions(&topology).iter().any(|text| text.ends_with("client")));
}

/// `password`, `mesh_password`; but a password that is missing keeps the session down.
#[test]
fn passwords() {
    let reference = |name: &str, key: &str| json!({"secretKeyRef": {"name": name, "key": key}});
    let mut topology = after(&[
        configuration("default", json!({"nodeMeshPassword": reference("mesh", "k"), "nodeMeshMaxRestartTime": "200s"})),
        dual("a", 1, "x", json!({})),
        object(Kind::Node, "b", json!({}), json!({"bgp": {"ipv4Address": "10.192.0.2/16"}})),
        peer("p", json!({"peerIP": "192.0.2.1", "asNumber": 1, "password": reference("peers", "k")})),
        peer("other", json!({"node": "b", "peerSelector": "x == 'y'", "password": reference("foreign", "k")})),
    ]);
    let wanted: Vec<_> = topology.secrets().into_iter().map(|name| String::from(&*name)).collect();
    assert_eq!(wanted, ["mesh", "peers"]);
    let passwords = |topology: &Topology| -> Vec<Password> {
        topology.desired().peers.into_iter().map(|peer| peer.session.password).collect()
    };
    let missing = |text: &str| Password::Missing(text.into());
    assert_eq!(
        passwords(&topology),
        [missing("secret mesh has not been read"), missing("secret peers has not been read")]
    );
    assert_eq!(topology.desired().peers[0].session.restart_time, Some(200));
    assert!(topology.handle_secret("mesh", None));
    assert!(topology.handle_secret("peers", Some([("k".into(), "very-secret".into())].into())));
    let key = Password::Key(Secret::new("very-secret".into()).unwrap());
    assert_eq!(passwords(&topology), [missing("secret mesh does not exist"), key]);
    assert_eq!(problems(&topology, "default"), ["secret mesh does not exist; its sessions stay down"]);
    assert!(!topology.handle_secret("mesh", None));
}
