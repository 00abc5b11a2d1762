//! Host endpoints: who has an interface, which policies are asked where, and what no policy is asked about.

use serde_json::{Value, json};

use super::*;
use crate::flow::{ConnState, Passage, Place};
use crate::net::InterfaceName;

/// Host `one` with `eth0` (192.0.2.1), `eth1` (198.51.100.1, 2001:db8::1) and pod `a`; `b` is a pod of host `two`.
struct World(Vec<Resource>);

const PEER: &str = "203.0.113.9";
const HOST_ADDRESS: &str = "192.0.2.1";
const POD: &str = "10.0.0.1";

impl World {
    fn new(resources: impl IntoIterator<Item = Resource>) -> Self {
        Self(pods().into_iter().chain([open()]).chain(resources).collect())
    }

    fn cluster(&self) -> Cluster {
        let facts = [("eth0", &[HOST_ADDRESS][..]), ("eth1", &["198.51.100.1", "2001:db8::1"]), ("lo", &["127.0.0.1"])];
        let facts = facts.map(|(name, addresses)| {
            (interface(name), addresses.iter().map(|address| address.parse().unwrap()).collect())
        });
        Cluster::new(&self.0).with_interfaces("one", facts)
    }

    fn ask(&self, question: &Question) -> Decision {
        question.of(&self.cluster())
    }
}

/// A passage through host `one`, by names.
#[derive(Debug, Clone)]
struct Question {
    from: &'static str,
    to: &'static str,
    arriving: Flow,
    flow: Flow,
    state: ConnState,
}

impl Question {
    fn of(&self, cluster: &Cluster) -> Decision {
        let a = key("a");
        let place = |name: &'static str| match name {
            "pod" => Place::Workload(&a),
            "host" => Place::Host,
            name => Place::Interface(interface(name)),
        };
        let (from, to) = (place(self.from), place(self.to));
        cluster.passage("one", &Passage { from, to, arriving: self.arriving, flow: self.flow, state: self.state })
    }

    fn in_state(&self, state: ConnState) -> Self {
        Self { state, ..self.clone() }
    }

    fn translated_to(&self, destination: &str, port: u16) -> Self {
        let flow = Flow { destination: destination.parse().unwrap(), destination_port: port, ..self.flow };
        Self { flow, ..self.clone() }
    }
}

fn interface(name: &str) -> InterfaceName {
    name.parse().unwrap()
}

/// TCP between the addresses that belong to these ends.
fn through(from: &'static str, to: &'static str, port: u16) -> Question {
    let address = |name| match name {
        "pod" => POD,
        "host" => HOST_ADDRESS,
        _ => PEER,
    };
    let other = if address(from) == address(to) { "203.0.113.10" } else { address(to) };
    let flow = flow(address(from), other, 6, port);
    Question { from, to, arriving: flow, flow, state: ConnState::New }
}

fn hep(name: &str, spec: Value) -> Resource {
    let mut spec = spec;
    spec["node"] = spec.get("node").cloned().unwrap_or_else(|| json!("one"));
    resource(Kind::HostEndpoint, None, name, json!({"role": name, "host": "yes"}), spec)
}

/// `eth0`'s host endpoint.
fn eth0() -> Resource {
    hep("eth0", json!({"interfaceName": "eth0"}))
}

/// A policy of all host endpoints that does this in these directions.
fn for_hosts(name: &str, action: &str, types: &[&str], more: Value) -> Resource {
    let mut spec = json!({"selector": "has(host)", "types": types});
    for direction in types {
        spec[direction.to_lowercase()] = json!([{ "action": action }]);
    }
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    policy(name, spec)
}

const BOTH: [&str; 2] = ["Ingress", "Egress"];

/// The ways through host `one` at a port that is not fail-safe.
fn ways() -> [(&'static str, Question); 6] {
    [
        ("in", through("eth0", "host", 80)),
        ("out", through("host", "eth0", 80)),
        ("to the pod", through("eth0", "pod", 80)),
        ("from the pod", through("pod", "eth0", 80)),
        ("across, in by it", through("eth0", "eth1", 80)),
        ("across, out by it", through("eth1", "eth0", 80)),
    ]
}

/// Asks about each way, and says which are allowed.
fn allowed(world: &World) -> Vec<&'static str> {
    ways().into_iter().filter(|(_, question)| world.ask(question) == ALLOW).map(|(way, _)| way).collect()
}

