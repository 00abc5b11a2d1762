//! Documents of every kind, made from the schema, come back as they went in; and the table of kinds in this module's documentation.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::formats::SELECTOR;
use super::limit::Limit;
use super::path::Path;
use super::shape::{Field, Reading, Shape};
use super::tests::{Dice, is_part, known_fields, present_fields, samples, without_empty};
use super::{API_VERSION, CUSTOM_KINDS, Kind, Resource, Scope, custom};

/// Documents made per kind.
const TRIES: u64 = 300;
/// So many of them must be in order, or the test proves little: rules between fields refuse the others.
const ENOUGH: usize = 15;

/// Fields that a rule has in one direction only: no manifest has them here.
const REFUSED: [&str; 3] = ["spec.egress.http", "spec.egress.source.services", "spec.ingress.destination.services"];

/// Values that the limits themselves suggest.
fn suggested(limits: &[Limit]) -> Vec<Value> {
    let mut values = Vec::new();
    for limit in limits {
        match limit {
            Limit::Range(least, most) => values.extend([json!(least), json!(most), json!(least.saturating_add(1))]),
            Limit::OneOf(words) | Limit::AnyCase(words) => values.extend(words.iter().map(|word| json!(word))),
            Limit::Text(format) => values.extend(format.samples.iter().map(|sample| json!(sample))),
            Limit::SomeAs => values.push(json!(64512)),
            Limit::Length(_) | Limit::Items(..) | Limit::Unique | Limit::UniqueIn(_) => {}
        }
    }
    values
}

fn fits(limits: &[Limit], value: &Value) -> bool {
    let mut faults = Vec::new();
    limits.iter().for_each(|limit| limit.faults(value, &Path::Root, &mut faults));
    faults.is_empty()
}

/// A value that a manifest may have at this place; none if nothing was found.
fn value(shape: &Shape, limits: &[Limit], dice: &mut Dice) -> Option<Value> {
    match shape {
        Shape::Carried => None,
        Shape::Leaf { manifest, stored } => {
            let mut pool = suggested(limits);
            if pool.is_empty() {
                pool = samples();
            }
            // In canonical form, since that is what comes back.
            let right = |given: &Value| {
                let canonical = manifest(given).ok().and_then(|_| stored(given).ok())?;
                let says_something = !canonical.is_null() && canonical != "";
                (says_something && manifest(&canonical).is_ok() && fits(limits, &canonical)).then_some(canonical)
            };
            let first = dice.roll(pool.len());
            pool.iter().cycle().skip(first).take(pool.len()).find_map(right)
        }
        Shape::TextMap => Some(json!({ "role": "web" })),
        Shape::List(element) => {
            let mut items: Vec<Value> = Vec::new();
            for _ in 0..5 {
                if items.len() > dice.roll(3) {
                    break;
                }
                items.extend(value(element, limits, dice).filter(|item| !items.contains(item)));
            }
            let most = limits.iter().find_map(|limit| match limit {
                Limit::Items(_, most) => Some(*most),
                _ => None,
            });
            items.truncate(most.unwrap_or(usize::MAX));
            if !fits(limits, &Value::Array(items.clone())) {
                items.truncate(1);
            }
            Some(Value::Array(items))
        }
        Shape::Struct(fields) => Some(Value::Object(members(fields, dice, 3))),
    }
}

/// Members of a struct: the mandatory ones, and of each `one_in` others all but one.
fn members(fields: &[Field], dice: &mut Dice, one_in: usize) -> Map<String, Value> {
    let mut members = Map::new();
    for field in fields {
        if field.required || (one_in > 0 && dice.roll(one_in) > 0) {
            // Selectors that stored data is held to have no limit in the schema, but a rule.
            let is_selector = field.limits.is_empty() && field.name.to_ascii_lowercase().ends_with("selector");
            let limits = if is_selector { &[Limit::Text(&SELECTOR)] } else { field.limits };
            members.extend(value(&field.shape, limits, dice).map(|value| (field.name.to_string(), value)));
        }
    }
    members
}

