//! How resources are shown.

pub(crate) mod boxed;
mod columns;
mod form;
mod format;
mod jsonpath;
mod table;
mod template;
mod yaml;

use calico_cmd::output::printable;
use calico_core::resource::{API_VERSION, Kind, Resource, Scope, merge_unknown};
use calico_datastore::{Revision, Stored};
use serde_json::{Map, Value, json};

use self::columns::Column;
pub(crate) use self::form::Form;
pub(crate) use self::format::{Format, FormatParser};
use crate::failure::Failure;
use crate::spoilt::Spoilt;

/// Resources of one kind that a command found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) resources: Vec<Stored>,
    /// Those that were asked for by name and cannot be read: whole documents show them as they are stored.
    pub(crate) spoilt: Vec<Spoilt>,
    /// Revision of the listing; none when resources were asked for by name.
    pub(crate) listed: Option<Revision>,
}

/// Options of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Show<'a> {
    pub(crate) format: &'a Format,
    /// Whether tables have a column for the namespace.
    pub(crate) with_namespace: bool,
    /// Whether what belongs to this cluster is left out.
    pub(crate) export: bool,
    /// The cluster's AS number, if [`Format::tells_as_number`].
    pub(crate) as_number: &'a str,
}

/// Everything that was found, as text.
pub(crate) fn render(found: &[Found], show: Show<'_>) -> Result<String, Failure> {
    let failed = |reason: String| Failure::message(format_args!("failed to get resources: {reason}"));
    if let Some(text) = only_text(found).filter(|_| show.format.is_document()) {
        return Ok(still(format!("{}\n", text.trim_end_matches('\n'))));
    }
    match show.format {
        Format::Table => Ok(found.iter().map(|found| table(found, columns::of(found.kind, false), show)).collect()),
        Format::Wide => Ok(found.iter().map(|found| table(found, columns::of(found.kind, true), show)).collect()),
        Format::Columns(headings) => found.iter().map(|found| chosen(found, headings, show)).collect(),
        Format::Name => Ok(found.iter().map(names).collect()),
        Format::Yaml => Ok(yaml(bare(documents(found, show)))),
        Format::Json => Ok(json(&bare(documents(found, show)))),
        Format::JsonPath(path) => path.render(&one(documents(found, show))).map(still).map_err(failed),
        Format::Template(template) => {
            template.render(&Value::Array(documents(found, show)), show.as_number).map(still).map_err(failed)
        }
    }
}

/// What is stored, if that is all that was found and it is no document.
fn only_text(found: &[Found]) -> Option<&str> {
    let [Found { resources, spoilt, listed: None, .. }] = found else { return None };
    match (resources.as_slice(), spoilt.as_slice()) {
        ([], [only]) if only.is_text => only.value.as_str(),
        _ => None,
    }
}

/// Text whose lines and tabs the operator laid out, and in which nothing that is stored moves the cursor.
fn still(text: String) -> String {
    text.split_inclusive(['\n', '\t'])
        .map(|part| match part.strip_suffix(['\n', '\t']) {
            Some(words) => printable(words) + part.get(words.len()..).unwrap_or_default(),
            None => printable(part),
        })
        .collect()
}

fn table(found: &Found, columns: &[Column], show: Show<'_>) -> String {
    let with_namespace = show.with_namespace && found.kind.scope() == Scope::Namespaced;
    let columns: Vec<_> = with_namespace.then_some(&columns::NAMESPACE).into_iter().chain(columns).collect();
    let mut rows = vec![columns.iter().map(|column| column.heading.to_owned()).collect::<Vec<_>>()];
    rows.extend(
        found
            .resources
            .iter()
            .map(|stored| columns.iter().map(|column| column.cell(&stored.resource, show.as_number)).collect()),
    );
    table::render(&rows) + "\n"
}

