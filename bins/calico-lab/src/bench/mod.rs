//! Benchmarks that compare with a peer, measured in the same run on the same generated input.
//!
//! Each benchmark is one file, whose opening names its peer, its limit and its target. Everything happens in private namespaces.
//! Times are medians with their spread over repetitions; nothing here asserts one.

mod attach;
mod bare;
mod graph;
mod policy;
mod routes;
mod stats;
mod store;
mod verdict;

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::BenchArgs;
use crate::error::LabError;
use crate::interruptible;
use crate::progress::Progress;
use crate::report;
use stats::{Machine, Spread};
pub(crate) use store::worker::{WorkerArgs, run as work};

/// What a benchmark found, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    /// Benchmark.
    id: &'static str,
    /// What was measured.
    what: String,
    /// Unit of both measurements.
    unit: &'static str,
    /// Our measurement.
    ours: Spread,
    /// The peer's, of the same run.
    peer: Option<Spread>,
    /// The peer, with its version.
    peer_name: String,
    /// `measured` in this run, or `published` by somebody.
    peer_source: &'static str,
    /// How many times better than the peer; above 1 is better, whatever the unit.
    ratio: Option<f64>,
    /// What we want.
    target: &'static str,
    /// Whether this run has it; none where the target cannot be told from this run alone.
    met: Option<bool>,
    /// What the kernel can do at best.
    limit: &'static str,
    /// That, where it was measured in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_measured: Option<Spread>,
    /// Our share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_limit: Option<f64>,
    /// Where it was measured.
    machine: Machine,
    /// Measured beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further: Vec<Further>,
}

/// Something measured beside the main thing.
#[derive(Debug, Serialize)]
struct Further {
    what: &'static str,
    unit: &'static str,
    ours: Spread,
    peer: Option<Spread>,
    target: &'static str,
}

/// A benchmark.
struct Benchmark {
    id: &'static str,
    what: &'static str,
    peer: &'static str,
    target: &'static str,
}

impl Benchmark {
    /// What it found, with nothing beside it yet.
    fn finding(&self, what: String, unit: &'static str, ours: Spread) -> Finding {
        Finding {
            id: self.id,
            what,
            unit,
            ours,
            peer: None,
            peer_name: self.peer.into(),
            peer_source: "measured",
            ratio: None,
            target: self.target,
            met: None,
            limit: "",
            limit_measured: None,
            of_limit: None,
            machine: Machine::look(),
            further: Vec::new(),
        }
    }
}

const ALL: [Benchmark; 15] = [
    graph::P1,
    graph::P2,
    graph::P3,
    policy::P4,
    policy::P5,
    policy::start::P6,
    policy::packets::P7,
    routes::P8,
    attach::P12,
    policy::drift::P14,
    store::D1,
    store::D2,
    store::D3,
    verdict::V1,
    verdict::V2,
];

