//! Rules by every field that needs a cluster around: services, names of ports, selectors, sets.

use alloc::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::service::EndpointSlice;

fn slice(namespace: &str, service: &str, addresses: &[&str], ports: &[(u8, u16)]) -> Arc<EndpointSlice> {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Arc::new(EndpointSlice { namespace: namespace.into(), service: service.into(), addresses, ports: ports.to_vec() })
}

/// What a policy with this one rule does where nothing else would allow: from `a` to `b`, TCP port 80.
fn with_slices(kind: Kind, direction: &str, rule: &Value, slices: &[Arc<EndpointSlice>]) -> Decision {
    let app = if direction == "ingress" { "b" } else { "a" };
    let types = if direction == "ingress" { "Ingress" } else { "Egress" };
    let spec = json!({"selector": (["app == '", app, "'"].concat()), "types": [types], direction: [rule]});
    let namespace = (kind == Kind::NetworkPolicy).then_some("default");
    let document = json!({"metadata": {"name": "only", "namespace": namespace}, "spec": spec});
    let policy = Resource::decode(kind, &document).unwrap_or_else(|faults| panic!("{rule}: {faults:?}"));
    let resources: Vec<Resource> = pods().into_iter().chain([open(), policy]).collect();
    let cluster = Cluster::new(&resources).with_slices(slices.iter().cloned());
    cluster.decide(Party::Workload(&key("a")), Party::Workload(&key("b")), &flow("10.0.0.1", "10.0.0.2", 6, 80))
}

#[test]
fn a_destination_service_is_its_addresses_with_their_ports() {
    let to = |slices: &[Arc<EndpointSlice>]| {
        let rule = json!({"action": "Allow", "destination": {"services": {"name": "web", "namespace": "default"}}});
        with_slices(Kind::GlobalNetworkPolicy, "egress", &rule, slices)
    };
    let b = &["10.0.0.9", "10.0.0.2"];
    assert_eq!(to(&[slice("default", "web", b, &[(17, 53), (6, 80)])]), ALLOW);
    assert_eq!(to(&[]), DENY);
    assert_eq!(to(&[slice("default", "web", b, &[])]), DENY);
    assert_eq!(to(&[slice("default", "web", b, &[(6, 81), (17, 80)])]), DENY);
    assert_eq!(to(&[slice("default", "web", &["10.0.0.1"], &[(6, 80)])]), DENY);
    assert_eq!(to(&[slice("default", "other", b, &[(6, 80)])]), DENY);
    assert_eq!(to(&[slice("other", "web", b, &[(6, 80)])]), DENY);
    // Address and port of one slice, not of two.
    let two = [slice("default", "web", b, &[(6, 81)]), slice("default", "web", &["10.0.0.1"], &[(6, 80)])];
    assert_eq!(to(&two), DENY);
    assert_eq!(to(&[&two[..], &[slice("default", "web", b, &[(6, 80)])]].concat()), ALLOW);
}

#[test]
fn a_source_service_is_its_addresses() {
    let from = |slices: &[Arc<EndpointSlice>]| {
        let rule = json!({"action": "Allow", "source": {"services": {"name": "web", "namespace": "default"}}});
        with_slices(Kind::GlobalNetworkPolicy, "ingress", &rule, slices)
    };
    assert_eq!(from(&[slice("default", "web", &["10.0.0.1"], &[])]), ALLOW);
    assert_eq!(from(&[slice("default", "web", &["10.0.0.1"], &[(17, 1)])]), ALLOW);
    assert_eq!(from(&[slice("default", "web", &["10.0.0.2"], &[(6, 80)])]), DENY);
}

