use alloc::string::{String, ToString};

use serde_json::{Value, json};

use super::*;
use crate::resource::{Kind, v1::names};

/// The v3 document, which must satisfy the rules of its kind.
fn converted(value: Value) -> Value {
    let resource = convert(&value).unwrap();
    let document = resource.document();
    Resource::decode_strict(resource.kind(), &document, None).unwrap();
    document
}

fn faults(value: Value) -> String {
    convert(&value).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn v1(kind: &str, metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// Upstream's table: the name, what it becomes, and whether a suffix follows.
#[test]
fn names_are_those_of_upstream() {
    for (name, expected) in [
        ("abcdef", "abcdef"),
        ("Abcdef", "abcdef"),
        ("abc---def", "abc---def"),
        ("abc/def", "abc.def"),
        ("abc$$def", "abc-def"),
        ("abc$!$def", "abc-def"),
        ("abc...def", "abc.def"),
        ("abc.-.def", "abc.def"),
        ("abc-.def", "abc.def"),
        ("abc.-def", "abc.def"),
        ("-abc.def", "abc.def"),
        ("abc.def.-", "abc.def"),
        ("$ABC/DeF-123.-456!", "abc.def-123.456"),
        ("caf\u{e9}", "caf"),
    ] {
        assert_eq!(names::normalised(name), expected, "{name}");
        let converted = names::converted(name);
        match converted.strip_prefix(expected) {
            Some("") => assert_eq!(name, expected),
            Some(suffix) => assert!(name != expected && suffix.len() == 9 && suffix.starts_with('-'), "{converted}"),
            None => panic!("{converted}"),
        }
    }
    // sha1sum of the name as it was.
    assert_eq!(names::converted("Abcdef"), "abcdef-78905ee1");
    assert_eq!(names::converted_without_dots("abc.def"), "abc-def-e31e2c7b");
    assert_eq!(names::profile("k8s_ns.shop"), "kns.shop");
    assert_eq!(names::of_address("10.0.0.1".parse().unwrap()), "10-0-0-1");
    assert_eq!(names::of_address("aa:bb::".parse().unwrap()), "00aa-00bb-0000-0000-0000-0000-0000-0000");
    assert_eq!(names::of_cidr(&"2001::/120".parse().unwrap()), "2001---120");
}

#[test]
fn pools() {
    let pool = |ipip: Value| {
        let metadata = json!({"cidr": "10.233.64.0/18"});
        converted(v1("ipPool", metadata, json!({"ipip": ipip, "nat-outgoing": true})))
    };
    let always = pool(json!({"enabled": true, "mode": "always"}));
    assert_eq!(
        always,
        json!({
            "kind": "IPPool", "apiVersion": "projectcalico.org/v3", "metadata": {"name": "10-233-64-0-18"},
            "spec": {
                "cidr": "10.233.64.0/18", "vxlanMode": "Never", "ipipMode": "Always", "natOutgoing": true, "blockSize": 26,
                "nodeSelector": "all()", "allowedUses": ["Workload", "Tunnel"], "assignmentMode": "Automatic",
            },
        })
    );
    for (ipip, mode) in [
        (json!({"enabled": true}), "Always"),
        (json!({"enabled": true, "mode": "cross-subnet"}), "CrossSubnet"),
        (json!({"mode": "always"}), "Never"),
        (Value::Null, "Never"),
    ] {
        assert_eq!(pool(ipip)["spec"]["ipipMode"], mode);
    }
    assert!(faults(v1("ipPool", json!({"cidr": "10.0.0.1/24"}), json!({}))).contains("metadata.cidr"));
    assert!(faults(v1("ipPool", json!({}), json!({}))).contains("metadata.cidr"));
    let typo = v1("ipPool", json!({"cidr": "10.0.0.0/24"}), json!({"natOutgoing": true}));
    assert!(faults(typo).contains("spec.natOutgoing (did you mean nat-outgoing?)"));
}

#[test]
fn nodes_and_peers() {
    let bgp = json!({"asNumber": 64513, "ipv4Address": "10.0.0.1/24", "ipv6Address": "aa:bb::1"});
    let node = converted(v1(
        "node",
        json!({"name": "Host_1"}),
        json!({"bgp": bgp, "orchRefs": [{"orchestrator": "k8s", "nodeName": "h"}]}),
    ));
    assert_eq!(node["metadata"]["name"], "host-1");
    assert_eq!(
        node["spec"]["bgp"],
        json!({"asNumber": 64513, "ipv4Address": "10.0.0.1/24", "ipv6Address": "aa:bb::1/128"})
    );
    assert_eq!(node["spec"]["orchRefs"][0]["nodeName"], "h");
    assert!(faults(v1("node", json!({"name": "a"}), json!({"bgp": {}}))).contains("ipv4Address or ipv6Address"));

    let peer = |metadata: Value| v1("bgpPeer", metadata, json!({"asNumber": 64512}));
    let global = converted(peer(json!({"scope": "global", "peerIP": "10.0.0.9"})));
    assert_eq!(
        (&global["metadata"]["name"], &global["spec"]),
        (&json!("10-0-0-9"), &json!({"peerIP": "10.0.0.9", "asNumber": 64512}))
    );
    let of_node = converted(peer(json!({"scope": "node", "node": "Host_1", "peerIP": "10.0.0.9"})));
    assert_eq!((&of_node["metadata"]["name"], &of_node["spec"]["node"]), (&json!("host-1.10-0-0-9"), &json!("host-1")));
    assert!(faults(peer(json!({"scope": "node", "peerIP": "10.0.0.9"}))).contains("metadata.node"));
    assert!(faults(peer(json!({"scope": "global", "node": "a", "peerIP": "10.0.0.9"}))).contains("belongs to no node"));
}

#[test]
fn rules_lose_their_tags() {
    let spec = json!({
        "order": 10, "selector": "calico/k8s_ns == 'shop'",
        "ingress": [{
            "action": "allow", "ipVersion": 4, "protocol": "tcp", "icmp": {},
            "source": {"tag": "web", "selector": "has(calico/k8s_ns) || a == 'b'", "net": "20.0.0.2/24", "nets": ["10.0.0.1/24"]},
            "destination": {"notTag": "db", "notSelector": "x == 'y'", "ports": [80, "1000:2000", "http"]},
        }, {"action": "next-tier", "protocol": 17, "source": {"tag": "web"}}],
    });
    let policy = converted(v1("policy", json!({"name": "Web.one", "annotations": {"a": "b"}}), spec));
    assert_eq!(policy["metadata"]["name"].as_str().unwrap().split_at(7).0, "web-one");
    assert_eq!(policy["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(
        policy["spec"],
        json!({
            "tier": "default", "order": 10, "selector": "projectcalico.org/namespace == 'shop'", "types": ["Ingress"],
            "ingress": [{
                "action": "Allow", "ipVersion": 4, "protocol": "TCP",
                "source": {
                    "nets": ["10.0.0.0/24", "20.0.0.0/24"],
                    "selector": "(has(projectcalico.org/namespace) || a == 'b') && web == ''",
                },
                "destination": {"notSelector": "(x == 'y') || db == ''", "ports": [80, "1000:2000", "http"]},
            }, {"action": "Pass", "protocol": 17, "source": {"selector": "web == ''"}}],
        })
    );
    let tiered = converted(v1(
        "policy",
        json!({"name": "a", "tier": "t"}),
        json!({"preDNAT": true, "ingress": [{"action": "log"}]}),
    ));
    assert_eq!((&tiered["metadata"]["name"], &tiered["spec"]["applyOnForward"]), (&json!("t.a"), &json!(true)));
    // A rule that lost its action would allow.
    let lost = faults(v1("policy", json!({"name": "a"}), json!({"egress": [{"protocol": "tcp"}, {"action": "alow"}]})));
    assert!(lost.contains("spec.egress[0].action") && lost.contains("spec.egress[1].action"), "{lost}");
}

#[test]
fn profiles_turn_tags_into_labels() {
    let metadata = json!({"name": "k8s_ns.shop", "tags": ["web"], "labels": {"a": "b"}});
    let profile = converted(v1("profile", metadata, json!({"ingress": [{"action": "allow"}]})));
    assert_eq!(profile["metadata"]["name"], "kns.shop");
    assert_eq!(profile["spec"], json!({"ingress": [{"action": "Allow"}], "labelsToApply": {"a": "b", "web": ""}}));
    let twice = v1("profile", json!({"name": "p", "tags": ["a"], "labels": {"a": "b"}}), json!({}));
    assert!(faults(twice).contains("metadata.tags[0]"));
}

#[test]
fn endpoints() {
    let host = converted(v1(
        "hostEndpoint",
        json!({"name": "eth0", "node": "Host1", "labels": {"a": "b"}}),
        json!({"interfaceName": "eth0", "expectedIPs": ["aa::1", "10.0.0.1"], "profiles": ["k8s_ns.a"],
               "ports": [{"name": "p", "protocol": "udp", "port": 53}]}),
    ));
    assert_eq!(host["metadata"], json!({"name": "host1.eth0", "labels": {"a": "b"}}));
    assert_eq!(
        host["spec"],
        json!({"node": "host1", "interfaceName": "eth0", "expectedIPs": ["10.0.0.1", "aa::1"], "profiles": ["kns.a"],
               "ports": [{"name": "p", "protocol": "UDP", "port": 53}]})
    );
    let workload = |orchestrator: &str, workload: &str| {
        v1(
            "workloadEndpoint",
            json!({"name": "eth0", "node": "host1", "orchestrator": orchestrator, "workload": workload, "activeInstanceID": "c1",
                   "labels": {"calico/k8s_ns": "shop"}}),
            json!({"interfaceName": "cali123", "ipNetworks": ["aa::1/128", "10.0.0.5/32"], "mac": "aa:bb:cc:dd:ee:ff"}),
        )
    };
    let pod = converted(workload("k8s", "shop.web-1"));
    assert_eq!(pod["metadata"]["name"], "host1-k8s-web--1-eth0");
    assert_eq!((&pod["metadata"]["namespace"], &pod["spec"]["containerID"]), (&json!("shop"), &json!("c1")));
    assert_eq!(pod["metadata"]["labels"]["projectcalico.org/namespace"], "shop");
    assert_eq!(pod["spec"]["ipNetworks"], json!(["10.0.0.5/32", "aa::1/128"]));
    for (orchestrator, id, name) in [
        ("cni", "abc", "host1-cni-abc-eth0"),
        ("libnetwork", "abc", "host1-libnetwork-libnetwork-eth0"),
        ("openstack", "vm", "host1-openstack-vm-eth0"),
    ] {
        assert_eq!(converted(workload(orchestrator, id))["metadata"]["name"], name);
    }
    assert!(faults(workload("k8s", "web")).contains("NAMESPACE.POD"));
}

#[test]
fn policies_of_kubernetes() {
    let policy = converted(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"gone": "x"}},
        "spec": {
            "podSelector": {"matchLabels": {"role": "db"}},
            "ingress": [{
                "from": [
                    {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]}, "namespaceSelector": {}},
                    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                ],
                "ports": [{"port": 82}, {"port": 80}, {"port": 81, "protocol": "TCP"}, {"port": "web"}, {"protocol": "UDP"}],
            }],
            "egress": [{}],
        },
    }));
    assert_eq!(policy["metadata"], json!({"name": "web", "namespace": "shop"}));
    let blocks = json!({"nets": ["10.0.0.0/8"], "notNets": ["10.1.0.0/16"]});
    let peers = json!({"selector": "projectcalico.org/orchestrator == 'k8s' && a in { 'x', 'y' }", "namespaceSelector": "all()"});
    let ports = json!({"ports": ["web", "80:82"]});
    assert_eq!(
        policy["spec"],
        json!({
            "order": 1000, "selector": "projectcalico.org/orchestrator == 'k8s' && role == 'db'", "types": ["Ingress", "Egress"],
            "ingress": [
                {"action": "Allow", "protocol": "TCP", "source": peers, "destination": ports},
                {"action": "Allow", "protocol": "TCP", "source": blocks, "destination": ports},
                {"action": "Allow", "protocol": "UDP", "source": peers},
                {"action": "Allow", "protocol": "UDP", "source": blocks},
            ],
            "egress": [{"action": "Allow"}],
        })
    );
}

