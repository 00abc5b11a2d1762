//! The SQLite store against the suite, and what only a file can get wrong.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;
use calico_core::time::Timestamp;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::testing::{Subject, conformance, next, tier};
use crate::{Precondition, WatchEvent, Write};

mod crash;
mod disk;
mod locks;
mod scans;
mod torn;
mod truncated;

/// Two handles of one file, as two processes have.
struct TwoHandles {
    first: SqliteStore,
    second: SqliteStore,
    _directory: TempDir,
}

impl TwoHandles {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calico.db");
        let open = || SqliteStore::open(&path).unwrap();
        Self { first: open(), second: open(), _directory: directory }
    }

    /// The second handle is a CNI plugin's.
    fn one_in_place() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calico.db");
        let first = SqliteStore::open(&path).unwrap();
        let options = SqliteOptions { in_place: true, ..SqliteOptions::default() };
        Self { first, second: SqliteStore::open_with(&path, options).unwrap(), _directory: directory }
    }

    fn swapped(self) -> Self {
        Self { first: self.second, second: self.first, ..self }
    }
}

#[async_trait]
impl Subject for TwoHandles {
    fn first(&self) -> Arc<dyn Datastore> {
        Arc::new(self.first.clone())
    }

    fn second(&self) -> Arc<dyn Datastore> {
        Arc::new(self.second.clone())
    }

    async fn inject(&self, key: &ResourceKey, bytes: &[u8]) {
        self.second.inject(key, bytes).await.unwrap();
    }

    async fn compact(&self) {
        self.second.compact().await.unwrap();
    }
}

#[tokio::test]
async fn conforms() {
    conformance(|| async { Box::new(TwoHandles::new()) as Box<dyn Subject> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_on_several_threads() {
    conformance(|| async { Box::new(TwoHandles::new()) as Box<dyn Subject> }).await;
}

#[tokio::test]
async fn conforms_in_place() {
    conformance(|| async { Box::new(TwoHandles::one_in_place()) as Box<dyn Subject> }).await;
    conformance(|| async { Box::new(TwoHandles::one_in_place().swapped()) as Box<dyn Subject> }).await;
}

fn put(name: &str, order: f64) -> Batch {
    let (key, resource) = tier(name, order);
    Write::put(key, Precondition::None, resource, None).into()
}

/// A clock that stands where it is put.
#[derive(Default)]
struct Stopped(AtomicU64);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(self.0.load(Ordering::Relaxed))
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn only_the_owner_can_read_what_it_makes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("t", 1.0)).await.unwrap();
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

/// A mistyped path must not found a second cluster.
#[test]
fn a_missing_directory_is_an_error_and_a_missing_file_is_made_only_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let mistyped = directory.path().join("mistyped/calico.db");
    for make in [true, false] {
        let error = SqliteStore::open_with(&mistyped, SqliteOptions { make, ..SqliteOptions::default() }).unwrap_err();
        assert!(error.to_string().ends_with(&format!("mkdir -p {}/mistyped", directory.path().display())), "{error}");
    }
    assert!(!directory.path().join("mistyped").exists());
    let path = directory.path().join("calico.db");
    let reading = || SqliteStore::open_with(&path, SqliteOptions { make: false, ..SqliteOptions::default() });
    assert!(matches!(reading(), Err(SqliteError::Absent { path: named }) if named == path));
    assert!(!path.exists());
    drop(SqliteStore::open(&path).unwrap());
    assert!(reading().is_ok());
}

#[tokio::test]
async fn data_outlives_the_handle_and_its_settings_are_durable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let first = SqliteStore::open(&path).unwrap();
    let revision = first.commit(put("t", 1.0)).await.unwrap()[0].revision;
    drop(first);
    let second = SqliteStore::open(&path).unwrap();
    assert_eq!(second.get(&tier("t", 1.0).0).await.unwrap().revision, revision);
    let next = second.commit(put("t", 2.0)).await.unwrap()[0].revision;
    assert!(next.raw() > revision.raw(), "revisions go on where they were");
    let connection = connection::open(&path).unwrap();
    let setting =
        |name| connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    assert_eq!(setting("journal_mode"), rusqlite::types::Value::Text("wal".to_owned()));
    assert_eq!(setting("synchronous"), rusqlite::types::Value::Integer(2));
}

