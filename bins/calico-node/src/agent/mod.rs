//! The agent: one host kept as the datastore says.
//!
//! One task runs one loop. In come batches of the syncer, changes that others made in the kernel, events of the BGP speaker and calls
//! of the control socket; each is put into pure machines (the pipeline, the reconciler), and what they then want done is done before
//! the next input is taken. So there are no locks, and every decision can be tested without the loop.
//!
//! Invariants: nothing but the skeleton is written before the datastore is in sync; a datastore that goes away, or is locked, changes
//! nothing; BGP starts only when the picture is complete (a speaker that announced half of our blocks would make its peers drop the other half); nothing is
//! flushed on the way out.

mod ailing;
mod bgp;
mod bgp_reports;
mod bgp_routes;
mod calls;
mod denied;
mod facts;
mod gate;
mod host;
mod parts;
mod pipeline;
mod routes;
mod session_log;
mod state;
#[cfg(test)]
mod tests;
mod waits;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use calico_bgp::BgpBackend;
use calico_core::bgp::{DesiredBgp, Topology};
use calico_core::calc::Graph;
use calico_core::net::InterfaceName;
use calico_core::resource::{AffinityOwner, Kind};
use calico_core::update::SyncStatus;
use calico_dataplane::reconcile::{Driver, Reconciler};
use calico_datastore::sync::{SyncEvent, SyncOptions, Syncer};
use calico_datastore::{Datastore, Scope};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::info;

use crate::control::Call;
use crate::health::Health;
use crate::metrics::Metrics;
use bgp::next_bgp;
pub(crate) use bgp_routes::METRIC as LEARNED_ROUTE_METRIC;
use denied::Job;
pub use facts::Fact;
use facts::Facts;
use gate::{Gate, Passed};
use host::{Deaf, next_change};
pub use parts::Parts;
use pipeline::{Changes, Pipeline};
use session_log::SessionLog;
pub use state::OwnNode;
use state::State;
use waits::Waits;

/// Inputs of one source that are taken in before the kernel is written: large enough that a table of routes is written in few
/// batches, small enough that other sources are heard in between.
const DRAIN: usize = 4096;
/// The loop comes round at least so often, for the watchdog.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// A host kept as the datastore says. Made of [`Parts`], driven by [`run`](Self::run).
pub struct Agent {
    node: String,
    store: Arc<dyn Datastore>,
    sync: SyncOptions,
    gate: Gate,
    pipeline: Pipeline,
    driver: Driver,
    bgp: Option<Box<dyn BgpBackend>>,
    waiting_bgp: Option<DesiredBgp>,
    waits: Waits,
    session_log: SessionLog,
    workload_prefixes: Vec<InterfaceName>,
    deaf: Option<Deaf>,
    /// Somebody else changed what is ours, and it has not been made right yet.
    drifted: bool,
    /// What the dataplane does about connections, beside the loop.
    job: Job,
    state: State,
    health: watch::Sender<Health>,
    own_node: watch::Sender<OwnNode>,
    registration: watch::Sender<Option<String>>,
    metrics: Arc<Metrics>,
    calls: mpsc::Receiver<Call>,
    call_sender: mpsc::Sender<Call>,
    facts: Facts,
}

impl Agent {
    /// Puts the parts together. Nothing is read or written yet.
    pub fn new(parts: Parts) -> Self {
        let workload_prefixes = parts.reconcile.workload_prefixes.clone();
        let end_denied = parts.end_denied_connections;
        let graph = Graph::new(&parts.node)
            .with_workload_prefixes(workload_prefixes.clone())
            .with_excluded_interfaces(parts.excluded_interfaces);
        let topology = Topology::new(&parts.node)
            .with_port(parts.bgp_port)
            .with_router_id(parts.router_id)
            .with_workload_prefixes(workload_prefixes.clone());
        let pipeline = Pipeline::new(graph, topology, parts.renderer, end_denied);
        let machine = Reconciler::new(pipeline.skeleton(), parts.reconcile);
        let (call_sender, calls) = mpsc::channel(64);
        let start = Health { beat: Instant::now(), ready: false, detail: "starting".into() };
        Self {
            state: State::new(parts.node.clone(), Instant::now()),
            node: parts.node,
            store: parts.store,
            sync: parts.sync,
            gate: Gate::default(),
            pipeline,
            driver: Driver::new(machine, parts.dataplane),
            bgp: parts.bgp,
            waiting_bgp: None,
            waits: Waits::default(),
            session_log: SessionLog::default(),
            workload_prefixes,
            deaf: None,
            drifted: false,
            job: Job::None,
            health: watch::channel(start).0,
            own_node: watch::channel(OwnNode::Unknown).0,
            registration: watch::channel(None).0,
            metrics: parts.metrics,
            calls,
            call_sender,
            facts: Facts::default(),
        }
    }

    /// Where control calls may be sent, by the control socket or by an embedder.
    pub fn calls(&self) -> mpsc::Sender<Call> {
        self.call_sender.clone()
    }

    /// How the agent is, from now on.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// What the datastore has of this host's own Node, from now on.
    pub fn own_node(&self) -> watch::Receiver<OwnNode> {
        self.own_node.subscribe()
    }

