//! `patch` and `label`: one stored resource is read, changed and written back.

use std::path::Path;

use calico_cmd::output::chain;
use calico_core::Few;
use calico_core::resource::{Fault, NAME_ANNOTATION, Resource, ResourceKey, Scope, merge_newer};
use calico_datastore::Stored;
use calico_datastore::client::{Client, ClientError, Draft, Intent, Rehearsal, Rehearsed};
use clap::Args;
use serde_json::{Map, Value};

use super::change::{warn, warn_of_kinds};
use super::report;
use crate::args::{self, in_namespace, kind};
use crate::context::Context;
use crate::failure::Failure;
use crate::input::Item;
use crate::output::resource_document;
use crate::patch::{Language, Misfit, Patch};
use crate::protected::{self, Operation};
use crate::write;

/// How often a change is made again that lost to another writer.
const ATTEMPTS: usize = 10;

/// One resource.
#[derive(Debug, Clone, Args)]
struct One {
    /// Kind of resource
    #[arg(value_parser = args::KindText, hide_possible_values = true)]
    kind: String,
    /// Name
    name: String,
    /// Namespace of the resource [default: default]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = args::namespace)]
    namespace: Option<String>,
    /// Check everything, against the datastore too, and write nothing
    #[arg(long)]
    dry_run: bool,
}

const PATCHES: &str = "\
Examples:
  calicoctl patch ippool pool-1 -p '{\"spec\": {\"natOutgoing\": true}}'
  calicoctl patch np web -n shop -p 'spec: {order: null}'      null removes a field
  calicoctl patch netsets bad -n shop -t json -p '[{op: remove, path: /spec/nets/0}]'

Lists are replaced whole by strategic and merge, but strategic adds to metadata.finalizers
and merges metadata.ownerReferences by uid. Name, namespace and kind cannot be changed.";

const LABELS: &str = "\
Examples:
  calicoctl label node host-1 rack=r1
  calicoctl label node host-1 rack=r2 --overwrite
  calicoctl label node host-1 rack --remove";

#[derive(Debug, Clone, Args)]
#[command(after_help = PATCHES)]
pub(crate) struct PatchArgs {
    #[command(flatten)]
    one: One,
    /// The patch, JSON or YAML. What only newer versions know stays, even if the patch removes it
    // A list in YAML begins with a hyphen.
    #[arg(short, long, allow_hyphen_values = true)]
    patch: String,
    /// Language of the patch
    #[arg(short = 't', long = "type", value_enum, default_value_t = Language::Strategic, ignore_case = true)]
    language: Language,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = LABELS)]
pub(crate) struct LabelArgs {
    #[command(flatten)]
    one: One,
    /// The label: key=value, or only the key with --remove
    #[arg(value_name = "LABEL")]
    label: String,
    /// Change the label where it has another value
    #[arg(long, conflicts_with = "remove")]
    overwrite: bool,
    /// Remove the label
    #[arg(long)]
    remove: bool,
}

impl One {
    fn key(&self) -> Result<ResourceKey, Failure> {
        let kind = kind(&self.kind)?;
        let namespace = self.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        Ok(match in_namespace(kind, namespace, false)? {
            Some(namespace) => ResourceKey::namespaced(kind, &namespace, &self.name),
            None => ResourceKey::cluster(kind, &self.name),
        })
    }
}

pub(crate) async fn patch(args: &PatchArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let key = args.one.key()?;
    let patch = Patch::read(&args.patch, args.language)?;
    let client = context.client(config).await?;
    let change = |document: &mut Value| patch.apply(document).map_err(Refusal::Misfit);
    match edit(&client, &key, args.one.dry_run, change).await {
        Ok(Edited { resource, document, rehearsed, keeps }) => {
            if keeps {
                let kept = "fields of the stored resource that only newer versions know stay, though the patch leaves them out";
                context.tell(&format!("warning: {key}: {kept}"));
            }
            warn_of_kinds(std::iter::once(key.kind()), context);
            let mut written = patch.written;
            written.value = document;
            warn(&Item { kind: key.kind(), resource, document: written, rehearsed }, context);
            let dry = report::dry_mark(args.one.dry_run);
            writeln!(context.stdout, "Successfully patched 1 '{}' resource{dry}", key.kind())?;
            Ok(())
        }
        Err(refusal) => Err(Failure::Message(told(refusal, &patch))),
    }
}

