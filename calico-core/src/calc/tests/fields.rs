//! No field of what policy is made of is accepted and ignored: each changes what the host is told to do, or is told of.
//!
//! The fields are the schema's own. Of each there is a case here, or a reason why it decides nothing; a field without either fails, so a new one
//! cannot be forgotten.

use std::boxed::Box;
use std::println;

use serde_json::{Value, json};

use super::*;
use crate::calc::Abilities;
use crate::render::{PolicyRenderer, RenderConfig, Renderer};
use crate::resource::Scope;

/// Whether policy is made of objects of a kind, or its other end: every kind must be thought about.
const fn is_audited(kind: Kind) -> bool {
    match kind {
        Kind::NetworkPolicy
        | Kind::GlobalNetworkPolicy
        | Kind::StagedNetworkPolicy
        | Kind::StagedGlobalNetworkPolicy
        | Kind::StagedKubernetesNetworkPolicy
        | Kind::Tier
        | Kind::Profile
        | Kind::NetworkSet
        | Kind::GlobalNetworkSet
        | Kind::HostEndpoint
        | Kind::WorkloadEndpoint => true,
        // Settings, routing and addresses: "Known limits" says which of them nothing acts on yet.
        Kind::Node
        | Kind::IpPool
        | Kind::IpReservation
        | Kind::IpamConfiguration
        | Kind::BgpConfiguration
        | Kind::BgpPeer
        | Kind::BgpFilter
        | Kind::FelixConfiguration
        | Kind::ClusterInformation
        | Kind::KubeControllersConfiguration
        | Kind::CalicoNodeStatus
        | Kind::LiveMigration
        | Kind::ApiBlockAffinity
        | Kind::IpamBlock
        | Kind::BlockAffinity
        | Kind::IpamHandle
        | Kind::IpamConfig => false,
    }
}

