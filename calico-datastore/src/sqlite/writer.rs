//! The writer: one thread, one connection, one transaction at a time; or no thread, and whoever commits does it.
//!
//! Batches that wait while a transaction is being flushed share the next one, each at its own revision, so the price of
//! durability is paid once for all of them. None is acknowledged before the flush.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::commit::{self, Failure, History, Prepared};
use super::connection::{FileId, Readers};
use super::notify::LocalWake;
use super::{SqliteError, SqliteOptions, connection, query};
use crate::{Clock, Committed, DatastoreError};

/// Most jobs in one transaction: bounds how long other processes wait for the lock.
const GROUP: usize = 64;

/// Where commits are carried out.
pub(super) enum Writer {
    /// On a thread that ends when the last handle is gone.
    Thread(mpsc::Sender<Job>),
    /// On the calling thread.
    InPlace(Box<Mutex<Scribe>>),
}

type Answer<T> = oneshot::Sender<Result<T, DatastoreError>>;

/// Something to write.
pub(super) enum Job {
    Commit(Prepared, Answer<Vec<Committed>>),
    Expire(Answer<()>),
    Compact(Answer<()>),
    #[cfg(any(test, feature = "testing"))]
    Inject(String, Vec<u8>, Answer<()>),
}

impl Writer {
    pub(super) fn start(
        path: &Path,
        readers: Arc<Readers>,
        options: &SqliteOptions,
        wake: LocalWake,
    ) -> Result<Self, SqliteError> {
        let mut scribe = Scribe {
            path: path.to_owned(),
            readers,
            connection: None,
            clock: Arc::clone(&options.clock),
            history: History { revisions: options.history, bytes: options.history_bytes },
            wake,
        };
        if options.in_place {
            return Ok(Self::InPlace(Box::new(Mutex::new(scribe))));
        }
        let (jobs, inbox) = mpsc::channel();
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || scribe.run(&inbox))
            .map_err(|source| SqliteError::Open { path: path.to_owned(), source })?;
        Ok(Self::Thread(jobs))
    }

    pub(super) async fn commit(&self, batch: Prepared) -> Result<Vec<Committed>, DatastoreError> {
        self.ask("commit", |answer| Job::Commit(batch, answer)).await
    }

    /// Deletes what has expired.
    pub(super) async fn expire(&self) -> Result<(), DatastoreError> {
        self.ask("expire", Job::Expire).await
    }

    pub(super) async fn compact(&self) -> Result<(), DatastoreError> {
        self.ask("compact", Job::Compact).await
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) async fn inject(&self, path: String, bytes: Vec<u8>) -> Result<(), DatastoreError> {
        self.ask("inject", |answer| Job::Inject(path, bytes, answer)).await
    }

    async fn ask<T>(&self, operation: &str, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, DatastoreError> {
        let gone = || DatastoreError::Unavailable { operation: operation.to_owned(), source: None };
        let (answer, answered) = oneshot::channel();
        match self {
            Self::Thread(jobs) => jobs.send(job(answer)).map_err(|_| gone())?,
            // A failed transaction leaves nothing in the scribe.
            Self::InPlace(scribe) => scribe.lock().unwrap_or_else(PoisonError::into_inner).run_one(job(answer)),
        }
        answered.await.map_err(|_| gone())?
    }
}

/// Who writes.
pub(super) struct Scribe {
    path: PathBuf,
    readers: Arc<Readers>,
    /// Taken from the readers for the first job, and the file that it has open.
    connection: Option<(FileId, Connection)>,
    clock: Arc<dyn Clock>,
    history: History,
    wake: LocalWake,
}

/// What a job came to, told only after the transaction is durable.
enum Outcome {
    Commit(Answer<Vec<Committed>>, Result<Vec<Committed>, DatastoreError>),
    Done(Answer<()>),
}

impl Scribe {
    fn run(&mut self, inbox: &mpsc::Receiver<Job>) {
        while let Ok(first) = inbox.recv() {
            let mut group = vec![first];
            group.extend(inbox.try_iter().take(GROUP - 1));
            self.carry_out(group);
        }
    }

    /// Gives the connection back afterwards: reads come from the same thread.
    fn run_one(&mut self, job: Job) {
        self.carry_out(vec![job]);
        if let Some((file, connection)) = self.connection.take() {
            self.readers.keep(file, connection);
        }
    }

    fn carry_out(&mut self, group: Vec<Job>) {
        let (file, mut connection) = match self.connection() {
            Ok(opened) => opened,
            Err(error) => {
                // One cause has as many victims as jobs, and is no cloneable value: its text must do.
                let told = error.to_string();
                group.into_iter().map(Job::unanswered).for_each(|outcome| outcome.unavailable(&told));
                return;
            }
        };
        let mut outcomes = Vec::with_capacity(group.len());
        let result = self.transact(&mut connection, group, &mut outcomes);
        self.connection = Some((file, connection)).filter(|(_, connection)| connection::may_stay(connection));
        match result {
            Ok(changed) => {
                if changed {
                    self.wake.committed();
                }
                outcomes.into_iter().for_each(Outcome::tell);
            }
            Err(error) => outcomes.into_iter().for_each(|outcome| outcome.fail(&self.path, &error)),
        }
    }

