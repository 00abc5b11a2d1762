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
mod bgp_routes;
mod denied;
mod gate;
mod pipeline;
mod session_log;
mod state;
#[cfg(test)]
mod tests;
mod waits;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use calico_bgp::{BgpBackend, BgpError, BgpEvent, SessionState};
use calico_cmd::control::{Answer, ErrorCode, Success, Verb};
use calico_cmd::output::chain;
use calico_core::bgp::DesiredBgp;
use calico_core::net::{Cidr, InterfaceList, InterfaceName};
use calico_core::render::PolicyRenderer;
use calico_core::resource::{AffinityOwner, Kind};
use calico_core::update::SyncStatus;
use calico_core::verdict::Settings;
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::{Dataplane, DataplaneError, HostChange};
use calico_datastore::sync::{SyncEvent, SyncOptions, Syncer};
use calico_datastore::{Datastore, Scope};
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use crate::control::{Call, failure};
use crate::health::Health;
use crate::metrics::Metrics;
use denied::{Job, decides};
use gate::{Gate, Passed};
use pipeline::Pipeline;
use session_log::SessionLog;
pub use state::OwnNode;
use state::State;
use waits::{Goal, Waits};

/// Inputs of one source that are taken in before the kernel is written: large enough that a table of routes is written in few
/// batches, small enough that other sources are heard in between.
const DRAIN: usize = 4096;
/// First pause after the kernel's notifications failed to be read; it doubles up to the longest.
const FIRST_DEAF: Duration = Duration::from_millis(200);
/// Longest such pause; at its end the whole host is looked at.
const LONGEST_DEAF: Duration = Duration::from_secs(30);
/// The loop comes round at least so often, for the watchdog.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// What an agent is made of. An embedder brings any implementation of each seam.
#[expect(clippy::exhaustive_structs, reason = "callers build it with a literal; a new part must be thought about")]
pub struct Parts {
    /// Node name.
    pub node: String,
    /// Where resources come from.
    pub store: Arc<dyn Datastore>,
    /// What carries out tables and routes.
    pub dataplane: Box<dyn Dataplane>,
    /// What speaks BGP; none means policy only.
    pub bgp: Option<Box<dyn BgpBackend>>,
    /// Port that BGP peers listen on.
    pub bgp_port: u16,
    /// What turns active policy into tables.
    pub renderer: Box<dyn PolicyRenderer + Send>,
    /// Interfaces whose addresses do not tell which host endpoint has them.
    pub excluded_interfaces: InterfaceList,
    /// How the host is reconciled.
    pub reconcile: ReconcileConfig,
    /// With the settings of this host, connections end that policy denies although they have begun.
    pub end_denied_connections: Option<Settings>,
    /// How the datastore is followed.
    pub sync: SyncOptions,
    /// Where figures go.
    pub metrics: Arc<Metrics>,
}

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
}

