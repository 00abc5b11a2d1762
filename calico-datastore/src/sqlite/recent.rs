//! The newest changes of the log, read once for all watches of a handle.
//!
//! A commit wakes every watch. The first one to come reads what the log gained, the others find it here, so that a commit costs
//! one read however many scopes are watched. A watch that lags further behind than this reaches back reads the log itself.
//!
//! Invariant: `events` are all changes after `from`, up to and including `upto`, oldest first, and `from` is not below where the
//! log was trimmed.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::connection::{FileId, Readers};
use super::query::{self, Changes, Page};
use crate::key::{self, PathRange};
use crate::{DatastoreError, Revision, Scope, WatchEvent};

/// Changes kept: some batches, so that a watch that is a little late needs no read of its own.
const CAPACITY: usize = 512;

/// The log, as the watches of a handle see it.
pub(super) struct Log {
    readers: Arc<Readers>,
    recent: Mutex<Recent>,
}

/// What a watch wants to know.
pub(super) struct Query<'a> {
    pub(super) scope: &'a Scope,
    pub(super) range: &'a PathRange,
    /// The revision up to which it knows everything, and the file that had it.
    pub(super) cursor: u64,
    pub(super) file: Option<FileId>,
    /// The commit that woke it: what was read for an earlier one will not do. `None` asks for a fresh read.
    pub(super) tick: Option<u64>,
}

/// Changes of a scope after a cursor.
#[derive(Debug, PartialEq)]
pub(super) struct News {
    pub(super) events: Vec<WatchEvent>,
    /// The revision up to which this is complete.
    pub(super) upto: u64,
    /// Whether there is more.
    pub(super) more: bool,
    /// When the next object expires, in milliseconds since 1970.
    pub(super) next_expiry: Option<i64>,
    /// The file that was read.
    pub(super) file: Option<FileId>,
}

impl Log {
    pub(super) fn new(readers: Arc<Readers>) -> Self {
        Self { readers, recent: Mutex::new(Recent::new(CAPACITY)) }
    }

    /// What a scope has after a cursor. Dropping the future loses nothing: the next caller reads instead.
    pub(super) async fn after(&self, query: Query<'_>) -> Result<News, DatastoreError> {
        let too_old = || DatastoreError::TooOld { revision: Revision::from_raw(query.cursor) };
        {
            let mut recent = self.recent.lock().await;
            if query.tick.is_none() || recent.tick < query.tick {
                let (file, changes) = self.read(Scope::All, key::range(&Scope::All)?, recent.upto).await?;
                recent.take_in(file, changes, query.tick);
            }
            if query.file.is_some_and(|file| recent.file != Some(file)) {
                return Err(too_old());
            }
            if let Some(news) = recent.since(query.scope, query.cursor) {
                return Ok(news);
            }
        }
        let (file, changes) = self.read(query.scope.clone(), query.range.clone(), query.cursor).await?;
        if query.file.is_some_and(|known| known != file) {
            return Err(too_old());
        }
        let Changes { newest, next_expiry, page, .. } = changes;
        let Page { events, upto } = page.ok_or_else(too_old)?;
        Ok(News { events, upto, more: upto < newest, next_expiry, file: Some(file) })
    }

    async fn read(&self, scope: Scope, range: PathRange, after: u64) -> Result<(FileId, Changes), DatastoreError> {
        self.readers.read_file("watch", move |connection| query::changes(connection, &scope, &range, after)).await
    }
}

#[derive(Debug)]
struct Recent {
    events: VecDeque<WatchEvent>,
    capacity: usize,
    from: u64,
    upto: u64,
    newest: u64,
    next_expiry: Option<i64>,
    file: Option<FileId>,
    /// The newest commit that the last read must have seen; none if there is more to read.
    tick: Option<u64>,
}

