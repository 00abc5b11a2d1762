//! A datastore that cannot be opened yet.
//!
//! An agent must protect its host before it can read anything: a file that is locked, on a disk that is mounted later, or a
//! certificate that is not there yet is a reason to try again, not to stop. Every request tries to open; who asks has pauses of its
//! own between tries, as for any datastore that does not answer.

use std::sync::Arc;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;
use calico_datastore::{Batch, Committed, Datastore, DatastoreError, Listing, Revision, Scan, Scope, Stored, Watch};
use tokio::sync::OnceCell;

use super::{StoreConfig, open};

/// See the module.
pub struct PatientStore {
    config: StoreConfig,
    store: OnceCell<Arc<dyn Datastore>>,
}

impl PatientStore {
    /// A datastore that is opened by the first request for which it can be.
    pub const fn new(config: StoreConfig) -> Self {
        Self { config, store: OnceCell::const_new() }
    }

    async fn store(&self) -> Result<&Arc<dyn Datastore>, DatastoreError> {
        self.store
            .get_or_try_init(|| open(&self.config))
            .await
            .map_err(|error| DatastoreError::Unavailable { operation: "open it".into(), source: Some(Box::new(error)) })
    }
}

#[async_trait]
impl Datastore for PatientStore {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        self.store().await?.get(key).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        self.store().await?.list(scope).await
    }

    async fn scan(&self, scope: &Scope) -> Result<Box<dyn Scan>, DatastoreError> {
        self.store().await?.scan(scope).await
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        self.store().await?.commit(batch).await
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        self.store().await?.watch(scope, from).await
    }
}
