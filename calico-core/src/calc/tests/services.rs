//! Sets of what stands behind services, and what all hosts have in common.

use super::*;
use crate::calc::event::{ActiveRule, IpSetKind, Network};
use crate::resource::ServiceMatch;

fn slice(name: &str, service: &str, addresses: &[&str], ports: &[(u8, u16)]) -> Input {
    let key = EndpointSliceKey { namespace: "one".into(), name: name.into() };
    let slice = EndpointSlice {
        namespace: "one".into(),
        service: service.into(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ports: ports.to_vec(),
    };
    Input::Slice(key, Some(Arc::new(slice)))
}

fn services(name: &str, namespace: &str) -> EntityRule {
    let services = Some(ServiceMatch { name: name.into(), namespace: namespace.into() });
    EntityRule { services, ..EntityRule::default() }
}

/// A pod under a policy with these rules.
fn under(ingress: Vec<Rule>, egress: Vec<Rule>) -> Rig {
    let mut rig = Rig::new();
    rig.update(tier("default", None, None));
    rig.update(endpoint("a", "10.0.0.1/32", &[], &[]));
    rig.update(policy("p", NetworkPolicySpec { ingress, egress, ..NetworkPolicySpec::default() }));
    rig
}

fn rules(rig: &Rig) -> (&[ActiveRule], &[ActiveRule]) {
    let rules = rig.state.policies.values().next().unwrap();
    (&rules.ingress, &rules.egress)
}

#[test]
fn a_source_is_its_addresses_and_a_destination_its_ports_as_well() {
    let from = Rule { source: services("web", ""), ..Rule::default() };
    let to = Rule { destination: services("web", "one"), ..Rule::default() };
    let mut rig = under(vec![from], vec![to]);
    rig.take(slice("x", "web", &["10.0.0.8", "fd00::8"], &[(6, 80), (17, 53)]));
    rig.take(slice("y", "web", &["10.0.0.8", "10.0.0.9"], &[(6, 80)]));
    rig.take(slice("z", "other", &["10.0.0.7"], &[(6, 80)]));
    rig.flush();
    let (ingress, egress) = rules(&rig);
    let (source, destination) = (ingress[0].source.sets[0], egress[0].destination.port_sets[0]);
    let set = |rig: &Rig, id| {
        let (kind, members) = &rig.state.sets[&id];
        (*kind, members.len())
    };
    assert_eq!((set(&rig, source), set(&rig, destination)), ((IpSetKind::Net, 3), (IpSetKind::AddrPort, 5)));
    // What two slices have stays until both are without.
    rig.take(slice("x", "web", &[], &[]));
    let events = rig.flush();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((set(&rig, source).1, set(&rig, destination).1), (2, 2));
    // Nothing flaps when a slice passes its endpoints on to another.
    rig.take(slice("x", "web", &["10.0.0.8", "10.0.0.9"], &[(6, 80)]));
    rig.take(Input::Slice(EndpointSliceKey { namespace: "one".into(), name: "y".into() }, None));
    assert!(rig.flush().is_empty());
    // A slice changes its service by its label.
    rig.take(slice("x", "other", &["10.0.0.8"], &[(6, 80)]));
    rig.take(slice("z", "web", &["10.0.0.7"], &[(6, 80)]));
    rig.flush();
    let seven = Member::Net("10.0.0.7/32".parse().unwrap());
    assert_eq!(rig.state.sets[&source].1.iter().collect::<Vec<_>>(), [&seven]);
    rig.take(slice("z", "", &["10.0.0.7"], &[(6, 80)]));
    rig.flush();
    assert_eq!((set(&rig, source).1, set(&rig, destination).1), (0, 0));
    rig.update(gone(&policy("p", NetworkPolicySpec::default())));
    rig.flush();
    assert!(rig.state.sets.is_empty());
}

#[test]
fn a_service_that_cannot_be_told_lets_nothing_through() {
    let deny = |source| Rule { action: Action::Deny, source, ..Rule::default() };
    let allow = |source| Rule { source, ..Rule::default() };
    let mut with_ports = services("web", "");
    with_ports.ports = vec!["80".parse().unwrap()];
    let with_ports =
        Rule { action: Action::Deny, protocol: Some(Protocol::TCP), destination: with_ports, ..Rule::default() };
    let ingress = vec![allow(services("", "")), deny(services("", "one")), with_ports];
    let mut rig = under(ingress, vec![]);
    rig.flush();
    let (ingress, _) = rules(&rig);
    assert_eq!(ingress.iter().map(|rule| rule.action).collect::<Vec<_>>(), [Action::Deny; 2]);
    assert!(ingress[1].destination.port_sets.is_empty() && !ingress[1].destination.ports.is_empty());
    let told = rig.problems();
    assert!(told.len() == 3 && told[2].contains("cannot be combined with ports"), "{told:?}");
    // A profile has no namespace of its own.
    rig.update(endpoint("a", "10.0.0.1/32", &[], &["x"]));
    let spec = ProfileSpec { ingress: vec![allow(services("web", ""))], ..ProfileSpec::default() };
    let profile = Resource::Profile(Object { metadata: Metadata::default(), spec });
    rig.update(Update { key: ResourceKey::cluster(Kind::Profile, "x"), value: Some(Arc::new(profile)) });
    rig.flush();
    assert!(rig.state.profiles.values().all(|rules| rules.ingress.is_empty()));
}

#[test]
fn the_network_is_told_when_it_changes() {
    let decoded = |kind: Kind, name: &str, document: serde_json::Value| Update {
        key: ResourceKey::cluster(kind, name),
        value: Some(Arc::new(Resource::decode(kind, &document).unwrap())),
    };
    let pool = |cidr: &str, nat: bool, uses: &[&str]| serde_json::json!({"spec": {"cidr": cidr, "natOutgoing": nat, "disabled": true, "allowedUses": uses}});
    let node = |spec: serde_json::Value| serde_json::json!({"spec": spec});
    let mut rig = Rig::new();
    rig.update(decoded(Kind::IpPool, "a", pool("10.0.0.0/16", true, &["Workload"])));
    rig.update(decoded(Kind::IpPool, "b", pool("10.0.1.0/24", true, &["Tunnel"])));
    rig.update(decoded(Kind::IpPool, "c", pool("fd00::/64", false, &[])));
    rig.update(decoded(Kind::IpPool, "lb", pool("192.0.2.0/24", true, &["LoadBalancer"])));
    let listed = serde_json::json!([{"address": "198.51.100.9", "type": "ExternalIP"},
                                    {"address": "198.51.100.1/24", "type": "InternalIP"},
                                    {"address": "2001:db8::2", "type": "ExternalIP"}]);
    rig.update(decoded(Kind::Node, "a", node(serde_json::json!({"addresses": listed}))));
    let bgp = serde_json::json!({"ipv4Address": "198.51.100.2/24"});
    rig.update(decoded(Kind::Node, "b", node(serde_json::json!({"addresses": listed, "bgp": bgp}))));
    let ranges = serde_json::json!({"spec": {"serviceClusterIPs": [{"cidr": "10.96.0.0/12"}],
        "serviceExternalIPs": [{"cidr": "203.0.113.0/24"}], "serviceLoadBalancerIPs": [{"cidr": "10.96.1.0/24"}]}});
    rig.update(decoded(Kind::BgpConfiguration, "default", ranges.clone()));
    rig.update(decoded(
        Kind::BgpConfiguration,
        "node.a",
        serde_json::json!({"spec": {"serviceClusterIPs": [{"cidr": "10.1.0.0/16"}]}}),
    ));
    assert_eq!(rig.flush().len(), 1);
    let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<crate::net::Cidr>>();
    let expected = Network {
        pools: nets(&["10.0.0.0/16", "fd00::/64"]),
        masqueraded: nets(&["10.0.0.0/16"]),
        hosts: nets(&["198.51.100.1/32", "198.51.100.2/32", "2001:db8::2/128"]),
        services: nets(&["10.96.0.0/12", "203.0.113.0/24"]),
    };
    assert_eq!(*rig.state.network, expected);
    // What is covered, or said twice, is no news.
    rig.update(Update { key: ResourceKey::cluster(Kind::IpPool, "b"), value: None });
    rig.update(decoded(Kind::BgpConfiguration, "default", ranges));
    assert!(rig.flush().is_empty());
    rig.update(Update { key: ResourceKey::cluster(Kind::IpPool, "a"), value: None });
    assert_eq!(rig.flush().len(), 1);
    assert_eq!((rig.state.network.pools.len(), rig.state.network.masqueraded.len()), (1, 0));
    // Of a pool whose range cannot be read nobody knows which addresses are a workload's.
    let remains = Resource::remains(Kind::IpPool, &serde_json::json!({})).unwrap();
    rig.update(Update { key: ResourceKey::cluster(Kind::IpPool, "d"), value: Some(Arc::new(remains)) });
    assert!(rig.flush().is_empty());
}