/// Without a namespace it is the policy's own; of a policy that has none, the rule is one that cannot be carried out.
#[test]
fn a_service_without_a_namespace_is_of_the_policys() {
    let rule = json!({"action": "Allow", "source": {"services": {"name": "web"}}});
    let in_own = [slice("default", "web", &["10.0.0.1"], &[])];
    assert_eq!(with_slices(Kind::NetworkPolicy, "ingress", &rule, &in_own), ALLOW);
    assert_eq!(with_slices(Kind::NetworkPolicy, "ingress", &rule, &[slice("", "web", &["10.0.0.1"], &[])]), DENY);
    let cluster = |action: Action| {
        let mut rules: [Rule; 2] = [Rule { action, ..Rule::default() }, Rule::default()];
        rules[0].source.services = Some(crate::resource::ServiceMatch { name: "web".into(), ..Default::default() });
        let mut only = policy("only", json!({"selector": "app == 'b'", "types": ["Ingress"]}));
        let Resource::GlobalNetworkPolicy(object) = &mut only else { unreachable!() };
        object.spec.ingress = rules.into();
        a_to_b(&[open(), only])
    };
    assert_eq!(cluster(Action::Allow), ALLOW, "the second rule allows");
    assert_eq!(cluster(Action::Deny), DENY);
    assert_eq!(cluster(Action::Pass), DENY);
}

/// Both say which ports, so the service is no condition that could be carried out: an Allow never matches, Deny and Pass deny without it.
#[test]
fn a_destination_service_with_ports_is_not_understood() {
    let decide = |action: Action, port: &str, then: Action| {
        let mut rules = [Rule { action, ..Rule::default() }, Rule { action: then, ..Rule::default() }];
        rules[0].destination.services =
            Some(crate::resource::ServiceMatch { name: "web".into(), namespace: "default".into() });
        rules[0].destination.ports = [port.parse().unwrap()].into();
        let mut only = policy("only", json!({"selector": "app == 'b'", "types": ["Ingress"], "ingress": []}));
        let Resource::GlobalNetworkPolicy(object) = &mut only else { unreachable!() };
        object.spec.ingress = rules.into();
        let resources: Vec<Resource> = pods().into_iter().chain([open(), only]).collect();
        let cluster = Cluster::new(&resources).with_slices([slice("default", "web", &["10.0.0.9"], &[(6, 81)])]);
        cluster.ingress(&key("b"), &flow("10.0.0.1", "10.0.0.2", 6, 80))
    };
    assert_eq!(decide(Action::Allow, "80", Action::Log), DENY);
    assert_eq!([decide(Action::Deny, "80", Action::Allow), decide(Action::Pass, "80", Action::Allow)], [DENY; 2]);
    assert_eq!(decide(Action::Deny, "81", Action::Allow), ALLOW);
}

/// What a policy of the cluster with one rule allows where nothing else would.
fn allows_from(rule: Value, from: &str, to: &str, protocol: u8, port: u16) -> bool {
    let only = policy("only", json!({"selector": "all()", "types": ["Ingress"], "ingress": [rule]}));
    let resources: Vec<Resource> = pods().into_iter().chain([open(), only]).collect();
    Cluster::new(&resources).ingress(&key("b"), &flow(from, to, protocol, port)) == ALLOW
}

#[test]
fn an_unwanted_selector_alone_matches_strangers_too() {
    let stranger = |rule: Value| allows_from(rule, "203.0.113.9", "10.0.0.2", 6, 80);
    assert!(stranger(json!({"action": "Allow", "source": {"notSelector": "app == 'a'"}})));
    assert!(!stranger(json!({"action": "Allow", "source": {"selector": "all()", "notSelector": "app == 'a'"}})));
    assert!(!stranger(json!({"action": "Allow", "source": {"selector": "app != 'a'"}})));
    // In a policy of a namespace the unwanted ones are those of the namespace, and so are the wanted.
    let rule = json!([{"action": "Allow", "source": {"notSelector": "app == 'x'"}}]);
    let spec = json!({"types": ["Ingress"], "ingress": rule});
    let namespaced = resource(Kind::NetworkPolicy, Some("default"), "n", json!({}), spec);
    let resources: Vec<Resource> = pods().into_iter().chain([open(), namespaced]).collect();
    let decide = |from| Cluster::new(&resources).ingress(&key("b"), &flow(from, "10.0.0.2", 6, 80));
    assert_eq!([decide("10.0.0.1"), decide("203.0.113.9")], [ALLOW, DENY]);
}

