//! Standard streams that nobody reads, or that go to a full disk.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::fixture::{Lab, text};

/// A pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn a_demo_whose_progress_cannot_be_written_does_its_work_and_cleans_up() {
    for progress in [unread, full] {
        let lab = Lab::new();
        let output = lab.command("demo --hosts 1 --pods 2").stderr(progress()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert!(text(&output.stdout).contains("ok: every verdict"), "{}", text(&output.stdout));
        lab.assert_gone();
    }
}

#[test]
fn progress_that_ends_to_be_read_midway_is_no_reason_to_stop() {
    let lab = Lab::new();
    let mut child =
        lab.command("demo --hosts 1 --pods 2 --json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("building"), "{line}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("\"ok\": true"), "{}", text(&output.stdout));
    lab.assert_gone();
}

#[test]
fn an_interrupted_demo_cleans_up_although_nobody_listens() {
    let lab = Lab::new();
    let mut demo = lab.start("demo");
    demo.wait_for("starting calico-node");
    demo.stop_listening();
    demo.signal(Signal::SIGINT);
    assert_eq!(demo.code(), Some(130));
    lab.assert_gone();
}

#[test]
fn results_that_nobody_reads_end_quietly_and_a_full_disk_is_told() {
    let lab = Lab::new();
    lab.succeed("up --hosts 1 --pods 2");
    let words =
        ["status", "status --json", "check", "exec h1 -- calico-node status", "exec h1 -- calico-node status -o json"];
    for words in words {
        let gone = lab.command(words).stdout(unread()).output().unwrap();
        assert_eq!(gone.status.code(), Some(1), "{words}: {}", text(&gone.stderr));
        assert!(!text(&gone.stderr).contains("output"), "{words}: {}", text(&gone.stderr));
        let full = lab.command(words).stdout(full()).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{words}: {}", text(&full.stderr));
        let said = text(&full.stderr);
        assert!(said.contains("cannot write to standard output: No space left"), "{words}: {said}");
        assert!(!said.contains("panicked"), "{words}: {said}");
    }
    lab.succeed("down");
    let demo = lab.command("demo --hosts 1 --pods 2").stdout(unread()).output().unwrap();
    assert_eq!(demo.status.code(), Some(1), "{}", text(&demo.stderr));
    assert!(!text(&demo.stderr).contains("panicked"), "{}", text(&demo.stderr));
    lab.assert_gone();
}

#[test]
fn errors_that_cannot_be_written_leave_the_exit_code_as_it_is() {
    for (words, code) in [("bench P99", 2), ("dance", 2), ("status --name nosuch --state /tmp/nosuch", 1)] {
        for errors in [unread, full] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_calico-lab"));
            let output = command.args(words.split_whitespace()).stderr(errors()).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{words}");
        }
    }
}
