//! D2: many watchers of one store while it changes a thousand times a second.
//!
//! One process has 1 000 watchers, each of a namespace of its own; 20 more processes follow all endpoints, as agents do, one watcher
//! each. Another process writes: one endpoint a commit, in turn through the namespaces, each commit begun at its time whether those
//! before it have ended or not, as long as no more than 256 are under way: a store that cannot keep up shows as a lower rate. So each
//! update is delivered 21 times. A delay counts from before the commit is handed to the store until the watcher has the decoded object:
//! the commit itself is part of it, and told beside it.
//!
//! Peer, for etcd: the same with the bare client (`etcd-client`), which finds the time in the stored bytes and decodes nothing.
//! The embedded store has no peer; its figures stand beside. Limit: the commit. Target: all is delivered.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use calico_core::resource::{Kind, Resource};
use calico_datastore::{Datastore, Precondition, Scope, Watch, WatchEvent, Write};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::finding::{Benchmark, Finding, Further};
use super::super::stats::{Machine, Spread};
#[cfg(feature = "etcd")]
use super::decode::PREFIX;
use super::endpoints::{SEED, in_namespace, namespace};
use super::place::Place;
use super::usage;
use super::worker::{Client, Part, Task, Worker, tell};
use crate::args::BenchArgs;
use crate::error::{Context, LabError};
use crate::interrupt::interruptible;
use crate::progress::Progress;

pub(in crate::bench) const D2: Benchmark = Benchmark {
    id: "D2",
    what: "1 000 watchers in one process and 20 processes, 1 000 updates/s, on etcd and on SQLite",
    peer: "the bare etcd client, which decodes nothing",
    target: "all is delivered",
};

const WATCHERS: u32 = 1000;
/// Watchers for each process beside them.
const FOR_A_FOLLOWER: u32 = 50;
/// A second.
const RATE: u32 = 1000;
/// Commits under way at once: far below what lets one of them wait for the store's deadline.
const AT_ONCE: usize = 256;
/// Of each watcher's namespace.
const UPDATES: u32 = 5;
const REPETITIONS: usize = 5;
/// The annotation with the time, in nanoseconds since 1970.
const SENT: &str = "sent";
/// Who hears nothing for so long has heard all that comes.
const SILENCE: Duration = Duration::from_secs(20);

/// What a watching process tells.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Heard {
    /// It listens.
    Ready,
    /// All that came.
    Done {
        /// Microseconds from the update's beginning to its delivery, of each.
        delays: Vec<u32>,
        /// Seconds of processor time since it was ready.
        processor: f64,
    },
}

/// What the writing process tells.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Written {
    seconds: f64,
    /// Microseconds of each commit.
    commits: Vec<u32>,
}

/// D2.
pub(in crate::bench) async fn run(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let watchers = arguments.size.unwrap_or(WATCHERS);
    interruptible(measure(watchers, progress)).await?.finding(watchers)
}

async fn measure(watchers: u32, progress: &Progress) -> Result<Samples, LabError> {
    let (etcd, sqlite) = (Place::with_etcd(&D2).await?, Place::with_sqlite()?);
    let mut samples = Samples::default();
    for repetition in 1..=REPETITIONS {
        let step = |what| progress.step(format!("D2: repetition {repetition} of {REPETITIONS}: {what}"));
        step("etcd");
        samples.etcd.add(round(&etcd, Client::Calico, watchers).await?);
        step("etcd, bare client");
        samples.bare.add(round(&etcd, Client::Bare, watchers).await?);
        step("SQLite");
        samples.sqlite.add(round(&sqlite, Client::Calico, watchers).await?);
    }
    Ok(samples)
}

