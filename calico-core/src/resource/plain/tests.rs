use alloc::format;
use alloc::string::{String, ToString};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::resource::round_trip::manifest;

const KINDS: [Kind; 4] = [Kind::WorkloadEndpoint, Kind::Node, Kind::IpamBlock, Kind::BlockAffinity];

/// Values to put into a document.
const VALUES: &[&str] = &[
    "null",
    "[]",
    "{}",
    "[{}]",
    "0",
    "-0",
    "-1",
    "1.5",
    "1e2",
    "65536",
    "18446744073709551616",
    "true",
    r#""""#,
    r#""x""#,
    r#""\ud800""#,
    r#""10.0.0.1/8""#,
    r#"{"a": 1}"#,
    r#"{"a": "b", "a": "c"}"#,
    r#"[["http", "TCP", 80, 0, ""]]"#,
    r#"{"x": [1.5]}"#,
    r#"[{"name": "x"}, {}]"#,
    r#"[{"interfaceName": "cali1"}]"#,
];

/// Names of members to put in.
const NAMES: &[&str] =
    &["unknown", "metadata", "spec", "status", "labels", "node", "ports", "interfaceName", "bgp", "cidr", "state"];

/// Breakage to put anywhere into the text.
const BREAKS: &[&str] = &["", "", "", ",", "}", "]", "\"", "{", "0", "\u{1}", "é"];

/// As upstream writes it.
fn document(kind: Kind, seed: u64) -> Value {
    match kind {
        Kind::IpamBlock => json!({
            "cidr": "10.0.0.0/30", "affinity": "host:a", "allocations": [0, null, null, null], "unallocated": [1, 2, 3],
            "attributes": [{"handle_id": "h", "secondary": {"node": "a"}}], "deleted": false, "sequenceNumber": seed,
            "sequenceNumberForAllocation": {"0": 3},
        }),
        Kind::BlockAffinity => json!({"state": "confirmed", "deleted": false}),
        kind => manifest(kind, seed, 3),
    }
}

fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        _ => true,
    }
}

/// What the fast way reads, the slow way reads alike. Says whether the fast way read it.
fn agrees(kind: Kind, text: &[u8]) -> bool {
    let Some(resource) = Resource::decode_text(kind, text) else { return false };
    let shown = String::from_utf8_lossy(text);
    let value: Value = serde_json::from_slice(text).unwrap_or_else(|fault| panic!("{shown}: {fault}"));
    assert!(is_exact(&value), "{shown}");
    assert_eq!(Resource::decode(kind, &value), Ok(resource), "{shown}");
    true
}

#[test]
fn what_is_in_order_is_read() {
    for kind in KINDS {
        let mut read = 0;
        for seed in 0..200 {
            let document = document(kind, seed);
            if Resource::decode(kind, &document).is_ok() && is_exact(&document) {
                assert!(agrees(kind, document.to_string().as_bytes()), "{document}");
                read += 1;
            }
        }
        assert!(read >= 10, "{kind}: only {read} documents of 200 were in order");
    }
    assert_eq!(Resource::decode_text(Kind::Tier, br#"{"metadata": {"name": "a"}}"#), None);
}

#[test]
fn what_needs_a_second_look_is_left() {
    let text = |further: &str| {
        format!(
            r#"{{"metadata": {{"name": "a", "labels": {{"a": "b"}}}}, "spec": {{"interfaceName": "cali1"{further}}}}}"#
        )
    };
    assert!(agrees(Kind::WorkloadEndpoint, text(r#"}, "newer": {"a": [1, null, "x"]"#).as_bytes()));
    for further in [
        r#", "newer": 1"#,
        r#", "ports": [{"protocol": "TCP", "port": 80, "newer": {}}]"#,
        r#", "newer": 1.5"#,
        r#", "newer": [{"a": 1e2}]"#,
        r#", "newer": -0"#,
        r#", "newer": 18446744073709551616"#,
        r#", "newer": "\ud800""#,
        r#", "node": null"#,
        r#", "node": "a", "node": "b""#,
        r#", "qosControls": []"#,
        r#", "ports": [["http", "TCP", 80]]"#,
        r#", "ports": [{"protocol": "TCP", "port": 80.0}]"#,
        r#"}} x {{"#,
    ] {
        assert_eq!(Resource::decode_text(Kind::WorkloadEndpoint, text(further).as_bytes()), None, "{further}");
    }
    for document in
        [r#"["a"]"#, r#"{"metadata": []}"#, r#"{"spec": []}"#, r#"{"metadata": {"labels": {"a": 1}}}"#, "{} {}"]
    {
        assert_eq!(Resource::decode_text(Kind::Node, document.as_bytes()), None, "{document}");
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Puts a value in the place of another one, or into a mapping under a name.
fn put(document: &mut Value, at: &mut usize, name: Option<&str>, new: &mut Option<Value>) {
    let Some(at_others) = at.checked_sub(1) else {
        match (name, &mut *document, new.take()) {
            (Some(name), Value::Object(members), Some(new)) => drop(members.insert(name.into(), new)),
            (None, document, Some(new)) => *document = new,
            _ => {}
        }
        return;
    };
    *at = at_others;
    match document {
        Value::Array(items) => items.iter_mut().for_each(|item| put(item, at, name, new)),
        Value::Object(members) => members.values_mut().for_each(|member| put(member, at, name, new)),
        _ => {}
    }
}

type Change = (prop::sample::Index, &'static str, Option<&'static str>);

/// A document with changes. What a value cannot hold (a member that is there twice, a number as it is written) stands for itself
/// in the text only.
fn changed(mut document: Value, changes: &[Change]) -> String {
    let mark = |index: usize, name: &str| format!("<{index}>{name}");
    for (index, (at, _, name)) in changes.iter().enumerate() {
        let mut at = at.index(count(&document));
        let name = name.map(|name| mark(index, name));
        put(&mut document, &mut at, name.as_deref(), &mut Some(mark(index, "").into()));
    }
    let mut text = document.to_string();
    for (index, (_, value, name)) in changes.iter().enumerate() {
        text = text.replace(&format!("\"{}\"", mark(index, "")), value);
        if let Some(name) = name {
            text = text.replace(&mark(index, name), name);
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), ..ProptestConfig::default() })]

    #[test]
    fn the_fast_way_never_reads_otherwise(
        kind in prop::sample::select(KINDS.to_vec()),
        seed in any::<u64>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(VALUES), prop::option::of(prop::sample::select(NAMES))),
            0..3,
        ),
        (at, breakage) in (any::<prop::sample::Index>(), prop::sample::select(BREAKS)),
    ) {
        let document = document(kind, seed);
        let is_in_order = Resource::decode(kind, &document).is_ok() && is_exact(&document);
        let mut text = changed(document, &changes);
        if let Some(begin) = Some(at.index(text.len())).filter(|begin| text.is_char_boundary(*begin)) {
            text.insert_str(begin, breakage);
        }
        let is_read = agrees(kind, text.as_bytes());
        prop_assert!(is_read || !is_in_order || !changes.is_empty() || !breakage.is_empty(), "{}", text);
    }
}
