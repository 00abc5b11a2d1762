//! Benchmarks that compare with a peer, measured in the same run on the same generated input.
//!
//! Each benchmark is one file, whose opening names its peer, its limit and its target. Everything happens in private namespaces.
//! Times are medians with their spread over repetitions; nothing here asserts one.

mod attach;
mod bare;
mod finding;
mod graph;
mod memory;
mod policy;
mod routes;
mod stats;
mod store;
mod verdict;

use std::process::ExitCode;

use crate::args::BenchArgs;
use crate::error::LabError;
use crate::interrupt::interruptible;
use crate::progress::Progress;
use crate::report;
use finding::Benchmark;
pub(crate) use store::work::{WorkerArgs, run as work};

const ALL: [Benchmark; 16] = [
    graph::P1,
    graph::P2,
    graph::P3,
    policy::P4,
    policy::P5,
    policy::start::P6,
    policy::packets::P7,
    routes::P8,
    attach::P12,
    memory::P13,
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
        "P13" => memory::run(arguments, &progress).await?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct() {
        let mut ids: Vec<&str> = ALL.iter().map(|benchmark| benchmark.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), ALL.len());
    }
}
