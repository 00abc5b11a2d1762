//! A host's decisions and their carrying out, wired as in the agent, without the agent's sockets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use calico_core::calc::Graph;
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::table::{Datum, Delta};
use calico_core::update::Update;
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::{Dataplane, LinuxConfig, LinuxDataplane, ObservedSet};
use serde_json::Value;

use super::objects::NODE;
use crate::error::{Context, LabError};
use crate::oracle;

/// So long the kernel has told nothing, where nothing is left to be told.
const QUIET: Duration = Duration::from_millis(50);

/// The decision and the carrying out of one host, wired as in the agent.
pub(super) struct Host {
    graph: Graph,
    renderer: Renderer,
    driver: Driver,
    started: Instant,
    /// Time that has passed besides.
    rested: Duration,
}

impl Host {
    pub(super) fn open() -> Result<Self, LabError> {
        let dataplane = LinuxDataplane::open(LinuxConfig::default()).context(|| "cannot open the dataplane".into())?;
        let renderer = Renderer::new(RenderConfig::default());
        let mut machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        machine.set_in_sync();
        let driver = Driver::new(machine, Box::new(dataplane));
        Ok(Self { graph: Graph::new(NODE), renderer, driver, started: Instant::now(), rested: Duration::ZERO })
    }

    pub(super) async fn load(&mut self, documents: Vec<Value>) -> Result<(), LabError> {
        let updates = documents.iter().map(update).collect::<Result<Vec<_>, _>>()?;
        self.take_in(&updates);
        self.carry_out().await.map(drop)
    }

    pub(super) fn take_in(&mut self, updates: &[Update]) {
        updates.iter().for_each(|update| self.graph.handle_update(update));
    }

    /// Takes in one change; returns how long it took until the kernel had acknowledged all of it, and what was written.
    pub(super) async fn change(&mut self, document: &Value) -> Result<(Duration, Delta), LabError> {
        let update = update(document)?;
        let begun = Instant::now();
        self.graph.handle_update(&update);
        let written = self.carry_out().await?;
        let took = begun.elapsed();
        let last = written.into_iter().next_back().filter(|delta| !delta.elements.is_empty());
        last.map(|delta| (took, delta)).ok_or_else(|| LabError::new("the change changed no element"))
    }

    /// Waits for what somebody else changes.
    pub(super) async fn hear(&mut self) -> Result<(), LabError> {
        self.driver.next_change().await.map(drop).context(|| "cannot hear of changes".into())
    }

    /// Lets a minute pass, so that what was fought over is so no more, and takes in what the kernel still has to tell.
    pub(super) async fn rest(&mut self) -> Result<(), LabError> {
        self.rested += Duration::from_secs(60);
        while let Ok(heard) = tokio::time::timeout(QUIET, self.hear()).await {
            heard?;
        }
        self.carry_out().await.map(drop)
    }

    /// The name of a set with members.
    pub(super) async fn some_set(&self) -> Result<String, LabError> {
        let mut dataplane =
            LinuxDataplane::open(LinuxConfig::default()).context(|| "cannot open the dataplane".into())?;
        let observed = dataplane.observe().await.context(|| "cannot look at the kernel".into())?;
        let is_plain = |set: &ObservedSet| matches!(set.elements.first().map(|one| &*one.key), Some([Datum::Addr(_)]));
        let found = observed.sets.iter().find(|(_, set)| is_plain(set));
        found.map(|(name, _)| name.to_string()).ok_or_else(|| LabError::new("no set has members"))
    }

    /// Makes the kernel as it should be; returns what was written, without settings of interfaces.
    pub(super) async fn carry_out(&mut self) -> Result<Vec<Delta>, LabError> {
        let mut wanted = Delta::default();
        for event in self.graph.flush() {
            self.renderer.handle(&event, &mut wanted);
        }
        self.driver.machine().desire(&wanted);
        let (started, rested) = (self.started, self.rested);
        let clock = move || started.elapsed() + rested;
        let mut written = Vec::new();
        loop {
            match self.driver.step(&clock).await {
                Step::Idle => return Ok(written),
                Step::Looked => {}
                Step::LookFailed(error) => return Err(error).context(|| "cannot look at the kernel".into()),
                Step::Applied { delta, report } if report.is_complete() => {
                    written.push(Delta { settings: Vec::new(), ..*delta });
                }
                Step::Applied { report, .. } => {
                    return Err(LabError::new(format!("the kernel refused something: {report:?}")));
                }
            }
        }
    }
}

pub(super) fn update(document: &Value) -> Result<Update, LabError> {
    let resource = oracle::read("benchmark", &document.to_string())?.pop();
    let resource = resource.ok_or_else(|| LabError::new("no document"))?;
    let key = resource.key().ok_or_else(|| LabError::new("an object without a name"))?;
    Ok(Update { key, value: Some(Arc::new(resource)) })
}