#[test]
fn scopes_of_namespaces() {
    let from = |scope: &str| {
        let rule = json!({"action": "Allow", "source": {"namespaceSelector": scope}});
        let global_set = resource(Kind::GlobalNetworkSet, None, "s", json!({}), json!({"nets": ["203.0.113.0/24"]}));
        let kinds = [(Kind::GlobalNetworkPolicy, None), (Kind::NetworkPolicy, Some("default"))];
        kinds.map(|(kind, namespace)| {
            let spec = json!({"selector": "app == 'b'", "types": ["Ingress"], "ingress": [rule]});
            let policy = resource(kind, namespace, "n", json!({}), spec);
            let resources: Vec<Resource> = pods().into_iter().chain([open(), global_set.clone(), policy]).collect();
            let decide = |from| Cluster::new(&resources).ingress(&key("b"), &flow(from, "10.0.0.2", 6, 80)) == ALLOW;
            [decide("10.0.0.1"), decide("203.0.113.9"), decide("198.51.100.9")]
        })
    };
    assert_eq!(from("all()"), [[true, false, false]; 2]);
    assert_eq!(from("global()"), [[false, true, false]; 2]);
    assert_eq!(from("has(team)"), [[false; 3]; 2]);
}

#[test]
fn a_set_covers_what_its_prefixes_cover_however_they_overlap() {
    let set = |nets: Value| resource(Kind::GlobalNetworkSet, None, "s", json!({"role": "x"}), json!({"nets": nets}));
    let decide = |nets: Value, from| {
        let rule = json!([{"action": "Allow", "source": {"selector": "role == 'x'"}}]);
        let only = policy("only", json!({"selector": "app == 'b'", "types": ["Ingress"], "ingress": rule}));
        let resources: Vec<Resource> = pods().into_iter().chain([open(), only, set(nets)]).collect();
        Cluster::new(&resources).ingress(&key("b"), &flow(from, "10.0.0.2", 6, 80)) == ALLOW
    };
    let nets = || json!(["192.0.2.77/24", "192.0.2.0/25", "192.0.2.1/32", "198.51.100.1"]);
    for (from, inside) in [("192.0.2.1", true), ("192.0.2.200", true), ("192.0.3.1", false), ("198.51.100.1", true)] {
        assert_eq!(decide(nets(), from), inside, "{from}");
    }
    assert!(decide(json!(["0.0.0.0/0"]), "203.0.113.9"));
}

#[test]
fn names_of_ports_are_of_a_protocol_and_of_those_selected() {
    let to = |destination: Value, protocol: Option<&str>, number: u8, port: u16| {
        allows_from(
            json!({"action": "Allow", "protocol": protocol, "destination": destination}),
            "10.0.0.1",
            "10.0.0.2",
            number,
            port,
        )
    };
    let web = |list: &str| json!({ list: ["web"] });
    assert!(to(web("ports"), None, 6, 80));
    assert!(!to(web("ports"), None, 17, 80));
    assert!(!to(web("ports"), Some("UDP"), 17, 80));
    assert!(!to(web("ports"), None, 6, 81));
    assert!(to(json!({"ports": ["other", 80]}), Some("TCP"), 6, 80), "names and numbers are alternatives");
    assert!(!to(json!({"ports": ["web"], "selector": "app == 'a'"}), None, 6, 80));
    assert!(to(json!({"ports": ["web"], "selector": "app == 'b'"}), None, 6, 80));
    assert!(!to(web("notPorts"), Some("TCP"), 6, 80));
    assert!(to(web("notPorts"), Some("TCP"), 6, 81));
    assert!(to(json!({"notPorts": ["nobodys"]}), Some("TCP"), 6, 80), "a name that nobody has excepts nothing");
    assert!(to(json!({"notPorts": ["web"], "selector": "app == 'b'"}), Some("TCP"), 6, 81));
    assert!(!to(json!({"ports": [80]}), Some("SCTP"), 6, 80));
}

