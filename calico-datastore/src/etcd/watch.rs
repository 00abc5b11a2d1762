//! A watch on a range of keys.
//!
//! Upstream's watch ends with its connection and is never told of a compaction as such. This one takes up again after the last
//! change it delivered, for some seconds, at whatever member answers (a member that has lost its leader ends its watches); a
//! compaction is [`DatastoreError::TooOld`] at once.
//!
//! Progress notifications move the place to take up from, so that a quiet range does not fall behind the compactions of a busy
//! cluster. They come when etcd sends them (`watch-progress-notify-interval`, 10 minutes by default). They are not asked for:
//! servers before 3.4.25 and 3.5.8 answer such a request ahead of changes that they have not sent yet, which would be lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, KeyValue, WatchOptions, WatchResponse, WatchStream};
use tokio::time::Instant;

use super::error::{at, is_out_of_history, sort, timed_out, unavailable};
use super::members::Members;
use super::{LARGEST_MESSAGE, decode, from_etcd, key_of, to_etcd, within};
use crate::key::PathRange;
use crate::{DatastoreError, Revision, Scope, Watch, WatchEvent};

/// How long a lost connection is repaired silently. A member that restarts is back sooner; the syncer must hear of the rest.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct EtcdWatch {
    members: Arc<Members>,
    /// Who opened the stream.
    turn: usize,
    scope: Scope,
    range: PathRange,
    cursor: Revision,
    stream: Option<WatchStream>,
    /// Whose stream it was.
    endpoint: Arc<str>,
    /// When the connection was lost, and why.
    lost: Option<(Instant, DatastoreError)>,
    buffer: VecDeque<WatchEvent>,
}

impl EtcdWatch {
    pub(super) fn new(members: Arc<Members>, scope: Scope, range: PathRange, from: Revision) -> Self {
        let (endpoint, buffer) = (Arc::from(""), VecDeque::new());
        Self { members, turn: 0, scope, range, cursor: from, stream: None, endpoint, lost: None, buffer }
    }

    /// Opens a stream after the cursor.
    pub(super) async fn connect(&mut self) -> Result<(), DatastoreError> {
        let options = WatchOptions::new()
            .with_range(self.range.end.as_str())
            .with_start_revision(to_etcd(self.cursor).saturating_add(1))
            .with_progress_notify();
        let watch = |client: Client| {
            let (start, options) = (self.range.start.clone(), options.clone());
            let mut client = client.watch_client().max_decoding_message_size(LARGEST_MESSAGE);
            async move { within("watch", client.watch(start, Some(options))).await }
        };
        let answer = self.members.ask("watch", watch).await?;
        self.stream = Some(answer.value);
        self.turn = answer.turn;
        self.endpoint = answer.endpoint;
        Ok(())
    }

    /// Takes the next message off the stream, or repairs the stream.
    async fn advance(&mut self) -> Result<(), DatastoreError> {
        let Some(stream) = &mut self.stream else {
            // Who hangs is not waited for longer than who is away: the reason why the stream was lost tells of both.
            let left = self.lost.as_ref().map_or(PATIENCE, |(since, _)| PATIENCE.saturating_sub(since.elapsed()));
            return match tokio::time::timeout(left, self.connect()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => self.bear(error).await,
                Err(_) => {
                    Err(self.lost.take().map_or_else(|| at(&self.endpoint, timed_out("watch")), |(_, error)| error))
                }
            };
        };
        let error = match stream.message().await {
            Ok(Some(message)) => {
                self.lost = None;
                return self.take(&message);
            }
            Ok(None) => unavailable("watch".to_owned(), Some("it ended the watch".into())),
            Err(error) => sort("watch", error),
        };
        let error = at(&self.endpoint, error);
        self.stream = None;
        self.members.pass(self.turn);
        self.bear(error).await
    }

    /// Gives up, or waits a little before the next try.
    async fn bear(&mut self, error: DatastoreError) -> Result<(), DatastoreError> {
        if is_out_of_history(&error) {
            return Err(DatastoreError::TooOld { revision: self.cursor });
        }
        let since = self.lost.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        if !error.is_retryable() || since.elapsed() >= PATIENCE {
            return Err(error);
        }
        self.lost = Some((since, error));
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    fn take(&mut self, message: &WatchResponse) -> Result<(), DatastoreError> {
        if message.compact_revision() > 0 {
            return Err(DatastoreError::TooOld { revision: self.cursor });
        }
        if message.canceled() {
            let source = Some(message.cancel_reason().to_owned().into());
            return Err(at(&self.endpoint, DatastoreError::Refused { operation: "watch".to_owned(), source }));
        }
        // A store that was restored from an older copy takes a start in its future, and would be silent until it gets there.
        if message.header().is_some_and(|header| header.revision() < to_etcd(self.cursor)) {
            return Err(DatastoreError::TooOld { revision: self.cursor });
        }
        for pair in message.events().iter().filter_map(etcd_client::Event::kv) {
            self.cursor = from_etcd(pair.mod_revision());
            if let Some(event) = self.event(pair) {
                self.buffer.push_back(event);
            }
        }
        // The message that only says that the watch exists has a header, too, but the past may still have to come.
        if let (true, false, Some(header)) = (message.events().is_empty(), message.created(), message.header()) {
            self.cursor = from_etcd(header.revision());
            self.buffer.push_back(WatchEvent::Progress(self.cursor));
        }
        Ok(())
    }

    fn event(&self, pair: &KeyValue) -> Option<WatchEvent> {
        let key = key_of(pair).filter(|key| self.scope.contains(key))?;
        // A deleted key has no version.
        Some(if pair.version() == 0 {
            WatchEvent::Deleted { key, revision: from_etcd(pair.mod_revision()) }
        } else {
            WatchEvent::Put(decode(key, pair))
        })
    }
}

#[async_trait]
impl Watch for EtcdWatch {
    async fn next(&mut self) -> Result<WatchEvent, DatastoreError> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                return Ok(event);
            }
            self.advance().await?;
        }
    }
}
