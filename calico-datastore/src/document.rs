//! Between objects and stored bytes, the same for every store.
//!
//! Comes in: bytes and a revision, or a typed object with the document it was read from; goes out: an [`Entry`], or the document
//! to store. Fields that the typed view does not know survive a read-modify-write; a document that cannot be read becomes a
//! [`BadObject`], never an error of a whole list.

use std::fmt::Write as _;
use std::sync::Arc;

use calico_core::resource::{Fault, Kind, Resource, ResourceKey, merge_unknown};
use serde_json::Value;

use crate::{BadObject, Batch, Change, DatastoreError, Document, Entry, MAX_BATCH, Revision, Stored, lenient};

/// The document to store: the typed object over what was read, without the revision, which belongs to the store.
pub(crate) fn encode(resource: &Resource, base: Option<&Document>) -> Value {
    let typed = resource.encode();
    let mut document = match base {
        Some(base) => merge_unknown(resource.kind(), base, typed),
        None => typed,
    };
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("resourceVersion");
        metadata.shift_remove("selfLink");
    }
    document
}

/// The stored bytes of a document; numbers with a fraction as Go writes them.
#[cfg(any(feature = "sqlite", feature = "etcd", test))]
pub(crate) fn to_bytes(document: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Text keys and memory: this cannot fail.
    let _ = serde::Serialize::serialize(document, &mut serde_json::Serializer::with_formatter(&mut bytes, GoNumbers));
    bytes
}

#[cfg(any(feature = "sqlite", feature = "etcd", test))]
struct GoNumbers;

#[cfg(any(feature = "sqlite", feature = "etcd", test))]
impl serde_json::ser::Formatter for GoNumbers {
    fn write_f64<W: std::io::Write + ?Sized>(&mut self, writer: &mut W, number: f64) -> std::io::Result<()> {
        writer.write_all(calico_core::resource::json_number(number).as_bytes())
    }
}

/// What the bytes under a key mean. Of a member that is there twice the last counts, as for upstream's readers; manifests refuse it.
pub(crate) fn decode(key: ResourceKey, bytes: &[u8], revision: Revision) -> Entry {
    match Resource::decode_text(key.kind(), bytes) {
        Some(resource) => Ok(plain(key, resource, bytes.into(), revision)),
        None => decode_with_care(key, bytes, revision),
    }
}

/// As [`decode`], for who needs the bytes no more.
#[cfg(feature = "etcd")]
pub(crate) fn decode_owned(key: ResourceKey, bytes: Vec<u8>, revision: Revision) -> Entry {
    match Resource::decode_text(key.kind(), &bytes) {
        Some(resource) => Ok(plain(key, resource, bytes.into(), revision)),
        None => decode_with_care(key, &bytes, revision),
    }
}

fn plain(key: ResourceKey, mut resource: Resource, text: Box<[u8]>, revision: Revision) -> Stored {
    resource.adopt_key(&key);
    Stored::new(key, Arc::new(resource), Arc::new(Document::of_text(text)), revision)
}

fn decode_with_care(key: ResourceKey, bytes: &[u8], revision: Revision) -> Entry {
    let text = match bytes {
        // Very old writers stored a block affinity as nothing at all.
        b"" if key.kind() == Kind::BlockAffinity => b"{}",
        b"" => return Err(bad(key, &Value::Null, revision, "the value is empty".to_owned(), Some(b""))),
        bytes => bytes,
    };
    match parse(key.kind(), text) {
        Ok(document) => decode_document(key, document, revision, Some(bytes)),
        Err(fault) => Err(bad(key, &Value::Null, revision, format!("not JSON: {fault}"), Some(bytes))),
    }
}

/// The document that the bytes are, whatever it means.
pub(crate) fn parse(kind: Kind, text: &[u8]) -> Result<Document, serde_json::Error> {
    match serde_json::from_slice::<Value>(text) {
        Ok(document) if !has_float(&document) => Ok(document.into()),
        read => lenient::read(kind, text).map_or_else(|| read.map(Document::from), Ok),
    }
}

/// Whether it has a number that may have been rounded.
fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(members) => members.values().any(has_float),
        _ => false,
    }
}

