//! Which member of the cluster is asked.
//!
//! Requests go to the member that answered last. If it fails, or says nothing for a [while](SILENCE), a request that only reads
//! goes to the next one as well, and the first answer counts: a member that hangs costs that while and no more, one that is
//! merely slow still answers. A write is sent to one member, which must have answered something just [before](FRESH), and to
//! another one only if it surely did not arrive, for a write that is sent twice may meet itself. What may have arrived and was
//! not answered is [`DatastoreError::Undecided`]. The next request goes to whoever answered, or past whoever failed.
//!
//! (The client library can balance over several addresses by itself, but gives the error of a dead one to the caller, and picks
//! it again, because who fails at once is never busy.)
//!
//! Members found by DNS are looked up again when none of them answers.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, GetOptions};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::error::{at, is_out_of_history, surely_not_done, unavailable, undecided};
use super::options::Access;
use super::{discovery, within};
use crate::{DatastoreError, Discovery, EtcdConfig, key};

/// How long a member may say nothing before another one is asked, too. Ten times what a member under load takes, and less than
/// what somebody at a terminal calls hanging.
const SILENCE: Duration = Duration::from_secs(1);

/// How old a sign of life may be for a write to be sent without another. Writes in a row need none; the first one after a pause
/// costs a round trip.
const FRESH: Duration = Duration::from_secs(1);

pub(super) struct Members {
    access: Access,
    /// Where the addresses come from, unless they were given.
    discovery: Option<Discovery>,
    found: Mutex<Option<Arc<[Member]>>>,
    /// Which member is asked first; counts on beyond the last.
    turn: AtomicUsize,
}

struct Member {
    endpoint: Arc<str>,
    client: OnceCell<Client>,
    /// When it answered last.
    answered: Mutex<Option<Instant>>,
}

/// An answer, and whose.
pub(super) struct Answer<T> {
    pub(super) value: T,
    /// For [`Members::pass`].
    pub(super) turn: usize,
    pub(super) endpoint: Arc<str>,
}

impl Members {
    /// Reads the files that the configuration names.
    pub(super) async fn new(config: &EtcdConfig) -> Result<Self, DatastoreError> {
        let access = Access::read(config).await?;
        let discovery = config.discovery.clone();
        let given = discovery.is_none().then(|| members(&config.endpoints));
        Ok(Self { access, discovery, found: Mutex::new(given), turn: AtomicUsize::new(0) })
    }

    /// Asks for what may be asked for twice, until a member answers.
    pub(super) async fn ask<T, Asked>(
        &self,
        operation: &str,
        request: impl Fn(Client) -> Asked,
    ) -> Result<Answer<T>, DatastoreError>
    where
        Asked: Future<Output = Result<T, DatastoreError>>,
    {
        let members = self.members().await?;
        let first = self.turn.load(Ordering::Relaxed);
        let mut offsets = 0..members.len();
        let mut asked = FuturesUnordered::new();
        let mut last = None;
        loop {
            let turn = offsets.next().map(|offset| first.wrapping_add(offset));
            if let Some((turn, member)) = turn.and_then(|turn| Some((turn, members.get(turn % members.len())?))) {
                let attempt = self.attempt(member, &request);
                let endpoint = Arc::clone(&member.endpoint);
                asked.push(async move { (turn, endpoint, attempt.await) });
            }
            let is_last = offsets.is_empty();
            let answer = async {
                if is_last { Ok(asked.next().await) } else { tokio::time::timeout(SILENCE, asked.next()).await }
            };
            match answer.await {
                Ok(Some((turn, endpoint, Ok(value)))) => {
                    self.turn_to(first, turn);
                    return Ok(Answer { value, turn, endpoint });
                }
                Ok(Some((.., Err(error)))) if is_answer(&error) => return Err(error),
                Ok(Some((.., Err(error)))) => last = Some(error),
                Ok(None) => break,
                // The next one is asked as well.
                Err(_) => {}
            }
        }
        self.pass(first);
        Err(self.nobody(operation, &members, last))
    }

