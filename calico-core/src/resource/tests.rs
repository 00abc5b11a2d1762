//! The shape tables against the structs, on documents made from the tables.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::shape::Shape;
use super::*;

/// A small generator, so that documents can be made by walking a shape.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len())]
    }
}

/// Values of which every leaf accepts some and refuses some.
pub(super) fn samples() -> Vec<Value> {
    let texts = [
        "",
        "a",
        "b-c",
        "default",
        "all()",
        "a == 'b'",
        "10.0.0.0/24",
        "10.0.0.1/32",
        "10.0.0.1",
        "172.16.0.1/24",
        "fd00::/64",
        "fd00::1",
        "TCP",
        "UDP",
        "ICMP",
        "80",
        "80:90",
        "http",
        "Allow",
        "Deny",
        "Pass",
        "Log",
        "Ingress",
        "Egress",
        "Never",
        "Always",
        "CrossSubnet",
        "Workload",
        "Tunnel",
        "LoadBalancer",
        "Automatic",
        "Manual",
        "cali0",
        "ee:ee:ee:ee:ee:ee",
        "confirmed",
        "pending",
        "2026-01-02T03:04:05Z",
        "1.10",
        "90s",
        "AF41",
        "Agent",
        "Routes",
        "Self",
        "UseNodeIP",
        "NodeIP",
        "Enabled",
        "Equal",
        "In",
        "eBGP",
        "Accept",
        "Reject",
        "Set",
    ];
    let mut samples: Vec<Value> = texts.into_iter().map(Value::from).collect();
    samples.extend([
        json!(true),
        json!(false),
        json!(0),
        json!(4),
        json!(6),
        json!(8),
        json!(26),
        json!(64512),
        json!(1.5),
        json!(-1),
        json!(u64::MAX),
        json!([]),
        json!([0]),
        json!([null, 0]),
        json!([null, null]),
        json!([{"handle_id": "h"}]),
        json!({}),
        json!({"a": "b"}),
        json!({"0": 5}),
        json!({"10.0.0.0/26": 2}),
        json!({"methods": ["GET"]}),
    ]);
    samples
}

/// A document of this shape; `spoil` counts down the leaves until one gets a value that it refuses.
fn document(shape: &Shape, dice: &mut Dice, samples: &[Value], spoil: &mut Option<usize>) -> Value {
    match shape {
        Shape::Carried => dice.pick(samples).clone(),
        Shape::Leaf { stored, .. } => {
            let is_spoiled = spoil.as_mut().is_some_and(|left| {
                *left = left.wrapping_sub(1);
                *left == usize::MAX
            });
            let fitting: Vec<&Value> = samples.iter().filter(|value| stored(value).is_ok() != is_spoiled).collect();
            match fitting.as_slice() {
                // A leaf that takes anything cannot be spoiled.
                [] => dice.pick(samples).clone(),
                fitting => (*dice.pick(fitting)).clone(),
            }
        }
        Shape::List(shape) => (0..dice.roll(3)).map(|_| document(shape, dice, samples, spoil)).collect(),
        Shape::TextMap => json!({ "role": "web" }),
        Shape::Struct(fields) => {
            let mut members = Map::new();
            for field in *fields {
                if field.required || dice.roll(3) > 0 {
                    members.insert(field.name.into(), document(&field.shape, dice, samples, spoil));
                }
            }
            Value::Object(members)
        }
    }
}

/// As above, with a name, and with unknown fields sprinkled in if wanted.
fn named(kind: Kind, dice: &mut Dice, spoil: &mut Option<usize>) -> Value {
    let mut document = document(kind.shape(), dice, &samples(), spoil);
    if kind.is_v3() {
        document["kind"] = kind.name().into();
        document["apiVersion"] = API_VERSION.into();
        document["metadata"] = json!({"name": "x", "labels": {"role": "web"}});
    }
    if let Some(spec) = document.get_mut("spec") {
        // Text that is no name of ours would be a fault of the value, not of the shape.
        spec.as_object_mut().unwrap().shift_remove("tier");
    }
    document
}

fn sprinkle(value: &mut Value, shape: &Shape, dice: &mut Dice, count: &mut usize) {
    match (shape, value) {
        (Shape::Struct(fields), Value::Object(members)) => {
            for field in *fields {
                if let Some(member) = members.get_mut(field.name) {
                    sprinkle(member, &field.shape, dice, count);
                }
            }
            if dice.roll(2) == 0 {
                members.insert("x-newer".into(), json!({"n": *count}));
                *count += 1;
            }
        }
        (Shape::List(shape), Value::Array(items)) => {
            items.iter_mut().for_each(|item| sprinkle(item, shape, dice, count));
        }
        _ => {}
    }
}

