//! How resources are shown.

mod columns;
mod table;
mod yaml;

use calico_core::resource::{API_VERSION, Kind, Resource, Scope, merge_unknown};
use calico_datastore::{Revision, Stored};
use serde_json::{Map, Value, json};

use crate::cli::Format;
use crate::failure::printable;

/// Resources of one kind that a command found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) resources: Vec<Stored>,
    /// Revision of the listing; none when resources were asked for by name.
    pub(crate) listed: Option<Revision>,
}

/// Options of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Show {
    pub(crate) format: Format,
    /// Whether tables have a column for the namespace.
    pub(crate) with_namespace: bool,
    /// Whether what belongs to this cluster is left out.
    pub(crate) export: bool,
}

/// Everything that was found, as text.
pub(crate) fn render(found: &[Found], show: Show) -> String {
    match show.format {
        Format::Table | Format::Wide => found.iter().map(|found| tables(found, show)).collect(),
        Format::Name => found.iter().map(names).collect(),
        Format::Yaml => yaml::render(&sorted(document(found, show))),
        Format::Json => serde_json::to_string_pretty(&document(found, show)).unwrap_or_default() + "\n",
    }
}

fn tables(found: &Found, show: Show) -> String {
    let columns = columns::of(found.kind, show.format == Format::Wide);
    let with_namespace = show.with_namespace && found.kind.scope() == Scope::Namespaced;
    let heading = |name: &str| name.to_owned();
    let mut rows = vec![columns.iter().map(|column| heading(column.heading)).collect::<Vec<_>>()];
    rows.extend(
        found.resources.iter().map(|stored| columns.iter().map(|column| (column.cell)(&stored.resource)).collect()),
    );
    if with_namespace {
        let namespaces = found.resources.iter().map(|stored| stored.key.namespace().unwrap_or_default().to_owned());
        for (row, cell) in rows.iter_mut().zip(std::iter::once(heading("NAMESPACE")).chain(namespaces)) {
            row.insert(0, cell);
        }
    }
    table::render(&rows) + "\n"
}

fn names(found: &Found) -> String {
    let kind = found.kind.name().to_ascii_lowercase();
    let line = |stored: &Stored| format!("{kind}/{}\n", printable(shown_name(&stored.resource)));
    found.resources.iter().map(line).collect()
}

fn shown_name(resource: &Resource) -> &str {
    resource.metadata().map_or("", |metadata| metadata.name.as_str())
}

/// One named resource bare, one listing as a list object, everything else as an array of these.
fn document(found: &[Found], show: Show) -> Value {
    let mut documents = Vec::new();
    for found in found {
        let resources = found.resources.iter().map(|stored| resource_document(stored, show.export));
        match found.listed {
            None => documents.extend(resources),
            Some(revision) => documents.push(json!({
                "kind": format!("{}List", found.kind),
                "apiVersion": API_VERSION,
                "metadata": { "resourceVersion": revision.to_string() },
                "items": resources.collect::<Vec<_>>(),
            })),
        }
    }
    match documents.len() {
        1 => documents.remove(0),
        _ => Value::Array(documents),
    }
}

/// The whole object, fields of newer versions included.
pub(crate) fn resource_document(stored: &Stored, export: bool) -> Value {
    let document = stored.resource.document();
    let mut document = merge_unknown(stored.resource.kind(), &stored.raw, document);
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        if export {
            for name in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
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
