//! Staged policies: what they would do, and that they do nothing.

use serde_json::{Value, json};

use super::*;
use crate::resource::StagedAction;
use crate::testing::HOST;

/// From `a` to `b`, TCP port 80: what happens, and what would.
fn both(extra: &[Resource]) -> [Decision; 2] {
    both_by(extra, &flow("10.0.0.1", "10.0.0.2", 6, 80))
}

fn both_by(extra: &[Resource], flow: &Flow) -> [Decision; 2] {
    let resources: Vec<Resource> = pods().into_iter().chain(extra.iter().cloned()).collect();
    let decide = |cluster: &Cluster| cluster.decide(Party::Workload(&key("a")), Party::Workload(&key("b")), flow);
    [decide(&Cluster::new(&resources)), decide(&Cluster::new(&resources).with_staged_enforced())]
}

fn staged(name: &str, spec: Value) -> Resource {
    resource(Kind::StagedGlobalNetworkPolicy, None, name, json!({}), spec)
}

fn ingress(action: &str, more: &Value) -> Value {
    let mut spec = json!({"selector": "app == 'b'", "types": ["Ingress"], "ingress": [{"action": action}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[test]
fn every_staged_kind_is_evaluated_and_never_enforced() {
    let in_namespace = |kind, spec| resource(kind, Some("default"), "s", json!({}), spec);
    let nothing = json!({"podSelector": {}});
    let mut labelled = pods();
    labelled.iter_mut().for_each(|pod| {
        let labels = &mut pod.metadata_mut().unwrap().labels;
        labels.insert("projectcalico.org/orchestrator".into(), "k8s".into());
    });
    for one in [
        staged("s", ingress("Deny", &json!({}))),
        in_namespace(Kind::StagedNetworkPolicy, ingress("Deny", &json!({}))),
        in_namespace(Kind::StagedKubernetesNetworkPolicy, nothing),
    ] {
        let resources: Vec<Resource> = labelled.iter().cloned().chain([open(), one.clone()]).collect();
        let flow = flow("10.0.0.1", "10.0.0.2", 6, 80);
        assert_eq!(Cluster::new(&resources).ingress(&key("b"), &flow), ALLOW, "{one:?}");
        assert_eq!(Cluster::new(&resources).with_staged_enforced().ingress(&key("b"), &flow), DENY, "{one:?}");
    }
}

#[test]
fn only_enforced_policies_give_a_tier_an_end() {
    let tier = |action: &str| resource(Kind::Tier, None, "t", json!({}), json!({"order": 1, "defaultAction": action}));
    let silent = |action: &str| ingress(action, &json!({"tier": "t", "ingress": []}));
    assert_eq!(both(&[open(), tier("Deny"), staged("t.s", silent("Deny"))]), [ALLOW, DENY]);
    assert_eq!(both(&[open(), tier("Pass"), staged("t.s", silent("Deny"))]), [ALLOW, ALLOW]);
    assert_eq!(
        both(&[open(), tier("Deny"), staged("t.s", silent("Deny")), policy("t.p", silent("Deny"))]),
        [DENY, DENY]
    );
    // One of the other direction is none of this.
    let other = json!({"tier": "t", "selector": "app == 'b'", "types": ["Egress"]});
    assert_eq!(both(&[open(), tier("Deny"), staged("t.s", silent("Deny")), policy("t.p", other)]), [ALLOW, DENY]);
    // One that is only referred to denies as well.
    assert_eq!(both(&[open(), staged("nowhere.s", ingress("Log", &json!({"tier": "nowhere"})))]), [ALLOW, DENY]);
}

#[test]
fn staged_policies_stand_at_their_place() {
    let enforced = |action: &str, order: i32| policy("x", ingress(action, &json!({"order": order})));
    let tried = |name: &str, action: &str, order: i32| staged(name, ingress(action, &json!({"order": order})));
    assert_eq!(both(&[open(), enforced("Deny", 2), tried("x", "Allow", 1)]), [DENY, ALLOW]);
    assert_eq!(both(&[open(), enforced("Deny", 1), tried("x", "Allow", 2)]), [DENY, DENY]);
    assert_eq!(both(&[open(), enforced("Allow", 2), tried("x", "Deny", 1)]), [ALLOW, DENY]);
    assert_eq!(both(&[open(), enforced("Deny", 2), tried("x", "Pass", 1)]), [DENY, ALLOW]);
    assert_eq!(both(&[open(), enforced("Deny", 2), tried("x", "Log", 1)]), [DENY, DENY]);
    // Of one order and name the enforced one comes first: ties go by name, namespace and kind.
    assert_eq!(both(&[open(), enforced("Deny", 1), tried("x", "Allow", 1)]), [DENY, DENY]);
    assert_eq!(both(&[open(), enforced("Deny", 1), tried("w", "Allow", 1)]), [DENY, ALLOW]);
}

#[test]
fn what_is_staged_to_be_deleted_is_not_there() {
    for (action, pending) in [("Set", DENY), ("Learn", DENY), ("Ignore", DENY)] {
        let one = staged("s", ingress("Deny", &json!({"stagedAction": action})));
        assert_eq!(both(&[open(), one]), [ALLOW, pending], "{action}");
    }
    let gone = |kind, namespace| resource(kind, namespace, "s", json!({}), json!({"stagedAction": "Delete"}));
    for one in [
        gone(Kind::StagedGlobalNetworkPolicy, None),
        gone(Kind::StagedNetworkPolicy, Some("default")),
        gone(Kind::StagedKubernetesNetworkPolicy, Some("default")),
    ] {
        // An empty policy of all endpoints would deny.
        assert_eq!(both(&[open(), one.clone()]), [ALLOW, ALLOW], "{one:?}");
    }
}

/// What staged policies would do is what they do once they are made real: the same cluster with each replaced by the policy that it stands for,
/// under a name that no other has.
#[test]
fn what_they_would_do_is_what_they_do_when_they_are_real() {
    let (mut differ, mut asked) = (0, 0);
    for seed in 0..120 {
        std::println!("seed {seed}");
        let mut generator = if seed % 2 == 0 { Generator::new(seed) } else { Generator::with_faults(seed) };
        let world = generator.world(80);
        let usable = world.objects.iter().filter(|(key, value)| key.kind() == value.kind());
        let staged: Vec<Resource> = usable.map(|(_, value)| renamed(value)).collect();
        let real: Vec<Resource> = staged.iter().filter_map(enforced).collect();
        let cluster = |objects: &[Resource]| {
            Cluster::new(objects)
                .with_interfaces(HOST, world.interfaces.clone())
                .with_slices(world.slices.values().cloned())
        };
        let (today, would, does) = (cluster(&staged), cluster(&staged).with_staged_enforced(), cluster(&real));
        for _ in 0..150 {
            let passage = generator.passage(&world);
            let decided = [&today, &would, &does].map(|cluster| cluster.passage(HOST, &passage));
            assert_eq!(decided[1], decided[2], "{passage:#?} in {staged:#?}");
            differ += usize::from(decided[0] != decided[1]);
            asked += 1;
        }
    }
    assert!(differ > asked / 50, "only {differ} of {asked} decisions depended on a staged policy");
}

/// A staged policy under a name of its kind's own, as two of one name may stand side by side; anything else as it is.
pub(super) fn renamed(object: &Resource) -> Resource {
    let mut object = object.clone();
    let suffix = match object.kind() {
        Kind::StagedGlobalNetworkPolicy => "-g",
        Kind::StagedNetworkPolicy => "-n",
        Kind::StagedKubernetesNetworkPolicy => "-k",
        _ => return object,
    };
    object.metadata_mut().unwrap().name.push_str(suffix);
    object
}

/// What becomes of an object when everything staged is carried out; none: nothing.
fn enforced(object: &Resource) -> Option<Resource> {
    let deletes = |action: Option<StagedAction>| action == Some(StagedAction::Delete);
    Some(match object {
        Resource::StagedNetworkPolicy(one) if !deletes(one.spec.staged_action) => {
            Resource::NetworkPolicy(Object { metadata: one.metadata.clone(), spec: one.spec.policy.clone() })
        }
        Resource::StagedGlobalNetworkPolicy(one) if !deletes(one.spec.staged_action) => {
            Resource::GlobalNetworkPolicy(Object { metadata: one.metadata.clone(), spec: one.spec.policy.clone() })
        }
        Resource::StagedKubernetesNetworkPolicy(one) if !deletes(one.spec.staged_action) => {
            Resource::NetworkPolicy(Object { metadata: one.metadata.clone(), spec: one.spec.enforced().0 })
        }
        Resource::StagedNetworkPolicy(_)
        | Resource::StagedGlobalNetworkPolicy(_)
        | Resource::StagedKubernetesNetworkPolicy(_) => return None,
        other => other.clone(),
    })
}

/// What a policy of Kubernetes would allow from `a` to `b`, both pods.
fn kubernetes(spec: Value, flow: &Flow) -> Decision {
    let pods = pods().into_iter().map(|mut pod| {
        let labels = &mut pod.metadata_mut().unwrap().labels;
        labels.insert("projectcalico.org/orchestrator".into(), "k8s".into());
        pod
    });
    let namespace = resource(
        Kind::Profile,
        None,
        "p",
        json!({}),
        json!({"ingress": [{"action": "Allow"}], "egress": [{"action": "Allow"}], "labelsToApply": {"pcns.team": "red"}}),
    );
    let policy = resource(Kind::StagedKubernetesNetworkPolicy, Some("default"), "k", json!({}), spec);
    let resources: Vec<Resource> = pods.chain([namespace, policy]).collect();
    let cluster = Cluster::new(&resources).with_staged_enforced();
    cluster.decide(Party::Workload(&key("a")), Party::Workload(&key("b")), flow)
}

#[test]
fn policies_of_kubernetes_mean_what_kubernetes_says() {
    let web = flow("10.0.0.1", "10.0.0.2", 6, 80);
    let b = json!({"matchLabels": {"app": "b"}});
    let ingress = |rules: Value| kubernetes(json!({"podSelector": b, "ingress": rules}), &web);
    // No rules allow nothing, an empty rule everything; others are not concerned.
    assert_eq!(ingress(json!([])), DENY);
    assert_eq!(ingress(json!([{}])), ALLOW);
    assert_eq!(kubernetes(json!({"podSelector": {"matchLabels": {"app": "c"}}}), &web), ALLOW);
    // Types: ingress, and egress where it has such rules.
    let a = json!({"matchLabels": {"app": "a"}});
    assert_eq!(kubernetes(json!({"podSelector": a}), &web), ALLOW);
    assert_eq!(kubernetes(json!({"podSelector": a, "policyTypes": ["Egress"]}), &web), DENY);
    assert_eq!(kubernetes(json!({"podSelector": a, "egress": [{"ports": [{"port": 81}]}]}), &web), DENY);
    assert_eq!(kubernetes(json!({"podSelector": a, "egress": [{"ports": [{"port": 80}]}]}), &web), ALLOW);
    for (peer, decision) in [
        (json!({"podSelector": {}}), ALLOW),
        (json!({"podSelector": a}), ALLOW),
        (json!({"podSelector": b}), DENY),
        (json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "a"]}]}}), ALLOW),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x", "a"]}]}}),
            DENY,
        ),
        (json!({"podSelector": {"matchExpressions": [{"key": "gone", "operator": "NotIn", "values": ["a"]}]}}), ALLOW),
        (json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}), ALLOW),
        (json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}), DENY),
        (json!({"namespaceSelector": {}}), ALLOW),
        (json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), ALLOW),
        (json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}), DENY),
        (json!({"namespaceSelector": {"matchLabels": {"team": "red"}}, "podSelector": b}), DENY),
        (json!({"ipBlock": {"cidr": "10.0.0.0/24"}}), ALLOW),
        (json!({"ipBlock": {"cidr": "10.0.0.0/24", "except": ["10.0.0.0/30"]}}), DENY),
        (json!({"ipBlock": {"cidr": "10.0.1.0/24"}}), DENY),
    ] {
        assert_eq!(ingress(json!([{"from": [peer]}])), decision, "{peer}");
        // Peers are alternatives.
        assert_eq!(ingress(json!([{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}, peer]}])), decision, "{peer}");
    }
    for (port, decision) in [
        (json!({"port": 80}), ALLOW),
        (json!({"port": 80, "protocol": "UDP"}), DENY),
        (json!({"port": "web"}), ALLOW),
        (json!({"port": "other"}), DENY),
        (json!({"port": 70, "endPort": 80}), ALLOW),
        (json!({"port": 70, "endPort": 79}), DENY),
        (json!({}), ALLOW),
        (json!({"protocol": "TCP"}), ALLOW),
        (json!({"protocol": "SCTP"}), DENY),
    ] {
        assert_eq!(ingress(json!([{"ports": [port]}])), decision, "{port}");
        assert_eq!(ingress(json!([{"ports": [{"port": 1}, port], "from": [{"podSelector": a}]}])), decision, "{port}");
    }
}

