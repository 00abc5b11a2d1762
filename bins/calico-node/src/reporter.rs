//! Answers CalicoNodeStatuses: what an operator asks of this node's BGP is looked at and written into the object's status.
//!
//! In come the objects that name this node and the agent's own picture; out go writes of `status`, and only of one that differs: when it was
//! looked at last is no difference. An object that cannot be written is tried again; it never holds up another.

mod answer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calico_cmd::control::{Answer, NodeStatus, RouteReport, Success, Verb};
use calico_cmd::output::chain;
use calico_core::resource::{
    CalicoNodeStatusSpec, CalicoNodeStatusStatus, Kind, NodeStatusClass, ReportedObject, Resource, ResourceKey,
};
use calico_core::update::Update;
use calico_datastore::client::{Client, ClientError};
use calico_datastore::sync::{SyncEvent, SyncOptions, Syncer};
use calico_datastore::{Clock, Scope};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::control::Call;

/// Pause before a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);
/// Tries of a write that somebody else was faster than.
const TRIES: usize = 3;

/// See the module.
pub(crate) struct Reporter {
    node: String,
    client: Client,
    clock: Arc<dyn Clock>,
    agent: mpsc::Sender<Call>,
    asked: BTreeMap<ResourceKey, Asked>,
}

/// An object that asks about this node.
#[derive(Debug)]
struct Asked {
    spec: CalicoNodeStatusSpec,
    /// When it is looked at next; never again if it asks for one answer only.
    due: Option<Instant>,
}

impl Reporter {
    /// For a node, with where its agent is asked.
    pub(crate) fn new(node: &str, client: Client, clock: Arc<dyn Clock>, agent: mpsc::Sender<Call>) -> Self {
        Self { node: node.into(), client, clock, agent, asked: BTreeMap::new() }
    }

    /// Answers for as long as the agent does.
    pub(crate) async fn run(mut self) {
        let scopes = vec![Scope::Kind(Kind::CalicoNodeStatus)];
        let mut syncer = Syncer::start(Arc::clone(self.client.store()), scopes, SyncOptions::default());
        loop {
            let due = self.asked.values().filter_map(|asked| asked.due).min();
            let event = match due {
                Some(due) => match tokio::time::timeout_at(due, syncer.next()).await {
                    Ok(event) => event,
                    Err(_) => {
                        if !self.answer_due().await {
                            return;
                        }
                        continue;
                    }
                },
                None => syncer.next().await,
            };
            match event {
                Some(SyncEvent::Updates(updates)) => {
                    updates.iter().for_each(|update| self.take(update, Instant::now()))
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// A question that is new or has changed is answered at once; our own answer changes no question.
    fn take(&mut self, update: &Update, now: Instant) {
        let Some(Resource::CalicoNodeStatus(object)) = update.value.as_deref() else {
            self.asked.remove(&update.key);
            return;
        };
        if object.spec.node != self.node {
            self.asked.remove(&update.key);
        } else if self.asked.get(&update.key).is_none_or(|asked| asked.spec != object.spec) {
            self.asked.insert(update.key.clone(), Asked { spec: object.spec.clone(), due: Some(now) });
        }
    }

    /// Answers what is due. Tells whether the agent is still there.
    async fn answer_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = |asked: &Asked| asked.due.is_some_and(|due| due <= now);
        let due = self.asked.iter().filter(|(_, asked)| is_due(asked));
        let due: Vec<_> = due.map(|(key, asked)| (key.clone(), asked.spec.clone())).collect();
        for (key, spec) in due {
            let routes = spec.classes.contains(&NodeStatusClass::Routes);
            let Some((status, routes)) = self.picture(routes).await else { return false };
            let answer = answer::status(&spec.classes, &status, &routes, self.clock.now());
            let next = match self.write(&key, answer).await {
                Ok(()) => spec
                    .update_period_seconds
                    .filter(|period| *period > 0)
                    .map(|period| Duration::from_secs(period.into())),
                Err(error) if error.is_not_found() => None,
                Err(error) => {
                    warn!(%key, error = %chain(&error), "cannot write the status of this node; it is tried again");
                    Some(AGAIN)
                }
            };
            if let Some(asked) = self.asked.get_mut(&key) {
                asked.due = next.map(|pause| now + pause);
            }
        }
        true
    }

    /// What the agent says; none once it stops.
    async fn picture(&self, with_routes: bool) -> Option<(NodeStatus, Vec<RouteReport>)> {
        let Success::Status(status) = self.ask(Verb::Status).await? else { return None };
        let mut all = Vec::new();
        let mut goes_on = with_routes;
        while goes_on {
            let after = all.last().map(|route: &RouteReport| route.destination);
            let Success::Routes { routes, more } = self.ask(Verb::Routes { after, most: usize::MAX }).await? else {
                return None;
            };
            // An agent that gives nothing and promises more would be asked for ever.
            goes_on = more && !routes.is_empty();
            all.extend(routes);
        }
        Some((*status, all))
    }

    async fn ask(&self, verb: Verb) -> Option<Success> {
        let (answer, said) = oneshot::channel();
        self.agent.send(Call { verb, answer }).await.ok()?;
        match said.await.ok()? {
            Answer::Ok(success) => Some(success),
            Answer::Error(_) => None,
        }
    }

    async fn write(&self, key: &ResourceKey, answer: CalicoNodeStatusStatus) -> Result<(), ClientError> {
        let mut tries = 1..TRIES;
        loop {
            let stored = self.client.get(key).await?;
            let Resource::CalicoNodeStatus(object) = &*stored.resource else { return Ok(()) };
            if is_same(&object.status, &answer) {
                debug!(%key, "nothing new to say of this node");
                return Ok(());
            }
            let object = ReportedObject { status: answer.clone(), ..ReportedObject::clone(object) };
            match self.client.update(Resource::CalicoNodeStatus(object.into())).await {
                Err(error) if error.is_conflict() && tries.next().is_some() => {}
                outcome => return outcome.map(drop),
            }
        }
    }
}

fn is_same(old: &CalicoNodeStatusStatus, new: &CalicoNodeStatusStatus) -> bool {
    old.last_updated.is_some()
        && CalicoNodeStatusStatus { last_updated: new.last_updated.clone(), ..old.clone() } == *new
}

#[cfg(test)]
mod tests;
