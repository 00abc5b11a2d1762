use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use super::*;
use crate::resource::shape::{Field, Shape};
use crate::resource::{API_VERSION, Action, merge_newer, merge_unknown};

fn policy() -> Value {
    json!({
        "kind": "GlobalNetworkPolicy", "apiVersion": "projectcalico.org/v3",
        "metadata": {"name": "allow-dns", "uid": "u", "creationTimestamp": "2026-08-22T06:33:20Z",
                     "labels": {"projectcalico.org/tier": "default"}},
        "spec": {"tier": "default", "order": 10, "selector": "all()", "types": ["Ingress"],
                 "ingress": [{"action": "Allow", "protocol": "UDP", "destination": {"ports": [53]}}]},
    })
}

fn paths(faults: &[Fault]) -> Vec<&str> {
    faults.iter().map(|fault| fault.path.as_str()).collect()
}

#[test]
fn stored_form_is_upstreams() {
    let resource = Resource::decode(Kind::GlobalNetworkPolicy, &policy()).unwrap();
    assert_eq!(resource.key(), Some(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "allow-dns")));
    let mut expected = policy();
    expected["metadata"]["annotations"] = json!({"projectcalico.org/metadata": "{\"name\":\"allow-dns\"}"});
    assert_eq!(resource.encode(), expected);
    assert_eq!(Resource::decode(Kind::GlobalNetworkPolicy, &expected).unwrap(), resource);
    assert_eq!(resource.document(), policy());
}

#[test]
fn resource_version_is_shown_and_never_stored() {
    let mut document = policy();
    document["metadata"]["resourceVersion"] = "7".into();
    let resource = Resource::decode_strict(Kind::GlobalNetworkPolicy, &document, None).unwrap();
    assert_eq!(resource.document()["metadata"]["resourceVersion"], "7");
    assert_eq!(resource.encode()["metadata"].get("resourceVersion"), None);
}

#[test]
fn policy_names_of_old_writers_are_restored() {
    let mut document = policy();
    document["metadata"]["name"] = "default.allow-dns".into();
    let name = |document: &Value| {
        let resource = Resource::decode(Kind::GlobalNetworkPolicy, document)?;
        Ok::<_, Vec<Fault>>(resource.metadata().unwrap().name.clone())
    };
    assert_eq!(name(&document).unwrap(), "allow-dns");
    document["spec"]["tier"] = "security".into();
    assert_eq!(name(&document).unwrap(), "default.allow-dns");
    document["metadata"]["annotations"] = json!({NAME_ANNOTATION: "{\"name\":\"other\"}"});
    assert_eq!(name(&document).unwrap(), "other");
    document["metadata"]["annotations"] = json!({NAME_ANNOTATION: "other"});
    // The key says the name, then.
    let resource = Resource::decode(Kind::GlobalNetworkPolicy, &document).unwrap();
    let metadata = resource.metadata().unwrap();
    assert_eq!(metadata.name, "default.allow-dns");
    assert_eq!(paths(&metadata.unread), ["metadata.annotations[projectcalico.org/metadata]"]);
}

#[test]
fn nulls_are_absent() {
    let mut document = policy();
    document["metadata"]["creationTimestamp"] = Value::Null;
    document["metadata"]["labels"] = Value::Null;
    document["spec"]["egress"] = Value::Null;
    document["spec"]["ingress"][0]["source"] = Value::Null;
    let resource = Resource::decode(Kind::GlobalNetworkPolicy, &document).unwrap();
    assert_eq!(resource.metadata().unwrap().creation_timestamp, None);
    assert!(Resource::decode_strict(Kind::GlobalNetworkPolicy, &document, None).is_ok());
}