const FORWARDED: [&str; 4] = ["to the pod", "from the pod", "across, in by it", "across, out by it"];

#[test]
fn without_host_endpoints_only_workloads_are_policed() {
    let all = ways().map(|(way, _)| way);
    assert_eq!(allowed(&World::new([])), all);
    assert_eq!(allowed(&World::new([for_hosts("deny", "Deny", &BOTH, json!({"applyOnForward": true}))])), all);
    assert_eq!(World::new([]).ask(&through("pod", "host", 80)), DENY);
    assert_eq!(World::new([]).ask(&through("host", "pod", 80)), ALLOW);
    assert_eq!(World::new([]).ask(&through("host", "host", 80)), ALLOW);
}

#[test]
fn a_host_endpoint_without_policy_drops_what_is_the_hosts_and_lets_the_rest_through() {
    assert_eq!(allowed(&World::new([eth0()])), FORWARDED);
    let with = |name: &str| hep("eth0", json!({"interfaceName": "eth0", "profiles": [name]}));
    let all = ways().map(|(way, _)| way);
    assert_eq!(allowed(&World::new([with("projectcalico-default-allow")])), all);
    // `p` allows everything; one that is missing denies.
    assert_eq!(allowed(&World::new([with("p")])), all);
    assert_eq!(allowed(&World::new([with("missing")])), FORWARDED);
}

#[test]
fn fail_safe_ports_are_open_whatever_policy_says() {
    let world = World::new([eth0(), for_hosts("deny", "Deny", &BOTH, json!({}))]);
    let early = |field: &str| {
        let types: &[&str] = if field == "preDNAT" { &["Ingress"] } else { &BOTH };
        let allow = for_hosts("normal", "Allow", &BOTH, json!({}));
        World::new([eth0(), allow, for_hosts("early", "Deny", types, json!({field: true, "applyOnForward": true}))])
    };
    for world in [world, early("doNotTrack"), early("preDNAT")] {
        for port in [22, 179, 2379, 2380, 5473, 6443, 6666, 6667] {
            assert_eq!(world.ask(&through("eth0", "host", port)), ALLOW, "in {port}");
        }
        for port in [179, 2379, 2380, 5473, 6443, 6666, 6667] {
            assert_eq!(world.ask(&through("host", "eth0", port)), ALLOW, "out {port}");
        }
        let udp = |mut question: Question, port| {
            for flow in [&mut question.arriving, &mut question.flow] {
                (flow.protocol, flow.destination_port) = (17, port);
            }
            question
        };
        assert_eq!(world.ask(&udp(through("eth0", "host", 0), 68)), ALLOW);
        assert_eq!(world.ask(&udp(through("host", "eth0", 0), 53)), ALLOW);
        assert_eq!(world.ask(&udp(through("host", "eth0", 0), 67)), ALLOW);
        assert_eq!(world.ask(&udp(through("eth0", "host", 0), 53)), DENY);
        assert_eq!(world.ask(&through("eth0", "host", 80)), DENY);
    }
    let closed = world_with(Failsafes::NONE);
    assert_eq!(through("eth0", "host", 22).of(&closed), DENY);
}

fn world_with(failsafes: Failsafes) -> Cluster {
    World::new([eth0()]).cluster().with_failsafes(failsafes)
}

/// Fail-safe ports are the host's, so forwarded traffic to one is judged.
#[test]
fn forwarded_traffic_knows_no_fail_safe_ports() {
    let world = World::new([eth0(), for_hosts("deny", "Deny", &BOTH, json!({"applyOnForward": true}))]);
    assert_eq!(world.ask(&through("eth0", "eth1", 22)), DENY);
    assert_eq!(world.ask(&through("eth1", "eth0", 179)), DENY);
}

