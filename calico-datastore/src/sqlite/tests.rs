//! The SQLite store against the suite, and what only a file can get wrong.

use std::sync::Arc;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;
use tempfile::TempDir;

use super::*;
use crate::testing::{Subject, conformance};

/// Two handles of one file, as two processes have.
struct TwoHandles {
    first: SqliteStore,
    second: SqliteStore,
    _directory: TempDir,
}

impl TwoHandles {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calico.db");
        let open = || SqliteStore::open(&path).unwrap();
        Self { first: open(), second: open(), _directory: directory }
    }
}

#[async_trait]
impl Subject for TwoHandles {
    fn first(&self) -> Arc<dyn Datastore> {
        Arc::new(self.first.clone())
    }

    fn second(&self) -> Arc<dyn Datastore> {
        Arc::new(self.second.clone())
    }

    async fn inject(&self, key: &ResourceKey, bytes: &[u8]) {
        self.second.inject(key, bytes).await.unwrap();
    }

    async fn compact(&self) {
        self.second.compact().await.unwrap();
    }
}

#[tokio::test]
async fn conforms() {
    conformance(|| async { Box::new(TwoHandles::new()) as Box<dyn Subject> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_on_several_threads() {
    conformance(|| async { Box::new(TwoHandles::new()) as Box<dyn Subject> }).await;
}