#[test]
fn a_file_that_is_not_ours_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let garbage = directory.path().join("garbage");
    std::fs::write(&garbage, "certainly not a database".repeat(100)).unwrap();
    assert!(matches!(SqliteStore::open(&garbage), Err(SqliteError::NotADatabase { path }) if path == garbage));
    for no_file in [Path::new("/dev/null"), garbage.parent().unwrap()] {
        let error = SqliteStore::open(no_file).unwrap_err();
        assert!(matches!(&error, SqliteError::NotAFile { path } if path == no_file), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&garbage).unwrap(), "certainly not a database".repeat(100));

    let foreign = directory.path().join("foreign");
    Connection::open(&foreign).unwrap().execute_batch("PRAGMA application_id = 7; CREATE TABLE t (x)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    assert!(matches!(SqliteStore::open(&foreign), Err(SqliteError::ForeignDatabase { found: 7, .. })));
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
    assert!(!directory.path().join("foreign-wal").exists());

    let newer = directory.path().join("newer");
    drop(SqliteStore::open(&newer).unwrap());
    Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = SqliteStore::open(&newer).unwrap_err();
    assert!(matches!(error, SqliteError::NewerSchema { found: 99, known: 2, .. }), "{error}");
    assert!(!DatastoreError::from(error).is_retryable());

    let inside = directory.path().join("garbage/calico.db");
    assert!(matches!(SqliteStore::open(&inside), Err(SqliteError::Open { .. })));
}

/// Permissions do not stop root, so the connection itself is made read-only and full.
#[tokio::test]
async fn a_refusing_disk_is_told_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("t", 1.0)).await.unwrap();

    let limited = |pragma: &str| {
        let connection = connection::open(&path).unwrap();
        connection.execute_batch(pragma).unwrap();
        let wake = Wake::new(&path);
        let readers = Arc::new(Readers::new(&path, FileId::at(&path).unwrap(), connection, false));
        Writer::start(&path, readers, &SqliteOptions::default(), wake.local()).unwrap()
    };
    let large = || commit::prepare(put(&"x".repeat(100_000), 1.0)).unwrap();
    let read_only = limited("PRAGMA query_only = ON").commit(large()).await.unwrap_err();
    assert!(matches!(read_only, DatastoreError::Refused { .. }), "{read_only:?}");
    assert!(source(&read_only).contains("cannot be written"), "{}", source(&read_only));
    let full = limited("PRAGMA max_page_count = 1").commit(large()).await.unwrap_err();
    assert!(full.is_retryable(), "{full:?}");
    assert!(source(&full).contains("no space left"), "{}", source(&full));

    let listing = store.list(&Scope::All).await.unwrap();
    assert_eq!(listing.entries.len(), 1);
    store.commit(put("t", 2.0)).await.expect("the file is as good as before");
}

fn source(error: &DatastoreError) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

#[tokio::test]
async fn the_log_is_trimmed_and_late_watches_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions { history: 8, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&directory.path().join("calico.db"), options).unwrap();
    let start = store.list(&Scope::All).await.unwrap().revision;
    for round in 0..40 {
        store.commit(put("t", f64::from(round))).await.unwrap();
    }
    assert!(matches!(store.watch(&Scope::All, start).await.map(drop), Err(DatastoreError::TooOld { .. })));
    let rows: i64 = store
        .shared
        .readers
        .read("count", |connection| connection.query_row("SELECT count(*) FROM change", [], |row| row.get(0)))
        .await
        .unwrap();
    assert!((8..=10).contains(&rows), "{rows}");
    let newest = store.list(&Scope::All).await.unwrap().revision;
    let recent = store.watch(&Scope::All, Revision::from_raw(newest.raw() - 8)).await;
    assert!(recent.is_ok(), "as much as was promised is there");
    let future = store.watch(&Scope::All, Revision::from_raw(newest.raw() + 1)).await;
    assert!(matches!(future.map(drop), Err(DatastoreError::TooOld { .. })), "a revision of some other file");
}

/// Each revision of the log with its bytes, added up one by one.
fn sizes(connection: &Connection) -> Vec<(u64, usize)> {
    let mut sizes = Vec::new();
    let mut statement = connection.prepare("SELECT revision, path, value FROM change ORDER BY revision").unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (path, value): (String, Option<Vec<u8>>) = (row.get(1).unwrap(), row.get(2).unwrap());
        sizes.push((query::unsigned(row.get(0).unwrap()), path.len() + value.map_or(0, |value| value.len())));
    }
    sizes
}

