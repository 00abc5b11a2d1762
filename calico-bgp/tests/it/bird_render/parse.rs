//! BIRD's own parsers: that of the Debian package bird2, and that of the package bird (1.6.8), which is unpacked beside it (the two cannot be
//! installed together).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use calico_core::net::Family;

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Two,
    OneSix(Family),
}

/// Attributes that only upstream's fork of 1.6 has. Debian's reads another assignment in their place.
const FORK: [&str; 1] = ["krt_tunnel"];

/// Panics with BIRD's words if it refuses a configuration.
pub(super) fn assert_reads(reader: Reader, text: &str) {
    let (program, text) = match reader {
        Reader::Two => (PathBuf::from("bird"), text.to_owned()),
        Reader::OneSix(Family::V4) => (one_six().join("usr/sbin/bird"), without_fork(text)),
        Reader::OneSix(Family::V6) => (one_six().join("usr/sbin/bird6"), without_fork(text)),
    };
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("bird.conf");
    std::fs::write(&path, &text).unwrap();
    let outcome = crate::support::output(
        Command::new(&program).arg("-p").arg("-c").arg(&path).current_dir(directory.path()),
        "bird2",
    );
    let said = String::from_utf8_lossy(&outcome.stderr);
    let numbered: String = text.lines().enumerate().map(|(n, line)| format!("{:4} {line}\n", n + 1)).collect();
    assert!(outcome.status.success(), "{reader:?} refuses: {said}\n{numbered}");
}

fn without_fork(text: &str) -> String {
    let line = |line: &str| match FORK.iter().any(|word| line.trim_start().starts_with(word)) {
        true => "krt_metric = krt_metric;\n".to_owned(),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Where Debian's bird 1.6.8 is unpacked. To be called first outside of a namespace, in which nothing can be fetched.
pub(crate) fn one_six() -> &'static Path {
    static UNPACKED: OnceLock<PathBuf> = OnceLock::new();
    UNPACKED.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bird-1.6");
        if target.join("usr/sbin/bird6").exists() {
            return target;
        }
        let scratch = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let apt = |arguments: &[&str]| {
            crate::support::output(Command::new("apt-get").args(arguments).current_dir(scratch.path()), "apt")
        };
        let download = || apt(&["download", "-q", "bird"]);
        let mut outcome = download();
        if !outcome.status.success() {
            // A machine may know of no packages yet, or of those of long ago.
            apt(&["update", "-q"]);
            outcome = download();
        }
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "this test needs the Debian package bird (1.6.8), unpacked: {said}");
        let package = std::fs::read_dir(scratch.path()).unwrap().next().unwrap().unwrap().path();
        let tree = scratch.path().join("tree");
        let outcome = crate::support::output(Command::new("dpkg").arg("-x").arg(&package).arg(&tree), "dpkg");
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
        // Whoever was faster has made the same.
        let _ = std::fs::rename(&tree, &target);
        target
    })
}