/// What cannot be read. Without a text the document is what is stored.
fn bad(key: ResourceKey, document: &Value, revision: Revision, mut reason: String, text: Option<&[u8]>) -> BadObject {
    let named = |mut remains: Resource| {
        remains.adopt_key(&key);
        Arc::new(remains)
    };
    let remains = Resource::remains(key.kind(), document).map(named);
    if let Some(Resource::IpPool(pool)) = remains.as_deref()
        && pool.spec.disable_bgp_export
    {
        // Writing to a string cannot fail.
        let _ = match pool.spec.cidr.length() {
            0 => write!(reason, "; no block outside of the other pools is announced to BGP peers"),
            _ => write!(reason, "; its blocks are not announced to BGP peers"),
        };
    }
    let text = text.map_or_else(|| document.to_string().into_bytes().into(), Arc::from);
    BadObject { key, revision, reason, remains, text }
}

/// What a document under a key means that was just written.
pub(crate) fn decode_value(key: ResourceKey, document: Value, revision: Revision) -> Entry {
    decode_document(key, document.into(), revision, None)
}

fn decode_document(key: ResourceKey, mut document: Document, revision: Revision, text: Option<&[u8]>) -> Entry {
    // IPAM reads its own objects only to write them.
    if let Some(reason) = document.inexact().filter(|_| !key.kind().is_v3()) {
        let reason = reason.to_owned();
        return Err(bad(key, &document, revision, reason, text));
    }
    match Resource::decode(key.kind(), &document) {
        Ok(mut resource) => {
            resource.adopt_key(&key);
            if let (Some(reason), Some(metadata)) = (document.inexact(), resource.metadata_mut()) {
                let fault = Fault::value("", None, reason);
                metadata.unread = Fault::few(std::iter::once(fault).chain(std::mem::take(&mut metadata.unread))).into();
            }
            if document.inexact().is_none()
                && resource.is_partial()
                && let Some(path) = lost_on_writing(&resource, &document)
            {
                let reason = format!("{path} cannot be read, and would be lost");
                document = Document::partial(document.into_value(), reason);
            }
            Ok(Stored::new(key, Arc::new(resource), Arc::new(document), revision))
        }
        Err(faults) => {
            let mut reason = String::new();
            for fault in Fault::few(faults) {
                let separator = if reason.is_empty() { "" } else { "; " };
                // Writing to a string cannot fail.
                let _ = write!(reason, "{separator}{fault}");
            }
            Err(bad(key, &document, revision, reason, text))
        }
    }
}

/// What of a document is neither read nor put back when it is written: parts around its rules and lists, which carry their own.
fn lost_on_writing(resource: &Resource, document: &Document) -> Option<String> {
    let written = encode(resource, Some(document));
    let differs = |path: &[&str]| {
        let at = |document| path.iter().try_fold(document, |value: &Value, name| value.get(name));
        let stored = at(document).filter(|value| !value.is_null())?;
        let is_kept = at(&written).is_some_and(|written| match stored {
            // There may be more by now: policies carry their own name.
            Value::Object(members) => members.iter().all(|(name, value)| written.get(name) == Some(value)),
            stored => stored == written,
        });
        (!is_kept).then(|| path.join("."))
    };
    let paths: [&[&str]; 16] = [
        &["kind"],
        &["apiVersion"],
        &["metadata", "uid"],
        &["metadata", "labels"],
        &["metadata", "annotations"],
        &["metadata", "finalizers"],
        &["metadata", "ownerReferences"],
        &["metadata", "creationTimestamp"],
        &["metadata", "deletionTimestamp"],
        &["spec", "order"],
        &["spec", "types"],
        &["spec", "doNotTrack"],
        &["spec", "preDNAT"],
        &["spec", "applyOnForward"],
        &["spec", "labelsToApply"],
        &["status"],
    ];
    let header = document.get("metadata").filter(|metadata| !metadata.is_object() && !metadata.is_null());
    header.map(|_| "metadata".to_owned()).or_else(|| paths.into_iter().find_map(differs))
}