impl Recent {
    const fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::new(),
            capacity,
            // Nothing is this new, so that the first read only says how new the log is.
            from: u64::MAX,
            upto: u64::MAX,
            newest: 0,
            next_expiry: None,
            file: None,
            tick: None,
        }
    }

    /// Adds what was read after `upto`, when that was asked for because of a commit, or of none in particular.
    fn take_in(&mut self, file: FileId, changes: Changes, tick: Option<u64>) {
        let same_file = self.file.replace(file) == Some(file);
        self.next_expiry = changes.next_expiry;
        self.newest = changes.newest;
        match changes.page {
            Some(Page { events, upto }) if same_file => {
                self.events.extend(events);
                self.upto = upto;
            }
            // Another file, or so far behind that the log was trimmed meanwhile: begin anew.
            _ => {
                self.events.clear();
                (self.from, self.upto) = (changes.newest, changes.newest);
            }
        }
        while self.events.len() > self.capacity {
            self.forget_first();
        }
        while self.events.front().is_some_and(|event| event.revision().raw() <= changes.trimmed) {
            self.forget_first();
        }
        self.from = self.from.max(changes.trimmed.min(self.upto));
        self.tick = if self.upto < self.newest { None } else { self.tick.max(tick) };
    }

    fn forget_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.from = event.revision().raw();
        }
    }

    /// What a scope has after a cursor; `None` when that is not known here.
    fn since(&self, scope: &Scope, cursor: u64) -> Option<News> {
        if cursor < self.from || cursor > self.upto {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision().raw() <= cursor);
        let in_scope = |event: &&WatchEvent| event.key().is_some_and(|key| scope.contains(key));
        Some(News {
            events: self.events.range(start..).filter(in_scope).cloned().collect(),
            upto: self.upto,
            more: self.upto < self.newest,
            next_expiry: self.next_expiry,
            file: self.file,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::tier;

    const FILE: FileId = FileId { device: 1, inode: 1 };

    fn deleted(name: u8, revision: u64) -> WatchEvent {
        WatchEvent::Deleted { key: tier(&format!("t{name}"), 0.0).0, revision: Revision::from_raw(revision) }
    }

    /// What happens to a log of which a [`Recent`] is fed.
    #[derive(Debug, Clone)]
    enum Step {
        /// A commit of so many changes.
        Commit(u8),
        /// All but the newest revisions are forgotten.
        Trim(u8),
        /// A read of so many revisions at most.
        Read(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (1..4_u8).prop_map(Step::Commit),
            1 => (0..6_u8).prop_map(Step::Trim),
            4 => (1..8_u8).prop_map(Step::Read),
        ]
    }

    proptest! {
        /// The twin is the whole log as a list.
        #[test]
        fn says_what_the_log_says_or_nothing(steps in prop::collection::vec(step(), 0..60), scope in 0..3_u8) {
            let (mut log, mut newest, mut trimmed) = (Vec::new(), 1_u64, 1_u64);
            let mut recent = Recent::new(5);
            let scope = if scope == 0 { Scope::All } else { Scope::Key(tier(&format!("t{scope}"), 0.0).0) };
            for step in steps {
                match step {
                    Step::Commit(changes) => {
                        newest += 1;
                        log.extend((0..changes).map(|name| deleted(name, newest)));
                    }
                    Step::Trim(keep) => {
                        trimmed = trimmed.max(newest.saturating_sub(keep.into()));
                    }
                    Step::Read(most) => {
                        let after = recent.upto;
                        let reachable = (trimmed..=newest).contains(&after);
                        let page = reachable.then(|| {
                            let upto = newest.min(after + u64::from(most));
                            let within = |event: &&WatchEvent| (after + 1..=upto).contains(&event.revision().raw());
                            Page { events: log.iter().filter(within).cloned().collect(), upto }
                        });
                        recent.take_in(FILE, Changes { newest, trimmed, next_expiry: None, page }, Some(newest));
                        prop_assert!(recent.events.len() <= 5);
                        prop_assert_eq!(recent.tick == Some(newest), recent.upto == newest, "fresh when complete");
                    }
                }
                for cursor in 0..=newest + 1 {
                    let Some(news) = recent.since(&scope, cursor) else { continue };
                    prop_assert!(news.upto <= newest && cursor <= news.upto);
                    let within = |event: &&WatchEvent| {
                        (cursor + 1..=news.upto).contains(&event.revision().raw()) && scope.contains(event.key().unwrap())
                    };
                    let expected: Vec<_> = log.iter().filter(within).cloned().collect();
                    prop_assert_eq!(news.events, expected);
                }
            }
        }
    }

    #[test]
    fn a_read_of_a_trimmed_log_or_of_another_file_begins_anew() {
        let page = |upto| Some(Page { events: vec![deleted(1, upto)], upto });
        let mut recent = Recent::new(5);
        recent.take_in(FILE, Changes { newest: 3, trimmed: 1, next_expiry: None, page: None }, None);
        recent.take_in(FILE, Changes { newest: 4, trimmed: 1, next_expiry: None, page: page(4) }, None);
        assert_eq!(recent.since(&Scope::All, 3).unwrap().events.len(), 1);
        recent.take_in(
            FILE,
            Changes { newest: 4, trimmed: 4, next_expiry: None, page: Some(Page { events: Vec::new(), upto: 4 }) },
            None,
        );
        assert_eq!(recent.since(&Scope::All, 3), None, "compacted");
        let other = FileId { inode: 2, ..FILE };
        recent.take_in(other, Changes { newest: 9, trimmed: 1, next_expiry: None, page: page(5) }, None);
        assert_eq!(recent.since(&Scope::All, 4), None);
        assert_eq!(recent.since(&Scope::All, 9).unwrap().events, []);
    }
}