/// Random writes of any size; the twin adds up what is there.
#[tokio::test]
async fn the_log_is_trimmed_by_size_in_whole_revisions_and_never_the_newest() {
    const LIMIT: usize = 4_000;
    let mut random = crate::testing::random();
    let mut roll = |sides: u64| random.bits() % sides;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let options = SqliteOptions { history_bytes: 4_000, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&path, options).unwrap();
    let reader = connection::open(&path).unwrap();
    let mut before = query::state(&reader).unwrap().1;
    let mut trims = 0;
    for _ in 0..150 {
        let mut writes = Vec::new();
        for one in 0..1 + roll(4) {
            let (key, resource) = tier(&format!("t{one}{}", "x".repeat(if roll(20) == 0 { 200 } else { 0 })), 1.0);
            writes.push(match roll(4) {
                0 => Write::delete(key, Precondition::None),
                _ => Write::put(key, Precondition::None, resource, None),
            });
        }
        store.commit(writes.into()).await.unwrap();
        if roll(30) == 0 {
            store.inject(&tier("large", 1.0).0, &[b' '; 6_000]).await.unwrap();
        }
        let sizes = sizes(&reader);
        let (newest, trimmed) = query::state(&reader).unwrap();
        let total: usize = sizes.iter().map(|(_, size)| size).sum();
        assert_eq!(query::log_bytes(&reader).unwrap(), u64::try_from(total).unwrap(), "counted");
        let mut revisions: Vec<_> = sizes.iter().map(|(revision, _)| *revision).collect();
        revisions.dedup();
        assert_eq!(revisions, Vec::from_iter(trimmed + 1..=newest), "whole revisions");
        let limit = if trimmed > before { LIMIT } else { LIMIT + LIMIT / 8 };
        assert!(total <= limit || revisions.len() == 1, "{total} bytes in {} revisions", revisions.len());
        if trimmed > before {
            trims += 1;
            let late = store.watch(&Scope::All, Revision::from_raw(trimmed - 1)).await.map(drop);
            assert!(matches!(late, Err(DatastoreError::TooOld { .. })), "{late:?}");
            assert!(store.watch(&Scope::All, Revision::from_raw(newest - 1)).await.is_ok(), "who keeps up");
        }
        before = trimmed;
    }
    assert!((1..75).contains(&trims), "{trims} trims of 150 commits");
}

#[tokio::test]
async fn an_older_file_becomes_a_current_one_while_an_older_program_has_it_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let mut older = Connection::open(&path).unwrap();
    schema::fill_as_first(&mut older, &path).unwrap();
    drop(older);
    let mut older = connection::open(&path).unwrap();
    older.execute_batch("UPDATE state SET revision = 1, trimmed = 1").unwrap();
    let write = |connection: &Connection, name: &str| {
        commit::inject(connection, &key::path(&tier(name, 0.0).0).unwrap(), b"{\"spec\": {}}").unwrap();
    };
    ["a", "b", "a"].into_iter().for_each(|name| write(&older, name));

    let store = SqliteStore::open(&path).unwrap();
    let listing = store.list(&Scope::All).await.unwrap();
    assert_eq!((listing.entries.len(), listing.revision.raw()), (2, 4));
    let counted = || (query::log_bytes(&older).unwrap(), sizes(&older).iter().map(|(_, size)| *size as u64).sum());
    let (bytes, expected): (u64, u64) = counted();
    assert_eq!(bytes, expected);
    let mut watch = store.watch(&Scope::All, Revision::from_raw(1)).await.unwrap();
    for revision in 2..=4 {
        assert_eq!(next(&mut watch).await.revision().raw(), revision, "the log is there");
    }
    write(&older, "c");
    assert_eq!(next(&mut watch).await.revision().raw(), 5);
    let (bytes, expected) = counted();
    assert_eq!(bytes, expected, "counted for the older program, too");

    let error = schema::migrate_as_first(&mut older, &path).unwrap_err();
    let told = "has schema version 2, this program knows up to 1: use the newer program, or restore a backup";
    assert_eq!(error.to_string(), format!("{path:?} {told}"), "an older program that comes later");
}