#[test]
fn policies_say_whether_they_are_about_forwarded_traffic() {
    let world = |more: Value| World::new([eth0(), for_hosts("deny", "Deny", &BOTH, more)]);
    assert_eq!(allowed(&world(json!({}))), FORWARDED);
    assert!(allowed(&world(json!({"applyOnForward": true}))).is_empty());
    let one_way = |types: &[&str], action| {
        allowed(&World::new([eth0(), for_hosts("one-way", action, types, json!({"applyOnForward": true}))]))
    };
    // A direction without forward policy allows; profiles are not asked.
    assert_eq!(one_way(&["Ingress"], "Deny"), ["from the pod", "across, out by it"]);
    assert_eq!(one_way(&["Egress"], "Deny"), ["to the pod", "across, in by it"]);
    assert_eq!(
        one_way(&["Ingress"], "Allow"),
        ["in", "to the pod", "from the pod", "across, in by it", "across, out by it"]
    );
    // The end of a tier denies here, too; what passes all tiers goes on.
    let empty = json!({"applyOnForward": true, "ingress": []});
    let world = World::new([eth0(), for_hosts("empty", "Allow", &["Ingress"], empty)]);
    assert_eq!(allowed(&world), ["from the pod", "across, out by it"]);
    assert_eq!(one_way(&["Ingress"], "Pass"), FORWARDED);
}

#[test]
fn workloads_and_hosts_must_both_allow() {
    let deny_pod = |direction: &str| policy("pod", json!({"selector": "app == 'a'", "types": [direction], "order": 1}));
    let forward = || for_hosts("forward", "Allow", &BOTH, json!({"applyOnForward": true}));
    let all = ways().map(|(way, _)| way);
    assert_eq!(allowed(&World::new([eth0(), forward()])), all);
    let without = |way: &str| all.into_iter().filter(|one| *one != way).collect::<Vec<_>>();
    assert_eq!(allowed(&World::new([eth0(), forward(), deny_pod("Ingress")])), without("to the pod"));
    assert_eq!(allowed(&World::new([eth0(), forward(), deny_pod("Egress")])), without("from the pod"));
}

#[test]
fn untracked_policy_comes_first_and_ends_the_matter() {
    let untracked = |action: &str, types: &[&str]| {
        for_hosts("untracked", action, types, json!({"doNotTrack": true, "applyOnForward": true}))
    };
    let normal = |action: &str| for_hosts("normal", action, &BOTH, json!({"applyOnForward": true}));
    // Forwarded traffic meets it where it comes in only.
    let world = World::new([eth0(), normal("Allow"), untracked("Deny", &BOTH)]);
    assert_eq!(allowed(&world), ["from the pod", "across, out by it"]);
    for state in [ConnState::Established, ConnState::Related, ConnState::Invalid] {
        assert_eq!(world.ask(&through("eth0", "host", 80).in_state(state)), DENY, "{state:?}");
    }
    let world = World::new([eth0(), normal("Deny"), untracked("Allow", &BOTH)]);
    assert_eq!(allowed(&world), ["in", "out", "to the pod", "across, in by it"]);
    // The pod's own policy holds all the same, and there is no connection to go by.
    let pod = policy("pod", json!({"selector": "app == 'a'", "types": ["Ingress"]}));
    let world = World::new([eth0(), untracked("Allow", &BOTH), pod]);
    for state in [ConnState::New, ConnState::Established] {
        assert_eq!(world.ask(&through("eth0", "pod", 80).in_state(state)), DENY, "{state:?}");
    }
    // What it does not decide is left to the others: its tier has no end.
    for nothing in ["Pass", "Log"] {
        assert_eq!(
            allowed(&World::new([eth0(), normal("Allow"), untracked(nothing, &BOTH)])),
            ways().map(|(way, _)| way)
        );
    }
    assert!(allowed(&World::new([eth0(), normal("Deny"), untracked("Pass", &BOTH)])).is_empty());
    assert_eq!(
        allowed(&World::new([eth0(), untracked("Allow", &["Ingress"])])),
        ["in", "to the pod", "from the pod", "across, in by it", "across, out by it"]
    );
}