/// A table of the columns that were asked for, in any case.
fn chosen(found: &Found, headings: &[String], show: Show<'_>) -> Result<String, Failure> {
    let known = columns::all(found.kind);
    let column = |heading: &String| {
        let column = known.iter().find(|column| column.heading.eq_ignore_ascii_case(heading.trim())).copied();
        column.ok_or_else(|| {
            let valid: Vec<_> = known.iter().map(|column| column.heading).collect();
            Failure::message(format_args!("unknown heading {heading}, valid values are: {}", valid.join(", ")))
        })
    };
    let columns: Vec<Column> = headings.iter().map(column).collect::<Result<_, _>>()?;
    Ok(table(found, &columns, Show { with_namespace: false, ..show }))
}

fn names(found: &Found) -> String {
    let kind = found.kind.name().to_ascii_lowercase();
    let line = |stored: &Stored| format!("{kind}/{}\n", printable(shown_name(&stored.resource)));
    found.resources.iter().map(line).collect()
}

fn shown_name(resource: &Resource) -> &str {
    resource.metadata().map_or("", |metadata| metadata.name.as_str())
}

/// Named resources, and each listing as a list object.
fn documents(found: &[Found], show: Show<'_>) -> Vec<Value> {
    let mut documents = Vec::new();
    for found in found {
        let document = |stored: &Stored| match stored.raw.inexact() {
            // Its typed view lacks something.
            Some(_) if show.format.is_document() => Spoilt::of_stored(stored).value,
            _ => resource_document(stored, show.export),
        };
        let resources = found.resources.iter().map(document);
        match found.listed {
            None => {
                documents.extend(resources);
                if show.format.is_document() {
                    documents.extend(found.spoilt.iter().map(|spoilt| spoilt.value.clone()));
                }
            }
            Some(revision) => documents.push(list(found.kind, revision, resources.collect())),
        }
    }
    documents
}

/// One document bare, everything else as an array.
fn bare(mut documents: Vec<Value>) -> Value {
    match documents.len() {
        1 => documents.remove(0),
        _ => Value::Array(documents),
    }
}

/// One document, which is a list of everything where there are several: what paths of Kubernetes' tools begin at.
fn one(documents: Vec<Value>) -> Value {
    if documents.len() == 1 {
        return bare(documents);
    }
    let items = documents.into_iter().flat_map(|mut document| match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![document],
    });
    json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": items.collect::<Vec<_>>() })
}

/// What belongs to one cluster, and a time of dying: upstream's list.
const EXPORT_WITHOUT: [&str; 6] =
    ["namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// Objects of one kind, as a list object.
pub(crate) fn list(kind: Kind, revision: Revision, items: Vec<Value>) -> Value {
    json!({
        "kind": format!("{kind}List"),
        "apiVersion": API_VERSION,
        "metadata": { "resourceVersion": revision.to_string() },
        "items": items,
    })
}

/// An object as users see it, fields of newer versions included, without a resource version.
pub(crate) fn shown(resource: &Resource, raw: &Value) -> Value {
    let mut document = whole(resource, raw);
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("resourceVersion");
    }
    document
}

fn whole(resource: &Resource, raw: &Value) -> Value {
    merge_unknown(resource.kind(), raw, resource.document())
}

/// The value as YAML, with keys in upstream's order.
pub(crate) fn yaml(value: Value) -> String {
    yaml::render(&sorted(value))
}

/// The value as JSON.
pub(crate) fn json(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Rows of equal length in columns; the first is the heading.
pub(crate) fn columns_of(rows: &[Vec<String>]) -> String {
    table::render(rows)
}

/// A value as a document; a table is the caller's to make.
pub(crate) fn value(value: Value, form: Form) -> String {
    match form {
        Form::Yaml => yaml(value),
        Form::Json | Form::Table => json(&value),
    }
}

/// The whole object, as `get` prints it.
pub(crate) fn resource_document(stored: &Stored, export: bool) -> Value {
    let mut document = whole(&stored.resource, &stored.raw);
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        if export {
            for name in EXPORT_WITHOUT {
                metadata.shift_remove(name);
            }
        } else {
            metadata.insert("resourceVersion".into(), stored.revision.to_string().into());
        }
    }
    document
}

/// Keys in alphabetical order, as upstream prints them in YAML.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(name, member)| (name, sorted(member))).collect();
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(members.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}
