//! Files to checked resources. Everything is read and checked before anything is done.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;
use std::path::{Path, PathBuf};

use calico_cmd::manifest::{self, Document, MAX_BYTES, Place};
use calico_cmd::output::chain;
use calico_core::Few;
use calico_core::resource::{Fault, FaultSort, Kind, Resource, ResourceKey, Scope, clipped, v1};
use calico_datastore::Revision;
use calico_datastore::client::{Client, ClientError, Rehearsed};
use serde_json::Value;

use crate::args::{DEFAULT_NAMESPACE, FileOptions};
use crate::failure::{Failure, InputFault};

/// Most characters of a kind or version that a message shows.
const MAX_SHOWN: usize = 200;

/// What `-f -` is called in messages.
const STDIN: &str = "standard input";

/// A document that satisfies the rules of its kind.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) resource: Resource,
    /// The document as given, with fields that only newer versions know, and its namespace filled in.
    pub(crate) document: Document,
    /// What writing it would do, once that was rehearsed.
    pub(crate) rehearsed: Rehearsed,
}

impl Item {
    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        self.resource.key().map_or_else(|| self.kind.to_string(), |key| key.to_string())
    }
}

/// The documents of all files, not yet checked.
pub(crate) fn documents(
    files: &[PathBuf],
    options: &FileOptions,
    stdin: &mut dyn Read,
) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    let mut faults = Few::default();
    for file in files {
        match texts(file, options, stdin) {
            Ok(texts) => {
                for (name, text) in texts {
                    match manifest::read(&name, &text) {
                        Ok(found) if found.is_empty() && !options.skip_empty => {
                            faults.add(|| InputFault::File(format!("no resources specified in file {name}")));
                        }
                        Ok(found) => documents.extend(found),
                        Err(error) => faults.add(|| InputFault::Syntax(Box::new(error))),
                    }
                }
            }
            Err(message) => faults.add(|| InputFault::File(message)),
        }
    }
    if faults.is_empty() { Ok(documents) } else { Err(Failure::Input(faults)) }
}

/// Names and texts behind one `-f`.
fn texts(file: &Path, options: &FileOptions, stdin: &mut dyn Read) -> Result<Vec<(String, String)>, String> {
    if file == Path::new("-") {
        return bounded(STDIN, stdin).map(|text| vec![(STDIN.to_owned(), text)]);
    }
    let mut names = Vec::new();
    if file.is_dir() {
        walk(file, options.recursive, &mut names).map_err(|error| format!("{}: {error}", file.display()))?;
        names.sort();
        if names.is_empty() && !options.skip_empty {
            return Err(format!("no resource files (.yaml, .yml, .json) in directory {}", file.display()));
        }
    } else {
        names.push(file.to_owned());
    }
    let read = |path: PathBuf| {
        let name = path.display().to_string();
        if name.contains("://") && !path.exists() {
            return Err(format!("{name} is a URL, and only files are read: curl -sSfL {name} | calicoctl … -f -"));
        }
        let mut open = std::fs::File::open(&path).map_err(|error| format!("open {name}: {error}"))?;
        bounded(&name, &mut open).map(|text| (name, text))
    };
    names.into_iter().map(read).collect()
}

fn bounded(name: &str, reader: &mut dyn Read) -> Result<String, String> {
    let mut text = String::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_string(&mut text).map_err(|error| format!("read {name}: {error}"))?;
    Ok(text)
}

fn walk(directory: &Path, recursive: bool, names: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        if entry.file_type()?.is_dir() {
            if recursive {
                walk(&path, recursive, names)?;
            }
        } else if matches!(extension.as_deref(), Some("yaml" | "yml" | "json")) {
            names.push(path);
        }
    }
    Ok(())
}

/// Checks every document. With a client, what a manifest may not have is accepted where the stored object has it: fields that no
/// version of ours knows, and prefixes with host bits.
pub(crate) async fn check(
    documents: Vec<Document>,
    verb: &'static str,
    namespace: Option<&str>,
    client: Option<&Client>,
) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::with_capacity(documents.len());
    let mut faults = Few::default();
    let mut seen = Seen::default();
    for document in documents {
        match item(&document, namespace, client).await {
            Ok(item) => {
                let repeated = item.resource.key().and_then(|key| seen.note(key, verb, &document));
                repeated.into_iter().for_each(|fault| faults.add(|| fault));
                items.push(item);
            }
            Err(refusal) => {
                let is_stores = matches!(refusal, Refusal::Store(..));
                refusal.report(verb, &document, &mut faults);
                if is_stores {
                    // The rest would wait for the same store.
                    break;
                }
            }
        }
    }
    if faults.is_empty() { Ok(items) } else { Err(Failure::Input(faults)) }
}