/// Before connection tracking nothing tells an answer from something new.
#[test]
fn answers_of_fail_safe_ports_go_tracked() {
    let untracked = for_hosts("untracked", "Deny", &BOTH, json!({"doNotTrack": true, "applyOnForward": true}));
    let world = World::new([eth0(), untracked]);
    let answer = |from, to, port: u16| {
        let mut question = through(from, to, 40_000).in_state(ConnState::Established);
        question.arriving.source_port = port;
        question.flow.source_port = port;
        world.ask(&question)
    };
    assert_eq!(answer("eth0", "host", 6443), ALLOW);
    assert_eq!(answer("host", "eth0", 22), ALLOW);
    assert_eq!(answer("eth0", "host", 22), DENY);
    assert_eq!(answer("host", "eth0", 80), DENY);
}

#[test]
fn pre_dnat_policy_sees_where_a_packet_was_sent() {
    let pre = |action: &str| {
        let rules = json!([{"action": action, "protocol": "TCP", "destination": {"ports": [30000]}}]);
        let more = json!({"preDNAT": true, "applyOnForward": true, "ingress": rules});
        for_hosts("pre", action, &["Ingress"], more)
    };
    let node_port = through("eth0", "pod", 30_000).translated_to(POD, 80);
    let normal = |action: &str| for_hosts("normal", action, &BOTH, json!({"applyOnForward": true}));
    assert_eq!(World::new([eth0(), pre("Deny")]).ask(&node_port), DENY);
    assert_eq!(World::new([eth0(), pre("Deny")]).ask(&node_port.in_state(ConnState::Established)), ALLOW);
    assert_eq!(World::new([eth0(), pre("Deny")]).ask(&through("eth0", "pod", 80)), ALLOW);
    // What it allows, the host's other policies have no say about; the pod's own has.
    assert_eq!(World::new([eth0(), pre("Allow"), normal("Deny")]).ask(&node_port), ALLOW);
    assert_eq!(World::new([eth0(), pre("Allow"), normal("Deny")]).ask(&through("eth0", "host", 30_000)), ALLOW);
    let pod = policy("pod", json!({"selector": "app == 'a'", "types": ["Ingress"]}));
    assert_eq!(World::new([eth0(), pre("Allow"), pod]).ask(&node_port), DENY);
    // The side it leaves by is another's matter.
    let across = through("eth0", "eth1", 30_000);
    let eth1 = || hep("eth1", json!({"interfaceName": "eth1"}));
    assert_eq!(World::new([eth0(), pre("Allow"), eth1()]).ask(&across), ALLOW);
    assert_eq!(World::new([eth0(), pre("Allow"), eth1(), normal("Deny")]).ask(&across), DENY);
    // What goes out meets none.
    assert_eq!(World::new([eth0(), pre("Deny"), normal("Allow")]).ask(&through("host", "eth0", 30_000)), ALLOW);
    assert_eq!(World::new([eth0(), pre("Deny"), normal("Allow")]).ask(&through("eth1", "eth0", 30_000)), ALLOW);
    // Its tier has no end: what it does not decide is left to the others.
    assert_eq!(World::new([eth0(), pre("Deny"), normal("Allow")]).ask(&through("eth0", "host", 80)), ALLOW);
}

#[test]
fn all_other_policy_sees_the_translated_packet() {
    let to = |port: u16, more: Value| {
        let rules =
            json!([{"action": "Deny", "protocol": "TCP", "destination": {"ports": [port]}}, {"action": "Allow"}]);
        let mut more = more;
        more["ingress"] = rules.clone();
        more["egress"] = rules;
        World::new([eth0(), for_hosts("to", "Deny", &BOTH, more)])
    };
    for (from, to_end) in [("eth0", "host"), ("host", "eth0"), ("eth0", "pod"), ("eth0", "eth1"), ("eth1", "eth0")] {
        let question = through(from, to_end, 30_000).translated_to("203.0.113.77", 80);
        let forward = json!({"applyOnForward": true});
        assert_eq!(to(80, forward.clone()).ask(&question), DENY, "{from} {to_end}");
        assert_eq!(to(30_000, forward).ask(&question), ALLOW, "{from} {to_end}");
    }
}