/// Removes, doubles and empties elements of lists.
fn change_lists(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| change_lists(member, dice)),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| change_lists(item, dice));
            items.retain(|_| dice.roll(4) != 0);
            if let Some(item) = items.first().filter(|_| dice.roll(3) == 0).cloned() {
                items.push(item);
            }
            if let Some(Value::Object(members)) = items.last_mut().filter(|_| dice.roll(2) == 0) {
                members.retain(|_, _| dice.roll(2) == 0);
            }
        }
        _ => {}
    }
}

fn occurrences(value: &Value) -> usize {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, member)| usize::from(name == "x-newer") + occurrences(member)).sum()
        }
        Value::Array(items) => items.iter().map(occurrences).sum(),
        _ => 0,
    }
}

/// What both documents have, they have in the same words: an address or a number is written as it was.
fn has_same_words(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, member)| other.get(name).is_none_or(|other| has_same_words(member, other)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| has_same_words(one, other))
        }
        (one, other) => one == other,
    }
}

/// Every member of `part` is in `whole`, with the same value.
pub(super) fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, member)| whole.get(name).is_some_and(|other| is_part(member, other)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_part(part, whole))
        }
        (part, whole) => part == whole,
    }
}

impl Kind {
    /// Paths of this kind's fields.
    pub(crate) fn field_paths(self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        known_fields(self.shape(), "", &mut names);
        names.into_iter().filter_map(|path| path.strip_prefix('.').map(Into::into)).collect()
    }
}

/// Paths of the fields of a shape that the model does more with than to carry them. Elements of lists have the path of the list.
pub(super) fn known_fields(shape: &Shape, path: &str, names: &mut BTreeSet<String>) {
    match shape {
        Shape::List(element) => known_fields(element, path, names),
        Shape::Struct(members) => {
            for member in members.iter().filter(|member| !matches!(member.shape, Shape::Carried)) {
                let path = alloc::format!("{path}.{}", member.name);
                known_fields(&member.shape, &path, names);
                names.insert(path);
            }
        }
        _ => {}
    }
}

/// Paths of the members of a document.
pub(super) fn present_fields(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = alloc::format!("{path}.{name}");
                present_fields(member, &path, names);
                names.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| present_fields(item, path, names)),
        _ => {}
    }
}

/// Paths of the mappings of a shape.
fn levels(shape: &Shape, path: &str, names: &mut BTreeSet<String>) {
    match shape {
        Shape::List(element) => levels(element, path, names),
        Shape::Struct(members) => {
            names.insert(path.into());
            members.iter().for_each(|member| levels(&member.shape, &alloc::format!("{path}.{}", member.name), names));
        }
        _ => {}
    }
}

/// The random documents of the properties below have an unknown field at every level of every kind, in lists too.
#[test]
fn unknown_fields_are_tried_at_every_level() {
    for &kind in Kind::ALL {
        let (mut known, mut seen) = (BTreeSet::new(), BTreeSet::new());
        levels(kind.shape(), "", &mut known);
        for seed in 0..1000 {
            let mut dice = Dice(seed);
            let plain = named(kind, &mut dice, &mut None);
            let mut document = plain.clone();
            let mut count = 0;
            sprinkle(&mut document, kind.shape(), &mut dice, &mut count);
            let merged = merge_unknown(kind, &document, plain);
            assert_eq!(occurrences(&merged), count, "{document} became {merged}");
            let mut fields = BTreeSet::new();
            present_fields(&merged, "", &mut fields);
            seen.extend(fields.iter().filter_map(|path| path.strip_suffix(".x-newer").map(String::from)));
            if seen.is_superset(&known) {
                break;
            }
        }
        assert_eq!(known.difference(&seen).collect::<Vec<_>>(), Vec::<&String>::new(), "{kind}");
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL)
}

/// Members that hold only what serialisation leaves out are no loss.
pub(super) fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| (name.clone(), without_empty(member)));
            let empty = [json!(null), json!(false), json!({}), json!([]), json!(""), json!(0)];
            let full = |(_, member): &(String, Value)| !empty.contains(member);
            Value::Object(members.filter(full).collect())
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

