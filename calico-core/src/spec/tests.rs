//! One small cluster, and what each feature of the semantics changes in it.

mod hosts;
mod kubernetes;
mod levels;
mod services;
mod staged;
mod states;

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde_json::{Value, json};

use super::*;
use crate::flow::EndpointToHost;
use crate::resource::{Action, HttpMatch, Rule};
use crate::testing::Generator;

const ALLOW: Decision = Decision::Allow;
const DENY: Decision = Decision::Deny;

fn resource(kind: Kind, namespace: Option<&str>, name: &str, labels: Value, spec: Value) -> Resource {
    let document = json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec});
    Resource::decode(kind, &document).unwrap()
}

/// `a` (10.0.0.1, host one, app=a) and `b` (10.0.0.2, fd00::2, host two, app=b, port web=TCP 80), both with profile `p`.
fn pods() -> Vec<Resource> {
    let pod = |name: &str, node: &str, nets: Value, ports: Value| {
        let interface = ["cali", name].concat();
        let labels = json!({"app": name, "projectcalico.org/namespace": "default"});
        let spec = json!({
            "orchestrator": "cni", "node": node, "workload": name, "endpoint": "eth0", "ipNetworks": nets, "ports": ports,
            "interfaceName": interface, "profiles": ["p"],
        });
        resource(Kind::WorkloadEndpoint, Some("default"), name, labels, spec)
    };
    let ports = json!([{"name": "web", "protocol": "TCP", "port": 80}]);
    alloc::vec![
        pod("a", "one", json!(["10.0.0.1/32"]), json!([])),
        pod("b", "two", json!(["10.0.0.2/32", "fd00::2/128"]), ports),
    ]
}

fn profile(rules: Value) -> Resource {
    resource(Kind::Profile, None, "p", json!({}), json!({"ingress": rules, "egress": [{"action": "Allow"}]}))
}

fn policy(name: &str, spec: Value) -> Resource {
    resource(Kind::GlobalNetworkPolicy, None, name, json!({}), spec)
}

fn key(name: &str) -> ResourceKey {
    ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", name)
}

fn flow(source: &str, destination: &str, protocol: u8, port: u16) -> Flow {
    let (source, destination): (IpAddr, IpAddr) = (source.parse().unwrap(), destination.parse().unwrap());
    let (source_port, icmp) = if [1, 58].contains(&protocol) { (0, Some((8, 0))) } else { (40_000, None) };
    Flow { source, destination, protocol, source_port, destination_port: port, icmp }
}

/// From `a` to `b`, TCP port 80, with these resources beside the pods.
fn a_to_b(extra: &[Resource]) -> Decision {
    a_to_b_by(extra, &flow("10.0.0.1", "10.0.0.2", 6, 80))
}

fn a_to_b_by(extra: &[Resource], flow: &Flow) -> Decision {
    let pods = pods();
    Cluster::new(pods.iter().chain(extra)).decide(Party::Workload(&key("a")), Party::Workload(&key("b")), flow)
}

fn open() -> Resource {
    profile(json!([{"action": "Allow"}]))
}

#[test]
fn without_policy_profiles_decide_and_a_missing_one_denies() {
    assert_eq!(a_to_b(&[open()]), ALLOW);
    assert_eq!(a_to_b(&[profile(json!([]))]), DENY);
    assert_eq!(a_to_b(&[]), DENY);
}

#[test]
fn a_selecting_policy_ends_its_tier_in_its_direction_only() {
    let empty = |types: Value| policy("empty", json!({"selector": "app == 'b'", "types": types}));
    assert_eq!(a_to_b(&[open(), empty(json!(["Ingress"]))]), DENY);
    assert_eq!(a_to_b(&[open(), empty(json!(["Egress"]))]), ALLOW);
    assert_eq!(a_to_b(&[open(), policy("other", json!({"selector": "app == 'c'", "types": ["Ingress"]}))]), ALLOW);
    assert_eq!(a_to_b(&[open(), policy("no-types", json!({"selector": "app == 'b'"}))]), DENY);
}

