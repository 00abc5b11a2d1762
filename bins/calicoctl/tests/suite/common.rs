//! Runs the program as a function, on a store in memory, with a clock that stands still.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use calico_cmd::store::Sources;
use calico_core::time::Timestamp;
use calico_datastore::memory::MemoryStore;
use calico_datastore::{Clock, Datastore, IdSource};
use calicoctl::Io;

/// 2026-01-02T03:04:05Z.
struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_767_323_045)
    }
}

#[derive(Default)]
struct Counter(AtomicU64);

impl IdSource for Counter {
    fn draw(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A variable that makes standard output a terminal.
pub(crate) const TERMINAL: &str = "TEST_TERMINAL";

/// What a run printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) code: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Everything, for golden files.
    pub(crate) fn transcript(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// A cluster to type at.
pub(crate) struct Cluster {
    pub(crate) store: Arc<MemoryStore>,
    ids: Arc<Counter>,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self { store: Arc::new(MemoryStore::new()), ids: Arc::default() }
    }

    /// Types a command line, words separated by spaces.
    pub(crate) fn type_in(&self, line: &str, stdin: &str) -> Run {
        self.type_with(line, &[], stdin)
    }

    /// Types a command line whose last words hold spaces.
    pub(crate) fn type_with(&self, line: &str, words: &[&str], stdin: &str) -> Run {
        let store: Arc<dyn Datastore> = Arc::<MemoryStore>::clone(&self.store);
        run(line, words, stdin, Some(store), BTreeMap::new(), Arc::<Counter>::clone(&self.ids))
    }

    /// Types a command line, words separated by spaces, with an environment.
    pub(crate) fn type_in_with(&self, environment: &[(&str, &str)], line: &str, stdin: &str) -> Run {
        let store: Arc<dyn Datastore> = Arc::<MemoryStore>::clone(&self.store);
        run(line, &[], stdin, Some(store), owned(environment), Arc::<Counter>::clone(&self.ids))
    }

    /// Types a command line that goes on, and stops reading when `is_done` says so, which is asked after every line; what it printed.
    pub(crate) fn type_until(&self, line: &str, mut is_done: impl FnMut(&str) -> bool) -> String {
        let mut reader = Reader { shown: String::new(), is_done: &mut is_done };
        let io = Io {
            sources: Sources::default(),
            stdin: &mut std::io::empty(),
            stdout: &mut reader,
            stderr: &mut std::io::sink(),
            is_terminal: false,
            is_watched: false,
            store: Some(Arc::<MemoryStore>::clone(&self.store)),
            clock: Arc::new(Frozen),
            ids: Arc::<Counter>::clone(&self.ids),
        };
        let exit = calicoctl::run(arguments(line, &[]), io);
        assert_eq!(exit.code(), 1, "nobody reads any more");
        reader.shown
    }

    /// Types a command line while nobody reads standard error; how it ended, and what it printed.
    pub(crate) fn type_unheard(&self, line: &str, stdin: &str) -> (u8, String) {
        let mut stdout = Vec::new();
        let io = Io {
            sources: Sources::default(),
            stdin: &mut stdin.as_bytes(),
            stdout: &mut stdout,
            stderr: &mut Closed,
            is_terminal: false,
            is_watched: false,
            store: Some(Arc::<MemoryStore>::clone(&self.store)),
            clock: Arc::new(Frozen),
            ids: Arc::<Counter>::clone(&self.ids),
        };
        let exit = calicoctl::run(arguments(line, &[]), io);
        (exit.code(), String::from_utf8(stdout).unwrap())
    }

    /// Types a command line that must succeed; what it printed.
    pub(crate) fn done(&self, line: &str, stdin: &str) -> String {
        let run = self.type_in(line, stdin);
        let is_idle = |line: &str| line.ends_with(": this version checks and stores it, and nothing acts on it yet");
        assert!(run.code == 0 && run.stderr.lines().all(is_idle), "{line}: {run:?}");
        run.stdout
    }
}

/// What was printed, until somebody stops reading.
struct Reader<'a> {
    shown: String,
    is_done: &'a mut dyn FnMut(&str) -> bool,
}

impl std::io::Write for Reader<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.shown += std::str::from_utf8(bytes).unwrap();
        let is_done = self.shown.ends_with('\n') && (self.is_done)(&self.shown);
        if is_done { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Nobody reads it.
struct Closed;

impl std::io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Types a command line at a store of the test's own.
pub(crate) fn type_at(store: Arc<dyn Datastore>, line: &str, stdin: &str) -> Run {
    run(line, &[], stdin, Some(store), BTreeMap::new(), Arc::<Counter>::default())
}

/// Types a command line without a store in hand.
pub(crate) fn type_in_environment(line: &str, environment: &[(&str, &str)]) -> Run {
    run(line, &[], "", None, owned(environment), Arc::<Counter>::default())
}

fn owned(environment: &[(&str, &str)]) -> BTreeMap<String, String> {
    environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn run(
    line: &str,
    words: &[&str],
    stdin: &str,
    store: Option<Arc<dyn Datastore>>,
    environment: BTreeMap<String, String>,
    ids: Arc<dyn IdSource>,
) -> Run {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let environment_says_terminal = environment.contains_key(TERMINAL);
    let mut sources = Sources::default();
    sources.environment = environment;
    let io = Io {
        sources,
        stdin: &mut stdin.as_bytes(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        is_terminal: environment_says_terminal,
        is_watched: false,
        store,
        clock: Arc::new(Frozen),
        ids,
    };
    let exit = calicoctl::run(arguments(line, words), io);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: exit.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn arguments(line: &str, words: &[&str]) -> Vec<OsString> {
    std::iter::once("calicoctl")
        .chain(line.split_whitespace())
        .chain(words.iter().copied())
        .map(OsString::from)
        .collect()
}

/// Compares with `tests/golden/<name>`; `BLESS=1` writes it anew.
pub(crate) fn golden(name: &str, actual: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{}: run with BLESS=1 if the change is meant", path.display());
}
