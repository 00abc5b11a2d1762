//! What the lab says when it cannot do what it is asked for.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::fixture::{Lab, copy_to, text};

#[test]
fn without_root_it_says_so_and_stops_with_2() {
    // A copy that everybody may execute: the build directory may be closed to others.
    let directory = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let output =
        Command::new(copy_to(directory.path())).arg("demo").uid(65534).gid(65534).current_dir("/").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("must be root"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_words_are_usage_errors() {
    for words in ["dance", "demo --hosts 0", "demo --datastore x", "demo --hosts 1 --pods 1", "up --name ../x", "exec"]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_calico-lab")).args(words.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {}", text(&output.stderr));
    }
    let help = Command::new(env!("CARGO_BIN_EXE_calico-lab")).arg("--help").output().unwrap();
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("Exit codes"));
}

#[cfg(not(feature = "etcd"))]
#[test]
fn etcd_without_the_feature_says_what_to_type() {
    let output = Lab::new().run("up --datastore etcd");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--features calico-lab/etcd"), "{}", text(&output.stderr));
}

#[test]
fn verbs_that_need_a_network_say_how_to_make_one() {
    let lab = Lab::new();
    for words in ["status", "check", "restart h1", "exec h1 -- true"] {
        let output = lab.run(words);
        assert_eq!(output.status.code(), Some(1), "{words}");
        let hint = format!("`calico-lab up --name {} --state ", lab.name);
        assert!(text(&output.stderr).contains(&hint), "{words}: {}", text(&output.stderr));
        lab.assert_gone();
    }
    assert_eq!(lab.run("down").status.code(), Some(0));
    lab.assert_gone();
}

#[test]
fn benchmarks_are_listed_and_unknown_ones_refused() {
    let bench =
        |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_calico-lab")).arg("bench").args(words).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&bench(&["--list", "--json"]).stdout).unwrap();
    let ids: Vec<&str> = list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P12", "P13", "P14", "D1", "D2", "D3", "V1", "V2"]
    );
    assert!(text(&bench(&["--list"]).stdout).contains("ip -batch"));
    let unknown = bench(&["P99"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("--list"), "{}", text(&unknown.stderr));
}
