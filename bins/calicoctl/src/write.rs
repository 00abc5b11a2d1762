//! Changes to the datastore, one resource at a time.

use calico_cmd::output::chain;
use calico_core::resource::Resource;
use calico_datastore::DatastoreError;
use calico_datastore::client::{Client, ClientError, Draft};

use crate::input::Item;

/// What happened to one resource.
pub(crate) type Outcome = Result<(), String>;

/// Creates the resource; with `skip_exists`, leaves an existing one alone.
pub(crate) async fn create(client: &Client, item: &Item, skip_exists: bool) -> Outcome {
    match client.create(draft(item)).await {
        Ok(_) => Ok(()),
        Err(ClientError::Store(DatastoreError::AlreadyExists { .. })) if skip_exists => Ok(()),
        Err(error) => Err(told(&error, &item.resource)),
    }
}

/// Creates the resource, or updates it.
pub(crate) async fn apply(client: &Client, item: &Item) -> Outcome {
    client.apply(draft(item)).await.map(drop).map_err(|error| told(&error, &item.resource))
}

/// Updates the resource.
pub(crate) async fn replace(client: &Client, item: &Item) -> Outcome {
    client.update(draft(item)).await.map(drop).map_err(|error| told(&error, &item.resource))
}

/// The outcome of a deletion.
pub(crate) fn deleted(result: Result<(), ClientError>, skip_not_exists: bool) -> Outcome {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() && skip_not_exists => Ok(()),
        Err(error) => Err(chain(&error)),
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

/// The error, and for an outdated document both versions.
pub(crate) fn told(error: &ClientError, written: &Resource) -> String {
    let given = written.metadata().and_then(|metadata| metadata.resource_version.as_deref());
    match (error, given) {
        (ClientError::Store(DatastoreError::Conflict { current: Some(current), .. }), Some(given)) => format!(
            "{error}: the document has resource version {given}, the datastore has {}: get it again, or leave the version out",
            current.revision
        ),
        _ => chain(error),
    }
}
