//! Opens what [`resolve`](super::resolve) chose.

use std::path::PathBuf;
use std::sync::Arc;

use calico_datastore::Datastore;
use calico_datastore::sqlite::{SqliteError, SqliteStore};

use super::StoreConfig;

/// A datastore that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The embedded datastore.
    #[error("the embedded datastore {} cannot be opened", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: SqliteError,
    },
    /// This program was built without the etcd client.
    #[error(
        "this program was built without the etcd datastore: build it with `cargo run --release --features etcd …` \
         (needs protoc, on Debian: apt-get install protobuf-compiler)"
    )]
    WithoutEtcd,
}

/// Opens a datastore. Blocks for about a millisecond; call it inside a tokio runtime.
///
/// # Errors
/// When it cannot be opened, with the reason and what to do.
pub async fn open(config: &StoreConfig) -> Result<Arc<dyn Datastore>, OpenError> {
    match config {
        StoreConfig::Sqlite { path } => match SqliteStore::open(path) {
            Ok(store) => Ok(Arc::new(store)),
            Err(source) => Err(OpenError::Sqlite { path: path.clone(), source }),
        },
        StoreConfig::Etcd(_) => Err(OpenError::WithoutEtcd),
    }
}