#[test]
fn every_fault_is_found_with_its_place() {
    let document = json!({
        "kind": "GlobalNetworkPolicy", "apiVersion": "projectcalico.org/v3", "metadata": {"name": "x"},
        "spec": {"order": "ten", "ingress": [
            {"source": {"nets": ["10.0.0.0/33"]}},
            {"action": "allow", "destination": {"ports": [0, "90:80"]}},
            {"action": "Deny", "protocol": "tcp"},
        ]},
    });
    let faults = stored(Kind::GlobalNetworkPolicy, &document).unwrap_err();
    assert_eq!(
        paths(&faults),
        [
            "spec.order",
            "spec.ingress[0].source.nets[0]",
            "spec.ingress[0].action",
            "spec.ingress[1].action",
            "spec.ingress[1].destination.ports[0]",
            "spec.ingress[1].destination.ports[1]",
            "spec.ingress[2].protocol",
        ]
    );
    assert_eq!(faults[1].value.as_deref(), Some("10.0.0.0/33"));
}

#[test]
fn words_that_a_manifest_may_not_have_are_taken_where_they_are_stored() {
    let kind = Kind::GlobalNetworkPolicy;
    let mut document = policy();
    document["spec"]["ingress"][0]["source"] = json!({"nets": ["10.1.2.3/24"]});
    let stored = document.clone();
    assert_eq!(paths(&Resource::decode_strict(kind, &document, None).unwrap_err()), ["spec.ingress[0].source.nets[0]"]);
    let Ok(Resource::GlobalNetworkPolicy(read)) = Resource::decode_strict(kind, &document, Some(&stored)) else {
        panic!()
    };
    assert_eq!(read.spec.ingress[0].source.nets[0].to_string(), "10.1.2.0/24");
    document["spec"]["ingress"][0]["source"]["notNets"] = json!(["10.1.2.3/24"]);
    let elsewhere = Resource::decode_strict(kind, &document, Some(&stored)).unwrap_err();
    assert_eq!(paths(&elsewhere), ["spec.ingress[0].source.notNets[0]"]);
    document["spec"]["ingress"][0]["source"] = json!({"nets": ["10.1.2.9/24"]});
    assert!(Resource::decode_strict(kind, &document, Some(&stored)).is_err(), "another one");
    document["spec"]["ingress"][0]["source"] = json!({"nets": ["10.1.2.3/99"]});
    assert!(Resource::decode_strict(kind, &document, Some(&document)).is_err(), "what no reader takes");
}

#[test]
fn a_typing_mistake_is_refused_in_a_manifest_unless_it_is_stored() {
    let mut document = policy();
    document["spec"]["ingress"][0]["source"] = json!({"selectr": "role == 'dns'"});
    assert!(Resource::decode(Kind::GlobalNetworkPolicy, &document).is_ok());
    let faults = Resource::decode_strict(Kind::GlobalNetworkPolicy, &document, None).unwrap_err();
    assert_eq!(paths(&faults), ["spec.ingress[0].source.selectr"]);
    assert!(faults[0].reason.contains("did you mean selector?"));
    assert!(Resource::decode_strict(Kind::GlobalNetworkPolicy, &document, Some(&document)).is_ok());
}

#[test]
fn every_kind_refuses_what_decides_traffic_wrongly() {
    let cases = [
        ((Kind::IpPool, json!({"cidr": "10.0.0.0/16", "blockSize": 19})), "spec.blockSize"),
        ((Kind::IpPool, json!({"cidr": "10.0.0.0/27"})), "spec.cidr"),
        ((Kind::IpPool, json!({})), "spec.cidr"),
        ((Kind::IpPool, Value::Null), "spec"),
        ((Kind::WorkloadEndpoint, json!({"node": "n"})), "spec.interfaceName"),
        ((Kind::WorkloadEndpoint, Value::Null), "spec.interfaceName"),
        ((Kind::WorkloadEndpoint, json!({"interfaceName": "c", "ipNetworks": ["10.0.0.0/24"]})), "spec.ipNetworks[0]"),
        ((Kind::WorkloadEndpoint, json!({"interfaceName": "c", "ipv4Gateway": "fe80::1"})), "spec.ipv4Gateway"),
        ((Kind::Node, json!({"bgp": {"ipv4Address": "fd00::1/64"}})), "spec.bgp.ipv4Address"),
    ];
    for ((kind, spec), path) in cases {
        let faults = Resource::decode(kind, &json!({"metadata": {"name": "x"}, "spec": spec})).unwrap_err();
        assert_eq!(paths(&faults), [path], "{kind} {spec}");
    }
}

