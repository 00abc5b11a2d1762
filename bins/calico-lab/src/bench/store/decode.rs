//! D1: all workload endpoints of a large cluster, out of etcd into the model.
//!
//! A process follows the endpoints as an agent does ([`Syncer`]), keeps them all, and ends as soon as it is in sync; its whole life
//! counts. Its memory is the most that the kernel saw (`VmHWM`), less what it had before it connected, for each endpoint; nothing is
//! shared between endpoints beyond what the datastore itself shares.
//!
//! Peer: `etcdctl get --prefix` of the same keys, its output thrown away, in turn with ours. Limit: the same listing, fetched in
//! pages and dropped unread. Targets: 1.5 times the peer's time; 1.2 kB of memory for each endpoint.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_core::testing::TagPolicies;
use calico_core::update::{SyncStatus, Update};
use calico_datastore::sync::{Diagnostic, SyncEvent, SyncOptions, Syncer};
use calico_datastore::{Batch, Datastore, MAX_BATCH, Precondition, Scope, Write};
use serde::{Deserialize, Serialize};

use super::super::finding::{Benchmark, Finding, Further};
use super::super::stats::{Machine, Spread, version_of};
use super::endpoints::{SEED, endpoint};
use super::place::Place;
use super::usage;
use super::worker::{self, Task};
use crate::args::BenchArgs;
use crate::error::{Context, LabError};
use crate::interrupt::interruptible;
use crate::progress::Progress;

pub(in crate::bench) const D1: Benchmark = Benchmark {
    id: "D1",
    what: "250 000 workload endpoints out of etcd into the model",
    peer: "etcdctl get --prefix, same keys",
    target: "1.5 times the peer's time, 1.2 kB of memory each",
};

const ENDPOINTS: u32 = 250_000;
const REPETITIONS: usize = 5;
/// Of the peer's time.
const SLOWEST: f64 = 1.5;
/// Bytes for each endpoint.
const LARGEST: f64 = 1200.0;
/// Below it lie all workload endpoints.
pub(super) const PREFIX: &str = "/calico/resources/v3/projectcalico.org/workloadendpoints/";

/// D1.
pub(in crate::bench) async fn run(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let count = arguments.size.unwrap_or(ENDPOINTS);
    interruptible(measure(count, progress)).await?.finding(count)
}

/// What a worker stored.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::bench) struct Filled {
    seconds: f64,
}

/// What a worker read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Decoded {
    endpoints: u32,
    /// Bytes, at most and before anything was read.
    peak: u64,
    before: u64,
    /// Seconds of processor time.
    processor: f64,
}

#[derive(Default)]
struct Samples {
    ours: Vec<f64>,
    peer: Vec<f64>,
    processor: Vec<f64>,
    memory: Vec<f64>,
}

async fn measure(count: u32, progress: &Progress) -> Result<Samples, LabError> {
    let place = Place::with_etcd(&D1).await?;
    progress.step(format!("D1: storing {count} endpoints, seed {SEED}"));
    let Filled { seconds } = worker::found(&place, &Task::Fill { seed: SEED, count }).await?;
    progress.done(format!("stored {count} endpoints of seed {SEED} in {seconds:.1} s"));
    let mut samples = Samples::default();
    for repetition in 1..=REPETITIONS {
        progress.step(format!("D1: repetition {repetition} of {REPETITIONS}"));
        let begun = Instant::now();
        let Decoded { endpoints, peak, before, processor } = worker::found(&place, &Task::Decode).await?;
        samples.ours.push(begun.elapsed().as_secs_f64());
        if endpoints != count {
            return Err(LabError::new(format!("only {endpoints} of {count} endpoints were read")));
        }
        samples.processor.push(processor);
        samples.memory.push(peak.saturating_sub(before) as f64 / f64::from(count.max(1)));
        samples.peer.push(peer(&place).await?);
    }
    Ok(samples)
}

