//! Endpoints of workloads and hosts.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use super::super as v3;
use super::rules::NAMESPACE;
use super::{Older, RuleProtocol, names};
use crate::net::{Cidr, InterfaceName, Mac, Protocol};
use crate::resource::model::model;
use crate::resource::{Fault, Metadata, NAMESPACE_LABEL, Resource, WorkloadEndpointName};
use crate::text::{Text, TextMap};

model! {
    /// `hostEndpoint`.
    pub struct HostEndpoint {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: HostEndpointMetadata, required;
        /// What is wanted.
        "spec" spec: HostEndpointSpec;
    }
}

model! {
    /// What identifies a `hostEndpoint`.
    pub struct HostEndpointMetadata {
        /// Its name on the node.
        "name" name: String, required;
        /// The node.
        "node" node: String, required;
        /// Labels that selectors match.
        "labels" labels: TextMap;
    }
}

model! {
    /// Specification of a `hostEndpoint`.
    pub struct HostEndpointSpec {
        /// The interface.
        "interfaceName" interface_name: String;
        /// Addresses that are expected on it.
        "expectedIPs" expected_ips: Vec<IpAddr>;
        /// Profiles.
        "profiles" profiles: Vec<String>;
        /// Ports with a name.
        "ports" ports: Vec<EndpointPort>;
    }
}

model! {
    /// A port with a name.
    pub struct EndpointPort {
        /// Its name in rules.
        "name" name: String, required;
        /// Its protocol.
        "protocol" protocol: Option<RuleProtocol>, required;
        /// Its number.
        "port" port: Option<u16>, required;
    }
}

impl Older for HostEndpoint {
    fn convert(self) -> Result<Resource, Fault> {
        let HostEndpointMetadata { name, node, labels } = self.metadata;
        let HostEndpointSpec { interface_name, mut expected_ips, profiles, ports } = self.spec;
        let node = names::normalised(&node);
        // IPv4 first, each in the order given.
        expected_ips.sort_by_key(IpAddr::is_ipv6);
        let port = |port: EndpointPort| v3::HostPort {
            name: port.name,
            protocol: port.protocol.map(|protocol| protocol.0),
            port: port.port,
        };
        let metadata = Metadata { name: names::converted(&format!("{node}.{name}")), labels, ..Metadata::default() };
        let spec = v3::HostEndpointSpec {
            node,
            interface_name,
            expected_ips,
            profiles: profiles.iter().map(|name| names::profile(name)).collect(),
            ports: ports.into_iter().map(port).collect(),
        };
        Ok(Resource::HostEndpoint(v3::Object { metadata, spec }))
    }
}

model! {
    /// `workloadEndpoint`.
    pub struct WorkloadEndpoint {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: WorkloadEndpointMetadata, required;
        /// What is wanted.
        "spec" spec: WorkloadEndpointSpec, required;
    }
}

model! {
    /// What identifies a `workloadEndpoint`.
    pub struct WorkloadEndpointMetadata {
        /// Interface inside the workload.
        "name" name: String, required;
        /// The workload; of `k8s`, namespace and pod with a dot between.
        "workload" workload: String, required;
        /// Orchestrator that made it.
        "orchestrator" orchestrator: String, required;
        /// Host it runs on.
        "node" node: String, required;
        /// Container of a pod.
        "activeInstanceID" active_instance_id: String;
        /// Labels that selectors match.
        "labels" labels: TextMap;
    }
}

model! {
    /// Specification of a `workloadEndpoint`.
    pub struct WorkloadEndpointSpec {
        /// Addresses.
        "ipNetworks" ip_networks: Vec<Cidr>;
        /// Floating addresses.
        "ipNATs" ip_nats: Vec<v3::IpNat>;
        /// IPv4 gateway as the workload sees it.
        "ipv4Gateway" ipv4_gateway: Option<IpAddr>;
        /// IPv6 gateway as the workload sees it.
        "ipv6Gateway" ipv6_gateway: Option<IpAddr>;
        /// Profiles, in order.
        "profiles" profiles: Vec<String>;
        /// Host-side interface.
        "interfaceName" interface_name: Option<InterfaceName>, required;
        /// Workload-side Ethernet address.
        "mac" mac: Option<Mac>;
        /// Named ports.
        "ports" ports: Vec<EndpointPort>;
        /// Source prefixes the workload may use although they are not its own.
        "allow_spoofed_source_prefixes" allow_spoofed_source_prefixes: Vec<Cidr>;
    }
}

impl Older for WorkloadEndpoint {
    fn convert(self) -> Result<Resource, Fault> {
        let WorkloadEndpointMetadata { name, workload, orchestrator, node, active_instance_id, mut labels } =
            self.metadata;
        let given = self.spec;
        let is_v6 = |address: &str| address.contains(':');
        let (mut ip_networks, mut ip_nats) = (given.ip_networks, given.ip_nats);
        ip_networks.sort_by_key(|network| network.address().is_ipv6());
        ip_nats.sort_by_key(|nat| is_v6(&nat.internal_ip));
        let mut spec = v3::WorkloadEndpointSpec {
            orchestrator: names::converted(&orchestrator).into(),
            node: names::normalised(&node).into(),
            endpoint: names::converted(&name).into(),
            ip_networks,
            ip_nats,
            ipv4_gateway: given.ipv4_gateway,
            ipv6_gateway: given.ipv6_gateway,
            profiles: given.profiles.iter().map(|name| names::profile(name).into()).collect(),
            interface_name: given.interface_name,
            mac: given.mac,
            ports: given.ports.into_iter().map(port).collect(),
            allow_spoofed_source_prefixes: given.allow_spoofed_source_prefixes,
            ..v3::WorkloadEndpointSpec::default()
        };
        let mut namespace = "default".to_string();
        match orchestrator.as_str() {
            "k8s" => {
                let Some((of, pod)) = workload.split_once('.') else {
                    let reason = "the workload was not added through the CNI plugin: expected NAMESPACE.POD";
                    return Err(Fault::value("metadata.workload", Some(workload), reason));
                };
                (namespace, spec.pod, spec.container_id) = (of.into(), pod.into(), active_instance_id.into());
            }
            "cni" => spec.container_id = workload.into(),
            "libnetwork" => spec.workload = orchestrator.into(),
            _ => spec.workload = names::converted(&workload).into(),
        }
        if let Some(namespace) = labels.remove(NAMESPACE) {
            labels.insert(NAMESPACE_LABEL.into(), namespace);
        }
        let name = WorkloadEndpointName::of(&spec)
            .map_err(|error| Fault::value("metadata.name", Some(name), error))?
            .to_string();
        let metadata = Metadata { name, namespace: Some(namespace), labels, ..Metadata::default() };
        Ok(Resource::WorkloadEndpoint(v3::Object { metadata, spec }))
    }
}

/// Both are mandatory and there.
fn port(port: EndpointPort) -> v3::EndpointPort {
    v3::EndpointPort {
        name: port.name.into(),
        protocol: port.protocol.map_or(Protocol::TCP, |protocol| protocol.0),
        port: port.port.unwrap_or_default(),
        host_port: 0,
        host_ip: Text::default(),
    }
}
