//! P12: CNI ADD as a runtime sees it, from executing the plugin to its exit: address management, interface, endpoint written, and
//! the policy of a real agent in the kernel on return. Direct mode: the plugin speaks to the datastore and the kernel itself.
//!
//! Peer: Debian's `ptp` with `host-local` (containernetworking-plugins), which polices nothing, in the same host. Limit: one process
//! start and one durable commit. Target: the median below the peer's.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::stats::{Machine, Spread};
use super::{Benchmark, Finding, Further};
use crate::cli::DatastoreKind;
use crate::cni::{self, Plugin};
use crate::error::{Context, LabError};
use crate::interruptible;
use crate::lab::{Lab, tear_down_after};
use crate::plan::{HostId, Plan, PodId};
use crate::programs::Source;
use crate::progress::Progress;
use crate::state::StateDir;
use crate::topology;

pub(super) const P12: Benchmark = Benchmark {
    id: "P12",
    what: "CNI ADD with address, endpoint and policy, direct mode",
    peer: "ptp + host-local (Debian)",
    target: "median below the peer's",
};

/// Pods of each side.
const PODS: u8 = 60;
/// Not counted: the first ones find cold caches and claim a block.
const WARM_UP: u8 = 5;
const PEER: &str = "/usr/lib/cni";

pub(super) async fn run(progress: &Progress) -> Result<Finding, LabError> {
    if !Path::new(PEER).join("ptp").exists() {
        return Err(LabError::new(format!("{PEER}/ptp is not there (Debian: containernetworking-plugins)")));
    }
    let directory = tempfile::Builder::new().prefix("bench").tempdir().context(|| "cannot make a directory".into())?;
    let plan = Plan { name: "bench-p12".into(), hosts: 1, pods: 2 * PODS, datastore: DatastoreKind::Sqlite };
    let mut lab = Lab::claim(StateDir::new(directory.path(), &plan.name)?, plan, progress)?;
    let measured = interruptible(measure(&mut lab, directory.path(), progress)).await;
    tear_down_after(lab, measured, progress)?.finding()
}

#[derive(Default)]
struct Samples {
    add: Vec<f64>,
    del: Vec<f64>,
    peer_add: Vec<f64>,
    peer_del: Vec<f64>,
}

async fn measure(lab: &mut Lab, directory: &Path, progress: &Progress) -> Result<Samples, LabError> {
    lab.build_hosts(Source::Shipped, progress).await?;
    let (state, plan) = (&lab.state, &lab.record.plan);
    let mut samples = Samples::default();
    let pod = |number| PodId { host: HostId(1), number };
    // In turn, so that whatever else the machine does meets both.
    for number in 1..=PODS {
        progress.step(format!("P12: pod {number} of {PODS}"));
        let (ours, theirs) = (pod(number), pod(PODS + number));
        for one in [ours, theirs] {
            topology::build_pod(plan, one)?;
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
    Ok(samples)
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
        let further = |what, ours, peer, target| Further { what, unit: "ms", ours, peer: Some(peer), target };
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
            machine: Machine::look(),
            further: vec![
                further("CNI ADD, 99th percentile", late(&self.add)?, late(&self.peer_add)?, "-"),
                further("CNI DEL", spread(&self.del)?, spread(&self.peer_del)?, "5 ms"),
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
