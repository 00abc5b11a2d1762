//! The main job: three scenes on a fresh network, each with real packets beside the specification's verdicts.
//!
//! There is no switch that makes the demo fail: whoever wants to see that it is not fooled plants a rule in a host's namespace with
//! `nft` while it runs, or before a `check`, as the tests do.

mod findings;
mod print;
mod scene;

use std::fs;
use std::process::ExitCode;

use tokio::time::Instant;

use crate::args::{DemoArgs, StatusArgs};
use crate::ctl;
use crate::descriptors;
use crate::error::{Context, LabError};
use crate::interrupt::interruptible;
use crate::lab::{Lab, tear_down_after};
use crate::oracle::{self, Oracle};
use crate::plan::Plan;
use crate::probe::{Prober, Question};
use crate::progress::Progress;
use crate::record::Record;
use crate::server;
use crate::state::StateDir;
use findings::Findings;
use scene::Scene;

/// `demo`.
pub(crate) async fn run(arguments: &DemoArgs) -> Result<ExitCode, LabError> {
    server::require(arguments.size.datastore)?;
    if arguments.size.hosts == 1 && arguments.size.pods == 1 {
        return Err(LabError::Usage("a lone pod has nobody to talk to: give at least two hosts or two pods".into()));
    }
    let plan = Plan::new(&arguments.name, arguments.size);
    descriptors::reserve(&plan)?;
    let progress = Progress::start();
    let state = StateDir::new(&arguments.state, &arguments.name)?;
    let mut lab = Lab::claim(state, plan, &progress)?;
    let outcome = interruptible(play(&mut lab, &progress)).await;
    tear_down_after(lab, outcome, &progress, |findings| {
        progress.end();
        print::show(&findings, arguments.json)?;
        Ok(findings.exit_code())
    })
}

/// `check`: one scene on a network that is up, with whatever its datastore says now.
pub(crate) async fn check(arguments: &StatusArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let lab = Lab::find(StateDir::new(&arguments.which.state, &arguments.which.name)?)?;
    descriptors::reserve(&lab.record.plan)?;
    let begun = Instant::now();
    let resources = oracle::stored(&lab.state, &lab.record.plan).await?;
    let prober = Prober::start(&lab.record.plan, &lab.record.pods)?;
    let questions = Oracle::new(&resources, &lab.record.pods)?.questions(&prober.all_probes())?;
    progress.step(format!("sending {} probes", questions.len()));
    let scene = scene::play("as stored", &prober, &questions, &questions, begun).await?;
    let findings = Findings::new(vec![scene], &lab.record);
    drop(progress);
    print::show(&findings, arguments.json)?;
    Ok(findings.exit_code())
}

async fn play(lab: &mut Lab, progress: &Progress) -> Result<Findings, LabError> {
    lab.build(progress).await?;
    let since = Instant::now();
    let (state, plan) = (&lab.state, &lab.record.plan);
    let prober = Prober::start(plan, &lab.record.pods)?;
    let probes = prober.all_probes();

    let base = oracle::stored(state, plan).await?;
    let open = Oracle::new(&base, &lab.record.pods)?.questions(&probes)?;
    let stage = Stage { progress, prober: &prober };
    let mut scenes = vec![stage.play("no policy", &open, &open, since).await?];

    let text = policies(&lab.record)?;
    let file = state.path().join("policies.yaml");
    fs::write(&file, &text).context(|| format!("cannot write {}", file.display()))?;
    let mut policed = base;
    policed.extend(oracle::read("the demo's policies", &text)?);
    let closed = Oracle::new(&policed, &lab.record.pods)?.questions(&probes)?;
    let since = Instant::now();
    ctl::run(state, plan, ["apply".as_ref(), "-f".as_ref(), file.as_os_str()]).await?;
    scenes.push(stage.play("policy", &closed, &changed(&open, &closed), since).await?);

    let since = Instant::now();
    ctl::run(state, plan, ["delete".as_ref(), "-f".as_ref(), file.as_os_str()]).await?;
    scenes.push(stage.play("policies removed", &open, &changed(&closed, &open), since).await?);
    Ok(Findings::new(scenes, &lab.record))
}

struct Stage<'a> {
    progress: &'a Progress,
    prober: &'a Prober,
}

impl Stage<'_> {
    async fn play(
        &self,
        name: &str,
        questions: &[Question],
        changed: &[Question],
        since: Instant,
    ) -> Result<Scene, LabError> {
        self.progress.step(format!("scene: {name}: {} probes", questions.len()));
        let scene = scene::play(name, self.prober, questions, changed, since).await?;
        self.progress.done(scene.summary());
        Ok(scene)
    }
}

