//! P13: what a whole agent holds in memory once it is in sync, and how often it wakes when nothing happens.
//!
//! A real `calico-node` in a namespace with nothing but a loopback, on an embedded datastore: with nothing in it, with 250 000 workload
//! endpoints of other hosts as Kubernetes' plugin writes them, and with 10 000 policies beside these, which no endpoint of this host is
//! selected by. It is looked at when the threads that read the datastore have ended. Resident is `VmRSS`, which counts the pages of the
//! program's own file that it has touched; private is what no other process has.
//!
//! Peer (published): 70 to 300 MB. Limit: 5 MB and 100 B for each endpoint. Targets: 12 MB with nothing, 45 MB with 250 000 endpoints;
//! less than one wake-up a second.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use calico_cmd::control::{Client, DatastoreState, NodeStatus};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::finding::{Benchmark, Finding, Further};
use super::stats::Spread;
use super::store::place::Place;
use super::store::worker::{self, Task};
use super::store::{decode::Filled, endpoints::SEED, usage};
use crate::args::BenchArgs;
use crate::error::{Context, LabError};
use crate::interrupt::interruptible;
use crate::process::{self, ProcessId};
use crate::programs::Program;
use crate::progress::Progress;

pub(super) const P13: Benchmark = Benchmark {
    id: "P13",
    what: "memory of an agent in sync: idle, and with 250 000 endpoints of other hosts",
    peer: "upstream's node: 70 to 300 MB",
    target: "12 MB idle, 45 MB with 250 000 endpoints, < 1 wake-up/s",
};

const ENDPOINTS: u32 = 250_000;
const POLICIES: u32 = 10_000;
/// MB.
const MOST_IDLE: f64 = 12.0;
const MOST: f64 = 45.0;
/// How long an agent may take to be in sync.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// Tokio's threads for blocking work end after ten seconds without any.
const SETTLED: Duration = Duration::from_secs(12);
const WATCHED: Duration = Duration::from_secs(10);

/// P13.
pub(super) async fn run(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let count = arguments.size.unwrap_or(ENDPOINTS);
    interruptible(measure(count, progress)).await
}

/// Of one agent, memory in MB.
struct Seen {
    resident: f64,
    private: f64,
    peak: f64,
    /// Wake-ups a second.
    woken: f64,
    /// Seconds of processor time from its start on.
    processor: f64,
}

async fn measure(count: u32, progress: &Progress) -> Result<Finding, LabError> {
    let place = Place::with_sqlite()?;
    progress.step("P13: an agent with nothing to hold");
    let idle = agent(&place).await?;
    progress.step(format!("P13: storing {count} endpoints, seed {SEED}"));
    worker::found::<Filled>(&place, &Task::Fill { seed: SEED, count }).await?;
    progress.step(format!("P13: an agent with {count} endpoints"));
    let loaded = agent(&place).await?;
    let policies = POLICIES.min(count);
    worker::found::<Filled>(&place, &Task::FillPolicies { count: policies }).await?;
    progress.step(format!("P13: an agent with {count} endpoints and {policies} policies"));
    let policed = agent(&place).await?;
    finding(count, &idle, &loaded, &policed)
}

fn finding(count: u32, idle: &Seen, loaded: &Seen, policed: &Seen) -> Result<Finding, LabError> {
    let once = |figure| Spread::of(vec![figure]).ok_or_else(|| LabError::new("nothing was measured"));
    let mut further = Vec::new();
    let mut row = |what, unit, figure, target| -> Result<(), LabError> {
        further.push(Further { what, unit, ours: once(figure)?, peer: None, target });
        Ok(())
    };
    row("resident, idle", "MB", idle.resident, "12 MB")?;
    row("private, idle", "MB", idle.private, "-")?;
    row("wake-ups, idle", "1/s", idle.woken, "< 1/s")?;
    row("private, with the endpoints", "MB", loaded.private, "-")?;
    row("resident at most, with the endpoints", "MB", loaded.peak, "-")?;
    row("processor time until then, with the endpoints", "s", loaded.processor, "-")?;
    row("wake-ups, with the endpoints", "1/s", loaded.woken, "< 1/s")?;
    row("resident, with the policies, too", "MB", policed.resident, "-")?;
    row("resident at most, with the policies, too", "MB", policed.peak, "-")?;
    let is_small = idle.resident <= MOST_IDLE && loaded.resident <= MOST;
    Ok(Finding {
        peer_source: "published",
        met: Some(is_small && idle.woken < 1.0 && loaded.woken < 1.0),
        limit: "5 MB and 100 B for each endpoint",
        further,
        ..P13.finding(format!("resident with {count} endpoints"), "MB", once(loaded.resident)?)
    })
}

/// Starts an agent, waits until it is in sync and at rest, looks at it, ends it.
async fn agent(place: &Place) -> Result<Seen, LabError> {
    let directory = tempfile::tempdir().context(|| "cannot make a directory".into())?;
    let (socket, nodename) = (directory.path().join("socket"), directory.path().join("nodename"));
    let own = std::env::current_exe().context(|| "cannot find this program's own file".into())?;
    // The shipped program, where it lies beside this one: what the lab links besides would count.
    let shipped = own.with_file_name(Program::Node.name());
    let mut command = Command::new(if shipped.exists() { shipped } else { own });
    command.arg0(Program::Node.name()).args([
        "run",
        "--node-name",
        "bench",
        "--ip",
        "172.16.0.1/24",
        "--log-level",
        "error",
    ]);
    command.arg("--nodename-file").arg(&nodename).arg("--control-socket").arg(&socket);
    let mut child = place.spawn(command.stdin(Stdio::null()))?;
    let id = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(ProcessId::of);
    let id = id.ok_or_else(|| LabError::new("the agent ended at once: it says above why"))?;
    in_sync(&socket, &mut child).await?;
    sleep(SETTLED).await;
    let before = usage::wake_ups_of(id.pid);
    sleep(WATCHED).await;
    let woken = usage::wake_ups_of(id.pid).saturating_sub(before);
    let seen = Seen {
        resident: usage::memory_of(id.pid, "VmRSS:") as f64 / 1e6,
        private: usage::private_of(id.pid) as f64 / 1e6,
        peak: usage::memory_of(id.pid, "VmHWM:") as f64 / 1e6,
        woken: woken as f64 / WATCHED.as_secs_f64(),
        processor: usage::processor_seconds_of(id.pid),
    };
    process::end(&[id], Duration::from_secs(10));
    child.wait().await.context(|| "cannot wait for the agent".into())?;
    Ok(seen)
}

async fn in_sync(socket: &Path, child: &mut Child) -> Result<(), LabError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let socket = socket.to_owned();
        let ask = move || Client::connect(&socket).and_then(|mut client| client.status());
        let status = tokio::task::spawn_blocking(ask).await.context(|| "cannot ask the agent".into())?;
        if status.is_ok_and(|status: NodeStatus| status.datastore == DatastoreState::InSync && status.dataplane_in_sync)
        {
            return Ok(());
        }
        if let Some(status) = child.try_wait().context(|| "cannot look after the agent".into())? {
            return Err(LabError::new(format!("the agent ended ({status}): it says above why")));
        }
        if Instant::now() > deadline {
            return Err(LabError::new("the agent is not in sync after two minutes"));
        }
        sleep(POLL).await;
    }
}