/// Refuses a batch that no store may carry out.
pub(crate) fn check(batch: &Batch) -> Result<(), DatastoreError> {
    let refused = |operation: String| DatastoreError::Refused { operation, source: None };
    let guards = batch.writes.iter().filter(|write| write.precondition.guard().is_some()).count();
    let operations = batch.writes.len().saturating_add(guards);
    if operations > MAX_BATCH {
        return Err(DatastoreError::TooLarge { operations, limit: MAX_BATCH });
    }
    let mut keys = std::collections::BTreeSet::new();
    for write in &batch.writes {
        let key = &write.key;
        if !keys.insert(key) {
            return Err(refused(format!("the batch writes {key} twice")));
        }
        let Change::Put { resource, base, .. } = &write.change else { continue };
        if resource.kind() != key.kind() {
            return Err(refused(format!("a {} cannot be stored under {key}", resource.kind())));
        }
        if let Some(base) = base {
            exact(key, base)?;
        }
    }
    Ok(())
}

/// Refuses to write a document back that was not read as it is stored.
pub(crate) fn exact(key: &ResourceKey, base: &Document) -> Result<(), DatastoreError> {
    let refused = |reason: &str| Err(DatastoreError::Inexact { key: key.clone(), reason: reason.to_owned() });
    match base.inexact() {
        Some(reason) => refused(reason),
        // Over anything else every field that is not known would be lost.
        None if !base.is_object() => refused("what was read is no JSON object"),
        None => Ok(()),
    }
}

