//! The tables, and how older files become current ones.
//!
//! | Table | Holds |
//! |---|---|
//! | `object` | the objects, by path |
//! | `change` | what each revision changed, oldest trimmed |
//! | `state` | one row: newest revision, up to where the log was trimmed, and how many bytes it has, counted by triggers |
//! | `migration` | when each schema version was applied |
//!
//! The version is also the file's `user_version`, so that opening a current file reads nothing but its header.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{SqliteError, query};
use crate::{IdSource, SystemIds};

/// `CALI`: marks the file as ours.
const APPLICATION_ID: i32 = 0x4341_4c49;

/// Version by version, what turns its predecessor into it. Never edit one that was released: add the next.
const MIGRATIONS: [&str; 2] = [FIRST, SIZE_OF_LOG];

const FIRST: &str = "
    CREATE TABLE migration (version INTEGER PRIMARY KEY, applied TEXT NOT NULL) STRICT;
    CREATE TABLE object (
        path TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, expires INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX object_expires ON object (expires) WHERE expires IS NOT NULL;
    CREATE TABLE change (
        revision INTEGER NOT NULL, position INTEGER NOT NULL, path TEXT NOT NULL, value BLOB,
        PRIMARY KEY (revision, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE state (
        id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, trimmed INTEGER NOT NULL
    ) STRICT;
    INSERT INTO state VALUES (1, 1, 1);
";

/// Triggers, so that programs of the version before, which may have the file open meanwhile, count as well.
const SIZE_OF_LOG: &str = "
    ALTER TABLE state ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE state SET bytes = (SELECT coalesce(sum(length(CAST(path AS BLOB)) + coalesce(length(value), 0)), 0) FROM change);
    CREATE TRIGGER change_comes AFTER INSERT ON change BEGIN
        UPDATE state SET bytes = bytes + length(CAST(new.path AS BLOB)) + coalesce(length(new.value), 0);
    END;
    CREATE TRIGGER change_goes AFTER DELETE ON change BEGIN
        UPDATE state SET bytes = bytes - length(CAST(old.path AS BLOB)) - coalesce(length(old.value), 0);
    END;
";

/// Makes the tables of a new file.
pub(super) fn fill(connection: &mut Connection, path: &Path, ids: Option<&dyn IdSource>) -> Result<(), SqliteError> {
    fill_by(&MIGRATIONS, connection, path, ids)
}

/// Brings the file to the newest version; refuses what is not ours or too new, and what lost its tables.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), SqliteError> {
    migrate_by(&MIGRATIONS, connection, path)
}

fn fill_by(
    migrations: &[&str],
    connection: &mut Connection,
    path: &Path,
    ids: Option<&dyn IdSource>,
) -> Result<(), SqliteError> {
    let failed = |source| SqliteError::new(path, source);
    let first = first_revision(ids).map_err(|source| SqliteError::Open { path: path.to_owned(), source })?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    advance(&transaction, migrations, 0).map_err(failed)?;
    let begin = "UPDATE state SET revision = ?1, trimmed = ?1 WHERE id = 1";
    transaction.execute(begin, [query::signed(first)]).map_err(failed)?;
    transaction.commit().map_err(failed)
}

fn migrate_by(migrations: &[&str], connection: &mut Connection, path: &Path) -> Result<(), SqliteError> {
    let failed = |source| SqliteError::new(path, source);
    let known = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    if version(connection, path)? == known {
        return Ok(());
    }
    // Look again under the write lock: another process may be migrating as well.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    match version(&transaction, path)? {
        0 => return Err(SqliteError::Truncated { path: path.to_owned() }),
        found if found > known => return Err(SqliteError::NewerSchema { path: path.to_owned(), found, known }),
        found => advance(&transaction, migrations, found).map_err(failed)?,
    }
    transaction.commit().map_err(failed)
}

/// Carries out the migrations after version `found`.
fn advance(transaction: &Transaction<'_>, migrations: &[&str], found: i32) -> rusqlite::Result<()> {
    for (version, migration) in (1..).zip(migrations) {
        if version > found {
            transaction.execute_batch(migration)?;
            let applied = "INSERT INTO migration VALUES (?1, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))";
            transaction.execute(applied, [version])?;
            transaction.pragma_update(None, "user_version", version)?;
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)
}

/// The first revision of a new file: far from where any other file counts, so that a revision of that one is too old here or too new,
/// and a watch from it is told to list again. Never as low as in files of the first programs, which began at 1; and low enough that
/// JSON's numbers (2⁵³) hold four billion that follow.
fn first_revision(ids: Option<&dyn IdSource>) -> std::io::Result<u64> {
    let drawn = match ids {
        Some(ids) => ids.draw(),
        None => SystemIds::open()?.draw(),
    };
    let incarnation = u64::try_from(drawn & 0xf_ffff).unwrap_or(0).max(1);
    Ok(incarnation << 32 | 1)
}

/// The version of a file of ours; 0 for one without tables.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<i32, SqliteError> {
    let failed = |source| SqliteError::new(path, source);
    let query =
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
        (SELECT count(*) FROM sqlite_schema)";
    let mut statement = connection.prepare(query).map_err(failed)?;
    let (application, version, tables): (i32, i32, i64) =
        statement.query_one([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).map_err(failed)?;
    if application == APPLICATION_ID || tables == 0 {
        Ok(version)
    } else {
        Err(SqliteError::ForeignDatabase { path: path.to_owned(), found: application })
    }
}

/// Makes of an empty file what the first programs made of it.
#[cfg(test)]
pub(super) fn fill_as_first(connection: &mut Connection, path: &Path) -> Result<(), SqliteError> {
    fill_by(&[FIRST], connection, path, None)
}

/// Opens a file as the first programs do.
#[cfg(test)]
pub(super) fn migrate_as_first(connection: &mut Connection, path: &Path) -> Result<(), SqliteError> {
    migrate_by(&[FIRST], connection, path)
}