/// Whether an input may name a resource twice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Repeats {
    Accepted,
    /// For this verb not.
    Refused(&'static str),
}

/// The resources of an input so far, and where they stand.
#[derive(Default)]
struct Seen(HashMap<ResourceKey, Place>);

impl Seen {
    /// Notes a resource; a second one under the same key is a fault: which of them was meant?
    fn note(&mut self, key: ResourceKey, verb: &'static str, document: &Document) -> Option<InputFault> {
        let place = document.place(&Fault::value("metadata.name", None, ""));
        match self.0.entry(key) {
            Entry::Vacant(free) => {
                free.insert(place);
                None
            }
            Entry::Occupied(taken) => {
                let (key, first) = (taken.key(), taken.get());
                let message = format!("{key} is given twice, first at {first}");
                Some(InputFault::Refused { verb, kind: key.kind(), message, place: Box::new(place) })
            }
        }
    }
}

/// A resource as far as verbs need it that do not write it: its key, and the revision that the document names.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) key: ResourceKey,
    pub(crate) revision: Option<Revision>,
}

/// What the documents name.
pub(crate) fn named(
    documents: Vec<Document>,
    namespace: Option<&str>,
    repeats: Repeats,
) -> Result<Vec<Named>, Failure> {
    let mut seen = Seen::default();
    let mut found = Vec::with_capacity(documents.len());
    let mut faults = Few::default();
    for mut document in documents {
        let outcome = kind_of(&document).and_then(|kind| {
            let refused = |fault| Refusal::Faults(kind, vec![fault]);
            set_namespace(kind, &mut document.value, namespace).map_err(refused)?;
            let computed = || computed_key(kind, &document.value);
            let key = key_of(kind, &document.value).or_else(computed);
            let key = key.ok_or_else(|| refused(Fault::missing("metadata.name")))?;
            Ok(Named { key, revision: revision_of(&document.value).map_err(refused)? })
        });
        match outcome {
            Ok(named) => {
                if let Repeats::Refused(verb) = repeats {
                    let repeated = seen.note(named.key.clone(), verb, &document);
                    repeated.into_iter().for_each(|fault| faults.add(|| fault));
                }
                found.push(named);
            }
            Err(refusal) => refusal.report("read", &document, &mut faults),
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(Failure::Input(faults)) }
}

/// The revision at which a document was read, if it says so.
fn revision_of(value: &Value) -> Result<Option<Revision>, Fault> {
    let named = value.pointer("/metadata/resourceVersion").filter(|named| !named.is_null() && **named != "");
    let Some(named) = named else { return Ok(None) };
    let revision = named.as_str().and_then(|text| text.parse().ok());
    revision.map(|revision| Some(Revision::from_raw(revision))).ok_or_else(|| {
        let reason = "not a revision of this datastore: leave it out, or read the object again";
        Fault::value("metadata.resourceVersion", Some(named.to_string()), reason)
    })
}

/// Key of a workload endpoint that leaves its name to be computed.
fn computed_key(kind: Kind, value: &Value) -> Option<ResourceKey> {
    let mut resource = Resource::decode(kind, value).ok()?;
    resource.fill_defaults().ok()?;
    resource.key()
}

enum Refusal {
    Kind(String, Fault),
    Faults(Kind, Vec<Fault>),
    /// The store does not answer.
    Store(Kind, ClientError),
}

impl Refusal {
    /// Adds the faults, of which only those that are told are looked for in the document.
    fn report(self, verb: &'static str, document: &Document, told: &mut Few<InputFault>) {
        let place = |fault: &Fault| Box::new(document.place(fault));
        match self {
            Self::Kind(message, fault) => told.add(|| InputFault::Kind { message, place: place(&fault) }),
            Self::Store(kind, error) => told.add(|| InputFault::Store { verb, kind, message: chain(&error) }),
            Self::Faults(kind, faults) => {
                for fault in faults {
                    told.add(|| InputFault::Fault { verb, kind, place: place(&fault), fault });
                }
            }
        }
    }
}

async fn item(document: &Document, namespace: Option<&str>, client: Option<&Client>) -> Result<Item, Refusal> {
    let kind = kind_of(document)?;
    let mut given = document.value.clone();
    set_namespace(kind, &mut given, namespace).map_err(|fault| Refusal::Faults(kind, vec![fault]))?;
    let mut resource = match Resource::decode_strict(kind, &given, None) {
        Ok(resource) => resource,
        Err(faults) => {
            let stored = match (client, key_of(kind, &given)) {
                (Some(client), Some(key)) => match stored_document(client, &key).await {
                    Err(error) if only_unknown(&faults) => return Err(Refusal::Store(kind, error)),
                    // What is wrong is wrong whatever is stored, most likely.
                    read => read.unwrap_or_default(),
                },
                _ => None,
            };
            if stored.is_none() {
                return Err(Refusal::Faults(kind, faults));
            }
            Resource::decode_strict(kind, &given, stored.as_ref()).map_err(|faults| Refusal::Faults(kind, faults))?
        }
    };
    resource.fill_defaults().map_err(|fault| Refusal::Faults(kind, vec![fault]))?;
    let mut document = document.clone();
    document.value = given;
    Ok(Item { kind, resource, document, rehearsed: Rehearsed::default() })
}

/// What is stored under a key, whether it can be read or not: whatever of it this version does not know may be given, too.
async fn stored_document(client: &Client, key: &ResourceKey) -> Result<Option<Value>, ClientError> {
    match client.entry(key).await {
        Ok(Ok(stored)) => Ok(Some(Value::clone(&stored.raw))),
        Ok(Err(bad)) => Ok(bad.document().map(|document| document.into_value())),
        Err(error) if error.is_of_store() => Err(error),
        Err(_) => Ok(None),
    }
}

fn only_unknown(faults: &[Fault]) -> bool {
    faults.iter().all(|fault| fault.sort == FaultSort::UnknownField)
}

/// Key by the metadata as written.
fn key_of(kind: Kind, value: &Value) -> Option<ResourceKey> {
    let metadata = value.get("metadata")?;
    let name = metadata.get("name")?.as_str()?;
    match kind.scope() {
        Scope::Cluster => Some(ResourceKey::cluster(kind, name)),
        Scope::Namespaced => Some(ResourceKey::namespaced(kind, metadata.get("namespace")?.as_str()?, name)),
    }
}

fn kind_of(document: &Document) -> Result<Kind, Refusal> {
    let text = |name: &str| document.value.get(name).and_then(Value::as_str);
    if !document.value.is_object() {
        return Err(Refusal::Kind(
            "expected a resource: a mapping with apiVersion, kind, metadata and spec".into(),
            Fault::missing(""),
        ));
    }
    let (kind, version) = match (text("kind"), text("apiVersion")) {
        (Some(kind), Some(version)) => (kind, version),
        (None, _) => return Err(Refusal::Kind("the document has no kind".into(), Fault::missing("kind"))),
        (_, None) => return Err(Refusal::Kind("the document has no apiVersion".into(), Fault::missing("apiVersion"))),
    };
    let known = Kind::from_name(kind).filter(|_| version == calico_core::resource::API_VERSION);
    known.ok_or_else(|| {
        let [shown, version] = [kind, version].map(|text| clipped(text.to_owned(), MAX_SHOWN));
        let mut message = format!("unknown resource type ({shown}) and/or version ({version})");
        let is_known = Kind::from_name(kind).is_some();
        if v1::is_older(&document.value) {
            message +=
                "\n  it is of an older form: convert it with calicoctl convert -f FILE, whose output can be applied";
        } else if is_known {
            message += &format!("\n  the version is {}", calico_core::resource::API_VERSION);
        } else if let Some(near) = Kind::nearest(kind) {
            message += &format!("\n  did you mean {near}?");
        }
        let field = if is_known || v1::is_older(&document.value) { "apiVersion" } else { "kind" };
        Refusal::Kind(message, Fault::value(field, None, ""))
    })
}

/// Fills in the namespace of a namespaced kind; a contradiction is a fault.
fn set_namespace(kind: Kind, value: &mut Value, namespace: Option<&str>) -> Result<(), Fault> {
    if kind.scope() == Scope::Cluster {
        return Ok(());
    }
    let Some(members) = value.as_object_mut() else { return Ok(()) };
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Some(metadata) = metadata.as_object_mut() else { return Ok(()) };
    let own = metadata.get("namespace").and_then(Value::as_str).filter(|own| !own.is_empty());
    match (own, namespace) {
        (Some(own), Some(wanted)) if own != wanted => {
            let reason = format!("resource namespace does not match client namespace. {own} != {wanted}");
            Err(Fault::value("metadata.namespace", Some(own.to_owned()), reason))
        }
        (Some(_), _) => Ok(()),
        (None, wanted) => {
            metadata.insert("namespace".into(), wanted.unwrap_or(DEFAULT_NAMESPACE).into());
            Ok(())
        }
    }
}
