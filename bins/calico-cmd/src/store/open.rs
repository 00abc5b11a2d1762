//! Opens what [`resolve`](super::resolve) chose.

use std::path::PathBuf;
use std::sync::Arc;

use calico_datastore::Datastore;
use calico_datastore::sqlite::{SqliteError, SqliteOptions, SqliteStore};

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
            Self::Sqlite { .. } => true,
            #[cfg(feature = "etcd")]
            Self::Etcd { .. } => true,
            #[cfg(not(feature = "etcd"))]
            Self::WithoutEtcd => false,
        }
    }
}

/// Opens a datastore. Blocks for about a millisecond; call it inside a tokio runtime. etcd is reached only by the first request.
///
/// # Errors
/// When it cannot be opened, with the reason and what to do.
pub async fn open(config: &StoreConfig) -> Result<Arc<dyn Datastore>, OpenError> {
    open_with(config, SqliteOptions::default()).await
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
        StoreConfig::Sqlite { path } => match SqliteStore::open_with(path, options) {
            Ok(store) => Ok(Arc::new(store)),
            Err(source) => Err(OpenError::Sqlite { path: path.clone(), source }),
        },
        #[cfg(feature = "etcd")]
        StoreConfig::Etcd(settings) => open_etcd(settings).await,
        #[cfg(not(feature = "etcd"))]
        StoreConfig::Etcd(_) => Err(OpenError::WithoutEtcd),
    }
}

#[cfg(feature = "etcd")]
async fn open_etcd(settings: &super::EtcdSettings) -> Result<Arc<dyn Datastore>, OpenError> {
    use calico_datastore::etcd::{self, EtcdConfig, EtcdStore};

    let pem = |pem: &super::Pem| match pem {
        super::Pem::File(path) => etcd::Pem::File(path.clone()),
        super::Pem::Text(text) => etcd::Pem::Text(text.clone()),
    };
    let config = EtcdConfig {
        endpoints: settings.endpoints.clone(),
        ca: settings.ca.as_ref().map(pem),
        identity: settings.identity.as_ref().map(|(certificate, key)| (pem(certificate), pem(key))),
        credentials: settings.credentials.clone(),
    };
    match EtcdStore::connect(config).await {
        Ok(store) => Ok(Arc::new(store)),
        Err(source) => Err(OpenError::Etcd { source }),
    }
}