/// More changes than one read of the log takes, in batches that a page must not cut.
#[tokio::test]
async fn a_watch_far_behind_reads_page_by_page() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("calico.db")).unwrap();
    let start = store.list(&Scope::All).await.unwrap().revision;
    let mut expected = Vec::new();
    for batch in 0..30 {
        let writes = (0..100).map(|one| tier(&format!("t{batch}-{one}"), 1.0));
        let writes: Vec<_> = writes.map(|(key, resource)| Write::create(key, resource)).collect();
        expected.extend(writes.iter().map(|write| write.key.clone()));
        store.commit(writes.into()).await.unwrap();
    }
    let mut watch = store.watch(&Scope::All, start).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        seen.push(next(&mut watch).await.key().unwrap().clone());
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn life_times_follow_the_given_clock() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(Stopped::default());
    let options = || SqliteOptions { clock: Arc::clone(&clock) as _, ..SqliteOptions::default() };
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open_with(&path, options()).unwrap();
    let reader = SqliteStore::open_with(&path, options()).unwrap();
    let (key, resource) = tier("t", 1.0);
    let change = crate::Change::Put { resource, base: None, ttl: Some(Duration::from_secs(30)) };
    store.commit(Write { key: key.clone(), precondition: Precondition::Absent, change }.into()).await.unwrap();
    clock.0.store(29, Ordering::Relaxed);
    assert!(reader.get(&key).await.is_ok());
    clock.0.store(30, Ordering::Relaxed);
    assert!(reader.get(&key).await.unwrap_err().is_not_found(), "gone before anybody has deleted it");
    assert!(reader.list(&Scope::All).await.unwrap().entries.is_empty());
    let from = reader.list(&Scope::All).await.unwrap().revision;
    store.commit(put("other", 1.0)).await.unwrap();
    let mut watch = reader.watch(&Scope::All, from).await.unwrap();
    let gone = next(&mut watch).await;
    assert!(matches!(gone, WatchEvent::Deleted { key: deleted, .. } if deleted == key), "whoever writes deletes it");
    assert!(matches!(next(&mut watch).await, WatchEvent::Put(_)));
}

