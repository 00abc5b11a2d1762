//! V1 and V2: the compiled evaluator. No kernel and no datastore: objects go through the graph, flows in, verdicts out, on one thread.
//!
//! | Id | Work | Peer (measured) | Limit | Target |
//! |---|---|---|---|---|
//! | V1 | one verdict with its steps: 294 policies with 68 rules each that all apply, 256 000 members of sets; only the last rule matches | each rule looked at in turn | three words of memory for 64 rules | 4 µs |
//! | V2 | who of 2 000 endpoints may reach whom on three ports, 500 such policies | the same without merging | – | 2 s, without merging 20 s |
//!
//! Rules that do not match fail by a near miss: by the port, by the set, by the protocol, or by a prefix. Sources are all clients in turn, so that no two flows in
//! a row are alike.

mod scene;

use std::time::Instant;

use calico_core::flow::Decision;
use calico_core::resource::PolicyType;
use calico_core::verdict::{Matrix, Settings};

use self::scene::{Many, Single};
use super::finding::{Benchmark, Finding, Further};
use super::stats::Spread;
use super::store::usage;
use crate::args::BenchArgs;
use crate::error::LabError;
use crate::progress::Progress;

pub(super) const V1: Benchmark = Benchmark {
    id: "V1",
    what: "verdict: one flow through 294 policies of 68 rules, only the last rule matching",
    peer: "each rule in turn",
    target: "4 µs",
};

pub(super) const V2: Benchmark = Benchmark {
    id: "V2",
    what: "verdict: who of 2 000 endpoints may reach whom, three ports, 500 policies",
    peer: "without merging",
    target: "2 s, without merging 20 s",
};

const REPETITIONS: usize = 5;
/// Flows of a repetition.
const FLOWS: u32 = 50_000;
/// As many as take about as long where each rule is looked at.
const PEER_FLOWS: u32 = 100;

/// V1.
pub(super) fn single(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let policies = arguments.size.unwrap_or(294);
    progress.step("V1: loading");
    let scene = Single::new(policies);
    let (mut ours, mut processor, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 1..=REPETITIONS {
        progress.step(format!("V1: repetition {repetition} of {REPETITIONS}"));
        let mut asker = scene.compiled.asker();
        let judge = |flow| asker.judge(&scene.endpoint, PolicyType::Ingress, &flow).decision;
        let (seconds, used) = measure(FLOWS, judge)?;
        ours.push(seconds * 1e6);
        processor.push(used * 1e6);
        let plain = |flow| scene.compiled.state().judge(&scene.endpoint, PolicyType::Ingress, &flow).decision;
        peer.push(measure(PEER_FLOWS, plain)?.0 * 1e6);
    }
    let (ours, peer) = (spread(ours)?, spread(peer)?);
    let further = Further { what: "processor time", unit: "µs", ours: spread(processor)?, peer: None, target: "-" };
    let finding = V1.finding(format!("{policies} policies, {FLOWS} flows"), "µs", ours);
    Ok(Finding {
        met: Some(ours.median <= 4.0),
        limit: "three words of memory for 64 rules",
        further: vec![further],
        ..finding.beside(peer, "the plain evaluator, which looks at each rule".into())
    })
}

/// Seconds, and seconds of processor, that a flow takes. All are allowed, or something else was measured.
fn measure(flows: u32, mut judge: impl FnMut(calico_core::flow::Flow) -> Decision) -> Result<(f64, f64), LabError> {
    let (begun, used) = (Instant::now(), usage::processor_seconds());
    for number in 0..flows {
        if judge(Single::flow(number)) != Decision::Allow {
            return Err(LabError::new(format!("flow {number} is denied")));
        }
    }
    let each = |seconds: f64| seconds / f64::from(flows);
    Ok((each(begun.elapsed().as_secs_f64()), each(usage::processor_seconds() - used)))
}

/// V2.
pub(super) fn matrix(arguments: &BenchArgs, progress: &Progress) -> Result<Finding, LabError> {
    let endpoints = arguments.size.unwrap_or(2000);
    progress.step("V2: loading");
    let scene = Many::new(endpoints, 500);
    let settings = Settings::default();
    let Many { compiled, nodes, services } = &scene;
    let (mut ours, mut peer, mut processor) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 1..=REPETITIONS {
        progress.step(format!("V2: repetition {repetition} of {REPETITIONS}"));
        let begun = Instant::now();
        let merged = count(&Matrix::new(compiled, &settings, nodes, nodes, services));
        ours.push(begun.elapsed().as_secs_f64());
        let (begun, used) = (Instant::now(), usage::processor_seconds());
        let alone = count(&Matrix::without_merging(compiled, &settings, nodes, nodes, services));
        peer.push(begun.elapsed().as_secs_f64());
        processor.push(usage::processor_seconds() - used);
        if merged != alone {
            return Err(LabError::new(format!("merged {merged:?}, not merged {alone:?}")));
        }
    }
    let (ours, peer) = (spread(ours)?, spread(peer)?);
    let further = Further {
        what: "processor time without merging",
        unit: "s",
        ours: spread(processor)?,
        peer: None,
        target: "-",
    };
    let finding = V2.finding(format!("{endpoints} endpoints, three ports, 500 policies"), "s", ours);
    Ok(Finding {
        met: Some(ours.median <= 2.0 && peer.median <= 20.0),
        limit: "telling each cell",
        further: vec![further],
        ..finding.beside(peer, "ourselves, each pair decided for itself".into())
    })
}

/// Cells, and those that are allowed.
fn count(matrix: &Matrix<'_>) -> (u64, u64) {
    let (mut cells, mut allowed) = (0, 0);
    matrix.visit(|cell| {
        cells += 1;
        allowed += u64::from(cell.decision == Decision::Allow);
    });
    (cells, allowed)
}

fn spread(samples: Vec<f64>) -> Result<Spread, LabError> {
    Spread::of(samples).ok_or_else(|| LabError::new("nothing was measured"))
}