/// The lists' bounds are upstream's schema's.
#[test]
fn a_rule_of_a_manifest_has_http_conditions_and_notes_within_bounds() {
    let faults_of = |http: Value, metadata: Value| {
        let rule = json!({"action": "Allow", "http": http, "metadata": metadata});
        let document = json!({"kind": "GlobalNetworkPolicy", "apiVersion": API_VERSION, "metadata": {"name": "p"},
                              "spec": {"ingress": [rule]}});
        let faults = Resource::decode_strict(Kind::GlobalNetworkPolicy, &document, None).err().unwrap_or_default();
        faults.iter().map(|fault| fault.path.replace("spec.ingress[0].", "")).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    let methods = |count: usize| (0..count).map(|index| format!("M{index}")).collect::<Vec<_>>();
    let paths = |count: usize| vec![json!({"prefix": "/a"}); count];
    let long = |length: usize| format!("/{}", "a".repeat(length - 1));
    let notes = json!({"annotations": {"a/b": "c"}});
    assert_eq!(faults_of(json!({"methods": methods(20), "paths": paths(20)}), notes), none);
    assert_eq!(faults_of(json!({"paths": [{"exact": long(1024)}]}), Value::Null), none);
    for (http, path) in [
        (json!("GET"), "http"),
        (json!({"methods": methods(21)}), "http.methods"),
        (json!({"methods": ["GET", "PUT", "GET"]}), "http.methods[2]"),
        (json!({"methods": [7]}), "http.methods[0]"),
        (json!({"paths": paths(21)}), "http.paths"),
        (json!({"paths": [{"exact": "/", "prefix": "/"}]}), "http.paths[0]"),
        (json!({"paths": [{"exact": "/"}, {"prefix": "a"}]}), "http.paths[1]"),
        (json!({"paths": [{"exact": long(1025)}]}), "http.paths[0].exact"),
        (json!({"path": "/"}), "http.path"),
    ] {
        assert_eq!(faults_of(http.clone(), Value::Null), [path], "{http}");
    }
    assert_eq!(faults_of(Value::Null, json!({"annotations": {"a b": "c"}})), ["metadata.annotations"]);
    assert_eq!(faults_of(Value::Null, json!({"annotations": {"a": 1}})), ["metadata.annotations.a"]);
}

/// The schema has a pattern for most of the agent's durations; for these three it has none. Health reports have a rule of their own.
#[test]
fn a_manifests_durations_are_negative_only_where_the_schema_lets_them() {
    let faults_of = |field: &str, value: Value| {
        let document = json!({"kind": "FelixConfiguration", "apiVersion": API_VERSION, "metadata": {"name": "default"},
                              "spec": {field: value}});
        assert!(Resource::decode(Kind::FelixConfiguration, &document).is_ok(), "stored, {field} is taken as it is");
        let read = Resource::decode_strict(Kind::FelixConfiguration, &document, None);
        read.err().unwrap_or_default().iter().map(|fault| fault.path.clone()).collect::<Vec<_>>()
    };
    let Some(Shape::Struct(fields)) = Kind::FelixConfiguration.shape().member("spec") else { panic!("no fields") };
    let mut free = Vec::new();
    let mut held = 0;
    let is_duration = |field: &&Field| matches!(field.shape, Shape::Leaf { stored, .. } if stored(&json!("90s")) == Ok(json!("1m30s")));
    for field in fields.iter().filter(is_duration) {
        assert!(faults_of(field.name, json!("90s")).is_empty(), "{}", field.name);
        match faults_of(field.name, json!("-90s")).as_slice() {
            [] => free.push(field.name),
            [path] if *path == format!("spec.{}", field.name) => held += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        free,
        ["dataplaneWatchdogTimeout", "nftablesRefreshInterval", "localSubnetL2ReachabilityRefreshInterval"]
    );
    assert_eq!(held, 21);
    let reports = faults_of("healthTimeoutOverrides", json!([{"name": "a", "timeout": "-90s"}]));
    assert_eq!(reports, ["spec.healthTimeoutOverrides[0].timeout"]);
}

#[test]
fn the_time_of_a_nodes_status_is_one() {
    let faults_of = |time: Value| {
        let document = json!({"kind": "CalicoNodeStatus", "apiVersion": API_VERSION, "metadata": {"name": "n"},
                              "spec": {"node": "n", "classes": ["Agent"], "updatePeriodSeconds": 10},
                              "status": {"lastUpdated": time}});
        assert!(Resource::decode(Kind::CalicoNodeStatus, &document).is_ok(), "stored, it is taken as it is");
        let read = Resource::decode_strict(Kind::CalicoNodeStatus, &document, None);
        read.err().unwrap_or_default().iter().map(|fault| fault.path.clone()).collect::<Vec<_>>()
    };
    for time in [json!(null), json!("2026-01-02T03:04:05Z"), json!("2026-01-02T03:04:05.25+02:00")] {
        assert!(faults_of(time).is_empty());
    }
    for time in ["yesterday", "2026-01-02", "2026-01-02 03:04:05Z"] {
        assert_eq!(faults_of(json!(time)), ["status.lastUpdated"], "{time}");
    }
}

#[test]
fn a_manifest_is_held_to_names_and_strict_prefixes() {
    let manifest = |kind: Kind, metadata: Value, spec: Value| json!({"kind": kind.name(), "apiVersion": API_VERSION, "metadata": metadata, "spec": spec});
    let cases = [
        (Kind::Tier, json!({"name": "a.b"}), json!({}), vec!["metadata.name"]),
        (Kind::Tier, json!({"name": "default"}), json!({"order": 5}), vec!["spec.order"]),
        (Kind::Tier, json!({}), json!({}), vec!["metadata.name"]),
        (Kind::Node, json!({"name": "n", "namespace": "x"}), json!({}), vec!["metadata.namespace"]),
        (
            Kind::Node,
            json!({"name": "n", "labels": {"a b": "c d"}}),
            json!({}),
            vec!["metadata.labels", "metadata.labels.a b"],
        ),
        (Kind::Node, json!({"name": "n", "labels": {"a": 1}}), json!({}), vec!["metadata.labels.a"]),
        (Kind::IpPool, json!({"name": "p"}), json!({"cidr": "10.0.0.1/16"}), vec!["spec.cidr"]),
        (
            Kind::GlobalNetworkPolicy,
            json!({"name": "p"}),
            json!({"ingress": [{"action": "Deny", "source": {"nets": ["::ffff:10.65.0.11/128", "::/0"]}}]}),
            vec!["spec.ingress[0].source.nets[0]"],
        ),
        (Kind::GlobalNetworkSet, json!({"name": "s"}), json!({"nets": ["::ffff:10.0.0.0/104"]}), vec!["spec.nets[0]"]),
        (Kind::Profile, json!({"name": "p"}), json!({"labelsToApply": {"a": "b c"}}), vec!["spec.labelsToApply.a"]),
        (
            Kind::IpReservation,
            json!({"name": "r"}),
            json!({"reservedCIDRs": ["10.0.0.1"]}),
            vec!["spec.reservedCIDRs[0]"],
        ),
        (
            Kind::KubeControllersConfiguration,
            json!({"name": "other"}),
            json!({"controllers": {}}),
            vec!["metadata.name"],
        ),
        (
            Kind::KubeControllersConfiguration,
            json!({"name": "default"}),
            json!({"controllers": {}, "logSeverityScreen": "info"}),
            vec!["spec.logSeverityScreen"],
        ),
        (
            Kind::LiveMigration,
            json!({"name": "m", "namespace": "n"}),
            json!({"source": {}, "target": {"selector": "all()", "workloadEndpoint": {}}}),
            vec!["spec.source", "spec.target"],
        ),
    ];
    for (kind, metadata, spec, expected) in cases {
        let document = manifest(kind, metadata, spec);
        let faults = Resource::decode_strict(kind, &document, None).unwrap_err();
        assert_eq!(paths(&faults), expected, "{document}");
    }
    let faults =
        Resource::decode_strict(Kind::Tier, &json!({"kind": "Node", "metadata": {"name": "t"}}), None).unwrap_err();
    assert_eq!(paths(&faults), ["kind", "apiVersion"]);
}

#[test]
fn unknown_fields_survive_a_rewrite_and_follow_their_rule() {
    let mut base = policy();
    base["spec"]["future"] = json!({"a": 1});
    base["spec"]["performanceHints"] = json!(["AssumeNeededOnEveryNode"]);
    base["spec"]["ingress"][0]["futureMatch"] = "x".into();
    base["metadata"]["labels"]["gone"] = "soon".into();
    let Resource::GlobalNetworkPolicy(mut policy) = Resource::decode(Kind::GlobalNetworkPolicy, &base).unwrap() else {
        unreachable!()
    };
    policy.metadata.labels.remove("gone");
    policy.spec.order = None;
    policy.spec.ingress.insert(0, crate::resource::Rule { action: Action::Deny, ..Default::default() });
    let merged = merge_unknown(Kind::GlobalNetworkPolicy, &base, Resource::GlobalNetworkPolicy(policy).encode());
    assert_eq!(merged["spec"]["future"], json!({"a": 1}));
    assert_eq!(merged["spec"]["performanceHints"], json!(["AssumeNeededOnEveryNode"]));
    assert_eq!(merged["spec"]["ingress"][0], json!({"action": "Deny"}));
    assert_eq!(merged["spec"]["ingress"][1]["futureMatch"], "x");
    assert_eq!(merged["spec"].get("order"), None);
    assert_eq!(merged["metadata"]["labels"].get("gone"), None);
}

#[test]
fn an_operator_deletes_carried_fields_but_not_those_of_newer_versions() {
    let mut stored = policy();
    stored["spec"]["future"] = json!(1);
    stored["spec"]["performanceHints"] = json!(["AssumeNeededOnEveryNode"]);
    let merged = merge_newer(Kind::GlobalNetworkPolicy, &stored, policy());
    assert_eq!(merged.document["spec"]["future"], json!(1));
    assert_eq!(merged.document["spec"].get("performanceHints"), None);
    assert_eq!(merged.lost, [""; 0]);
}

#[test]
fn ipam_kinds_are_their_own_json() {
    let block = json!({
        "cidr": "10.65.0.0/31", "affinity": "host:a", "allocations": [0, null], "unallocated": [1],
        "attributes": [{"handle_id": "h"}], "sequenceNumber": 5, "sequenceNumberForAllocation": {"0": 4}, "deleted": false,
    });
    let resource = Resource::decode(Kind::IpamBlock, &block).unwrap();
    assert_eq!(resource.encode(), block);
    assert_eq!(resource.key(), None);
    for (field, value) in [("unallocated", json!([2])), ("allocations", json!([0])), ("allocations", json!([1, null]))]
    {
        let mut bad = block.clone();
        bad[field] = value;
        assert_eq!(paths(&Resource::decode(Kind::IpamBlock, &bad).unwrap_err()), [field]);
    }
    let go = json!({"cidr": "10.65.0.0/31", "affinity": null, "allocations": [null, null], "unallocated": [0, 1],
        "attributes": null, "sequenceNumber": 5, "sequenceNumberForAllocation": null, "deleted": false});
    assert!(Resource::decode(Kind::IpamBlock, &go).is_ok());
    assert_eq!(Resource::decode(Kind::BlockAffinity, &json!({})).unwrap().kind(), Kind::BlockAffinity);
}

#[test]
fn faults_read_like_upstreams() {
    let document = json!({"spec": {"cidr": "10.0.0.0/40"}});
    let faults = Resource::decode(Kind::IpPool, &document).unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "error with field spec.cidr = '10.0.0.0/40' (\"10.0.0.0/40\" is not a CIDR: give ADDRESS/LENGTH, such as \
         10.0.0.0/24 or fd00::/64)"
    );
}

#[test]
fn selectors_are_parsed_and_the_place_of_the_fault_is_kept() {
    let document = json!({"metadata": {"name": "x"}, "spec": {
        "selector": "a == ", "namespaceSelector": "has(b", "ingress": [{"action": "Deny", "source": {"notSelector": "= 'x'"}}]}});
    let faults = Resource::decode(Kind::GlobalNetworkPolicy, &document).unwrap_err();
    assert_eq!(paths(&faults), ["spec.selector", "spec.namespaceSelector", "spec.ingress[0].source.notSelector"]);
    assert!(faults.iter().all(|fault| fault.offset.is_some()));
    assert_eq!(faults[2].offset, Some(0));
    let pool = json!({"metadata": {"name": "x"}, "spec": {"cidr": "10.0.0.0/16", "nodeSelector": "all("}});
    assert_eq!(paths(&Resource::decode(Kind::IpPool, &pool).unwrap_err()), ["spec.nodeSelector"]);
}

#[test]
fn a_list_is_no_mapping() {
    // serde would take it for the fields in order.
    for (field, value) in [("source", json!([])), ("icmp", json!([8])), ("source", json!([["10.0.0.0/8"]]))] {
        let mut document = policy();
        document["spec"]["ingress"][0]["protocol"] = "ICMP".into();
        document["spec"]["ingress"][0]["destination"] = Value::Null;
        document["spec"]["ingress"][0][field] = value;
        let faults = stored(Kind::GlobalNetworkPolicy, &document).unwrap_err();
        assert_eq!(paths(&faults), [["spec.ingress[0].", field].concat()]);
    }
    let faults = Resource::decode(Kind::Node, &json!({"metadata": {"name": "n"}, "spec": []})).unwrap_err();
    assert_eq!(paths(&faults), ["spec"]);
}

#[test]
fn only_an_object_is_an_object() {
    for &kind in Kind::ALL {
        for (value, found) in [
            (json!(null), "nothing"),
            (json!([]), "a list"),
            (json!([{}]), "a list"),
            (json!(5), "a number"),
            (json!(""), "text"),
            (json!(true), "true or false"),
        ] {
            let faults = Resource::decode(kind, &value).unwrap_err();
            let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
            assert_eq!(told, [alloc::format!("expected a JSON object, found {found}")], "{kind} {value}");
        }
    }
}

#[test]
fn the_key_identifies() {
    let adopted = |kind: Kind, metadata: Value, spec: Value, key: &ResourceKey| {
        let mut resource = Resource::decode(kind, &json!({"metadata": metadata, "spec": spec})).unwrap();
        resource.adopt_key(key);
        let metadata = resource.metadata().unwrap();
        (metadata.name.clone(), metadata.namespace.clone())
    };
    let node = ResourceKey::cluster(Kind::Node, "n");
    for metadata in [json!({}), json!({"name": "other"}), json!({"name": "n", "namespace": "x"})] {
        assert_eq!(adopted(Kind::Node, metadata, json!({}), &node), ("n".into(), None));
    }
    let set = ResourceKey::namespaced(Kind::NetworkSet, "a", "s");
    for metadata in [json!({}), json!({"name": "s", "namespace": "b"})] {
        assert_eq!(adopted(Kind::NetworkSet, metadata, json!({}), &set), ("s".into(), Some("a".into())));
    }
    let policy = |tier: &str, name: &str, key: &str| {
        let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, key);
        adopted(Kind::GlobalNetworkPolicy, json!({"name": name}), json!({"tier": tier}), &key).0
    };
    assert_eq!(policy("", "default.web", "default.web"), "web");
    assert_eq!(policy("security", "web", "security.web"), "web");
    assert_eq!(policy("security", "web", "platform.web"), "platform.web");
    assert_eq!(policy("default", "web", "other"), "other");
}
