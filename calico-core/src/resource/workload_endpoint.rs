//! `WorkloadEndpoint`: one interface of a workload.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::net::{Cidr, InterfaceName, Mac, Protocol};

/// Specification of a `WorkloadEndpoint`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct WorkloadEndpointSpec {
    /// Orchestrator that made it: `cni`, `k8s`, `libnetwork`, `openstack` …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub orchestrator: String,
    /// Workload name, for orchestrators other than `k8s`, `cni` and `libnetwork`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// Host it runs on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Container id, from the CNI runtime.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// Pod name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Interface name inside the workload.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Kubernetes service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// Addresses, as host prefixes.
    #[serde(rename = "ipNetworks", skip_serializing_if = "Vec::is_empty")]
    pub ip_networks: Vec<Cidr>,
    /// IPv4 gateway as the workload sees it.
    #[serde(rename = "ipv4Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<IpAddr>,
    /// IPv6 gateway as the workload sees it.
    #[serde(rename = "ipv6Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<IpAddr>,
    /// Profiles, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// Host-side interface. Required: an object without it does not decode as usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_name: Option<InterfaceName>,
    /// Workload-side Ethernet address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// Named ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointPort>,
    /// Source prefixes the workload may use although they are not its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_spoofed_source_prefixes: Vec<Cidr>,
}

/// A port that rules may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct EndpointPort {
    /// Name; may be empty only with a host port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Protocol, one that has ports.
    pub protocol: Protocol,
    /// Port number.
    pub port: u16,
    /// Port of the host that is forwarded to it; 0 for none.
    #[serde(default)]
    pub host_port: u16,
    /// Address of the host that is forwarded; empty for all.
    #[serde(default, rename = "hostIP")]
    pub host_ip: String,
}