#[test]
fn policies_run_in_order_and_ties_go_by_name() {
    let one = |name: &str, order: Option<f64>, action: &str| {
        policy(
            name,
            json!({"selector": "all()", "order": order, "types": ["Ingress"], "ingress": [{"action": action}]}),
        )
    };
    assert_eq!(a_to_b(&[open(), one("z", Some(1.0), "Deny"), one("a", Some(2.0), "Allow")]), DENY);
    assert_eq!(a_to_b(&[open(), one("z", Some(1.0), "Deny"), one("a", Some(1.0), "Allow")]), ALLOW);
    assert_eq!(a_to_b(&[open(), one("z", Some(1.0), "Deny"), one("a", None, "Allow")]), DENY);
    assert_eq!(a_to_b(&[open(), one("a", None, "Log"), one("b", None, "Allow")]), ALLOW);
}

#[test]
fn pass_leaves_the_tier_and_tiers_end_as_they_say() {
    let tier = |name: &str, order: f64, action: &str| {
        resource(Kind::Tier, None, name, json!({}), json!({"order": order, "defaultAction": action}))
    };
    let in_tier = |tier: &str, rules: Value| {
        policy(
            &[tier, ".x"].concat(),
            json!({"tier": tier, "selector": "all()", "types": ["Ingress"], "ingress": rules}),
        )
    };
    let pass = json!([{"action": "Pass"}]);
    assert_eq!(a_to_b(&[open(), tier("t", 1.0, "Deny"), in_tier("t", pass.clone())]), ALLOW);
    assert_eq!(a_to_b(&[open(), tier("t", 1.0, "Pass"), in_tier("t", json!([]))]), ALLOW);
    assert_eq!(a_to_b(&[open(), tier("t", 1.0, "Deny"), in_tier("t", json!([]))]), DENY);
    let late = in_tier("late", json!([{"action": "Deny"}]));
    assert_eq!(a_to_b(&[open(), tier("t", 1.0, "Deny"), in_tier("t", pass), tier("late", 2.0, "Pass"), late]), DENY);
    // A tier that is only referred to sorts last and denies.
    assert_eq!(a_to_b(&[open(), in_tier("nowhere", json!([]))]), DENY);
}

/// A Pass that is not understood must not leave to a later Allow what it would have handed to a tier that denies.
#[test]
fn a_pass_that_is_not_understood_denies() {
    let tier = |name: &str, order: f64| resource(Kind::Tier, None, name, json!({}), json!({"order": order}));
    let in_tier = |tier: &str, rules: Value| {
        let spec = json!({"tier": tier, "selector": "all()", "types": ["Ingress"], "ingress": rules});
        policy(&[tier, ".x"].concat(), spec)
    };
    let decide = |pass: Value, last: &str| {
        let first = in_tier("first", json!([pass, {"action": "Allow"}]));
        a_to_b(&[open(), tier("first", 1.0), tier("last", 2.0), first, in_tier("last", json!([{"action": last}]))])
    };
    assert_eq!(decide(json!({"action": "Pass"}), "Deny"), DENY);
    assert_eq!(decide(json!({"action": "Pass"}), "Allow"), ALLOW);
    for last in ["Allow", "Deny"] {
        assert_eq!(decide(json!({"action": "Pass", "newer": 1}), last), DENY);
        assert_eq!(decide(json!({"action": "Pass", "http": {"methods": ["GET"]}}), last), DENY);
        assert_eq!(decide(json!({"action": "Pass", "source": {"selector": "a = 'b'"}}), last), DENY);
        // What is left of the rule does not match.
        assert_eq!(decide(json!({"action": "Pass", "newer": 1, "protocol": "UDP"}), last), ALLOW);
    }
}

