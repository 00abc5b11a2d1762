//! The reference store: everything in memory, with faults on demand.
//!
//! For tests, examples and embedders without a disk. What the other stores promise is what this one does, in the plainest way:
//! one lock, a sorted map, a log of changes. [`MemoryStore::faults`] makes it misbehave as real stores do.

mod faults;
mod state;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use calico_core::resource::ResourceKey;
use tokio::time::Instant;

pub use self::faults::Faults;
use self::state::State;
use self::watch::MemoryWatch;
use crate::{Batch, Committed, Datastore, DatastoreError, Listing, Revision, Scope, Stored, Watch, document, key};

/// How many changes a watch may lag behind by default.
const HISTORY: usize = 100_000;

/// A store in memory. Clones share it. Life times run on tokio's clock, so they follow a paused test clock.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    faults: Faults,
    /// Tells watches the newest revision; also ticked when a connection is cut.
    wake: tokio::sync::watch::Sender<u64>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::with_history(HISTORY)
    }

    /// An empty store that remembers only so many changes for watches.
    pub fn with_history(changes: usize) -> Self {
        let (wake, _) = tokio::sync::watch::channel(0);
        Self { shared: Arc::new(Shared { state: Mutex::new(State::new(changes)), faults: Faults::default(), wake }) }
    }

    /// The switches that make it fail.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Cuts every running watch and refuses every request, until [`reconnect`](Self::reconnect).
    pub fn disconnect(&self) {
        self.shared.faults.set_connected(false);
        self.shared.wake.send_modify(|_| ());
    }

    /// Serves again.
    pub fn reconnect(&self) {
        self.shared.faults.set_connected(true);
    }

    /// Forgets all history: a watch that has not seen the newest revision gets [`DatastoreError::TooOld`].
    pub fn compact(&self) {
        self.shared.state().compact();
        self.shared.wake.send_modify(|_| ());
    }

    /// Stores bytes as they are, readable or not, as a foreign writer could.
    pub fn inject(&self, key: ResourceKey, bytes: &[u8]) -> Revision {
        let revision = self.shared.state().inject(key, bytes);
        self.shared.wake.send_replace(revision.raw());
        revision
    }
}

impl Shared {
    /// The state is whole after every statement that changes it, so a panic elsewhere under the lock left nothing broken.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state with what has expired removed.
    fn current(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if state.expire(Instant::now()) {
            self.wake.send_replace(state.revision());
        }
        state
    }
}

#[async_trait]
impl Datastore for MemoryStore {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        key::path(key)?;
        self.shared.faults.before("get").await?;
        let entry = self.shared.current().get(key);
        document::readable(entry.ok_or_else(|| DatastoreError::NotFound { key: key.clone() })?)
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        key::range(scope)?;
        self.shared.faults.before("list").await?;
        let listing = self.shared.current().list(scope);
        for _ in 0..self.shared.faults.further_pages(listing.entries.len()) {
            self.shared.faults.before("list").await?;
            if self.shared.state().compacted() > listing.revision.raw() {
                return Err(DatastoreError::TooOld { revision: listing.revision });
            }
        }
        Ok(listing)
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        document::check(&batch)?;
        for write in &batch.writes {
            key::path(&write.key)?;
        }
        self.shared.faults.before("commit").await?;
        self.shared.faults.conflict(&batch)?;
        let committed = {
            let mut state = self.shared.current();
            let committed = state.commit(batch, Instant::now())?;
            self.shared.wake.send_replace(state.revision());
            committed
        };
        self.shared.faults.after_commit()?;
        Ok(committed)
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        key::range(scope)?;
        self.shared.faults.before("watch").await?;
        let state = self.shared.current();
        if from.raw() < state.compacted() {
            return Err(DatastoreError::TooOld { revision: from });
        }
        Ok(Box::new(MemoryWatch::new(Arc::clone(&self.shared), scope.clone(), from)))
    }
}
