//! Changes to the datastore, one resource at a time.

use std::sync::Arc;

use calico_core::resource::{Metadata, merge_newer};
use calico_datastore::{
    Batch, Change, Clock, Datastore, DatastoreError, IdSource, Precondition, Revision, Stored, Write,
};

use crate::failure::chain;
use crate::input::Item;

/// How often an update that met another writer is tried again.
const ATTEMPTS: usize = 5;

/// What happened to one resource.
pub(crate) type Outcome = Result<Done, String>;

/// A change that was carried out, or was not needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Changed,
    Skipped,
}

/// Writes on behalf of an operator.
pub(crate) struct Writer<'a> {
    pub(crate) store: &'a dyn Datastore,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) ids: &'a dyn IdSource,
}

impl Writer<'_> {
    /// Creates the resource; with `skip_exists`, leaves an existing one alone.
    pub(crate) async fn create(&self, item: &Item, skip_exists: bool) -> Outcome {
        match self.try_create(item).await {
            Ok(()) => Ok(Done::Changed),
            Err(DatastoreError::AlreadyExists { .. }) if skip_exists => Ok(Done::Skipped),
            Err(error) => Err(chain(&error)),
        }
    }

    /// Creates the resource, or updates it.
    pub(crate) async fn apply(&self, item: &Item) -> Outcome {
        match self.try_create(item).await {
            Ok(()) => Ok(Done::Changed),
            Err(DatastoreError::AlreadyExists { .. }) => self.replace(item).await,
            Err(error) => Err(chain(&error)),
        }
    }

    /// Updates the resource. With a resource version, only that version.
    pub(crate) async fn replace(&self, item: &Item) -> Outcome {
        if item.kind.is_built_in(item.key.name().unwrap_or_default()) {
            return Err(format!("operation Update is not supported on {}", item.key));
        }
        let mut attempt = 1;
        loop {
            let stored = self.store.get(&item.key).await.map_err(|error| chain(&error))?;
            let revision = wanted_revision(item, &stored)?;
            match self.try_update(item, &stored, revision).await {
                Ok(()) => return Ok(Done::Changed),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(chain(&error)),
            }
        }
    }

    /// Deletes by key.
    pub(crate) async fn delete(&self, key: &calico_core::resource::ResourceKey, skip_not_exists: bool) -> Outcome {
        if key.kind().is_built_in(key.name().unwrap_or_default()) {
            return Err(format!("operation Delete is not supported on {key}"));
        }
        let write = Write { key: key.clone(), precondition: Precondition::Present, change: Change::Delete };
        match self.store.commit(Batch { writes: vec![write] }).await {
            Ok(_) => Ok(Done::Changed),
            Err(error) if error.is_not_found() && skip_not_exists => Ok(Done::Skipped),
            Err(error) => Err(chain(&error)),
        }
    }

    async fn try_create(&self, item: &Item) -> Result<(), DatastoreError> {
        if item.kind.is_built_in(item.key.name().unwrap_or_default()) {
            return Err(DatastoreError::AlreadyExists { key: item.key.clone(), current: None });
        }
        let mut resource = item.resource.clone();
        if let Some(metadata) = resource.metadata_mut() {
            *metadata = Metadata {
                uid: Some(uuid(self.ids.draw())),
                creation_timestamp: Some(self.clock.now().rfc3339()),
                resource_version: None,
                ..std::mem::take(metadata)
            };
        }
        self.put(item, resource, item.given.clone(), Precondition::Absent).await
    }

    async fn try_update(&self, item: &Item, stored: &Stored, revision: Revision) -> Result<(), DatastoreError> {
        let mut resource = item.resource.clone();
        if let (Some(metadata), Some(old)) = (resource.metadata_mut(), stored.resource.metadata()) {
            let uid = old.uid.clone().unwrap_or_else(|| uuid(self.ids.draw()));
            let created = old.creation_timestamp.clone().unwrap_or_else(|| self.clock.now().rfc3339());
            metadata.uid = Some(uid);
            metadata.creation_timestamp = Some(created);
            metadata.resource_version = None;
        }
        let base = merge_newer(item.kind, &stored.raw, item.given.clone());
        self.put(item, resource, base, Precondition::At(revision)).await
    }

    async fn put(
        &self,
        item: &Item,
        resource: calico_core::resource::Resource,
        base: serde_json::Value,
        precondition: Precondition,
    ) -> Result<(), DatastoreError> {
        let change = Change::Put { resource: Arc::new(resource), base: Some(Arc::new(base)), ttl: None };
        let write = Write { key: item.key.clone(), precondition, change };
        self.store.commit(Batch { writes: vec![write] }).await.map(drop)
    }
}

/// The revision that the operator read, if the document says so; else the present one.
fn wanted_revision(item: &Item, stored: &Stored) -> Result<Revision, String> {
    let given = item.resource.metadata().and_then(|metadata| metadata.resource_version.as_deref());
    match given.filter(|version| !version.is_empty()) {
        Some(version) if version != stored.revision.to_string() => Err(format!(
            "update conflict: {}: the document has resource version {version}, the datastore has {}: get it again",
            item.key, stored.revision
        )),
        _ => Ok(stored.revision),
    }
}

/// A random UUID (version 4) of 128 random bits.
fn uuid(bits: u128) -> String {
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_has_its_standard_form() {
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
    }
}
