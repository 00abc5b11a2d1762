//! A watch on the file: a cursor in the log of changes, read again whenever something was committed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::Shared;
use super::query::{self, Changes};
use crate::key::{self, PathRange};
use crate::{DatastoreError, Revision, Scope, Watch, WatchEvent};

/// Longest sleep towards an expiry: bounds the error of a clock that is stepped.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// So many revisions without a change in scope are worth reporting as progress.
const PROGRESS: u64 = 4096;

pub(super) struct SqliteWatch {
    shared: Arc<Shared>,
    scope: Scope,
    range: PathRange,
    cursor: u64,
    reported: u64,
    /// Whether the log may hold more than was read. Stays set while a read is under way, so that dropping the future of
    /// `next` forgets nothing.
    behind: bool,
    next_expiry: Option<i64>,
    buffer: VecDeque<WatchEvent>,
    wake: watch::Receiver<()>,
}

impl SqliteWatch {
    pub(super) async fn open(shared: Arc<Shared>, scope: Scope, from: Revision) -> Result<Self, DatastoreError> {
        let range = key::range(&scope)?;
        let wake = shared.wake.subscribe().map_err(|source| DatastoreError::Unavailable {
            operation: "watch (inotify)".to_owned(),
            source: Some(Box::new(source)),
        })?;
        let mut watch = Self {
            shared,
            scope,
            range,
            cursor: from.raw(),
            reported: from.raw(),
            behind: true,
            next_expiry: None,
            buffer: VecDeque::new(),
            wake,
        };
        watch.fill().await?;
        Ok(watch)
    }

    /// Reads what the log has after the cursor.
    async fn fill(&mut self) -> Result<(), DatastoreError> {
        self.behind = true;
        self.wake.mark_unchanged();
        let (scope, range, after) = (self.scope.clone(), self.range.clone(), self.cursor);
        let read = move |connection: &mut rusqlite::Connection| query::changes(connection, &scope, &range, after);
        match self.shared.readers.read("watch", read).await? {
            Changes::TooOld => Err(DatastoreError::TooOld { revision: Revision::from_raw(after) }),
            Changes::Some { events, upto, more, next_expiry } => {
                self.cursor = upto;
                self.behind = more;
                self.next_expiry = next_expiry;
                if let Some(last) = events.last() {
                    self.reported = last.revision().raw();
                } else if upto.saturating_sub(self.reported) >= PROGRESS {
                    self.reported = upto;
                    self.buffer.push_back(WatchEvent::Progress(Revision::from_raw(upto)));
                }
                self.buffer.extend(events);
                Ok(())
            }
        }
    }

    /// How long until an object expires, if one will.
    fn until_expiry(&self) -> Option<Duration> {
        let left = self.next_expiry?.saturating_sub(self.shared.now());
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(LONGEST_SLEEP))
    }
}

#[async_trait]
impl Watch for SqliteWatch {
    async fn next(&mut self) -> Result<WatchEvent, DatastoreError> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                return Ok(event);
            }
            if self.behind {
                self.fill().await?;
                continue;
            }
            match self.until_expiry() {
                Some(Duration::ZERO) => {
                    self.shared.writer.expire().await?;
                    self.behind = true;
                }
                Some(left) => {
                    // Either way the log is read again: an elapsed sleep may have been cut short.
                    let _ = tokio::time::timeout(left, self.wake.changed()).await;
                    self.behind = true;
                }
                None => {
                    // The sender lives in `shared`.
                    let _ = self.wake.changed().await;
                    self.behind = true;
                }
            }
        }
    }
}
