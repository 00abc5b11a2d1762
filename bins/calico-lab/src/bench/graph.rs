//! P1, P2 and P3: the calculation graph at a cluster's size. No kernel and no datastore: updates go in, events come out.
//!
//! | Id | Work | Peer (published) | Limit | Target |
//! |---|---|---|---|---|
//! | P1 | snapshot of 250 000 remote and 200 local endpoints, 10 000 policies that select and allow by tag | 3.39 s, 374 MB (calico#10272) | 0.1 to 0.25 s, 12 to 24 MB | 0.35 s, 40 MB |
//! | P2 | snapshot of 100 000 namespaces that isolate themselves, 100 endpoints of which are local | 6.90 s, 402 MB (calico#11866) | – | 0.5 s, 60 MB |
//! | P3 | one remote endpoint's labels or address change after P1 | 20 to 200 µs | 1 µs | 20 µs (99 of 100) |
//!
//! The clusters are those of upstream's own benchmarks ([`calico_core::testing`]); its programs do not run here, so its figures are
//! quoted. Each repetition is a process of its own. Its memory is what the kernel has resident after the flush (the events are dropped
//! by then), less what it had when the updates were made: the objects themselves belong to whoever hands them in. The share of
//! one endpoint is measured apart, with endpoints as Kubernetes' plugin writes them, each dropped as soon as the graph has taken it in.

use std::time::Instant;

use calico_core::calc::Graph;
use calico_core::testing::{HOST, IsolatedCustomers, Random, TagPolicies};
use calico_core::text::Words;
use calico_core::update::Update;
use serde::{Deserialize, Serialize};

use super::finding::{Benchmark, Finding, Further};
use super::stats::Spread;
use super::store::worker::{self, Scene, Task};
use super::store::{endpoints, usage};
use crate::args::BenchArgs;
use crate::error::LabError;
use crate::interrupt::interruptible;
use crate::progress::Progress;

pub(super) const P1: Benchmark = Benchmark {
    id: "P1",
    what: "graph: snapshot of 250 000 remote and 200 local endpoints, 10 000 tag policies",
    peer: "upstream, published",
    target: "0.35 s, 40 MB",
};

pub(super) const P2: Benchmark = Benchmark {
    id: "P2",
    what: "graph: snapshot of 100 000 isolated namespaces",
    peer: "upstream, published",
    target: "0.5 s, 60 MB",
};

pub(super) const P3: Benchmark = Benchmark {
    id: "P3",
    what: "graph: one remote endpoint changes after P1",
    peer: "upstream, published",
    target: "20 µs (99 of 100)",
};

const SEED: u64 = 20_261_201;
const REPETITIONS: usize = 5;
const CHANGES: usize = 20_000;

/// A cluster for a quick look has fewer policies, too.
fn tags(size: u32) -> TagPolicies {
    TagPolicies { remote: size, local: 200, policies: size.min(10_000), seed: SEED }
}

fn updates(scene: Scene, size: u32) -> Vec<Update> {
    match scene {
        Scene::Tags => tags(size).updates(),
        Scene::Customers => IsolatedCustomers { namespaces: size, local: 100, seed: SEED }.updates(),
    }
}

/// What a worker measured of a snapshot; memory in bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Loaded {
    seconds: f64,
    processor: f64,
    resident: u64,
    peak: u64,
}

/// Bytes of the graph for each endpoint whose object nobody holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Held(f64);

/// Microseconds of changes: half are below the first, 99 of 100 below the second.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Changed {
    labels: (f64, f64),
    addresses: (f64, f64),
}

/// P1.
pub(super) async fn tag_policies(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let size = arguments.size.unwrap_or(250_000);
    let mut samples = interruptible(snapshots("P1", Scene::Tags, size, progress)).await?;
    progress.step("P1: endpoints that nobody else holds");
    let Held(bytes) = interruptible(worker::alone(&Task::HoldEndpoints { size })).await?;
    samples.each.push(bytes);
    samples.finding(&P1, format!("snapshot of {size} remote endpoints, seed {SEED}"), 3.39, 374.0, (0.35, 40.0))
}

/// P2.
pub(super) async fn isolated_customers(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let size = arguments.size.unwrap_or(100_000);
    let samples = interruptible(snapshots("P2", Scene::Customers, size, progress)).await?;
    samples.finding(&P2, format!("snapshot of {size} isolated namespaces, seed {SEED}"), 6.9, 402.0, (0.5, 60.0))
}

#[derive(Default)]
struct Samples {
    seconds: Vec<f64>,
    processor: Vec<f64>,
    resident: Vec<f64>,
    peak: Vec<f64>,
    each: Vec<f64>,
}

async fn snapshots(id: &str, scene: Scene, size: u32, progress: &Progress) -> Result<Samples, LabError> {
    let mut samples = Samples::default();
    for repetition in 1..=REPETITIONS {
        progress.step(format!("{id}: repetition {repetition} of {REPETITIONS}"));
        let loaded: Loaded = worker::alone(&Task::Snapshot { scene, size }).await?;
        samples.seconds.push(loaded.seconds);
        samples.processor.push(loaded.processor);
        samples.resident.push(loaded.resident as f64 / 1e6);
        samples.peak.push(loaded.peak as f64 / 1e6);
    }
    Ok(samples)
}

