use alloc::string::ToString;
use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::resource::{Action, EntityRule, PolicyType, merge_unknown};

const KIND: Kind = Kind::GlobalNetworkPolicy;

fn policy(rule: Value) -> Value {
    let spec =
        json!({"selector": "all()", "types": ["Ingress"], "ingress": [rule, {"action": "Allow", "protocol": "TCP"}]});
    json!({"metadata": {"name": "x"}, "spec": spec})
}

/// The first rule, read from a policy in which it is the only one that is not understood.
fn read(rule: &Value) -> Rule {
    let document = policy(rule.clone());
    let resource = Resource::decode(KIND, &document).unwrap();
    let [[first, second], []] = resource.rules() else { unreachable!("two rules went in") };
    assert_eq!(second.unread, None);
    // Nothing of it is lost when it is shown or rewritten.
    assert_eq!(resource.document()["spec"]["ingress"][0], *rule);
    assert_eq!(merge_unknown(KIND, &document, resource.encode())["spec"], document["spec"]);
    first.clone()
}

fn faults(rule: &Rule) -> Vec<&str> {
    rule.unread.iter().flat_map(|unread| unread.all()).map(|fault| fault.path.as_str()).collect()
}

#[test]
fn a_rule_with_a_field_of_a_newer_version_is_marked() {
    for (field, value, path) in [
        ("newer", json!(1), "spec.ingress[0].newer"),
        ("source", json!({"newer": []}), "spec.ingress[0].source.newer"),
        (
            "destination",
            json!({"serviceAccounts": {"newer": "x"}}),
            "spec.ingress[0].destination.serviceAccounts.newer",
        ),
        ("Source", json!({"nets": ["10.0.0.0/8"]}), "spec.ingress[0].Source"),
    ] {
        let rule = read(&json!({"action": "Allow", field: value}));
        assert_eq!(faults(&rule), [path]);
        assert_eq!(rule.action, Action::Allow);
    }
    // Null says nothing.
    let resource = Resource::decode(KIND, &policy(json!({"action": "Allow", "newer": null}))).unwrap();
    assert!(resource.rules().into_iter().flatten().all(|rule| rule.unread.is_none()));
}

#[test]
fn a_field_of_the_specification_that_is_not_known_counts_for_every_rule() {
    let mut document = policy(json!({"action": "Allow"}));
    document["spec"]["hostSelector"] = "has(a)".into();
    let resource = Resource::decode(KIND, &document).unwrap();
    let [ingress, _] = resource.rules();
    assert!(ingress.iter().all(|rule| faults(rule) == ["spec.hostSelector"]));
    assert_eq!(resource.document()["spec"]["ingress"], document["spec"]["ingress"]);
}

/// The product of the two would be gigabytes for an object of kilobytes.
#[test]
fn what_many_rules_have_in_common_is_kept_once_and_in_part() {
    let mut document = policy(json!({"action": "Allow"}));
    document["spec"]["ingress"] = (0..300).map(|_| json!({"action": "Allow"})).collect();
    document["spec"]["egress"] = (0..4).map(|index| json!({"action": "Allow", "own": index})).collect();
    let unknown = |range: core::ops::Range<usize>| range.map(|index| (alloc::format!("newer{index}"), json!(1)));
    document["spec"].as_object_mut().unwrap().extend(unknown(0..400));
    document["spec"]["egress"][3].as_object_mut().unwrap().extend(unknown(0..40));
    let resource = Resource::decode(KIND, &document).unwrap();
    let [ingress, egress] = resource.rules();
    let common = &ingress[0].unread.as_ref().unwrap().common;
    assert_eq!((common.len(), common[20].to_string()), (21, "and 380 more".into()));
    for rule in [ingress, egress].into_iter().flatten() {
        assert!(Arc::ptr_eq(common, &rule.unread.as_ref().unwrap().common));
    }
    assert!(ingress.iter().all(|rule| rule.unread.as_ref().unwrap().faults.is_empty()));
    let own: Vec<_> = egress.iter().map(|rule| rule.unread.as_ref().unwrap().faults.len()).collect();
    assert_eq!(own, [1, 1, 1, 21]);
    assert_eq!(resource.document()["spec"]["egress"], document["spec"]["egress"]);
}