#[test]
fn a_name_of_a_protocol_implies_a_family_and_a_number_does_not() {
    let allows = |rule: Value, v6: bool, protocol: u8| {
        let (from, to) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        allows_from(rule, from, to, protocol, 0)
    };
    for (protocol, number, v4, v6) in [
        (json!("ICMP"), 1, true, false),
        (json!(1), 1, true, true),
        (json!("ICMPv6"), 58, false, true),
        (json!(58), 58, true, true),
        (json!("UDPLite"), 136, true, true),
        (json!(47), 47, true, true),
    ] {
        let rule = json!({"action": "Allow", "protocol": protocol});
        assert_eq!([allows(rule.clone(), false, number), allows(rule.clone(), true, number)], [v4, v6], "{rule}");
        assert!(!allows(rule.clone(), false, 6), "{rule}");
    }
    for (version, v4, v6) in [(4, true, false), (6, false, true)] {
        let rule = json!({"action": "Allow", "ipVersion": version});
        assert_eq!([allows(rule.clone(), false, 6), allows(rule, true, 6)], [v4, v6]);
    }
}

/// A list that the family leaves empty takes the rule out of that family, be it wanted or unwanted; one that was empty is no restriction.
#[test]
fn lists_of_prefixes_of_the_other_family_are_no_missing_lists() {
    let allows = |source: Value, v6: bool| {
        let (from, to) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        allows_from(json!({"action": "Allow", "source": source}), from, to, 6, 80)
    };
    for (source, v4, v6) in [
        (json!({}), true, true),
        (json!({"nets": ["10.0.0.0/8"]}), true, false),
        (json!({"nets": ["fd00::/8"]}), false, true),
        (json!({"notNets": ["192.0.2.0/24"]}), true, false),
        (json!({"notNets": ["2001:db8::/32"]}), false, true),
        (json!({"notNets": ["0.0.0.0/0"]}), false, false),
        (json!({"notNets": ["::/0"]}), false, false),
    ] {
        assert_eq!([allows(source.clone(), false), allows(source.clone(), true)], [v4, v6], "{source}");
    }
}

#[test]
fn accounts_are_names_and_labels() {
    let profile = json!({"ingress": [], "egress": [], "labelsToApply": {"pcsa.role": "reader"}});
    let mut pods = pods();
    let Resource::WorkloadEndpoint(a) = &mut pods[0] else { unreachable!() };
    a.spec.service_account_name = "robot".into();
    let decide = |accounts: Value| {
        let rule = json!([{"action": "Allow", "source": {"serviceAccounts": accounts}}]);
        let only = policy("only", json!({"selector": "app == 'b'", "types": ["Ingress"], "ingress": rule}));
        let p = resource(Kind::Profile, None, "p", json!({}), profile.clone());
        let resources: Vec<Resource> = pods.iter().cloned().chain([p, only]).collect();
        Cluster::new(&resources).ingress(&key("b"), &flow("10.0.0.1", "10.0.0.2", 6, 80)) == ALLOW
    };
    assert!(decide(json!({"names": ["robot"]})));
    assert!(decide(json!({"names": ["other", "robot"]})));
    assert!(!decide(json!({"names": ["other"]})));
    assert!(decide(json!({"selector": "role == 'reader'"})));
    assert!(!decide(json!({"selector": "role == 'writer'"})));
    assert!(!decide(json!({"names": ["other"], "selector": "role == 'reader'"})));
    assert!(decide(json!({"names": ["robot"], "selector": "role == 'reader'"})));
}

