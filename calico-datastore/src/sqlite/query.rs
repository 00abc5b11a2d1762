//! Reads: one object, a picture, the changes since a revision. Each is one read transaction, so one revision.

use calico_core::resource::ResourceKey;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::key::{self, PathRange};
use crate::{Entry, Listing, Revision, Scope, WatchEvent, document};

/// Most changes that one read of the log takes.
const PAGE: i64 = 1024;

/// What the log has after a revision.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) newest: u64,
    /// The revision up to which the log was trimmed.
    pub(super) trimmed: u64,
    /// When the next object expires, in milliseconds since 1970.
    pub(super) next_expiry: Option<i64>,
    /// None when the log no longer reaches back to the revision, or never had it (that of a file that was here before).
    pub(super) page: Option<Page>,
}

/// Changes of a scope, in order.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) events: Vec<WatchEvent>,
    /// The revision up to which this is complete.
    pub(super) upto: u64,
}

pub(super) fn get(connection: &Connection, path: &str, now: i64) -> rusqlite::Result<Option<(Vec<u8>, u64)>> {
    connection
        .prepare_cached("SELECT value, revision FROM object WHERE path = ?1 AND (expires IS NULL OR expires > ?2)")?
        .query_row(params![path, now], |row| Ok((row.get(0)?, unsigned(row.get(1)?))))
        .optional()
}

pub(super) fn list(
    connection: &mut Connection,
    scope: &Scope,
    range: &PathRange,
    now: i64,
) -> rusqlite::Result<Listing> {
    let transaction = connection.transaction()?;
    let (revision, _) = state(&transaction)?;
    let mut entries = Vec::new();
    {
        let mut statement = transaction.prepare_cached(
            "SELECT path, value, revision FROM object
             WHERE path >= ?1 AND path < ?2 AND (expires IS NULL OR expires > ?3)",
        )?;
        let mut rows = statement.query(params![range.start, range.end, now])?;
        while let Some(row) = rows.next()? {
            if let Some(key) = key_at(row, 0)?
                && scope.contains(&key)
            {
                let revision = Revision::from_raw(unsigned(row.get(2)?));
                entries.push((key.clone(), document::decode(key, row.get_ref(1)?.as_blob()?, revision)));
            }
        }
    }
    transaction.commit()?;
    // Paths and keys sort differently (addresses as text or as numbers).
    entries.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    Ok(Listing { entries, revision: Revision::from_raw(revision) })
}

/// Most objects of a part of a picture.
const PART: usize = 128;

/// A part of a picture.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) entries: Vec<Entry>,
    /// Where the next one begins, if there may be more.
    pub(super) next: Option<String>,
}

/// Objects of a scope from the start of a range on, in the order of their paths. The caller has a transaction open.
pub(super) fn part(connection: &Connection, scope: &Scope, range: &PathRange, now: i64) -> rusqlite::Result<Part> {
    let mut statement = connection.prepare_cached(
        "SELECT path, value, revision FROM object
         WHERE path >= ?1 AND path < ?2 AND (expires IS NULL OR expires > ?3) ORDER BY path",
    )?;
    let mut rows = statement.query(params![range.start, range.end, now])?;
    let (mut entries, mut seen) = (Vec::new(), 0_usize);
    while let Some(row) = rows.next()? {
        seen += 1;
        // A path that is no text, as a foreign writer can store it, is no place to begin again.
        let Ok(path) = row.get_ref(0)?.as_str() else { continue };
        if let Some(key) = key::parse(path).filter(|key| scope.contains(key)) {
            let revision = Revision::from_raw(unsigned(row.get(2)?));
            entries.push(document::decode(key, row.get_ref(1)?.as_blob()?, revision));
        }
        if seen >= PART {
            return Ok(Part { entries, next: Some(format!("{path}\0")) });
        }
    }
    Ok(Part { entries, next: None })
}

pub(super) fn changes(
    connection: &mut Connection,
    scope: &Scope,
    range: &PathRange,
    after: u64,
) -> rusqlite::Result<Changes> {
    let transaction = connection.transaction()?;
    let (newest, trimmed) = state(&transaction)?;
    let page = if (trimmed..=newest).contains(&after) {
        let mut events = Vec::new();
        let mut upto = newest;
        if after < newest {
            upto = page_end(&transaction, after)?.map_or(newest, |until| until.min(newest));
            collect(&transaction, scope, range, (after, upto), &mut events)?;
        }
        Some(Page { events, upto })
    } else {
        None
    };
    let next_expiry = next_expiry(&transaction)?;
    transaction.commit()?;
    Ok(Changes { newest, trimmed, next_expiry, page })
}

/// The events of a scope in the revisions after `span.0`, up to `span.1`.
fn collect(
    transaction: &Transaction<'_>,
    scope: &Scope,
    range: &PathRange,
    span: (u64, u64),
    events: &mut Vec<WatchEvent>,
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "SELECT revision, path, value FROM change
         WHERE revision > ?1 AND revision <= ?2 AND path >= ?3 AND path < ?4 ORDER BY revision, position",
    )?;
    let mut rows = statement.query(params![signed(span.0), signed(span.1), range.start, range.end])?;
    while let Some(row) = rows.next()? {
        let Some(key) = key_at(row, 1)?.filter(|key| scope.contains(key)) else { continue };
        let revision = Revision::from_raw(unsigned(row.get(0)?));
        events.push(match row.get_ref(2)?.as_blob_or_null()? {
            Some(bytes) => WatchEvent::Put(document::decode(key, bytes, revision)),
            None => WatchEvent::Deleted { key, revision },
        });
    }
    Ok(())
}

/// The key at the path in a column; a path that is no text, as a foreign writer can store it, is no key.
fn key_at(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<ResourceKey>> {
    Ok(row.get_ref(column)?.as_str().ok().and_then(key::parse))
}

/// The revision of the last change in the next page; whole revisions only, so that no cursor ever stands inside a batch.
fn page_end(transaction: &Transaction<'_>, after: u64) -> rusqlite::Result<Option<u64>> {
    transaction
        .prepare_cached(
            "SELECT revision FROM change WHERE revision > ?1 ORDER BY revision, position LIMIT 1 OFFSET ?2",
        )?
        .query_row(params![signed(after), PAGE], |row| row.get(0).map(unsigned))
        .optional()
}

pub(super) fn next_expiry(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT min(expires) FROM object WHERE expires IS NOT NULL")?
        .query_row([], |row| row.get(0))
}

/// How many bytes of paths and documents the log has.
pub(super) fn log_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    connection.prepare_cached("SELECT bytes FROM state WHERE id = 1")?.query_row([], |row| row.get(0).map(unsigned))
}

/// Newest revision, and the one up to which the log was trimmed.
pub(super) fn state(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    connection
        .prepare_cached("SELECT revision, trimmed FROM state WHERE id = 1")?
        .query_row([], |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
}

/// SQLite's integers are signed; revisions never get near the difference.
pub(super) fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}
