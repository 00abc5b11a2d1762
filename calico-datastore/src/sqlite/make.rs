//! How a file is made: beside its place, complete, and put there in one step.
//!
//! So no file of ours is ever without tables, however its maker ends, and one that is has lost what it had: it was truncated, or
//! copied without its log. SQLite takes an empty file for a new database, and throws away a log that lies beside one; that store
//! would be empty without anybody having said so.
//!
//! Who makes one holds a lock on the directory, so that of several processes one makes it and the others find it; and what an
//! earlier file or an interrupted making left there can be cleared away: SQLite would take an old log for the new file's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::connection::{beside, directory, no_file};
use super::{SqliteError, schema};
use crate::IdSource;

/// What SQLite keeps beside a database.
const SIDES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Makes the file if it is missing, readable by its owner only. The log and the index inherit its mode.
///
/// Its directory must be there: one that is missing is a path mistyped or a disk not mounted, and a new file there a second cluster.
pub(super) fn make(path: &Path, ids: Option<&dyn IdSource>) -> Result<(), SqliteError> {
    let failed = |source| no_file(path, source);
    if is_there(path).map_err(failed)? {
        return Ok(());
    }
    // Locked until it is closed.
    let place = File::open(directory(path)).map_err(failed)?;
    place.lock().map_err(failed)?;
    if is_there(path).map_err(failed)? {
        return Ok(());
    }
    let new = beside(path, "-new");
    clear(&new).map_err(failed)?;
    let made = fill(&new, path, ids).and_then(|()| put(&new, path).map_err(failed));
    let cleared = clear(&new).map_err(failed);
    made.and(cleared)?;
    // The name is as durable as what will be acknowledged under it.
    place.sync_all().map_err(failed)
}

fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a database with tables and nothing in them; errors name the place that it is for.
fn fill(new: &Path, path: &Path, ids: Option<&dyn IdSource>) -> Result<(), SqliteError> {
    let unmade = |source| no_file(path, source);
    let failed = |source| SqliteError::new(path, source);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new).map_err(unmade)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(new, flags).map_err(failed)?;
    schema::fill(&mut connection, path, ids)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).map_err(failed)?;
    // Which copies the log into the file and removes it.
    connection.close().map_err(|(_, source)| failed(source))?;
    file.sync_all().map_err(unmade)
}

/// Puts the file in its place, unless there is one: somebody who takes no lock may have restored it.
fn put(new: &Path, path: &Path) -> io::Result<()> {
    for side in SIDES {
        remove(&beside(path, side))?;
    }
    match fs::hard_link(new, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn clear(new: &Path) -> io::Result<()> {
    SIDES.iter().try_for_each(|side| remove(&beside(new, side)))?;
    remove(new)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