    /// A connection to the file that is there now: to write into one that no path leads to would lose what was acknowledged.
    fn connection(&mut self) -> Result<(FileId, Connection), SqliteError> {
        let file = FileId::in_use(&self.path)?;
        if let Some((opened, connection)) = self.connection.take() {
            if opened == file {
                return Ok((file, connection));
            }
            self.wake.reopen();
        }
        let connection = match self.readers.idle(file) {
            Some(connection) => connection,
            None => connection::open_ready(&self.path)?,
        };
        Ok((file, connection))
    }

    /// One transaction for all jobs; whether anything changed. On failure, too, every job is in `outcomes`.
    fn transact(
        &self,
        connection: &mut Connection,
        group: Vec<Job>,
        outcomes: &mut Vec<Outcome>,
    ) -> rusqlite::Result<bool> {
        let now = connection::millis(self.clock.now());
        let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let begun = begun.and_then(|transaction| Ok((query::state(&transaction)?, transaction)));
        let (before, transaction) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                outcomes.extend(group.into_iter().map(Job::unanswered));
                return Err(error);
            }
        };
        let mut trouble = commit::expire(&transaction, now).err();
        for job in group {
            // After trouble the rest is only collected, to be told.
            let (outcome, result) =
                if trouble.is_some() { (job.unanswered(), Ok(())) } else { job.run(&transaction, now) };
            outcomes.push(outcome);
            trouble = trouble.or_else(|| result.err());
        }
        if let Some(error) = trouble {
            return Err(error);
        }
        let after = query::state(&transaction)?;
        if after != before {
            self.history.keep(&transaction)?;
        }
        transaction.commit()?;
        Ok(after != before)
    }
}

impl Job {
    /// Carries it out; the error is SQLite's and fails the whole transaction.
    fn run(self, transaction: &rusqlite::Transaction<'_>, now: i64) -> (Outcome, rusqlite::Result<()>) {
        match self {
            Self::Commit(batch, answer) => match commit::apply(transaction, &batch, now) {
                Ok(committed) => (Outcome::Commit(answer, Ok(committed)), Ok(())),
                Err(Failure::Refused(error)) => (Outcome::Commit(answer, Err(error)), Ok(())),
                Err(Failure::Sqlite(error)) => (Outcome::Commit(answer, Ok(Vec::new())), Err(error)),
            },
            Self::Expire(answer) => (Outcome::Done(answer), Ok(())),
            Self::Compact(answer) => {
                let all = query::state(transaction).and_then(|(newest, _)| commit::forget(transaction, newest));
                (Outcome::Done(answer), all)
            }
            #[cfg(any(test, feature = "testing"))]
            Self::Inject(path, bytes, answer) => (Outcome::Done(answer), commit::inject(transaction, &path, &bytes)),
        }
    }

    /// As an outcome whose content does not matter, because the transaction fails.
    fn unanswered(self) -> Outcome {
        match self {
            Self::Commit(_, answer) => Outcome::Commit(answer, Ok(Vec::new())),
            Self::Expire(answer) | Self::Compact(answer) => Outcome::Done(answer),
            #[cfg(any(test, feature = "testing"))]
            Self::Inject(_, _, answer) => Outcome::Done(answer),
        }
    }
}

impl Outcome {
    /// A caller that no longer waits does not care.
    fn tell(self) {
        match self {
            Self::Commit(answer, result) => drop(answer.send(result)),
            Self::Done(answer) => drop(answer.send(Ok(()))),
        }
    }

    fn unavailable(self, cause: &str) {
        let source = Some(cause.into());
        let error = DatastoreError::Unavailable { operation: "commit".to_owned(), source };
        match self {
            Self::Commit(answer, _) => drop(answer.send(Err(error))),
            Self::Done(answer) => drop(answer.send(Err(error))),
        }
    }

    fn fail(self, path: &Path, error: &rusqlite::Error) {
        let failed = |operation| Err(SqliteError::new(path, again(error)).during(operation));
        match self {
            Self::Commit(answer, _) => drop(answer.send(failed("commit"))),
            Self::Done(answer) => drop(answer.send(failed("write").map(|_: Vec<Committed>| ()))),
        }
    }
}

/// The same error once more: one failed flush has as many victims as jobs.
fn again(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => rusqlite::Error::SqliteFailure(*code, message.clone()),
        other => rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(other.to_string()),
        ),
    }
}
