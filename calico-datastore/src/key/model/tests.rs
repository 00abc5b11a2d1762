//! Paths as upstream writes them, and every key back from its path.

use proptest::prelude::*;

use super::*;

fn workload() -> WorkloadId {
    let (host, orchestrator) = ("n1".into(), "k8s".into());
    WorkloadId { host, orchestrator, workload: "web/pod%1".into(), endpoint: "eth0".into() }
}

fn host_endpoint() -> HostEndpointId {
    HostEndpointId { host: "n1".into(), endpoint: "a/b".into() }
}

fn policy(kind: PolicyKind, namespace: Option<&str>, name: &str) -> ModelKey {
    ModelKey::Policy { kind, namespace: namespace.map(Into::into), name: name.into() }
}

/// One of each sort, with the path that upstream gives it.
fn examples() -> Vec<(ModelKey, &'static str)> {
    use ModelKey as Key;
    let node = || "n1".into();
    let peer = |text: &str, port| BgpPeerAddress::new(text.parse().unwrap(), port);
    let region = || Some("eu".into());
    vec![
        (Key::Ready, "/calico/v1/Ready"),
        (Key::GlobalConfig("LogFile/x".into()), "/calico/v1/config/LogFile/x"),
        (
            Key::HostConfig { host: node(), name: "IpInIpTunnelAddr".into() },
            "/calico/v1/host/n1/config/IpInIpTunnelAddr",
        ),
        (Key::HostMetadata(node()), "/calico/v1/host/n1/metadata"),
        (Key::OrchestratorRefs(node()), "/calico/v1/host/n1/orchestrator_refs"),
        (Key::WireGuard(node()), "/calico/v1/host/n1/wireguard"),
        (Key::WorkloadEndpoint(workload()), "/calico/v1/host/n1/workload/k8s/web%2fpod%251/endpoint/eth0"),
        (Key::HostEndpoint(host_endpoint()), "/calico/v1/host/n1/endpoint/a%2fb"),
        (Key::NetworkSet("web/set".into()), "/calico/v1/netset/web%2fset"),
        (Key::IpPool("10.0.0.0/16".parse().unwrap()), "/calico/v1/ipam/v4/pool/10.0.0.0-16"),
        (Key::IpPool("fd00::/48".parse().unwrap()), "/calico/v1/ipam/v6/pool/fd00::-48"),
        (Key::Tier("default".into()), "/calico/v1/policy/tier/default/metadata"),
        (policy(PolicyKind::NetworkPolicy, Some("web"), "p"), "/calico/v1/policy/NetworkPolicy/web/p"),
        (
            policy(PolicyKind::GlobalNetworkPolicy, None, "allow-dns"),
            "/calico/v1/policy/GlobalNetworkPolicy//allow-dns",
        ),
        (Key::ProfileRules("kns.web".into()), "/calico/v1/policy/profile/kns.web/rules"),
        (Key::ProfileLabels("a/b".into()), "/calico/v1/policy/profile/a%2fb/labels"),
        (
            Key::BgpGlobalConfig("prefix_advertisements/ip_v4".into()),
            "/calico/bgp/v1/global/prefix_advertisements/ip_v4",
        ),
        (Key::BgpNodeConfig { node: node(), name: "as_num".into() }, "/calico/bgp/v1/host/n1/as_num"),
        (Key::BgpGlobalPeer(peer("10.0.0.1", 0)), "/calico/bgp/v1/global/peer_v4/10.0.0.1"),
        (Key::BgpNodePeer { node: node(), peer: peer("fd00::1", 1790) }, "/calico/bgp/v1/host/n1/peer_v6/fd00::1-1790"),
        (Key::BgpNode(node()), "/calico/bgp/v1/host/n1"),
        (Key::ActiveStatus { region: None, host: node() }, "/calico/felix/v2/no-region/host/n1/status"),
        (Key::LastStatus { region: region(), host: node() }, "/calico/felix/v2/region-eu/host/n1/last_reported_status"),
        (
            Key::WorkloadStatus { region: None, endpoint: workload() },
            "/calico/felix/v2/no-region/host/n1/workload/k8s/web%2fpod%251/endpoint/eth0",
        ),
        (Key::HostEndpointStatus(host_endpoint()), "/calico/felix/v1/host/n1/endpoint/a%2fb"),
    ]
}