/// Seconds of `etcdctl`.
async fn peer(place: &Place) -> Result<f64, LabError> {
    let begun = Instant::now();
    let mut child = place.spawn(place.etcdctl(&["get", "--prefix", PREFIX]).stdout(Stdio::null()))?;
    let status = child.wait().await.context(|| "cannot run etcdctl (Debian: etcd-client)".into())?;
    let took = begun.elapsed().as_secs_f64();
    if status.success() { Ok(took) } else { Err(LabError::new(format!("etcdctl failed: {status}"))) }
}

impl Samples {
    fn finding(self, count: u32) -> Result<Finding, LabError> {
        let spread = |samples| Spread::of(samples).ok_or_else(|| LabError::new("nothing was measured"));
        let (ours, peer, memory) = (spread(self.ours)?, spread(self.peer)?, spread(self.memory)?);
        let further = |what, unit, ours, target| Further { what, unit, ours, peer: None, target };
        Ok(Finding {
            id: D1.id,
            what: format!("{count} endpoints, seed {SEED}"),
            unit: "s",
            ours,
            peer: Some(peer),
            peer_name: version_of("etcdctl", "version"),
            peer_source: "measured",
            ratio: Some(peer.median / ours.median),
            target: D1.target,
            met: Some(ours.median <= SLOWEST * peer.median && memory.median <= LARGEST),
            limit: "etcd itself: what the peer takes but for printing",
            limit_measured: None,
            of_limit: None,
            machine: Machine::look(),
            further: vec![
                further("memory at most, for each endpoint", "B", memory, "1 200 B"),
                further("processor time", "s", spread(self.processor)?, "-"),
            ],
        })
    }
}

/// Stores endpoints.
pub(super) async fn fill(store: Arc<dyn Datastore>, seed: u64, count: u32) -> Result<Filled, LabError> {
    store_all(store, (0..count).map(|number| endpoint(seed, number))).await
}

/// Stores policies that select and allow by tag.
pub(super) async fn fill_policies(store: Arc<dyn Datastore>, count: u32) -> Result<Filled, LabError> {
    let cluster = TagPolicies { remote: 0, local: 0, policies: count, seed: SEED };
    let of_policies = |update: &Update| update.key.kind() == Kind::GlobalNetworkPolicy;
    let updates = cluster.updates().into_iter().filter(of_policies);
    let absent = || LabError::new("a policy of the benchmark is absent");
    store_all(store, updates.map(|update| Ok((update.key, update.value.ok_or_else(absent)?)))).await
}

/// Stores objects, in batches.
async fn store_all(
    store: Arc<dyn Datastore>,
    objects: impl Iterator<Item = Result<(ResourceKey, Arc<Resource>), LabError>>,
) -> Result<Filled, LabError> {
    let begun = Instant::now();
    let mut objects = objects.peekable();
    let mut batch = Batch::default();
    while let Some(object) = objects.next() {
        let (key, resource) = object?;
        batch.writes.push(Write::put(key, Precondition::None, resource, None));
        if batch.writes.len() == MAX_BATCH || objects.peek().is_none() {
            store.commit(std::mem::take(&mut batch)).await.context(|| "cannot store objects".into())?;
        }
    }
    Ok(Filled { seconds: begun.elapsed().as_secs_f64() })
}

/// Follows all endpoints until in sync, and keeps them.
pub(super) async fn decode() -> Result<Decoded, LabError> {
    let before = usage::resident();
    let store = worker::open().await?;
    let mut syncer = Syncer::start(store, vec![Scope::Kind(Kind::WorkloadEndpoint)], SyncOptions::default());
    let mut model = Vec::new();
    loop {
        match syncer.next().await {
            Some(SyncEvent::Updates(updates)) => model.push(updates),
            Some(SyncEvent::Status(SyncStatus::InSync)) => break,
            Some(SyncEvent::Diagnostic(Diagnostic::Unavailable { reason, .. })) => return Err(LabError::new(reason)),
            Some(_) => {}
            None => return Err(LabError::new("the syncer ended")),
        }
    }
    let present = model.iter().flatten().filter(|update| update.value.is_some()).count();
    // The peer does not clear up behind itself either: that is the kernel's work.
    std::mem::forget(model);
    Ok(Decoded {
        endpoints: u32::try_from(present).unwrap_or(u32::MAX),
        peak: usage::peak(),
        before,
        processor: usage::processor_seconds(),
    })
}
