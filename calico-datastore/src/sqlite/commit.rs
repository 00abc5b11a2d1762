//! One batch inside a write transaction.

use std::time::Duration;

use calico_core::resource::ResourceKey;
use rusqlite::{Connection, OptionalExtension, params};

use super::query::{self, signed, unsigned};
use crate::key::{self, PathRange};
use crate::{Batch, Change, Committed, DatastoreError, Precondition, Revision, Scope, Stored, document};

/// A batch ready to be written: paths and bytes made on the caller's thread.
pub(super) struct Prepared {
    pub(super) writes: Vec<PreparedWrite>,
}

pub(super) struct PreparedWrite {
    key: ResourceKey,
    path: String,
    precondition: Precondition,
    /// Where nothing may be newer, and than what.
    guard: Option<(PathRange, Revision)>,
    put: Option<Put>,
}

struct Put {
    value: Vec<u8>,
    ttl: Option<Duration>,
}

/// Why a batch was not written: somebody's answer, or SQLite's trouble.
pub(super) enum Failure {
    Refused(DatastoreError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

pub(super) fn prepare(batch: Batch) -> Result<Prepared, DatastoreError> {
    let prepare = |write: crate::Write| {
        Ok(PreparedWrite {
            path: key::path(&write.key)?,
            key: write.key,
            precondition: write.precondition,
            guard: match write.precondition.guard() {
                Some((kind, than)) => Some((key::range(&Scope::Kind(kind))?, than)),
                None => None,
            },
            put: match write.change {
                Change::Delete => None,
                Change::Put { resource, base, ttl } => {
                    Some(Put { value: document::to_bytes(&document::encode(&resource, base.as_deref())), ttl })
                }
            },
        })
    };
    let writes = batch.writes.into_iter().map(prepare).collect::<Result<_, DatastoreError>>()?;
    Ok(Prepared { writes })
}

/// Carries out a batch. A refused one has written nothing: all preconditions are checked before the first write.
pub(super) fn apply(connection: &Connection, batch: &Prepared, now: i64) -> Result<Vec<Committed>, Failure> {
    let mut changes = false;
    for write in &batch.writes {
        let present = present(connection, write)?;
        let is_newer = match &write.guard {
            Some((range, than)) => is_newer(connection, range, *than)?,
            None => false,
        };
        if let Err(refusal) = write.precondition.admit(present, is_newer) {
            return Err(Failure::Refused(refusal.into_error(&write.key, current(connection, write)?)));
        }
        changes |= write.put.is_some() || present.is_some();
    }
    let revision = if changes { advance(connection)? } else { query::state(connection)?.0 };
    let commit = |(position, write): (i64, &PreparedWrite)| {
        let previous = write_one(connection, (revision, position), write, now)?;
        Ok(Committed { revision: Revision::from_raw(revision), previous })
    };
    (0..).zip(&batch.writes).map(commit).collect()
}

/// Carries out one write, at a revision and a position within it; answers with what a delete removed.
fn write_one(
    connection: &Connection,
    at: (u64, i64),
    write: &PreparedWrite,
    now: i64,
) -> rusqlite::Result<Option<Box<Stored>>> {
    if let Some(put) = &write.put {
        store(connection, at, &write.path, &put.value, expiry(put.ttl, now))?;
        return Ok(None);
    }
    if present(connection, write)?.is_none() {
        return Ok(None);
    }
    let previous = current(connection, write)?;
    remove(connection, at, &write.path)?;
    Ok(previous.map(Box::new))
}

/// Deletes what has expired, each at a revision of its own; whether there was anything.
pub(super) fn expire(connection: &Connection, now: i64) -> rusqlite::Result<bool> {
    let expired: Vec<String> = connection
        .prepare_cached("SELECT path FROM object WHERE expires IS NOT NULL AND expires <= ?1 ORDER BY expires, path")?
        .query_map([now], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for path in &expired {
        let revision = advance(connection)?;
        remove(connection, (revision, 0), path)?;
    }
    Ok(!expired.is_empty())
}

/// How much of the log is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct History {
    pub(super) revisions: u64,
    pub(super) bytes: u64,
}

impl History {
    /// Trims the log to this much, once it has grown an eighth beyond: so few commits remove anything, and each change is looked at
    /// once for that. The newest revision stays, however large it is: watches that keep up must not be told that they are late.
    pub(super) fn keep(self, connection: &Connection) -> rusqlite::Result<()> {
        let exceeds = |length: u64, limit: u64| length > limit.saturating_add(limit / 8);
        let (newest, trimmed) = query::state(connection)?;
        let mut upto = trimmed;
        if exceeds(newest.saturating_sub(trimmed), self.revisions) {
            upto = newest.saturating_sub(self.revisions);
        }
        let bytes = query::log_bytes(connection)?;
        if exceeds(bytes, self.bytes) {
            upto = upto.max(end_of_oldest(connection, bytes.saturating_sub(self.bytes))?);
        }
        forget(connection, upto.min(newest.saturating_sub(1)))
    }
}

/// The last revision of the oldest changes that have at least so many bytes together.
fn end_of_oldest(connection: &Connection, bytes: u64) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(
        "SELECT revision, length(CAST(path AS BLOB)) + coalesce(length(value), 0) FROM change ORDER BY revision, position",
    )?;
    let mut rows = statement.query([])?;
    let (mut end, mut found) = (0, 0_u64);
    while found < bytes
        && let Some(row) = rows.next()?
    {
        end = unsigned(row.get(0)?);
        found = found.saturating_add(unsigned(row.get(1)?));
    }
    Ok(end)
}

/// Removes the changes up to a revision from the log.
pub(super) fn forget(connection: &Connection, upto: u64) -> rusqlite::Result<()> {
    if upto > query::state(connection)?.1 {
        connection.prepare_cached("DELETE FROM change WHERE revision <= ?1")?.execute([signed(upto)])?;
        connection.prepare_cached("UPDATE state SET trimmed = ?1 WHERE id = 1")?.execute([signed(upto)])?;
    }
    Ok(())
}

/// Stores bytes under a path at the next revision.
#[cfg(any(test, feature = "testing"))]
pub(super) fn inject(connection: &Connection, path: &str, value: &[u8]) -> rusqlite::Result<()> {
    let revision = advance(connection)?;
    store(connection, (revision, 0), path, value, None)
}

/// The revision at which a key is present.
fn present(connection: &Connection, write: &PreparedWrite) -> rusqlite::Result<Option<Revision>> {
    connection
        .prepare_cached("SELECT revision FROM object WHERE path = ?1")?
        .query_row([&write.path], |row| row.get(0).map(unsigned).map(Revision::from_raw))
        .optional()
}

/// Whether anything in a range was written after a revision.
fn is_newer(connection: &Connection, range: &PathRange, than: Revision) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM object WHERE path >= ?1 AND path < ?2 AND revision > ?3)")?
        .query_row(params![range.start, range.end, signed(than.raw())], |row| row.get(0))
}

