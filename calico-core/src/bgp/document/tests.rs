use serde_json::json;

use super::*;
use crate::bgp::{AddPath, Bfd, Families, NextHop, Password, PeerPolicy, Role, SessionParameters, Source};

fn refused(document: &Value) -> String {
    DesiredBgp::from_document(document).unwrap_err().to_string()
}

#[test]
fn the_least_that_is_a_speaker() {
    let desired = DesiredBgp::from_document(&json!({
        "asNumber": 64512,
        "addresses": ["192.0.2.1"],
        "prefixes": ["10.2.0.0/16", "10.1.0.0/16", "10.1.0.0/16"],
        "peers": [{"address": "192.0.2.3", "asNumber": "1.1"}, {"address": "192.0.2.2", "asNumber": 64513}],
    }));
    let desired = desired.unwrap();
    let local = desired.local.unwrap();
    assert_eq!((local.router_id, local.listen.port), ("192.0.2.1".parse().unwrap(), BGP_PORT));
    assert!(local.listen.own_addresses);
    assert_eq!(
        desired.originated.iter().map(|one| one.prefix.to_string()).collect::<Vec<_>>(),
        ["10.1.0.0/16", "10.2.0.0/16"]
    );
    let peers: Vec<_> = desired.peers.iter().map(|peer| (peer.name.as_str(), peer.as_number)).collect();
    assert_eq!(peers, [("192.0.2.2", AsNumber::new(64513)), ("192.0.2.3", AsNumber::new(65537))]);
    assert_eq!(desired.peers[0].session, SessionParameters::default());
}

/// Every field that a peer can have.
fn rich() -> Value {
    json!({
        "address": "fe80::2%eth0", "asNumber": 64513, "name": "tor", "port": 1790, "families": ["IPv4", "IPv6"],
        "passive": true, "password": "key", "ttlSecurity": 1, "sourceAddress": "None", "reachableBy": "fe80::9",
        "localASNumber": 65000, "holdTime": "1m30s", "keepaliveTime": "10s", "maxRestartTime": "2m", "longLivedTime": "1h",
        "addPath": {"receive": true, "send": 4}, "extendedNextHop": true, "role": "Customer",
        "bfd": {"transmitInterval": "50ms", "multiplier": 5}, "maximumPrefixes": 1000, "nextHopMode": "Self",
        "reflectorClient": true, "numAllowedLocalASNumbers": 2, "filters": ["none"],
    })
}

fn with_filters(peer: &Value) -> Value {
    json!({
        "asNumber": 64512, "routerID": "1.1.1.1", "addresses": ["2001:db8::1"], "port": 1790, "clusterID": "2.2.2.2",
        "peers": [peer], "filters": {"none": {"importV4": [{"action": "Reject"}]}},
    })
}

#[test]
fn all_that_a_peer_can_be() {
    let desired = DesiredBgp::from_document(&with_filters(&rich())).unwrap();
    let [peer] = desired.peers.as_slice() else { panic!("one peer") };
    assert_eq!((peer.id.to_string().as_str(), peer.port, peer.name.as_str()), ("fe80::2%eth0", 1790, "tor"));
    let expected = SessionParameters {
        local_as: Some(AsNumber::new(65000)),
        families: Families::BOTH,
        source: Source::Kernel,
        passive: true,
        password: Password::Key(crate::bgp::Secret::new("key".into()).unwrap()),
        ttl_security: Some(1),
        hold_time: Some(90),
        keepalive: Some(10),
        restart_time: Some(120),
        long_lived: Some(3600),
        add_path: AddPath { receive: true, send: 4 },
        extended_next_hop: true,
        role: Some(Role::Customer),
        bfd: Some(Bfd {
            transmit: core::time::Duration::from_millis(50),
            receive: core::time::Duration::from_millis(300),
            multiplier: 5,
            multihop: false,
        }),
        gateway: Some("fe80::9".parse().unwrap()),
        maximum_prefixes: Some(1000),
    };
    assert_eq!(peer.session, expected);
    let PeerPolicy { next_hop, reflector_client, own_as_allowed, filters } = &peer.policy;
    assert_eq!((*next_hop, *reflector_client, *own_as_allowed, filters.len()), (NextHop::Own, true, 2, 1));
    assert_eq!(desired.local.unwrap().cluster_id, Some("2.2.2.2".parse().unwrap()));
}