/// Upstream's line, and where in the patch each fault was written.
fn told(refusal: Refusal, patch: &Patch) -> String {
    let faults = match refusal {
        Refusal::Misfit(misfit) => {
            let place = patch.place_of(&misfit);
            return format!("hit error: {misfit}\n  at {place}\n{}\nNothing was changed.", place.excerpt());
        }
        Refusal::Faults(faults) => faults,
        Refusal::Read(error) => return format!("hit error: {}", write::told(&error, None)),
        Refusal::Write(message) | Refusal::Undecided(message) => return format!("hit error: {message}"),
        Refusal::Label(message) => return message,
    };
    let line = |fault: &Fault| {
        let place = patch.place(fault);
        format!("hit error: {fault}\n  at {place}\n{}\n", place.excerpt())
    };
    let mut lines = Few::default();
    faults.iter().for_each(|fault| lines.add(|| line(fault)));
    lines.finish(|more| format!("… and {more} more\n")).concat() + "Nothing was changed."
}

pub(crate) async fn label(args: &LabelArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let key = args.one.key()?;
    let (label, value) = match (args.remove, args.label.split_once('=')) {
        (true, _) => (args.label.as_str(), None),
        (false, Some((label, value))) => (label, Some(value)),
        (false, None) => return Err(Failure::message(format_args!("invalid label {}", args.label))),
    };
    let One { kind, name, dry_run, .. } = &args.one;
    let client = context.client(config).await?;
    let mut past = "";
    let change = |document: &mut Value| {
        let metadata = document.get_mut("metadata").and_then(Value::as_object_mut);
        let Some(Value::Object(labels)) =
            metadata.map(|metadata| metadata.entry("labels").or_insert_with(|| Value::Object(Map::new())))
        else {
            return Err(Refusal::Label(format!("failed to update {kind} {name}, label not changed")));
        };
        past = match (value, labels.get(label)) {
            (None, None) => {
                let text = format!("cannot remove label of {kind} {name}, key {label} does not exist");
                return Err(Refusal::Label(text));
            }
            (None, Some(_)) => "removed",
            (Some(value), Some(old)) if !args.overwrite && old != value => {
                return Err(Refusal::Label(format!(
                    "failed to update label of {kind} {name}, key {label} is already present. please use '--overwrite' to set a new value"
                )));
            }
            (Some(_), Some(_)) => "updated",
            (Some(_), None) => "set",
        };
        match value {
            Some(value) => drop(labels.insert(label.to_owned(), value.into())),
            None => drop(labels.shift_remove(label)),
        }
        Ok(())
    };
    match edit(&client, &key, *dry_run, change).await {
        Ok(_) => {
            warn_of_kinds(std::iter::once(key.kind()), context);
            let dry = report::dry_mark(*dry_run);
            let preposition = if args.remove { "from" } else { "on" };
            writeln!(context.stdout, "Successfully {past} label {label} {preposition} {kind} {name}{dry}")?;
            Ok(())
        }
        Err(Refusal::Label(message)) => Err(Failure::Message(message)),
        Err(Refusal::Read(error)) if error.is_not_found() => {
            Err(Failure::message(format_args!("{kind} {name} not found")))
        }
        Err(Refusal::Read(error)) => {
            Err(Failure::message(format_args!("failed to get {kind} {name}, error {}", write::told(&error, None))))
        }
        Err(refusal @ Refusal::Undecided(_)) => {
            let unknown = "it is not known whether the label was changed";
            Err(Failure::message(format_args!("failed to update {kind} {name}, {unknown}{refusal}")))
        }
        Err(refusal) => {
            Err(Failure::message(format_args!("failed to update {kind} {name}, label not changed{refusal}")))
        }
    }
}

/// Why a resource was not changed.
enum Refusal {
    Read(ClientError),
    Misfit(Misfit),
    Label(String),
    Faults(Vec<Fault>),
    Write(String),
    /// The store took it, or may have.
    Undecided(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => write!(f, "\n  {}", chain(error)),
            Self::Misfit(misfit) => write!(f, "\n  {misfit}"),
            Self::Label(message) | Self::Write(message) | Self::Undecided(message) => write!(f, "\n  {message}"),
            Self::Faults(faults) => faults.iter().try_for_each(|fault| write!(f, "\n  {fault}")),
        }
    }
}

/// A resource that was changed.
struct Edited {
    resource: Resource,
    document: Value,
    rehearsed: Rehearsed,
    /// Whether fields of newer versions stay that the change took away.
    keeps: bool,
}