    /// Sends a write, once.
    pub(super) async fn write<T, Asked>(
        &self,
        operation: &str,
        request: impl Fn(Client) -> Asked,
    ) -> Result<T, DatastoreError>
    where
        Asked: Future<Output = Result<T, DatastoreError>>,
    {
        let members = self.members().await?;
        let mut last = None;
        for _ in 0..members.len() {
            let turn = self.alive(&members).await?;
            let Some(member) = members.get(turn % members.len()) else { break };
            let client = match self.connect(member).await {
                Ok(client) => client,
                Err(error) if is_answer(&error) => return Err(error),
                Err(error) => {
                    self.pass(turn);
                    last = Some(error);
                    continue;
                }
            };
            match request(client).await.map_err(|error| at(&member.endpoint, error)) {
                Err(error) if !is_answer(&error) => {
                    *member.answered() = None;
                    self.pass(turn);
                    if !surely_not_done(&error) {
                        return Err(undecided(error));
                    }
                    last = Some(error);
                }
                answer => {
                    *member.answered() = Some(Instant::now());
                    return answer;
                }
            }
        }
        Err(self.nobody(operation, &members, last))
    }

    /// The member to write to: of several, one that is known to be there.
    async fn alive(&self, members: &[Member]) -> Result<usize, DatastoreError> {
        let turn = self.turn.load(Ordering::Relaxed);
        let is_alive = |member: &Member| member.answered().is_some_and(|when| when.elapsed() < FRESH);
        if members.len() <= 1 || members.get(turn % members.len()).is_some_and(is_alive) {
            return Ok(turn);
        }
        // A key that nobody has. Like every read, its answer needs the cluster's majority, which the write does, too. Who is not
        // allowed to read it has an answer all the same.
        let what = "look whether a member answers";
        let look = |client: Client| async move {
            let options = GetOptions::new().with_keys_only();
            match within(what, client.kv_client().get(key::ROOT, Some(options))).await {
                Err(error) if !is_answer(&error) => Err(error),
                _ => Ok(()),
            }
        };
        self.ask(what, look).await.map(|answer| answer.turn)
    }

    async fn attempt<T, Asked>(&self, member: &Member, request: &impl Fn(Client) -> Asked) -> Result<T, DatastoreError>
    where
        Asked: Future<Output = Result<T, DatastoreError>>,
    {
        let answer = request(self.connect(member).await?).await.map_err(|error| at(&member.endpoint, error));
        if answer.as_ref().err().is_none_or(is_answer) {
            *member.answered() = Some(Instant::now());
        }
        answer
    }

    /// The failure of a request that no member answered.
    fn nobody(&self, operation: &str, members: &[Member], last: Option<DatastoreError>) -> DatastoreError {
        if self.discovery.is_some() {
            *self.found() = None;
        }
        let asked: Vec<&str> = members.iter().map(|member| &*member.endpoint).collect();
        match (last, asked.as_slice()) {
            (Some(last), [_]) => last,
            (last, _) => {
                let operation = format!("etcd {operation}: none of its members answers ({})", asked.join(", "));
                let cause = match last {
                    Some(DatastoreError::Unavailable { source, .. }) => source,
                    other => other.map(Into::into),
                };
                unavailable(operation, cause)
            }
        }
    }

    /// The member whose turn it was has failed: the next one's turn, unless somebody has said so already.
    pub(super) fn pass(&self, turn: usize) {
        self.turn_to(turn, turn.wrapping_add(1));
    }

    fn turn_to(&self, from: usize, to: usize) {
        let _ = self.turn.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// The addresses, for messages.
    pub(super) fn endpoints(&self) -> Vec<Arc<str>> {
        let found = self.found();
        found.iter().flat_map(|members| members.iter()).map(|member| member.endpoint.clone()).collect()
    }

    async fn members(&self) -> Result<Arc<[Member]>, DatastoreError> {
        let known = self.found().clone();
        match (known, &self.discovery) {
            (Some(members), _) => Ok(members),
            (None, Some(discovery)) => {
                let endpoints = discovery::endpoints(discovery).await?;
                self.access.check(&endpoints)?;
                let members = members(&endpoints);
                *self.found() = Some(Arc::clone(&members));
                Ok(members)
            }
            (None, None) => Ok(members(&[])),
        }
    }

    async fn connect(&self, member: &Member) -> Result<Client, DatastoreError> {
        let client = member.client.get_or_try_init(|| self.access.client(&member.endpoint)).await;
        client.cloned().map_err(|error| at(&member.endpoint, error))
    }

    fn found(&self) -> MutexGuard<'_, Option<Arc<[Member]>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn answered(&self) -> MutexGuard<'_, Option<Instant>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn members(endpoints: &[String]) -> Arc<[Member]> {
    let member = |endpoint: &String| Member {
        endpoint: endpoint.as_str().into(),
        client: OnceCell::new(),
        answered: Mutex::new(None),
    };
    endpoints.iter().map(member).collect()
}

/// Whether another member would say the same.
fn is_answer(error: &DatastoreError) -> bool {
    !error.is_retryable() || is_out_of_history(error)
}