#[test]
fn of_many_faults_of_a_header_or_set_the_first_are_kept() {
    let labels: Map<String, Value> = (0..300).map(|index| (index.to_string(), json!(index))).collect();
    let nets: Value = (0..300).map(|index| json!(index)).collect();
    let document = json!({"metadata": {"name": "s", "labels": labels}, "spec": {"nets": nets}});
    let Resource::GlobalNetworkSet(object) = Resource::decode(Kind::GlobalNetworkSet, &document).unwrap() else {
        unreachable!("decoded as another kind")
    };
    assert_eq!((object.metadata.unread.len(), object.spec.unread.unwrap().faults.len()), (21, 21));
}

#[test]
fn what_is_wrong_in_a_rule_is_dropped_and_noted() {
    let bare = |action| Rule { action, ..Rule::default() };
    for (field, value, path) in [
        ("ipVersion", json!(5), "ipVersion"),
        ("protocol", json!("NEWER"), "protocol"),
        ("destination", json!({"ports": [80]}), "destination.ports[0]"),
        ("icmp", json!({"type": 8}), "icmp"),
        ("notICMP", json!({"code": 8}), "notICMP.code"),
        ("source", json!({"nets": ["10.0.0.0/33"]}), "source.nets[0]"),
        ("source", json!({"notNets": ["::/0"]}), "source.notNets[0]"),
        ("source", json!({"nets": ["10.0.0.0/8", "fd00::/8"]}), "source.nets[1]"),
        ("source", json!({"selector": "global()"}), "source.selector"),
        ("source", json!({"selector": "a = 'b'"}), "source.selector"),
        ("source", json!({"services": {"name": "a"}}), "source.services.namespace"),
    ] {
        for action in ["Allow", "Deny"] {
            let mut rule = read(&json!({"action": action, field: value}));
            assert_eq!(faults(&rule), [["spec.ingress[0].", path].concat()]);
            rule.unread = None;
            rule.not_icmp = None;
            assert_eq!(rule, bare(if action == "Deny" { Action::Deny } else { Action::Allow }), "{field}: {value}");
        }
    }
}

#[test]
fn a_condition_that_needs_a_dropped_one_goes_too() {
    let ports = json!({"ports": [80], "nets": ["10.0.0.0/8"]});
    let rule = read(&json!({"action": "Deny", "protocol": "NEWER", "destination": ports}));
    assert_eq!(faults(&rule), ["spec.ingress[0].protocol", "spec.ingress[0].destination.ports[0]"]);
    let nets = vec!["10.0.0.0/8".parse().unwrap()];
    assert_eq!(rule.destination, EntityRule { nets, ..EntityRule::default() });
}

/// Beside a namespace selector the others reach beyond the policy's own namespace; alone they do not.
#[test]
fn with_the_namespace_selector_go_the_selectors_beside_it() {
    for selector in ["a = 'b'", "has("] {
        let source = json!({"namespaceSelector": selector, "selector": "has(a)", "notSelector": "has(b)",
                            "serviceAccounts": {"names": ["x"]}, "notNets": ["10.0.0.0/8"]});
        let rule = read(&json!({"action": "Deny", "source": source}));
        assert_eq!(faults(&rule), ["spec.ingress[0].source.namespaceSelector"]);
        let not_nets = vec!["10.0.0.0/8".parse().unwrap()];
        assert_eq!(rule.source, EntityRule { not_nets, ..EntityRule::default() });
    }
}

#[test]
fn an_action_that_is_not_known_denies() {
    for rule in [
        json!({"protocol": "TCP"}),
        json!({"action": "Reject", "protocol": "TCP"}),
        json!({"action": null, "protocol": "TCP"}),
    ] {
        let read = read(&rule);
        assert_eq!((read.action, faults(&read)), (Action::Deny, vec!["spec.ingress[0].action"]), "{rule}");
        assert!(read.protocol.is_some(), "{rule}");
    }
    for rule in [json!(null), json!("Allow"), json!([])] {
        assert_eq!(read(&rule).action, Action::Deny);
    }
}

#[test]
fn a_policy_that_may_concern_anybody_is_refused_with_all_its_faults() {
    for (field, value) in [("selector", json!("a = 'b'")), ("namespaceSelector", json!(5)), ("tier", json!(5))] {
        let mut document = policy(json!({"action": "Reject"}));
        document["spec"][field] = value;
        let faults = Resource::decode(KIND, &document).unwrap_err();
        assert!(faults.iter().any(|fault| fault.path.starts_with(&["spec.", field].concat())), "{faults:?}");
    }
}

