//! The address plan and the names of everything, from the size alone.
//!
//! One Ethernet segment, 10.111.0.0/24, with host `hN` at 10.111.0.N and the segment's own bridge at 10.111.0.254; workloads take
//! addresses from the pool 10.112.0.0/16. Pods of host `hN` are `hN-p1`, `hN-p2` … All of it exists inside namespaces only, so it
//! cannot collide with the machine's own networks.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::args::{DatastoreKind, SizeArgs};

/// Range that workload addresses come from.
pub(crate) const POOL: &str = "10.112.0.0/16";
/// Prefix length of the segment.
pub(crate) const SEGMENT_LENGTH: u8 = 24;
/// The segment's own address: where a shared datastore server listens.
pub(crate) const SEGMENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 111, 0, 254);

/// A network to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Name, the first part of every namespace's name.
    pub(crate) name: String,
    /// Number of hosts.
    pub(crate) hosts: u8,
    /// Pods on each host.
    pub(crate) pods: u8,
    /// Where objects are kept.
    pub(crate) datastore: DatastoreKind,
}

/// A host, by number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct HostId(pub(crate) u8);

/// A pod, by host and number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct PodId {
    /// Its host.
    pub(crate) host: HostId,
    /// Number on that host.
    pub(crate) number: u8,
}

/// Part that a pod plays in the policy set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Takes requests from everyone.
    Frontend,
    /// Takes requests from frontends.
    Backend,
    /// Watches everyone.
    Monitor,
}

impl Plan {
    pub(crate) fn new(name: &str, size: SizeArgs) -> Self {
        Self { name: name.into(), hosts: size.hosts, pods: size.pods, datastore: size.datastore }
    }

    /// All hosts, in order.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (1..=self.hosts).map(HostId)
    }

    /// All pods, host by host.
    pub(crate) fn pods(&self) -> impl Iterator<Item = PodId> + use<> {
        let pods = self.pods;
        self.hosts().flat_map(move |host| (1..=pods).map(move |number| PodId { host, number }))
    }

    /// Name of the segment's namespace.
    pub(crate) fn segment_netns(&self) -> String {
        format!("{}-net", self.name)
    }

    /// Name of a host's namespace.
    pub(crate) fn host_netns(&self, host: HostId) -> String {
        format!("{}-{host}", self.name)
    }

    /// Name of a pod's namespace.
    pub(crate) fn pod_netns(&self, pod: PodId) -> String {
        format!("{}-{pod}", self.name)
    }

    /// Names of all namespaces, the pods' first.
    pub(crate) fn all_netns(&self) -> Vec<String> {
        let mut names: Vec<String> = self.pods().map(|pod| self.pod_netns(pod)).collect();
        names.extend(self.hosts().map(|host| self.host_netns(host)));
        names.push(self.segment_netns());
        names
    }
}

impl HostId {
    /// Its address on the segment.
    pub(crate) const fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 111, 0, self.0)
    }
}

impl PodId {
    /// The part it plays: roles go round over all pods, so that each host has several and each role is on several hosts.
    pub(crate) const fn role(self) -> Role {
        match (self.host.0 + self.number) % 3 {
            2 => Role::Frontend,
            0 => Role::Backend,
            _ => Role::Monitor,
        }
    }

    /// The container id that the CNI plugin is told.
    pub(crate) fn container_id(self) -> String {
        format!("{self}").replace('-', "")
    }
}

impl Role {
    /// Value of the label `role`.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Backend => "backend",
            Self::Monitor => "monitor",
        }
    }
}

impl std::fmt::Display for HostId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "h{}", self.0)
    }
}

impl std::fmt::Display for PodId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-p{}", self.host, self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan() -> Plan {
        Plan { name: "t".into(), hosts: 3, pods: 2, datastore: DatastoreKind::Sqlite }
    }

    #[test]
    fn names_are_distinct() {
        let largest = Plan { hosts: 32, pods: 32, ..plan() };
        let names: BTreeSet<String> = largest.all_netns().into_iter().collect();
        assert_eq!(names.len(), 32 * 32 + 32 + 1);
        let containers: BTreeSet<String> = largest.pods().map(PodId::container_id).collect();
        assert_eq!(containers.len(), 32 * 32);
    }

    #[test]
    fn every_role_is_played_on_the_default_network() {
        let roles: BTreeSet<&str> = plan().pods().map(|pod| pod.role().label()).collect();
        assert_eq!(roles.len(), 3);
    }
}