impl Samples {
    fn finding(
        self,
        benchmark: &Benchmark,
        what: String,
        peer_seconds: f64,
        peer_megabytes: f64,
        (seconds, megabytes): (f64, f64),
    ) -> Result<Finding, LabError> {
        let (ours, resident) = (spread(self.seconds)?, spread(self.resident)?);
        let peer = |figure| Spread::of(vec![figure]);
        let mut further = vec![
            Further {
                what: "memory of the graph",
                unit: "MB",
                ours: resident,
                peer: peer(peer_megabytes),
                target: benchmark.target,
            },
            Further { what: "at most, with its events", unit: "MB", ours: spread(self.peak)?, peer: None, target: "-" },
            Further { what: "processor time", unit: "s", ours: spread(self.processor)?, peer: None, target: "-" },
        ];
        let what_each = "memory for each endpoint that nobody else holds";
        further.extend(Spread::of(self.each).map(|each| Further {
            what: what_each,
            unit: "B",
            ours: each,
            peer: None,
            target: "160 B",
        }));
        Ok(Finding {
            peer: peer(peer_seconds),
            peer_name: "upstream's calculation graph".into(),
            peer_source: "published",
            met: Some(ours.median <= seconds && resident.median <= megabytes),
            limit: "reading each object's labels once: 0.1 to 0.25 s for 250 000",
            further,
            ..benchmark.finding(what, "s", ours)
        })
    }
}

/// P3.
pub(super) async fn changes(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let size = arguments.size.unwrap_or(250_000);
    let (mut labels, mut addresses) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for repetition in 1..=REPETITIONS {
        progress.step(format!("P3: repetition {repetition} of {REPETITIONS}"));
        let changed: Changed = interruptible(worker::alone(&Task::Changes { size })).await?;
        for (all, (median, late)) in [(&mut labels, changed.labels), (&mut addresses, changed.addresses)] {
            all.0.push(median);
            all.1.push(late);
        }
    }
    let (label_change, address_change) = (spread(labels.1)?, spread(addresses.1)?);
    let further = |what, ours, target| spread(ours).map(|ours| Further { what, unit: "µs", ours, peer: None, target });
    let late =
        Further { what: "address change, 99 of 100", unit: "µs", ours: address_change, peer: None, target: P3.target };
    let what = format!("label change, 99 of 100; {size} remote endpoints, seed {SEED}");
    Ok(Finding {
        peer_name: "upstream's calculation graph: 20 to 200 µs".into(),
        peer_source: "published",
        met: Some(label_change.median <= 20.0 && address_change.median <= 20.0),
        limit: "1 µs: a few lookups in memory that is in no cache",
        further: vec![
            late,
            further("label change, half", labels.0, "-")?,
            further("address change, half", addresses.0, "-")?,
        ],
        ..P3.finding(what, "µs", label_change)
    })
}

fn spread(samples: Vec<f64>) -> Result<Spread, LabError> {
    Spread::of(samples).ok_or_else(|| LabError::new("nothing was measured"))
}

/// A worker's snapshot.
pub(super) fn load(scene: Scene, size: u32) -> Loaded {
    let updates = updates(scene, size);
    let (before, used) = (usage::resident(), usage::processor_seconds());
    let begun = Instant::now();
    let mut graph = Graph::new(HOST);
    updates.iter().for_each(|update| graph.handle_update(update));
    let events = graph.flush();
    let seconds = begun.elapsed().as_secs_f64();
    let processor = usage::processor_seconds() - used;
    drop(events);
    let resident = usage::resident().saturating_sub(before);
    drop((graph, updates));
    Loaded { seconds, processor, resident, peak: usage::peak().saturating_sub(before) }
}

/// A worker's endpoints without their objects.
pub(super) fn hold_endpoints(size: u32) -> Result<Held, LabError> {
    let mut graph = Graph::new(HOST);
    // The words of all that is to come, and the room that making one takes.
    let mut words = Words::default();
    let mut update = |number| {
        let (mut key, mut value) = endpoints::endpoint(SEED, number)?;
        key.share(&mut words);
        if let Some(value) = std::sync::Arc::get_mut(&mut value) {
            value.share(&mut words);
        }
        Ok::<_, LabError>(Update { key, value: Some(value) })
    };
    graph.handle_update(&update(size)?);
    graph.flush();
    let before = usage::resident();
    for number in 0..size {
        graph.handle_update(&update(number)?);
    }
    graph.flush();
    let bytes = usage::resident().saturating_sub(before);
    drop(graph);
    Ok(Held(bytes as f64 / f64::from(size.max(1))))
}

/// A worker's changes, one by one.
pub(super) fn change(size: u32) -> Changed {
    let cluster = tags(size);
    let mut graph = Graph::new(HOST);
    cluster.updates().iter().for_each(|update| graph.handle_update(update));
    graph.flush();
    let (mut random, mut words) = (Random::new(SEED), Words::default());
    let mut measure = |next: &dyn Fn(&mut Random, &mut Words) -> Update| {
        let updates: Vec<Update> = (0..CHANGES).map(|_| next(&mut random, &mut words)).collect();
        let took = updates.iter().map(|update| {
            let begun = Instant::now();
            graph.handle_update(update);
            let events = graph.flush();
            let took = begun.elapsed().as_secs_f64() * 1e6;
            drop(events);
            took
        });
        let mut took: Vec<f64> = took.collect();
        took.sort_by(f64::total_cmp);
        let at = |hundredth: usize| took.get(took.len() * hundredth / 100).copied().unwrap_or(f64::NAN);
        (at(50), at(99))
    };
    let remote = |random: &mut Random| u32::try_from(random.below(size.max(1) as usize)).unwrap_or(0);
    let labels = measure(&|random, words| {
        let number = remote(random);
        cluster.endpoint(number, remote(random), number, words)
    });
    let addresses = measure(&|random, words| {
        let number = remote(random);
        cluster.endpoint(number, number, 1_000_000 + remote(random) * 8, words)
    });
    Changed { labels, addresses }
}
