//! Which member of the cluster is asked.
//!
//! Requests go to the member that answered last. When it does not answer, a request that may be repeated goes to the others in
//! turn; a write goes on only if it surely was not sent, for a write that is sent twice may meet itself. Every failure moves the
//! next request to the next member, so that a member that is cut off is asked once.
//!
//! (The client library can balance over several addresses by itself, but gives the error of a dead one to the caller, and picks
//! it again, because who fails at once is never busy.)
//!
//! Members found by DNS are looked up again when none of them answers.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use etcd_client::Client;
use tokio::sync::OnceCell;

use super::error::is_out_of_history;
use super::options::Access;
use super::{discovery, within};
use crate::{DatastoreError, EtcdConfig};

/// May a request be sent again when nobody knows whether it arrived?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It reads.
    Always,
    /// It writes.
    OnlyUnsent,
}

pub(super) struct Members {
    access: Access,
    /// Where the addresses come from, unless they were given.
    domain: Option<String>,
    found: Mutex<Option<Arc<[Member]>>>,
    /// Which member is asked first; counts on beyond the last.
    turn: AtomicUsize,
}

struct Member {
    endpoint: String,
    client: OnceCell<Client>,
}

impl Members {
    /// Reads the files that the configuration names.
    pub(super) async fn new(config: &EtcdConfig) -> Result<Self, DatastoreError> {
        let access = Access::read(config).await?;
        let domain = config.discovery.clone();
        let given = domain.is_none().then(|| members(&config.endpoints));
        Ok(Self { access, domain, found: Mutex::new(given), turn: AtomicUsize::new(0) })
    }

    /// Asks members until one answers.
    pub(super) async fn ask<T, Answer>(
        &self,
        operation: &str,
        repeat: Repeat,
        request: impl Fn(Client) -> Answer,
    ) -> Result<T, DatastoreError>
    where
        Answer: Future<Output = Result<T, DatastoreError>>,
    {
        let members = self.members().await?;
        let mut last = None;
        for _ in 0..members.len() {
            let turn = self.turn.load(Ordering::Relaxed);
            let Some(member) = members.get(turn % members.len().max(1)) else { break };
            let connected = self.connect(member, members.len() > 1).await;
            let was_connected = connected.is_ok();
            let error = match connected {
                Ok(client) => match request(client).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !error.is_retryable() || is_out_of_history(&error) {
                return Err(error);
            }
            self.pass(turn);
            let may_repeat = repeat == Repeat::Always || !was_connected || was_not_sent(&error);
            if !may_repeat {
                return Err(error);
            }
            last = Some(error);
        }
        if self.domain.is_some() {
            *self.found() = None;
        }
        Err(last
            .unwrap_or_else(|| DatastoreError::Unavailable { operation: format!("etcd {operation}"), source: None }))
    }

    /// The member whose turn it is, for [`pass`](Self::pass).
    pub(super) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// The member whose turn it was has failed: the next one's turn, unless somebody has said so already.
    pub(super) fn pass(&self, turn: usize) {
        let _ = self.turn.compare_exchange(turn, turn.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The addresses, for messages.
    pub(super) fn endpoints(&self) -> Vec<String> {
        let found = self.found();
        found.iter().flat_map(|members| members.iter()).map(|member| member.endpoint.clone()).collect()
    }

    async fn members(&self) -> Result<Arc<[Member]>, DatastoreError> {
        let known = self.found().clone();
        match (known, &self.domain) {
            (Some(members), _) => Ok(members),
            (None, Some(domain)) => {
                let endpoints = discovery::endpoints(domain).await?;
                self.access.check(&endpoints)?;
                let members = members(&endpoints);
                *self.found() = Some(Arc::clone(&members));
                Ok(members)
            }
            (None, None) => Ok(members(&[])),
        }
    }

    async fn connect(&self, member: &Member, is_one_of_several: bool) -> Result<Client, DatastoreError> {
        let options = || self.access.options(&member.endpoint, is_one_of_several);
        let connect = || within("connect", Client::connect([member.endpoint.as_str()], Some(options())));
        member.client.get_or_try_init(connect).await.cloned()
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Option<Arc<[Member]>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn members(endpoints: &[String]) -> Arc<[Member]> {
    let member = |endpoint: &String| Member { endpoint: endpoint.clone(), client: OnceCell::new() };
    endpoints.iter().map(member).collect()
}

/// Whether no connection came about, so that nothing was sent.
fn was_not_sent(error: &DatastoreError) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable);
        }
        cause = match error.downcast_ref() {
            // The library's error does not name its own cause.
            Some(etcd_client::Error::GRpcStatus(status)) => std::error::Error::source(status),
            _ => error.source(),
        };
    }
    false
}
