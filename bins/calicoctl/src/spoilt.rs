//! Resources that cannot be read, or not be written back: what operators are told of them, and how they are shown.

use calico_cmd::manifest;
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::client::ClientError;
use calico_datastore::{BadObject, DatastoreError, Revision, Stored};
use serde_json::Value;

use crate::protected;

/// The lines below an error that say what can be done, if it is about such a resource.
pub(crate) fn way_out_of(error: &ClientError) -> String {
    match error {
        ClientError::Store(DatastoreError::Unreadable { key, .. } | DatastoreError::Inexact { key, .. }) => {
            format!("\n{}", way_out(key))
        }
        ClientError::Store(DatastoreError::AlreadyExists { key, .. }) if !exists_readable(error) => {
            format!("\n  what is stored under it cannot be read\n{}", way_out(key))
        }
        _ => String::new(),
    }
}

/// Whether a resource could not be created because there is one, and that one can be read.
pub(crate) fn exists_readable(error: &ClientError) -> bool {
    let ClientError::Store(DatastoreError::AlreadyExists { key, current }) = error else { return false };
    current.is_some() || key.name().is_some_and(|name| key.kind().is_built_in(name))
}

/// Whether it says that the resource cannot be read, or not be written back.
pub(crate) const fn is_spoilt(error: &ClientError) -> bool {
    matches!(error, ClientError::Store(DatastoreError::Unreadable { .. } | DatastoreError::Inexact { .. }))
}

/// What an operator can do about such a resource, a line for each.
pub(crate) fn way_out(key: &ResourceKey) -> String {
    format!("{}\n{}", see(&named(key)), mend(key))
}

/// As [`way_out`], once it has been shown.
pub(crate) fn mend(key: &ResourceKey) -> String {
    let mut lines = Vec::new();
    if !protected::is_mirrored(key) {
        lines.push(PUT.to_owned());
    }
    let is_kept = key.kind() == Kind::ClusterInformation || key.name().is_some_and(|name| key.kind().is_fixed(name));
    if !is_kept {
        lines.push(remove(&named(key)));
    }
    lines.join("\n")
}

/// As [`way_out`], for several.
pub(crate) fn ways_out() -> String {
    let named = "KIND NAME [-n NAMESPACE]";
    [see(named), PUT.to_owned(), remove(named)].join("\n")
}

const PUT: &str = "  to put a complete document in its place: calicoctl replace -f FILE";

pub(crate) fn see(named: &str) -> String {
    format!("  to see what is stored: calicoctl get {named} -o yaml")
}

pub(crate) fn remove(named: &str) -> String {
    format!("  to remove it: calicoctl delete {named}")
}

/// As it is named on a command line.
pub(crate) fn named(key: &ResourceKey) -> String {
    let kind = key.kind().name().to_ascii_lowercase();
    let name = key.name().unwrap_or_default();
    match key.namespace() {
        Some(namespace) => format!("{kind} {name} -n {namespace}"),
        None => format!("{kind} {name}"),
    }
}

/// Such a resource, as it lies in the datastore.
#[derive(Debug)]
pub(crate) struct Spoilt {
    /// The document, or else a string of what is stored.
    pub(crate) value: Value,
    /// Whether it is such a string.
    pub(crate) is_text: bool,
}

impl Spoilt {
    /// What cannot be read.
    pub(crate) fn of_bad(bad: &BadObject) -> Self {
        // A number that is rounded, or a member that is there twice, is not what the value says. Manifests refuse the latter.
        let is_plain = || std::str::from_utf8(&bad.text).is_ok_and(|text| manifest::read("", text).is_ok());
        match bad.document().filter(|document| document.inexact().is_none() && is_plain()) {
            Some(document) => Self::document(document.into_value(), bad.revision),
            None => Self::text(&bad.text),
        }
    }

    /// What is not all read.
    pub(crate) fn of_stored(stored: &Stored) -> Self {
        match stored.raw.text() {
            Some(text) => Self::text(text),
            None => Self::document(Value::clone(&stored.raw), stored.revision),
        }
    }

    fn text(text: &[u8]) -> Self {
        Self { value: String::from_utf8_lossy(text).into_owned().into(), is_text: true }
    }

    /// With its revision, for who puts another in its place.
    fn document(mut value: Value, revision: Revision) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        Self { value, is_text: false }
    }
}
