//! P12: CNI ADD as a runtime sees it, from executing the plugin to its exit: address management, interface, endpoint written, and
//! the policy of a real agent in the kernel on return. Direct mode: the plugin speaks to the datastore and the kernel itself.
//!
//! Peer: Debian's `ptp` with `host-local` (containernetworking-plugins), which polices nothing and flushes nothing to disk, in the same
//! host. Limit: one process start and one durable commit; the plugin makes two, and SQLite adds a flush of the directory. Targets: ADD
//! with its median below the peer's, at the 99th percentile 8 ms; DEL 5 ms.
//!
//! Who deletes a veth is held by the kernel for an RCU grace period, 12 to 24 ms where the peer's DEL takes 22 ms: the bare netlink
//! requests at the end of the table show it. The interface itself is gone after 0.3 ms. So in DEL the agent's thread is held in place of
//! the plugin, which is why DEL can be faster than the kernel's own answer.

use std::path::{Path, PathBuf};
use std::time::Instant;

use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use serde_json::json;

use super::finding::{Benchmark, Finding, Further};
use super::stats::{Machine, Spread};
use crate::args::{BenchArgs, DatastoreKind};
use crate::cni::{self, Plugin};
use crate::error::{Context, LabError};
use crate::interrupt::interruptible;
use crate::lab::{Lab, tear_down_after};
use crate::plan::{HostId, Plan, PodId};
use crate::programs::Source;
use crate::progress::Progress;
use crate::state::StateDir;

pub(super) const P12: Benchmark = Benchmark {
    id: "P12",
    what: "CNI ADD with address, endpoint and policy, direct mode; CNI DEL",
    peer: "ptp + host-local (Debian), which police nothing",
    target: "median below the peer's",
};

/// Pods of each side.
const PODS: u8 = 60;
/// Not counted: the first ones find cold caches and claim a block.
const WARM_UP: u8 = 5;
/// Veth pairs made and deleted by bare requests.
const BARE: usize = 20;
const PEER: &str = "/usr/lib/cni";

pub(super) async fn run(arguments: &BenchArgs, progress: &Progress) -> Result<(), LabError> {
    if !Path::new(PEER).join("ptp").exists() {
        return Err(LabError::new(format!("{PEER}/ptp is not there (Debian: containernetworking-plugins)")));
    }
    let state = StateDir::new(&arguments.state, &arguments.name)?;
    let plan = Plan { name: arguments.name.clone(), hosts: 1, pods: 2 * PODS, datastore: DatastoreKind::Sqlite };
    let mut lab = Lab::claim(state, plan, progress)?;
    let measured = interruptible(measure(&mut lab, progress)).await;
    tear_down_after(lab, measured, progress, |samples| samples.finding()?.print(arguments.json, progress))
}

#[derive(Default)]
struct Samples {
    add: Vec<f64>,
    del: Vec<f64>,
    peer_add: Vec<f64>,
    peer_del: Vec<f64>,
    bare_add: Vec<f64>,
    bare_del: Vec<f64>,
}

async fn measure(lab: &mut Lab, progress: &Progress) -> Result<Samples, LabError> {
    lab.build_hosts(Source::Shipped, progress).await?;
    let (state, plan) = (lab.state.clone(), lab.record.plan.clone());
    let (state, plan, directory) = (&state, &plan, state.path());
    let mut samples = Samples::default();
    let pod = |number| PodId { host: HostId(1), number };
    // In turn, so that whatever else the machine does meets both.
    for number in 1..=PODS {
        progress.step(format!("P12: pod {number} of {PODS}"));
        let (ours, theirs) = (pod(number), pod(PODS + number));
        for one in [ours, theirs] {
            lab.build_pod(one)?;
        }
        let (_, add) = cni::calico(state, plan, ours).execute(plan, ours, "ADD").await?;
        let (_, peer_add) = peer(directory).execute(plan, theirs, "ADD").await?;
        if number > WARM_UP {
            samples.add.push(add);
            samples.peer_add.push(peer_add);
        }
    }
    for number in 1..=PODS {
        let (ours, theirs) = (pod(number), pod(PODS + number));
        samples.del.push(cni::calico(state, plan, ours).execute(plan, ours, "DEL").await?.1);
        samples.peer_del.push(peer(directory).execute(plan, theirs, "DEL").await?.1);
    }
    bare(&mut samples)?;
    Ok(samples)
}

/// What the kernel takes for a veth pair alone.
fn bare(samples: &mut Samples) -> Result<(), LabError> {
    let failed = || "cannot measure bare veths".to_owned();
    let netns = Netns::anonymous().context(failed)?;
    let mut routes = RouteSocket::open_in(&netns).context(failed)?;
    let name = |text: &str| text.parse().context(failed);
    let end = |name| VethEnd { name, netns: None, mac: None };
    for _ in 0..BARE {
        let begun = Instant::now();
        routes.carry_out(&[Request::veth(end(name("near")?), end(name("far")?), 0)]).context(failed)?;
        samples.bare_add.push(begun.elapsed().as_secs_f64() * 1000.0);
        let link = routes.link(name("near")?).context(failed)?.ok_or("no link").context(failed)?;
        let begun = Instant::now();
        routes.carry_out(&[Request::delete_link(link.index)]).context(failed)?;
        samples.bare_del.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(())
}

fn peer(directory: &Path) -> Plugin {
    Plugin {
        program: Path::new(PEER).join("ptp"),
        path: PathBuf::from(PEER),
        environment: vec![("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".into())],
        configuration: json!({
            "cniVersion": "1.0.0",
            "name": "peer",
            "type": "ptp",
            "ipam": {"type": "host-local", "subnet": "10.113.0.0/16", "dataDir": directory.join("host-local")},
        }),
    }
}

impl Samples {
    fn finding(self) -> Result<Finding, LabError> {
        let none = || LabError::new("nothing was measured");
        let spread = |samples: &Vec<f64>| Spread::of(samples.clone()).ok_or_else(none);
        let (ours, peer) = (spread(&self.add)?, spread(&self.peer_add)?);
        let late = |samples: &[f64]| Spread::of(vec![percentile(samples, 99)]).ok_or_else(none);
        let further = |what, ours, peer, target| Further { what, unit: "ms", ours, peer, target };
        Ok(Finding {
            id: P12.id,
            what: "CNI ADD".into(),
            unit: "ms",
            ours,
            peer: Some(peer),
            peer_name: "containernetworking-plugins: ptp + host-local".into(),
            peer_source: "measured",
            ratio: Some(peer.median / ours.median),
            target: P12.target,
            met: Some(ours.median < peer.median),
            limit: "1.5 ms, of which 0.9 ms start a process; a durable commit of a 10 MB process 2.6 to 2.8 ms",
            limit_measured: None,
            of_limit: None,
            machine: Machine::look(),
            further: vec![
                further("CNI ADD, 99th percentile", late(&self.add)?, Some(late(&self.peer_add)?), "8 ms"),
                further("CNI DEL", spread(&self.del)?, Some(spread(&self.peer_del)?), "5 ms"),
                further("bare netlink: making a veth pair", spread(&self.bare_add)?, None, "-"),
                further("bare netlink: deleting it", spread(&self.bare_del)?, None, "-"),
            ],
        })
    }
}

fn percentile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&samples, 99), 100.0);
        assert_eq!(percentile(&samples, 50), 51.0);
        assert_eq!(percentile(&[], 99), 0.0);
    }
}
