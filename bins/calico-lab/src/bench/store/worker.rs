//! Processes that do a benchmark's work, one task each, as the bench starts and hears them.
//!
//! The task is JSON on the command line, the datastore that which the environment names, as for any program of Calico. What a worker
//! found is one line of JSON on standard output. Standard input closes when the bench has gone, and the worker goes with it.

use std::process::Stdio;
use std::sync::Arc;

use calico_cmd::store::{self, Sources};
use calico_datastore::Datastore;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::place::Place;
use crate::error::{Context, LabError};
use crate::report;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::bench) enum Task {
    /// Stores endpoints.
    Fill { seed: u64, count: u32 },
    /// Stores policies.
    FillPolicies { count: u32 },
    /// Follows all endpoints until in sync.
    Decode,
    /// Changes an endpoint of each namespace in turn.
    Write { seed: u64, namespaces: u32, updates: u32 },
    /// Watches until so many updates have come.
    Watch { client: Client, part: Part, expected: u32 },
    /// Gets one endpoint.
    RoundTrip { seed: u64, number: u32 },
    /// Takes a cluster of so many endpoints or namespaces into a graph.
    Snapshot { scene: Scene, size: u32 },
    /// Changes endpoints of such a cluster, one by one.
    Changes { size: u32 },
    /// Takes endpoints into a graph, and holds none of them.
    HoldEndpoints { size: u32 },
}

/// Who watches.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::bench) enum Client {
    /// Calico's datastore.
    Calico,
    /// etcd's client library alone.
    Bare,
}

/// What a process watches.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::bench) enum Part {
    /// So many namespaces, each by a watcher of its own.
    Namespaces(u32),
    /// All endpoints, by one watcher.
    All,
}

/// One of the clusters that a graph is measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::bench) enum Scene {
    Tags,
    Customers,
}

/// The datastore that the environment names.
pub(super) async fn open() -> Result<Arc<dyn Datastore>, LabError> {
    let resolved = store::resolve(&Sources::of_process(None)).context(|| "no datastore".into())?;
    store::open(&resolved.config).await.context(|| "no datastore".into())
}

/// Says something to the bench.
pub(super) fn tell(what: &impl Serialize) -> Result<(), LabError> {
    let text = serde_json::to_string(what).context(|| "cannot write JSON".into())?;
    report::print(&format!("{text}\n"))
}

/// A worker, as the bench sees it.
pub(super) struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts one in a place.
    pub(super) fn start(place: &Place, task: &Task) -> Result<Self, LabError> {
        Self::of(place.spawn(&mut command(task)?)?)
    }

    fn of(mut child: Child) -> Result<Self, LabError> {
        let output = child.stdout.take().ok_or_else(|| LabError::new("a worker has no standard output"))?;
        Ok(Self { child, lines: BufReader::new(output).lines() })
    }

    /// The next thing it says.
    pub(super) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T, LabError> {
        let failed = || "cannot read what a worker found".to_owned();
        let line = self.lines.next_line().await.context(failed)?;
        let line = line.ok_or_else(|| LabError::new("a worker of the benchmark failed: it says above why"))?;
        serde_json::from_str(&line).context(failed)
    }

    /// Waits until it has ended.
    pub(super) async fn end(mut self) -> Result<(), LabError> {
        // Waiting closes standard input, by which a worker knows that the bench has gone.
        let input = self.child.stdin.take();
        let status = self.child.wait().await.context(|| "cannot wait for a worker".into())?;
        drop(input);
        if status.success() { Ok(()) } else { Err(LabError::new(format!("a worker failed: {status}"))) }
    }
}

fn command(task: &Task) -> Result<Command, LabError> {
    let own = std::env::current_exe().context(|| "cannot find this program's own file".into())?;
    let task = serde_json::to_string(task).context(|| "cannot write JSON".into())?;
    let mut command = Command::new(own);
    command.args(["bench-worker", &task]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// One worker in a place, from its start to its end; what it found.
pub(in crate::bench) async fn found<T: DeserializeOwned>(place: &Place, task: &Task) -> Result<T, LabError> {
    all_of(Worker::start(place, task)?).await
}

/// One worker that needs neither datastore nor kernel, from its start to its end; what it found.
pub(in crate::bench) async fn alone<T: DeserializeOwned>(task: &Task) -> Result<T, LabError> {
    let child = command(task)?.kill_on_drop(true).spawn().context(|| "cannot start a worker".into())?;
    all_of(Worker::of(child)?).await
}

async fn all_of<T: DeserializeOwned>(mut worker: Worker) -> Result<T, LabError> {
    let found = worker.hear().await?;
    worker.end().await?;
    Ok(found)
}