/// As strict as it can have been meant: before all others of its tier, in both directions, and allowing nothing.
#[test]
fn a_policy_whose_place_or_directions_cannot_be_read_denies_first_and_everywhere() {
    let both = [PolicyType::Ingress, PolicyType::Egress];
    let one = [PolicyType::Ingress];
    for (field, value, order, types) in [
        ("order", json!("x"), Some(f64::NEG_INFINITY), &one[..]),
        ("order", json!({"a": 1}), Some(f64::NEG_INFINITY), &one),
        ("order", json!([1]), Some(f64::NEG_INFINITY), &one),
        ("order", json!(true), Some(f64::NEG_INFINITY), &one),
        ("types", json!(["Newer"]), None, &both),
        ("types", json!(["Ingress", 5]), None, &both),
        ("types", json!({"Ingress": true}), None, &both),
        ("types", json!("Egress"), None, &both),
    ] {
        let mut document = policy(json!({"action": "Deny"}));
        document["spec"][field] = value;
        let resource = Resource::decode(KIND, &document).unwrap();
        assert!(resource.rules().concat().iter().all(|rule| faults(rule)[0].starts_with(&["spec.", field].concat())));
        let Resource::GlobalNetworkPolicy(policy) = &resource else { unreachable!("decoded as another kind") };
        assert_eq!((policy.spec.order, &*policy.spec.types), (order, types), "{document}");
        // Without a rule, too, it is known that it was not read in full.
        document["spec"].as_object_mut().unwrap().shift_remove("ingress");
        let resource = Resource::decode(KIND, &document).unwrap();
        assert!(resource.is_partial() && !resource.metadata().unwrap().unread.is_empty(), "{document}");
    }
}

#[test]
fn a_manifest_is_not_read_in_part() {
    let mut document = policy(json!({"action": "Reject"}));
    document["kind"] = KIND.name().into();
    document["apiVersion"] = crate::resource::API_VERSION.into();
    assert!(Resource::decode_strict(KIND, &document, Some(&document)).is_err());
    document["spec"]["ingress"][0] = json!({"action": "Allow", "newer": 1});
    let resource = Resource::decode_strict(KIND, &document, Some(&document)).unwrap();
    assert_eq!(faults(&resource.rules()[0][0]), ["spec.ingress[0].newer"]);
}

#[test]
fn a_network_set_keeps_the_prefixes_that_can_be_read() {
    let set = |nets: Value| json!({"metadata": {"name": "s"}, "spec": {"nets": nets}});
    let document = set(json!(["10.0.0.0/8", "10.0.0.0/33", 7, "fd00::/8"]));
    let Resource::GlobalNetworkSet(object) = Resource::decode(Kind::GlobalNetworkSet, &document).unwrap() else {
        unreachable!("decoded as another kind")
    };
    assert_eq!(object.spec.nets, ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()));
    let unread = object.spec.unread.as_ref().unwrap();
    assert_eq!(unread.faults.iter().map(|fault| &*fault.path).collect::<Vec<_>>(), ["spec.nets[1]", "spec.nets[2]"]);
    let resource = Resource::GlobalNetworkSet(object);
    assert_eq!(merge_unknown(Kind::GlobalNetworkSet, &document, resource.encode())["spec"], document["spec"]);
    let sound = Resource::decode(Kind::GlobalNetworkSet, &set(json!(["10.0.0.0/8"]))).unwrap();
    assert_eq!(sound.document()["spec"]["nets"], json!(["10.0.0.0/8"]));
    assert!(Resource::decode(Kind::GlobalNetworkSet, &set(json!("10.0.0.0/8"))).is_err());
    assert!(Resource::decode(Kind::NetworkSet, &json!({"metadata": {"labels": 1}, "spec": {"nets": [1]}})).is_err());
}