/// Reads the resource, changes its document and writes it, if it is right and this is not only tried out. A write of somebody else in
/// between is no conflict: the change is made again on what they wrote, unless it names a resource version itself.
async fn edit(
    client: &Client,
    key: &ResourceKey,
    dry_run: bool,
    mut change: impl FnMut(&mut Value) -> Result<(), Refusal>,
) -> Result<Edited, Refusal> {
    if let Some(message) = protected::refusal(Operation::Replace, key) {
        return Err(Refusal::Write(message));
    }
    let mut attempts = 0..ATTEMPTS;
    loop {
        let stored = client.get(key).await.map_err(Refusal::Read)?;
        let mut document = resource_document(&stored, false);
        change(&mut document)?;
        let revision = stored.revision.to_string();
        let mut resource = checked(key, &stored, &document)?;
        let mut again = true;
        if let Some(metadata) = resource.metadata_mut() {
            again = *metadata.resource_version.get_or_insert_with(|| revision.clone()) == revision;
        }
        let keeps = merge_newer(key.kind(), &stored.raw, document.clone()).document != document;
        let draft = Draft { resource: resource.clone(), document: Some(document.clone()) };
        let done = match Rehearsal::new(client).write(Intent::Update, draft.clone()).await {
            Ok(rehearsed) if !dry_run => client.update(draft).await.map(|_| rehearsed),
            other => other,
        };
        match done {
            Err(error) if error.is_conflict() && again && attempts.next().is_some() => {}
            Err(ClientError::Invalid { faults }) => return Err(Refusal::Faults(faults)),
            Err(error) => {
                let message = write::told(&error, Some(&resource));
                return Err(if error.is_undecided() { Refusal::Undecided(message) } else { Refusal::Write(message) });
            }
            Ok(rehearsed) => return Ok(Edited { resource, document, rehearsed, keeps }),
        }
    }
}

/// What the datastore says of a resource, which no change of its document changes.
const OWN: [&str; 4] = ["uid", "creationTimestamp", "generation", "selfLink"];

/// Changes that would be passed over without a word: the resource is what would be written for the document.
fn without_effect(key: &ResourceKey, stored: &Stored, document: &Value, resource: &Resource) -> Vec<Fault> {
    let before = resource_document(stored, false);
    let changed = |path: &[&str]| {
        let at = |document| path.iter().try_fold(document, |value: &Value, name| value.get(name));
        (at(&before) != at(document)).then(|| at(document).and_then(Value::as_str))
    };
    let fault = |path: &[&str], given: Option<&str>, reason: &str| {
        Fault::value(path.join("."), given.map(str::to_owned), reason)
    };
    let mut faults = Vec::new();
    for name in OWN {
        let path = ["metadata", name];
        faults
            .extend(changed(&path).map(|given| fault(&path, given, "the datastore says it, and it cannot be changed")));
    }
    let path = ["metadata", "annotations", NAME_ANNOTATION];
    if key.kind().is_policy() {
        faults.extend(changed(&path).map(|given| fault(&path, given, "it is kept with the policy's name")));
    }
    // Who removes all labels means the others.
    let labels = resource.metadata().filter(|_| document.pointer("/metadata/labels").is_some());
    for (label, kept) in labels.into_iter().flat_map(|metadata| &metadata.labels) {
        let path = ["metadata", "labels", label];
        if let Some(given) = changed(&path).filter(|given| *given != Some(kept)) {
            faults.push(fault(&path, given, &format!("it follows from the rest of the resource, and stays {kept}")));
        }
    }
    faults
}

/// The document as a resource, if it keeps the rules of its kind and still is the one that was read.
fn checked(key: &ResourceKey, stored: &Stored, document: &Value) -> Result<Resource, Refusal> {
    let before = stored.resource.metadata();
    let own = |field: &str| document.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
    let namespaced = key.kind().scope() == Scope::Namespaced;
    let identity = [
        ("name", before.map(|metadata| metadata.name.as_str())),
        ("namespace", before.and_then(|metadata| metadata.namespace.as_deref()).filter(|_| namespaced)),
    ];
    let moved = identity.into_iter().filter(|(field, old)| own(field) != *old && (*field == "name" || namespaced));
    let faults: Vec<Fault> = moved
        .map(|(field, _)| {
            let reason = "it says which resource this is and cannot be changed: create another and delete this one";
            Fault::value(format_args!("metadata.{field}"), own(field).map(str::to_owned), reason)
        })
        .collect();
    if !faults.is_empty() {
        return Err(Refusal::Faults(faults));
    }
    let mut resource = Resource::decode_strict(key.kind(), document, Some(&**stored.raw)).map_err(Refusal::Faults)?;
    resource.fill_defaults().map_err(|fault| Refusal::Faults(vec![fault]))?;
    let faults = without_effect(key, stored, document, &resource);
    if faults.is_empty() { Ok(resource) } else { Err(Refusal::Faults(faults)) }
}
