//! `kill -9` and the loss of power while writing: the test runs itself again as the writer.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};

use super::*;

/// Names the file that the child writes to.
pub(super) const FILE: &str = "CALICO_TEST_CRASH_FILE";

/// The test that the child runs.
pub(super) const WRITER: &str = "sqlite::tests::crash::writer";

/// How many rounds of start, write, kill; and of start, write, loss of power.
const ROUNDS: &str = "CALICO_TEST_CRASH_ROUNDS";

/// Few enough for every run of the tests, many enough to hit every stage of a commit.
const KILLS: u64 = 40;

/// Without syncs about one of four loses something, so that so many hardly miss it.
const LOSSES: u64 = 15;

pub(super) fn rounds(default: u64) -> u64 {
    std::env::var(ROUNDS).map_or(default, |text| text.parse().expect("a number of rounds"))
}

/// In the child, writes for ever and reports each acknowledged write; otherwise does nothing.
#[test]
fn writer() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(Path::new(&file)).unwrap();
        let start = store.list(&Scope::All).await.unwrap().revision.raw();
        for round in start.. {
            // Two keys in one batch: they must never differ.
            let writes = ["left", "right"].map(|side| {
                let (key, resource) = tier(side, round as f64);
                Write::put(key, Precondition::None, resource, None)
            });
            store.commit(Vec::from(writes).into()).await.unwrap();
            let mut out = std::io::stdout();
            writeln!(out, "ack {round}").unwrap();
            out.flush().unwrap();
        }
    });
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([WRITER, "--exact", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The last acknowledged round in what the child wrote.
pub(super) fn acknowledged(line: &str) -> Option<u64> {
    line.strip_prefix("ack ")?.trim().parse().ok()
}

async fn order(store: &SqliteStore, side: &str) -> Option<f64> {
    match &*store.get(&tier(side, 0.0).0).await.ok()?.resource {
        calico_core::resource::Resource::Tier(tier) => tier.spec.order,
        other => panic!("a tier, not {other:?}"),
    }
}

/// The file is whole, and has the last acknowledged round and no half of a batch.
pub(super) async fn check(path: &Path, last: u64) -> Result<(), String> {
    let unread = |error: &dyn std::error::Error| format!("cannot be read: {error}");
    let connection = connection::open(path).map_err(|error| unread(&error))?;
    let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    match verdict.map_err(|error| unread(&error))?.as_str() {
        "ok" => {}
        other => return Err(other.to_owned()),
    }
    let store = SqliteStore::open(path).map_err(|error| unread(&error))?;
    let (left, right) = (order(&store, "left").await, order(&store, "right").await);
    if left != right {
        return Err(format!("half a batch: {left:?} and {right:?}"));
    }
    // None has been acknowledged yet where the last one is zero.
    let is_there = last == 0 || left >= Some(last as f64);
    if is_there { Ok(()) } else { Err(format!("{last} was acknowledged, {left:?} is stored")) }
}

#[tokio::test]
async fn no_acknowledged_write_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let mut random = crate::testing::random();
    for kill in 0..rounds(KILLS) {
        let mut child = spawn(&path);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        // Some acknowledged writes, then a moment that falls anywhere within the next ones.
        let mut last = 0;
        let mut line = String::new();
        for _ in 0..=random.below(7) {
            loop {
                line.clear();
                assert!(lines.read_line(&mut line).unwrap() > 0, "the child ended by itself");
                if let Some(round) = acknowledged(&line) {
                    last = round;
                    break;
                }
            }
        }
        std::thread::sleep(Duration::from_micros(random.bits() & 0xfff));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        last = rest.lines().filter_map(acknowledged).next_back().unwrap_or(last);

        check(&path, last).await.unwrap_or_else(|fault| panic!("kill {kill}: {fault}"));
    }
}

#[tokio::test]
async fn a_watch_follows_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::Key(tier("left", 0.0).0), from).await.unwrap();
    let mut child = spawn(&path);
    for revision in from.raw() + 1..from.raw() + 51 {
        assert_eq!(next(&mut watch).await.revision().raw(), revision, "every commit of the child, in order");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The last acknowledged round, for [`survivor`].
const LAST: &str = "CALICO_TEST_CRASH_LAST";

/// In the child that comes after a loss of power, looks at what is left; otherwise does nothing.
#[tokio::test]
async fn survivor() {
    let (Some(file), Ok(last)) = (std::env::var_os(FILE), std::env::var(LAST)) else { return };
    check(Path::new(&file), last.parse().unwrap()).await.unwrap();
}

/// Makes a file system, and shuts it down while the writer writes: what was not synced is dropped, its journal included, as when
/// the power fails. Then mounts it again and looks.
///
/// The writer is stopped first, so that the power fails between two of its system calls. ext4 calls a sync done that a shutdown overtakes:
/// a bare loop of write and fdatasync lost what it had acknowledged in 16 of 250 rounds, and in none when it was stopped before.
const POWER: &str = r#"
set -eu
RANDOM=$SEED
truncate -s 16M disk
mkfs.ext4 -q -F disk
mkdir at
# One loop device for all rounds: the one that `umount` frees may not be free yet when the next `mount` takes it.
device=$(losetup --find --show disk)
trap 'umount at || true; losetup --detach "$device"' EXIT
mount "$device" at
for round in $(seq "$CALICO_TEST_CRASH_ROUNDS"); do
    : > acknowledged
    "$EXE" sqlite::tests::crash::writer --exact --nocapture >acknowledged &
    writer=$!
    wanted=$((1 + RANDOM % 20))
    until [ "$(grep -c ^ack acknowledged)" -ge "$wanted" ]; do kill -0 $writer; sleep 0.0$((1 + RANDOM % 9)); done
    kill -STOP $writer
    while grep -h ^State: /proc/$writer/task/*/status | grep -qv 'T (stopped)'; do kill -0 $writer; done
    python3 -c 'import fcntl, os, struct
EXT4_IOC_SHUTDOWN, NOLOGFLUSH = 0x8004587D, 2
fcntl.ioctl(os.open("at", os.O_RDONLY), EXT4_IOC_SHUTDOWN, struct.pack("I", NOLOGFLUSH))'
    kill -9 $writer 2>/dev/null || true
    wait $writer || true
    umount at
    mount "$device" at
    CALICO_TEST_CRASH_LAST=$(grep ^ack acknowledged | tail -n 1 | cut -d ' ' -f 2) \
        "$EXE" sqlite::tests::crash::survivor --exact --nocapture
done
"#;

#[test]
fn no_acknowledged_write_is_lost_when_the_power_fails() {
    let directory = tempfile::tempdir().unwrap();
    let seed = crate::testing::random().bits() % 0x7fff;
    let run = Command::new("unshare")
        .args(["--mount", "bash", "-c", POWER])
        .current_dir(directory.path())
        .env("EXE", std::env::current_exe().unwrap())
        .env("SEED", seed.to_string())
        .env(ROUNDS, rounds(LOSSES).to_string())
        .env(FILE, directory.path().join("at/calico.db"))
        .output()
        .expect("this test runs the program `unshare`: install the package util-linux");
    assert!(
        run.status.success(),
        "this test needs root, a loop device, mkfs.ext4 (package e2fsprogs) and python3; seed {seed}:\n{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}