fn part(kind: Kind, name: &str) -> &'static [Field] {
    match kind.shape().member(name) {
        Some(Shape::Struct(fields)) => fields,
        _ => &[],
    }
}

/// A manifest of this kind; a name is chosen that its rules allow.
pub(super) fn manifest(kind: Kind, seed: u64, one_in: usize) -> Value {
    let mut dice = Dice(seed);
    let mut spec = Value::Object(members(part(kind, "spec"), &mut dice, one_in));
    let only = [Kind::ClusterInformation, Kind::IpamConfiguration, Kind::KubeControllersConfiguration];
    let is_single = only.contains(&kind) || (kind == Kind::BgpConfiguration && one_in > 0 && dice.roll(2) == 0);
    let mut metadata = json!({"name": if is_single { "default" } else { "x" }, "labels": {"role": "web"}});
    if one_in > 0
        && let Some(spec) = spec.as_object_mut()
    {
        agree(kind, is_single, spec, &mut dice);
    }
    if kind.scope() == Scope::Namespaced {
        metadata["namespace"] = json!("shop");
    }
    if kind == Kind::WorkloadEndpoint {
        metadata["name"] = json!("");
    }
    let status = Value::Object(if one_in > 0 { members(part(kind, "status"), &mut dice, one_in) } else { Map::new() });
    json!({"kind": kind.name(), "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status})
}

/// Of several fields that exclude each other all but one go.
fn one_of(spec: &mut Map<String, Value>, names: &[&str], dice: &mut Dice) {
    let keep = dice.roll(names.len());
    for (_, name) in names.iter().enumerate().filter(|(index, _)| *index != keep) {
        spec.shift_remove(*name);
    }
}

/// Removes or mends what most often breaks a rule between fields, so that not nearly all documents are refused.
fn agree(kind: Kind, is_single: bool, spec: &mut Map<String, Value>, dice: &mut Dice) {
    match kind {
        Kind::IpPool => agree_pool(spec, dice),
        Kind::BgpPeer => agree_peer(spec, dice),
        Kind::BgpConfiguration => agree_bgp(is_single, spec),
        Kind::WorkloadEndpoint => agree_endpoint(spec),
        Kind::BgpFilter => {
            for (name, rules) in spec.iter_mut() {
                let cidr = if name.ends_with("V4") { "10.0.0.0/24" } else { "fd00::/64" };
                let rules = rules.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
                rules.for_each(|rule| agree_filter(rule, cidr));
            }
        }
        Kind::FelixConfiguration => one_of(spec, &["routeTableRange", "routeTableRanges"], dice),
        Kind::ApiBlockAffinity => drop(spec.insert("deleted".into(), json!(false))),
        Kind::StagedKubernetesNetworkPolicy => agree_kubernetes(spec, dice),
        Kind::Profile => agree_rules(spec, dice),
        kind if kind.is_policy() => {
            if spec.contains_key("stagedAction") {
                spec.insert("stagedAction".into(), json!("Set"));
            }
            spec.insert("tier".into(), json!("security"));
            agree_rules(spec, dice);
            agree_hosts(spec, dice);
        }
        _ => {}
    }
}

fn agree_pool(spec: &mut Map<String, Value>, dice: &mut Dice) {
    one_of(spec, &["ipipMode", "vxlanMode"], dice);
    one_of(spec, &["namespaceSelector", "allowedUses"], dice);
    if spec.contains_key("namespaceSelector") {
        spec.insert("allowedUses".into(), json!(["Workload"]));
    }
    if spec.shift_remove("blockSize").is_some() {
        let is_v6 = spec.get("cidr").and_then(Value::as_str).is_some_and(|cidr| cidr.contains(':'));
        spec.insert("cidr".into(), json!(if is_v6 { "fd00::/64" } else { "10.0.0.0/16" }));
        spec.insert("blockSize".into(), json!(if is_v6 { 122 } else { 26 }));
    }
}

fn agree_peer(spec: &mut Map<String, Value>, dice: &mut Dice) {
    one_of(spec, &["node", "nodeSelector"], dice);
    one_of(spec, &["peerIP", "peerSelector", "localWorkloadSelector"], dice);
    one_of(spec, &["keepOriginalNextHop", "nextHopMode"], dice);
    if spec.contains_key("peerSelector") {
        spec.shift_remove("asNumber");
    }
    if spec.contains_key("localWorkloadSelector") {
        spec.insert("asNumber".into(), json!(64512));
    }
    if spec.shift_remove("reachableBy").is_some() && spec.contains_key("peerIP") {
        spec.extend([("peerIP".to_string(), json!("10.0.0.1:179")), ("reachableBy".to_string(), json!("10.0.0.2"))]);
    }
}

/// Much is for the whole cluster only.
fn agree_bgp(is_single: bool, spec: &mut Map<String, Value>) {
    if !is_single {
        let global = ["nodeToNodeMeshEnabled", "asNumber", "nodeMeshPassword", "nodeMeshMaxRestartTime"];
        let services = ["serviceLoadBalancerIPs", "serviceExternalIPs", "serviceClusterIPs"];
        global.iter().chain(&services).for_each(|name| drop(spec.shift_remove(*name)));
    }
    spec.entry("nodeToNodeMeshEnabled").and_modify(|enabled| *enabled = json!(true));
    spec.shift_remove("communities");
    if spec.contains_key("prefixAdvertisements") {
        spec.insert("communities".into(), json!([{"name": "c-1", "value": "64512:1"}]));
        let advertised = json!([{"cidr": "10.0.0.0/24", "communities": ["c-1", "64512:2"]}]);
        spec.insert("prefixAdvertisements".into(), advertised);
    }
}

fn agree_endpoint(spec: &mut Map<String, Value>) {
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        let sound = [("name", json!("http")), ("protocol", json!("TCP")), ("port", json!(80))];
        port.extend(sound.map(|(name, value)| (name.to_string(), value)));
    }
    spec.entry("ipNetworks").and_modify(|networks| *networks = json!(["10.0.0.1/32", "fd00::1/128"]));
    if spec.shift_remove("ipNATs").is_some() && spec.contains_key("ipNetworks") {
        spec.insert("ipNATs".into(), json!([{"internalIP": "10.0.0.1", "externalIP": "192.0.2.1"}]));
    }
}

/// Policies for hosts: one sort excludes the other, and both some rules.
fn agree_hosts(spec: &mut Map<String, Value>, dice: &mut Dice) {
    if !spec.contains_key("applyOnForward") {
        spec.shift_remove("preDNAT");
        spec.shift_remove("doNotTrack");
        return;
    }
    one_of(spec, &["preDNAT", "doNotTrack"], dice);
    spec.insert("applyOnForward".into(), json!(true));
    if spec.contains_key("preDNAT") {
        spec.shift_remove("egress");
        spec.insert("types".into(), json!(["Ingress"]));
    }
}

fn agree_kubernetes(spec: &mut Map<String, Value>, dice: &mut Dice) {
    let expressions = json!([{"key": "zone", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "Exists"}]);
    let selector = json!({"matchLabels": {"role": "web"}, "matchExpressions": expressions});
    let peers = [
        json!([{"podSelector": selector, "namespaceSelector": selector}]),
        json!([{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]),
    ];
    let ports = json!([{"protocol": "TCP", "port": 80, "endPort": 90}, {"protocol": "UDP", "port": "dns"}]);
    spec.insert("stagedAction".into(), json!("Set"));
    spec.entry("podSelector").and_modify(|own| *own = selector.clone());
    for name in ["ingress", "egress"] {
        let rules = spec.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
        for rule in rules.filter_map(Value::as_object_mut) {
            rule.entry("ports").and_modify(|given| *given = ports.clone());
            for peer in ["from", "to"] {
                rule.entry(peer).and_modify(|given| given.clone_from(dice.pick(&peers)));
            }
        }
    }
}

/// Random rules break some rule between their fields nearly always: each becomes one of a few that together have every field.
fn agree_rules(spec: &mut Map<String, Value>, dice: &mut Dice) {
    let entity = json!({
        "nets": ["10.0.0.0/24"], "notNets": ["10.0.0.0/28"], "selector": "a == 'b'", "notSelector": "has(c)",
        "namespaceSelector": "all()", "ports": [80, "90:99", "http"], "notPorts": [81],
        "serviceAccounts": {"names": ["robot"], "selector": "all()"},
    });
    let service = json!({"services": {"name": "web", "namespace": "shop"}});
    let sound = [
        json!({"protocol": "TCP", "ipVersion": 4, "source": entity, "destination": entity}),
        json!({"notProtocol": "UDP", "ipVersion": 6, "source": {"nets": ["fd00::/64"]}}),
        json!({"protocol": "ICMP", "icmp": {"type": 8, "code": 0}, "notICMP": {"type": 3, "code": 1}}),
        json!({"protocol": "TCP", "source": service}),
        json!({"action": "Allow", "http": {"methods": ["GET"], "paths": [{"exact": "/a"}, {"prefix": "/b"}]}}),
        json!({"protocol": "TCP", "destination": service}),
    ];
    for (name, sound) in [("ingress", &sound[..5]), ("egress", &[&sound[..3], &sound[5..]].concat())] {
        let rules = spec.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
        for rule in rules.filter_map(Value::as_object_mut) {
            rule.retain(|field, _| matches!(field.as_str(), "action" | "metadata"));
            rule.extend(dice.pick(sound).as_object().cloned().unwrap_or_default());
        }
    }
}

fn agree_filter(rule: &mut Map<String, Value>, cidr: &str) {
    if rule.contains_key("cidr") {
        rule.extend([("cidr".to_string(), json!(cidr)), ("matchOperator".to_string(), json!("In"))]);
        rule.entry("prefixLength").and_modify(|lengths| *lengths = json!({ "min": 24, "max": 32 }));
    } else {
        rule.shift_remove("matchOperator");
        rule.shift_remove("prefixLength");
    }
    if let Some(operations) = rule.get_mut("operations").and_then(Value::as_array_mut) {
        operations.retain_mut(|operation| {
            let Some(operation) = operation.as_object_mut() else { return false };
            let first = operation.keys().next().cloned();
            operation.retain(|name, _| Some(name) == first.as_ref());
            first.is_some()
        });
        match operations.is_empty() {
            true => drop(rule.shift_remove("operations")),
            false => drop(rule.insert("action".into(), json!("Accept"))),
        }
    }
}

/// As it is compared: members in order of their names.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(name, member)| (name.clone(), sorted(member))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// The first document that came back as something else, or a field that came back in none.
fn round_trips(kind: Kind) -> Option<String> {
    let (mut known, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for name in ["spec", "status"] {
        known_fields(kind.shape().member(name).unwrap_or(&Shape::Carried), name, &mut known);
    }
    let mut taken = 0;
    let mut refused: Vec<String> = Vec::new();
    for seed in 0..TRIES {
        let given = manifest(kind, seed, 3);
        let resource = match Resource::decode_strict(kind, &given, None) {
            Ok(resource) => resource,
            Err(faults) => {
                refused = faults.iter().map(ToString::to_string).collect();
                continue;
            }
        };
        taken += 1;
        let once = resource.document();
        for name in ["spec", "status"] {
            present_fields(&once[name], name, &mut seen);
        }
        if !is_part(&without_empty(&given), &once) {
            return Some(format!("seed {seed}: {given} became {once}"));
        }
        let again = Resource::decode_strict(kind, &once, None).map(|resource| resource.document());
        if again.as_ref().map(|again| sorted(again).to_string()) != Ok(sorted(&once).to_string()) {
            return Some(format!("seed {seed}: {once} became {again:?}"));
        }
        if Resource::decode(kind, &resource.encode()).as_ref() != Ok(&resource) {
            return Some(format!("seed {seed}: stored, {resource:?} is not what was written"));
        }
    }
    if taken < ENOUGH {
        return Some(format!("only {taken} of {TRIES} documents were taken; the last refusal: {refused:?}"));
    }
    let is_possible = |path: &&String| !REFUSED.iter().any(|refused| path.starts_with(refused));
    let never: Vec<_> = known.difference(&seen).filter(is_possible).cloned().collect();
    (!never.is_empty()).then(|| format!("no document had {}; the last refusal: {refused:?}", never.join(", ")))
}

/// Known and validated fields below a place.
#[derive(Default)]
struct Count {
    known: usize,
    validated: usize,
}

impl Count {
    fn add(&mut self, fields: &'static [Field]) {
        for field in fields {
            match innermost(&field.shape) {
                Shape::Struct(fields) => self.add(fields),
                Shape::Carried => {}
                _ => {
                    self.known += 1;
                    self.validated += usize::from(refuses_some(field));
                }
            }
        }
    }
}

fn innermost(shape: &'static Shape) -> &'static Shape {
    match shape {
        Shape::List(element) => innermost(element),
        shape => shape,
    }
}

fn refuses_some(field: &'static Field) -> bool {
    let shape = Shape::Struct(core::slice::from_ref(field));
    let list = matches!(field.shape, Shape::List(_));
    samples().into_iter().any(|sample| {
        let sample = if list { json!([sample]) } else { sample };
        let mut faults = Vec::new();
        let reading = Reading::Manifest { stored: None };
        shape.faults(&json!({ field.name: sample }), &Path::Root, reading, &mut faults);
        !faults.is_empty()
    })
}

/// Leaves of a document's specification and labels.
fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.values().map(leaves).sum(),
        Value::Array(items) if items.iter().any(Value::is_object) => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

/// How many leaves appear when an object with only the mandatory fields is written.
fn defaulted(kind: Kind) -> usize {
    let mut given = manifest(kind, 7, 0);
    // Fields of which one or the other is mandatory.
    match kind {
        Kind::WorkloadEndpoint => {
            for (field, name) in [("node", "n"), ("orchestrator", "cni"), ("containerID", "c"), ("endpoint", "eth0")] {
                given["spec"][field] = name.into();
            }
        }
        Kind::HostEndpoint => given["spec"]["interfaceName"] = "*".into(),
        _ => {}
    }
    let mut resource =
        Resource::decode_strict(kind, &given, None).unwrap_or_else(|faults| panic!("{given}: {faults:?}"));
    resource.fill_defaults().unwrap();
    let count = |document: &Value| leaves(&document["spec"]) + leaves(&document["metadata"]["labels"]);
    count(&resource.document()) - count(&given)
}

fn table() -> String {
    let mut text = "| Kind | Scope | Fields known | Validated | Defaulted | Round-trips |\n|---|---|---|---|---|---|\n"
        .to_string();
    for kind in Kind::V3.iter().copied() {
        let mut count = Count::default();
        count.add(part(kind, "spec"));
        count.add(part(kind, "status"));
        let scope = match kind.scope() {
            Scope::Cluster => "cluster",
            Scope::Namespaced => "namespace",
        };
        let back = match round_trips(kind) {
            None => "yes".to_string(),
            Some(failure) => format!("no: {failure}"),
        };
        let Count { known, validated } = count;
        text += &format!("| {kind} | {scope} | {known} | {validated} | {} | {back} |\n", defaulted(kind));
    }
    // The claim's fields are those of the kind above.
    for kind in CUSTOM_KINDS.into_iter().filter(|kind| *kind != Kind::BlockAffinity) {
        let mut count = Count::default();
        let Some(Shape::Struct(fields)) = custom::shape(kind).and_then(|shape| shape.member("spec")) else {
            panic!("{kind} has no shape")
        };
        count.add(fields);
        let filled = fields.iter().filter(|field| field.default.is_some()).count();
        let back =
            custom::tests::round_trips(kind).map_or_else(|| "yes".to_string(), |failure| format!("no: {failure}"));
        let Count { known, validated } = count;
        text += &format!("| {kind} (custom resource) | cluster | {known} | {validated} | {filled} | {back} |\n");
    }
    text
}

/// Also the test that documents of every kind come back: the last column is `yes` throughout.
#[test]
fn the_table_of_kinds_says_what_the_schema_does() {
    let table = table();
    assert_eq!(include_str!("kinds.md"), table, "put this into kinds.md:\n{table}");
}