impl Agent {
    /// Puts the parts together. Nothing is read or written yet.
    pub fn new(parts: Parts) -> Self {
        let workload_prefixes = parts.reconcile.workload_prefixes.clone();
        let end_denied = parts.end_denied_connections;
        let pipeline = Pipeline::new(
            &parts.node,
            parts.bgp_port,
            parts.renderer,
            workload_prefixes.clone(),
            parts.excluded_interfaces,
            end_denied,
        );
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
            let wake = self.next_wake();
            tokio::select! {
                () = &mut shutdown => return,
                Some(event) = syncer.next() => self.handle_sync(event).await,
                change = next_change(&mut self.driver, self.deaf) => self.handle_change(change),
                done = self.job.done() => self.handle_done(done),
                event = next_bgp(&mut self.bgp) => self.handle_bgp(event),
                Some(call) = self.calls.recv() => self.handle_call(call),
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
            self.driver.machine().desire(&changes.delta);
            is_news |= changes.bgp.is_some();
            self.waiting_bgp = changes.bgp.or_else(|| self.waiting_bgp.take());
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

    async fn apply_bgp(&mut self) {
        if !self.state.seen_in_sync {
            return;
        }
        let (Some(bgp), Some(desired)) = (self.bgp.as_mut(), self.waiting_bgp.take()) else { return };
        if let Err(error) = bgp.apply(&desired).await {
            error!(%error, "BGP does not take its configuration; it is tried again");
            self.waiting_bgp = Some(desired);
        }
    }

    fn handle_change(&mut self, first: Result<HostChange, DataplaneError>) {
        let mut next = Some(first);
        for _ in 0..DRAIN {
            match next {
                // The machine has it already.
                Some(Ok(_)) => self.deaf = None,
                Some(Err(error)) => return self.go_deaf(&error),
                None => return,
            }
            next = self.driver.next_change().now_or_never();
        }
        match next {
            Some(Ok(_)) => self.deaf = None,
            Some(Err(error)) => self.go_deaf(&error),
            None => {}
        }
    }

    /// What happened while nothing is heard is found by looking at the whole host: now, and each time that hearing fails again.
    fn go_deaf(&mut self, error: &DataplaneError) {
        let pause = self.deaf.map_or(FIRST_DEAF, |deaf| (deaf.pause * 2).min(LONGEST_DEAF));
        warn!(error = %chain(error), retry_in = ?pause, "cannot hear of changes in the kernel; looking at all of it again");
        self.deaf = Some(Deaf { pause, until: Instant::now() + pause });
        self.driver.machine().host_change(HostChange::Overrun);
    }

    fn handle_bgp(&mut self, first: Result<BgpEvent, BgpError>) {
        let mut next = Some(first);
        for _ in 0..DRAIN {
            match next {
                Some(Ok(event)) => self.take_bgp_event(&event),
                Some(Err(error)) => {
                    error!(%error, "BGP has stopped; its routes stay");
                    self.bgp = None;
                    return;
                }
                None => return,
            }
            next = self.bgp.as_mut().and_then(|bgp| bgp.next_event().now_or_never());
        }
        // The last one taken out by the loop's head must not be lost.
        if let Some(Ok(event)) = next {
            self.take_bgp_event(&event);
        }
    }

    fn take_bgp_event(&mut self, event: &BgpEvent) {
        match event {
            BgpEvent::Settled => {
                info!("BGP has settled");
                self.driver.machine().set_bgp_settled();
            }
            BgpEvent::Restarted => {
                // Stale before unwanted, or they would go at once.
                self.driver.machine().set_bgp_unsettled();
                self.metrics.bgp_established.set(0);
                let delta = self.pipeline.handle_bgp(event);
                self.driver.machine().desire(&delta);
                warn!(routes = delta.routes_removed.len(), "BGP begins anew; learned routes stay until it has settled");
            }
            BgpEvent::Session(peer) => {
                let (address, name, state) = (peer.peer.address, &peer.peer.name, peer.state);
                if self.session_log.tells(address, self.state.start.elapsed()) {
                    info!(%address, name, ?state, reason = peer.last_error, "BGP session");
                }
                let status = self.bgp.as_ref().map(|bgp| bgp.status()).unwrap_or_default();
                let up = status.peers.iter().filter(|peer| peer.state == SessionState::Established).count();
                self.metrics.bgp_established.set(i64::try_from(up).unwrap_or(i64::MAX));
            }
            _ => {
                let delta = self.pipeline.handle_bgp(event);
                self.driver.machine().desire(&delta);
            }
        }
    }

    fn handle_call(&mut self, Call { verb, answer }: Call) {
        let now = Instant::now();
        match verb {
            Verb::Status => {
                let mut status = self.state.report(&self.pipeline, self.driver.state(), self.bgp.as_deref(), now);
                status.notices.extend(self.registration.borrow().clone());
                // A client that has gone away is no concern of ours.
                let _ = answer.send(Answer::Ok(Success::Status(Box::new(status))));
            }
            Verb::WaitEndpoint { namespace, name, attachment, timeout_ms } => {
                // The kernel has told of the caller's interface before the caller could ask: it is heard before the answer.
                if self.deaf.is_none()
                    && let Some(change) = self.driver.next_change().now_or_never()
                {
                    self.handle_change(change);
                }
                let patience = Duration::from_millis(timeout_ms);
                self.waits.add((&namespace, &name), Goal::Enforced(attachment), patience, now, answer);
            }
            Verb::WaitEndpointGone { namespace, name, timeout_ms } => {
                let patience = Duration::from_millis(timeout_ms);
                self.waits.add((&namespace, &name), Goal::Gone, patience, now, answer);
            }
            Verb::RemoveInterface { name } => self.remove_interface(&name, answer),
            verb => {
                let text = format!("this agent does not know {verb:?}");
                let _ = answer.send(failure(ErrorCode::BadRequest, &text));
            }
        }
    }

    /// Removes a workload's interface beside the loop: the kernel takes its time. The reconciler hears of it like of any other change.
    fn remove_interface(&mut self, name: &str, answer: oneshot::Sender<Answer>) {
        // A client that has gone away is no concern of ours.
        let refuse = |text: &str| failure(ErrorCode::BadRequest, text);
        let interface: InterfaceName = match name.parse() {
            Ok(interface) => interface,
            Err(error) => return drop(answer.send(refuse(&format!("{name:?}: {error}")))),
        };
        if !interface.starts_with_any(&self.workload_prefixes) {
            return drop(answer.send(refuse(&format!("{name} is no workload's interface"))));
        }
        let removal = self.driver.remove_workload(interface);
        tokio::spawn(async move {
            let outcome = match removal.await {
                Ok(()) => Answer::Ok(Success::Gone),
                Err(error) => failure(ErrorCode::Kernel, &chain(&error)),
            };
            drop(answer.send(outcome));
        });
    }

    /// Whoever reads the log learns of what somebody else did to what is ours. A fight is told once, by its object.
    fn note_drift(&mut self) {
        let Some(object) = self.driver.state().undone().next() else { return };
        if let (true, Some(denied)) = (self.driver.state().undone().any(decides), self.pipeline.denied()) {
            denied.doubt_all();
        }
        if !self.drifted && !self.state.is_fighting() {
            warn!(%object, "somebody else changed what is ours in the kernel; making it right");
        }
        self.drifted = true;
    }

    /// Whose an interface of this host is follows from its name and addresses.
    fn note_interfaces(&mut self) {
        let interfaces = self.driver.machine().take_interfaces();
        if !interfaces.is_empty() {
            let delta = self.pipeline.handle_interfaces(&interfaces);
            self.driver.machine().desire(&delta);
        }
    }

    /// Does what the reconciler wants done.
    async fn carry_out(&mut self) {
        let start = self.state.start;
        let clock = move || start.elapsed();
        self.note_drift();
        loop {
            self.note_interfaces();
            match self.driver.step(&clock).await {
                Step::Idle => {
                    while let Some(object) = self.driver.machine().take_drift() {
                        self.metrics.count_drift(&object);
                    }
                    // What is fought over waits, and is told by its object.
                    self.drifted = false;
                    return;
                }
                Step::Looked => {
                    debug!("looked at the host");
                    self.note_drift();
                }
                Step::LookFailed(error) => warn!(error = %chain(&error), "cannot look at the host"),
                Step::Applied { delta, report } => {
                    self.metrics.applies.inc();
                    self.note_written(&delta, &report);
                    if core::mem::take(&mut self.drifted) && !self.state.is_fighting() {
                        info!(
                            chains = delta.chains_set.len(),
                            sets = delta.elements.len(),
                            routes = delta.routes_set.len() + delta.routes_removed.len(),
                            neighbors = delta.neighbors_set.len(),
                            "made right in the kernel what somebody else had changed"
                        );
                    }
                    debug!(
                        chains = delta.chains_set.len(),
                        sets = delta.elements.len(),
                        routes = delta.routes_set.len(),
                        "wrote to the kernel"
                    );
                    if !report.is_complete() {
                        self.metrics.apply_failures.inc();
                    }
                    log_failures(&report);
                }
            }
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

    fn tell_left_out(&mut self) {
        for (address, changes) in self.session_log.close(self.state.start.elapsed()) {
            let peers = self.bgp.as_ref().map(|bgp| bgp.status()).unwrap_or_default().peers;
            let state = peers.iter().find(|peer| peer.peer.address == address).map(|peer| peer.state);
            warn!(%address, changes, ?state, "BGP session changed more often than is told; this is its state now");
        }
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
        Kind::ClusterInformation,
    ];
    let own_blocks = Scope::AffinitiesOf(AffinityOwner::Host(node.into()));
    kinds.map(Scope::Kind).into_iter().chain([own_blocks]).collect()
}

/// The kernel's notifications failed to be read; nothing else waits for the next try.
#[derive(Debug, Clone, Copy)]
struct Deaf {
    pause: Duration,
    until: Instant,
}

async fn next_change(driver: &mut Driver, deaf: Option<Deaf>) -> Result<HostChange, DataplaneError> {
    if let Some(deaf) = deaf {
        tokio::time::sleep_until(deaf.until).await;
    }
    driver.next_change().await
}

async fn next_bgp(bgp: &mut Option<Box<dyn BgpBackend>>) -> Result<BgpEvent, BgpError> {
    match bgp {
        Some(bgp) => bgp.next_event().await,
        None => std::future::pending().await,
    }
}

fn log_failures(report: &calico_dataplane::ApplyReport) {
    if let Some(error) = &report.ruleset {
        warn!(error = %chain(error), "the kernel refused a change of the ruleset");
    }
    if let Some(error) = &report.connections {
        warn!(error = %chain(error), "the kernel refused to end connections of addresses that left their workload");
    }
    for failure in &report.routes {
        let dest: Cidr = failure.key.dest;
        warn!(%dest, error = %chain(&failure.error), "the kernel refused a route");
    }
    for (neighbor, error) in &report.neighbors {
        warn!(address = %neighbor.address, interface = %neighbor.interface, error = %chain(error), "the kernel refused a neighbour");
    }
    for (shaper, error) in &report.shapings {
        warn!(interface = %shaper.workload(), error = %chain(error), "the kernel refused a limit on bandwidth");
    }
    for (setting, error) in &report.settings {
        warn!(path = setting.path, interface = %setting.interface, error = %chain(error), "the kernel refused a setting");
    }
}
