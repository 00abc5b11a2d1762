//! Processes that do a benchmark's work, one task each: `calico-lab bench-worker`, not for users.
//!
//! The task is JSON on the command line, the datastore that which the environment names, as for any program of Calico. What a worker
//! found is one line of JSON on standard output. Standard input closes when the bench has gone, and the worker goes with it.

use std::io::Read;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use calico_cmd::store::{self, Sources};
use calico_datastore::Datastore;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::super::graph::{self, Scene};
use super::place::Place;
use super::watch::{Client, Part};
use super::{ctl, decode, watch};
use crate::error::{Context, LabError};
use crate::report;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::bench) enum Task {
    /// Stores endpoints.
    Fill { seed: u64, count: u32 },
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

/// Arguments of `bench-worker`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    /// The task, as JSON
    #[arg(value_parser = task)]
    task: Task,
}

fn task(text: &str) -> Result<Task, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Carries out a task.
pub(crate) async fn run(arguments: WorkerArgs) -> Result<ExitCode, LabError> {
    std::thread::spawn(|| {
        let _closed = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    match arguments.task {
        Task::Fill { seed, count } => tell(&decode::fill(open().await?, seed, count).await?)?,
        Task::Decode => tell(&decode::decode().await?)?,
        Task::Write { seed, namespaces, updates } => {
            tell(&watch::write(open().await?, seed, namespaces, updates).await?)?;
        }
        Task::Watch { client: Client::Calico, part, expected } => watch::watch(open().await?, part, expected).await?,
        #[cfg(feature = "etcd")]
        Task::Watch { client: Client::Bare, part, expected } => watch::watch_bare(part, expected).await?,
        #[cfg(not(feature = "etcd"))]
        Task::Watch { client: Client::Bare, .. } => crate::server::require_etcd("bench D2")?,
        Task::RoundTrip { seed, number } => tell(&ctl::round_trip(seed, number).await?)?,
        Task::Snapshot { scene, size } => tell(&graph::load(scene, size))?,
        Task::Changes { size } => tell(&graph::change(size))?,
        Task::HoldEndpoints { size } => tell(&graph::hold_endpoints(size)?)?,
    }
    Ok(ExitCode::SUCCESS)
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
pub(super) async fn found<T: DeserializeOwned>(place: &Place, task: &Task) -> Result<T, LabError> {
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
