//! A power loss as a disk of its own mind makes it: of what was not synced, any part is there, later writes without earlier ones, and
//! one write in part, sector by sector.
//!
//! The writer of [`crash`](super::crash) runs under `strace`, which tells every write and sync of its files and every acknowledgement, in
//! order. From that each moment of its life can be played, and at each the power may fail in any number of ways, without the machine's
//! own disk having a say. The index beside the log (`-shm`) is left out: it is made anew by whoever opens the file first.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::crash::{FILE, WRITER, acknowledged, check, rounds};
use super::*;

/// What is written whole or not at all.
const SECTOR: usize = 512;

/// Enough commits for the log to be copied into the file (after a thousand pages) and to be begun anew.
const COMMITS: u64 = 350;

/// Power losses in a run of the tests. Half of them fall between the log's copying and the file's sync.
const LOSSES: u64 = 120;

/// Something that the writer did, in order.
enum Step {
    Write { file: usize, offset: usize, bytes: Vec<u8> },
    Cut { file: usize, length: usize },
    Sync { file: usize },
    Acknowledged(u64),
}

/// The database and its log.
const FILES: [&str; 2] = ["calico.db", "calico.db-wal"];

/// A disk on which not all is written that was handed to it.
#[derive(Clone, Default)]
struct Disk {
    files: [Vec<u8>; 2],
    /// Steps that no sync has followed yet, for each file.
    pending: [Vec<usize>; 2],
}

impl Disk {
    /// Applies a step whole, or those sectors of it that are wanted.
    fn apply(&mut self, step: &Step, wanted: &mut dyn FnMut() -> bool) {
        match step {
            Step::Write { file, offset, bytes } => {
                let content = &mut self.files[*file];
                let mut from = 0;
                while from < bytes.len() {
                    let at = offset + from;
                    let to = bytes.len().min(from + SECTOR - at % SECTOR);
                    if wanted() {
                        content.resize(content.len().max(offset + to), 0);
                        content[at..offset + to].copy_from_slice(&bytes[from..to]);
                    }
                    from = to;
                }
            }
            Step::Cut { file, length } => self.files[*file].resize(*length, 0),
            Step::Sync { .. } | Step::Acknowledged(_) => {}
        }
    }

    /// Takes note of a step that was done; a sync makes durable what came before it.
    fn note(&mut self, number: usize, steps: &[Step]) {
        match &steps[number] {
            Step::Write { file, .. } | Step::Cut { file, .. } => self.pending[*file].push(number),
            Step::Sync { file } => {
                for step in std::mem::take(&mut self.pending[*file]) {
                    self.apply(&steps[step], &mut || true);
                }
            }
            Step::Acknowledged(_) => {}
        }
    }

    /// What is left when the power fails now: of the steps that no sync followed any, and one of them in part.
    fn fail(&self, steps: &[Step], roll: &mut dyn FnMut(u64) -> u64) -> Self {
        let mut left = self.clone();
        let pending: Vec<usize> = self.pending.concat();
        let torn = pending.get(roll(pending.len().max(1) as u64) as usize).copied();
        // Few, half, or nearly all of them.
        let of_four = 1 + roll(3);
        for step in pending {
            if Some(step) == torn {
                left.apply(&steps[step], &mut || roll(2) == 0);
            } else if roll(4) < of_four {
                left.apply(&steps[step], &mut || true);
            }
        }
        left
    }

