//! Faults on demand, as real stores have them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::{Batch, DatastoreError};

/// Switches that make a [`MemoryStore`](super::MemoryStore) fail.
#[derive(Debug)]
pub struct Faults {
    connected: AtomicBool,
    /// Counts disconnections: a watch belongs to the connection on which it was opened.
    connection: AtomicU64,
    latency_micros: AtomicU64,
    /// Objects in one page of a listing; zero for all.
    page: AtomicUsize,
    failures: AtomicU32,
    conflicts: AtomicU32,
    lost_answers: AtomicU32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            connected: AtomicBool::new(true),
            connection: AtomicU64::new(0),
            latency_micros: AtomicU64::new(0),
            page: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
            conflicts: AtomicU32::new(0),
            lost_answers: AtomicU32::new(0),
        }
    }
}

impl Faults {
    /// Every request takes so long, on tokio's clock.
    pub fn set_latency(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_micros.store(micros, Ordering::Relaxed);
    }

    /// Listings are read in pages of so many objects, all at one revision; zero reads all at once. Each page is a request of its own:
    /// it takes its time, and what fails between two of them (a disconnection, a compaction) leaves a part of a listing, which is none.
    pub fn set_page(&self, objects: usize) {
        self.page.store(objects, Ordering::Relaxed);
    }

    /// The next `count` requests of any sort fail as unavailable, and do nothing.
    pub fn fail_next(&self, count: u32) {
        self.failures.store(count, Ordering::Relaxed);
    }

    /// The next `count` commits fail with a conflict on their first write, and do nothing.
    pub fn conflict_next(&self, count: u32) {
        self.conflicts.store(count, Ordering::Relaxed);
    }

    /// The next `count` commits are carried out, but their answer is lost: they fail as unavailable.
    pub fn lose_answer_next(&self, count: u32) {
        self.lost_answers.store(count, Ordering::Relaxed);
    }

    pub(super) fn set_connected(&self, connected: bool) {
        if !connected {
            self.connection.fetch_add(1, Ordering::Relaxed);
        }
        self.connected.store(connected, Ordering::Relaxed);
    }

    pub(super) fn connection(&self) -> u64 {
        self.connection.load(Ordering::Relaxed)
    }

    pub(super) async fn before(&self, operation: &str) -> Result<(), DatastoreError> {
        let latency = self.latency_micros.load(Ordering::Relaxed);
        if latency > 0 {
            tokio::time::sleep(Duration::from_micros(latency)).await;
        }
        if !self.connected.load(Ordering::Relaxed) {
            return Err(unavailable(operation, "disconnected"));
        }
        if take(&self.failures) {
            return Err(unavailable(operation, "injected failure"));
        }
        Ok(())
    }

    /// How many requests a listing takes beyond the first.
    pub(super) fn further_pages(&self, objects: usize) -> usize {
        match self.page.load(Ordering::Relaxed) {
            0 => 0,
            page => objects.div_ceil(page).saturating_sub(1),
        }
    }

    pub(super) fn conflict(&self, batch: &Batch) -> Result<(), DatastoreError> {
        match batch.writes.first() {
            Some(write) if take(&self.conflicts) => {
                Err(DatastoreError::Conflict { key: write.key.clone(), current: None })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn after_commit(&self) -> Result<(), DatastoreError> {
        if take(&self.lost_answers) { Err(unavailable("commit", "injected: answer lost")) } else { Ok(()) }
    }
}

pub(super) fn unavailable(operation: &str, reason: &str) -> DatastoreError {
    DatastoreError::Unavailable { operation: operation.to_owned(), source: Some(reason.into()) }
}

/// Takes one from a counter, if there is one.
fn take(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}
