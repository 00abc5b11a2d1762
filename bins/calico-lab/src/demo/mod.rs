//! The main job: three scenes on a fresh network, each with real packets beside the specification's verdicts.

mod print;
mod scene;

use std::fs;
use std::process::ExitCode;

use serde::Serialize;
use tokio::time::Instant;

use crate::cli::{DemoArgs, StatusArgs};
use crate::ctl;
use crate::error::{Context, LabError};
use crate::interruptible;
use crate::lab::Lab;
use crate::labels;
use crate::oracle::{self, Oracle};
use crate::plan::Plan;
use crate::probe::{Prober, Question};
use crate::progress::Progress;
use crate::report;
use crate::server;
use crate::state::{Record, StateDir};
use scene::Scene;

/// What the demo found, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    ok: bool,
    scenes: Vec<Scene>,
    cni_add_ms: Vec<f64>,
}

/// `demo`.
pub(crate) async fn run(arguments: &DemoArgs) -> Result<ExitCode, LabError> {
    server::require(arguments.size.datastore)?;
    let progress = Progress::start();
    let state = StateDir::new(&arguments.state, &arguments.name)?;
    let mut lab = Lab::claim(state, Plan::new(&arguments.name, arguments.size), &progress)?;
    let outcome = interruptible(play(&mut lab, &progress)).await;
    let removed = lab.tear_down(&progress);
    drop(progress);
    let findings = outcome?;
    findings.print(arguments.json)?;
    removed?;
    Ok(findings.exit_code())
}

/// `check`: one scene on a network that is up, with whatever its datastore says now.
pub(crate) async fn check(arguments: &StatusArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let lab = Lab::find(StateDir::new(&arguments.which.state, &arguments.which.name)?)?;
    let begun = Instant::now();
    let resources = oracle::stored(&lab.state, &lab.record.plan).await?;
    let prober = Prober::start(&lab.record.plan, &lab.record.pods)?;
    let questions = Oracle::new(&resources, &lab.record.pods)?.questions(&prober.all_probes())?;
    progress.step(format!("sending {} probes", questions.len()));
    let scene = scene::play("as stored", &prober, &questions, &questions, begun).await?;
    let findings = Findings::new(vec![scene], &lab.record);
    drop(progress);
    findings.print(arguments.json)?;
    Ok(findings.exit_code())
}

impl Findings {
    fn new(scenes: Vec<Scene>, record: &Record) -> Self {
        let ok = scenes.iter().all(|scene| scene.ok);
        Self { ok, scenes, cni_add_ms: record.pods.iter().map(|attached| attached.add_ms).collect() }
    }

    fn print(&self, json: bool) -> Result<(), LabError> {
        if json {
            return report::print_json(self);
        }
        print::tables(self);
        Ok(())
    }

    const fn exit_code(&self) -> ExitCode {
        if self.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

async fn play(lab: &mut Lab, progress: &Progress) -> Result<Findings, LabError> {
    lab.build(progress).await?;
    progress.step("labelling the pods' endpoints");
    labels::apply(&lab.state, &lab.record).await?;
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