#[test]
fn connections_go_on_and_what_belongs_to_none_is_dropped_where_anybody_is_policed() {
    let world = World::new([eth0(), for_hosts("deny", "Deny", &BOTH, json!({"applyOnForward": true}))]);
    for (way, question) in ways() {
        assert_eq!(world.ask(&question.in_state(ConnState::Established)), ALLOW, "{way}");
        assert_eq!(world.ask(&question.in_state(ConnState::Related)), ALLOW, "{way}");
        assert_eq!(World::new([eth0()]).ask(&question.in_state(ConnState::Invalid)), DENY, "{way}");
    }
    let invalid = |from, to| World::new([]).ask(&through(from, to, 80).in_state(ConnState::Invalid));
    assert_eq!([invalid("eth0", "host"), invalid("host", "eth0"), invalid("eth0", "eth1")], [ALLOW; 3]);
    assert_eq!([invalid("eth0", "pod"), invalid("pod", "eth0"), invalid("pod", "host")], [DENY; 3]);
    assert_eq!(invalid("host", "pod"), ALLOW);
    let settings = Settings { drop_invalid: false, ..Settings::default() };
    let lenient = World::new([]).cluster().with_settings(settings);
    assert_eq!(through("eth0", "pod", 80).in_state(ConnState::Invalid).of(&lenient), ALLOW);
    // Even a fail-safe port takes no packet of an impossible connection.
    assert_eq!(World::new([eth0()]).ask(&through("eth0", "host", 22).in_state(ConnState::Invalid)), DENY);
}

/// Each endpoint has a policy of its own that allows one port of TCP; so the open port tells who has the interface.
fn owner(world: impl IntoIterator<Item = (&'static str, Value)>, from: &'static str) -> Option<&'static str> {
    let mut resources = Vec::new();
    let mut ports = Vec::new();
    for (number, (name, spec)) in world.into_iter().enumerate() {
        let port = 1000 + u16::try_from(number).unwrap();
        resources.push(hep(name, spec));
        let rules = json!([{"action": "Allow", "protocol": "TCP", "destination": {"ports": [port]}}]);
        let selector = ["role == '", name, "'"].concat();
        resources.push(policy(name, json!({"selector": selector, "types": ["Ingress"], "ingress": rules})));
        ports.push((name, port));
    }
    let world = World::new(resources);
    if world.ask(&through(from, "host", 9)) == ALLOW {
        return None;
    }
    let open: Vec<_> = ports.iter().filter(|(_, port)| world.ask(&through(from, "host", *port)) == ALLOW).collect();
    assert_eq!(open.len(), 1);
    Some(open[0].0)
}

#[test]
fn an_interface_is_one_endpoints() {
    let named = |name| json!({"interfaceName": name});
    let by = |address| json!({"expectedIPs": [address]});
    assert_eq!(owner([("a", named("eth0"))], "eth0"), Some("a"));
    assert_eq!(owner([("a", named("eth0"))], "eth1"), None);
    assert_eq!(owner([("a", by("2001:db8::1"))], "eth1"), Some("a"));
    assert_eq!(owner([("a", by("2001:db8::1"))], "eth0"), None);
    // Several: the first by name, however they came by it.
    assert_eq!(owner([("b", named("eth0")), ("a", by(HOST_ADDRESS))], "eth0"), Some("a"));
    assert_eq!(owner([("a", named("eth0")), ("b", by(HOST_ADDRESS))], "eth0"), Some("a"));
    // With a name, addresses tell nothing.
    let both = json!({"interfaceName": "eth1", "expectedIPs": [HOST_ADDRESS]});
    assert_eq!(owner([("a", both)], "eth0"), None);
    // One endpoint may have several interfaces.
    let two = json!({"expectedIPs": [HOST_ADDRESS, "198.51.100.1"]});
    assert_eq!(owner([("a", two.clone())], "eth0"), Some("a"));
    assert_eq!(owner([("a", two)], "eth1"), Some("a"));
    // The rest is the wildcard's, of several the first's; never another host's.
    let all = || named("*");
    assert_eq!(owner([("a", all()), ("z", named("eth0"))], "eth0"), Some("z"));
    assert_eq!(owner([("a", all()), ("z", named("eth0"))], "eth1"), Some("a"));
    assert_eq!(owner([("b", all()), ("a", all())], "eth0"), Some("a"));
    assert_eq!(owner([("a", all())], "lo"), None);
    assert_eq!(owner([("a", named("lo"))], "lo"), Some("a"));
    assert_eq!(owner([("a", json!({"interfaceName": "eth0", "node": "two"}))], "eth0"), None);
    assert_eq!(owner([("a", json!({"interfaceName": "*", "node": "two"}))], "eth0"), None);
}