#[test]
fn a_header_that_cannot_be_read_takes_no_policy_away() {
    for (member, value, path) in [
        ("uid", json!(5), "metadata.uid"),
        ("name", json!([]), "metadata.name"),
        ("labels", json!({"a": 1, "b": "c", "d": {}}), "metadata.labels.a"),
        ("labels", json!("x"), "metadata.labels"),
        ("annotations", json!([1]), "metadata.annotations"),
        ("annotations", json!({"projectcalico.org/metadata": "x"}), "metadata.annotations[projectcalico.org/metadata]"),
    ] {
        for kind in [KIND, Kind::NetworkPolicy, Kind::Profile] {
            let mut document = policy(json!({"action": "Deny"}));
            document["metadata"][member] = value.clone();
            document["kind"] = json!(5);
            if kind == Kind::Profile && path.ends_with(']') {
                continue;
            }
            let resource = Resource::decode(kind, &document).unwrap();
            assert_eq!(resource.metadata().unwrap().unread[0].path, path);
            let [ingress, _] = resource.rules();
            assert_eq!(ingress[0].action, Action::Deny);
            // A profile has no selector; there these are fields that it does not know.
            assert_eq!(ingress[1].unread.is_some(), kind == Kind::Profile);
            if let Some(label) = resource.metadata().unwrap().labels.get("b") {
                assert_eq!(
                    (label.as_str(), resource.metadata().unwrap().labels.get("a").unwrap().as_str()),
                    ("c", "1")
                );
            }
        }
    }
    let tier = json!({"metadata": 7, "spec": {"order": 3}});
    assert!(matches!(Resource::decode(Kind::Tier, &tier), Ok(Resource::Tier(tier)) if tier.spec.order == Some(3.0)));
    assert!(Resource::decode(Kind::Tier, &json!({"metadata": 7, "spec": {"order": "x"}})).is_err());
    assert!(Resource::decode(Kind::Node, &json!({"metadata": 7, "spec": {}})).is_err());
}

#[test]
fn what_is_reported_of_a_tier_takes_it_not_away() {
    for (status, path) in [
        (json!(7), "status"),
        (json!({"conditions": {}}), "status.conditions"),
        (json!({"conditions": [{"type": 1}]}), "status.conditions[0].type"),
    ] {
        let tier = json!({"metadata": 7, "spec": {"order": 3}, "status": status});
        let Ok(Resource::Tier(tier)) = Resource::decode(Kind::Tier, &tier) else { panic!("{tier}") };
        assert_eq!(tier.spec.order, Some(3.0));
        let unread: Vec<_> = tier.metadata.unread.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(unread[..2], ["metadata", path]);
        let wrong = json!({"spec": {"order": "x"}, "status": status});
        assert!(Resource::decode(Kind::Tier, &wrong).is_err());
    }
}

#[test]
fn rules_that_are_no_list_deny_their_direction() {
    for stored in [json!({}), json!("Deny"), json!(7)] {
        for (list, types) in [("ingress", None), ("egress", Some(json!(["Ingress", "Egress"])))] {
            let document = json!({"metadata": {"name": "x"}, "spec": {"selector": "all()", list: stored}});
            for kind in [KIND, Kind::Profile] {
                let resource = Resource::decode(kind, &document).unwrap();
                let rules = resource.rules().concat();
                let path = ["spec.", list].concat();
                assert_eq!((rules.len(), rules[0].action), (1, Action::Deny));
                assert!(faults(&rules[0]).contains(&&*path));
                assert_eq!(resource.rules()[usize::from(list == "egress")].len(), 1);
                assert_eq!(resource.document()["spec"][list], stored);
                assert_eq!(merge_unknown(kind, &document, resource.encode())["spec"][list], stored);
                if kind == KIND {
                    assert_eq!(resource.document()["spec"].get("types"), types.as_ref());
                }
            }
        }
    }
}

#[test]
fn other_fields_of_a_specification_count_for_every_rule() {
    let mut document = policy(json!({"action": "Deny"}));
    document["spec"]["doNotTrack"] = json!("maybe");
    let resource = Resource::decode(KIND, &document).unwrap();
    assert!(resource.rules().concat().iter().all(|rule| faults(rule) == ["spec.doNotTrack"]));
    let labels = json!({"a": "b", "c": 1, "d": []});
    let document = json!({"spec": {"ingress": [{"action": "Allow"}], "labelsToApply": labels}});
    let Resource::Profile(profile) = Resource::decode(Kind::Profile, &document).unwrap() else {
        unreachable!("decoded as another kind")
    };
    assert!(profile.spec.ingress[0].unread.is_some());
    assert_eq!(json!(profile.spec.labels_to_apply), json!({"a": "b", "c": "1"}));
}