/// The policy set, with the address of a pod in the place that is left for it.
fn policies(record: &Record) -> Result<String, LabError> {
    let suspect = record.pods.last().ok_or_else(|| LabError::new("no pod is attached"))?;
    Ok(include_str!("policies.yaml").replace("@SUSPECT@", &format!("{}/32", suspect.address)))
}

/// Questions whose answer is another now. When none is, all: then there is nothing to wait for.
fn changed(before: &[Question], after: &[Question]) -> Vec<Question> {
    let differ = before.iter().zip(after).filter(|(before, after)| before.expected != after.expected);
    let changed: Vec<Question> = differ.map(|(_, after)| *after).collect();
    if changed.is_empty() { after.to_vec() } else { changed }
}

#[cfg(test)]
mod tests {
    use calico_core::flow::Decision;
    use calico_core::resource::{Kind, Resource};
    use serde_json::json;

    use super::*;
    use crate::args::DatastoreKind;
    use crate::plan::PodId;
    use crate::probe::{Kind as ProbeKind, Probe};
    use crate::record::AttachedPod;

    fn record() -> Record {
        let plan = Plan { name: "t".into(), hosts: 3, pods: 2, datastore: DatastoreKind::Sqlite };
        let attached = |(pod, last): (PodId, u8)| AttachedPod { pod, address: [10, 112, 0, last].into(), add_ms: 1.0 };
        let pods = plan.pods().zip(1..).map(attached).collect();
        Record { pods, ..Record::new(plan) }
    }

    /// Endpoints and their profile, as the plugin and the labelling make them.
    fn endpoints(record: &Record) -> Vec<Resource> {
        let mut documents: Vec<_> = record.pods.iter().map(|attached| {
            let (pod, role) = (attached.pod, attached.pod.role());
            json!({
                "apiVersion": "projectcalico.org/v3",
                "kind": "WorkloadEndpoint",
                "metadata": {"namespace": role.namespace(), "labels": {"role": role.label(), "host": pod.host.to_string()}},
                "spec": {
                    "orchestrator": "cni", "node": pod.host.to_string(), "containerID": pod.container_id(), "endpoint": "eth0",
                    "interfaceName": format!("cali{}", pod.container_id()), "profiles": ["lab"],
                    "ipNetworks": [format!("{}/32", attached.address)],
                    "ports": [{"name": "web", "protocol": "TCP", "port": 8080}],
                },
            })
        }).collect();
        documents.push(json!({
            "apiVersion": "projectcalico.org/v3",
            "kind": "Profile",
            "metadata": {"name": "lab"},
            "spec": {"egress": [{"action": "Allow"}], "ingress": [{"action": "Allow", "source": {"selector": "has(lab)"}}],
                     "labelsToApply": {"lab": ""}},
        }));
        let mut resources = oracle::read("test", &serde_json::Value::from(documents).to_string()).unwrap();
        resources.extend(Resource::initial_tiers());
        resources
    }

    fn probes(record: &Record) -> Vec<Probe> {
        let pods = || record.pods.iter().map(|attached| attached.pod);
        let pairs = pods().flat_map(|from| pods().filter(move |to| *to != from).map(move |to| (from, to)));
        pairs.flat_map(|(from, to)| ProbeKind::all().map(move |kind| Probe { from, to, kind })).collect()
    }

    #[test]
    fn the_policy_set_is_what_calicoctl_accepts() {
        let text = policies(&record()).unwrap();
        for document in calico_cmd::manifest::read("policies.yaml", &text).unwrap() {
            let kind = document.kind().and_then(Kind::from_name).unwrap();
            let read = Resource::decode_strict(kind, &document.value, None);
            assert!(read.is_ok(), "{kind}: {read:?}");
        }
    }

    /// Every kind of packet is both allowed and denied somewhere, or the demo would prove less than it shows.
    #[test]
    fn the_policy_set_decides_every_kind_both_ways() {
        let record = record();
        let mut resources = endpoints(&record);
        let open = Oracle::new(&resources, &record.pods).unwrap().questions(&probes(&record)).unwrap();
        assert!(open.iter().all(|question| question.expected == Decision::Allow));
        resources.extend(oracle::read("policies", &policies(&record).unwrap()).unwrap());
        let closed = Oracle::new(&resources, &record.pods).unwrap().questions(&probes(&record)).unwrap();
        for kind in ProbeKind::all() {
            for decision in [Decision::Allow, Decision::Deny] {
                let is = |question: &Question| question.probe.kind == kind && question.expected == decision;
                assert!(closed.iter().any(is), "{kind} is never {decision:?}");
            }
        }
        assert_eq!(changed(&open, &open).len(), open.len());
        assert!(changed(&open, &closed).iter().all(|question| question.expected == Decision::Deny));
    }
}