    fn store(&self, directory: &Path) -> PathBuf {
        for (name, content) in FILES.iter().zip(&self.files) {
            std::fs::write(directory.join(name), content).unwrap();
        }
        directory.join(FILES[0])
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Runs the writer and answers what it found on its disk, and what it did.
fn trace(directory: &Path) -> (Disk, Vec<Step>) {
    let path = directory.join(FILES[0]);
    drop(SqliteStore::open(&path).unwrap());
    let files = FILES.map(|name| std::fs::read(directory.join(name)).unwrap_or_default());
    let (trace, ends) = (directory.join("trace"), directory.join("acknowledged"));
    let run = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", "1000000", "-e", "trace=pwrite64,write,ftruncate,fsync,fdatasync"])
        .args(["-e", "signal=none", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args([WRITER, "--exact", "--nocapture"])
        .env(FILE, &path)
        .stdout(std::fs::File::create(&ends).unwrap())
        .stderr(Stdio::null())
        .spawn();
    let run = Killed(run.expect("this test runs the program `strace`: install the package strace"));
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    let commits = || std::fs::read_to_string(&ends).unwrap().lines().filter_map(acknowledged).count() as u64;
    while commits() < COMMITS {
        assert!(std::time::Instant::now() < deadline, "{} commits in two minutes", commits());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Who traces takes whom it traces along.
    drop(run);
    (Disk { files, ..Disk::default() }, steps(&std::fs::read_to_string(trace).unwrap()))
}

/// Reads the trace. A call that another thread's interrupts is told in two parts, and counts when it ends.
fn steps(trace: &str) -> Vec<Step> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut steps = Vec::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(part) = call.strip_suffix("<unfinished ...>") {
            begun.insert(thread, part);
        } else if let Some((_, rest)) = call.split_once("resumed>") {
            let whole = format!("{}{rest}", begun.remove(thread).unwrap_or_default());
            steps.extend(step(&whole));
        } else {
            steps.extend(step(call));
        }
    }
    steps
}

/// `pwrite64(5<path>, "bytes", 24, 0) = 24` and the like, paths and bytes in hexadecimal; none if it is not about our files.
fn step(call: &str) -> Option<Step> {
    let (name, rest) = call.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") ")?;
    let done: i64 = result.trim_start().strip_prefix('=')?.trim().parse().ok()?;
    let (descriptor, arguments) = arguments.split_once('>')?;
    let (_, path) = descriptor.split_once('<')?;
    let path = String::from_utf8(bytes(path)).ok()?;
    let mut rest = arguments.split('"');
    let (before, text) = (rest.next().unwrap_or_default(), rest.next().map(bytes));
    let last = || arguments.rsplit(", ").next().and_then(|number| number.trim().parse().ok());
    if let Some(text) = text.as_ref().filter(|_| name == "write" && descriptor.starts_with("1<")) {
        return acknowledged(&String::from_utf8_lossy(text)).map(Step::Acknowledged);
    }
    let file = FILES.iter().position(|file| path.rsplit('/').next() == Some(*file))?;
    match name {
        "pwrite64" => {
            let bytes = text?;
            assert_eq!(usize::try_from(done).ok(), Some(bytes.len()), "written whole: {before}");
            Some(Step::Write { file, offset: last()?, bytes })
        }
        "ftruncate" => Some(Step::Cut { file, length: last()? }),
        "fsync" | "fdatasync" if done == 0 => Some(Step::Sync { file }),
        other => panic!("{other} of {path}: how is that to be played?"),
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect()
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_when_the_power_fails_and_the_disk_writes_what_it_likes() {
    let mut random = crate::testing::random();
    let mut roll = |sides: u64| random.bits() % sides;
    let directory = tempfile::tempdir().unwrap();
    let (begin, steps) = trace(directory.path());
    let copied: Vec<usize> =
        (0..steps.len()).filter(|step| matches!(steps[*step], Step::Write { file: 0, .. })).collect();
    assert!(copied.len() > 10, "the log is copied into the file");
    let losses = rounds(LOSSES);
    let mut lost_without_syncs = 0;
    for loss in 0..losses {
        let number =
            if loss % 2 == 0 { roll(steps.len() as u64) } else { copied[roll(copied.len() as u64) as usize] as u64 };
        // To see that this test sees: a few with a disk that takes no notice of a sync.
        for heeds_syncs in [true, false].into_iter().take(if loss < 20 { 2 } else { 1 }) {
            let (mut disk, mut last) = (begin.clone(), 0);
            for step in 0..=number as usize {
                match &steps[step] {
                    Step::Acknowledged(round) => last = *round,
                    Step::Sync { .. } if !heeds_syncs => {}
                    _ => disk.note(step, &steps),
                }
            }
            let place = tempfile::tempdir().unwrap();
            let path = disk.fail(&steps, &mut roll).store(place.path());
            let outcome = check(&path, last).await;
            if heeds_syncs {
                outcome.unwrap_or_else(|fault| panic!("loss {loss} at step {number} of {}: {fault}", steps.len()));
            } else {
                lost_without_syncs += u64::from(outcome.is_err());
            }
        }
    }
    assert!(
        lost_without_syncs >= losses.min(20) / 2,
        "{lost_without_syncs}: a disk that does not sync loses more than that"
    );
}
