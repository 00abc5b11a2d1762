//! Benchmarks at sizes that say nothing about speed: each runs, and those of the datastore find all that they stored and clean up.

use std::process::Command;

use serde_json::Value;

use crate::fixture::text;

fn bench(id: &str, size: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_calico-lab"));
    let output = command.args(["bench", id, "--size", size, "--json"]).output().unwrap();
    assert!(output.status.success(), "{id}: {}", text(&output.stderr));
    let finding: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(finding["id"], id);
    assert!(finding["ours"]["median"].as_f64().unwrap() > 0.0, "{id}: {finding}");
    finding
}

fn bench_beside_peer(id: &str, size: &str) -> Value {
    let finding = bench(id, size);
    assert!(finding["peer"]["median"].as_f64().unwrap() > 0.0, "{id}: {finding}");
    finding
}

#[test]
fn endpoints_are_decoded_out_of_etcd() {
    // More than two pages of etcd's.
    let finding = bench_beside_peer("D1", "1100");
    assert_eq!(finding["ours"]["samples"], 5);
    assert!(finding["further"][0]["ours"]["median"].as_f64().unwrap() > 0.0, "{finding}");
}

#[test]
fn all_updates_reach_all_watchers() {
    // Two processes beside the watchers.
    assert_eq!(bench_beside_peer("D2", "60")["met"], true);
}

#[test]
fn calicoctl_is_timed() {
    bench_beside_peer("D3", "3");
}

#[test]
fn the_graph_is_timed_and_its_peer_quoted() {
    for (id, further) in [("P1", 4), ("P2", 3), ("P3", 3)] {
        let finding = bench(id, "500");
        assert_eq!((&finding["peer_source"], &finding["ratio"]), (&"published".into(), &Value::Null), "{finding}");
        assert_eq!(finding["further"].as_array().unwrap().len(), further, "{finding}");
    }
}
