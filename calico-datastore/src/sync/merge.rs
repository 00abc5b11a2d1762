//! The pure half of the syncer: listings and watch events in, ordered updates and the overall status out.
//!
//! Each scope is listed, then watched; when its watch ends it is listed again, and the difference to what is known is
//! delivered, deletes included. Scopes must not overlap: a key belongs to one of them.
//!
//! Call order per scope: `begin_listing`, any number of `handle_entries`, `end_listing` (together: `handle_listing`), any number of
//! `handle_event`, then the same again (after a lost watch). A listing that fails half-way is begun again without an end.
//! `handle_unavailable` and `handle_unwatched` may come at any time. `poll_output` whenever the consumer has room; updates that it has not taken yet
//! are merged by key, so a slow consumer costs memory in proportion to the keys that changed and not to the changes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use calico_core::resource::{KeyMap, Packed, Resource, ResourceKey};
use calico_core::update::{SyncStatus, Update};

use crate::{BadObject, Entry, Listing, Revision, WatchEvent};

/// Updates in one event. Large enough to amortise a graph flush, small enough that the first one of a snapshot comes soon.
const BATCH: usize = 1024;

/// Which of the scopes that were given at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScopeId(pub(super) usize);

/// What the syncer tells its consumer.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a consumer that ignores one of them is wrong")]
pub enum SyncEvent {
    /// How far the picture is complete.
    Status(SyncStatus),
    /// New states of keys, no key twice.
    Updates(Vec<Update>),
    /// Something an operator should know.
    Diagnostic(Diagnostic),
}

/// Something an operator should know.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// An object is stored but cannot be used; it counts as absent but for what remains of it, which is delivered. Told once for each
    /// revision of it.
    BadObject(BadObject),
    /// An object that could not be used can be used now, or is gone: that was delivered before, so that nobody takes a mended one for gone.
    Mended(ResourceKey),
    /// The store does not answer, or cannot be watched; the next try comes after a pause. What was delivered stays valid.
    Unavailable {
        /// What the store, or the way to it, says.
        reason: String,
        /// The pause; none where a try is under way and takes long.
        retry_in: Duration,
    },
}

/// The machine. See the module.
#[derive(Debug)]
pub struct Merge {
    scopes: Vec<ScopeState>,
    announced: SyncStatus,
    output: Output,
}

/// What the machine needs of an entry; the document, which is the larger part, is not kept while it waits.
#[derive(Debug)]
pub(super) struct Seen {
    key: ResourceKey,
    revision: Revision,
    value: Result<Arc<Resource>, BadObject>,
}

impl From<Entry> for Seen {
    fn from(entry: Entry) -> Self {
        match entry {
            Ok(stored) => Self { key: stored.key, revision: stored.revision, value: Ok(stored.resource) },
            Err(bad) => Self { key: bad.key.clone(), revision: bad.revision, value: Err(bad) },
        }
    }
}

#[derive(Debug)]
struct ScopeState {
    status: SyncStatus,
    known: KeyMap<Known>,
}

/// What is remembered of a key; there may be a quarter of a million.
#[derive(Debug, Clone, Copy)]
struct Known {
    revision: Revision,
    usable: bool,
    /// Whether the consumer has it: usable, or something of it remains.
    delivered: bool,
    /// Whether the newest listing had it, or the watch has told of it since that began: what has not is gone when the listing ends.
    seen: bool,
}

impl Packed for Known {
    fn write(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.usable) | u8::from(self.delivered) << 1 | u8::from(self.seen) << 2;
        flags.write(out);
        self.revision.raw().write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let flags = u8::read(bytes)?;
        let revision = Revision::from_raw(u64::read(bytes)?);
        Some(Self { revision, usable: flags & 1 != 0, delivered: flags & 2 != 0, seen: flags & 4 != 0 })
    }
}

impl Merge {
    /// A machine for so many scopes. Its first output is [`SyncStatus::WaitForDatastore`].
    pub fn new(scopes: usize) -> Self {
        let scope = || ScopeState { status: SyncStatus::WaitForDatastore, known: KeyMap::default() };
        let mut output = Output::default();
        output.status(SyncStatus::WaitForDatastore);
        Self { scopes: (0..scopes).map(|_| scope()).collect(), announced: SyncStatus::WaitForDatastore, output }
    }

    /// The scopes, for whoever drives the machine.
    pub fn scope_ids(&self) -> impl Iterator<Item = ScopeId> + use<> {
        (0..self.scopes.len()).map(ScopeId)
    }

    /// A complete picture of a scope: what differs from what is known goes out, then the scope is in sync.
    pub fn handle_listing(&mut self, scope: ScopeId, listing: Listing) {
        self.begin_listing(scope);
        self.handle_entries(scope, listing.entries.into_iter().map(Seen::from));
        self.end_listing(scope);
    }

    /// A picture of a scope begins to come in.
    pub(super) fn begin_listing(&mut self, scope: ScopeId) {
        // Only a consumer that was told "wait" is told "resync": a watch that is merely resumed changes no status.
        self.set_status(scope, |status| match status {
            SyncStatus::WaitForDatastore => SyncStatus::Resync,
            other => other,
        });
        if let Some(state) = self.scopes.get_mut(scope.0) {
            state.known.change_all(|known| known.seen = false);
        }
    }

    /// A part of the picture: each object in it is as new as what is known, or newer.
    pub(super) fn handle_entries(&mut self, scope: ScopeId, entries: impl IntoIterator<Item = Seen>) {
        let Some(state) = self.scopes.get_mut(scope.0) else { return };
        for entry in entries {
            state.put(entry, &mut self.output);
        }
    }

