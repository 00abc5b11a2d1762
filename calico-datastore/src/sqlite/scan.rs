//! A listing in parts, all at the revision of the first: a few hundred objects are in memory at once, however many there are.
//!
//! A connection of its own keeps one read transaction open from the first part to the last. It takes a reader's turn only while it
//! reads, so that whoever reads the store between two parts does not wait for itself. Until it ends, the write-ahead log keeps what was
//! written since it began: whoever begins a scan finishes or drops it.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;

use super::SqliteError;
use super::connection::{FileId, Readers};
use super::query::{self, Part};
use crate::key::{self, PathRange};
use crate::{DatastoreError, Entry, Revision, Scan, Scope};

const OPERATION: &str = "list";

pub(super) struct SqliteScan {
    readers: Arc<Readers>,
    revision: Revision,
    /// What was read and not handed over yet.
    ready: Vec<Entry>,
    rest: Rest,
}

/// What is left to be read.
enum Rest {
    Reading(Box<Cursor>),
    /// A read failed, or nobody waited for its end.
    Lost,
    Nothing,
}

/// Where a reading stands.
struct Cursor {
    scope: Scope,
    /// What is left of the scope's range.
    range: PathRange,
    now: i64,
    file: FileId,
    /// In a transaction.
    connection: Connection,
}

impl SqliteScan {
    /// Reads the first part.
    pub(super) async fn open(readers: Arc<Readers>, scope: Scope, now: i64) -> Result<Self, DatastoreError> {
        let range = key::range(&scope)?;
        let first = readers.work(OPERATION, move |readers| {
            let (file, connection) = readers.take()?;
            let begun = connection.execute_batch("BEGIN").and_then(|()| query::state(&connection));
            let (revision, _) = begun.map_err(|source| readers.failed(source))?;
            let cursor = Cursor { scope, range, now, file, connection };
            Ok((revision, cursor.advance(readers)?))
        });
        let (revision, (ready, rest)) = first.await?;
        Ok(Self { readers, revision: Revision::from_raw(revision), ready, rest })
    }
}

impl Cursor {
    /// The next part, and what is left behind it.
    fn advance(mut self, readers: &Readers) -> Result<(Vec<Entry>, Rest), SqliteError> {
        let read = query::part(&self.connection, &self.scope, &self.range, self.now);
        let Part { entries, next } = read.map_err(|source| readers.failed(source))?;
        let Some(next) = next else {
            self.connection.execute_batch("COMMIT").map_err(|source| readers.failed(source))?;
            readers.keep(self.file, self.connection);
            return Ok((entries, Rest::Nothing));
        };
        self.range.start = next;
        Ok((entries, Rest::Reading(Box::new(self))))
    }
}

#[async_trait]
impl Scan for SqliteScan {
    fn revision(&self) -> Revision {
        self.revision
    }

    async fn next(&mut self) -> Result<Option<Vec<Entry>>, DatastoreError> {
        loop {
            if !self.ready.is_empty() {
                return Ok(Some(std::mem::take(&mut self.ready)));
            }
            match std::mem::replace(&mut self.rest, Rest::Lost) {
                Rest::Reading(cursor) => {
                    (self.ready, self.rest) = self.readers.work(OPERATION, |readers| cursor.advance(readers)).await?;
                }
                Rest::Lost => {
                    return Err(DatastoreError::Unavailable { operation: OPERATION.to_owned(), source: None });
                }
                Rest::Nothing => {
                    self.rest = Rest::Nothing;
                    return Ok(None);
                }
            }
        }
    }
}
