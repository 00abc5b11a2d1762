//! Documents of every kind, made from the schema, come back as they went in; and the table of kinds in this module's documentation.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::formats::SELECTOR;
use super::limit::Limit;
use super::path::Path;
use super::shape::{Field, Reading, Shape};
use super::tests::{Dice, is_part, samples, without_empty};
use super::{API_VERSION, Kind, Resource, Scope};

/// Documents made per kind.
const TRIES: u64 = 120;
/// So many of them must be in order, or the test proves little: rules between fields refuse the others.
const ENOUGH: usize = 15;

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
fn manifest(kind: Kind, seed: u64, one_in: usize) -> Value {
    let mut dice = Dice(seed);
    let mut spec = Value::Object(members(part(kind, "spec"), &mut dice, one_in));
    if one_in > 0 {
        agree(kind, &mut spec, &mut dice);
    }
    let only = [Kind::ClusterInformation, Kind::IpamConfiguration, Kind::KubeControllersConfiguration];
    let mut metadata = json!({"name": if only.contains(&kind) { "default" } else { "x" }, "labels": {"role": "web"}});
    if kind.scope() == Scope::Namespaced {
        metadata["namespace"] = json!("shop");
    }
    if kind == Kind::WorkloadEndpoint {
        metadata["name"] = json!("");
    }
    let status = Value::Object(if one_in > 0 { members(part(kind, "status"), &mut dice, one_in) } else { Map::new() });
    json!({"kind": kind.name(), "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status})
}

/// Removes what most often breaks a rule between fields, so that not nearly all documents are refused.
fn agree(kind: Kind, spec: &mut Value, dice: &mut Dice) {
    let Some(spec) = spec.as_object_mut() else { return };
    let mut one_of = |spec: &mut Map<String, Value>, names: &[&str]| {
        let keep = dice.roll(names.len());
        for (index, name) in names.iter().enumerate().filter(|(index, _)| *index != keep) {
            let _ = index;
            spec.shift_remove(*name);
        }
    };
    match kind {
        Kind::IpPool => {
            one_of(spec, &["ipipMode", "vxlanMode"]);
            one_of(spec, &["namespaceSelector", "allowedUses"]);
            spec.shift_remove("blockSize");
        }
        Kind::BgpPeer => {
            one_of(spec, &["node", "nodeSelector"]);
            one_of(spec, &["peerIP", "peerSelector", "localWorkloadSelector"]);
            one_of(spec, &["keepOriginalNextHop", "nextHopMode"]);
            one_of(spec, &["asNumber", "reachableBy"]);
        }
        Kind::BgpConfiguration => {
            let global = ["nodeToNodeMeshEnabled", "asNumber", "nodeMeshPassword", "nodeMeshMaxRestartTime"];
            let services =
                ["serviceLoadBalancerIPs", "serviceExternalIPs", "serviceClusterIPs", "prefixAdvertisements"];
            for name in global.iter().chain(&services).chain(&["communities"]) {
                spec.shift_remove(*name);
            }
        }
        Kind::WorkloadEndpoint => {
            spec.shift_remove("ipNATs");
            let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
            for port in ports.filter_map(Value::as_object_mut) {
                let sound = [("name", json!("http")), ("protocol", json!("TCP")), ("port", json!(80))];
                port.extend(sound.map(|(name, value)| (name.to_string(), value)));
            }
            spec.entry("ipNetworks").and_modify(|networks| *networks = json!(["10.0.0.1/32", "fd00::1/128"]));
        }
        Kind::BgpFilter => {
            for (name, rules) in spec.iter_mut() {
                let cidr = if name.ends_with("V4") { "10.0.0.0/24" } else { "fd00::/64" };
                let rules = rules.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
                rules.for_each(|rule| agree_filter(rule, cidr));
            }
        }
        Kind::FelixConfiguration => one_of(spec, &["routeTableRange", "routeTableRanges"]),
        Kind::StagedKubernetesNetworkPolicy | Kind::StagedNetworkPolicy | Kind::StagedGlobalNetworkPolicy => {
            spec.insert("stagedAction".into(), json!("Set"));
        }
        _ => {}
    }
    for name in ["ingress", "egress"] {
        // Random rules break some rule between their fields nearly always; one that stands for them is in `tests`.
        if let Some(rules) = spec.get_mut(name).and_then(Value::as_array_mut) {
            rules.truncate(1);
            rules.iter_mut().filter_map(Value::as_object_mut).for_each(|rule| {
                let keep = ["action", "ipVersion", "metadata", "ports", "from", "to"];
                rule.retain(|field, _| keep.contains(&field.as_str()));
            });
        }
    }
    for name in ["preDNAT", "doNotTrack", "tier"] {
        spec.shift_remove(name);
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

/// The first document that came back as something else.
fn round_trips(kind: Kind) -> Option<String> {
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
    (taken < ENOUGH).then(|| format!("only {taken} of {TRIES} documents were taken; the last refusal: {refused:?}"))
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
    text
}

/// Also the test that documents of every kind come back: the last column is `yes` throughout.
#[test]
fn the_table_of_kinds_says_what_the_schema_does() {
    let table = table();
    assert_eq!(include_str!("kinds.md"), table, "put this into kinds.md:\n{table}");
}
