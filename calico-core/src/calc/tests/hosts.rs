//! Whose the interfaces of this host are, and which policies host endpoints have.

use super::*;
use crate::resource::{GlobalNetworkPolicySpec, HostEndpointSpec};

fn host_endpoint(name: &str, interface: &str, addresses: &[&str]) -> Update {
    let spec = HostEndpointSpec {
        node: HOST.into(),
        interface_name: interface.into(),
        expected_ips: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ..HostEndpointSpec::default()
    };
    Update {
        key: ResourceKey::cluster(Kind::HostEndpoint, name),
        value: Some(Arc::new(Resource::HostEndpoint(Object { metadata: Metadata::default(), spec }))),
    }
}

fn interface(name: &str, addresses: &[&str]) -> Input {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Input::Interface(name.parse().unwrap(), Some(addresses))
}

/// `name: interface interface` of each host endpoint.
fn owners(rig: &mut Rig) -> String {
    rig.flush();
    let owner = |(id, endpoint): (&EndpointId, &Arc<ActiveHostEndpoint>)| {
        let interfaces = match &endpoint.interfaces {
            HostInterfaces::Others => "*".into(),
            HostInterfaces::Named(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        };
        format!("{}: {interfaces}", id.0.name().unwrap())
    };
    rig.state.host_endpoints.iter().map(owner).collect::<Vec<_>>().join(", ")
}

#[test]
fn an_interface_is_the_first_by_name_of_all_that_claim_it() {
    let mut rig = Rig::new();
    rig.take(interface("eth0", &["192.0.2.1", "2001:db8::1"]));
    rig.take(interface("eth1", &["192.0.2.2"]));
    rig.take(interface("eth2", &[]));
    rig.update(host_endpoint("m-named", "eth0", &[]));
    assert_eq!(owners(&mut rig), "m-named: eth0");
    // A name goes before an address only if it comes first.
    rig.update(host_endpoint("n-address", "", &["2001:db8::1", "192.0.2.2"]));
    assert_eq!(owners(&mut rig), "m-named: eth0, n-address: eth1");
    rig.update(host_endpoint("a-address", "", &["192.0.2.1", "192.0.2.2", "203.0.113.1"]));
    assert_eq!(owners(&mut rig), "a-address: eth0 eth1");
    let told = rig.problems();
    assert!(
        told.iter()
            .any(|one| one.starts_with("HostEndpoint(m-named): interface eth0 is taken by HostEndpoint(a-address)"))
    );
    assert_eq!(told.iter().filter(|one| one.contains("is taken by HostEndpoint(a-address)")).count(), 3, "{told:?}");
    assert_eq!(told.len(), 3, "{told:?}");
    rig.take(interface("eth0", &["2001:db8::1"]));
    assert_eq!(owners(&mut rig), "a-address: eth1, m-named: eth0");
    rig.update(gone(&host_endpoint("a-address", "", &[])));
    assert_eq!(owners(&mut rig), "m-named: eth0, n-address: eth1");
    rig.take(Input::Interface("eth0".parse().unwrap(), None));
    assert_eq!(owners(&mut rig), "n-address: eth1");
    // With a name the addresses do not matter.
    rig.update(host_endpoint("m-named", "eth9", &["192.0.2.2"]));
    assert_eq!(owners(&mut rig), "n-address: eth1");
}

#[test]
fn what_is_left_is_the_first_wildcards() {
    let mut rig = Rig::new();
    rig.take(interface("eth0", &[]));
    rig.update(host_endpoint("b-all", "*", &["192.0.2.1"]));
    assert_eq!(owners(&mut rig), "b-all: *");
    rig.update(host_endpoint("a-all", "*", &[]));
    rig.update(host_endpoint("c", "eth0", &[]));
    assert_eq!(owners(&mut rig), "a-all: *, c: eth0");
    assert!(
        rig.problems()[0]
            .starts_with("HostEndpoint(b-all): the interfaces that are nobody's are taken by HostEndpoint(a-all)")
    );
    rig.update(host_endpoint("a-all", "eth1", &[]));
    assert_eq!(owners(&mut rig), "b-all: *, c: eth0");
}

#[test]
fn workloads_interfaces_excluded_ones_and_impossible_ones_are_never_a_hosts() {
    let mut rig = Rig::new();
    rig.take(interface("cali1", &["192.0.2.1"]));
    rig.take(interface("kube-ipvs0", &["192.0.2.1"]));
    rig.update(host_endpoint("address", "", &["192.0.2.1"]));
    rig.update(host_endpoint("workload", "cali1", &[]));
    rig.update(host_endpoint("impossible", "no such name", &[]));
    rig.update(host_endpoint("nothing", "", &[]));
    assert_eq!(owners(&mut rig), "");
    let told = rig.problems();
    let expected = [
        "no interface of this host",
        "which no interface is called",
        "neither interfaceName",
        "called like a workload's",
    ];
    assert_eq!(told.len(), 4);
    assert!(told.iter().zip(expected).all(|(told, expected)| told.contains(expected)), "{told:?}");
    // By name it may be had.
    rig.update(host_endpoint("services", "kube-ipvs0", &[]));
    assert_eq!(owners(&mut rig), "services: kube-ipvs0");

    let mut graph = Graph::new(HOST).with_excluded_interfaces("eth0".parse().unwrap());
    graph.handle_update(&host_endpoint("address", "", &["192.0.2.1"]));
    graph.set_interface("eth0".parse().unwrap(), Some(&["192.0.2.1".parse().unwrap()]));
    assert!(graph.flush().is_empty());
    graph.set_interface("kube-ipvs0".parse().unwrap(), Some(&["192.0.2.1".parse().unwrap()]));
    assert_eq!(graph.flush().len(), 1);
}

#[test]
fn other_hosts_endpoints_are_members_of_sets_only() {
    let mut rig = Rig::new();
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    let mut far = host_endpoint("far", "eth0", &["192.0.2.9", "::ffff:192.0.2.8"]);
    if let Some(Resource::HostEndpoint(object)) = far.value.as_mut().map(Arc::make_mut) {
        object.spec.node = "node-2".into();
        object.metadata.labels.insert("role".into(), "host".into());
        object.spec.profiles = vec!["p".into()];
        let port = |name: &str, number| crate::resource::HostPort {
            name: name.into(),
            protocol: Some(Protocol::TCP),
            port: Some(number),
        };
        object.spec.ports = vec![port("web", 81), port("other", 82)];
    }
    rig.update(far.clone());
    let egress = vec![Rule {
        destination: EntityRule { ports: vec![Port::Named("web".into())], ..EntityRule::default() },
        ..Rule::default()
    }];
    let spec = GlobalNetworkPolicySpec { ingress: vec![rule_from("role == 'host'")], egress, ..Default::default() };
    rig.update(Update {
        key: ResourceKey::cluster(Kind::GlobalNetworkPolicy, "g"),
        value: Some(Arc::new(Resource::GlobalNetworkPolicy(Object { metadata: Metadata::default(), spec }))),
    });
    assert_eq!(owners(&mut rig), "");
    let members = |rig: &Rig| rig.state.sets.values().map(|(_, members)| members.len()).collect::<BTreeSet<_>>();
    assert_eq!(members(&rig), BTreeSet::from([2]));
    assert!(rig.state.profiles.is_empty());
    rig.update(gone(&far));
    rig.flush();
    assert_eq!(members(&rig), BTreeSet::from([0]));
}

/// `tier[policy …]:end` of a stack.
fn shown(stack: &Stack) -> String {
    let tier = |tier: &super::super::event::StackTier| {
        let policies: Vec<_> = tier.policies.iter().filter_map(|policy| policy.0.name()).collect();
        format!("{}[{}]:{:?}", tier.name, policies.join(" "), tier.default_action)
    };
    let profiles = stack.profiles.iter().map(|profile| format!("({})", profile.0));
    stack.tiers.iter().map(tier).chain(profiles).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_policy_of_a_host_endpoint_stands_where_it_belongs() {
    let mut rig = Rig::new();
    rig.take(interface("eth0", &[]));
    let mut host = host_endpoint("h", "eth0", &[]);
    if let Some(Resource::HostEndpoint(object)) = host.value.as_mut().map(Arc::make_mut) {
        object.spec.profiles = vec!["p".into()];
    }
    rig.update(host);
    rig.update(endpoint("w", "10.0.0.1/32", &[], &[]));
    rig.update(tier("default", Some(1_000_000.0), None));
    rig.update(tier("early", Some(1.0), Some(DefaultAction::Pass)));
    let both = vec![PolicyType::Ingress, PolicyType::Egress];
    let base = || GlobalNetworkPolicySpec { types: both.clone(), ..GlobalNetworkPolicySpec::default() };
    let forward = || GlobalNetworkPolicySpec { apply_on_forward: true, ..base() };
    for (name, spec) in [
        ("untracked", GlobalNetworkPolicySpec { do_not_track: true, tier: "early".into(), ..forward() }),
        ("pre", GlobalNetworkPolicySpec { pre_dnat: true, types: vec![PolicyType::Ingress], ..forward() }),
        ("plain", base()),
        ("forward", forward()),
        ("early", GlobalNetworkPolicySpec { tier: "early".into(), types: vec![PolicyType::Egress], ..forward() }),
    ] {
        let object = Object { metadata: Metadata::default(), spec };
        let value = Some(Arc::new(Resource::GlobalNetworkPolicy(object)));
        rig.update(Update { key: ResourceKey::cluster(Kind::GlobalNetworkPolicy, name), value });
    }
    rig.flush();
    let endpoint = rig.state.host_endpoints.values().next().unwrap();
    assert_eq!(shown(&endpoint.untracked.ingress), "early[untracked]:Pass");
    assert_eq!(endpoint.untracked.egress, endpoint.untracked.ingress);
    assert_eq!(shown(&endpoint.pre_dnat), "default[pre]:Pass");
    assert_eq!(shown(&endpoint.normal.ingress), "default[forward plain]:Deny (p)");
    assert_eq!(shown(&endpoint.normal.egress), "early[early]:Pass default[forward plain]:Deny (p)");
    assert_eq!(shown(&endpoint.forward.ingress), "default[forward]:Deny");
    assert_eq!(shown(&endpoint.forward.egress), "early[early]:Pass default[forward]:Deny");
    // Workloads know none of the first two kinds.
    assert_eq!(ingress(&rig, "w"), "default[forward plain]:Deny");
}

/// Of a cluster nobody knows the interfaces; each host endpoint is there all the same.
#[test]
fn in_the_graph_of_a_cluster_every_host_endpoint_is_active() {
    let mut graph = Graph::of_cluster();
    for (name, interface, addresses) in
        [("a", "eth0", &[][..]), ("b", "eth0", &[]), ("c", "*", &[]), ("d", "", &["192.0.2.1"])]
    {
        graph.handle_update(&host_endpoint(name, interface, addresses));
    }
    graph.set_interface("eth0".parse().unwrap(), Some(&[]));
    let interfaces = graph.flush().into_iter().filter_map(|event| match event {
        Event::HostEndpointSet { endpoint, .. } => Some(endpoint.interfaces.clone()),
        _ => None,
    });
    let eth0 = HostInterfaces::Named(vec!["eth0".parse().unwrap()]);
    assert_eq!(
        interfaces.collect::<Vec<_>>(),
        [eth0.clone(), eth0, HostInterfaces::Others, HostInterfaces::Named(vec![])]
    );
}

#[test]
fn named_ports_need_an_address() {
    let mut rig = Rig::new();
    rig.take(interface("eth0", &["192.0.2.1"]));
    let with_port = |addresses: &[&str]| {
        let mut update = host_endpoint("all", "*", addresses);
        if let Some(Resource::HostEndpoint(object)) = update.value.as_mut().map(Arc::make_mut) {
            let (name, protocol) = ("web".into(), Some(Protocol::TCP));
            object.spec.ports = vec![crate::resource::HostPort { name, protocol, port: Some(80) }];
        }
        update
    };
    rig.update(with_port(&[]));
    rig.flush();
    let told = rig.problems();
    assert!(told.len() == 1 && told[0].contains("it has no expectedIPs"), "{told:?}");
    rig.update(with_port(&["192.0.2.1"]));
    rig.flush();
    assert!(rig.problems().is_empty());
}
