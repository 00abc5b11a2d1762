//! What a worker of a benchmark does: `calico-lab bench-worker`, not for users. Each task is carried out by the benchmark that sets it.

use std::io::Read;
use std::process::ExitCode;

use super::super::graph;
use super::worker::{Client, Task, open, tell};
use super::{ctl, decode, watch};
use crate::error::LabError;

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
        Task::FillPolicies { count } => tell(&decode::fill_policies(open().await?, count).await?)?,
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