/// What one repetition gave. Delays are in milliseconds, processor time is for each thousand deliveries.
struct Round {
    namespaces: Delays,
    all: Delays,
    commits: Delays,
    /// Share of what should have been delivered.
    delivered: f64,
    rate: f64,
    watching: f64,
    serving: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Delays {
    median: f64,
    late: f64,
}

async fn round(place: &Place, client: Client, watchers: u32) -> Result<Round, LabError> {
    let updates = watchers.saturating_mul(UPDATES);
    let followers = watchers.div_ceil(FOR_A_FOLLOWER);
    let mut workers = Vec::new();
    let parts = [Part::Namespaces(watchers)].into_iter().chain((0..followers).map(|_| Part::All));
    for part in parts {
        workers.push(Worker::start(place, &Task::Watch { client, part, expected: updates })?);
    }
    for worker in &mut workers {
        let Heard::Ready = worker.hear().await? else { return Err(LabError::new("a watcher ended early")) };
    }
    let serving = || place.etcd().map_or(0.0, |etcd| usage::processor_seconds_of(etcd.pid));
    let served = serving();
    let write = Task::Write { seed: SEED, namespaces: watchers, updates };
    let Written { seconds, commits } = super::worker::found(place, &write).await?;
    let (mut namespaces, mut all, mut watching) = (Vec::new(), Vec::new(), 0.0);
    for (number, mut worker) in workers.into_iter().enumerate() {
        let Heard::Done { delays, processor } = worker.hear().await? else {
            return Err(LabError::new("a watcher began anew"));
        };
        worker.end().await?;
        watching += processor;
        if number == 0 { &mut namespaces } else { &mut all }.extend(delays);
    }
    let count = namespaces.len() + all.len();
    let thousands = count as f64 / 1000.0;
    Ok(Round {
        delivered: count as f64 / (f64::from(updates) * f64::from(followers + 1)),
        namespaces: Delays::of(namespaces)?,
        all: Delays::of(all)?,
        commits: Delays::of(commits)?,
        rate: f64::from(updates) / seconds,
        watching: watching * 1000.0 / thousands,
        serving: (serving() - served) * 1000.0 / thousands,
    })
}

impl Delays {
    fn of(mut micros: Vec<u32>) -> Result<Self, LabError> {
        micros.sort_unstable();
        let at = |percent| micros.get(micros.len().saturating_sub(1) * percent / 100).map(|us| f64::from(*us) / 1000.0);
        match (at(50), at(99)) {
            (Some(median), Some(late)) => Ok(Self { median, late }),
            _ => Err(LabError::new("nothing was delivered")),
        }
    }
}

#[derive(Default)]
struct Samples {
    etcd: Rounds,
    bare: Rounds,
    sqlite: Rounds,
}

#[derive(Default)]
struct Rounds(Vec<Round>);

impl Rounds {
    fn add(&mut self, round: Round) {
        self.0.push(round);
    }