#[test]
fn interfaces_of_workloads_are_no_hosts() {
    let all = hep("all", json!({"interfaceName": "*"}));
    let named = hep("named", json!({"interfaceName": "calia"}));
    let deny = |more: Value| for_hosts("deny", "Deny", &BOTH, more);
    let settings = Settings { endpoint_to_host: EndpointToHost::Return, ..Settings::default() };
    let forward = json!({"applyOnForward": true});
    for hep in [all, named] {
        let world = World::new([hep.clone(), deny(forward.clone())]).cluster().with_settings(settings.clone());
        assert_eq!(through("pod", "host", 80).of(&world), ALLOW);
        assert_eq!(through("host", "pod", 80).of(&world), ALLOW);
        let early = |field: &str| {
            let mut more = forward.clone();
            more[field] = json!(true);
            for_hosts("early", "Deny", &["Ingress"], more)
        };
        for field in ["preDNAT", "doNotTrack"] {
            let world = World::new([hep.clone(), early(field)]).cluster().with_settings(settings.clone());
            assert_eq!(through("pod", "host", 80).of(&world), ALLOW, "{field}");
        }
    }
}

#[test]
fn a_wildcard_carries_out_every_layer() {
    let all = || hep("all", json!({"interfaceName": "*", "profiles": ["p"]}));
    for field in ["doNotTrack", "preDNAT"] {
        let early = for_hosts("early", "Deny", &["Ingress"], json!({field: true, "applyOnForward": true}));
        let world = World::new([all(), early]);
        for from in ["eth0", "eth1"] {
            assert_eq!(world.ask(&through(from, "host", 80)), DENY, "{field} {from}");
            assert_eq!(world.ask(&through(from, "pod", 80)), DENY, "{field} {from}");
        }
        assert_eq!(world.ask(&through("host", "eth0", 80)), ALLOW, "{field}");
    }
    // Only its own endpoint is asked about an interface, in every layer.
    let early = for_hosts(
        "early",
        "Deny",
        &["Ingress"],
        json!({"preDNAT": true, "applyOnForward": true, "selector": "role == 'all'"}),
    );
    let world = World::new([all(), hep("eth0", json!({"interfaceName": "eth0", "profiles": ["p"]})), early]);
    assert_eq!(world.ask(&through("eth0", "host", 80)), ALLOW);
    assert_eq!(world.ask(&through("eth1", "host", 80)), DENY);
}

#[test]
fn a_workload_may_reach_its_host_if_both_say_so() {
    let settings = |endpoint_to_host| Settings { endpoint_to_host, ..Settings::default() };
    let deny = policy("pod", json!({"selector": "app == 'a'", "types": ["Egress"]}));
    let question = through("pod", "host", 80);
    for (action, open, closed) in [
        (EndpointToHost::Drop, DENY, DENY),
        (EndpointToHost::Return, ALLOW, DENY),
        (EndpointToHost::Accept, ALLOW, DENY),
    ] {
        assert_eq!(question.of(&World::new([]).cluster().with_settings(settings(action))), open, "{action:?}");
        let world = World::new([deny.clone()]).cluster().with_settings(settings(action));
        assert_eq!(question.of(&world), closed, "{action:?}");
        // The host's own requests are answered.
        assert_eq!(question.in_state(ConnState::Established).of(&world), ALLOW, "{action:?}");
    }
    let mut discovery = question;
    let mut flow = flow("fe80::1", "ff02::1:ff00:1", 58, 0);
    for (kind, decision) in [
        (128, DENY),
        (130, ALLOW),
        (131, ALLOW),
        (132, ALLOW),
        (133, ALLOW),
        (134, DENY),
        (135, ALLOW),
        (136, ALLOW),
        (137, DENY),
    ] {
        flow.icmp = Some((kind, 0));
        (discovery.arriving, discovery.flow) = (flow, flow);
        assert_eq!(World::new([deny.clone()]).ask(&discovery), decision, "{kind}");
        let stranger = Question { from: "cali9", ..discovery.clone() };
        assert_eq!(World::new([deny.clone()]).ask(&stranger), decision, "{kind} of a workload that nobody knows");
    }
}

