//! D3: what `calicoctl get` takes beyond what the datastore takes.
//!
//! The time of a whole `calicoctl` process that gets one endpoint, less the round trip: in another new process, the time from before
//! the connection is made until the same endpoint is there. Each is measured in turn with the others.
//!
//! Peer: `etcdctl get` of the same key, a whole process too. Limit: starting a process, 1 ms. Target: 10 ms above the round trip.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use calico_core::resource::ResourceKey;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::super::finding::{Benchmark, Finding, Further};
use super::super::stats::{Machine, Spread, version_of};
use super::decode::{Filled, PREFIX};
use super::endpoints::{SEED, endpoint};
use super::place::Place;
use super::worker::{self, Task};
use crate::args::BenchArgs;
use crate::error::{Context, LabError};
use crate::interrupt::interruptible;
use crate::programs::Program;
use crate::progress::Progress;

pub(in crate::bench) const D3: Benchmark = Benchmark {
    id: "D3",
    what: "a calicoctl process that gets one of 1 000 endpoints, and all of them",
    peer: "etcdctl get, same keys",
    target: "10 ms above the round trip",
};

const ENDPOINTS: u32 = 1000;
const REPETITIONS: usize = 15;
/// Milliseconds.
const ABOVE: f64 = 10.0;

/// How long getting one endpoint took in a process, in milliseconds, from before the connection was made.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RoundTrip(f64);

/// D3.
pub(in crate::bench) async fn run(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let count = arguments.size.unwrap_or(ENDPOINTS);
    interruptible(measure(count, progress)).await?.finding(count)
}

#[derive(Default)]
struct Samples {
    one: Vec<f64>,
    trip: Vec<f64>,
    above: Vec<f64>,
    all: Vec<f64>,
    peer_one: Vec<f64>,
    peer_all: Vec<f64>,
    sqlite_one: Vec<f64>,
    sqlite_above: Vec<f64>,
    sqlite_all: Vec<f64>,
}

async fn measure(count: u32, progress: &Progress) -> Result<Samples, LabError> {
    let (etcd, sqlite) = (Place::with_etcd(&D3).await?, Place::with_sqlite()?);
    for place in [&etcd, &sqlite] {
        worker::found::<Filled>(place, &Task::Fill { seed: SEED, count }).await?;
    }
    let (key, _) = endpoint(SEED, count / 2)?;
    let ResourceKey::Named { namespace: Some(namespace), name, .. } = &key else {
        return Err(LabError::new("a workload endpoint has no namespace"));
    };
    let one = ["get", "workloadendpoint", &**name, "-n", &**namespace];
    let all = ["get", "workloadendpoints", "-A"];
    let path = format!("{PREFIX}{namespace}/{name}");
    let trip = Task::RoundTrip { seed: SEED, number: count / 2 };
    let mut samples = Samples::default();
    for repetition in 1..=REPETITIONS {
        progress.step(format!("D3: repetition {repetition} of {REPETITIONS}"));
        let took = timed(&etcd, calicoctl(&one)?).await?;
        let RoundTrip(round_trip) = worker::found(&etcd, &trip).await?;
        samples.one.push(took);
        samples.trip.push(round_trip);
        samples.above.push(took - round_trip);
        samples.peer_one.push(timed(&etcd, etcd.etcdctl(&["get", &path])).await?);
        samples.all.push(timed(&etcd, calicoctl(&all)?).await?);
        samples.peer_all.push(timed(&etcd, etcd.etcdctl(&["get", "--prefix", PREFIX])).await?);
        let took = timed(&sqlite, calicoctl(&one)?).await?;
        let RoundTrip(round_trip) = worker::found(&sqlite, &trip).await?;
        samples.sqlite_one.push(took);
        samples.sqlite_above.push(took - round_trip);
        samples.sqlite_all.push(timed(&sqlite, calicoctl(&all)?).await?);
    }
    Ok(samples)
}

/// The program that is shipped, or this one by that name where none lies beside it.
fn calicoctl(arguments: &[&str]) -> Result<Command, LabError> {
    let own = std::env::current_exe().context(|| "cannot find this program's own file".into())?;
    let name = Program::Ctl.name();
    let shipped: PathBuf = own.with_file_name(name);
    let mut command = Command::new(if shipped.exists() { shipped } else { own });
    command.arg0(name).args(arguments);
    Ok(command)
}

/// Milliseconds of a whole process.
async fn timed(place: &Place, mut command: Command) -> Result<f64, LabError> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = place.spawn(&mut command)?.wait().await.context(|| "cannot wait for a program".into())?;
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    let program = command.as_std().get_program().display();
    if status.success() { Ok(took) } else { Err(LabError::new(format!("{program} failed: {status}"))) }
}

impl Samples {
    fn finding(self, count: u32) -> Result<Finding, LabError> {
        let spread = |samples| Spread::of(samples).ok_or_else(|| LabError::new("nothing was measured"));
        let (ours, peer, above) = (spread(self.one)?, spread(self.peer_one)?, spread(self.above)?);
        let further = |what, ours, peer, target| Further { what, unit: "ms", ours, peer, target };
        Ok(Finding {
            id: D3.id,
            what: format!("calicoctl get of one of {count} endpoints, seed {SEED}"),
            unit: "ms",
            ours,
            peer: Some(peer),
            peer_name: version_of("etcdctl", "version"),
            peer_source: "measured",
            ratio: Some(peer.median / ours.median),
            target: D3.target,
            met: Some(above.median <= ABOVE),
            limit: "1 ms, which starting a process takes, and the round trip",
            limit_measured: Some(spread(self.trip)?),
            of_limit: None,
            machine: Machine::look(),
            further: vec![
                further("above the round trip", above, None, "10 ms"),
                further("get of all", spread(self.all)?, Some(spread(self.peer_all)?), "-"),
                further("SQLite: get of one", spread(self.sqlite_one)?, None, "-"),
                further("SQLite: above opening and reading", spread(self.sqlite_above)?, None, "10 ms"),
                further("SQLite: get of all", spread(self.sqlite_all)?, None, "-"),
            ],
        })
    }
}

/// Connects and gets one endpoint.
pub(super) async fn round_trip(seed: u64, number: u32) -> Result<RoundTrip, LabError> {
    let (key, _) = endpoint(seed, number)?;
    let begun = Instant::now();
    let store = worker::open().await?;
    store.get(&key).await.context(|| "cannot get an endpoint".into())?;
    Ok(RoundTrip(begun.elapsed().as_secs_f64() * 1000.0))
}