#[test]
fn callers_from_a_range_are_like_one() {
    let desired = DesiredBgp::from_document(&json!({
        "asNumber": 64512, "addresses": ["192.0.2.1"],
        "dynamic": [{"range": "192.0.2.0/24", "limit": 3, "like": {"asNumber": 64512, "reflectorClient": true}}],
    }));
    let desired = desired.unwrap();
    assert_eq!((desired.dynamic[0].limit, desired.dynamic[0].like.policy.reflector_client), (3, true));
}

#[test]
fn what_is_wrong_is_named() {
    let base = |change: &dyn Fn(&mut Value)| {
        let mut peer = rich();
        change(&mut peer);
        refused(&with_filters(&peer))
    };
    let set = |field: &'static str, value: Value| base(&move |peer| peer[field] = value.clone());
    for (told, expected) in [
        (refused(&json!({"asNumber": 1})), "routerID: a speaker without an IPv4 address needs one"),
        (refused(&json!({"asNumber": 1, "routerID": "0.0.0.0"})), "routerID: it cannot be zero"),
        (refused(&json!({"asNumber": 1, "rooterID": "1.1.1.1"})), "the document: unknown field `rooterID`"),
        (
            refused(&json!({"asNumber": 1, "addresses": ["1.1.1.1", "1.1.1.2"]})),
            "addresses[1]: there is one of its family",
        ),
        (set("address", "192.0.2.300".into()), "peers[0]: \"192.0.2.300\" is no address"),
        (
            set("address", "fe80::2".into()),
            "peers[0]: fe80::2: link-local addresses, and only those, have an interface",
        ),
        (set("address", "192.0.2.2%eth0".into()), "peers[0]: 192.0.2.2%eth0: link-local addresses, and only those"),
        (set("address", "2001:db8::1".into()), "peers[0]: its address is the speaker's own"),
        (set("asNumber", Value::Null), "peers[0]: it has no asNumber"),
        (set("families", json!([])), "peers[0]: families: give IPv4"),
        (set("password", "".into()), "peers[0]: password: the password is empty"),
        (set("password", 123_456.into()), "peers[0]: password: it is no text; put it in quotes"),
        (set("holdTime", "2s".into()), "peers[0]: holdTime: it is 0s, or at least 3s"),
        (set("holdTime", "1.5s".into()), "peers[0]: holdTime: \"1.5s\" is no number of whole seconds"),
        (
            set("maxRestartTime", "2h".into()),
            "peers[0]: maxRestartTime: \"2h\" is no number of whole seconds up to 4095s",
        ),
        (set("sourceAddress", "192.0.2.1".into()), "peers[0]: sourceAddress: 192.0.2.1 cannot reach fe80::2%eth0"),
        (set("filters", json!(["nobody"])), "peers[0]: filters: there is no filter \"nobody\""),
        (set("bfd", json!({"multiplier": 0})), "peers[0]: bfd.multiplier: it cannot be 0"),
        (set("bfd", json!({"receiveInterval": "2m"})), "peers[0]: bfd.receiveInterval: \"2m\" is no duration"),
    ] {
        assert!(told.starts_with(expected), "{told}\n{expected}");
    }
    let range = json!({"range": "192.0.2.0/24", "limit": 3, "like": {"asNumber": 64512}});
    let ranges = json!({"asNumber": 1, "routerID": "1.1.1.1", "dynamic": [range, range]});
    assert_eq!(refused(&ranges), "dynamic[1]: there is a range 192.0.2.0/24 already");
    let mut twice = with_filters(&rich());
    twice["peers"] = json!([rich(), rich()]);
    assert_eq!(refused(&twice), "peers[1]: fe80::2%eth0 is a peer already");
    let mut odd = with_filters(&rich());
    odd["filters"]["none"]["importV4"][0]["cidr"] = "10.0.0.0/8".into();
    assert!(refused(&odd).starts_with("filters.none: "), "{}", refused(&odd));
}
