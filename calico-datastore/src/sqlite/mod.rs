//! The embedded store: one SQLite file that several processes share.
//!
//! For a machine, or a handful, without a cluster store: the agent, the CNI plugins and the command line open the same file.
//! Objects are rows under upstream's etcd paths; each commit gets the next revision and appends to a log, which feeds the
//! watches of every process and is trimmed at its far end, by number and by size.
//!
//! - Durable: write-ahead log with `synchronous=FULL`. What was acknowledged survives `kill -9` and power loss.
//! - One writer at a time: `BEGIN IMMEDIATE`, waiting for others. A process' own batches that queue up meanwhile share one
//!   transaction, and so one flush to disk.
//! - No SQLite call on an async thread: commits go to a writer thread, reads to tokio's blocking pool. A process that lives for
//!   milliseconds is better off without either, see [`SqliteOptions::in_place`].
//! - Watches sleep. A commit of this process wakes them directly, one of another process through inotify
//!   (see `notify`); nobody polls. The log is then read once for all of them (see `recent`).
//! - A file that is removed, truncated or replaced under way is noticed: requests fail until there is one again, and then go to that
//!   one. One that was emptied while nobody had it open is no new store (see `make`). Each file counts its revisions from a random place (see `schema`), so that none is taken for one of another file.

mod commit;
mod connection;
mod error;
mod make;
mod notify;
mod query;
mod recent;
mod scan;
mod schema;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;

use self::connection::{FileId, Readers};
pub use self::error::SqliteError;
use self::notify::Wake;
use self::recent::Log;
use self::scan::SqliteScan;
use self::watch::SqliteWatch;
use self::writer::Writer;
use crate::{
    Batch, Clock, Committed, Datastore, DatastoreError, IdSource, Listing, Revision, Scan, Scope, Stored, SystemClock,
    Watch, document, key,
};

/// How a store is opened.
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and ..Default::default()")]
pub struct SqliteOptions {
    /// Where life times are measured. Processes that share a file should share a clock. Default: the machine's.
    pub clock: Arc<dyn Clock>,
    /// Where the first revision of a new file comes from. Default: the machine's random source, opened when a file is made.
    pub ids: Option<Arc<dyn IdSource>>,
    /// How many revisions the log keeps for watches that lag. Default 50 000.
    pub history: u64,
    /// How many bytes of paths and documents the log keeps; the newest revision stays in any case. Default 32 MiB.
    pub history_bytes: u64,
    /// Whether SQLite runs on the calling thread: for a process that does one thing after the other and ends, which then starts no
    /// threads. Everything else on that thread waits meanwhile. Default off.
    pub in_place: bool,
    /// Whether a missing file is made (mode 0600, in a directory that exists). Default on; who only reads must not found a cluster.
    pub make: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            ids: None,
            history: 50_000,
            history_bytes: 32 << 20,
            in_place: false,
            make: true,
        }
    }
}

/// A store in one SQLite file. Clones share its connections.
///
/// ```
/// use calico_datastore::sqlite::SqliteStore;
/// use calico_datastore::{Datastore, Scope};
///
/// # let directory = tempfile::tempdir()?;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let store = SqliteStore::open(&directory.path().join("calico.db"))?;
/// assert!(store.list(&Scope::All).await?.entries.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    writer: Writer,
    readers: Arc<Readers>,
    log: Log,
    wake: Wake,
}

impl SqliteStore {
    /// Opens a file; makes it (mode 0600) if it is missing from its directory. Blocks for about a millisecond.
    pub fn open(path: &Path) -> Result<Self, SqliteError> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// Opens a file with options of the caller's.
    pub fn open_with(path: &Path, options: SqliteOptions) -> Result<Self, SqliteError> {
        if options.make {
            make::make(path, options.ids.as_deref())?;
        }
        let connection = connection::open_ready(path)?;
        let readers = Arc::new(Readers::new(path, FileId::at(path)?, connection, options.in_place));
        let wake = Wake::new(path);
        let writer = Writer::start(path, Arc::clone(&readers), &options, wake.local())?;
        let log = Log::new(Arc::clone(&readers));
        let path = path.to_owned();
        Ok(Self { shared: Arc::new(Shared { path, clock: options.clock, writer, readers, log, wake }) })
    }

    /// Forgets all history: a watch that has not seen the newest revision gets [`DatastoreError::TooOld`].
    pub async fn compact(&self) -> Result<(), DatastoreError> {
        self.shared.writer.compact().await
    }

    /// Stores bytes as they are, readable or not, as a foreign writer could.
    #[cfg(any(test, feature = "testing"))]
    pub async fn inject(&self, key: &ResourceKey, bytes: &[u8]) -> Result<(), DatastoreError> {
        self.shared.writer.inject(key::path(key)?, bytes.to_vec()).await
    }
}

impl Shared {
    fn now(&self) -> i64 {
        connection::millis(self.clock.now())
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Datastore for SqliteStore {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        let path = key::path(key)?;
        let now = self.shared.now();
        let found = self.shared.readers.read("get", move |connection| query::get(connection, &path, now)).await?;
        let (bytes, revision) = found.ok_or_else(|| DatastoreError::NotFound { key: key.clone() })?;
        document::readable(document::decode(key.clone(), &bytes, Revision::from_raw(revision)))
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        let range = key::range(scope)?;
        let now = self.shared.now();
        let scope = scope.clone();
        self.shared.readers.read("list", move |connection| query::list(connection, &scope, &range, now)).await
    }

    async fn scan(&self, scope: &Scope) -> Result<Box<dyn Scan>, DatastoreError> {
        let now = self.shared.now();
        SqliteScan::open(Arc::clone(&self.shared.readers), scope.clone(), now).await.map(|scan| Box::new(scan) as _)
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        document::check(&batch)?;
        let batch = commit::prepare(batch)?;
        self.shared.writer.commit(batch).await
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        SqliteWatch::open(Arc::clone(&self.shared), scope.clone(), from).await.map(|watch| Box::new(watch) as _)
    }
}