/// `bench`.
pub(crate) async fn run(arguments: &BenchArgs) -> Result<ExitCode, LabError> {
    let Some(id) = &arguments.id else {
        return list(arguments.json).map(|()| ExitCode::SUCCESS);
    };
    crate::require_root()?;
    let progress = Progress::start();
    if cfg!(debug_assertions) {
        progress.done("this is a debug build: its figures mean nothing; build with --release");
    }
    let finding = match id.to_ascii_uppercase().as_str() {
        "P1" => graph::tag_policies(arguments, &progress).await?,
        "P2" => graph::isolated_customers(arguments, &progress).await?,
        "P3" => graph::changes(arguments, &progress).await?,
        // Their namespaces have no name and vanish with the process, those of P6, P7 and P14 too: Ctrl-C may just end it.
        "P4" => policy::member(&progress).await?,
        "P5" => policy::endpoint(&progress).await?,
        "P6" => policy::start::run(&progress).await?,
        "P7" => policy::packets::run(&progress).await?,
        "P14" => policy::drift::run(&progress).await?,
        "P8" => interruptible(routes::run(&progress)).await?,
        "D1" => store::decode::run(arguments, &progress).await?,
        "D2" => store::watch::run(arguments, &progress).await?,
        "D3" => store::ctl::run(arguments, &progress).await?,
        "V1" => verdict::single(arguments, &progress)?,
        "V2" => verdict::matrix(arguments, &progress)?,
        "P12" => return attach::run(arguments, &progress).await.map(|()| ExitCode::SUCCESS),
        _ => return Err(LabError::Usage(format!("no benchmark {id:?}: `calico-lab bench --list` shows them"))),
    };
    finding.print(arguments.json, &progress)?;
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<(), LabError> {
    if json {
        let one = |benchmark: &Benchmark| {
            let Benchmark { id, what, peer, target } = benchmark;
            serde_json::json!({"id": id, "what": what, "peer": peer, "target": target})
        };
        return report::print_json(&ALL.iter().map(one).collect::<Vec<_>>());
    }
    let mut table = report::table(["ID", "MEASURES", "PEER", "TARGET"]);
    for benchmark in &ALL {
        table.add_row([benchmark.id, benchmark.what, benchmark.peer, benchmark.target]);
    }
    report::print(&format!("{table}\n"))
}

impl Finding {
    /// Beside a peer that was measured in the same run.
    fn beside(self, peer: Spread, peer_name: String) -> Self {
        Self { ratio: Some(peer.median / self.ours.median), peer: Some(peer), peer_name, ..self }
    }

    fn print(&self, json: bool, progress: &Progress) -> Result<(), LabError> {
        progress.end();
        if json { report::print_json(self) } else { report::print(&self.render()) }
    }

    fn render(&self) -> String {
        let mut table = report::table(["", "OURS", "PEER", "UNIT", "TARGET"]);
        let show = |spread: &Option<Spread>| spread.as_ref().map_or_else(|| "-".into(), ToString::to_string);
        let ours = self.ours.to_string();
        table.add_row([self.what.clone(), ours, show(&self.peer), self.unit.into(), self.target.into()]);
        for further in &self.further {
            let (ours, peer) = (further.ours.to_string(), show(&further.peer));
            table.add_row([further.what.into(), ours, peer, further.unit.into(), further.target.into()]);
        }
        let mut text = format!("{}: beside {} ({})\n{table}\n", self.id, self.peer_name, self.peer_source);
        if let Some(ratio) = self.ratio {
            text.push_str(&format!("{ratio:.1} times as good as the peer\n"));
        }
        let met = match self.met {
            Some(true) => "target met",
            Some(false) => "target NOT met",
            None => "whether the target is met cannot be told from this run alone",
        };
        text.push_str(&format!("{met}\nlimit: {}", self.limit));
        if let (Some(limit), Some(share)) = (&self.limit_measured, self.of_limit) {
            text.push_str(&format!(": {limit} {}, of which ours is {:.0} %", self.unit, share * 100.0));
        }
        text.push_str(&format!("\n{}\n", self.machine));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_have_the_agreed_shape() {
        let finding = Finding {
            id: "P0",
            what: "nothing".into(),
            unit: "ms",
            ours: Spread::of(vec![1.0, 3.0, 2.0]).unwrap(),
            peer: None,
            peer_name: "nobody".into(),
            peer_source: "measured",
            ratio: None,
            target: "none",
            met: Some(true),
            limit: "none",
            limit_measured: Spread::of(vec![4.0]),
            of_limit: Some(0.5),
            machine: Machine::look(),
            further: Vec::new(),
        };
        let json = serde_json::to_value(&finding).unwrap();
        let keys = ["id", "unit", "ours", "peer", "peer_name", "ratio", "target", "met", "limit", "machine"];
        for key in keys {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!((&json["of_limit"], &json["limit_measured"]["median"]), (&0.5.into(), &4.0.into()));
        let text = finding.render();
        assert!(text.contains("limit: none: 4.00 (4.00 to 4.00, n=1) ms, of which ours is 50 %\n"), "{text}");
        assert_eq!(json["ours"], serde_json::json!({"median": 2.0, "least": 1.0, "most": 3.0, "samples": 3}));
    }

    #[test]
    fn ids_are_distinct() {
        let mut ids: Vec<&str> = ALL.iter().map(|benchmark| benchmark.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), ALL.len());
    }
}