#[test]
fn pods_of_one_host_need_both_policies_and_forged_sources_never_leave() {
    let b = || {
        let mut b = pods().remove(1);
        let Resource::WorkloadEndpoint(object) = &mut b else { unreachable!() };
        object.metadata.name = "c".into();
        object.metadata.labels.insert("app".into(), "c".into());
        object.spec.node = "one".into();
        object.spec.interface_name = "calic".parse().ok();
        object.spec.ip_networks = ["10.0.0.3/32".parse().unwrap()].into();
        b
    };
    let deny = |app: &str, direction: &str| {
        policy("deny", json!({"selector": (["app == '", app, "'"].concat()), "types": [direction]}))
    };
    let (a, b_of_two, c, nobody) = (key("a"), key("b"), key("c"), key("z"));
    let between = |world: &World, from: &ResourceKey, to: &ResourceKey, source: &str, destination: &str, state| {
        let flow = flow(source, destination, 6, 80);
        let places = (Place::Workload(from), Place::Workload(to));
        let passage = Passage { from: places.0, to: places.1, arriving: flow, flow, state };
        world.cluster().passage("one", &passage)
    };
    let new = ConnState::New;
    assert_eq!(between(&World::new([b()]), &a, &c, POD, "10.0.0.3", new), ALLOW);
    assert_eq!(between(&World::new([b(), deny("a", "Egress")]), &a, &c, POD, "10.0.0.3", new), DENY);
    assert_eq!(between(&World::new([b(), deny("c", "Ingress")]), &a, &c, POD, "10.0.0.3", new), DENY);
    // To itself through a service: both of its own directions.
    assert_eq!(between(&World::new([]), &a, &a, POD, POD, new), ALLOW);
    assert_eq!(between(&World::new([deny("a", "Ingress")]), &a, &a, POD, POD, new), DENY);
    // A forged source rides on nobody's connections.
    for state in [new, ConnState::Established] {
        assert_eq!(between(&World::new([b()]), &a, &c, "10.0.0.3", "10.0.0.3", state), DENY);
    }
    // Workloads of another host have no interface here, nor has one that nobody knows.
    assert_eq!(between(&World::new([]), &b_of_two, &a, "10.0.0.2", POD, ConnState::Established), DENY);
    assert_eq!(between(&World::new([]), &a, &nobody, POD, "10.0.0.9", ConnState::Established), DENY);
    assert_eq!(World::new([]).ask(&through("eth0", "calix", 80)), DENY);
}

/// While a pod is replaced, its interface is that of the first by key.
#[test]
fn an_interface_that_several_workloads_claim_is_the_firsts() {
    let again = |name: &str| {
        let mut again = pods().remove(0);
        again.metadata_mut().unwrap().name = name.into();
        again
    };
    assert_eq!(World::new([again("a0")]).ask(&through("eth0", "pod", 80)), ALLOW);
    assert_eq!(World::new([again("Z")]).ask(&through("eth0", "pod", 80)), DENY);
}

