//! A watch on the file: a cursor in the log of changes, looked at again whenever something was committed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::Shared;
use super::connection::FileId;
use super::notify::Ticks;
use super::recent::Query;
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
    /// The file that the cursor belongs to.
    file: Option<FileId>,
    reported: u64,
    /// Whether the log may hold more than was read. Stays set while a read is under way, so that dropping the future of
    /// `next` forgets nothing.
    behind: bool,
    next_expiry: Option<i64>,
    buffer: VecDeque<WatchEvent>,
    wake: watch::Receiver<Ticks>,
    /// How often waking had been lost when it began; see [`Ticks`].
    losses: u64,
}

impl SqliteWatch {
    pub(super) async fn open(shared: Arc<Shared>, scope: Scope, from: Revision) -> Result<Self, DatastoreError> {
        let range = key::range(&scope)?;
        let wake = shared.wake.subscribe().map_err(|source| no_waking(Some(source)))?;
        let losses = wake.borrow().losses;
        let mut watch = Self {
            shared,
            scope,
            range,
            cursor: from.raw(),
            file: None,
            reported: from.raw(),
            behind: true,
            next_expiry: None,
            buffer: VecDeque::new(),
            wake,
            losses,
        };
        // Whatever was committed before this handle began to listen has woken nobody.
        watch.fill(true).await?;
        Ok(watch)
    }

    /// Takes what the log has after the cursor; `afresh` does not trust what another watch has read.
    async fn fill(&mut self, afresh: bool) -> Result<(), DatastoreError> {
        self.behind = true;
        let ticks = *self.wake.borrow_and_update();
        if ticks.losses != self.losses {
            return Err(no_waking(None));
        }
        let tick = (!afresh).then_some(ticks.commits);
        let query = Query { scope: &self.scope, range: &self.range, cursor: self.cursor, file: self.file, tick };
        let news = self.shared.log.after(query).await?;
        self.cursor = news.upto;
        self.file = news.file;
        self.behind = news.more;
        self.next_expiry = news.next_expiry;
        if let Some(last) = news.events.last() {
            self.reported = last.revision().raw();
        } else if news.upto.saturating_sub(self.reported) >= PROGRESS {
            self.reported = news.upto;
            self.buffer.push_back(WatchEvent::Progress(Revision::from_raw(news.upto)));
        }
        self.buffer.extend(news.events);
        Ok(())
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
                self.fill(false).await?;
                continue;
            }
            match self.until_expiry() {
                Some(Duration::ZERO) => {
                    self.shared.writer.expire().await?;
                    // Another process may have been first, and its notice may still be under way.
                    self.fill(true).await?;
                }
                Some(left) => {
                    // An elapsed sleep may have been cut short: how long is left is asked again.
                    if tokio::time::timeout(left, self.wake.changed()).await.is_ok() {
                        self.behind = true;
                    }
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

/// Nobody tells any more when another process commits: the directory was removed, or inotify refuses.
fn no_waking(source: Option<std::io::Error>) -> DatastoreError {
    let source = source.map(|source| Box::new(source) as _);
    DatastoreError::Unavailable { operation: "watch (inotify on the directory)".to_owned(), source }
}
