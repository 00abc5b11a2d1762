//! Between objects and stored bytes, the same for every store.
//!
//! Comes in: bytes and a revision, or a typed object with the document it was read from; goes out: an [`Entry`], or the document
//! to store. Fields that the typed view does not know survive a read-modify-write; a document that cannot be read becomes a
//! [`BadObject`], never an error of a whole list.

use std::fmt::Write as _;
use std::sync::Arc;

use calico_core::resource::{Fault, Kind, Resource, ResourceKey, merge_unknown};
use serde_json::Value;

use crate::{BadObject, Batch, Change, DatastoreError, Entry, MAX_BATCH, Revision, Stored};

/// The document to store: the typed object over what was read, without the revision, which belongs to the store.
pub(crate) fn encode(resource: &Resource, base: Option<&Value>) -> Value {
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

/// The stored bytes of a document.
#[cfg(any(feature = "sqlite", feature = "etcd"))]
pub(crate) fn to_bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

/// What the bytes under a key mean. Of a member that is there twice the last counts, as for upstream's readers; manifests refuse it.
pub(crate) fn decode(key: ResourceKey, bytes: &[u8], revision: Revision) -> Entry {
    let text = match bytes {
        // Very old writers stored a block affinity as nothing at all.
        b"" if key.kind() == Kind::BlockAffinity => b"{}",
        b"" => return Err(bad(key, &Value::Null, revision, "the value is empty".to_owned())),
        bytes => bytes,
    };
    match serde_json::from_slice(text) {
        Ok(document) => decode_value(key, document, revision),
        Err(fault) => Err(bad(key, &Value::Null, revision, format!("not JSON: {fault}"))),
    }
}

fn bad(key: ResourceKey, document: &Value, revision: Revision, mut reason: String) -> BadObject {
    let remains = Resource::remains(key.kind(), document).map(Arc::new);
    if let Some(Resource::IpPool(pool)) = remains.as_deref()
        && pool.spec.disable_bgp_export
    {
        // Writing to a string cannot fail.
        let _ = match pool.spec.cidr.length() {
            0 => write!(reason, "; no block outside of the other pools is announced to BGP peers"),
            _ => write!(reason, "; its blocks are not announced to BGP peers"),
        };
    }
    BadObject { key, revision, reason, remains }
}

/// What a document under a key means.
pub(crate) fn decode_value(key: ResourceKey, document: Value, revision: Revision) -> Entry {
    match Resource::decode(key.kind(), &document) {
        Ok(mut resource) => {
            resource.adopt_key(&key);
            Ok(Stored::new(key, Arc::new(resource), Arc::new(document), revision))
        }
        Err(faults) => {
            let mut reason = String::new();
            for fault in Fault::few(faults) {
                let separator = if reason.is_empty() { "" } else { "; " };
                // Writing to a string cannot fail.
                let _ = write!(reason, "{separator}{fault}");
            }
            Err(bad(key, &document, revision, reason))
        }
    }
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
        if let Change::Put { resource, .. } = &write.change
            && resource.kind() != key.kind()
        {
            return Err(refused(format!("a {} cannot be stored under {key}", resource.kind())));
        }
    }
    Ok(())
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
            }
        }
        let (affinity, _) = crate::testing::affinity("host", "10.0.0.0/26");
        assert!(decoded(affinity.clone(), "").is_ok());
        assert!(decoded(affinity, "[]").is_err());
        assert!(decoded(ResourceKey::IpamConfig, "").is_err());
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
    }

    #[test]
    fn a_nameless_object_has_the_name_of_its_key() {
        let key = ResourceKey::namespaced(Kind::NetworkPolicy, "shop", "web");
        let stored = decoded(key.clone(), "{}").unwrap();
        assert_eq!(stored.resource.key(), Some(key));
        assert_eq!(*stored.raw, serde_json::json!({}));
    }
}
