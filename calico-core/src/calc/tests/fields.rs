//! No field of policy is accepted and ignored: each changes what comes out, or is told of.

use serde_json::{Value, json};

use super::*;

/// What is only noted, and decides nothing.
const NOTES: [(&str, &str); 1] = [("rule", "metadata")];

/// An object, a place in its specification that has fields, and for each field a specification and what is changed in it.
struct Place {
    name: &'static str,
    kind: Kind,
    /// A specification with an unknown field at that place.
    probe: fn(Value) -> Value,
    cases: Vec<(&'static str, Value, &'static str, Value)>,
}

fn places() -> Vec<Place> {
    let in_rule = |field: Value| json!({"ingress": [field]});
    let mut places = policies();
    places.extend([
        Place { name: "rule", kind: Kind::NetworkPolicy, probe: |field| json!({"ingress": [field]}), cases: rule() },
        Place {
            name: "source",
            kind: Kind::GlobalNetworkPolicy,
            probe: |field| json!({"ingress": [{"action": "Allow", "source": field}]}),
            cases: entity("source"),
        },
        Place {
            name: "destination",
            kind: Kind::GlobalNetworkPolicy,
            probe: |field| json!({"egress": [{"action": "Allow", "destination": field}]}),
            cases: entity("destination"),
        },
        Place {
            name: "serviceAccounts",
            kind: Kind::GlobalNetworkPolicy,
            probe: |field| json!({"ingress": [{"action": "Allow", "source": {"serviceAccounts": field}}]}),
            cases: vec![
                (
                    "names",
                    in_rule(json!({"action": "Allow", "source": {"serviceAccounts": {}}})),
                    "/ingress/0/source/serviceAccounts/names",
                    json!(["robot"]),
                ),
                (
                    "selector",
                    in_rule(json!({"action": "Allow", "source": {"serviceAccounts": {}}})),
                    "/ingress/0/source/serviceAccounts/selector",
                    json!("has(role)"),
                ),
            ],
        },
        Place {
            name: "services",
            kind: Kind::NetworkPolicy,
            probe: |field| json!({"ingress": [{"action": "Allow", "source": {"services": field}}]}),
            cases: vec![
                (
                    "name",
                    in_rule(json!({"action": "Allow", "source": {"services": {"name": "web"}}})),
                    "/ingress/0/source/services/name",
                    json!("dns"),
                ),
                (
                    "namespace",
                    in_rule(json!({"action": "Allow", "source": {"services": {"name": "web"}}})),
                    "/ingress/0/source/services/namespace",
                    json!("two"),
                ),
            ],
        },
        Place {
            name: "icmp",
            kind: Kind::NetworkPolicy,
            probe: |field| json!({"ingress": [{"action": "Allow", "protocol": "ICMP", "icmp": field}]}),
            cases: vec![
                (
                    "type",
                    in_rule(json!({"action": "Allow", "protocol": "ICMP"})),
                    "/ingress/0/icmp",
                    json!({"type": 8}),
                ),
                (
                    "code",
                    in_rule(json!({"action": "Allow", "protocol": "ICMP", "icmp": {"type": 8}})),
                    "/ingress/0/icmp/code",
                    json!(1),
                ),
            ],
        },
        Place {
            name: "http",
            kind: Kind::NetworkPolicy,
            probe: |field| json!({"ingress": [{"action": "Allow", "http": field}]}),
            cases: vec![
                ("methods", in_rule(json!({"action": "Allow"})), "/ingress/0/http", json!({"methods": ["GET"]})),
                ("paths", in_rule(json!({"action": "Allow"})), "/ingress/0/http", json!({"paths": [{"exact": "/"}]})),
            ],
        },
    ]);
    places
}

/// Fields that policies of all kinds have.
fn common(extra: Vec<(&'static str, Value, &'static str, Value)>) -> Vec<(&'static str, Value, &'static str, Value)> {
    let mut cases = vec![
        ("tier", json!({}), "/tier", json!("early")),
        ("order", json!({}), "/order", json!(5)),
        ("ingress", json!({}), "/ingress", json!([{"action": "Deny"}])),
        ("egress", json!({"types": ["Egress"]}), "/egress", json!([{"action": "Deny"}])),
        ("selector", json!({}), "/selector", json!("app == 'none'")),
        ("types", json!({}), "/types", json!(["Egress"])),
        ("serviceAccountSelector", json!({}), "/serviceAccountSelector", json!("role == 'none'")),
        (
            "performanceHints",
            json!({"selector": "app == 'none'"}),
            "/performanceHints",
            json!(["AssumeNeededOnEveryNode"]),
        ),
        ("performanceHints", json!({}), "/performanceHints", json!(["Unheard"])),
    ];
    cases.extend(extra);
    cases
}

