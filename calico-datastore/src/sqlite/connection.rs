//! Connections: how the file is opened, and the pool that reads use.
//!
//! Nothing here opens the file but SQLite. To close any descriptor of a file drops every lock that the process has on it, those of its
//! other connections too (`https://sqlite.org/howtocorrupt.html`, 2.2): another program that leaves then takes itself for the last one,
//! removes the log, and what is acknowledged after that is lost.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use calico_core::time::Timestamp;
use nix::sys::statvfs::{FsFlags, statvfs};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};
use tokio::sync::Semaphore;

use super::{SqliteError, schema};
use crate::DatastoreError;

/// Reads at once. More would only queue for the same disk and processor.
const READERS: usize = 4;

/// How long to wait for another process' lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at it. SQLite's own handler backs off up to 100 ms, which a CNI plugin that waits for a 1 ms commit would feel.
const BUSY_STEP: Duration = Duration::from_millis(1);

/// Opens an existing file; brings its tables up to date.
pub(super) fn open_ready(path: &Path) -> Result<Connection, SqliteError> {
    FileId::at(path)?;
    // SQLite would say "disk I/O error".
    if !path.is_file() {
        return Err(SqliteError::NotAFile { path: path.to_owned() });
    }
    let mut connection = open(path)?;
    schema::migrate(&mut connection, path)?;
    Ok(connection)
}

/// Opens an existing file.
pub(super) fn open(path: &Path) -> Result<Connection, SqliteError> {
    // SQLite would take it for a new database, and remove the log that lies beside it.
    if is_empty(path) {
        return Err(SqliteError::Truncated { path: path.to_owned() });
    }
    let failed = |source| SqliteError::new(path, source);
    let is_fixed = is_on_read_only(path);
    if is_fixed && is_missing_or_empty(&beside(path, "-wal")) {
        return open_immutable(path);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    // Without this the last process to leave copies the log into the file, which costs a CNI plugin two flushes at its end.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    let unread = |source| match is_fixed {
        // With its index beside it, it would have been read.
        true => SqliteError::ReadOnlyLog { path: path.to_owned() },
        false => failed(source),
    };
    if !is_in_wal(&mut connection).map_err(unread)? {
        // Another program's file would keep the mode, and the log beside it.
        schema::version(&connection, path)?;
        enter_wal(&mut connection).map_err(unread)?;
    }
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;").map_err(failed)?;
    Ok(connection)
}

/// Whether the file system is mounted read-only, as that of a backup may be.
fn is_on_read_only(path: &Path) -> bool {
    statvfs(path).is_ok_and(|system| system.flags().contains(FsFlags::ST_RDONLY))
}

/// Opens a file that nobody changes at the moment. SQLite would otherwise make a log and an index beside it before it reads.
///
/// It then looks at no lock and for no change, and somebody may change the file later who has the same file system mounted
/// otherwise: see [`may_stay`].
fn open_immutable(path: &Path) -> Result<Connection, SqliteError> {
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => address.push(char::from(*byte)),
            other => address += &format!("%{other:02x}"),
        }
    }
    address += "?immutable=1";
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(address, flags).map_err(|source| SqliteError::new(path, source))
}

/// Whether a connection may be used again. One that cannot write may be one of [`open_immutable`], and what that stands on is looked
/// at whenever one is opened.
pub(super) fn may_stay(connection: &Connection) -> bool {
    connection.is_readonly(MAIN_DB).is_ok_and(|is_readonly| !is_readonly)
}

fn is_missing_or_empty(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(file) => file.len() == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Milliseconds since 1970, as the store keeps life times.
pub(super) fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// SQLite's busy handler. It is called on the thread that waits, with zero first.
fn wait(tries: i32) -> bool {
    thread_local! {
        static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    if tries == 0 {
        BEGUN.set(Some(Instant::now()));
    }
    std::thread::sleep(BUSY_STEP);
    BEGUN.get().is_some_and(|begun| begun.elapsed() < PATIENCE)
}

/// Whether the file is written to by way of a log.
fn is_in_wal(connection: &mut Connection) -> rusqlite::Result<bool> {
    let mode: String =
        patiently(connection, |connection| connection.pragma_query_value(None, "journal_mode", |row| row.get(0)))?;
    Ok(mode == "wal")
}

/// Changing the mode of a file that a backup restored needs it alone.
fn enter_wal(connection: &mut Connection) -> rusqlite::Result<()> {
    patiently(connection, |connection| connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())))
}

/// SQLite asks the busy handler for some of the locks only. So all waiting is done here: with a handler as well, each try would take as
/// long as all of them may.
fn patiently<T>(connection: &mut Connection, ask: impl Fn(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    connection.busy_timeout(Duration::ZERO)?;
    let begun = Instant::now();
    let answer = loop {
        match ask(connection) {
            Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => std::thread::sleep(BUSY_STEP),
            other => break other?,
        }
    };
    connection.busy_handler(Some(wait))?;
    Ok(answer)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() == 0)
}