    /// The picture is complete: what it did not have is gone.
    pub(super) fn end_listing(&mut self, scope: ScopeId) {
        let Some(state) = self.scopes.get_mut(scope.0) else { return };
        state.sweep(&mut self.output);
        self.set_status(scope, |_| SyncStatus::InSync);
    }

    /// A change that the scope's watch reported.
    pub fn handle_event(&mut self, scope: ScopeId, event: WatchEvent) {
        let Some(state) = self.scopes.get_mut(scope.0) else { return };
        match event {
            WatchEvent::Put(entry) => state.put(entry.into(), &mut self.output),
            WatchEvent::Deleted { key, .. } => {
                if let Some(known) = state.known.remove(&key) {
                    self.output.gone(key, known);
                }
            }
            WatchEvent::Progress(_) => {}
        }
    }

    /// The scope cannot be listed now, or its watch was lost and nobody answers. What was delivered stays; the status says that it may be out of date.
    pub fn handle_unavailable(&mut self, scope: ScopeId, reason: String, retry_in: Duration) {
        self.output.diagnostic(Diagnostic::Unavailable { reason, retry_in });
        self.set_status(scope, |_| SyncStatus::WaitForDatastore);
    }

    /// A scope was listed but cannot be watched now. The picture is as new as the listing, and listings go on: no change of
    /// status, but somebody should know why changes come late.
    pub fn handle_unwatched(&mut self, reason: String, retry_in: Duration) {
        self.output.diagnostic(Diagnostic::Unavailable { reason, retry_in });
    }

    /// The next thing to tell the consumer.
    pub fn poll_output(&mut self) -> Option<SyncEvent> {
        self.output.poll()
    }

    /// Whether [`poll_output`](Self::poll_output) has something.
    pub fn has_output(&self) -> bool {
        !self.output.queue.is_empty()
    }

    /// How many updates and other events wait: stop feeding when the consumer does not keep up.
    pub const fn backlog(&self) -> usize {
        self.output.backlog
    }

    fn set_status(&mut self, scope: ScopeId, next: impl FnOnce(SyncStatus) -> SyncStatus) {
        let Some(state) = self.scopes.get_mut(scope.0) else { return };
        state.status = next(state.status);
        let overall = self.overall();
        if overall != self.announced {
            self.announced = overall;
            self.output.status(overall);
        }
    }

    /// In sync when all are, waiting when all are, otherwise between (upstream's rule).
    fn overall(&self) -> SyncStatus {
        let all = |wanted| self.scopes.iter().all(|scope| scope.status == wanted);
        if all(SyncStatus::InSync) {
            SyncStatus::InSync
        } else if all(SyncStatus::WaitForDatastore) {
            SyncStatus::WaitForDatastore
        } else {
            SyncStatus::Resync
        }
    }
}

impl ScopeState {
    fn put(&mut self, seen: Seen, output: &mut Output) {
        let Seen { key, revision, value } = seen;
        let delivered = value.as_ref().map_or_else(|bad| bad.remains.is_some(), |_| true);
        let now = Known { revision, usable: value.is_ok(), delivered, seen: true };
        let before = self.known.insert(&key, now);
        if before.is_some_and(|before| before.revision == revision) {
            return;
        }
        match value {
            Ok(resource) => {
                output.update(key.clone(), Some(resource));
                if before.is_some_and(|before| !before.usable) {
                    output.diagnostic(Diagnostic::Mended(key));
                }
            }
            Err(bad) => {
                let remains = bad.remains.clone();
                output.diagnostic(Diagnostic::BadObject(bad));
                if delivered || before.is_some_and(|before| before.delivered) {
                    output.update(key, remains);
                }
            }
        }
    }

    /// Forgets, and reports absent, what the newest listing no longer has.
    fn sweep(&mut self, output: &mut Output) {
        for key in self.known.keys_where(|known| !known.seen) {
            if let Some(known) = self.known.remove(&key) {
                output.gone(key, known);
            }
        }
    }
}

/// What waits for the consumer, in order. Only the last batch is open for merging: nothing moves across a status.
#[derive(Debug, Default)]
struct Output {
    queue: VecDeque<SyncEvent>,
    /// Position of each key in the last batch of the queue.
    open: HashMap<ResourceKey, usize>,
    backlog: usize,
}

impl Output {
    fn status(&mut self, status: SyncStatus) {
        self.push(SyncEvent::Status(status));
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.push(SyncEvent::Diagnostic(diagnostic));
    }

    fn gone(&mut self, key: ResourceKey, known: Known) {
        if known.delivered {
            self.update(key.clone(), None);
        }
        if !known.usable {
            self.diagnostic(Diagnostic::Mended(key));
        }
    }

    fn push(&mut self, event: SyncEvent) {
        self.open.clear();
        self.backlog += 1;
        self.queue.push_back(event);
    }

    fn update(&mut self, key: ResourceKey, value: Option<Arc<Resource>>) {
        if let Some(SyncEvent::Updates(batch)) = self.queue.back_mut() {
            if let Some(waiting) = self.open.get(&key).and_then(|position| batch.get_mut(*position)) {
                waiting.value = value;
                return;
            }
            if batch.len() < BATCH {
                self.open.insert(key.clone(), batch.len());
                batch.push(Update { key, value });
                self.backlog += 1;
                return;
            }
        }
        self.open.clear();
        self.open.insert(key.clone(), 0);
        self.backlog += 1;
        self.queue.push_back(SyncEvent::Updates(vec![Update { key, value }]));
    }

    fn poll(&mut self) -> Option<SyncEvent> {
        let event = self.queue.pop_front()?;
        if self.queue.is_empty() {
            self.open.clear();
        }
        self.backlog = self.backlog.saturating_sub(match &event {
            SyncEvent::Updates(batch) => batch.len(),
            _ => 1,
        });
        Some(event)
    }
}