/// Whatever a condition means that is not understood (in the two extremes it always holds, or never): nothing is allowed with it
/// that would not be allowed if it were understood.
#[test]
fn a_lost_condition_never_allows_more_than_was_meant() {
    let mut changed = 0;
    for seed in 0..150 {
        std::println!("seed {seed}");
        let mut generator = Generator::new(seed);
        let objects: Vec<Resource> = generator.cluster(80).into_values().map(|one| (*one).clone()).collect();
        let spoilt = generator.random.below(4);
        let cluster = |spoil: &dyn Fn(&mut Vec<Rule>)| {
            let mut objects = objects.clone();
            for lists in objects.iter_mut().filter_map(rules_of) {
                lists.into_iter().for_each(spoil);
            }
            Cluster::new(&objects)
        };
        let lost = cluster(&|rules| {
            if let Some(rule) = rules.get_mut(spoilt) {
                rule.http = Some(HttpMatch::default());
            }
        });
        let always = cluster(&|_| ());
        let never = cluster(&|rules| {
            // To log decides nothing.
            if let Some(rule) = rules.get_mut(spoilt) {
                *rule = Rule { action: Action::Log, ..Rule::default() };
            }
        });
        for endpoint in objects.iter().filter(|object| object.kind() == Kind::WorkloadEndpoint) {
            let key = endpoint.key().unwrap();
            for _ in 0..60 {
                let flow = generator.flow();
                let decided = lost.ingress(&key, &flow);
                let meant = [&always, &never].map(|cluster| cluster.ingress(&key, &flow));
                assert!(decided == DENY || meant == [ALLOW; 2], "{key} {flow:?}: {decided:?}, meant {meant:?}");
                changed += usize::from(meant != [decided; 2]);
            }
        }
    }
    assert!(changed > 100, "only {changed} decisions depended on a lost condition");
}

/// Whatever member of a stored policy or profile somebody made unreadable, apart from what says whom a policy concerns: nothing is
/// allowed that was denied. (Null is no such value: it says the same as absence.)
#[test]
fn a_member_that_cannot_be_read_never_allows_more() {
    let mut changed = 0;
    for seed in 0..400 {
        std::println!("seed {seed}");
        let mut generator = Generator::new(seed);
        let objects = generator.cluster(60);
        let judged: Vec<_> =
            objects.iter().filter(|(_, object)| rules_of(&mut (***object).clone()).is_some()).collect();
        if judged.is_empty() {
            continue;
        }
        let (key, object) = generator.random.pick(&judged);
        let mut document = object.encode();
        if Resource::decode(key.kind(), &document).is_err() {
            // Contradictions in what is for hosts alone.
            continue;
        }
        let mut members = Vec::new();
        members_of(&document, "", &mut members);
        let member = generator.random.pick(&members);
        let value = document.pointer_mut(&member).unwrap();
        *value = match value {
            Value::Array(_) => generator.random.pick(&[json!({}), json!("Deny"), json!(7), json!(true)]),
            Value::Object(_) => generator.random.pick(&[json!([1]), json!("Deny"), json!(7), json!(true)]),
            // A number may be a port, and text another name.
            _ => generator.random.pick(&[json!([1]), json!({"a": 1})]),
        };
        let mut spoilt = Resource::decode(key.kind(), &document)
            .unwrap_or_else(|faults| panic!("{key} is absent for {member}: {faults:?}"));
        spoilt.adopt_key(key);
        let meant = Cluster::new(objects.values().map(|object| &**object));
        let decided = Cluster::new(objects.iter().map(|(one, object)| if one == key { &spoilt } else { &**object }));
        for endpoint in objects.keys().filter(|key| key.kind() == Kind::WorkloadEndpoint) {
            for _ in 0..60 {
                let flow = generator.flow();
                let both = |cluster: &Cluster| [cluster.ingress(endpoint, &flow), cluster.egress(endpoint, &flow)];
                for (meant, decided) in both(&meant).into_iter().zip(both(&decided)) {
                    assert!(decided == DENY || meant == ALLOW, "{key} without {member}: {endpoint} {flow:?}");
                    changed += usize::from(meant != decided);
                }
            }
        }
    }
    assert!(changed > 100, "only {changed} decisions depended on what could not be read");
}

