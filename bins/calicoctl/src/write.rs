//! Changes to the datastore, one resource at a time.

use calico_cmd::output::chain;
use calico_core::resource::Resource;
use calico_datastore::DatastoreError;
use calico_datastore::client::{Client, ClientError, Draft};

use crate::input::Item;
use crate::spoilt;

/// What happened to one resource. Of a text, the first line is upstream's, and the others are ours.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// Why it was not done.
    Failed(String),
    /// The same, of a store that would most likely fail alike whatever comes next.
    Stopped(String),
    /// The store took it, or may have.
    Undecided(String),
    /// An earlier one was stopped.
    Untried,
}

impl Outcome {
    /// Of what was tried on this resource, or by name only.
    pub(crate) fn of(result: Result<(), ClientError>, resource: Option<&Resource>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => {
                let text = told(&error, resource);
                match error {
                    error if error.is_undecided() => Self::Undecided(text),
                    error if error.is_of_store() => Self::Stopped(text),
                    _ => Self::Failed(text),
                }
            }
        }
    }

    /// Whether it is of no use to go on.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::Stopped(_) | Self::Undecided(_) | Self::Untried)
    }
}

/// Creates the resource; with `skip_exists`, leaves an existing one alone.
pub(crate) async fn create(client: &Client, item: &Item, skip_exists: bool) -> Outcome {
    let created = match client.create(draft(item)).await {
        Err(error) if skip_exists && spoilt::exists_readable(&error) => Ok(()),
        other => other.map(drop),
    };
    Outcome::of(created, Some(&item.resource))
}

/// Creates the resource, or updates it.
pub(crate) async fn apply(client: &Client, item: &Item) -> Outcome {
    Outcome::of(client.apply(draft(item)).await.map(drop), Some(&item.resource))
}

/// Updates the resource, or puts it in the place of what cannot be read.
pub(crate) async fn replace(client: &Client, item: &Item) -> Outcome {
    let replaced = match item.rehearsed.mends {
        Some(_) => client.mend(draft(item)).await,
        None => client.update(draft(item)).await,
    };
    Outcome::of(replaced.map(drop), Some(&item.resource))
}

/// The outcome of a deletion.
pub(crate) fn deleted(result: Result<(), ClientError>, skip_not_exists: bool) -> Outcome {
    match result {
        Err(error) if error.is_not_found() && skip_not_exists => Outcome::Done,
        other => Outcome::of(other, None),
    }
}

/// Identity and time of creation in a document are those of the cluster that printed it.
pub(crate) fn draft(item: &Item) -> Draft {
    let mut resource: Resource = item.resource.clone();
    if let Some(metadata) = resource.metadata_mut() {
        metadata.uid = None;
        metadata.creation_timestamp = None;
    }
    Draft { resource, document: Some(item.document.value.clone()) }
}

/// The error; for an outdated document both versions, and below it what can be done about what cannot be read.
pub(crate) fn told(error: &ClientError, written: Option<&Resource>) -> String {
    let metadata = written.and_then(Resource::metadata);
    let given = metadata.and_then(|metadata| metadata.resource_version.as_deref());
    match (error, given) {
        (ClientError::Store(DatastoreError::Conflict { current: Some(current), .. }), Some(given)) => format!(
            "{error}: the document has resource version {given}, the datastore has {}: get it again, or leave the version out",
            current.revision
        ),
        _ => chain(error) + &spoilt::way_out_of(error),
    }
}
