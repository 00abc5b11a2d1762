//! What a running network writes down, so that another process can look into it, or remove it after a `kill -9`.
//!
//! The record is written before each thing is made, and again after: whatever exists is in it, or in a namespace that is.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::error::{Context, LabError};
use crate::plan::{HostId, Plan, PodId};
use crate::process::ProcessId;

/// The record of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What it is to be.
    pub(crate) plan: Plan,
    /// Whether it is complete and was left running on purpose.
    pub(crate) complete: bool,
    /// Its agents.
    pub(crate) agents: Vec<Agent>,
    /// Further processes: a datastore server.
    pub(crate) servers: Vec<ProcessId>,
    /// Attached pods.
    pub(crate) pods: Vec<AttachedPod>,
}

/// A running agent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Agent {
    /// Its host.
    pub(crate) host: HostId,
    /// Its process.
    pub(crate) process: ProcessId,
}

/// An attached pod.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttachedPod {
    /// Which.
    pub(crate) pod: PodId,
    /// Its address.
    pub(crate) address: std::net::IpAddr,
    /// How long the CNI plugin took, in milliseconds.
    pub(crate) add_ms: f64,
}

/// The directory of one network.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    root: PathBuf,
}

/// The right to make, change or remove one network. Ends with the process, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: Flock<File>,
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
        Ok(Self { root })
    }

    /// Locks the network, or says who has it.
    pub(crate) fn lock(&self) -> Result<Lock, LabError> {
        let path = self.root.with_extension("lock");
        let parent = path.parent().unwrap_or_else(|| Path::new("/"));
        fs::create_dir_all(parent).context(|| format!("cannot create {}", parent.display()))?;
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.context(|| format!("cannot create {}", path.display()))?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => {
                LabError::new("another calico-lab is at work on this network: wait for it, or choose another --name")
            }
            errno => LabError::Failed { what: format!("cannot lock {}", path.display()), source: Some(errno.into()) },
        })?;
        Ok(Lock { _file: file })
    }

    /// The record, if the network has one. A record that does not parse is of another version of this program.
    pub(crate) fn read(&self) -> Result<Option<Record>, LabError> {
        let path = self.record();
        match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
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
        let written = serde_json::to_vec_pretty(record).map_err(std::io::Error::from).and_then(|bytes| {
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            fs::rename(&new, &path)
        });
        written.context(|| format!("cannot write {}", path.display()))
    }

    /// Makes the directories of a network of this plan.
    pub(crate) fn create(&self, plan: &Plan) -> Result<(), LabError> {
        let mut directories = vec![self.root.clone(), self.programs(), self.store()];
        directories.extend(plan.hosts().map(|host| self.host(host)));
        for directory in directories {
            fs::create_dir_all(&directory).context(|| format!("cannot create {}", directory.display()))?;
        }
        Ok(())
    }

    /// Removes everything.
    pub(crate) fn remove(&self) -> Result<(), LabError> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context(|| format!("cannot remove {}", self.root.display()))
            }
            _ => Ok(()),
        }
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
    use super::*;
    use crate::cli::DatastoreKind;

    fn record() -> Record {
        let plan = Plan { name: "t".into(), hosts: 1, pods: 1, datastore: DatastoreKind::Sqlite };
        let pod = PodId { host: HostId(1), number: 1 };
        Record {
            plan,
            complete: false,
            agents: vec![Agent { host: HostId(1), process: ProcessId { pid: 1, started: 2 } }],
            servers: Vec::new(),
            pods: vec![AttachedPod { pod, address: [10, 112, 0, 1].into(), add_ms: 1.5 }],
        }
    }

    #[test]
    fn a_record_survives_and_goes() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        assert_eq!(state.read().unwrap(), None);
        state.create(&record().plan).unwrap();
        state.write(&record()).unwrap();
        assert_eq!(state.read().unwrap(), Some(record()));
        state.remove().unwrap();
        assert_eq!(state.read().unwrap(), None);
        state.remove().unwrap();
    }

    #[test]
    fn a_foreign_record_is_not_taken_for_none() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        state.create(&record().plan).unwrap();
        fs::write(state.record(), "{}").unwrap();
        assert!(state.read().is_err());
    }

    #[test]
    fn one_at_a_time() {
        let base = tempfile::tempdir().unwrap();
        let state = StateDir::new(base.path(), "t").unwrap();
        let lock = state.lock().unwrap();
        assert!(state.lock().unwrap_err().to_string().contains("another calico-lab"));
        drop(lock);
        state.lock().unwrap();
    }

    #[test]
    fn sockets_must_fit() {
        assert!(StateDir::new(Path::new(&"/x".repeat(60)), "t").is_err());
    }
}
