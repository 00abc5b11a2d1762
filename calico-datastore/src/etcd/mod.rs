//! etcd v3, with upstream's keys, JSON and transactions: `etcdctl get --prefix /calico` looks like any upstream cluster.
//!
//! Each batch is one etcd transaction (`txn`), each listing is read in pages at one revision, a life time is a lease of its
//! own. A revision is etcd's. Watches go on through short disconnections by themselves (see `watch`).
//!
//! The connection is made by the first request and again by the next one if that fails, so a program may start while etcd is
//! away. What etcd refuses (credentials, permissions, too large a batch) is told apart from what may work later.

mod error;
mod options;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;
mod txn;
mod watch;

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;
use etcd_client::{Client, ConnectOptions, GetOptions, KeyValue};
use tokio::sync::OnceCell;

use self::error::{sort, timed_out};
use self::watch::EtcdWatch;
use crate::key::{self, PathRange};
use crate::{
    Batch, Committed, Datastore, DatastoreError, Entry, EtcdConfig, Listing, Revision, Scope, Stored, Watch, document,
};

/// Keys in one page of a listing: some hundred kilobytes of usual objects, far below gRPC's 4 MiB.
const PAGE: i64 = 500;

/// Longest wait for one answer; upstream's dial timeout.
const DEADLINE: Duration = Duration::from_secs(10);

/// Upstream's keep-alive: a ping after so long without traffic, and so long for its answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Upstream's client takes messages of any size; so a page of large blocks is no trouble.
const LARGEST_MESSAGE: usize = i32::MAX as usize;

/// A cluster's etcd.
pub struct EtcdStore {
    config: EtcdConfig,
    options: ConnectOptions,
    client: OnceCell<Client>,
}

impl EtcdStore {
    /// Reads the files that the configuration names. Connects with the first request.
    pub async fn connect(config: EtcdConfig) -> Result<Self, DatastoreError> {
        let options = config
            .options()
            .await?
            .with_connect_timeout(DEADLINE)
            .with_timeout(DEADLINE)
            .with_keep_alive(KEEP_ALIVE.0, KEEP_ALIVE.1)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        Ok(Self { config, options, client: OnceCell::new() })
    }

    async fn client(&self) -> Result<Client, DatastoreError> {
        let connect = || within("connect", Client::connect(&self.config.endpoints, Some(self.options.clone())));
        self.client.get_or_try_init(connect).await.cloned()
    }

    /// The keys of a range, all at one revision.
    async fn pages(&self, range: &PathRange) -> Result<(Vec<KeyValue>, i64), DatastoreError> {
        let mut client = self.client().await?.kv_client().max_decoding_message_size(LARGEST_MESSAGE);
        let mut found = Vec::new();
        let mut revision = 0;
        let mut start = range.start.clone().into_bytes();
        loop {
            // Revision zero means the newest, which the first page decides for the others.
            let options = GetOptions::new().with_range(range.end.as_str()).with_limit(PAGE).with_revision(revision);
            let mut page = within("list", client.get(start, Some(options))).await?;
            if revision == 0 {
                revision = page.header().map_or(0, etcd_client::ResponseHeader::revision);
            }
            let more = page.more();
            found.append(&mut page.take_kvs());
            match found.last() {
                Some(last) if more => {
                    start = last.key().to_vec();
                    start.push(0);
                }
                _ => return Ok((found, revision)),
            }
        }
    }
}

#[async_trait]
impl Datastore for EtcdStore {
    async fn get(&self, key: &ResourceKey) -> Result<Stored, DatastoreError> {
        let path = key::path(key)?;
        let mut client = self.client().await?.kv_client().max_decoding_message_size(LARGEST_MESSAGE);
        let answer = within("get", client.get(path, None)).await?;
        let found = answer.kvs().first().ok_or_else(|| DatastoreError::NotFound { key: key.clone() })?;
        document::readable(decode(key.clone(), found))
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, DatastoreError> {
        let (found, revision) = self.pages(&key::range(scope)?).await?;
        let mut entries = Vec::with_capacity(found.len());
        for pair in &found {
            if let Some(key) = key_of(pair).filter(|key| scope.contains(key)) {
                entries.push((key.clone(), decode(key, pair)));
            }
        }
        // Paths and keys sort differently (addresses as text or as numbers).
        entries.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        let entries = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(Listing { entries, revision: from_etcd(revision) })
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<Committed>, DatastoreError> {
        document::check(&batch)?;
        if batch.writes.is_empty() {
            return Ok(Vec::new());
        }
        let plan = txn::Plan::new(&batch)?;
        txn::carry_out(self.client().await?, plan).await
    }

    async fn watch(&self, scope: &Scope, from: Revision) -> Result<Box<dyn Watch>, DatastoreError> {
        let range = key::range(scope)?;
        let client = self.client().await?.watch_client().max_decoding_message_size(LARGEST_MESSAGE);
        let mut watch = EtcdWatch::new(client, scope.clone(), range, from);
        watch.connect().await?;
        Ok(Box::new(watch))
    }
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").field("endpoints", &self.config.endpoints).finish_non_exhaustive()
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
