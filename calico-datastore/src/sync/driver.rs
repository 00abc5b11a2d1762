//! The asking and waiting half of the syncer: one task per scope lists and watches, one task merges and delivers.
//!
//! A store that is away at the start, goes away or forgets its history never ends a syncer: it keeps what it knows, retries
//! with growing pauses, and delivers the difference. When the consumer is slow the merging task stops taking events once a
//! backlog has gathered, the scopes' channel fills, and the watches wait.

use std::sync::Arc;
use std::time::Duration;

use calico_core::text::Words;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::merge::{Merge, ScopeId, Seen, SyncEvent};
use crate::{Datastore, DatastoreError, Revision, Scan, Scope, Watch, WatchEvent};

/// Changes, and parts of listings, that wait between the scopes' tasks and the merging one.
const INBOX: usize = 16;

/// A watch that lived so long was a good one: the trouble that ended it is new trouble.
const GOOD_WATCH: Duration = Duration::from_secs(10);

/// A store that is there begins to answer within.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How a syncer behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and ..Default::default()")]
pub struct SyncOptions {
    /// Events that may wait in the consumer's channel. Default 2: what waits there is not merged any more.
    pub channel: usize,
    /// Updates that may gather, merged by key, before the watches are held back. Default 2 048, which is two batches.
    pub backlog: usize,
    /// Longest pause between two tries. Default 5 s.
    pub longest_pause: Duration,
}

impl Default for SyncOptions {
    fn default() -> Self {
        Self { channel: 2, backlog: 2048, longest_pause: Duration::from_secs(5) }
    }
}

/// A running syncer. Dropping it stops it.
#[derive(Debug)]
pub struct Syncer {
    events: mpsc::Receiver<SyncEvent>,
    /// Aborts its tasks when dropped.
    _tasks: JoinSet<()>,
}

enum Input {
    Begun,
    Entries(Vec<Seen>),
    Listed,
    Changed(WatchEvent),
    Unavailable { reason: String, retry_in: Duration },
    Unwatched { reason: String, retry_in: Duration },
}

impl Syncer {
    /// Starts to follow scopes of a store. They must not overlap. Must be called inside a tokio runtime.
    pub fn start(store: Arc<dyn Datastore>, scopes: Vec<Scope>, options: SyncOptions) -> Self {
        let merge = Merge::new(scopes.len());
        let (inputs, inbox) = mpsc::channel(INBOX);
        let (outputs, events) = mpsc::channel(options.channel.max(1));
        let mut tasks = JoinSet::new();
        for (id, scope) in merge.scope_ids().zip(scopes) {
            let follower = Follower {
                store: Arc::clone(&store),
                id,
                scope,
                inputs: inputs.clone(),
                backoff: Backoff::new(options.longest_pause),
                lost: None,
                words: Words::default(),
            };
            tasks.spawn(follower.run());
        }
        tasks.spawn(deliver(merge, inbox, outputs, options.backlog.max(1)));
        Self { events, _tasks: tasks }
    }

    /// The next event. Cancel safe. `None` only when the runtime is shutting down.
    pub async fn next(&mut self) -> Option<SyncEvent> {
        self.events.recv().await
    }
}

/// Merges what the scopes' tasks report, and hands it on as the consumer takes it.
async fn deliver(
    mut merge: Merge,
    mut inbox: mpsc::Receiver<(ScopeId, Input)>,
    outputs: mpsc::Sender<SyncEvent>,
    backlog: usize,
) {
    loop {
        tokio::select! {
            // Input first: what has arrived is merged before the consumer gets the next batch.
            biased;
            Some((scope, input)) = inbox.recv(), if merge.backlog() < backlog => match input {
                Input::Begun => merge.begin_listing(scope),
                Input::Entries(entries) => merge.handle_entries(scope, entries),
                Input::Listed => merge.end_listing(scope),
                Input::Changed(event) => merge.handle_event(scope, event),
                Input::Unavailable { reason, retry_in } => merge.handle_unavailable(scope, reason, retry_in),
                Input::Unwatched { reason, retry_in } => merge.handle_unwatched(reason, retry_in),
            },
            permit = outputs.reserve(), if merge.has_output() => match (permit, merge.poll_output()) {
                (Ok(permit), Some(event)) => permit.send(event),
                (Err(_), _) => return,
                (Ok(_), None) => {}
            },
            () = outputs.closed() => return,
        }
    }
}

