//! A watch on the memory store: a cursor in the log.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use super::Shared;
use super::faults::unavailable;
use crate::{DatastoreError, Revision, Scope, Watch, WatchEvent};

pub(super) struct MemoryWatch {
    shared: Arc<Shared>,
    scope: Scope,
    cursor: u64,
    connection: u64,
    buffer: VecDeque<WatchEvent>,
    wake: tokio::sync::watch::Receiver<u64>,
}

impl MemoryWatch {
    pub(super) fn new(shared: Arc<Shared>, scope: Scope, from: Revision) -> Self {
        let connection = shared.faults.connection();
        let wake = shared.wake.subscribe();
        Self { shared, scope, cursor: from.raw(), connection, buffer: VecDeque::new(), wake }
    }

    /// Takes what the log has; answers when the next key expires.
    fn fill(&mut self) -> Result<Option<Instant>, DatastoreError> {
        // Before anything is looked at, or a disconnection in between would wake nobody.
        self.wake.mark_unchanged();
        if self.connection != self.shared.faults.connection() {
            return Err(unavailable("watch", "disconnected"));
        }
        let state = self.shared.current();
        if self.cursor < state.compacted() {
            return Err(DatastoreError::TooOld { revision: Revision::from_raw(self.cursor) });
        }
        self.buffer.extend(state.changes(&self.scope, self.cursor).cloned());
        self.cursor = state.revision();
        Ok(state.next_expiry())
    }
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn next(&mut self) -> Result<WatchEvent, DatastoreError> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                return Ok(event);
            }
            let expiry = self.fill()?;
            if !self.buffer.is_empty() {
                continue;
            }
            let expired = async {
                match expiry {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.wake.changed() => {
                    if changed.is_err() {
                        return Err(unavailable("watch", "the store is gone"));
                    }
                }
                () = expired => {}
            }
        }
    }
}
