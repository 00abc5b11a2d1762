//! The program's command line and exit codes, up to where it would start.

use std::process::Command;

/// Exit code and standard error of `calico-node`.
#[expect(clippy::unwrap_used, reason = "a test whose program cannot run fails")]
fn run(args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_calico-node"));
    let output = program.env_clear().envs(environment.iter().copied()).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_wrong_setting_is_wrong_usage_wherever_it_comes_from() {
    for (variable, value) in [
        ("IP", "10.0.0.300"),
        ("IP", "fd00::1"),
        ("IP_AUTODETECTION_METHOD", "can-reach=8.8.8.8"),
        ("AS", "many"),
        ("CALICO_IPV4POOL_BLOCK_SIZE", "33"),
        ("FELIX_LOGSEVERITYSCREEN", "loud"),
        ("DATASTORE_TYPE", "paper"),
    ] {
        let (code, message) = run(&["run"], &[(variable, value)]);
        assert_eq!(code, Some(2), "{variable}: {message}");
        assert!(message.contains(value), "{variable}: {message}");
    }
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let empty = ["IP", "IP_AUTODETECTION_METHOD", "AS", "CALICO_NETWORKING_BACKEND", "NODENAME", "FELIX_HEALTHPORT"];
    let mut environment = empty.map(|name| (name, "")).to_vec();
    // What is looked at after the command line, so that the agent does not start.
    environment.push(("DATASTORE_TYPE", "paper"));
    let (code, message) = run(&["run"], &environment);
    assert_eq!(code, Some(2));
    assert!(message.starts_with("Error: datastore type \"paper\" is not known"), "{message}");
}

#[test]
fn nobody_to_ask_is_a_failure_that_names_the_socket() {
    let (code, message) = run(&["status", "--control-socket", "/nonexistent/s"], &[]);
    assert_eq!(code, Some(1));
    assert!(message.starts_with("Error: cannot reach calico-node at /nonexistent/s"), "{message}");
}
