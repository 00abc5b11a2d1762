//! P14: somebody deletes an object of ours; how long until it is back. From the end of the foreign change to the kernel's acknowledgement of
//! the repair, for each class, on a host with 250 endpoints, 100 policies of ten rules and 100 sets of 100 members.
//!
//! Peer: upstream finds out at its next refresh, 180 s later at most, 90 s on average (published: `NftablesRefreshInterval`). Limit: a
//! notification, 20 µs. Target: 10 ms for each class; a table that was deleted takes as long as a cold start.

use std::time::Instant;

use calico_core::render::TABLE;
use calico_dataplane::netns::Netns;

use super::host::{self, Host};
use super::objects::{OTHERS, group_set, group_user, local_endpoint};
use super::start::within;
use super::{add_links, nft, run_here, seconds};
use crate::bench::finding::{Benchmark, Finding, Further};
use crate::bench::stats::{Machine, Spread};
use crate::error::{Context, LabError};
use crate::progress::Progress;

pub(in crate::bench) const P14: Benchmark = Benchmark {
    id: "P14",
    what: "drift: one object of each class deleted by somebody else, until it is back",
    peer: "upstream's refresh timer",
    target: "10 ms each",
};

const ENDPOINTS: u32 = 250;
const GROUPS: u32 = 100;
const MEMBERS: u32 = 100;
const REPETITIONS: usize = 20;
/// Half of upstream's default interval, in milliseconds.
const REFRESH: f64 = 90_000.0;

pub(in crate::bench) async fn run(progress: &Progress) -> Result<Finding, LabError> {
    let netns = Netns::anonymous().context(|| "cannot make a namespace for the benchmark".into())?;
    add_links(&netns, &(0..ENDPOINTS).map(|number| OTHERS + number).collect::<Vec<_>>())?;
    let sets = (0..GROUPS).map(|group| group_set(group, MEMBERS));
    let policies = (0..GROUPS).map(|number| group_user(number, number));
    let documents = (0..ENDPOINTS).map(|number| local_endpoint(OTHERS + number)).chain(sets).chain(policies);
    let updates = documents.map(|document| host::update(&document)).collect::<Result<Vec<_>, _>>()?;
    let (found, lost) = within(&netns, async || {
        let mut host = Host::open()?;
        host.take_in(&updates);
        host.carry_out().await?;
        let set = host.some_set().await?;
        let route = "10.64.3.232/32";
        let deeds = [
            ("a rule's chain emptied", "nft", format!("flush chain inet {TABLE} from-workload")),
            ("a set emptied", "nft", format!("flush set inet {TABLE} {set}")),
            ("a route deleted", "ip", format!("route del {route} metric 1024")),
            ("a neighbour deleted", "ip", format!("neigh del 10.64.3.232 dev cali{OTHERS}")),
        ];
        let mut found = Vec::new();
        for (what, program, arguments) in &deeds {
            progress.step(format!("P14: {what}"));
            let mut samples = Vec::new();
            for _ in 0..REPETITIONS {
                run_here(program, arguments)?;
                samples.push(repaired(&mut host).await?);
                host.rest().await?;
            }
            found.push((*what, samples));
        }
        let mut lost = Vec::new();
        for _ in 0..5 {
            nft(&format!("delete table inet {TABLE}\n"))?;
            lost.push(repaired(&mut host).await?);
            host.rest().await?;
        }
        Ok((found, lost))
    })?;
    let none = || LabError::new("nothing was measured");
    let mut further = Vec::new();
    for (what, samples) in found {
        further.push(Further {
            what,
            unit: "ms",
            ours: Spread::of(samples).ok_or_else(none)?,
            peer: None,
            target: "10 ms",
        });
    }
    let lost = Spread::of(lost).ok_or_else(none)?;
    let slowest = further.iter().map(|one| one.ours).max_by(|a, b| a.median.total_cmp(&b.median)).ok_or_else(none)?;
    further.push(Further { what: "the table deleted", unit: "ms", ours: lost, peer: None, target: "a cold start" });
    Ok(Finding {
        id: P14.id,
        what: "the slowest class".into(),
        unit: "ms",
        ours: slowest,
        peer: Spread::of(vec![REFRESH]),
        peer_name: "upstream, half of its refresh interval".into(),
        peer_source: "published",
        ratio: None,
        target: P14.target,
        met: Some(slowest.median <= 10.0),
        limit: "20 µs: a notification",
        limit_measured: None,
        of_limit: None,
        machine: Machine::look(),
        further,
    })
}

/// Milliseconds until the host is again as it should be.
async fn repaired(host: &mut Host) -> Result<f64, LabError> {
    let begun = Instant::now();
    loop {
        host.hear().await?;
        if host.carry_out().await?.iter().any(|delta| !delta.is_empty()) {
            return Ok(seconds(begun) * 1000.0);
        }
    }
}