/// What is under a key, if it can be read.
fn current(connection: &Connection, write: &PreparedWrite) -> rusqlite::Result<Option<Stored>> {
    let entry = connection
        .prepare_cached("SELECT value, revision FROM object WHERE path = ?1")?
        .query_row([&write.path], |row| {
            let revision = Revision::from_raw(unsigned(row.get(1)?));
            Ok(document::decode(write.key.clone(), row.get_ref(0)?.as_blob()?, revision))
        })
        .optional()?;
    Ok(entry.and_then(Result::ok))
}

/// Takes the next revision.
fn advance(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("UPDATE state SET revision = revision + 1 WHERE id = 1 RETURNING revision")?
        .query_row([], |row| row.get(0).map(unsigned))
}

fn store(
    connection: &Connection,
    at: (u64, i64),
    path: &str,
    value: &[u8],
    expires: Option<i64>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO object VALUES (?1, ?2, ?3, ?4) ON CONFLICT (path)
             DO UPDATE SET value = excluded.value, revision = excluded.revision, expires = excluded.expires",
        )?
        .execute(params![path, value, signed(at.0), expires])?;
    record(connection, at, path, Some(value))
}

fn remove(connection: &Connection, at: (u64, i64), path: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM object WHERE path = ?1")?.execute([path])?;
    record(connection, at, path, None)
}

fn record(connection: &Connection, at: (u64, i64), path: &str, value: Option<&[u8]>) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO change VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![signed(at.0), at.1, path, value])
        .map(drop)
}

/// Life times are leases of whole seconds, at least one, as etcd's are.
fn expiry(ttl: Option<Duration>, now: i64) -> Option<i64> {
    ttl.map(|ttl| now.saturating_add(signed(ttl.as_secs().max(1)).saturating_mul(1000)))
}