/// The entry as the answer of a `get`.
pub(crate) fn readable(entry: Entry) -> Result<Stored, DatastoreError> {
    entry.map_err(|bad| DatastoreError::Unreadable { key: bad.key, reason: bad.reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(key: ResourceKey, text: &str) -> Entry {
        decode(key, text.as_bytes(), Revision::from_raw(1))
    }

    #[test]
    fn what_is_no_object_is_a_bad_object() {
        for kind in Kind::V3.iter().copied() {
            for (text, reason) in [
                ("", "the value is empty"),
                ("null", "expected a JSON object, found nothing"),
                ("[]", "expected a JSON object, found a list"),
                ("5", "expected a JSON object, found a number"),
            ] {
                let bad = decoded(ResourceKey::cluster(kind, "x"), text).unwrap_err();
                assert!(bad.reason.starts_with(reason), "{kind} {text:?}: {}", bad.reason);
                assert_eq!(&*bad.text, text.as_bytes());
            }
        }
        let (affinity, _) = crate::testing::affinity("host", "10.0.0.0/26");
        assert!(decoded(affinity.clone(), "").is_ok());
        assert!(decoded(affinity, "[]").is_err());
        assert!(decoded(ResourceKey::IpamConfig, "").is_err());
    }

    /// What Go reads for upstream: the policy counts here, too, and is never written back otherwise than it was.
    #[test]
    fn what_upstream_reads_is_not_absent() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/document");
        let names = ["half-surrogate", "large-integer", "long-decimal", "no-utf8", "number-beyond-range", "too-deep"];
        for name in names {
            let path = std::path::Path::new(folder).join(format!("{name}.json"));
            let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "x");
            let stored = decode(key.clone(), &std::fs::read(&path).unwrap(), Revision::from_raw(1));
            let stored = stored.unwrap_or_else(|bad| panic!("{path:?}: {}", bad.reason));
            let Resource::GlobalNetworkPolicy(policy) = &*stored.resource else { panic!("{path:?}") };
            assert_eq!(policy.spec.ingress[0].action, calico_core::resource::Action::Deny, "{path:?}");
            assert!(!policy.metadata.unread.is_empty(), "{path:?}");
            assert_eq!(stored.raw.text(), Some(&*std::fs::read(&path).unwrap()), "{path:?}");
            let write = crate::Write::update(&stored, Arc::clone(&stored.resource));
            let refused = check(&write.into()).unwrap_err();
            assert!(matches!(refused, DatastoreError::Inexact { .. }), "{path:?}: {refused}");
        }
        let (block, _) = crate::testing::affinity("host", "10.0.0.0/26");
        let bad = decoded(block, r#"{"state": "confirmed", "future": 1e999}"#).unwrap_err();
        assert!(bad.reason.starts_with("future: the number 1e999"), "{}", bad.reason);
    }

    /// A label more must not make a rule that is left out one that allows.
    #[test]
    fn what_would_be_lost_is_never_written() {
        let policy = |spec: &str, metadata: &str| {
            format!(
                r#"{{"kind": "GlobalNetworkPolicy", "apiVersion": "projectcalico.org/v3", "metadata": {metadata},
                "spec": {{"selector": "all()", "ingress": [{{"action": "Allow"}}], {spec}}}}}"#
            )
        };
        let named = r#"{"name": "x"}"#;
        for (text, lost) in [
            (policy(r#""doNotTrack": "yes""#, named), Some("spec.doNotTrack")),
            (policy(r#""preDNAT": [1]"#, named), Some("spec.preDNAT")),
            (policy(r#""applyOnForward": "x""#, named), Some("spec.applyOnForward")),
            (policy(r#""order": "first""#, named), Some("spec.order")),
            (policy(r#""types": ["Ingress", "Later"]"#, named), Some("spec.types")),
            (policy(r#""types": "Ingress", "ingress": []"#, named), Some("spec.types")),
            (policy(r#""order": 1"#, r#"{"name": "x", "labels": {"a": [1], "b": "c"}}"#), Some("metadata.labels")),
            (policy(r#""order": 1"#, r#"{"name": "x", "annotations": ["q"]}"#), Some("metadata.annotations")),
            (policy(r#""order": 1"#, r#"{"name": "x", "uid": 5}"#), Some("metadata.uid")),
            (policy(r#""order": 1"#, "5"), Some("metadata")),
            (
                policy(r#""order": 1, "newer": {"a": [1]}"#, r#"{"name": "x", "newer": 1, "annotations": {"b": "c"}}"#),
                None,
            ),
            (policy(r#""order": 1, "egress": [{"action": "Audit", "odd": 1}, 5]"#, named), None),
        ] {
            let stored = decoded(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "x"), &text).unwrap();
            let reason = lost.map(|path| format!("{path} cannot be read, and would be lost"));
            assert_eq!(stored.raw.inexact(), reason.as_deref(), "{text}");
            let written = encode(&stored.resource, Some(&stored.raw));
            let is_kept = written["spec"] == stored.raw["spec"]
                && written["metadata"]["newer"] == stored.raw["metadata"]["newer"];
            assert!(is_kept || lost.is_some(), "{text}: {written}");
        }
        let profile = r#"{"spec": {"labelsToApply": {"q": ["z"]}, "ingress": [{"action": "Allow"}]}}"#;
        let profile = decoded(ResourceKey::cluster(Kind::Profile, "x"), profile).unwrap();
        assert!(profile.raw.inexact().is_some_and(|reason| reason.starts_with("spec.labelsToApply")));
        let tier = r#"{"spec": {"order": 5}, "status": {"conditions": [5]}}"#;
        let tier = decoded(ResourceKey::cluster(Kind::Tier, "x"), tier).unwrap();
        assert!(tier.raw.inexact().is_some_and(|reason| reason.starts_with("status")));
    }

    #[test]
    fn an_order_of_any_length_can_be_written_as_it_was_or_as_go_writes_it() {
        for (order, written) in [
            ("9007199254740993", "9007199254740993"),
            ("0.1234567890123456789", "0.12345678901234568"),
            ("1e20", "100000000000000000000"),
            ("1.0e21", "1e+21"),
            ("5.0", "5"),
            ("-0.5", "-0.5"),
        ] {
            let text = format!(r#"{{"metadata": {{"name": "x"}}, "spec": {{"order": {order}}}}}"#);
            let stored = decoded(ResourceKey::cluster(Kind::Tier, "x"), &text).unwrap();
            let write = crate::Write::update(&stored, Arc::clone(&stored.resource));
            check(&write.into()).unwrap();
            let bytes = to_bytes(&encode(&stored.resource, Some(&stored.raw)));
            let text = String::from_utf8(bytes.clone()).unwrap();
            assert!(text.contains(&format!("\"order\":{written}")), "{text}");
            let again = decode(stored.key.clone(), &bytes, Revision::from_raw(2)).unwrap();
            assert_eq!(again.resource, stored.resource, "{order}");
        }
    }

    #[test]
    fn what_remains_of_a_pool_is_told() {
        let key = || ResourceKey::cluster(Kind::IpPool, "x");
        for (text, told) in [
            (r#"{"spec": {"cidr": "10.0.0.0/16", "blockSize": "x"}}"#, ""),
            (
                r#"{"spec": {"cidr": "10.0.0.0/16", "disableBGPExport": 1}}"#,
                "; its blocks are not announced to BGP peers",
            ),
            (r#"{"spec": "#, "; no block outside of the other pools is announced to BGP peers"),
        ] {
            let bad = decoded(key(), text).unwrap_err();
            assert!(bad.remains.is_some() && bad.reason.ends_with(told), "{text}: {}", bad.reason);
            assert_eq!(bad.reason.contains("announced"), !told.is_empty(), "{text}");
        }
        let bad = decoded(ResourceKey::cluster(Kind::Tier, "x"), "[]").unwrap_err();
        assert_eq!(bad.remains, None);
        let bad = decoded(ResourceKey::cluster(Kind::Tier, "x"), r#"{"spec": {"order": 5, "defaultAction": "Audit"}}"#);
        assert_eq!(bad.unwrap_err().remains.and_then(|tier| tier.key()), Some(ResourceKey::cluster(Kind::Tier, "x")));
    }

    /// As an endpoint is read that many others are like.
    fn endpoint(name: &str) -> Stored {
        let text = format!(
            r#"{{"metadata": {{"name": "{name}", "labels": {{"app": "web"}}}}, "newer": {{"a": [1]}},
            "spec": {{"node": "host", "interfaceName": "cali1", "profiles": ["kns.n"], "newer": null}}}}"#
        );
        decoded(ResourceKey::namespaced(Kind::WorkloadEndpoint, "n", name), &text).unwrap()
    }

    /// Nothing that was read is such a base; one that is all the same must not cost what is stored.
    #[test]
    fn over_what_is_no_object_nothing_is_written() {
        let stored = endpoint("a");
        for base in [Document::default(), Document::of_text(b"no text of ours".as_slice().into())] {
            let read = Stored { raw: Arc::new(base), ..stored.clone() };
            let refused = check(&crate::Write::update(&read, Arc::clone(&read.resource)).into()).unwrap_err();
            assert!(matches!(refused, DatastoreError::Inexact { .. }), "{refused}");
        }
        check(&crate::Write::update(&stored, Arc::clone(&stored.resource)).into()).unwrap();
    }

    #[test]
    fn what_is_read_straight_from_the_text_keeps_what_is_not_known() {
        let stored = endpoint("a");
        assert!(Resource::decode_text(Kind::WorkloadEndpoint, stored.raw.to_string().as_bytes()).is_some());
        let written = encode(&stored.resource, Some(&stored.raw));
        assert_eq!(written["newer"], serde_json::json!({"a": [1]}));
        assert_eq!(written["metadata"]["namespace"], "n");
        let value = stored.raw["spec"].clone();
        assert_eq!(
            value,
            serde_json::json!({"node": "host", "interfaceName": "cali1", "profiles": ["kns.n"], "newer": null})
        );
        assert_eq!(Document::clone(&stored.raw).into_value(), **stored.raw);
        let (unread, read) = (endpoint("a").raw, stored.raw);
        assert_eq!(Document::clone(&unread).into_value(), **read);
        assert_eq!(unread, read);
    }

    #[test]
    fn what_many_say_is_kept_once() {
        let mut words = calico_core::text::Words::default();
        let shared = ["a", "b"].map(|name| {
            let mut stored = endpoint(name);
            stored.share(&mut words);
            assert_eq!(stored, endpoint(name));
            stored
        });
        let places = shared.each_ref().map(|stored| {
            let Resource::WorkloadEndpoint(endpoint) = &*stored.resource else { panic!("no endpoint") };
            let (key, value) = endpoint.metadata.labels.iter().next().unwrap();
            let namespace = stored.key.namespace().unwrap();
            [key, value, &endpoint.spec.node, &endpoint.spec.profiles[0], namespace].map(str::as_ptr)
        });
        assert_eq!(places[0], places[1]);
    }

    #[test]
    fn a_nameless_object_has_the_name_of_its_key() {
        let key = ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "web");
        let stored = decoded(key.clone(), "{}").unwrap();
        assert_eq!(stored.resource.key(), Some(key));
        assert_eq!(**stored.raw, serde_json::json!({}));
    }
}
