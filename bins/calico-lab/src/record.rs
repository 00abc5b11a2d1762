//! What a running network writes down, so that another process can look into it, or remove it after a `kill -9`.
//!
//! A namespace is written down, by its identity, before it gets its name; a process after it was started. So whatever exists is in
//! the record, or lives in a namespace that is. What is in neither is not the network's own and is left alone.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::plan::{HostId, Plan, PodId};
use crate::process::ProcessId;

/// The record of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What it is to be.
    pub(crate) plan: Plan,
    /// Whether it is complete and was left running on purpose.
    pub(crate) complete: bool,
    /// The boot of the machine that all of it belongs to. Numbers of processes and namespaces begin anew with the next.
    pub(crate) boot: String,
    /// Its namespaces by name, each with the identity of the one that was made for it.
    pub(crate) namespaces: BTreeMap<String, Identity>,
    /// Its agents.
    pub(crate) agents: Vec<Agent>,
    /// Further processes: a datastore server.
    pub(crate) servers: Vec<ProcessId>,
    /// Attached pods.
    pub(crate) pods: Vec<AttachedPod>,
}

/// Device and inode of a namespace.
pub(crate) type Identity = (u64, u64);

impl Record {
    /// Of a network of which nothing was made yet.
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            complete: false,
            boot: boot(),
            namespaces: BTreeMap::new(),
            agents: Vec::new(),
            servers: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// Whether what it names can still be there.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
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