#[test]
fn paths_are_upstreams() {
    for (key, path) in examples() {
        assert_eq!(key.path().as_deref(), Ok(path));
        assert_eq!(ModelKey::parse(path), Some(key.clone()));
        let bare = ModelKey::parse(path.trim_start_matches('/'));
        assert_eq!(bare, (key != ModelKey::Ready).then_some(key), "the first slash may be missing, but from the flag");
    }
}

#[test]
fn policies_of_the_older_layout_are_read() {
    use PolicyKind::*;
    for (text, kind, namespace, name) in [
        ("web%2fknp.default.p", KubernetesNetworkPolicy, Some("web"), "p"),
        ("web%2fstaged:knp.default.p", StagedKubernetesNetworkPolicy, Some("web"), "p"),
        ("web%2fstaged:p", StagedNetworkPolicy, Some("web"), "p"),
        ("web%2fp", NetworkPolicy, Some("web"), "p"),
        ("staged:p", StagedGlobalNetworkPolicy, None, "p"),
        ("kcnp.p", KubernetesClusterNetworkPolicy, None, "p"),
        ("knp.default.p", GlobalNetworkPolicy, None, "knp.default.p"),
        ("p", GlobalNetworkPolicy, None, "p"),
    ] {
        let path = format!("/calico/v1/policy/tier/security/policy/{text}");
        assert_eq!(ModelKey::parse(&path), Some(policy(kind, namespace, name)), "{text}");
        assert_eq!(ModelKey::legacy_tier(&path), Some("security"));
    }
    assert_eq!(ModelKey::legacy_tier("/calico/v1/policy/tier/security/metadata"), None);
    assert_eq!(ModelKey::parse("/calico/v1/policy/tier/security/policy/web%2fa%2fb"), None);
}

#[test]
fn what_is_no_key_is_none() {
    for path in [
        "",
        "/calico/v1",
        "/calico/v1/config",
        "/calico/v1/config/",
        "/calico/v1/host/n1",
        "/calico/v1/host//metadata",
        "/calico/v1/host/n1/endpoint/",
        "/calico/v1/policy/NetworkPolicy//no-namespace",
        "/calico/v1/policy/GlobalNetworkPolicy/web/p",
        "/calico/v1/policy/FuturePolicy//p",
        "/calico/v1/ipam/v6/pool/10.0.0.0-16",
        "/calico/v1/ipam/v4/pool/10.0.0.1-16",
        "/calico/bgp/v1/global/peer_v4/10.0.0.1-70000",
        "/calico/bgp/v1/global/peer_v4/10.0.0.1-1-2",
        "/calico/bgp/v1/global/peer_v6/10.0.0.1",
        "/calico/felix/v2/host/n1/status",
        "/calico/felix/v2/region-/host/n1/status",
        "/calico/resources/v3/projectcalico.org/tiers/t",
    ] {
        assert_eq!(ModelKey::parse(path), None, "{path}");
    }
}

#[test]
fn a_key_without_a_path_says_why() {
    for (key, told) in [
        (ModelKey::Tier("a/b".into()), "tier \"a/b\""),
        (ModelKey::HostMetadata("".into()), "host \"\""),
        (ModelKey::NetworkSet("".into()), "network set \"\""),
        (ModelKey::BgpGlobalConfig("peer_v4/x".into()), "would be a peer"),
        (policy(PolicyKind::NetworkPolicy, None, "p"), "needs one"),
        (policy(PolicyKind::GlobalNetworkPolicy, Some("n"), "p"), "has none"),
        (ModelKey::ActiveStatus { region: Some("a/b".into()), host: "h".into() }, "region \"a/b\""),
    ] {
        let error = key.path().unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

fn any_peer() -> impl Strategy<Value = BgpPeerAddress> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(address, port)| BgpPeerAddress::new(address, port))
}

