//! Host endpoints, and objects of which there is one.

use super::Checker;
use crate::resource::path::Path;
use crate::resource::{HostEndpointSpec, Kind};

impl Checker {
    pub(super) fn host_endpoint(&mut self, endpoint: &HostEndpointSpec, spec: &Path<'_>) {
        if !self.is_manifest() {
            return;
        }
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

    /// Objects that describe the cluster have one name.
    pub(super) fn only_default(&mut self, kind: Kind, name: &str) {
        if self.is_manifest() && name != "default" {
            self.refuse(
                Path::Root.field("metadata").field("name"),
                name,
                format_args!("the only {kind} is called default"),
            );
        }
    }
}