/// What shows that a field is acted on, or why it need not be.
enum Judgement {
    Note(&'static str),
    Case(Case),
}

/// A document, and what is written where.
struct Case {
    base: Value,
    pointer: String,
    value: Value,
}

fn note(reason: &'static str) -> Option<Judgement> {
    Some(Judgement::Note(reason))
}

/// A case within the specification.
fn case(spec: Value, pointer: &str, value: Value) -> Option<Judgement> {
    Some(Judgement::Case(Case { base: json!({ "spec": spec }), pointer: ["/spec", pointer].concat(), value }))
}

/// The judgement of a field by its path, such as `spec.ingress.source.nets`.
fn judge(kind: Kind, path: &str) -> Option<Judgement> {
    let (part, inside) = path.split_once('.').unwrap_or((path, ""));
    match part {
        "kind" | "apiVersion" => note("they say what it is, as its key does"),
        "status" => note("what others report of it"),
        "metadata" => metadata(kind, inside),
        _ => specification(kind, inside),
    }
}

fn metadata(kind: Kind, name: &str) -> Option<Judgement> {
    let of = |member: &str, value: Value| {
        let base = json!({"metadata": {}, "spec": host_or_other(kind)});
        Some(Judgement::Case(Case { base, pointer: ["/metadata/", member].concat(), value }))
    };
    match (name, kind) {
        ("name" | "namespace", _) => note("they are its key"),
        ("uid" | "resourceVersion" | "creationTimestamp" | "deletionTimestamp", _) => note("the store's own"),
        ("annotations", Kind::HostEndpoint) => of(name, json!({"qos.projectcalico.org/dscp": "AF41"})),
        ("annotations", _) => note("free notes, and the stored name of a policy; what pods ask for is in qosControls"),
        ("labels", Kind::HostEndpoint | Kind::WorkloadEndpoint | Kind::NetworkSet | Kind::GlobalNetworkSet) => {
            of(name, json!({"role": "host"}))
        }
        ("labels", _) => note("nothing selects policies, tiers or profiles; a profile hands labelsToApply down"),
        _ => None,
    }
}

fn host_or_other(kind: Kind) -> Value {
    match kind {
        Kind::HostEndpoint => json!({"node": HOST, "interfaceName": "eth0", "expectedIPs": ["192.0.2.7"]}),
        Kind::WorkloadEndpoint => workload(),
        _ => json!({"nets": ["192.0.2.0/24"]}),
    }
}

fn workload() -> Value {
    json!({"node": HOST, "interfaceName": "calix", "ipNetworks": ["10.0.0.2/32", "10.0.0.3/32"]})
}

fn specification(kind: Kind, path: &str) -> Option<Judgement> {
    if kind == Kind::StagedKubernetesNetworkPolicy {
        return kubernetes(path);
    }
    match path.split_once('.') {
        Some((list @ ("ingress" | "egress"), inside)) => return in_rule(list, inside),
        Some((member, inside)) => return in_member(kind, member, inside),
        None => {}
    }
    let host = || host_or_other(Kind::HostEndpoint);
    let forwarded = || json!({"selector": "role == 'host'", "applyOnForward": true});
    match (kind, path) {
        (Kind::Tier, "order") => case(json!({}), "/order", json!(10)),
        (Kind::Tier, "defaultAction") => case(json!({}), "/defaultAction", json!("Pass")),
        (Kind::Profile, "labelsToApply") => case(json!({}), "/labelsToApply", json!({"inherited": "yes"})),
        (Kind::NetworkSet | Kind::GlobalNetworkSet, "nets") => {
            case(json!({"nets": ["10.1.0.0/16"]}), "/nets", json!(["10.2.0.0/16"]))
        }
        (Kind::HostEndpoint, "node") => case(host(), "/node", json!("node-2")),
        (Kind::HostEndpoint, "interfaceName") => case(host(), "/interfaceName", json!("eth1")),
        (Kind::HostEndpoint, "expectedIPs") => case(host(), "/expectedIPs", json!(["192.0.2.8"])),
        (Kind::HostEndpoint, "profiles") => case(host(), "/profiles", json!(["p"])),
        (Kind::WorkloadEndpoint, _) => of_workload(path),
        (_, "tier") => case(json!({}), "/tier", json!("early")),
        (_, "order") => case(json!({}), "/order", json!(5)),
        (_, "selector") => case(json!({}), "/selector", json!("app == 'none'")),
        (_, "types") => case(json!({}), "/types", json!(["Egress"])),
        (_, "serviceAccountSelector") => case(json!({}), "/serviceAccountSelector", json!("role == 'none'")),
        (_, "namespaceSelector") => case(json!({}), "/namespaceSelector", json!("team == 'none'")),
        (_, "performanceHints") => {
            let rules = json!([{"action": "Allow", "source": {"selector": "app == 'db'"}}]);
            let base = json!({"selector": "app == 'none'", "ingress": rules});
            case(base, "/performanceHints", json!(["AssumeNeededOnEveryNode"]))
        }
        (_, "stagedAction") => case(json!({}), "/stagedAction", json!("Delete")),
        (_, "doNotTrack") => case(forwarded(), "/doNotTrack", json!(true)),
        (_, "preDNAT") => case(forwarded(), "/preDNAT", json!(true)),
        (_, "applyOnForward") => case(json!({"selector": "role == 'host'"}), "/applyOnForward", json!(true)),
        _ => None,
    }
}

fn of_workload(path: &str) -> Option<Judgement> {
    let value = match path {
        "orchestrator" | "workload" | "pod" | "endpoint" | "containerID" => {
            return note("names of what it belongs to: its key says which endpoint it is");
        }
        "ipv4Gateway" | "ipv6Gateway" => return note("whoever attaches the workload gives it its routes"),
        "node" => json!("node-2"),
        "serviceAccountName" => json!("robot"),
        "ipNetworks" => json!(["10.0.0.4/32"]),
        "profiles" => json!(["p"]),
        "interfaceName" => json!("caliy"),
        "mac" => json!("02:00:00:00:00:01"),
        "allowSpoofedSourcePrefixes" => json!(["10.9.0.0/16"]),
        _ => return None,
    };
    case(workload(), &["/", path].concat(), value)
}

/// Of an endpoint's ports, floating addresses and limits.
fn in_member(kind: Kind, member: &str, inside: &str) -> Option<Judgement> {
    let with = |value: Value| {
        let mut base = host_or_other(kind);
        base[member] = value;
        base
    };
    let port = || with(json!([{"name": "web", "protocol": "TCP", "port": 81}]));
    let nat = || with(json!([{"internalIP": "10.0.0.2", "externalIP": "203.0.113.1"}]));
    match (member, inside) {
        ("ports", "name") => case(port(), "/ports/0/name", json!("other")),
        ("ports", "protocol") => case(port(), "/ports/0/protocol", json!("UDP")),
        ("ports", "port") => case(port(), "/ports/0/port", json!(82)),
        ("ports", "hostPort" | "hostIP") => note("ports of the host are forwarded by the plugin portmap"),
        ("ipNATs", "internalIP") => case(nat(), "/ipNATs/0/internalIP", json!("10.0.0.3")),
        ("ipNATs", "externalIP") => case(nat(), "/ipNATs/0/externalIP", json!("203.0.113.2")),
        ("qosControls", _) => limit(inside),
        _ => None,
    }
}

fn limit(name: &str) -> Option<Judgement> {
    let way = if name.starts_with("ingress") { "ingress" } else { "egress" };
    let bandwidth = || json!({[way, "Bandwidth"].concat(): 1_000_000});
    let with = |limits: Value| {
        let mut base = workload();
        base["qosControls"] = limits;
        base
    };
    let packets = || with(json!({[way, "PacketRate"].concat(): 100}));
    let pointer = ["/qosControls/", name].concat();
    match name.strip_prefix(way).unwrap_or(name) {
        "PacketRate" | "MaxConnections" => case(with(json!({})), &pointer, json!(100)),
        "PacketBurst" => case(packets(), &pointer, json!(7)),
        "dscp" => case(with(json!({})), &pointer, json!("AF41")),
        "Bandwidth" => case(with(json!({})), &pointer, json!(1_000_000)),
        // A host that limits no bandwidth says so, whatever is beside it.
        "Burst" | "Peakrate" | "Minburst" if !able().bandwidth => case(with(json!({})), &pointer, json!(2_000_000)),
        "Burst" | "Peakrate" => case(with(bandwidth()), &pointer, json!(2_000_000)),
        "Minburst" => {
            let mut base = bandwidth();
            base[[way, "Peakrate"].concat()] = json!(2_000_000);
            case(with(base), &pointer, json!(5_000))
        }
        _ => None,
    }
}

/// Of a rule of policies and profiles.
fn in_rule(list: &str, inside: &str) -> Option<Judgement> {
    let in_list = |rule: Value, pointer: &str, value: Value| {
        case(json!({list: [rule]}), &["/", list, "/0/", pointer].concat(), value)
    };
    let any = || json!({"action": "Allow"});
    let tcp = || json!({"action": "Allow", "protocol": "TCP"});
    let icmp = |member: &str, value: Value| json!({"action": "Allow", "protocol": "ICMP", member: value});
    match inside {
        "action" => in_list(any(), inside, json!("Pass")),
        "ipVersion" => in_list(any(), inside, json!(6)),
        "protocol" => in_list(any(), inside, json!("UDP")),
        "notProtocol" => in_list(tcp(), inside, json!("UDP")),
        "icmp.type" => in_list(icmp("icmp", json!({})), "icmp/type", json!(8)),
        "icmp.code" => in_list(icmp("icmp", json!({"type": 8})), "icmp/code", json!(1)),
        "notICMP.type" => in_list(icmp("notICMP", json!({})), "notICMP/type", json!(8)),
        "notICMP.code" => in_list(icmp("notICMP", json!({"type": 8})), "notICMP/code", json!(1)),
        "http.methods" => in_list(any(), "http", json!({"methods": ["GET"]})),
        "http.paths.exact" => in_list(any(), "http", json!({"paths": [{"exact": "/"}]})),
        "http.paths.prefix" => in_list(any(), "http", json!({"paths": [{"prefix": "/"}]})),
        "metadata.annotations" => note("notes of whoever wrote the rule"),
        _ => {
            let (side, member) = inside.split_once('.')?;
            let with = |entity: Value| json!({"action": "Allow", "protocol": "TCP", side: entity});
            let (base, value) = match member {
                "nets" | "notNets" => (json!({}), json!(["10.0.0.0/8"])),
                "selector" | "notSelector" => (json!({}), json!("app == 'db'")),
                "namespaceSelector" => (json!({}), json!("has(team)")),
                "ports" | "notPorts" => (json!({}), json!(["web", 80])),
                "serviceAccounts.names" => (json!({"serviceAccounts": {}}), json!(["robot"])),
                "serviceAccounts.selector" => (json!({"serviceAccounts": {}}), json!("has(role)")),
                // No rule may have them there; of a stored one that is told.
                "services.name" | "services.namespace"
                    if matches!((list, side), ("ingress", "destination") | ("egress", "source")) =>
                {
                    let services = json!({"services": {"name": "web", "namespace": "one"}});
                    return in_list(with(json!({})), side, services);
                }
                "services.name" => (json!({"services": {"name": "web", "namespace": "one"}}), json!("dns")),
                "services.namespace" => (json!({"services": {"name": "web", "namespace": "one"}}), json!("two")),
                _ => return None,
            };
            in_list(with(base), &[side, "/", &member.replace('.', "/")].concat(), value)
        }
    }
}

/// Of a staged policy of Kubernetes.
fn kubernetes(path: &str) -> Option<Judgement> {
    match path {
        "stagedAction" => return case(json!({}), "/stagedAction", json!("Delete")),
        "policyTypes" => return case(json!({}), "/policyTypes", json!(["Egress"])),
        _ => {}
    }
    let (first, inside) = path.split_once('.')?;
    if first == "podSelector" {
        let (base, member, value) = requirement(inside)?;
        return case(json!({"podSelector": base}), &["/podSelector/", member].concat(), value);
    }
    let in_list = |rule: Value, pointer: &str, value: Value| {
        let types = if first == "ingress" { "Ingress" } else { "Egress" };
        let base = json!({"policyTypes": [types], first: [rule]});
        case(base, &["/", first, "/0/", pointer].concat(), value)
    };
    let (list, inside) = inside.split_once('.')?;
    let port = json!({"ports": [{"protocol": "TCP", "port": 80}]});
    let block = || json!({list: [{"ipBlock": {"cidr": "10.0.0.0/8"}}]});
    match inside {
        "protocol" => in_list(port, "ports/0/protocol", json!("UDP")),
        "port" => in_list(port, "ports/0/port", json!(81)),
        "endPort" => in_list(port, "ports/0/endPort", json!(90)),
        "ipBlock.cidr" => in_list(block(), &[list, "/0/ipBlock/cidr"].concat(), json!("10.0.0.0/16")),
        "ipBlock.except" => in_list(block(), &[list, "/0/ipBlock/except"].concat(), json!(["10.1.0.0/16"])),
        _ => {
            let (selector, inside) = inside.split_once('.')?;
            let (base, member, value) = requirement(inside)?;
            in_list(json!({list: [{selector: base}]}), &[list, "/0/", selector, "/", member].concat(), value)
        }
    }
}

/// Of a selector of Kubernetes.
fn requirement(inside: &str) -> Option<(Value, &'static str, Value)> {
    let base = || json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
    match inside {
        "matchLabels" => Some((json!({}), "matchLabels", json!({"app": "none"}))),
        "matchExpressions.key" => Some((base(), "matchExpressions/0/key", json!("other"))),
        "matchExpressions.operator" => Some((base(), "matchExpressions/0/operator", json!("NotIn"))),
        "matchExpressions.values" => Some((base(), "matchExpressions/0/values", json!(["none"]))),
        _ => None,
    }
}

fn config() -> RenderConfig {
    RenderConfig { floating_addresses: true, allow_spoofed_sources: true, ..RenderConfig::default() }
}

/// What a host with every option on carries out.
fn able() -> Abilities {
    Renderer::new(config()).abilities()
}

/// What a host is told to do about an object among others that it can matter to, and what is said of them.
fn outcome(kind: Kind, document: &Value, abilities: Abilities) -> (String, Vec<String>) {
    let mut rig = Rig { graph: Graph::new(HOST).with_abilities(abilities), ..Rig::new() };
    let mut put = |kind: Kind, name: &str, document: &Value| {
        let mut document = document.clone();
        let namespace = matches!(kind.scope(), Scope::Namespaced).then_some("one");
        let key = match namespace {
            Some(namespace) => ResourceKey::namespaced(kind, namespace, name),
            None => ResourceKey::cluster(kind, name),
        };
        let metadata = document["metadata"].take();
        document["metadata"] = if metadata.is_null() { json!({"labels": {"role": "host"}}) } else { metadata };
        document["metadata"]["name"] = json!(name);
        document["metadata"]["namespace"] = json!(namespace);
        let resource = Resource::decode(kind, &document).unwrap_or_else(|faults| panic!("{document}: {faults:?}"));
        rig.update(Update { key, value: Some(Arc::new(resource)) });
    };
    let spec = |spec: Value| json!({ "spec": spec });
    put(Kind::Tier, "default", &spec(json!({"order": 1_000_000})));
    put(Kind::Tier, "early", &spec(json!({"order": 5})));
    put(Kind::Tier, "late", &spec(json!({"order": 1_500_000})));
    let pod = json!({"node": HOST, "interfaceName": "calia", "ipNetworks": ["10.0.0.1/32"], "profiles": ["p"],
                     "serviceAccountName": "robot"});
    let labels = json!({"app": "web", "projectcalico.org/orchestrator": "k8s"});
    put(Kind::WorkloadEndpoint, "a", &json!({"metadata": {"labels": labels}, "spec": pod}));
    // Others, so that order, default actions, labels of profiles and members of sets make a difference.
    let rules = json!([
        {"action": "Deny", "destination": {"ports": ["web"]}},
        {"action": "Deny", "source": {"selector": "role == 'host' || has(inherited)"}},
        {"action": "Deny", "source": {"serviceAccounts": {"names": ["robot"]}}},
    ]);
    put(Kind::GlobalNetworkPolicy, "z", &spec(json!({"tier": "late", "ingress": rules})));
    put(Kind::NetworkPolicy, "a", &spec(json!({"order": 10})));
    if kind != Kind::HostEndpoint {
        put(Kind::HostEndpoint, "h", &spec(json!({"node": HOST, "interfaceName": "eth0"})));
    }
    if kind != Kind::Profile {
        put(Kind::Profile, "p", &spec(json!({"labelsToApply": {"pcns.team": "red", "pcsa.role": "reader"}})));
    }
    let name = match kind {
        Kind::Tier => "late",
        Kind::Profile => "p",
        _ => "x",
    };
    put(kind, name, document);
    rig.take(Input::Interface("eth0".parse().unwrap(), Some(vec!["192.0.2.1".parse().unwrap()])));
    rig.take(Input::Interface("eth1".parse().unwrap(), Some(vec![])));
    for (service, address) in [("web", "10.0.0.8"), ("dns", "10.0.0.9")] {
        let key = EndpointSliceKey { namespace: "one".into(), name: service.into() };
        let addresses = vec![address.parse().unwrap()];
        let slice = EndpointSlice { namespace: "one".into(), service: service.into(), addresses, ports: vec![(6, 80)] };
        rig.take(Input::Slice(key, Some(Arc::new(slice))));
    }
    let mut renderer = Renderer::new(config());
    let mut delta = crate::table::Delta::default();
    rig.flush().iter().for_each(|event| renderer.handle(event, &mut delta));
    // What a staged rule would do changes nothing on the host, but what is answered to who asks what it would do.
    let tried: Vec<_> = rig.state.policies.iter().filter(|(id, _)| id.is_staged()).collect();
    (format!("{delta:#?} {tried:#?}"), rig.problems())
}

/// The fields of a kind that hold no others.
fn leaves(kind: Kind) -> Vec<String> {
    let all = kind.field_paths();
    let holds =
        |path: &String| all.iter().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')));
    all.iter().filter(|path| !holds(path)).cloned().collect()
}

#[test]
fn every_field_changes_what_the_host_does_or_is_told_of() {
    let (mut cases, mut notes) = (0, BTreeSet::new());
    for kind in Kind::ALL.iter().copied().filter(|kind| is_audited(*kind)) {
        for path in leaves(kind) {
            match judge(kind, &path) {
                None => panic!("{} {path} has no case: is it accepted and ignored?", kind.name()),
                Some(Judgement::Note(reason)) => drop(notes.insert((path, reason))),
                Some(Judgement::Case(Case { base, pointer, value })) => {
                    let mut changed = base.clone();
                    set(&mut changed, &pointer, value);
                    let both = [&base, &changed].map(|document| outcome(kind, document, able()));
                    assert!(both[0] != both[1], "{} {path}: {changed} is as {base}", kind.name());
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 400, "only {cases} cases");
    notes.iter().for_each(|(path, reason)| println!("{path}: {reason}"));
    assert!(notes.len() < 40, "too much is only noted");
}

fn set(document: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("no parent of {pointer}"));
    parent.as_object_mut().unwrap().insert(name.into(), value);
}

/// What a host does not do, it says.
#[test]
fn what_a_host_does_not_carry_out_is_told_of() {
    let none = Abilities { floating_addresses: false, spoofed_sources: false, bandwidth: false, services: false };
    let told = |kind, spec: Value, abilities| outcome(kind, &json!({ "spec": spec }), abilities).1;
    let asks = [
        (
            Kind::WorkloadEndpoint,
            "ipNATs",
            json!([{"internalIP": "10.0.0.2", "externalIP": "203.0.113.1"}]),
            "FloatingIPs",
        ),
        (Kind::WorkloadEndpoint, "allowSpoofedSourcePrefixes", json!(["10.9.0.0/16"]), "WorkloadSourceSpoofing"),
        (Kind::WorkloadEndpoint, "qosControls", json!({"ingressBandwidth": 1_000_000}), "bandwidth"),
        (
            Kind::NetworkPolicy,
            "ingress",
            json!([{"action": "Deny", "source": {"services": {"name": "web"}}}]),
            "not told what stands behind services; the rule denies without that condition",
        ),
    ];
    for (kind, field, value, words) in asks {
        let mut spec = if kind == Kind::WorkloadEndpoint { workload() } else { json!({}) };
        spec[field] = value;
        let unable = told(kind, spec.clone(), none);
        assert!(unable.len() == 1 && unable[0].contains(words) && unable[0].contains(kind.name()), "{unable:?}");
        assert_eq!(told(kind, spec, Abilities::default()), Vec::<String>::new());
    }
}

#[test]
fn limits_that_are_none_are_told_of() {
    let told = |limits: Value| {
        let mut spec = workload();
        spec["qosControls"] = limits;
        outcome(Kind::WorkloadEndpoint, &json!({ "spec": spec }), Abilities::default()).1
    };
    assert_eq!(told(json!({"ingressPacketRate": 100, "ingressPacketBurst": 3})), Vec::<String>::new());
    for (limits, words) in [
        (json!({"ingressPacketRate": 0}), "ingressPacketRate limits nothing: no limit"),
        (json!({"egressMaxConnections": 4_294_967_296_u64}), "egressMaxConnections limits nothing: no limit"),
        (json!({"egressPacketBurst": 5}), "egressPacketBurst limits nothing: means nothing without a packet rate"),
        (
            json!({"ingressBandwidth": 5000, "ingressMinburst": 1}),
            "means nothing without a peak rate above the bandwidth",
        ),
    ] {
        let found = told(limits);
        assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}");
    }
}

/// What a newer version wrote into an object without rules is kept, and the status names it.
#[test]
fn unknown_fields_are_told_of() {
    let unknown = [
        (Kind::NetworkSet, json!({"nets": ["10.0.0.0/8"]})),
        (Kind::GlobalNetworkSet, json!({"nets": ["10.0.0.0/8"]})),
        (Kind::Tier, json!({"order": 7})),
        (Kind::HostEndpoint, host_or_other(Kind::HostEndpoint)),
        (Kind::WorkloadEndpoint, workload()),
        (Kind::StagedKubernetesNetworkPolicy, json!({"podSelector": {}})),
        (Kind::GlobalNetworkPolicy, json!({"selector": "all()"})),
        (Kind::Profile, json!({})),
    ];
    for (kind, mut spec) in unknown {
        assert_eq!(outcome(kind, &json!({ "spec": spec }), able()).1, Vec::<String>::new(), "{}", kind.name());
        spec["newer"] = json!({"a": 1});
        let document = json!({"metadata": {"name": "x"}, "spec": spec});
        let found = outcome(kind, &document, able()).1;
        assert!(found.len() == 1 && found[0].contains("spec.newer"), "{}: {found:?}", kind.name());
        // It is no reason not to write the object back, and it stays in it.
        let resource = Resource::decode(kind, &document).unwrap();
        assert!(!resource.is_partial(), "{}", kind.name());
        assert_eq!(crate::resource::merge_unknown(kind, &document, resource.encode())["spec"]["newer"], spec["newer"]);
    }
}

/// Each host tells of its own endpoints: those of a cluster are hundreds of thousands.
#[test]
fn unknown_fields_of_workloads_are_their_hosts_to_tell() {
    let told = |node: &str| {
        let mut spec = workload();
        (spec["newer"], spec["node"]) = (json!(1), json!(node));
        outcome(Kind::WorkloadEndpoint, &json!({ "spec": spec }), able()).1
    };
    let here = told(HOST);
    assert!(here.len() == 1 && here[0].contains("spec.newer"), "{here:?}");
    assert_eq!(told("node-2"), Vec::<String>::new());
}

/// Rules of a direction that the types leave out.
#[test]
fn rules_that_nothing_asks_are_told_of() {
    let told = |spec: Value| outcome(Kind::NetworkPolicy, &json!({ "spec": spec }), able()).1.join("; ");
    let deny = json!([{"action": "Deny"}]);
    assert_eq!(told(json!({"types": ["Ingress", "Egress"], "ingress": deny, "egress": deny})), "");
    let found = told(json!({"types": ["Ingress"], "egress": deny}));
    assert!(found.contains("do not name Egress, so its egress rules are not carried out"), "{found}");
    let found = told(json!({"types": ["Egress"], "ingress": deny}));
    assert!(found.contains("do not name Ingress"), "{found}");
    let found = told(json!({"performanceHints": ["Unheard"]}));
    assert!(found.contains("Unheard"), "{found}");
}

/// The mark of a host endpoint's packets.
#[test]
fn a_mark_that_is_none_is_told_of() {
    let told = |text: &str, expected: Value| {
        let spec = json!({"node": HOST, "interfaceName": "eth0", "expectedIPs": expected});
        let metadata = json!({"annotations": {"qos.projectcalico.org/dscp": text}});
        outcome(Kind::HostEndpoint, &json!({"metadata": metadata, "spec": spec}), able()).1.join("; ")
    };
    assert_eq!(told("46", json!(["192.0.2.7"])), "");
    assert!(told("64", json!(["192.0.2.7"])).contains("\"64\" is not a DSCP value"));
    assert!(told("EF", json!([])).contains("expectedIPs"));
}

/// Of two marks for packets of one address the first endpoint's by name counts, and the other is told of it.
#[test]
fn an_address_has_one_mark() {
    let marked = |name: &str, interface: &str, mark: &str| {
        let document = json!({
            "metadata": {"name": name, "annotations": {"qos.projectcalico.org/dscp": mark}},
            "spec": {"node": HOST, "interfaceName": interface, "expectedIPs": ["192.0.2.7", "192.0.2.8"]},
        });
        let value = Resource::decode(Kind::HostEndpoint, &document).unwrap();
        Update { key: ResourceKey::cluster(Kind::HostEndpoint, name), value: Some(Arc::new(value)) }
    };
    let (a, b) = (marked("a", "eth0", "EF"), marked("b", "eth1", "AF41"));
    for order in [[&a, &b], [&b, &a]] {
        let mut rig = Rig::new();
        for interface in ["eth0", "eth1"] {
            rig.take(Input::Interface(interface.parse().unwrap(), Some(Vec::new())));
        }
        order.into_iter().for_each(|endpoint| rig.update(endpoint.clone()));
        rig.flush();
        let told = rig.problems();
        assert!(told.len() == 2 && told.iter().all(|one| one.starts_with("HostEndpoint(b)")), "{told:?}");
        assert!(told[0].contains("192.0.2.7 are marked as HostEndpoint(a) says"), "{told:?}");
        // Marks that agree do not contradict each other.
        rig.update(marked("b", "eth1", "46"));
        rig.flush();
        assert_eq!(rig.problems(), Vec::<String>::new());
        rig.update(b.clone());
        rig.flush();
        assert_eq!(rig.problems().len(), 2);
        // Without its interface the other marks nothing.
        rig.take(Input::Interface("eth0".parse().unwrap(), None));
        rig.flush();
        assert!(rig.problems().iter().all(|one| one.starts_with("HostEndpoint(a)")), "{:?}", rig.problems());
    }
}

/// A floating address that two workloads want leads to one, whatever came first, and the other is told of it.
#[test]
fn a_floating_address_is_one_workloads() {
    let pod = |name: &str, address: &str| {
        edited(&endpoint(name, address, &[], &[]), |spec| {
            let internal_ip = address.split('/').next().unwrap().into();
            spec.ip_nats = vec![crate::resource::IpNat { internal_ip, external_ip: "203.0.113.1".into() }];
        })
    };
    // The smaller address has it, though its interface comes later.
    let (a, b) = (pod("a", "10.0.0.10/32"), pod("b", "10.0.0.9/32"));
    for order in [[&a, &b], [&b, &a]] {
        let mut rig = Rig::new();
        order.into_iter().for_each(|pod| rig.update(pod.clone()));
        rig.flush();
        let told = rig.problems();
        let expected = "203.0.113.1 leads to WorkloadEndpoint(one/b)";
        assert!(
            told.len() == 1 && told[0].starts_with("WorkloadEndpoint(one/a)") && told[0].contains(expected),
            "{told:?}"
        );
        rig.update(gone(&b));
        rig.flush();
        assert_eq!(rig.problems(), Vec::<String>::new());
    }
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

/// Who is asked about a floating address, and for what reason it leads nowhere.
type Owned = (&'static str, Box<dyn Fn(bool) -> Input>);

/// A floating address that is somebody's own leads nowhere until it is nobody's, whatever came first.
#[test]
fn a_floating_address_that_is_somebodys_own_is_not_diverted() {
    let pod = edited(&endpoint("a", "10.0.0.1/32", &[], &[]), |spec| {
        let ips = |internal: &str, external: &str| crate::resource::IpNat {
            internal_ip: internal.into(),
            external_ip: external.into(),
        };
        spec.ip_nats = vec![ips("10.0.0.1", "203.0.113.1"), ips("10.0.0.1", "203.0.113.2")];
    });
    let other = |name: &'static str, node: &'static str| {
        move |present: bool| {
            let update = edited(&endpoint(name, "203.0.113.1/32", &[], &[]), |spec| spec.node = node.into());
            Input::Object(if present { update } else { gone(&update) })
        }
    };
    let node = |spec: Value| {
        move |present: bool| {
            let value = Resource::decode(Kind::Node, &json!({ "spec": spec })).unwrap();
            let value = present.then(|| Arc::new(value));
            Input::Object(Update { key: ResourceKey::cluster(Kind::Node, "x"), value })
        }
    };
    let interface = |present: bool| {
        let addresses = if present { vec!["203.0.113.1".parse().unwrap()] } else { Vec::new() };
        Input::Interface("eth0".parse().unwrap(), Some(addresses))
    };
    let owners: Vec<Owned> = vec![
        ("the address of WorkloadEndpoint(one/b)", Box::new(other("b", HOST))),
        ("the address of WorkloadEndpoint(one/b)", Box::new(other("b", "elsewhere"))),
        ("an address of this host", Box::new(interface)),
        ("the address of a host", Box::new(node(json!({"bgp": {"ipv4Address": "203.0.113.1/24"}})))),
        ("the address of a host", Box::new(node(json!({"addresses": [{"address": "203.0.113.1"}]})))),
        ("the address of a host", Box::new(node(json!({"ipv4VXLANTunnelAddr": "203.0.113.1"})))),
        ("the address of a host", Box::new(node(json!({"bgp": {"ipv4IPIPTunnelAddr": "203.0.113.1"}})))),
        ("the address of a host", Box::new(node(json!({"wireguard": {"interfaceIPv4Address": "203.0.113.1"}})))),
    ];
    for (reason, owner) in owners {
        for owner_first in [true, false] {
            let mut rig = Rig::new();
            let mut inputs = [Input::Object(pod.clone()), owner(true)];
            if owner_first {
                inputs.reverse();
            }
            for input in inputs {
                rig.take(input);
                rig.flush();
            }
            let told = rig.problems();
            let is_told = |line: &String| line.contains("203.0.113.1 is not carried out") && line.contains(reason);
            assert!(told.len() == 1 && is_told(&told[0]), "{reason}: {told:?}");
            assert_eq!(floating(&rig), ["203.0.113.2"], "{reason}");
            rig.take(owner(false));
            rig.flush();
            assert_eq!(rig.problems(), Vec::<String>::new());
            assert_eq!(floating(&rig), ["203.0.113.1", "203.0.113.2"], "{reason}");
        }
    }
}

/// Addresses outside that lead to the workload `a`.
fn floating(rig: &Rig) -> Vec<String> {
    let key = ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "a");
    rig.state.endpoints[&EndpointId(key)].floating.iter().map(|(outside, _)| outside.to_string()).collect()
}

/// Ranges of services that do not count as they are written are named.
#[test]
fn odd_ranges_of_services_are_told_of() {
    let told = |name: &str, list: Value| {
        let mut rig = Rig::new();
        let value = Resource::decode(Kind::BgpConfiguration, &json!({ "spec": list })).unwrap();
        let key = ResourceKey::cluster(Kind::BgpConfiguration, name);
        rig.update(Update { key, value: Some(Arc::new(value)) });
        rig.flush();
        let services: Vec<_> = rig.state.network.services.iter().map(ToString::to_string).collect();
        (services, rig.problems())
    };
    let list = json!({
        "serviceClusterIPs": [{"cidr": "10.96.0.0/12"}, {"cidr": "nonsense\n"}],
        "serviceExternalIPs": [{"cidr": "192.0.2.9/24"}, {"cidr": "203.0.113.1"}],
        "serviceLoadBalancerIPs": [{"cidr": "10.0.0.0/33"}],
    });
    let (services, problems) = told("default", list.clone());
    assert_eq!(services, ["10.96.0.0/12", "192.0.2.0/24", "203.0.113.1/32"]);
    let expected = [
        ["serviceClusterIPs", "nonsense\\n"],
        ["serviceExternalIPs", "192.0.2.0/24: 192.0.2.9/24"],
        ["serviceLoadBalancerIPs", "10.0.0.0/33"],
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
    for (problem, words) in problems.iter().zip(expected) {
        let begins = problem.starts_with("BGPConfiguration(default)");
        assert!(begins && words.iter().all(|word| problem.contains(word)), "{problem}");
    }
    // Of a single node's nothing is asked.
    assert_eq!(told("node.x", list), (Vec::new(), Vec::new()));
}