/// Policies of Kubernetes stand in the default tier, at 1000, by their kind's name among equals.
#[test]
fn policies_of_kubernetes_stand_at_a_thousand() {
    let deny = |order: Value| {
        resource(
            Kind::StagedNetworkPolicy,
            Some("default"),
            "deny",
            json!({}),
            json!({"order": order, "types": ["Ingress"], "ingress": [{"action": "Deny"}]}),
        )
    };
    let pods: Vec<Resource> = pods()
        .into_iter()
        .map(|mut pod| {
            pod.metadata_mut().unwrap().labels.insert("projectcalico.org/orchestrator".into(), "k8s".into());
            pod
        })
        .collect();
    let allow = resource(
        Kind::StagedKubernetesNetworkPolicy,
        Some("default"),
        "k",
        json!({}),
        json!({"podSelector": {}, "ingress": [{}]}),
    );
    for (order, decision) in [(json!(999), DENY), (json!(1001), ALLOW), (json!(null), ALLOW)] {
        let resources: Vec<Resource> =
            pods.iter().cloned().chain([open(), allow.clone(), deny(order.clone())]).collect();
        let cluster = Cluster::new(&resources).with_staged_enforced();
        assert_eq!(cluster.ingress(&key("b"), &flow("10.0.0.1", "10.0.0.2", 6, 80)), decision, "{order}");
    }
}