/// Lists and watches one scope.
struct Follower {
    store: Arc<dyn Datastore>,
    id: ScopeId,
    scope: Scope,
    inputs: mpsc::Sender<(ScopeId, Input)>,
    backoff: Backoff,
    /// Why the last watch was lost or could not be opened, until the next listing.
    lost: Option<String>,
    /// What the scope's objects say over and over: whoever keeps them all keeps it once.
    words: Words,
}

impl Follower {
    async fn run(mut self) {
        while let Ok(()) = self.round().await {}
    }

    /// One listing and the watch that follows. Fails when the syncer is gone.
    async fn round(&mut self) -> Result<(), Gone> {
        let from = match self.list().await? {
            Ok(revision) => revision,
            Err(DatastoreError::TooOld { .. }) => {
                tokio::time::sleep(self.backoff.advance()).await;
                return Ok(());
            }
            Err(error) => {
                let retry_in = self.backoff.advance();
                self.send(Input::Unavailable { reason: error.chain(), retry_in }).await?;
                tokio::time::sleep(retry_in).await;
                return Ok(());
            }
        };
        let started = Instant::now();
        let ended = match self.store.watch(&self.scope, from).await {
            Ok(watch) => self.follow(watch).await?,
            Err(error @ DatastoreError::TooOld { .. }) => error,
            Err(error) => {
                let (reason, retry_in) = (error.chain(), self.backoff.advance());
                self.lost = Some(reason.clone());
                self.send(Input::Unwatched { reason, retry_in }).await?;
                tokio::time::sleep(retry_in).await;
                return Ok(());
            }
        };
        if started.elapsed() >= GOOD_WATCH {
            self.backoff.reset();
        }
        self.lost = (!matches!(ended, DatastoreError::TooOld { .. })).then(|| ended.chain());
        tokio::time::sleep(self.backoff.advance()).await;
        Ok(())
    }

    /// Reports a whole listing, bit by bit; answers with its revision, or why it did not come to its end.
    async fn list(&mut self) -> Result<Result<Revision, DatastoreError>, Gone> {
        let lost = self.lost.take();
        let mut scan = match self.begin(lost).await? {
            Ok(scan) => scan,
            Err(error) => return Ok(Err(error)),
        };
        self.send(Input::Begun).await?;
        loop {
            match scan.next().await {
                Ok(Some(mut entries)) => {
                    entries.iter_mut().flatten().for_each(|stored| stored.share(&mut self.words));
                    self.send(Input::Entries(entries.into_iter().map(Seen::from).collect())).await?;
                }
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.send(Input::Listed).await?;
        Ok(Ok(scan.revision()))
    }

    /// Begins a listing. After a watch that was lost or refused it works at once, and that was all; or it fails, and says why. But a
    /// store that is silent takes long to say that, and meanwhile nobody may believe that the picture is current.
    async fn begin(&self, lost: Option<String>) -> Result<Result<Box<dyn Scan>, DatastoreError>, Gone> {
        let mut scan = self.store.scan(&self.scope);
        let Some(reason) = lost else { return Ok(scan.await) };
        if let Ok(answer) = tokio::time::timeout(AT_ONCE, &mut scan).await {
            return Ok(answer);
        }
        // Nothing that was asked now has failed: it may only be slow.
        let reason = format!("the datastore does not answer yet (watch lost: {reason})");
        self.send(Input::Unavailable { reason, retry_in: Duration::ZERO }).await?;
        Ok(scan.await)
    }

    /// Reports changes until the watch ends; answers why it did.
    async fn follow(&mut self, mut watch: Box<dyn Watch>) -> Result<DatastoreError, Gone> {
        loop {
            match watch.next().await {
                Ok(mut event) => {
                    self.backoff.reset();
                    if let WatchEvent::Put(Ok(stored)) = &mut event {
                        stored.share(&mut self.words);
                    }
                    self.send(Input::Changed(event)).await?;
                }
                Err(error) => return Ok(error),
            }
        }
    }

    async fn send(&self, input: Input) -> Result<(), Gone> {
        self.inputs.send((self.id, input)).await.map_err(|_| Gone)
    }
}

/// Nobody listens any more.
struct Gone;
