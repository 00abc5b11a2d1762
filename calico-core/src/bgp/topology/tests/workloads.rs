//! Local workloads as peers, filters, and services.

use alloc::format;

use serde_json::{Value, json};

use super::peers::{configuration, dual, object, peer, problems, sessions};
use super::*;
use crate::bgp::{FilterOperation, FilterRule, RouteDirection, Source};
use crate::service::ServiceKey;

fn labelled(name: &str, address: &[&str], labels: Value) -> Update {
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    let spec = json!({
        "node": "a", "orchestrator": "cni", "workload": "w", "endpoint": "eth0", "interfaceName": "cali1", "ipNetworks": address,
        "profiles": ["kns.default"],
    });
    let document = json!({"metadata": metadata, "spec": spec});
    let value = Resource::decode(Kind::WorkloadEndpoint, &document).unwrap_or_else(|faults| panic!("{faults:?}"));
    Update { key: ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", name), value: Some(Arc::new(value)) }
}

/// `local_bgp_peer`.
#[test]
fn workloads_of_this_node_as_peers() {
    let spec = |selector: &str| json!({"localWorkloadSelector": selector, "asNumber": 64600, "localASNumber": 64599, "filters": ["f"]});
    let mut topology = after(&[
        configuration("default", json!({"localWorkloadPeeringIPV4": "169.254.1.1"})),
        dual("a", 1, "x", json!({})),
        object(Kind::BgpFilter, "f", json!({}), json!({"importV4": [{"action": "Accept"}]})),
        peer("p", spec("app == 'router'")),
    ]);
    let router = labelled("r", &["10.1.0.5/32", "10.1.0.6/32", "fd00::5/128"], json!({"app": "router"}));
    assert!(topology.handle_update(&router) && !topology.handle_update(&router));
    assert!(!topology.handle_update(&labelled("other", &["10.1.0.7/32"], json!({"app": "web"}))));
    assert!(!topology.handle_update(&gone(&labelled("other", &["10.1.0.7/32"], json!({})))));
    let expected = ["LocalWorkload 10.1.0.5 as 64600 local 64599", "LocalWorkload fd00::5 as 64600 local 64599"];
    assert_eq!(sessions(&topology), expected);
    let first = topology.desired().peers.remove(0);
    assert!(first.session.passive && first.session.source == Source::Kernel);
    assert_eq!((first.name.as_str(), first.policy.filters.len()), ("default/r", 1));
    assert!(problems(&topology, "p").is_empty());

    // Labels of a profile count, and the first BGPPeer by name that selects.
    topology
        .handle_update(&peer("o", json!({"localWorkloadSelector": "team == 'net'", "asNumber": 1, "ttlSecurity": 2})));
    assert_eq!(sessions(&topology), expected);
    let profile = |labels: Value| object(Kind::Profile, "kns.default", json!({}), json!({"labelsToApply": labels}));
    assert!(topology.handle_update(&profile(json!({"team": "net"}))));
    assert_eq!(sessions(&topology), ["LocalWorkload 10.1.0.5 as 1", "LocalWorkload fd00::5 as 1"]);
    assert_eq!(
        problems(&topology, "o"),
        ["its ttlSecurity is not carried out: sessions with local workloads have none"]
    );
    // Nodes that are not meant have no such sessions, and nobody mirrors them.
    topology.handle_update(&peer("o", json!({"node": "b", "localWorkloadSelector": "all()", "asNumber": 1})));
    assert_eq!(sessions(&topology), expected);
    assert!(topology.handle_update(&gone(&router)));
    assert!(sessions(&topology).is_empty());
    topology.handle_update(&configuration("default", json!({})));
    assert!(problems(&topology, "p")[0].contains("do not know whom to talk to"));
}

fn rule(list: &str, rule: Value) -> (FilterRule, Vec<String>) {
    let update = object(Kind::BgpFilter, "f", json!({}), json!({list: [rule]}));
    let base = [
        dual("a", 1, "x", json!({})),
        peer("p", json!({"peerIP": "192.0.2.1", "asNumber": 1, "filters": ["f"]})),
        update,
    ];
    let topology = after(&base);
    let filter = &topology.desired().peers[0].policy.filters[0];
    let family = if list.ends_with('4') { Family::V4 } else { Family::V6 };
    let direction = if list.starts_with("import") { RouteDirection::Import } else { RouteDirection::Export };
    (filter.rules(direction, family)[0].clone(), problems(&topology, "f"))
}

/// `bgpfilter`: every condition and change.
#[test]
fn filters_are_data() {
    let (compiled, told) = rule(
        "exportV4",
        json!({
            "cidr": "10.0.0.0/8", "matchOperator": "In", "prefixLength": {"min": 24}, "source": "RemotePeers", "interface": "eth*",
            "peerType": "eBGP", "communities": {"values": ["1:2:3"]}, "asPathPrefix": [1, 2], "priority": 512, "action": "Accept",
            "operations": [{"addCommunity": {"value": "1:2"}}, {"prependASPath": {"prefix": [7, 8]}}, {"setPriority": {"value": 9}}],
        }),
    );
    assert!(told.is_empty(), "{told:?}");
    let prefix = compiled.prefix.unwrap();
    assert_eq!((prefix.cidr.to_string().as_str(), prefix.lengths), ("10.0.0.0/8", Some((24, 32))));
    assert!(compiled.learned && compiled.accept && !compiled.unknown);
    assert_eq!((compiled.as_path.len(), compiled.priority), (2, Some(512)));
    assert_eq!(compiled.community, Some("1:2:3".parse().unwrap()));
    let numbers = vec![AsNumber::new(7), AsNumber::new(8)];
    let community = FilterOperation::AddCommunity("1:2".parse().unwrap());
    assert_eq!(compiled.operations, [community, FilterOperation::Prepend(numbers), FilterOperation::SetPriority(9)]);
    assert_eq!(compiled.interface.unwrap().pattern, "eth*");
}

#[test]
fn what_of_a_rule_is_odd_is_told_and_fails_closed() {
    for (list, given, unknown, told) in [
        ("importV4", json!({"action": "Reject", "newer": 1}), true, true),
        ("importV4", json!({"action": "Accept", "cidr": "10.0.0.0/8"}), true, true),
        ("importV4", json!({"action": "Accept", "matchOperator": "In"}), true, true),
        ("importV4", json!({"action": "Accept", "source": "Elsewhere"}), true, true),
        ("importV4", json!({"action": "Accept", "communities": {"values": ["1:1", "1:2"]}}), true, true),
        ("importV4", json!({"action": "Accept", "priority": 0}), true, true),
        ("importV4", json!({"action": "Accept", "operations": [{}]}), true, true),
        ("importV4", json!({"action": "Accept", "operations": [{"setPriority": {"value": 0}}]}), true, true),
        ("importV4", json!({"action": "Accept", "prefixLength": {"min": 3}}), true, true),
        ("importV6", json!({"action": "Accept", "cidr": "10.0.0.0/8", "matchOperator": "In"}), false, true),
        ("importV4", json!({"action": "Accept", "cidr": "10.0.0.1/8", "matchOperator": "In"}), false, true),
        (
            "exportV4",
            json!({"action": "Accept", "cidr": "10.0.0.0/8", "matchOperator": "Equal", "prefixLength": {"max": 9}}),
            false,
            true,
        ),
        (
            "exportV4",
            json!({"action": "Accept", "cidr": "10.0.0.0/8", "matchOperator": "In", "prefixLength": {"max": 7}}),
            false,
            true,
        ),
        ("exportV6", json!({"action": "Reject"}), false, false),
        ("exportV6", json!({"action": "Reject", "peerType": "iBGP"}), false, false),
    ] {
        let (compiled, problems) = rule(list, given.clone());
        assert_eq!((compiled.unknown, !problems.is_empty()), (unknown, told), "{given} {problems:?}");
    }
}

fn key(name: &str) -> ServiceKey {
    ServiceKey { namespace: "default".into(), name: name.into() }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ready(service: &str, endpoints: &[(&str, Option<bool>)]) -> EndpointSliceFacts {
    let endpoints = endpoints.iter().map(|(node, ready)| EndpointFacts { node: Some((*node).into()), ready: *ready });
    EndpointSliceFacts { service: service.into(), family: Some(Family::V4), endpoints: endpoints.collect() }
}

fn slice(name: &str) -> EndpointSliceKey {
    EndpointSliceKey { namespace: "default".into(), name: name.into() }
}

/// Upstream's rules, as its `routes_test.go` has them.
#[test]
fn which_services_are_announced() {
    use ServiceKind::{ClusterIp, ExternalName, LoadBalancer, NodePort};
    use TrafficPolicy::{Cluster, Local};
    let here: &[(&str, Option<bool>)] = &[("b", Some(true)), ("a", None)];
    let there: &[(&str, Option<bool>)] = &[("b", Some(true)), ("a", Some(false))];
    let none: &[(&str, Option<bool>)] = &[];
    let aggregated = json!({
        "serviceClusterIPs": [{"cidr": "10.96.0.0/12"}],
        "serviceExternalIPs": [{"cidr": "192.0.2.0/24"}, {"cidr": "198.51.100.1/32"}],
        "serviceLoadBalancerIPs": [{"cidr": "203.0.113.0/24"}, {"cidr": "198.51.100.2/32"}],
    });
    let whole = ["10.96.0.0/12", "192.0.2.0/24", "203.0.113.0/24"];
    let mut singly = aggregated.clone();
    singly["serviceLoadBalancerAggregation"] = "Disabled".into();
    let (ext, lb) = ("192.0.2.5", "203.0.113.5");
    for (spec, kind, policy, addresses, endpoints, announced) in [
        (&aggregated, ClusterIp, Some(Local), [ext, lb], here, true),
        (&aggregated, NodePort, Some(Local), [ext, lb], here, true),
        (&aggregated, LoadBalancer, Some(Local), [ext, lb], here, true),
        (&aggregated, LoadBalancer, Some(Local), [ext, lb], there, false),
        (&aggregated, LoadBalancer, Some(Local), [ext, lb], none, false),
        (&aggregated, ExternalName, Some(Local), [ext, lb], here, false),
        (&aggregated, LoadBalancer, Some(Cluster), [ext, lb], here, false),
        (&aggregated, LoadBalancer, Some(Cluster), [ext, "198.51.100.2"], none, true),
        (&aggregated, NodePort, Some(Cluster), [ext, "198.51.100.2"], here, false),
        (&aggregated, ClusterIp, Some(Cluster), ["198.51.100.1", lb], none, true),
        (&aggregated, ClusterIp, None, ["198.51.100.1", lb], here, false),
        (&singly, LoadBalancer, Some(Cluster), [ext, lb], there, true),
        (&singly, ClusterIp, None, [ext, lb], there, true),
        (&singly, LoadBalancer, Some(Cluster), [ext, lb], none, false),
        (&singly, LoadBalancer, Some(Local), [ext, lb], there, false),
    ] {
        let mut topology = after(&[dual("a", 1, "x", json!({})), configuration("default", spec.clone())]);
        let facts = ServiceFacts {
            kind,
            policy,
            cluster_ips: vec![address("10.96.0.9")],
            families: vec![Family::V4],
            external_ips: vec![address(addresses[0]), address("9.9.9.9")],
            ingress_ips: vec![address(addresses[1])],
            load_balancer_ip: None,
        };
        topology.handle_endpoint_slice(&slice("s"), Some(&ready("svc", endpoints)));
        topology.handle_service(&key("svc"), Some(facts));
        let case = format!("{spec} {kind:?} {policy:?} {addresses:?} {endpoints:?}");
        let own: Vec<String> = originated(&topology).into_iter().filter(|text| text.ends_with("/32")).collect();
        let mut expected = ["10.96.0.9", addresses[0], addresses[1]].map(|address| format!("{address}/32"));
        expected.sort_by_key(|text| text.parse::<Cidr>().unwrap());
        assert_eq!(own, if announced { &expected[..] } else { &[] }, "{case}");
        let wide = originated(&topology).into_iter().filter(|text| !text.ends_with("/32")).count();
        assert_eq!(wide, if spec == &aggregated { 3 } else { 2 });
        let kernel = topology.desired().kernel;
        assert!(kernel.rejected.iter().map(ToString::to_string).eq(whole.into_iter().take(wide)), "{case}");
        assert_eq!(topology.desired().export.reflected.len(), 4);
        // What goes takes its routes along.
        topology.handle_service(&key("svc"), None);
        assert_eq!(originated(&topology).len(), wide, "{case}");
    }
}

#[test]
fn slices_count_together_and_a_label_keeps_a_node_out() {
    let ranges = json!({"serviceClusterIPs": [{"cidr": "10.96.0.0/12"}]});
    let mut topology = after(&[dual("a", 1, "x", json!({})), configuration("default", ranges)]);
    let facts = |cluster_ip| ServiceFacts {
        policy: Some(TrafficPolicy::Local),
        cluster_ips: vec![address(cluster_ip)],
        families: vec![Family::V4],
        ..ServiceFacts::default()
    };
    assert!(!topology.handle_service(&key("svc"), Some(facts("10.96.0.9"))));
    assert!(topology.handle_endpoint_slice(&slice("s1"), Some(&ready("svc", &[("a", None)]))));
    assert!(!topology.handle_endpoint_slice(&slice("s2"), Some(&ready("svc", &[("b", None)]))));
    assert!(!topology.handle_service(&key("twin"), Some(facts("10.96.0.9"))));
    assert!(topology.handle_endpoint_slice(&slice("s3"), Some(&ready("twin", &[("a", None)]))));
    assert_eq!(originated(&topology), ["10.96.0.0/12", "10.96.0.9/32"]);
    topology.handle_endpoint_slice(&slice("s1"), Some(&ready("svc", &[("a", Some(false))])));
    assert_eq!(originated(&topology).len(), 2, "the other has it still");
    topology.handle_endpoint_slice(&slice("s3"), None);
    assert_eq!(originated(&topology), ["10.96.0.0/12"]);
    // Of another family than the service's.
    let other = EndpointSliceFacts { family: Some(Family::V6), ..ready("svc", &[("a", None)]) };
    topology.handle_endpoint_slice(&slice("s1"), Some(&other));
    assert_eq!(originated(&topology), ["10.96.0.0/12"]);
    topology.handle_endpoint_slice(&slice("s1"), Some(&ready("svc", &[("a", None)])));
    let excluded = json!({"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}});
    let spec = json!({"bgp": {"ipv4Address": "10.192.0.1/16"}});
    assert!(topology.handle_update(&object(Kind::Node, "a", excluded, spec)));
    assert!(originated(&topology).is_empty());
    assert_eq!(topology.desired().kernel.rejected.len(), 1);
}