    /// Where whoever registers this host says what is in the way, for the status; none if nothing is.
    pub fn registration(&self) -> watch::Sender<Option<String>> {
        self.registration.clone()
    }

    /// The agent's figures.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Runs until `shutdown` is ready. What is in the kernel stays there.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) {
        tokio::pin!(shutdown);
        let mut syncer = Syncer::start(Arc::clone(&self.store), scopes(&self.node), self.sync.clone());
        loop {
            self.carry_out().await;
            if self.end_denied() {
                continue;
            }
            self.look_round();
            let secrets = self.follow_patience().await;
            let wake = secrets.into_iter().fold(self.next_wake(), Instant::min);
            tokio::select! {
                () = &mut shutdown => return,
                Some(event) = syncer.next() => self.handle_sync(event).await,
                change = next_change(&mut self.driver, self.deaf) => self.handle_change(change),
                done = self.job.done() => self.handle_done(done),
                event = next_bgp(&mut self.bgp) => self.handle_bgp(event),
                Some(call) = self.calls.recv() => self.handle_call(call),
                Some(fact) = self.facts.receiver.recv() => self.handle_facts(fact).await,
                () = tokio::time::sleep_until(wake) => self.apply_bgp().await,
            }
        }
    }

    async fn handle_sync(&mut self, event: SyncEvent) {
        match event {
            SyncEvent::Status(status) => {
                info!(?status, "datastore");
                self.state.note_status(status);
                if status == SyncStatus::InSync {
                    let is_complete = self.gate.complete();
                    self.act_on(Passed { updates: Vec::new(), is_complete }).await;
                }
            }
            SyncEvent::Updates(updates) => {
                let passed = self.gate.updates(updates);
                self.state.note_lock(self.gate.locked());
                self.act_on(passed).await;
            }
            SyncEvent::Diagnostic(diagnostic) => self.state.note_diagnostic(diagnostic, Instant::now()),
        }
    }

    async fn act_on(&mut self, Passed { updates, is_complete }: Passed) {
        let mut is_news = is_complete;
        if !updates.is_empty() {
            self.state.note_own_node(&updates);
            let changes = self.pipeline.handle_updates(&updates);
            is_news |= changes.bgp.is_some();
            self.take_changes(changes);
        }
        if is_complete {
            self.state.seen_in_sync = true;
            if let Some(denied) = self.pipeline.denied() {
                // Whoever ran before may have been stopped between a policy and its connections.
                denied.doubt_all();
            }
            self.driver.machine().set_in_sync();
            if self.bgp.is_none() {
                self.driver.machine().set_bgp_settled();
            }
        }
        if is_news {
            self.apply_bgp().await;
        }
    }

    fn take_changes(&mut self, changes: Changes) {
        self.driver.machine().desire(&changes.delta);
        if changes.bgp.is_some() {
            self.publish_wants();
            self.waiting_bgp = changes.bgp;
        }
    }

    /// Answers who waits, and publishes how things are.
    fn look_round(&mut self) {
        let now = Instant::now();
        self.state.follow(self.driver.state(), now);
        let (pipeline, host) = (&self.pipeline, self.driver.state());
        self.waits.settle(now, |endpoint, attachment| self.state.standing(endpoint, attachment, pipeline, host));
        self.tell_left_out();
        let active = self.pipeline.active();
        let count = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.metrics.endpoints.set(count(active.endpoints.len()));
        self.metrics.policies.set(count(self.pipeline.policies()));
        self.metrics.ip_sets.set(count(active.sets.len()));
        self.metrics.bgp_routes.set(count(self.pipeline.bgp_routes()));
        let (ready, detail) = self.state.readiness();
        self.health.send_replace(Health { beat: now, ready, detail });
        let own_node = self.state.own_node();
        self.own_node.send_if_modified(|known| core::mem::replace(known, own_node) != own_node);
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let retry = self.driver.state().poll_timeout(now.duration_since(self.state.start));
        let at = |since_start: Option<Duration>| since_start.map(|at| self.state.start + at);
        let denied = at(self.pipeline.denied_timeout());
        [at(retry), denied, self.waits.next_deadline()].into_iter().flatten().fold(now + HEARTBEAT, Instant::min)
    }
}

/// What the agent of one node follows: what `Graph` and `Topology` calculate with, whether the datastore is locked, and no other
/// bookkeeping. Every block of the cluster changes with every pod.
fn scopes(node: &str) -> Vec<Scope> {
    let kinds = [
        Kind::Node,
        Kind::IpPool,
        Kind::WorkloadEndpoint,
        Kind::Profile,
        Kind::Tier,
        Kind::NetworkPolicy,
        Kind::GlobalNetworkPolicy,
        Kind::StagedNetworkPolicy,
        Kind::StagedGlobalNetworkPolicy,
        Kind::StagedKubernetesNetworkPolicy,
        Kind::NetworkSet,
        Kind::GlobalNetworkSet,
        Kind::HostEndpoint,
        Kind::BgpConfiguration,
        Kind::BgpPeer,
        Kind::BgpFilter,
        Kind::ClusterInformation,
    ];
    let own_blocks = Scope::AffinitiesOf(AffinityOwner::Host(node.into()));
    kinds.map(Scope::Kind).into_iter().chain([own_blocks]).collect()
}