/// A writer that is not ours leaves no notice: the log alone wakes.
#[tokio::test]
async fn a_foreign_writer_wakes_watches_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::All, from).await.unwrap();
    let foreign = connection::open(&path).unwrap();
    let path = key::path(&tier("t", 1.0).0).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    commit::inject(&foreign, &path, br#"{"metadata":{"name":"t"},"spec":{}}"#).unwrap();
    foreign.execute_batch("COMMIT").unwrap();
    let event = next(&mut watch).await;
    assert!(matches!(event, WatchEvent::Put(Ok(_))), "{event:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_and_handles_open_and_write_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let path = path.clone();
        tasks.spawn(async move {
            let store = SqliteStore::open(&path).unwrap();
            for round in 0..20 {
                // Waiting for the lock has its limit, which a busy disk reaches; nothing is written then.
                while let Err(error) = store.commit(put(&format!("t{task}-{round}"), 1.0)).await {
                    assert!(error.is_retryable(), "{error:?}");
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let listing = SqliteStore::open(&path).unwrap().list(&Scope::All).await.unwrap();
    assert_eq!((listing.entries.len(), listing.revision.raw() & 0xffff_ffff), (160, 161), "one revision for each");
}

/// However many watches a commit wakes, it is read once for all; a few reads more come of hints that wake without a change.
#[tokio::test]
async fn a_commit_is_read_once_for_all_watches() {
    const WATCHES: usize = 60;
    let handles = TwoHandles::new();
    let from = handles.first.list(&Scope::All).await.unwrap().revision;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        watches.push(handles.first.watch(&Scope::All, from).await.unwrap());
    }
    let count = || handles.first.shared.readers.count.load(Ordering::Relaxed);
    let before = count();
    handles.second.commit(put("t", 1.0)).await.unwrap();
    for event in futures_util::future::join_all(watches.iter_mut().map(next)).await {
        assert!(matches!(event, WatchEvent::Put(Ok(_))), "{event:?}");
    }
    let reads = count() - before;
    assert!(reads < WATCHES / 2, "{reads} reads");
}

#[tokio::test]
async fn a_path_that_is_no_text_hides_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let odd = "UPDATE state SET revision = revision + 1;
        INSERT INTO object SELECT CAST(x'2f63616c69636f2fff' AS TEXT), x'7b7d', revision, NULL FROM state;
        INSERT INTO change SELECT revision, 0, CAST(x'2f63616c69636f2fff' AS TEXT), x'7b7d' FROM state;";
    connection::open(&path).unwrap().execute_batch(odd).unwrap();
    store.commit(put("t", 1.0)).await.unwrap();
    assert_eq!(store.list(&Scope::All).await.unwrap().entries.len(), 1);
    let mut watch = store.watch(&Scope::All, from).await.unwrap();
    assert_eq!(next(&mut watch).await.key(), Some(&tier("t", 1.0).0));
}

/// The directory goes, with it what listens there; a new file comes in its place.
#[tokio::test]
async fn a_file_that_is_removed_and_made_anew_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sub/calico.db");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("old", 1.0)).await.unwrap();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::All, from).await.unwrap();

    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let ended = crate::testing::within("the end of a watch on a file that is gone", watch.next()).await.unwrap_err();
    assert!(ended.is_retryable(), "{ended:?}");
    for error in [
        store.list(&Scope::All).await.unwrap_err(),
        store.commit(put("lost", 1.0)).await.unwrap_err(),
        store.watch(&Scope::All, from).await.map(drop).unwrap_err(),
    ] {
        assert!(error.is_retryable(), "{error:?}");
    }
    assert!(source(&store.list(&Scope::All).await.unwrap_err()).contains("removed while in use"));

    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let other = SqliteStore::open(&path).unwrap();
    other.commit(put("new", 1.0)).await.unwrap();
    let listing = store.list(&Scope::All).await.unwrap();
    assert_eq!(listing.entries.len(), 1, "only what the new file has");
    // The old directory's end may still be news to the listener: as a syncer does, try again.
    let event = crate::testing::within("a watch on the new file", async {
        loop {
            let from = store.list(&Scope::All).await.unwrap().revision;
            let mut watch = store.watch(&Scope::All, from).await.unwrap();
            store.commit(put("newer", 1.0)).await.unwrap();
            match watch.next().await {
                Ok(event) => return event,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    });
    assert_eq!(event.await.key(), Some(&tier("newer", 1.0).0));
    assert_eq!(other.list(&Scope::All).await.unwrap().entries.len(), 2, "both have the same file");
}

/// What a cluster that was wiped and set up anew looks like to a watch of the old one.
#[tokio::test]
async fn a_file_made_anew_counts_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let make = || async {
        let store = SqliteStore::open(&path).unwrap();
        for round in 0..5 {
            store.commit(put("t", f64::from(round))).await.unwrap();
        }
        let revision = store.list(&Scope::All).await.unwrap().revision;
        (store, Revision::from_raw(revision.raw() - 2))
    };
    let (old, seen) = make().await;
    assert!(old.watch(&Scope::All, seen).await.is_ok());
    drop(old);
    std::fs::remove_dir_all(directory.path()).unwrap();
    std::fs::create_dir(directory.path()).unwrap();
    let (new, _) = make().await;
    assert!(matches!(new.watch(&Scope::All, seen).await.map(drop), Err(DatastoreError::TooOld { .. })), "{seen}");
}

#[test]
fn the_first_revision_is_the_callers_draw() {
    struct Drawn(u128);
    impl IdSource for Drawn {
        fn draw(&self) -> u128 {
            self.0
        }
    }
    let directory = tempfile::tempdir().unwrap();
    for (drawn, revision) in [(0, 1 << 32 | 1), (7 << 20 | 5, 5 << 32 | 1), (u128::MAX, 0xf_ffff << 32 | 1)] {
        let path = directory.path().join(format!("{drawn}.db"));
        let options = || SqliteOptions { ids: Some(Arc::new(Drawn(drawn))), ..SqliteOptions::default() };
        let state = || query::state(&connection::open(&path).unwrap()).unwrap();
        drop(SqliteStore::open_with(&path, options()).unwrap());
        assert_eq!(state(), (revision, revision));
        drop(SqliteStore::open(&path).unwrap());
        assert_eq!(state(), (revision, revision), "drawn once");
        assert!(revision + u64::from(u32::MAX) < 1 << 53, "exact in JSON");
    }
}

/// As far on as the old one, so that only the file itself tells that its history is another one.
#[tokio::test]
async fn a_watch_does_not_go_on_in_another_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(put("old", 1.0)).await.unwrap();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::All, from).await.unwrap();
    let made = directory.path().join("made.db");
    let same = format!("UPDATE state SET revision = {0}, trimmed = {0}", from.raw() - 1);
    let other = SqliteStore::open(&made).unwrap();
    other.shared.readers.idle(FileId::at(&made).unwrap()).unwrap().execute_batch(&same).unwrap();
    for name in ["a", "b", "c"] {
        other.commit(put(name, 1.0)).await.unwrap();
    }
    drop(other);
    let closed = connection::open(&made).unwrap();
    closed.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(closed);
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(directory.path().join(format!("calico.db{suffix}")));
    }
    std::fs::rename(&made, &path).unwrap();
    let ended = crate::testing::within("the end of a watch on another file", watch.next()).await.unwrap_err();
    assert!(matches!(ended, DatastoreError::TooOld { .. }), "{ended:?}");
    assert_eq!(store.list(&Scope::All).await.unwrap().entries.len(), 3);
}