#[test]
fn what_is_forwarded_to_a_service_goes_in_circles() {
    let ranges = json!({
        "serviceClusterIPs": [{"cidr": "10.96.0.0/12"}, {"cidr": "fd00:96::/108"}],
        "serviceExternalIPs": [{"cidr": "192.0.2.128/25"}], "serviceLoadBalancerIPs": [{"cidr": "198.18.0.0/15"}],
    });
    let config = |name: &str| resource(Kind::BgpConfiguration, None, name, json!({}), ranges.clone());
    let to = |from, end, destination: &str| {
        let question = through(from, end, 80).translated_to(destination, 80);
        Question { arriving: question.flow, ..question }
    };
    let world = World::new([config("default")]);
    for destination in ["10.96.0.1", "192.0.2.200", "198.19.0.1"] {
        assert_eq!(world.ask(&to("eth0", "eth1", destination)), DENY, "{destination}");
        assert_eq!(world.ask(&to("pod", "eth1", destination)), DENY, "{destination}");
        assert_eq!(world.ask(&to("eth0", "host", destination)), ALLOW, "{destination}");
        assert_eq!(world.ask(&to("host", "eth0", destination)), ALLOW, "{destination}");
        assert_eq!(World::new([config("node.one")]).ask(&to("eth0", "eth1", destination)), ALLOW, "{destination}");
        let settings = Settings { prevent_service_loops: false, ..Settings::default() };
        let lenient = World::new([config("default")]).cluster().with_settings(settings);
        assert_eq!(to("eth0", "eth1", destination).of(&lenient), ALLOW);
    }
    assert_eq!(world.ask(&to("eth0", "eth1", "10.112.0.1")), ALLOW);
    let translated = to("eth0", "eth1", "10.96.0.1").translated_to(PEER, 80);
    assert_eq!(world.ask(&translated), ALLOW);
}

/// Members of sets are expected addresses, not those of the interface; names of ports count as a workload's do.
#[test]
fn rules_find_host_endpoints_by_expected_addresses_and_ports() {
    let peer = |ips: Value| {
        let ports = json!([{"name": "web", "protocol": "TCP", "port": 8080}]);
        hep("peer", json!({"node": "two", "interfaceName": "eth0", "expectedIPs": ips, "ports": ports}))
    };
    let from = |selector: &str| {
        policy(
            "from",
            json!({
                "selector": "app == 'a'", "types": ["Ingress"], "ingress": [{"action": "Allow", "source": {"selector": selector}}],
            }),
        )
    };
    let ask = |ips: Value, selector: &str| World::new([peer(ips), from(selector)]).ask(&through("eth0", "pod", 80));
    assert_eq!(ask(json!([PEER]), "role == 'peer'"), ALLOW);
    assert_eq!(ask(json!([]), "role == 'peer'"), DENY);
    assert_eq!(ask(json!([PEER]), "!has(projectcalico.org/namespace)"), ALLOW);
    let to = |port: Value, destination_port| {
        let rules = json!([{"action": "Allow", "protocol": "TCP", "destination": {"ports": [port]}}]);
        let egress = policy("to", json!({"selector": "app == 'a'", "types": ["Egress"], "egress": rules}));
        World::new([peer(json!([PEER])), egress]).ask(&through("pod", "eth0", destination_port))
    };
    assert_eq!(to(json!("web"), 8080), ALLOW);
    assert_eq!(to(json!("web"), 80), DENY);
}

/// Between hosts, both are asked.
#[test]
fn a_flow_meets_the_host_endpoints_of_both_hosts() {
    let on = |node: &str| hep(node, json!({"node": node, "interfaceName": "eth0"}));
    let forward = || for_hosts("forward", "Deny", &["Ingress"], json!({"applyOnForward": true}));
    let decide = |resources: Vec<Resource>| {
        let world = World::new(resources);
        let cluster = Cluster::new(&world.0);
        let pods =
            cluster.decide(Party::Workload(&key("a")), Party::Workload(&key("b")), &flow(POD, "10.0.0.2", 6, 80));
        let up = cluster.decide(Party::Outside, Party::Host("two"), &flow(PEER, "192.0.2.2", 6, 80));
        let down = cluster.decide(Party::Host("one"), Party::Host("two"), &flow(HOST_ADDRESS, "192.0.2.2", 6, 80));
        [pods, up, down]
    };
    assert_eq!(decide(Vec::new()), [ALLOW; 3]);
    assert_eq!(decide([on("two")].into()), [ALLOW, DENY, DENY]);
    assert_eq!(decide([on("one")].into()), [ALLOW, ALLOW, DENY]);
    assert_eq!(decide([on("two"), forward()].into()), [DENY; 3]);
    assert_eq!(decide([on("one"), forward()].into()), [ALLOW, ALLOW, DENY]);
}