/// A policy of which nobody knows where in its tier it stands, or in which directions, denies before the others and in both.
#[test]
fn a_policy_of_unknown_place_or_directions_denies_first() {
    let ingress = || json!(["Ingress"]);
    let one = |name: &str, action: &str, order: Value, types: Value| {
        let rules = json!([{ "action": action }]);
        policy(name, json!({"selector": "app == 'b'", "order": order, "types": types, "ingress": rules}))
    };
    let decided = |other: &Resource| a_to_b(&[open(), one("allow", "Allow", json!(-1e300), ingress()), other.clone()]);
    assert_eq!(decided(&one("deny", "Deny", json!(5), ingress())), ALLOW);
    assert_eq!(decided(&one("deny", "Deny", json!(-1.1e300), ingress())), DENY);
    for order in [json!("first"), json!({}), json!([0]), json!(true)] {
        assert_eq!(decided(&one("deny", "Deny", order.clone(), ingress())), DENY, "{order}");
        assert_eq!(a_to_b(&[open(), one("allow", "Allow", order.clone(), ingress())]), DENY, "{order}");
    }
    assert_eq!(decided(&one("deny", "Deny", json!(-1.1e300), json!(["Egress"]))), ALLOW);
    for types in [json!(["Egress", "Later"]), json!("Egress"), json!({"Egress": true}), json!(7)] {
        assert_eq!(decided(&one("deny", "Deny", json!(-1.1e300), types.clone())), DENY, "{types}");
        assert_eq!(a_to_b(&[open(), one("allow", "Allow", json!(0), types.clone())]), DENY, "{types}");
    }
}

/// Pointers to the members of a stored document, at any depth, that do not say whom a policy concerns or what labels a profile gives.
fn members_of(value: &Value, path: &str, found: &mut Vec<String>) {
    let concerned = ["selector", "tier", "namespaceSelector", "serviceAccountSelector", "labelsToApply"];
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.replace('/', "~1"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        if path == "/spec" && concerned.contains(&&*name) {
            continue;
        }
        let path = [path, "/", &name].concat();
        if path == "/spec/order" || path == "/spec/types" {
            // Among dozens of members of rules they would hardly ever be the one.
            found.extend(core::iter::repeat_n(path.clone(), 10));
        }
        members_of(value, &path, found);
        if path != "/spec" {
            found.push(path);
        }
    }
}

fn rules_of(resource: &mut Resource) -> Option<[&mut Vec<Rule>; 2]> {
    match resource {
        Resource::NetworkPolicy(object) => Some([&mut object.spec.ingress, &mut object.spec.egress]),
        Resource::GlobalNetworkPolicy(object) => Some([&mut object.spec.ingress, &mut object.spec.egress]),
        Resource::Profile(object) => Some([&mut object.spec.ingress, &mut object.spec.egress]),
        _ => None,
    }
}

/// An ingress policy for everybody with the one rule: does it allow, where nothing else would?
fn allows(rule: Value, flow: &Flow) -> bool {
    let rules = json!([rule]);
    let only = policy("only", json!({"selector": "all()", "types": ["Ingress"], "ingress": rules}));
    a_to_b_by(&[open(), only], flow) == ALLOW
}

#[test]
fn rules_match_by_every_field() {
    let web = flow("10.0.0.1", "10.0.0.2", 6, 80);
    let ping = flow("10.0.0.1", "10.0.0.2", 1, 0);
    let cases = [
        (json!({"action": "Allow", "protocol": "TCP", "destination": {"ports": [80]}}), true, false),
        (json!({"action": "Allow", "protocol": "TCP", "destination": {"ports": ["81:90"]}}), false, false),
        (json!({"action": "Allow", "protocol": "TCP", "destination": {"ports": ["web"]}}), true, false),
        (json!({"action": "Allow", "protocol": "TCP", "destination": {"ports": ["other"]}}), false, false),
        (json!({"action": "Allow", "protocol": "TCP", "destination": {"notPorts": ["web"]}}), false, false),
        (json!({"action": "Allow", "notProtocol": "TCP"}), false, true),
        (json!({"action": "Allow", "protocol": "ICMP", "icmp": {"type": 8}}), false, true),
        (json!({"action": "Allow", "protocol": "ICMP", "notICMP": {"type": 8, "code": 1}}), false, true),
        (json!({"action": "Allow", "protocol": "ICMP", "notICMP": {"type": 8, "code": 0}}), false, false),
        (json!({"action": "Allow", "ipVersion": 6}), false, false),
        (json!({"action": "Allow", "source": {"selector": "app == 'a'"}}), true, true),
        (json!({"action": "Allow", "source": {"selector": "app == 'b'"}}), false, false),
        (json!({"action": "Allow", "source": {"notSelector": "app == 'b'"}}), true, true),
        (json!({"action": "Allow", "source": {"notSelector": "app == 'a'"}}), false, false),
        (json!({"action": "Allow", "source": {"nets": ["10.0.0.0/31"]}}), true, true),
        (json!({"action": "Allow", "source": {"notNets": ["10.0.0.0/31"]}}), false, false),
        // A list emptied by the family takes the rule out of it.
        (json!({"action": "Allow", "source": {"notNets": ["fd00::/64"]}}), false, false),
        (json!({"action": "Allow", "http": {"methods": ["GET"]}}), false, false),
    ];
    for (rule, of_web, of_ping) in cases {
        assert_eq!(allows(rule.clone(), &web), of_web, "{rule} for TCP 80");
        assert_eq!(allows(rule.clone(), &ping), of_ping, "{rule} for echo requests");
    }
}