fn policies() -> Vec<Place> {
    let hosts = || {
        let forwarded = json!({"selector": "role == 'host'", "applyOnForward": true});
        vec![
            ("doNotTrack", forwarded.clone(), "/doNotTrack", json!(true)),
            ("preDNAT", forwarded, "/preDNAT", json!(true)),
            ("applyOnForward", json!({"selector": "role == 'host'"}), "/applyOnForward", json!(true)),
            ("namespaceSelector", json!({}), "/namespaceSelector", json!("team == 'none'")),
        ]
    };
    let staged = || ("stagedAction", json!({}), "/stagedAction", json!("Delete"));
    let with_staged = |mut cases: Vec<_>| {
        cases.push(staged());
        cases
    };
    let kubernetes = vec![
        staged(),
        ("podSelector", json!({}), "/podSelector", json!({"matchLabels": {"app": "none"}})),
        ("ingress", json!({}), "/ingress", json!([{}])),
        ("egress", json!({"policyTypes": ["Egress"]}), "/egress", json!([{}])),
        ("policyTypes", json!({}), "/policyTypes", json!(["Egress"])),
    ];
    let host = json!({"node": HOST, "interfaceName": "eth0"});
    let host_endpoint = vec![
        ("node", host.clone(), "/node", json!("node-2")),
        ("interfaceName", host.clone(), "/interfaceName", json!("eth1")),
        ("expectedIPs", host.clone(), "/expectedIPs", json!(["192.0.2.7"])),
        ("profiles", host.clone(), "/profiles", json!(["p"])),
        (
            "ports",
            json!({"node": HOST, "interfaceName": "eth0", "expectedIPs": ["192.0.2.7"]}),
            "/ports",
            json!([{"name": "web", "protocol": "TCP", "port": 81}]),
        ),
    ];
    let port = json!({"node": HOST, "interfaceName": "eth0", "expectedIPs": ["192.0.2.7"],
                      "ports": [{"name": "web", "protocol": "TCP", "port": 81}]});
    let ports = vec![
        ("name", port.clone(), "/ports/0/name", json!("other")),
        ("protocol", port.clone(), "/ports/0/protocol", json!("UDP")),
        ("port", port, "/ports/0/port", json!(82)),
    ];
    let tier =
        vec![("order", json!({}), "/order", json!(10)), ("defaultAction", json!({}), "/defaultAction", json!("Pass"))];
    let profile = vec![
        ("ingress", json!({}), "/ingress", json!([{"action": "Deny"}])),
        ("egress", json!({}), "/egress", json!([{"action": "Deny"}])),
        ("labelsToApply", json!({}), "/labelsToApply", json!({"inherited": "yes"})),
    ];
    let same = |field| field;
    vec![
        Place { name: "NetworkPolicy", kind: Kind::NetworkPolicy, probe: same, cases: common(vec![]) },
        Place { name: "GlobalNetworkPolicy", kind: Kind::GlobalNetworkPolicy, probe: same, cases: common(hosts()) },
        Place {
            name: "StagedNetworkPolicy",
            kind: Kind::StagedNetworkPolicy,
            probe: same,
            cases: common(vec![staged()]),
        },
        Place {
            name: "StagedGlobalNetworkPolicy",
            kind: Kind::StagedGlobalNetworkPolicy,
            probe: same,
            cases: with_staged(common(hosts())),
        },
        Place {
            name: "StagedKubernetesNetworkPolicy",
            kind: Kind::StagedKubernetesNetworkPolicy,
            probe: same,
            cases: kubernetes,
        },
        Place { name: "HostEndpoint", kind: Kind::HostEndpoint, probe: same, cases: host_endpoint },
        Place {
            name: "HostEndpoint ports",
            kind: Kind::HostEndpoint,
            probe: |field| json!({"node": HOST, "interfaceName": "eth0", "ports": [field]}),
            cases: ports,
        },
        Place { name: "Tier", kind: Kind::Tier, probe: same, cases: tier },
        Place { name: "Profile", kind: Kind::Profile, probe: same, cases: profile },
    ]
}

