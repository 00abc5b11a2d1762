//! A host's decisions and their carrying out, wired as in the agent, without the agent's sockets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use calico_core::calc::Graph;
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::table::Delta;
use calico_core::update::Update;
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::{LinuxConfig, LinuxDataplane};
use serde_json::Value;

use super::objects::NODE;
use crate::error::{Context, LabError};
use crate::oracle;

/// The decision and the carrying out of one host, wired as in the agent.
pub(super) struct Host {
    graph: Graph,
    renderer: Renderer,
    driver: Driver,
    started: Instant,
}

impl Host {
    pub(super) fn open() -> Result<Self, LabError> {
        let dataplane = LinuxDataplane::open(LinuxConfig::default()).context(|| "cannot open the dataplane".into())?;
        let renderer = Renderer::new(RenderConfig::default());
        let mut machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        machine.set_in_sync();
        let driver = Driver::new(machine, Box::new(dataplane));
        Ok(Self { graph: Graph::new(NODE), renderer, driver, started: Instant::now() })
    }

    pub(super) async fn load(&mut self, documents: Vec<Value>) -> Result<(), LabError> {
        for document in documents {
            let update = update(&document)?;
            self.graph.handle_update(&update);
        }
        self.carry_out().await.map(drop)
    }

    /// Takes in one change; returns how long it took until the kernel had acknowledged all of it, and what was written.
    pub(super) async fn change(&mut self, document: &Value) -> Result<(Duration, Delta), LabError> {
        let update = update(document)?;
        let begun = Instant::now();
        self.graph.handle_update(&update);
        let written = self.carry_out().await?;
        let took = begun.elapsed();
        if written.elements.is_empty() {
            return Err(LabError::new("the change changed no element"));
        }
        Ok((took, written))
    }

    async fn carry_out(&mut self) -> Result<Delta, LabError> {
        let mut wanted = Delta::default();
        for event in self.graph.flush() {
            self.renderer.handle(&event, &mut wanted);
        }
        self.driver.machine().desire(&wanted);
        let started = self.started;
        let clock = move || started.elapsed();
        let mut written = Delta::default();
        loop {
            match self.driver.step(&clock).await {
                Step::Idle => return Ok(written),
                Step::Looked => {}
                Step::LookFailed(error) => return Err(error).context(|| "cannot look at the kernel".into()),
                Step::Applied { delta, report } if report.is_complete() => written = *delta,
                Step::Applied { report, .. } => {
                    return Err(LabError::new(format!("the kernel refused something: {report:?}")));
                }
            }
        }
    }
}

fn update(document: &Value) -> Result<Update, LabError> {
    let resource = oracle::read("benchmark", &document.to_string())?.pop();
    let resource = resource.ok_or_else(|| LabError::new("no document"))?;
    let key = resource.key().ok_or_else(|| LabError::new("an object without a name"))?;
    Ok(Update { key, value: Some(Arc::new(resource)) })
}
