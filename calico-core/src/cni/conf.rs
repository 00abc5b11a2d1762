//! The network configuration, upstream's keys (`cni-plugin/pkg/types/types.go`) and a few of ours.
//!
//! Unknown keys are ignored, as CNI requires. Where upstream takes a string for a flag, a boolean is taken as well.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{CniError, ErrorCode, ValidAttachment};
use crate::net::Cidr;

/// A network configuration, as standard input gives it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NetConf {
    /// Version of the specification that the result is written in.
    #[serde(rename = "cniVersion", deserialize_with = "null_default")]
    pub cni_version: String,
    /// Network name: first part of the IPAM handle, and the profile of endpoints that are no pods.
    pub name: String,
    /// Plugin type.
    #[serde(rename = "type")]
    pub plugin_type: String,
    /// Which IPAM plugin, and its settings.
    #[serde(deserialize_with = "null_default")]
    pub ipam: IpamConf,
    /// MTU of the workload's interface; 0: the MTU file, then the kernel's default.
    pub mtu: u32,
    /// Name of the Node.
    pub nodename: String,
    /// File with the name of the Node.
    pub nodename_file: String,
    /// Whether that file may be absent.
    pub nodename_file_optional: bool,
    /// Older form of `nodename`, of lower priority than the file.
    pub hostname: String,
    /// Lock that serialises address management on a host.
    pub ipam_lock_file: String,
    /// `kubernetes`, `etcdv3`, or ours, `sqlite`.
    pub datastore_type: String,
    /// Ours: the file of the embedded datastore.
    pub datastore_path: String,
    /// etcd: comma-separated endpoints.
    pub etcd_endpoints: String,
    /// etcd: domain with SRV records.
    pub etcd_discovery_srv: String,
    /// etcd: client key file.
    pub etcd_key_file: String,
    /// etcd: client certificate file.
    pub etcd_cert_file: String,
    /// etcd: authority's certificate file.
    pub etcd_ca_cert_file: String,
    /// Policy source.
    #[serde(deserialize_with = "null_default")]
    pub policy: PolicyConf,
    /// Access to the API server.
    #[serde(deserialize_with = "null_default")]
    pub kubernetes: KubernetesConf,
    /// Settings inside the container.
    #[serde(deserialize_with = "null_default")]
    pub container_settings: ContainerSettings,
    /// Whether default routes are kept beside `ipam.routes`.
    pub include_default_routes: bool,
    /// `veth`, the default; `netkit` falls back to it.
    pub device_type: String,
    /// Longest wait for the endpoint's policy, in seconds; 0: none. Absent: ours, ten seconds if anything names an agent.
    pub policy_setup_timeout_seconds: Option<i64>,
    /// Ours: the agent's control socket.
    pub control_socket: String,
    /// Whether an ADD fails where no MTU is known.
    pub require_mtu_file: bool,
    /// Arguments by convention; Mesos' labels are in here.
    #[serde(deserialize_with = "null_default")]
    args: ConventionArgs,
    /// Result of the ADD, for CHECK and DEL.
    #[serde(rename = "prevResult")]
    pub prev_result: Option<Value>,
    /// GC: the attachments that the runtime knows.
    #[serde(rename = "cni.dev/valid-attachments", deserialize_with = "present")]
    valid_attachments: Option<Vec<ValidAttachment>>,
    /// The same under its older name; the reference library gives both.
    #[serde(rename = "cni.dev/attachments", deserialize_with = "present")]
    attachments: Option<Vec<ValidAttachment>>,
}

impl NetConf {
    /// The attachments that the runtime knows. A list that is not given is not an empty one.
    pub fn valid_attachments(&self) -> Result<&[ValidAttachment], CniError> {
        let given = self.valid_attachments.as_deref().or(self.attachments.as_deref());
        given.ok_or_else(|| CniError::new(ErrorCode::InvalidConfig, "GC needs cni.dev/valid-attachments"))
    }

    /// Labels that the runtime hands over (`args`, `org.apache.mesos`, `network_info`), as they are.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = &self.args.mesos.network_info.labels.labels;
        labels.iter().map(|label| (label.key.as_str(), label.value.as_str()))
    }
}

/// The `ipam` object.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct IpamConf {
    /// The IPAM plugin.
    #[serde(rename = "type")]
    pub plugin_type: String,
    /// Whether an IPv4 address is assigned; upstream: unless it is exactly `false`.
    #[serde(deserialize_with = "flag")]
    pub assign_ipv4: Option<bool>,
    /// Whether an IPv6 address is assigned; upstream: only if it is exactly `true`.
    #[serde(deserialize_with = "flag")]
    pub assign_ipv6: Option<bool>,
    /// IPv4 pools by name or prefix.
    #[serde(deserialize_with = "null_default")]
    pub ipv4_pools: Vec<String>,
    /// IPv6 pools by name or prefix.
    #[serde(deserialize_with = "null_default")]
    pub ipv6_pools: Vec<String>,
    /// What the container reaches by its gateway, in place of everything.
    #[serde(deserialize_with = "null_default")]
    pub routes: Vec<RouteConf>,
}

/// One of `ipam.routes`. A next hop is not looked at: it is always the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct RouteConf {
    /// Destination.
    pub dst: Cidr,
}

/// The `policy` object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PolicyConf {
    /// `k8s`: labels and profiles come from the API server. Empty: a profile of the network's name.
    #[serde(rename = "type", deserialize_with = "null_default")]
    pub source: String,
}

/// The `kubernetes` object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KubernetesConf {
    /// Credentials file.
    #[serde(deserialize_with = "null_default")]
    pub kubeconfig: String,
}

/// The `container_settings` object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContainerSettings {
    /// Whether the container may forward packets itself.
    pub allow_ip_forwarding: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct ConventionArgs {
    #[serde(rename = "org.apache.mesos", deserialize_with = "null_default")]
    mesos: Mesos,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct Mesos {
    #[serde(deserialize_with = "null_default")]
    network_info: NetworkInfo,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct NetworkInfo {
    #[serde(deserialize_with = "null_default")]
    labels: Labels,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(deserialize_with = "null_default")]
    labels: Vec<Label>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct Label {
    key: String,
    value: String,
}

/// Go takes `null` for any value.
fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A list that is given; `null` is Go's empty one.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    null_default(deserializer).map(Some)
}

/// `"true"`, `"false"`, true, false. Any other text is neither, as for upstream, which compares with one of them only.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        None => None,
        Some(Value::Bool(flag)) => Some(flag),
        Some(Value::String(text)) => match text.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        Some(other) => {
            return Err(de::Error::invalid_type(de::Unexpected::Other(&other.to_string()), &"\"true\" or \"false\""));
        }
    })
}
