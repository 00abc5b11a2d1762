//! Files that lost what they had, and those that are just being made: never taken for each other.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// Whoever has it open is told, and whoever opens it.
#[tokio::test]
async fn a_truncated_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("t", 1.0)).await.unwrap();
    assert!(store.list(&Scope::All).await.is_ok());
    cut(&path, 0);
    let error = store.list(&Scope::All).await.unwrap_err();
    assert!(error.is_retryable() && source(&error).contains("is empty: it was truncated"), "{error:?}");
    let error = store.commit(put("lost", 1.0)).await.unwrap_err();
    assert!(error.is_retryable() && source(&error).contains("is empty: it was truncated"), "{error:?}");
    for make in [true, false] {
        assert!(is_refused(&path, make), "while it is open elsewhere, made if missing: {make}");
    }
    drop(store);
    for make in [true, false] {
        assert!(is_refused(&path, make), "while nobody has it open, made if missing: {make}");
    }
}

fn cut(path: &Path, length: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn is_refused(path: &Path, make: bool) -> bool {
    let opened = SqliteStore::open_with(path, SqliteOptions { make, ..SqliteOptions::default() });
    matches!(opened, Err(SqliteError::Truncated { path: named }) if named == path)
}

/// Nothing that lost its content passes for a new store, with its log beside it or without; nor is the log thrown away.
#[tokio::test]
async fn a_file_that_was_emptied_is_no_new_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let log = || connection::beside(&path, "-wal");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("t", 1.0)).await.unwrap();
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let logged = std::fs::read(log()).unwrap();
    assert!(!logged.is_empty());
    cut(&path, 0);
    assert!(is_refused(&path, true));
    assert_eq!(std::fs::read(log()).unwrap(), logged);
    std::fs::write(&path, &whole).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.list(&Scope::All).await.unwrap().entries.len(), 1, "restored with its log, it has everything");
    drop(store);

    // A database without tables, as programs before this one left it when its log was lost.
    std::fs::remove_file(log()).unwrap();
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = wal; VACUUM").unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() > 0);
    assert!(is_refused(&path, true));

    // As the error says.
    std::fs::remove_file(&path).unwrap();
    assert!(SqliteStore::open(&path).unwrap().list(&Scope::All).await.unwrap().entries.is_empty());
}

/// Cut off anywhere, it is damaged, and says so.
#[tokio::test]
async fn a_file_that_was_cut_off_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    for one in 0..100 {
        store.commit(put(&format!("{one}{}", "x".repeat(2000)), 1.0)).await.unwrap();
    }
    drop(store);
    let closed = connection::open(&path).unwrap();
    closed.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(closed);
    let whole = std::fs::read(&path).unwrap();
    for length in [whole.len() - 4096, whole.len() / 2, 4096, 1000, 50, 1] {
        std::fs::write(&path, &whole).unwrap();
        cut(&path, u64::try_from(length).unwrap());
        let error = SqliteStore::open(&path).unwrap_err();
        // To SQLite a single byte is as good as none.
        let is_told = match error {
            SqliteError::Corrupt { .. } | SqliteError::NotADatabase { .. } => true,
            SqliteError::Truncated { .. } => length == 1,
            _ => false,
        };
        assert!(is_told, "cut to {length}: {error:?}");
    }
}

/// A maker that was interrupted leaves nothing that matters; an old log is not the new file's.
#[tokio::test]
async fn what_others_left_is_cleared_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("old", 1.0)).await.unwrap();
    drop(store);
    std::fs::remove_file(&path).unwrap();
    assert!(connection::beside(&path, "-wal").exists());
    for name in ["calico.db-new", "calico.db-new-journal", "calico.db-journal"] {
        std::fs::write(directory.path().join(name), "half").unwrap();
    }
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.list(&Scope::All).await.unwrap().entries.is_empty());
    store.commit(put("new", 1.0)).await.unwrap();
    let names =
        std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["calico.db", "calico.db-notify", "calico.db-shm", "calico.db-wal"]);
}

/// Names the directory in which the child makes files.
const MAKER: &str = "CALICO_TEST_MAKER_DIRECTORY";

fn numbered(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number}.db"))
}

/// In the child, makes files for ever and reports each; otherwise does nothing.
#[test]
fn maker() {
    let Some(directory) = std::env::var_os(MAKER) else { return };
    for number in 0.. {
        drop(SqliteStore::open(&numbered(Path::new(&directory), number)).unwrap());
        let mut out = std::io::stdout();
        writeln!(out, "made {number}").unwrap();
        out.flush().unwrap();
    }
}

/// Whenever the maker is killed, each file is there whole or not at all, and can be opened or made.
#[test]
fn who_makes_a_file_may_be_killed() {
    let mut random = crate::testing::random();
    for kill in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["sqlite::tests::truncated::maker", "--exact", "--nocapture"])
            .env(MAKER, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("made 1")), "the child ended by itself");
        std::thread::sleep(Duration::from_micros(random.bits() & 0x3fff));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.filter_map(|line| line.strip_prefix("made ")?.parse().ok()).last().unwrap_or(1);
        for number in 0..=last + 1 {
            SqliteStore::open(&numbered(directory.path(), number)).unwrap_or_else(|error| panic!("{kill}: {error}"));
        }
    }
}