fn rule() -> Vec<(&'static str, Value, &'static str, Value)> {
    let tcp = json!({"ingress": [{"action": "Allow", "protocol": "TCP"}]});
    let icmp = json!({"ingress": [{"action": "Allow", "protocol": "ICMP"}]});
    let base = json!({"ingress": [{"action": "Allow"}]});
    vec![
        ("action", base.clone(), "/ingress/0/action", json!("Pass")),
        ("ipVersion", base.clone(), "/ingress/0/ipVersion", json!(6)),
        ("protocol", base.clone(), "/ingress/0/protocol", json!("UDP")),
        ("notProtocol", tcp.clone(), "/ingress/0/notProtocol", json!("UDP")),
        ("icmp", icmp.clone(), "/ingress/0/icmp", json!({"type": 8})),
        ("notICMP", icmp, "/ingress/0/notICMP", json!({"type": 8})),
        ("source", tcp.clone(), "/ingress/0/source", json!({"ports": [80]})),
        ("destination", tcp, "/ingress/0/destination", json!({"ports": [80]})),
        ("http", base, "/ingress/0/http", json!({"methods": ["GET"]})),
    ]
}

fn entity(side: &'static str) -> Vec<(&'static str, Value, &'static str, Value)> {
    let (list, path) = match side {
        "source" => (
            "ingress",
            [
                "/ingress/0/source/nets",
                "/ingress/0/source/notNets",
                "/ingress/0/source/selector",
                "/ingress/0/source/notSelector",
                "/ingress/0/source/namespaceSelector",
                "/ingress/0/source/ports",
                "/ingress/0/source/notPorts",
                "/ingress/0/source/serviceAccounts",
                "/ingress/0/source/services",
            ],
        ),
        _ => (
            "egress",
            [
                "/egress/0/destination/nets",
                "/egress/0/destination/notNets",
                "/egress/0/destination/selector",
                "/egress/0/destination/notSelector",
                "/egress/0/destination/namespaceSelector",
                "/egress/0/destination/ports",
                "/egress/0/destination/notPorts",
                "/egress/0/destination/serviceAccounts",
                "/egress/0/destination/services",
            ],
        ),
    };
    let base = json!({list: [{"action": "Allow", "protocol": "TCP", side: {}}]});
    let values = [
        ("nets", json!(["10.0.0.0/8"])),
        ("notNets", json!(["10.0.0.0/8"])),
        ("selector", json!("app == 'db'")),
        ("notSelector", json!("app == 'db'")),
        ("namespaceSelector", json!("has(team)")),
        ("ports", json!(["web", 80])),
        ("notPorts", json!(["web", 80])),
        ("serviceAccounts", json!({"names": ["robot"]})),
        ("services", json!({"name": "web", "namespace": "one"})),
    ];
    values.into_iter().zip(path).map(|((name, value), path)| (name, base.clone(), path, value)).collect()
}