    fn spread(&self, of: impl Fn(&Round) -> f64) -> Result<Spread, LabError> {
        Spread::of(self.0.iter().map(of).collect()).ok_or_else(|| LabError::new("nothing was measured"))
    }
}

impl Samples {
    fn finding(self, watchers: u32) -> Result<Finding, LabError> {
        let Self { etcd, bare, sqlite } = self;
        let (ours, peer) = (etcd.spread(|round| round.all.median)?, bare.spread(|round| round.all.median)?);
        let mut further = Vec::new();
        let mut row = |what, unit, of: fn(&Round) -> f64, beside: bool| -> Result<(), LabError> {
            let (store, what) = if beside { (&etcd, what) } else { (&sqlite, what) };
            let peer = if beside { Some(bare.spread(of)?) } else { None };
            further.push(Further { what, unit, ours: store.spread(of)?, peer, target: "-" });
            Ok(())
        };
        row("etcd, processes beside: 99th percentile", "ms", |round| round.all.late, true)?;
        row("etcd, watchers in one process: median", "ms", |round| round.namespaces.median, true)?;
        row("etcd, watchers in one process: 99th percentile", "ms", |round| round.namespaces.late, true)?;
        row("etcd, of which the commit: median", "ms", |round| round.commits.median, true)?;
        row("etcd, the commit: 99th percentile", "ms", |round| round.commits.late, true)?;
        row("etcd, delivered", "of 1", |round| round.delivered, true)?;
        row("etcd, updates written", "1/s", |round| round.rate, true)?;
        row("etcd, watching processes' time for 1 000 deliveries", "ms", |round| round.watching, true)?;
        row("etcd, the server's", "ms", |round| round.serving, true)?;
        row("SQLite, processes beside: median", "ms", |round| round.all.median, false)?;
        row("SQLite, processes beside: 99th percentile", "ms", |round| round.all.late, false)?;
        row("SQLite, watchers in one process: median", "ms", |round| round.namespaces.median, false)?;
        row("SQLite, watchers in one process: 99th percentile", "ms", |round| round.namespaces.late, false)?;
        row("SQLite, of which the commit: median", "ms", |round| round.commits.median, false)?;
        row("SQLite, the commit: 99th percentile", "ms", |round| round.commits.late, false)?;
        row("SQLite, delivered", "of 1", |round| round.delivered, false)?;
        row("SQLite, updates written", "1/s", |round| round.rate, false)?;
        row("SQLite, watching processes' time for 1 000 deliveries", "ms", |round| round.watching, false)?;
        let least = [&etcd, &sqlite].into_iter().flat_map(|rounds| &rounds.0).map(|round| round.delivered);
        Ok(Finding {
            id: D2.id,
            what: format!(
                "etcd, {} processes beside {watchers} watchers: median delay",
                watchers.div_ceil(FOR_A_FOLLOWER)
            ),
            unit: "ms",
            ours,
            peer: Some(peer),
            peer_name: "etcd-client alone, nothing decoded".into(),
            peer_source: "measured",
            ratio: Some(peer.median / ours.median),
            target: D2.target,
            met: Some(least.fold(1.0, f64::min) >= 1.0),
            limit: "the commit, which the delay contains",
            limit_measured: Some(etcd.spread(|round| round.commits.median)?),
            of_limit: None,
            machine: Machine::look(),
            further,
        })
    }
}

/// Writes at the rate.
pub(super) async fn write(
    store: Arc<dyn Datastore>,
    seed: u64,
    namespaces: u32,
    updates: u32,
) -> Result<Written, LabError> {
    let begun = Instant::now();
    let mut commits = JoinSet::new();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    for number in 0..updates {
        sleep_until(begun + Duration::from_secs(number.into()) / RATE).await;
        let of = number % namespaces.max(1);
        let (key, mut resource) = in_namespace(seed, of, &namespace(of))?;
        let store = Arc::clone(&store);
        let turn = Arc::clone(&turns).acquire_owned().await.context(|| "nobody writes".into())?;
        commits.spawn(async move {
            let _turn = turn;
            let begun = Instant::now();
            if let Some(metadata) = Arc::make_mut(&mut resource).metadata_mut() {
                metadata.annotations.insert(SENT.into(), now().to_string().into());
            }
            let committed = store.commit(Write::put(key, Precondition::None, resource, None).into()).await;
            committed.map(|_| micros(begun.elapsed()))
        });
    }
    let mut took = Vec::new();
    while let Some(commit) = commits.join_next().await {
        let failed = || "cannot store an endpoint".to_owned();
        took.push(commit.context(failed)?.context(failed)?);
    }
    Ok(Written { seconds: begun.elapsed().as_secs_f64(), commits: took })
}

/// Watches through Calico's datastore.
pub(super) async fn watch(store: Arc<dyn Datastore>, part: Part, expected: u32) -> Result<(), LabError> {
    let failed = || "cannot watch".to_owned();
    let in_one = |namespace| Scope::Namespace { kind: Kind::WorkloadEndpoint, namespace };
    let scopes = match part {
        Part::Namespaces(count) => (0..count).map(|number| in_one(namespace(number).into())).collect(),
        Part::All => vec![Scope::Kind(Kind::WorkloadEndpoint)],
    };
    let from = store.list(&in_one("nobody".into())).await.context(failed)?.revision;
    let (delays, arrivals) = mpsc::unbounded_channel();
    let mut watchers = JoinSet::new();
    for scope in scopes {
        let watch = store.watch(&scope, from).await.context(failed)?;
        watchers.spawn(follow(watch, delays.clone()));
    }
    gather(arrivals, expected).await
}

async fn follow(mut watch: Box<dyn Watch>, delays: mpsc::UnboundedSender<u32>) {
    while let Ok(event) = watch.next().await {
        let WatchEvent::Put(Ok(stored)) = event else { continue };
        let sent = sent(&stored.resource);
        if sent.is_some_and(|sent| delays.send(since(sent)).is_err()) {
            return;
        }
    }
}

fn sent(resource: &Resource) -> Option<u64> {
    resource.metadata()?.annotations.get(SENT)?.parse().ok()
}

/// Collects delays until all have come, or nothing comes any more.
async fn gather(mut arrivals: mpsc::UnboundedReceiver<u32>, expected: u32) -> Result<(), LabError> {
    tell(&Heard::Ready)?;
    let used = usage::processor_seconds();
    let mut delays = Vec::new();
    while u32::try_from(delays.len()).is_ok_and(|count| count < expected) {
        let Ok(Some(delay)) = timeout(SILENCE, arrivals.recv()).await else { break };
        delays.push(delay);
    }
    tell(&Heard::Done { delays, processor: usage::processor_seconds() - used })
}

/// Watches with etcd's client library alone.
#[cfg(feature = "etcd")]
pub(super) async fn watch_bare(part: Part, expected: u32) -> Result<(), LabError> {
    use etcd_client::{GetOptions, WatchOptions};

    let failed = || "the bare client cannot watch".to_owned();
    let endpoint = std::env::var("ETCD_ENDPOINTS").context(failed)?;
    let mut client = etcd_client::Client::connect([endpoint], None).await.context(failed)?;
    let root = PREFIX;
    let prefixes = match part {
        Part::Namespaces(count) => (0..count).map(|number| format!("{root}{}/", namespace(number))).collect(),
        Part::All => vec![root.to_owned()],
    };
    let newest = client.get(root, Some(GetOptions::new().with_keys_only())).await.context(failed)?;
    let from = newest.header().map_or(0, etcd_client::ResponseHeader::revision).saturating_add(1);
    let (delays, arrivals) = mpsc::unbounded_channel();
    let mut watchers = JoinSet::new();
    for prefix in prefixes {
        let options = WatchOptions::new().with_prefix().with_start_revision(from);
        let mut stream = client.watch(prefix, Some(options)).await.context(failed)?;
        let delays = delays.clone();
        watchers.spawn(async move {
            while let Ok(Some(message)) = stream.message().await {
                for pair in message.events().iter().filter_map(etcd_client::Event::kv) {
                    if let Some(sent) = sent_in(pair.value()) {
                        let _nobody_counts_any_more = delays.send(since(sent));
                    }
                }
            }
        });
    }
    gather(arrivals, expected).await
}

/// The time in stored bytes.
#[cfg(any(feature = "etcd", test))]
fn sent_in(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, after) = text.split_once("\"sent\":\"")?;
    after.split_once('"')?.0.parse().ok()
}

/// Nanoseconds since 1970. All processes are on one machine, and nobody sets its clock meanwhile.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn since(sent: u64) -> u32 {
    micros(Duration::from_nanos(now().saturating_sub(sent)))
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clients_find_the_same_time() {
        let (_, mut resource) = in_namespace(SEED, 1, "n").unwrap();
        Arc::make_mut(&mut resource).metadata_mut().unwrap().annotations.insert(SENT.into(), "123".into());
        assert_eq!(sent(&resource), Some(123));
        assert_eq!(sent_in(resource.encode().to_string().as_bytes()), Some(123));
    }

    #[test]
    fn delays_in_short() {
        assert_eq!(
            Delays::of((1..=101).rev().map(|ms| ms * 1000).collect()).unwrap(),
            Delays { median: 51.0, late: 100.0 }
        );
        assert!(Delays::of(Vec::new()).is_err());
    }
}