/// An address that two endpoints have stays a member while one of them has it; a profile's labels are all its endpoints'.
#[test]
fn members_are_counted_and_labels_inherited() {
    let twin = || {
        let mut twin = pods().remove(0);
        let metadata = twin.metadata_mut().unwrap();
        metadata.name = "twin".into();
        metadata.labels.insert("app".into(), "twin".into());
        twin
    };
    let from = |selector: &str| {
        let rule = json!([{"action": "Allow", "source": {"selector": selector}}]);
        policy("only", json!({"selector": "app == 'b'", "types": ["Ingress"], "ingress": rule}))
    };
    assert_eq!(a_to_b(&[open(), from("app == 'twin'")]), DENY);
    assert_eq!(a_to_b(&[open(), from("app == 'twin'"), twin()]), ALLOW);
    assert_eq!(a_to_b(&[open(), from("app == 'a'"), twin()]), ALLOW);
    let labels =
        json!({"ingress": [], "egress": [{"action": "Allow"}], "labelsToApply": {"team": "red", "app": "inherited"}});
    let profile = resource(Kind::Profile, None, "p", json!({}), labels);
    assert_eq!(a_to_b(&[profile.clone(), from("team == 'red'")]), ALLOW);
    assert_eq!(a_to_b(&[from("team == 'red'"), open()]), DENY);
    assert_eq!(a_to_b(&[profile, from("app == 'inherited'")]), DENY, "an endpoint's own label comes first");
}

#[test]
fn selectors_of_policies() {
    let accounts = json!({"ingress": [{"action": "Allow"}], "egress": [{"action": "Allow"}], "labelsToApply": {"pcns.team": "red", "pcsa.role": "reader"}});
    let profile = || resource(Kind::Profile, None, "p", json!({}), accounts.clone());
    let concerns = |more: Value| {
        let mut spec = json!({"types": ["Ingress"]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        a_to_b(&[profile(), policy("deny", spec)]) == DENY
    };
    assert!(concerns(json!({})));
    assert!(concerns(json!({"selector": "app == 'b'", "namespaceSelector": "team == 'red'"})));
    assert!(!concerns(json!({"selector": "app == 'b'", "namespaceSelector": "team == 'blue'"})));
    assert!(!concerns(json!({"selector": "app == 'a'", "namespaceSelector": "team == 'red'"})));
    assert!(concerns(json!({"namespaceSelector": "all()"})));
    assert!(concerns(json!({"serviceAccountSelector": "role == 'reader'"})));
    assert!(!concerns(json!({"serviceAccountSelector": "role == 'writer'"})));
    let namespaced = |namespace| {
        let deny = resource(Kind::NetworkPolicy, Some(namespace), "deny", json!({}), json!({"types": ["Ingress"]}));
        a_to_b(&[profile(), deny]) == DENY
    };
    assert!(namespaced("default"));
    assert!(!namespaced("other"));
}

/// A tier that is deleted under its policies takes its default action along.
#[test]
fn tiers_without_a_tier_come_last_and_deny() {
    let in_tier = |tier: &str, action: &str| {
        let spec = json!({"tier": tier, "selector": "all()", "types": ["Ingress"], "ingress": [{"action": action}]});
        policy(&[tier, ".x"].concat(), spec)
    };
    let tier = |name: &str, order: Value, action: &str| {
        resource(Kind::Tier, None, name, json!({}), json!({"order": order, "defaultAction": action}))
    };
    assert_eq!(a_to_b(&[open(), tier("t", json!(1), "Pass"), in_tier("t", "Log")]), ALLOW);
    assert_eq!(a_to_b(&[open(), in_tier("t", "Log")]), DENY);
    // Among those that exist: order, none last; then the name.
    let two = |one: Value, other: Value| {
        a_to_b(&[open(), tier("a", one, "Deny"), tier("b", other, "Deny"), in_tier("a", "Allow"), in_tier("b", "Deny")])
    };
    assert_eq!(two(json!(1), json!(2)), ALLOW);
    assert_eq!(two(json!(2), json!(1)), DENY);
    assert_eq!(two(json!(null), json!(9e9)), DENY);
    assert_eq!(two(json!(null), json!(null)), ALLOW);
    assert_eq!(a_to_b(&[open(), tier("z", json!(null), "Deny"), in_tier("z", "Deny"), in_tier("a", "Allow")]), DENY);
}
