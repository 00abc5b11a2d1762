//! P6: an agent starts on a host with 500 endpoints, 2 000 policies of ten rules and 500 sets of 500 members: first where nothing is in the
//! kernel, then where all is.
//!
//! Peer: `nft -f` with the text of the same table; beside it `ipset restore` and `iptables-restore` with as many sets and rules. Limit: bare
//! netlink, the same transaction sent to an empty namespace with nothing calculated. Targets: at most half of `nft -f` and 1.3 times bare
//! netlink; the second start writes nothing.

use std::process::{Command, Stdio};
use std::time::Instant;

use calico_core::render::TABLE;
use calico_core::table::Delta;
use calico_core::update::Update;
use calico_dataplane::netns::Netns;
use calico_dataplane::{Dataplane, LinuxConfig, LinuxDataplane};

use super::host::{self, Host};
use super::objects::{OTHERS, group_set, group_user, local_endpoint};
use super::{legacy, nft_in, seconds};
use crate::bench::finding::{Benchmark, Finding, Further};
use crate::bench::stats::{Machine, Spread, version_of};
use crate::bench::store::usage::own_seconds;
use crate::error::{Context, LabError};
use crate::progress::Progress;

pub(in crate::bench) const P6: Benchmark = Benchmark {
    id: "P6",
    what: "cold start: 500 endpoints, 2 000 policies × 10 rules, 500 sets × 500; warm restart",
    peer: "nft -f, same table",
    target: "½ of nft, 1.3 × bare netlink; warm: no write",
};

const ENDPOINTS: u32 = 500;
const POLICIES: u32 = 2000;
const SETS: u32 = 500;
const MEMBERS: u32 = 500;
const REPETITIONS: usize = 5;

pub(in crate::bench) async fn run(progress: &Progress) -> Result<Finding, LabError> {
    let sets = (0..SETS).map(|group| group_set(group, MEMBERS));
    let policies = (0..POLICIES).map(|number| group_user(number, number % SETS));
    let documents = (0..ENDPOINTS).map(|number| local_endpoint(OTHERS + number)).chain(sets).chain(policies);
    let updates: Vec<Update> = documents.map(|document| host::update(&document)).collect::<Result<_, _>>()?;
    let size = legacy::Size { sets: SETS, members: MEMBERS, policies: POLICIES, endpoints: ENDPOINTS };
    let [mut cold, mut warm, mut peer, mut bare, mut old] = [const { Vec::new() }; 5];
    let [mut cold_own, mut warm_own] = [const { Vec::new() }; 2];
    for repetition in 1..=REPETITIONS {
        progress.step(format!("P6: repetition {repetition} of {REPETITIONS}"));
        let netns = namespace()?;
        let Start { took, own, written } = start(&netns, &updates)?;
        cold.push(took);
        cold_own.push(own);
        let text = listing(&netns)?;
        let Start { took, own, written: again } = start(&netns, &updates)?;
        warm.push(took);
        warm_own.push(own);
        if again.iter().any(|delta| !delta.is_empty()) {
            return Err(LabError::new("the second start wrote something"));
        }
        bare.push(send(&namespace()?, &written)?);
        peer.push(nft_in(&namespace()?, &text)?.as_secs_f64() * 1000.0);
        old.push(legacy::start(size)? * 1000.0);
    }
    let none = || LabError::new("nothing was measured");
    let spread = |samples| Spread::of(samples).ok_or_else(none);
    let (ours, warm, peer, bare) = (spread(cold)?, spread(warm)?, spread(peer)?, spread(bare)?);
    let (ratio, share) = (peer.median / ours.median, bare.median / ours.median);
    Ok(Finding {
        id: P6.id,
        what: "cold start, from the datastore's objects to the kernel's acknowledgement".into(),
        unit: "ms",
        ours,
        peer: Some(peer),
        peer_name: version_of("nft", "--version"),
        peer_source: "measured",
        ratio: Some(ratio),
        target: P6.target,
        met: Some(ratio >= 2.0 && share >= 1.0 / 1.3),
        limit: "the same transactions by bare netlink",
        limit_measured: Some(bare),
        of_limit: Some(share),
        machine: Machine::look(),
        further: vec![
            further("processor time of it outside the kernel", spread(cold_own)?),
            further("warm restart, writing nothing", warm),
            further("processor time of it outside the kernel", spread(warm_own)?),
            legacy::further("cold start beside ipset and iptables-restore", "ms", ours, old)?,
        ],
    })
}

fn namespace() -> Result<Netns, LabError> {
    Netns::anonymous().context(|| "cannot make a namespace for the benchmark".into())
}

fn further(what: &'static str, ours: Spread) -> Further {
    Further { what, unit: "ms", ours, peer: None, target: "-" }
}

/// How an agent started.
struct Start {
    /// Milliseconds until it had made the host as it should be.
    took: f64,
    /// Those of processor time outside the kernel: on a machine with others, these tell builds apart.
    own: f64,
    written: Vec<Delta>,
}

fn start(netns: &Netns, updates: &[Update]) -> Result<Start, LabError> {
    within(netns, async || {
        let (begun, used) = (Instant::now(), own_seconds());
        let mut host = Host::open()?;
        host.take_in(updates);
        let written = host.carry_out().await?;
        Ok(Start { took: seconds(begun) * 1000.0, own: (own_seconds() - used) * 1000.0, written })
    })
}

/// Milliseconds that the kernel and the encoding take alone.
fn send(netns: &Netns, deltas: &[Delta]) -> Result<f64, LabError> {
    within(netns, async || {
        let mut dataplane =
            LinuxDataplane::open(LinuxConfig::default()).context(|| "cannot open the dataplane".into())?;
        let begun = Instant::now();
        for delta in deltas {
            let report = dataplane.apply(delta).await;
            if let Some(error) = report.ruleset {
                return Err(error).context(|| "the kernel refused the table".into());
            }
        }
        Ok(seconds(begun) * 1000.0)
    })
}

pub(super) fn within<T: Send>(
    netns: &Netns,
    work: impl AsyncFnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context(|| "cannot start".into())?.block_on(work())
    };
    // Blocking work on purpose: nothing else may run beside it.
    netns.run(run).context(|| "cannot enter a namespace".into())?
}

fn listing(netns: &Netns) -> Result<String, LabError> {
    let failed = || "cannot run nft (Debian: nftables)".to_owned();
    let mut command = Command::new("nft");
    command.args(["list", "table", "inet", TABLE]).stdin(Stdio::null());
    let output = netns.run(|| command.output()).context(failed)?.context(failed)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(LabError::new(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}
