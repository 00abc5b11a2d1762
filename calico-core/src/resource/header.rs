//! What can be read of the header of a stored object whose header is not in order.
//!
//! The key says what an object is, and nothing is decided by its creation time, its annotations or, but for members of selectors,
//! by its labels. So a policy, profile, tier or network set is not absent for them: were it, its Deny would be lost. What cannot be
//! read goes, is noted in [`Metadata::unread`](super::Metadata::unread), and is gone from the document when the object is next
//! written.
//!
//! Labels are text. A number or `true` counts as its text, which is what whoever left out the quotes in YAML meant, and null as no
//! text, as upstream reads it; so `has(x)`, `!has(x)` and comparisons hold. Only if a label of a network set is a list or mapping,
//! or its labels are no mapping, is the set absent as before: under which selectors it falls is anybody's guess then, and either
//! guess may open something (`has(x)` in a Deny, `!has(x)` in an Allow). A workload endpoint with such a header is absent, whatever
//! the label: its host drops all of its traffic as that of an unknown interface.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::decode::{NAME_ANNOTATION, annotated_name};
use super::path::Path;
use super::shape::{Reading, Shape};
use super::{Fault, Kind};

/// Takes what cannot be read of the header out of a document, and says what that was; `None` if the object means nothing without it.
pub(super) fn keep_readable(kind: Kind, document: &mut Value) -> Option<Vec<Fault>> {
    let members = document.as_object_mut()?;
    // The key says these.
    members.retain(|name, value| !matches!(name.as_str(), "kind" | "apiVersion") || value.is_string());
    let (Some(metadata), Some(shape)) = (members.get_mut("metadata"), kind.shape().member("metadata")) else {
        return Some(Vec::new());
    };
    if metadata.is_null() {
        return Some(Vec::new());
    }
    if matches!(kind, Kind::NetworkSet | Kind::GlobalNetworkSet) && !has_readable_labels(metadata) {
        return None;
    }
    let root = Path::Root;
    let path = root.field("metadata");
    let mut faults = Vec::new();
    shape.faults(metadata, &path, Reading::Stored, &mut faults);
    let Some(fields) = metadata.as_object_mut() else {
        members.shift_remove("metadata");
        return Some(faults);
    };
    fields.retain(|name, value| shape.member(name).is_none_or(|shape| keep(shape, value)));
    let annotations = fields.get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations.filter(|_| kind.is_policy())
        && let Some(text) = annotations.get(NAME_ANNOTATION).and_then(Value::as_str)
        && let Err(wrong) = annotated_name(text)
    {
        faults.extend(wrong);
        annotations.shift_remove(NAME_ANNOTATION);
    }
    Some(faults)
}

/// Keeps of a mapping what is text, or can be taken for text.
pub(super) fn keep_texts(members: &mut Map<String, Value>) {
    members.retain(|_, value| text_of(value).map(|text| *value = text.into()).is_some());
}

fn keep(shape: &Shape, value: &mut Value) -> bool {
    if let (Shape::TextMap, Value::Object(members)) = (shape, &mut *value) {
        keep_texts(members);
    }
    let mut faults = Vec::new();
    shape.faults(value, &Path::Root, Reading::Stored, &mut faults);
    faults.is_empty()
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn has_readable_labels(metadata: &Value) -> bool {
    match metadata.as_object().map(|fields| fields.get("labels")) {
        Some(None | Some(Value::Null)) => true,
        Some(Some(Value::Object(labels))) => labels.values().all(|value| text_of(value).is_some()),
        _ => false,
    }
}
