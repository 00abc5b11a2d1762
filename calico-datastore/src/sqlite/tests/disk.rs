//! Disks that refuse: small and read-only file systems, in a mount namespace, where the test runs itself again.

use std::process::Command;

use super::*;

/// Names the file, and says which part to play.
const FILE: &str = "CALICO_TEST_DISK_FILE";
const PART: &str = "CALICO_TEST_DISK_PART";

/// In the child, plays one part; otherwise does nothing.
#[tokio::test]
async fn inside() {
    let (Some(file), Ok(part)) = (std::env::var_os(FILE), std::env::var(PART)) else { return };
    let path = Path::new(&file);
    match part.as_str() {
        "fill" => fill(path).await,
        "read-only" => {
            let store = SqliteStore::open(path).unwrap();
            assert!(!store.list(&Scope::All).await.unwrap().entries.is_empty(), "reading needs no more than that");
            let error = store.commit(put("t", 1.0)).await.unwrap_err();
            assert!(matches!(error, DatastoreError::Refused { .. }), "{error:?}");
            assert!(source(&error).contains("cannot be written"), "{}", source(&error));
        }
        "copy-log" => {
            let database = Connection::open(path).unwrap();
            database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        }
        "with-log" => {
            let error = SqliteStore::open(path).map(drop).unwrap_err();
            assert!(matches!(error, SqliteError::ReadOnlyLog { .. }), "{error:?}");
        }
        "live" => live(path).await,
        "make" => {
            let error = SqliteStore::open(path).map(drop).unwrap_err();
            let SqliteError::Open { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(source.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{error}");
        }
        other => panic!("no part {other}"),
    }
}

/// Writes until the disk is full: the error names it, nothing that was acknowledged is lost, and with room again writing goes on.
async fn fill(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    let ballast = path.with_file_name("ballast");
    std::fs::write(&ballast, vec![1; 64 * 1024]).unwrap();
    let name = |round: usize| format!("{round:04}{}", "x".repeat(4000));
    let mut acknowledged = 0;
    let error = loop {
        match store.commit(put(&name(acknowledged), 1.0)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "the disk is not small");
    };
    assert!(error.is_retryable(), "somebody may make room: {error:?}");
    assert!(source(&error).contains("no space left"), "{}", source(&error));
    assert!(acknowledged > 3);
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(store.list(&Scope::All).await.unwrap().entries.len(), acknowledged);
    store.commit(put("room", 1.0)).await.unwrap();
    let verdict: String =
        connection::open(path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// What is mounted read-only here may be written elsewhere: what was read while nobody did is not all there is.
async fn live(path: &Path) {
    let view = SqliteStore::open(path).unwrap();
    let before = view.list(&Scope::All).await.unwrap().entries.len();
    let elsewhere = SqliteStore::open(&path.with_file_name("../live/calico.db")).unwrap();
    elsewhere.commit(put("new", 1.0)).await.unwrap();
    assert_eq!(view.list(&Scope::All).await.unwrap().entries.len(), before + 1);
    let error = view.commit(put("t", 1.0)).await.unwrap_err();
    assert!(matches!(error, DatastoreError::Refused { .. }), "{error:?}");
}

const SCRIPT: &str = r#"
set -eu
play() { CALICO_TEST_DISK_PART=$1 CALICO_TEST_DISK_FILE="$PWD/$2" "$EXE" sqlite::tests::disk::inside --exact --nocapture; }
mkdir at
mount -t tmpfs -o size=1M none at
play fill at/calico.db

# Backups: with the log beside the file, without the log's index; and with the log copied into it.
mkdir backup
mount -t tmpfs -o size=8M none backup
for name in 'backup/log.db' 'backup/?#%41.db'; do
    cp at/calico.db "$name"
    cp at/calico.db-wal "$name-wal"
done
play copy-log 'backup/?#%41.db'
rm -f backup/*-shm backup/'?#%41.db-wal'
mount -o remount,ro backup
play with-log backup/log.db
play read-only 'backup/?#%41.db'

# The directory of a store that somebody writes, as a container may see it.
mkdir live view
mount -t tmpfs -o size=8M none live
cp at/calico.db at/calico.db-wal live
play copy-log live/calico.db
rm -f live/*-shm live/*-wal
mount --bind live view
mount -o remount,ro,bind view
play live view/calico.db

mount -o remount,ro at
play read-only at/calico.db
play make at/other.db
"#;

#[test]
fn small_and_read_only_file_systems_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let run = Command::new("unshare")
        .args(["--mount", "bash", "-c", SCRIPT])
        .current_dir(directory.path())
        .env("EXE", std::env::current_exe().unwrap())
        .output()
        .expect("this test runs the program `unshare`: install the package util-linux");
    assert!(
        run.status.success(),
        "this test needs root:\n{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}
