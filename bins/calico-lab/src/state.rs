//! The directory of a network: its record, its files, and the right to change it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::args::{DEFAULT_NAME, DEFAULT_STATE};
use crate::error::{Context, LabError};
use crate::ownership;
use crate::plan::HostId;
use crate::record::Record;

/// The directory of one network.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    root: PathBuf,
    /// Options that name this network on a command line.
    options: String,
}

/// A holder removes the file once; each further try needs another holder that came and went.
const LOCK_TRIES: usize = 100;

/// The right to make, change or remove one network. Ends with the process, however it ends.
///
/// Its file goes with it. Whoever locks a file therefore has the right only if the file is still the one with that name.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: Flock<File>,
    path: PathBuf,
    made_parent: bool,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the file is closed: after that the name may be another holder's file. One that stays does no harm.
        let _ = fs::remove_file(&self.path);
        if let (true, Some(parent)) = (self.made_parent, self.path.parent()) {
            // Only if nothing is in it.
            let _ = fs::remove_dir(parent);
        }
    }
}

impl Lock {
    /// None when the file was removed meanwhile.
    fn take(path: &Path) -> io::Result<Option<Self>> {
        let parent = path.parent().unwrap_or_else(|| Path::new("/"));
        let made_parent = !parent.exists();
        match fs::create_dir_all(parent) {
            // It was there, and then its maker removed it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && !parent.is_file() => return Ok(None),
            made => made?,
        }
        let file = match File::options().create(true).truncate(false).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| io::Error::from(errno))?;
        if is_named(&file, path)? { Ok(Some(Self { _file: file, path: path.into(), made_parent })) } else { Ok(None) }
    }
}

