//! Host endpoints, and machines on their way between hosts.

use super::Checker;
use crate::resource::path::Path;
use crate::resource::{HostEndpointSpec, LiveMigrationSpec};

impl Checker {
    pub(super) fn host_endpoint(&mut self, endpoint: &HostEndpointSpec, spec: &Path<'_>) {
        if endpoint.interface_name.is_empty() && endpoint.expected_ips.is_empty() {
            self.refuse_field(spec.field("interfaceName"), "give the interface's name, or expectedIPs");
        }
        let ports = spec.field("ports");
        for (index, port) in endpoint.ports.iter().enumerate() {
            if let Some(protocol) = port.protocol.filter(|protocol| !protocol.has_ports()) {
                self.refuse(ports.index(index).field("protocol"), protocol, "give TCP, UDP or SCTP");
            }
        }
    }

    /// Both ends of a migration are told in one way each.
    pub(super) fn live_migration(&mut self, migration: &LiveMigrationSpec, spec: &Path<'_>) {
        let source = migration.source.as_ref();
        if source.is_some_and(|source| source.workload.is_some() == source.workload_endpoint.is_some()) {
            self.refuse_field(spec.field("source"), "give exactly one of workload and workloadEndpoint");
        }
        let target = migration.target.as_ref();
        if target.is_some_and(|target| target.selector.is_some() == target.workload_endpoint.is_some()) {
            self.refuse_field(spec.field("target"), "give exactly one of selector and workloadEndpoint");
        }
    }
}