/// Why there is no file at a path.
pub(super) fn no_file(path: &Path, source: std::io::Error) -> SqliteError {
    let directory = directory(path);
    if let (ErrorKind::NotFound, Ok(target)) = (source.kind(), std::fs::read_link(path)) {
        return SqliteError::Dangling { path: path.to_owned(), target };
    }
    if source.kind() == ErrorKind::NotFound && !directory.exists() {
        SqliteError::NoDirectory { path: path.to_owned(), directory: directory.to_owned() }
    } else if source.kind() == ErrorKind::NotFound {
        SqliteError::Absent { path: path.to_owned() }
    } else {
        SqliteError::Open { path: path.to_owned(), source }
    }
}

/// The directory that holds the file.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

/// A file in the same directory, called like the database and a suffix.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    database.with_file_name(file_name(database, suffix))
}

pub(super) fn file_name(database: &Path, suffix: &str) -> OsString {
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    name
}

/// Which file a path leads to. A connection keeps its file open, so that the number of one in use is never given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    pub(super) fn at(path: &Path) -> Result<Self, SqliteError> {
        match std::fs::metadata(path) {
            Ok(file) => Ok(Self { device: file.dev(), inode: file.ino() }),
            Err(source) => Err(no_file(path, source)),
        }
    }

    /// As [`at`](Self::at), of a file that was there, with tables in it.
    pub(super) fn in_use(path: &Path) -> Result<Self, SqliteError> {
        match Self::at(path) {
            Ok(_) if is_empty(path) => Err(SqliteError::Truncated { path: path.to_owned() }),
            Err(SqliteError::Absent { path } | SqliteError::NoDirectory { path, .. }) => {
                Err(SqliteError::Removed { path })
            }
            other => other,
        }
    }
}

/// Connections that nobody uses at the moment: for reading, and the first that is there for the writer.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<(FileId, Connection)>>,
    permits: Arc<Semaphore>,
    /// Whether queries run on the calling thread.
    in_place: bool,
    #[cfg(test)]
    pub(super) count: std::sync::atomic::AtomicUsize,
}

impl Readers {
    /// Begins with the connection with which the file was opened: a process that reads a little and then writes needs no other.
    pub(super) fn new(path: &Path, file: FileId, first: Connection, in_place: bool) -> Self {
        let readers = Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS)),
            in_place,
            #[cfg(test)]
            count: std::sync::atomic::AtomicUsize::new(0),
        };
        readers.keep(file, first);
        readers
    }

    /// Runs a query on the blocking pool, or in place. The query's transaction, if it opens one, must not outlive it.
    pub(super) async fn read<T, F>(self: &Arc<Self>, operation: &'static str, query: F) -> Result<T, DatastoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.read_file(operation, query).await.map(|(_, answer)| answer)
    }

    /// As [`read`](Self::read); says also which file was read.
    pub(super) async fn read_file<T, F>(
        self: &Arc<Self>,
        operation: &'static str,
        query: F,
    ) -> Result<(FileId, T), DatastoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.work(operation, |readers| readers.run(query)).await
    }

    /// Runs something that takes connections on the blocking pool, or in place.
    pub(super) async fn work<T, F>(self: &Arc<Self>, operation: &'static str, work: F) -> Result<T, DatastoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, SqliteError> + Send + 'static,
    {
        let stopped = || DatastoreError::Unavailable { operation: operation.to_owned(), source: None };
        if self.in_place {
            return work(self).map_err(|error| error.during(operation));
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| stopped())?;
        let readers = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || {
            // Held until the work is over, also when nobody waits for it any more.
            let _permit = permit;
            work(&readers)
        });
        answer.await.map_err(|_| stopped())?.map_err(|error| error.during(operation))
    }

    fn run<T>(&self, query: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<(FileId, T), SqliteError> {
        #[cfg(test)]
        self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (file, mut connection) = self.take()?;
        let answer = query(&mut connection).map_err(|source| self.failed(source))?;
        // One that failed is dropped instead: the next read opens a fresh one.
        self.keep(file, connection);
        Ok((file, answer))
    }

    /// A connection to the file that is there now, for the caller alone, and which file that is.
    pub(super) fn take(&self) -> Result<(FileId, Connection), SqliteError> {
        let file = FileId::in_use(&self.path)?;
        match self.idle(file) {
            Some(connection) => Ok((file, connection)),
            None => Ok((file, open(&self.path)?)),
        }
    }

    /// What a query on a connection that was taken came to.
    pub(super) fn failed(&self, source: rusqlite::Error) -> SqliteError {
        SqliteError::new(&self.path, source)
    }

    /// Takes in a connection to a file that nobody uses at the moment, if it may stay.
    pub(super) fn keep(&self, file: FileId, connection: Connection) {
        if !may_stay(&connection) {
            return;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((file, connection));
    }

    /// A connection to the file that is there now, if one is left; those to one that was there before are closed.
    pub(super) fn idle(&self, file: FileId) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(opened, _)| *opened == file);
        idle.pop().map(|(_, connection)| connection)
    }
}