/// As absent they would let through what they deny; each stands somewhere, and allows nothing.
#[test]
fn policies_whose_flags_exclude_each_other_stay() {
    let read = |spec: Value| {
        let document = json!({"metadata": {"name": "p"}, "spec": spec});
        assert!(Resource::decode_strict(KIND, &document, None).is_err(), "{document}");
        match Resource::decode(KIND, &document).unwrap() {
            Resource::GlobalNetworkPolicy(object) => object,
            other => unreachable!("{other:?}"),
        }
    };
    let rules = json!([{"action": "Allow"}, {"action": "Deny"}]);
    let flags = |object: &super::super::Object<crate::resource::GlobalNetworkPolicySpec>| {
        let spec = &object.spec;
        assert!(spec.ingress.iter().all(|rule| rule.unread.is_some()) && object.metadata.unread.is_empty());
        (spec.do_not_track, spec.pre_dnat, spec.apply_on_forward, spec.egress.len(), spec.types.len())
    };
    let both = read(json!({"doNotTrack": true, "preDNAT": true, "ingress": rules}));
    assert_eq!(flags(&both), (true, false, true, 0, 0));
    for forward in [json!(false), json!(null), json!("yes")] {
        let near = read(json!({"preDNAT": true, "applyOnForward": forward, "ingress": rules}));
        assert_eq!(flags(&near), (false, true, true, 0, 0));
    }
    let egress =
        read(json!({"preDNAT": true, "applyOnForward": true, "ingress": rules, "egress": rules, "types": ["Egress"]}));
    assert_eq!(flags(&egress), (false, true, true, 0, 1));
    // Without rules it is the metadata that tell of it.
    let empty = read(json!({"preDNAT": true, "applyOnForward": true, "egress": rules}));
    assert_eq!((empty.spec.egress.len(), empty.metadata.unread.len()), (0, 1));
    assert!(Resource::GlobalNetworkPolicy(empty).is_partial());
}

#[test]
fn staged_policies_are_read_like_others() {
    for kind in [Kind::StagedNetworkPolicy, Kind::StagedGlobalNetworkPolicy] {
        let rule = json!({"action": "Allow", "newer": 1});
        let document = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"ingress": [rule], "order": "x"}});
        let resource = Resource::decode(kind, &document).unwrap();
        let [ingress, _] = resource.rules();
        assert_eq!(faults(&ingress[0]).len(), 2, "{kind}");
    }
}

#[test]
fn labels_of_a_network_set_are_taken_for_text() {
    let set = |metadata: Value| json!({"metadata": metadata, "spec": {"nets": ["10.0.0.0/8", 1]}});
    let read = |metadata| Resource::decode(Kind::GlobalNetworkSet, &set(metadata));
    let labels = json!({"a": 1, "b": true, "c": null, "d": "x"});
    let Resource::GlobalNetworkSet(object) = read(json!({"uid": 5, "labels": labels})).unwrap() else {
        unreachable!("decoded as another kind")
    };
    assert_eq!(json!(object.metadata.labels), json!({"a": "1", "b": "true", "c": "", "d": "x"}));
    assert_eq!((object.metadata.unread.len(), object.spec.nets.len()), (4, 1));
    assert!(object.spec.unread.is_some());
    for metadata in [json!({"labels": {"a": []}}), json!({"labels": {"a": {}}}), json!({"labels": ["a"]}), json!("a")] {
        assert!(read(metadata).is_err());
    }
}

proptest! {
    /// Whatever stands in a rule: the policy stays, its document is kept, and a rule that is not read in full is marked.
    #[test]
    fn no_rule_takes_its_policy_away(fields in prop::collection::btree_map(0..8usize, 0..9usize, 0..5), action in 0..4usize) {
        let names = ["protocol", "ipVersion", "icmp", "source", "destination", "http", "newer", "notProtocol"];
        let values = [
            json!("TCP"), json!(4), json!({"type": 8}), json!({"ports": [80, "x y"]}), json!({"nets": ["10.0.0.0/8"]}),
            json!([]), json!({"services": {}, "selector": "("}), json!("fd00::/8"), json!({"notNets": [1], "newer": 1}),
        ];
        let action = [json!("Allow"), json!("Deny"), json!("Reject"), json!(7)][action].clone();
        let mut rule = json!({"action": action});
        for (field, value) in fields {
            rule[names[field]] = values[value].clone();
        }
        let found = read(&rule);
        let whole = super::super::decode::stored(KIND, &policy(rule.clone())).is_ok() && rule.get("newer").is_none();
        prop_assert!(found.unread.is_some() || whole, "{}", rule.to_string());
        prop_assert!(action == "Allow" || found.action == Action::Deny);
    }
}
