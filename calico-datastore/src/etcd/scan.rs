//! A listing in pages, all at the revision of the first.
//!
//! While the entries of one page are decoded the next one is under way, and what was decoded is freed bit by bit: a listing of any
//! size needs the room of two pages beyond what its caller keeps. Pages are as large as a few megabytes allow, because servers before
//! 3.5 walk over all the keys that are left for each page, however few it has.

use std::sync::Arc;
use std::vec;

use async_trait::async_trait;
use etcd_client::{Client, GetOptions, KeyValue};
use tokio::task::JoinSet;

use super::error::{is_out_of_history, unavailable};
use super::members::Members;
use super::{LARGEST_MESSAGE, from_etcd, key_of, within};
use crate::key::PathRange;
use crate::{DatastoreError, Entry, Revision, Scan, Scope, document};

/// Keys of the first page, which shows how large they are.
const FIRST: usize = 500;

/// Bytes of the others, about. The walk takes 0.4 µs for each key that is left: over 250 000 endpoints this is a second with pages of this
/// size, and four with a quarter of it.
const BYTES: usize = 16 << 20;

/// Most keys of a page, however small: those that follow may be larger.
const MOST: usize = 20_000;

/// Entries that are handed over at once.
const CHUNK: usize = 128;

pub(super) struct EtcdScan {
    request: Request,
    revision: Revision,
    /// What came and is not decoded yet.
    page: vec::IntoIter<KeyValue>,
    /// The page under way. Ends with the scan.
    next: JoinSet<Result<Page, DatastoreError>>,
}

/// What a page is asked for with.
#[derive(Clone)]
struct Request {
    members: Arc<Members>,
    scope: Scope,
    range: PathRange,
    start: Vec<u8>,
    /// Zero means the newest, which the first page decides for the others.
    revision: i64,
    limit: usize,
}

struct Page {
    pairs: Vec<KeyValue>,
    revision: i64,
    more: bool,
}

impl EtcdScan {
    /// Asks for the first page.
    pub(super) async fn open(members: Arc<Members>, scope: Scope, range: PathRange) -> Result<Self, DatastoreError> {
        let start = range.start.clone().into_bytes();
        let request = Request { members, scope, range, start, revision: 0, limit: FIRST };
        let first = request.page().await?;
        let (revision, next) = (from_etcd(first.revision), JoinSet::new());
        let mut scan = Self { request, revision, page: Vec::new().into_iter(), next };
        scan.take(first);
        Ok(scan)
    }

    /// Takes a page, and asks for the one behind it.
    fn take(&mut self, page: Page) {
        self.request.revision = page.revision;
        if let (true, Some(last)) = (page.more, page.pairs.last()) {
            self.request.start = last.key().to_vec();
            self.request.start.push(0);
            self.request.limit = limit(&page.pairs);
            let request = self.request.clone();
            self.next.spawn(async move { request.page().await });
        }
        self.page = page.pairs.into_iter();
    }

    fn entry(&self, pair: KeyValue) -> Option<Entry> {
        let key = key_of(&pair).filter(|key| self.request.scope.contains(key))?;
        let revision = from_etcd(pair.mod_revision());
        Some(document::decode_owned(key, pair.into_key_value().1, revision))
    }
}

#[async_trait]
impl Scan for EtcdScan {
    fn revision(&self) -> Revision {
        self.revision
    }

    async fn next(&mut self) -> Result<Option<Vec<Entry>>, DatastoreError> {
        loop {
            let pairs: Vec<KeyValue> = self.page.by_ref().take(CHUNK).collect();
            if !pairs.is_empty() {
                let entries: Vec<Entry> = pairs.into_iter().filter_map(|pair| self.entry(pair)).collect();
                if entries.is_empty() {
                    continue;
                }
                return Ok(Some(entries));
            }
            match self.next.join_next().await {
                None => return Ok(None),
                Some(Ok(Ok(page))) => self.take(page),
                Some(Ok(Err(error))) if is_out_of_history(&error) => {
                    return Err(DatastoreError::TooOld { revision: self.revision });
                }
                Some(Ok(Err(error))) => return Err(error),
                Some(Err(error)) => {
                    return Err(unavailable("etcd list".to_owned(), Some(error.into())));
                }
            }
        }
    }
}

impl Request {
    async fn page(&self) -> Result<Page, DatastoreError> {
        let page = self.members.ask("list", |client| self.clone().ask(client)).await?;
        Ok(page.value)
    }

    async fn ask(self, client: Client) -> Result<Page, DatastoreError> {
        let mut client = client.kv_client().max_decoding_message_size(LARGEST_MESSAGE);
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let options = GetOptions::new().with_range(self.range.end).with_limit(limit).with_revision(self.revision);
        let mut page = within("list", client.get(self.start, Some(options))).await?;
        let revision = match self.revision {
            0 => page.header().map_or(0, etcd_client::ResponseHeader::revision),
            revision => revision,
        };
        Ok(Page { more: page.more(), revision, pairs: page.take_kvs() })
    }
}

/// How many keys to ask for, after some.
fn limit(pairs: &[KeyValue]) -> usize {
    let bytes: usize = pairs.iter().map(|pair| pair.key().len() + pair.value().len()).sum();
    let each = bytes / pairs.len().max(1);
    (BYTES / each.max(1)).clamp(1, MOST)
}
