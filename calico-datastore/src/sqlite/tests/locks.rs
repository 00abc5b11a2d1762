//! The locks of a process that has the file open: other programs must see them for as long as it has.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use super::*;

/// Names the file to the child.
const FILE: &str = "CALICO_TEST_FOREIGN_FILE";

/// In the child, reads as a program would that knows nothing of us, and leaves; otherwise does nothing.
#[test]
fn foreign() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let connection = Connection::open(Path::new(&file)).unwrap();
    let objects: u32 = connection.query_row("SELECT count(*) FROM object", [], |row| row.get(0)).unwrap();
    // Who takes itself for the last one copies the log into the file and removes it.
    connection.close().unwrap();
    println!("objects {objects}.");
}

/// How many objects another program sees.
fn seen_by_another(path: &Path) -> String {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["sqlite::tests::locks::foreign", "--exact", "--nocapture"])
        .env(FILE, path)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let out = String::from_utf8(run.stdout).unwrap();
    out.split_once("objects ").and_then(|(_, rest)| rest.split_once('.')).expect("a count").0.to_owned()
}

/// The log's place on the disk, which a new one would not have while this one is open.
fn log(path: &Path) -> u64 {
    std::fs::metadata(connection::beside(path, "-wal")).expect("the log").ino()
}

/// How many locks this process has on the file itself, as the kernel says. Newer libraries look at the index as well before they remove the
/// log, so that another program of this one's version would not show a lock that is gone.
fn held(path: &Path) -> usize {
    let (inode, process) = (std::fs::metadata(path).unwrap().ino().to_string(), std::process::id().to_string());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let is_ours = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.contains(&process.as_str()) && fields.iter().any(|field| field.rsplit(':').next() == Some(&inode))
    };
    locks.lines().filter(is_ours).count()
}

/// Locks are the process': to open the file and close it, for whatever reason, would drop those of every connection.
#[tokio::test]
async fn another_program_that_leaves_does_not_take_the_log_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("first", 1.0)).await.unwrap();
    let before = log(&path);
    // For moments, while something is opened or written, there are more: how many says nothing.
    assert!(held(&path) > 0, "a connection that reads and writes by way of the log has a lock");
    assert_eq!(seen_by_another(&path), "1");
    assert_eq!(log(&path), before, "after the first connection");

    let second = SqliteStore::open(&path).unwrap();
    assert_eq!(second.list(&Scope::All).await.unwrap().entries.len(), 1);
    drop(connection::open(&path).unwrap());
    make::make(&path, None).unwrap();
    assert!(held(&path) > 0, "after others");
    assert_eq!(seen_by_another(&path), "1");
    assert_eq!(log(&path), before, "after others");
    store.commit(put("second", 1.0)).await.unwrap();
    assert_eq!(seen_by_another(&path), "2");
}