/// What the graph makes of an object among others that it can matter to.
fn outcome(kind: Kind, spec: Value) -> (ActiveState, Vec<String>) {
    let mut rig = Rig::new();
    rig.update(tier("default", Some(1_000_000.0), None));
    rig.update(tier("early", Some(5.0), None));
    let mut pod = edited(&endpoint("a", "10.0.0.1/32", &[("app", "web")], &["p"]), |spec| {
        spec.service_account_name = "robot".into();
    });
    if let Some(Resource::WorkloadEndpoint(object)) = pod.value.as_mut().map(Arc::make_mut) {
        object.metadata.labels.insert(crate::resource::ORCHESTRATOR_LABEL.into(), "k8s".into());
    }
    rig.update(pod);
    let mut decoded = |kind: Kind, name: &str, spec: Value| {
        let namespace = matches!(kind.scope(), crate::resource::Scope::Namespaced).then_some("one");
        let key = match namespace {
            Some(namespace) => ResourceKey::namespaced(kind, namespace, name),
            None => ResourceKey::cluster(kind, name),
        };
        let labels = json!({"role": "host"});
        let document = json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec});
        let resource = Resource::decode(kind, &document).unwrap_or_else(|faults| panic!("{document}: {faults:?}"));
        rig.update(Update { key, value: Some(Arc::new(resource)) });
    };
    // Others, so that order, default actions, labels of profiles and members of sets make a difference.
    let named = json!({"destination": {"ports": ["web"]}, "action": "Deny"});
    let peers = json!({"source": {"selector": "role == 'host' || has(inherited)"}, "action": "Deny"});
    decoded(Kind::GlobalNetworkPolicy, "z", json!({"tier": "late", "ingress": [named, peers]}));
    decoded(Kind::NetworkPolicy, "a", json!({"order": 10}));
    decoded(Kind::Tier, "late", json!({"order": 1_500_000}));
    if kind != Kind::HostEndpoint {
        decoded(Kind::HostEndpoint, "h", json!({"node": HOST, "interfaceName": "eth0"}));
    }
    let profile = json!({"labelsToApply": {"pcns.team": "red", "pcsa.role": "reader"}});
    if kind != Kind::Profile {
        decoded(Kind::Profile, "p", profile);
    }
    let name = match kind {
        Kind::Tier => "late",
        Kind::Profile => "p",
        _ => "x",
    };
    decoded(kind, name, spec);
    rig.take(Input::Interface("eth0".parse().unwrap(), Some(vec![])));
    rig.take(Input::Interface("eth1".parse().unwrap(), Some(vec![])));
    rig.flush();
    let problems = rig.problems();
    (rig.state, problems)
}

/// The fields that there are at a place: what is told when an unknown one is written there.
fn known_fields(place: &Place) -> BTreeSet<String> {
    let document = json!({"metadata": {"name": "x"}, "spec": (place.probe)(json!({"?": true}))});
    let faults = Resource::decode_strict(place.kind, &document, None).unwrap_err();
    let known = faults.iter().find_map(|fault| fault.reason.strip_prefix("known here: "));
    known.unwrap_or_else(|| panic!("{}: {faults:?}", place.name)).split(", ").map(ToString::to_string).collect()
}

#[test]
fn every_field_changes_what_comes_out_or_is_told_of() {
    for place in places() {
        let notes = NOTES.iter().filter(|(name, _)| *name == place.name).map(|(_, field)| *field);
        let covered: BTreeSet<String> = place.cases.iter().map(|case| case.0).chain(notes).map(Into::into).collect();
        assert_eq!(covered, known_fields(&place), "{}", place.name);
        for (field, base, pointer, value) in &place.cases {
            let mut changed = base.clone();
            set(&mut changed, pointer, value.clone());
            let (before, after) = (outcome(place.kind, base.clone()), outcome(place.kind, changed.clone()));
            assert!(before != after, "{} {field}: {changed} is as {base}", place.name);
        }
    }
}

fn set(document: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(name.into(), value);
}

/// Of policies that the API would not take, but for which the graph is the last to look.
#[test]
fn combinations_that_cannot_be_are_told_of() {
    let mut rig = Rig::new();
    let mut told = |edit: fn(&mut crate::resource::GlobalNetworkPolicySpec)| {
        let mut spec = crate::resource::GlobalNetworkPolicySpec { apply_on_forward: true, ..Default::default() };
        edit(&mut spec);
        let object = Object { metadata: Metadata::default(), spec };
        let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "x");
        rig.update(Update { key, value: Some(Arc::new(Resource::GlobalNetworkPolicy(object))) });
        rig.flush();
        rig.problems().join("; ")
    };
    assert_eq!(told(|spec| spec.do_not_track = true), "");
    assert_eq!(told(|spec| spec.pre_dnat = true), "");
    let both = told(|spec| (spec.do_not_track, spec.pre_dnat) = (true, true));
    assert!(both.contains("it counts as doNotTrack"), "{both}");
    let egress = told(|spec| (spec.pre_dnat, spec.types) = (true, vec![PolicyType::Egress]));
    assert!(egress.contains("cannot govern Egress"), "{egress}");
    let rules = told(|spec| (spec.pre_dnat, spec.egress) = (true, vec![Rule::default()]));
    assert!(rules.contains("cannot govern Egress"), "{rules}");
    let forward = told(|spec| (spec.do_not_track, spec.apply_on_forward) = (true, false));
    assert!(forward.contains("need applyOnForward"), "{forward}");
}
