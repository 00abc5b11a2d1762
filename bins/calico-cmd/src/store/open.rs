//! Opens what [`resolve`](super::resolve) chose.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use calico_datastore::Datastore;
#[cfg(feature = "etcd")]
use calico_datastore::etcd::EtcdStore;
use calico_datastore::sqlite::{SqliteError, SqliteOptions, SqliteStore};

use super::{DEFAULT_PATH, PATH_ENV, StoreConfig};
use crate::directory::{self, DirectoryError};

/// A datastore that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The embedded datastore's file is not there, and who only reads does not make it.
    #[error(
        "no datastore at {}; calico-node run or the first apply makes it: check {PATH_ENV}, or datastorePath in the \
         configuration file, and that you are on the right host",
        path.display()
    )]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The embedded datastore.
    #[error("the embedded datastore {} cannot be opened", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: SqliteError,
    },
    /// etcd's settings cannot be used.
    #[cfg(feature = "etcd")]
    #[error("the etcd datastore cannot be used")]
    Etcd {
        /// Why.
        #[source]
        source: calico_datastore::DatastoreError,
    },
    /// This program was built without the etcd client.
    #[cfg(not(feature = "etcd"))]
    #[error(
        "this program was built without the etcd datastore: build it with `cargo run --release --features etcd …` \
         (needs protoc, on Debian: apt-get install protobuf-compiler)"
    )]
    WithoutEtcd,
}

impl OpenError {
    /// Whether opening may succeed later, when somebody has unlocked, mounted or supplied what is missing.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Absent { .. } | Self::Sqlite { .. } => true,
            #[cfg(feature = "etcd")]
            Self::Etcd { .. } => true,
            #[cfg(not(feature = "etcd"))]
            Self::WithoutEtcd => false,
        }
    }
}

/// Opens a datastore. Blocks for about a millisecond; call it inside a tokio runtime. etcd is reached only by the first request.
///
/// An embedded datastore that is missing is made, and its directory too if that is the default one. Any other directory must be there:
/// a path mistyped must not found a second cluster.
///
/// # Errors
/// When it cannot be opened, with the reason and what to do.
pub async fn open(config: &StoreConfig) -> Result<Arc<dyn Datastore>, OpenError> {
    open_with(config, SqliteOptions::default()).await
}

/// As [`open()`], for who only reads: an embedded datastore that is missing is an error.
///
/// # Errors
/// As [`open()`], and [`OpenError::Absent`].
pub async fn open_existing(config: &StoreConfig) -> Result<Arc<dyn Datastore>, OpenError> {
    open_with(config, SqliteOptions { make: false, ..SqliteOptions::default() }).await
}

/// As [`open()`], for a process that does one thing after the other and ends: an embedded datastore is worked on by the calling thread
/// itself.
///
/// # Errors
/// As [`open()`].
pub async fn open_in_place(config: &StoreConfig) -> Result<Arc<dyn Datastore>, OpenError> {
    open_with(config, SqliteOptions { in_place: true, ..SqliteOptions::default() }).await
}

async fn open_with(config: &StoreConfig, options: SqliteOptions) -> Result<Arc<dyn Datastore>, OpenError> {
    match config {
        StoreConfig::Sqlite { path } => open_sqlite(path, options),
        #[cfg(feature = "etcd")]
        StoreConfig::Etcd(config) => match EtcdStore::connect((**config).clone()).await {
            Ok(store) => Ok(Arc::new(store)),
            Err(source) => Err(OpenError::Etcd { source }),
        },
        #[cfg(not(feature = "etcd"))]
        StoreConfig::Etcd(_) => Err(OpenError::WithoutEtcd),
    }
}

fn open_sqlite(path: &Path, options: SqliteOptions) -> Result<Arc<dyn Datastore>, OpenError> {
    let failed = |source| match source {
        SqliteError::Absent { path } => OpenError::Absent { path },
        source => OpenError::Sqlite { path: path.to_owned(), source },
    };
    let makes = options.make && !path.exists();
    if makes {
        match directory::ready(path, Path::new(DEFAULT_PATH)) {
            // The store says it itself.
            Ok(()) | Err(DirectoryError::Absent { .. }) => {}
            Err(DirectoryError::Make { directory, source }) => {
                return Err(failed(SqliteError::Open { path: directory, source }));
            }
        }
    }
    let store = SqliteStore::open_with(path, options).map_err(failed)?;
    if makes {
        tracing::info!(path = %path.display(), "made a new, empty datastore");
    }
    Ok(Arc::new(store))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_reads_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::Sqlite { path: folder.path().join("calico.db") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let error = open_existing(&config).await.err().unwrap();
            assert!(matches!(error, OpenError::Absent { .. }), "{error}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            open(&config).await.unwrap();
            open_existing(&config).await.unwrap();
            let lost = StoreConfig::Sqlite { path: folder.path().join("mistyped/calico.db") };
            assert!(open(&lost).await.is_err());
            assert!(!folder.path().join("mistyped").exists());
        });
    }
}