/// Whether the path is still that of this file.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    match fs::metadata(path) {
        Ok(named) => Ok(identity(&named) == identity(&file.metadata()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl StateDir {
    /// Where the network `name` keeps its state below `base`.
    pub(crate) fn new(base: &Path, name: &str) -> Result<Self, LabError> {
        let root = base.join(name);
        // Unix socket paths end at 107 bytes.
        if root.as_os_str().len() > 70 {
            return Err(LabError::Usage(format!(
                "{} is too long for a state directory: sockets go below it",
                root.display()
            )));
        }
        let mut options = String::new();
        if name != DEFAULT_NAME {
            options.push_str(&format!(" --name {name}"));
        }
        if base != Path::new(DEFAULT_STATE) {
            options.push_str(&format!(" --state {}", base.display()));
        }
        Ok(Self { root, options })
    }

    /// A command line of this program about this network, to be typed. `words` begin with the verb.
    pub(crate) fn hint(&self, words: &str) -> String {
        let (verb, rest) = words.split_at(words.find(' ').unwrap_or(words.len()));
        format!("`calico-lab {verb}{}{rest}`", self.options)
    }

    /// The record of a network that is up, or how to make one.
    pub(crate) fn running(&self) -> Result<Record, LabError> {
        let record = self.read()?.filter(|record| record.complete && record.is_of_this_boot());
        let record = record.ok_or_else(|| LabError::new(format!("no network is up: {} makes one", self.hint("up"))))?;
        match ownership::strangers(&record)?.first() {
            None => Ok(record),
            Some(name) => Err(LabError::new(format!(
                "namespace {name} is not the one that this network made: {} removes the rest of the network",
                self.hint("down")
            ))),
        }
    }

    /// Locks the network, or says who has it.
    pub(crate) fn lock(&self) -> Result<Lock, LabError> {
        let path = self.root.with_extension("calico-lab-lock");
        for _ in 0..LOCK_TRIES {
            match Lock::take(&path) {
                Ok(Some(lock)) => return Ok(lock),
                // The file's last holder removed it, or its directory, under our hands.
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(self.is_locked()),
                Err(error) => return Err(error).context(|| format!("cannot lock {}", path.display())),
            }
        }
        Err(self.is_locked())
    }

    fn is_locked(&self) -> LabError {
        let network = self.root.display();
        LabError::new(format!("another calico-lab is at work on {network}: wait for it, or choose another --name"))
    }

    /// The record, if the network has one. A record that does not parse is of another version of this program.
    pub(crate) fn read(&self) -> Result<Option<Record>, LabError> {
        let path = self.record();
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(|| format!("cannot read {}", path.display())),
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).context(|| {
                format!(
                    "cannot understand {}, which another version of this program wrote: remove what it names by hand",
                    path.display()
                )
            }),
        }
    }

    /// Replaces the record, whole or not at all.
    pub(crate) fn write(&self, record: &Record) -> Result<(), LabError> {
        let path = self.record();
        let new = path.with_extension("new");
        let written = serde_json::to_vec_pretty(record).map_err(io::Error::from).and_then(|bytes| {
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            fs::rename(&new, &path)
        });
        written.context(|| format!("cannot write {}", path.display()))
    }

    /// Makes the directories of a new network. One that is there already and has no record is not ours, whatever it holds.
    pub(crate) fn create(&self, record: &Record) -> Result<(), LabError> {
        let failed = |directory: &Path| format!("cannot create {}", directory.display());
        let parent = self.root.parent().unwrap_or_else(|| Path::new("/"));
        fs::create_dir_all(parent).context(|| failed(parent))?;
        match fs::create_dir(&self.root) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(LabError::new(format!(
                    "{} exists and is not this lab's: remove it, or choose another --name or --state",
                    self.root.display()
                )));
            }
            made => made.context(|| failed(&self.root))?,
        }
        // Before anything is in it: from now on it is known as ours.
        self.write(record)?;
        for directory in [self.programs(), self.store()].into_iter().chain(record.plan.hosts().map(|h| self.host(h))) {
            fs::create_dir(&directory).context(|| failed(&directory))?;
        }
        Ok(())
    }

    /// Removes everything; the record last, so that a removal that is interrupted or fails can be done again.
    pub(crate) fn remove(&self) -> Result<(), LabError> {
        self.remove_files().context(|| format!("cannot remove {}", self.root.display()))
    }

    fn remove_files(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            match entry.file_type()?.is_dir() {
                _ if path == self.record() => {}
                true => fs::remove_dir_all(path)?,
                false => fs::remove_file(path)?,
            }
        }
        fs::remove_dir_all(&self.root)
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    fn record(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// Where Calico's programs are, as links to this one.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// One of Calico's programs.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs().join(name)
    }

    /// Where the datastore keeps its files.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// What on a real host would be spread over `/var/lib/calico`, `/var/run/calico` and `/var/log/calico`.
    pub(crate) fn host(&self, host: HostId) -> PathBuf {
        self.root.join(host.to_string())
    }

    /// A host's control socket.
    pub(crate) fn socket(&self, host: HostId) -> PathBuf {
        self.host(host).join("calico-node.sock")
    }

    /// A host's node name file.
    pub(crate) fn nodename(&self, host: HostId) -> PathBuf {
        self.host(host).join("nodename")
    }

    /// What a host's agent says.
    pub(crate) fn agent_log(&self, host: HostId) -> PathBuf {
        self.host(host).join("calico-node.log")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::args::DatastoreKind;
    use crate::plan::{Plan, PodId};
    use crate::process::ProcessId;
    use crate::record::{Agent, AttachedPod};

    fn record() -> Record {
        let plan = Plan { name: "t".into(), hosts: 1, pods: 1, datastore: DatastoreKind::Sqlite };
        let pod = PodId { host: HostId(1), number: 1 };
        Record {
            agents: vec![Agent { host: HostId(1), process: ProcessId { pid: 1, started: 2 } }],
            pods: vec![AttachedPod { pod, address: [10, 112, 0, 1].into(), add_ms: 1.5 }],
            namespaces: [("t-h1".to_owned(), (4, 5))].into(),
            ..Record::new(plan)
        }
    }

    #[test]
    fn a_record_survives_and_goes() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        assert_eq!(state.read().unwrap(), None);
        state.create(&record()).unwrap();
        assert_eq!(state.read().unwrap(), Some(record()));
        state.remove().unwrap();
        assert_eq!(state.read().unwrap(), None);
        state.remove().unwrap();
    }

    #[test]
    fn a_foreign_record_is_not_taken_for_none() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        state.create(&record()).unwrap();
        fs::write(state.record(), "{}").unwrap();
        assert!(state.read().is_err());
    }

    #[test]
    fn a_directory_of_somebody_else_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        fs::create_dir(state.path()).unwrap();
        fs::write(state.path().join("letter"), "dear").unwrap();
        let error = state.create(&record()).unwrap_err();
        assert!(error.to_string().contains("exists and is not this lab's"), "{error}");
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
        assert!(!base.path().join("t/state.json").exists());
    }

    #[test]
    fn what_an_earlier_boot_left_is_not_up() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        let up = Record { complete: true, ..record() };
        state.create(&up).unwrap();
        assert!(state.running().is_ok());
        state.write(&Record { boot: "earlier".into(), ..up }).unwrap();
        assert!(state.running().is_err());
    }

    #[test]
    fn one_at_a_time() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        let lock = state.lock().unwrap();
        assert!(state.lock().unwrap_err().to_string().contains("another calico-lab"));
        drop(lock);
        drop(state.lock().unwrap());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0, "the lock's file is left");
        drop(StateDir::new(&base.path().join("made"), "t").unwrap().lock().unwrap());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0, "the directory made for it is left");
    }

    /// Whoever opened the file before its holder removed it, and locks it after, holds nothing.
    #[test]
    fn a_file_that_was_removed_is_no_lock() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("t.lock");
        let lock = Lock::take(&path).unwrap().unwrap();
        let late = File::options().write(true).open(&path).unwrap();
        assert!(is_named(&late, &path).unwrap());
        drop(lock);
        let late = Flock::lock(late, FlockArg::LockExclusiveNonblock).unwrap();
        assert!(!is_named(&late, &path).unwrap());
        let _next = Lock::take(&path).unwrap().unwrap();
        assert!(!is_named(&late, &path).unwrap());
    }

    #[test]
    fn a_lock_is_held_by_one_thread_at_a_time_and_leaves_no_file() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(&base.path().join("made"), "t").unwrap();
        let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _lock = match state.lock() {
                            Ok(lock) => lock,
                            Err(error) => {
                                assert!(
                                    error.to_string().contains("another calico-lab"),
                                    "{}",
                                    calico_cmd::output::chain(&error)
                                );
                                continue;
                            }
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(taken.load(Ordering::SeqCst) > 0);
        assert!(!base.path().join("made/t.calico-lab-lock").exists());
    }

    #[test]
    fn hints_name_the_network_unless_it_is_the_usual_one() {
        let hint = |base: &str, name| StateDir::new(Path::new(base), name).unwrap().hint("up");
        assert_eq!(hint(DEFAULT_STATE, DEFAULT_NAME), "`calico-lab up`");
        assert_eq!(hint(DEFAULT_STATE, "x"), "`calico-lab up --name x`");
        let exec = StateDir::new(Path::new(DEFAULT_STATE), "x").unwrap().hint("exec h1 -- true");
        assert_eq!(exec, "`calico-lab exec --name x h1 -- true`");
        assert_eq!(hint("/tmp/s", DEFAULT_NAME), "`calico-lab up --state /tmp/s`");
    }

    #[test]
    fn sockets_must_fit() {
        assert!(StateDir::new(Path::new(&"/x".repeat(60)), "t").is_err());
    }
}
