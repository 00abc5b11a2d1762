//! etcd v3, with upstream's keys, JSON and transactions: `etcdctl get --prefix /calico` looks like any upstream cluster.
//!
//! Each batch is one etcd transaction (`txn`), each listing is read in pages at one revision (`scan`), a life time is a lease of its
//! own. A revision is etcd's. Watches go on through short disconnections by themselves (see `watch`).
//!
//! Connections are made by the first request and again by the next one if that fails, so a program may start while etcd is
//! away. Of several members the one that answers is asked (`members`); they are given, or found by DNS (`discovery`). What etcd
//! refuses (credentials, permissions, too large a batch) is told apart from what may work later.

mod discovery;
mod error;
#[cfg(test)]
mod member_tests;
mod members;
mod options;
#[cfg(test)]
mod relay;
mod scan;
#[cfg(test)]
mod server;
#[cfg(test)]
mod silence_tests;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
#[cfg(test)]
mod tls_tests;
mod txn;
mod watch;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;
use etcd_client::{Client, GetResponse, KeyValue};

use self::error::{sort, timed_out, unavailable};
use self::members::Members;
use self::options::DEADLINE;
use self::scan::EtcdScan;
use self::watch::EtcdWatch;
use crate::key;
use crate::store::entry_key;
use crate::{
    Batch, Committed, Datastore, DatastoreError, Entry, EtcdConfig, Listing, Revision, Scan, Scope, Stored, Watch,
    document,
};

/// Listings that are begun anew because the store forgot their revision while they were read.
const RESTARTS: usize = 3;

/// Upstream's client takes messages of any size; so a page of large blocks is no trouble.
const LARGEST_MESSAGE: usize = i32::MAX as usize;

/// A cluster's etcd.
pub struct EtcdStore {
    members: Arc<Members>,
}

impl EtcdStore {
    /// Reads the files that the configuration names. Connects with the first request.
    pub async fn connect(config: EtcdConfig) -> Result<Self, DatastoreError> {
        Ok(Self { members: Arc::new(Members::new(&config).await?) })
    }

    /// Everything of a scope at one revision, unsorted.
    async fn whole(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        let mut scan = self.scan(scope).await?;
        let mut entries = Vec::new();
        while let Some(more) = scan.next().await? {
            entries.extend(more);
        }
        Ok(Listing { entries, revision: scan.revision() })
    }

    /// One key.
    async fn read(&self, operation: &str, key: &[u8]) -> Result<GetResponse, DatastoreError> {
        let get = |client: Client| {
            let mut client = client.kv_client().max_decoding_message_size(LARGEST_MESSAGE);
            async move { within(operation, client.get(key, None)).await }
        };
        Ok(self.members.ask(operation, get).await?.value)
    }
}

#[async_trait]
impl Datastore for EtcdStore {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        let path = key::path(key)?;
        let answer = self.read("get", path.as_bytes()).await?;
        let found = answer.kvs().first().ok_or_else(|| DatastoreError::NotFound { key: key.clone() })?;
        document::readable(decode(key.clone(), found))
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        for _ in 0..RESTARTS {
            match self.whole(scope).await {
                Err(DatastoreError::TooOld { .. }) => {}
                Err(error) => return Err(error),
                Ok(mut listing) => {
                    // Paths and keys sort differently (addresses as text or as numbers).
                    listing.entries.sort_unstable_by(|left, right| entry_key(left).cmp(entry_key(right)));
                    return Ok(listing);
                }
            }
        }
        Err(unavailable("etcd list: the store forgot the revision of each try".to_owned(), None))
    }

    async fn scan(&self, scope: &Scope) -> Result<Box<dyn Scan>, DatastoreError> {
        let range = key::range(scope)?;
        Ok(Box::new(EtcdScan::open(Arc::clone(&self.members), scope.clone(), range).await?))
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        document::check(&batch)?;
        if batch.writes.is_empty() {
            return Ok(Vec::new());
        }
        let plan = Arc::new(txn::Plan::new(&batch)?);
        self.members.write("commit", |client| txn::carry_out(client, Arc::clone(&plan))).await
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        let range = key::range(scope)?;
        let mut watch = EtcdWatch::new(Arc::clone(&self.members), scope.clone(), range, from);
        watch.connect().await?;
        Ok(Box::new(watch))
    }
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").field("endpoints", &self.members.endpoints()).finish_non_exhaustive()
    }
}

/// Awaits an answer of etcd, with the deadline and with errors sorted.
async fn within<T>(
    operation: &str,
    answer: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, DatastoreError> {
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(answer) => answer.map_err(|error| sort(operation, error)),
        Err(_) => Err(timed_out(operation)),
    }
}

fn key_of(pair: &KeyValue) -> Option<ResourceKey> {
    key::parse(std::str::from_utf8(pair.key()).ok()?)
}

fn decode(key: ResourceKey, pair: &KeyValue) -> Entry {
    document::decode(key, pair.value(), from_etcd(pair.mod_revision()))
}

/// etcd's revisions are signed on the wire and positive.
fn from_etcd(revision: i64) -> Revision {
    Revision::from_raw(u64::try_from(revision).unwrap_or(0))
}

fn to_etcd(revision: Revision) -> i64 {
    i64::try_from(revision.raw()).unwrap_or(i64::MAX)
}