#[test]
fn network_sets_are_members_and_namespaced_policies_stay_at_home() {
    let nets = json!({"nets": ["10.0.0.0/30"]});
    let set = |namespace: Option<&str>, kind| resource(kind, namespace, "s", json!({"role": "x"}), nets.clone());
    let spec = json!({"selector": "all()", "types": ["Ingress"], "ingress": [{"action": "Allow", "source": {"selector": "role == 'x'"}}]});
    let namespaced = resource(Kind::NetworkPolicy, Some("default"), "n", json!({}), spec.clone());
    let (global_set, own) = (set(None, Kind::GlobalNetworkSet), set(Some("default"), Kind::NetworkSet));
    let foreign = set(Some("other"), Kind::NetworkSet);
    assert_eq!(a_to_b(&[open(), policy("g", spec), global_set.clone()]), ALLOW);
    assert_eq!(a_to_b(&[open(), namespaced.clone(), global_set]), DENY);
    assert_eq!(a_to_b(&[open(), namespaced.clone(), own]), ALLOW);
    assert_eq!(a_to_b(&[open(), namespaced, foreign]), DENY);
}

#[test]
fn forged_sources_and_encapsulation_do_not_leave() {
    assert_eq!(a_to_b_by(&[open()], &flow("10.0.0.9", "10.0.0.2", 6, 80)), DENY);
    assert_eq!(a_to_b_by(&[open()], &flow("10.0.0.1", "10.0.0.2", 17, 4789)), DENY);
    assert_eq!(a_to_b_by(&[open()], &flow("10.0.0.1", "10.0.0.2", 4, 0)), DENY);
    let resources = [pods(), alloc::vec![open()]].concat();
    let cluster = Cluster::new(&resources).with_settings(Settings { vxlan_port: 8472, ..Settings::default() });
    let sent_to = |port| cluster.egress(&key("a"), &flow("10.0.0.1", "10.0.0.2", 17, port));
    assert_eq!((sent_to(4789), sent_to(8472)), (ALLOW, DENY));
}

#[test]
fn hosts_reach_their_pods_and_pods_not_their_host() {
    let resources = [pods(), alloc::vec![profile(json!([]))]].concat();
    let cluster = Cluster::new(&resources);
    let (a, down) = (key("a"), flow("192.0.2.1", "10.0.0.1", 6, 80));
    assert_eq!(cluster.decide(Party::Host("one"), Party::Workload(&a), &down), ALLOW);
    assert_eq!(cluster.decide(Party::Host("two"), Party::Workload(&a), &down), DENY);
    assert_eq!(cluster.decide(Party::Outside, Party::Workload(&a), &down), DENY);
    let up = flow("10.0.0.1", "192.0.2.1", 6, 80);
    assert_eq!(cluster.decide(Party::Workload(&a), Party::Host("one"), &up), DENY);
    assert_eq!(cluster.decide(Party::Workload(&a), Party::Host("two"), &up), ALLOW);
    let settings = Settings { endpoint_to_host: EndpointToHost::Return, ..Settings::default() };
    let lenient = Cluster::new(&resources).with_settings(settings);
    assert_eq!(lenient.decide(Party::Workload(&a), Party::Host("one"), &up), ALLOW);
}