fn any_pool() -> impl Strategy<Value = Cidr> {
    (any::<IpAddr>(), 0..=128_u8).prop_filter_map("no prefix", |(address, length)| Cidr::new(address, length))
}

fn any_policy() -> impl Strategy<Value = ModelKey> {
    let raw = "[^/]{1,12}";
    (proptest::sample::select(PolicyKind::ALL), raw, raw)
        .prop_map(|(kind, namespace, name)| policy(kind, kind.is_namespaced().then_some(namespace.as_str()), &name))
}

fn any_key() -> impl Strategy<Value = ModelKey> {
    use ModelKey as Key;
    // Escapes are as likely as what they stand for.
    let free = "(%|/|%2f|%25|%2F|[a-z.:\u{e9}-]){1,8}";
    let raw = || "(%|%2f|%25|[a-z.:\u{e9}-]){1,8}".prop_map(Arc::<str>::from);
    let free = || free.prop_map(Arc::<str>::from);
    let region = || proptest::option::of(raw());
    let workload = || {
        (raw(), free(), free(), free()).prop_map(|(host, orchestrator, workload, endpoint)| WorkloadId {
            host,
            orchestrator,
            workload,
            endpoint,
        })
    };
    let host_endpoint = || (raw(), free()).prop_map(|(host, endpoint)| HostEndpointId { host, endpoint });
    let simple = prop_oneof![
        Just(Key::Ready),
        free().prop_map(Key::GlobalConfig),
        (raw(), free()).prop_map(|(host, name)| Key::HostConfig { host, name }),
        raw().prop_map(Key::HostMetadata),
        raw().prop_map(Key::OrchestratorRefs),
        raw().prop_map(Key::WireGuard),
        workload().prop_map(Key::WorkloadEndpoint),
        host_endpoint().prop_map(Key::HostEndpoint),
        free().prop_map(Key::NetworkSet),
    ];
    let policy = prop_oneof![
        any_pool().prop_map(Key::IpPool),
        raw().prop_map(Key::Tier),
        any_policy(),
        free().prop_map(Key::ProfileRules),
        free().prop_map(Key::ProfileLabels),
    ];
    let bgp = prop_oneof![
        free().prop_map(Key::BgpGlobalConfig),
        (raw(), free()).prop_map(|(node, name)| Key::BgpNodeConfig { node, name }),
        any_peer().prop_map(Key::BgpGlobalPeer),
        (raw(), any_peer()).prop_map(|(node, peer)| Key::BgpNodePeer { node, peer }),
        raw().prop_map(Key::BgpNode),
    ];
    let status = prop_oneof![
        (region(), raw()).prop_map(|(region, host)| Key::ActiveStatus { region, host }),
        (region(), raw()).prop_map(|(region, host)| Key::LastStatus { region, host }),
        (region(), workload()).prop_map(|(region, endpoint)| Key::WorkloadStatus { region, endpoint }),
        host_endpoint().prop_map(Key::HostEndpointStatus),
    ];
    prop_oneof![simple, policy, bgp, status]
}

proptest! {
    #[test]
    fn every_key_comes_back(key in any_key()) {
        prop_assert_eq!(ModelKey::parse(&key.path().unwrap()), Some(key));
    }

    #[test]
    fn nothing_that_looks_like_a_path_breaks_the_parser(path in "/?calico(/(v1|v2|bgp|felix|host|policy|tier|%2f|peer_v4|[a-z0-9.:-]{0,6})){0,8}") {
        if let Some(key) = ModelKey::parse(&path) {
            let _ = key.path();
        }
    }
}