/// Such a policy is read as another one, and never written (`lost_on_writing` of the datastore crate).
fn flags_exclude_each_other(policy: &Value) -> bool {
    let is_set = |flag: &str| policy["spec"][flag] == json!(true);
    let has_egress = policy["spec"]["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    let early = is_set("preDNAT") || is_set("doNotTrack");
    early && !is_set("applyOnForward") || is_set("preDNAT") && (is_set("doNotTrack") || has_egress)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// What the tables accept, serde accepts: no fault is left without its place.
    #[test]
    fn tables_and_structs_accept_the_same(kind in kinds(), seed: u64) {
        let document = named(kind, &mut Dice(seed), &mut None);
        if let Err(faults) = Resource::decode(kind, &document) {
            prop_assert!(faults.iter().all(|fault| !fault.path.is_empty()), "{document}: {faults:?}");
        }
    }

    /// What the tables know, the structs keep; and what was read is read again.
    #[test]
    fn nothing_that_is_known_is_lost(kind in kinds(), seed: u64) {
        let document = named(kind, &mut Dice(seed), &mut None);
        if let Ok(resource) = Resource::decode(kind, &document) && !flags_exclude_each_other(&document) {
            let known = without_empty(&kind.shape().known_part(&document));
            let written = kind.shape().known_part(&resource.document());
            prop_assert!(is_part(&known, &written), "{known} is not in {written}");
            prop_assert_eq!(Resource::decode(kind, &resource.encode()).unwrap(), resource);
        }
    }

    /// A malformed value is refused, never read as something wider.
    #[test]
    fn one_bad_leaf_spoils_the_document(kind in kinds(), seed: u64, at in 0usize..12) {
        let mut spoil = Some(at);
        let document = named(kind, &mut Dice(seed), &mut spoil);
        let sound = named(kind, &mut Dice(seed), &mut None);
        let known = |value: &Value| kind.shape().known_part(value);
        if known(&document) != known(&sound) && decode::stored(kind, &sound).is_ok() {
            let mut faults = vec![];
            kind.shape().faults(&document, &path::Path::Root, shape::Reading::Stored, &mut faults);
            prop_assert_eq!(faults.is_empty(), decode::stored(kind, &document).is_ok(), "{}", document);
        }
    }

    /// Unknown fields survive a rewrite that changes nothing, and change nothing of what is known.
    #[test]
    fn unknown_fields_survive(kind in kinds(), seed: u64) {
        let mut dice = Dice(seed);
        let mut document = named(kind, &mut dice, &mut None);
        let mut count = 0;
        sprinkle(&mut document, kind.shape(), &mut dice, &mut count);
        if let Ok(resource) = Resource::decode(kind, &document) && !flags_exclude_each_other(&document) {
            let merged = merge_unknown(kind, &document, resource.encode());
            prop_assert_eq!(occurrences(&merged), count, "{} became {}", document, merged);
            prop_assert_eq!(&Resource::decode(kind, &merged).unwrap(), &resource);
            prop_assert_eq!(&merge_unknown(kind, &merged, resource.encode()), &merged);
            // What says nothing may be filled in; and what stands for a truth value in a stored affinity is its text.
            let has_same_words = kind == Kind::ApiBlockAffinity || has_same_words(&without_empty(&document), &merged);
            prop_assert!(has_same_words, "{} became {}", document, merged);
        }
    }

    /// Whatever an operator takes away or changes, an unknown field is there afterwards or is named.
    #[test]
    fn unknown_fields_survive_or_are_named(kind in kinds(), seed: u64) {
        let mut dice = Dice(seed);
        let mut document = named(kind, &mut dice, &mut None);
        let mut given = document.clone();
        let mut count = 0;
        sprinkle(&mut document, kind.shape(), &mut dice, &mut count);
        change_lists(&mut given, &mut dice);
        let merged = merge_newer(kind, &document, given.clone());
        prop_assert_eq!(occurrences(&merged.document) + merged.lost.len(), count, "{}", document);
        prop_assert_eq!(kind.shape().known_part(&merged.document), kind.shape().known_part(&given));
    }

    /// No JSON makes it panic.
    #[test]
    fn no_document_panics(kind in kinds(), text in "[{}\\[\\],:\"a-z0-9 ]{0,60}", seed: u64) {
        let mut dice = Dice(seed);
        let value = serde_json::from_str(&text).unwrap_or_else(|_| {
            let mut value = named(kind, &mut dice, &mut None);
            let samples = samples();
            if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
                spec.values_mut().for_each(|member| *member = dice.pick(&samples).clone());
            }
            value
        });
        let _ = Resource::decode(kind, &value);
        let _ = Resource::decode_strict(kind, &value, Some(&value));
        let _ = merge_unknown(kind, &value, value.clone());
        let _ = merge_newer(kind, &value, value.clone());
    }
}

/// Every object takes as much room as the largest variant, and nine in ten objects of a large cluster are endpoints.
#[test]
fn no_object_is_larger_than_an_endpoint() {
    let of_endpoint = size_of::<Object<WorkloadEndpointSpec>>();
    let of_any = size_of::<Resource>();
    assert!(of_any <= of_endpoint + size_of::<usize>(), "{of_any} bytes, of which an endpoint needs {of_endpoint}");
}
