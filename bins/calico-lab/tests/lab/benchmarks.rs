//! Benchmarks of the datastore, at sizes that say nothing about speed: each runs, finds all that it stored, and cleans up.

use std::process::Command;

use serde_json::Value;

use crate::fixture::text;

fn bench(id: &str, size: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_calico-lab"));
    let output = command.args(["bench", id, "--size", size, "--json"]).output().unwrap();
    assert!(output.status.success(), "{id}: {}", text(&output.stderr));
    let finding: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(finding["id"], id);
    for median in [&finding["ours"]["median"], &finding["peer"]["median"]] {
        assert!(median.as_f64().unwrap() > 0.0, "{id}: {finding}");
    }
    finding
}

#[test]
fn endpoints_are_decoded_out_of_etcd() {
    // More than two pages of etcd's.
    let finding = bench("D1", "1100");
    assert_eq!(finding["ours"]["samples"], 5);
    assert!(finding["further"][0]["ours"]["median"].as_f64().unwrap() > 0.0, "{finding}");
}

#[test]
fn all_updates_reach_all_watchers() {
    // Two processes beside the watchers.
    assert_eq!(bench("D2", "60")["met"], true);
}

#[test]
fn calicoctl_is_timed() {
    bench("D3", "3");
}
