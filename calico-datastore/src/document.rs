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
    // Of a policy whose flags exclude each other, one flag is read as something that is not there, and rules are not read at all.
    let is_there = |document: &Value, name: &str| {
        let field = document.get("spec").and_then(|spec| spec.get(name));
        field.is_some_and(|field| !field.is_null())
    };
    let comes_or_goes = |name: &&str| is_there(document, name) != is_there(&written, name);
    let header = document.get("metadata").filter(|metadata| !metadata.is_object() && !metadata.is_null());
    let lost = header.map(|_| "metadata".to_owned()).or_else(|| paths.into_iter().find_map(differs));
    lost.or_else(|| ["applyOnForward", "egress"].into_iter().find(comes_or_goes).map(|name| format!("spec.{name}")))
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
mod tests;