#[test]
fn only_older_documents_are_read() {
    for (version, kind, told) in [
        ("v1", "Pod", "not supported"),
        ("networking.k8s.io/v1", "Ingress", "not supported"),
        ("projectcalico.org/v3", "Node", "version 3 already"),
        ("v2", "node", "only v1"),
    ] {
        let document = json!({"apiVersion": version, "kind": kind});
        assert!(!is_older(&document));
        assert!(faults(document).contains(told));
    }
    assert!(is_older(&json!({"apiVersion": "v1", "kind": "IPPool"})));
    assert_eq!(convert(&v1("tier", json!({"name": "t"}), json!({"order": 5}))).unwrap().kind(), Kind::Tier);
}

/// What Kubernetes would not take may be stored all the same: its rules allow nothing then.
#[test]
fn a_staged_policy_of_kubernetes_loses_rules_that_cannot_be_said() {
    let spec = json!({"podSelector": {"matchLabels": {"a": "b"}}, "egress": [
        {"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 53, "protocol": "UDP"}]},
        {"to": [{"ipBlock": {"cidr": "nonsense"}}]},
        {"ports": [{"port": 70000}]},
    ]});
    let staged: crate::resource::StagedKubernetesNetworkPolicySpec = serde_json::from_value(spec).unwrap();
    let (policy, faults) = staged.enforced();
    assert_eq!(policy.selector, "projectcalico.org/orchestrator == 'k8s' && a == 'b'");
    assert_eq!((policy.order, policy.types.len()), (Some(1000.0), 2));
    assert_eq!((policy.ingress.len(), policy.egress.len()), (0, 1));
    assert_eq!(policy.egress[0].destination.not_nets, ["10.1.0.0/16".parse().unwrap()]);
    let told: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(told, ["spec.egress[1].to[0].ipBlock", "spec.egress[2].ports[0].port"]);
}
