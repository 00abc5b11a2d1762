//! Names that follow from a request: of the endpoint, its namespace, its host interface.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use sha1::{Digest, Sha1};

use super::{CniError, ErrorCode, Request};
use crate::net::InterfaceName;
use crate::resource::{NAMESPACE_LABEL, WorkloadEndpointName};

/// How much of a hash or container id goes into a host interface's name: all that fits behind `cali`.
const SUFFIX: usize = 11;
/// Namespace of an endpoint that is no pod's, unless a label says otherwise.
const DEFAULT_NAMESPACE: &str = "default";

/// Who asks for an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Node.
    pub node: Arc<str>,
    /// Orchestrator.
    pub orchestrator: Orchestrator,
    /// Namespace of the endpoint.
    pub namespace: String,
    /// Container.
    pub container_id: String,
    /// Interface inside it.
    pub interface: InterfaceName,
    /// Name of the endpoint.
    pub endpoint_name: WorkloadEndpointName,
    /// Host's end of the pair.
    pub host_interface: InterfaceName,
}

/// Where a workload comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the plugin tells these two apart")]
pub enum Orchestrator {
    /// Kubernetes: the runtime gave a pod's name and namespace.
    Kubernetes {
        /// Pod.
        pod: String,
    },
    /// Any other runtime.
    Cni,
}

impl Orchestrator {
    /// Its name in endpoints.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Kubernetes { .. } => "k8s",
            Self::Cni => "cni",
        }
    }
}

impl Identity {
    /// The names for a request on a node. `prefix` begins every host interface's name, usually `cali`.
    pub fn of(request: &Request, node: &str, prefix: &str) -> Result<Self, CniError> {
        let interface =
            request.interface.ok_or_else(|| CniError::new(ErrorCode::InvalidEnvironment, "CNI_IFNAME is needed"))?;
        let args = &request.args;
        let container_id = request.container_id.clone();
        let (orchestrator, namespace) = if args.pod_name.is_empty() || args.pod_namespace.is_empty() {
            (Orchestrator::Cni, namespace(request))
        } else {
            (Orchestrator::Kubernetes { pod: args.pod_name.clone() }, args.pod_namespace.clone())
        };
        let workload = match &orchestrator {
            Orchestrator::Kubernetes { pod } => pod,
            Orchestrator::Cni => &container_id,
        };
        let endpoint_name = WorkloadEndpointName::new(node, orchestrator.as_str(), workload, interface.as_str())
            .map_err(|error| {
                CniError::new(ErrorCode::InvalidEnvironment, "cannot name the workload endpoint")
                    .with_details(error.to_string())
            })?;
        Ok(Self {
            node: node.into(),
            host_interface: host_interface(&orchestrator, &namespace, &container_id, prefix)?,
            orchestrator,
            namespace,
            container_id,
            interface,
            endpoint_name,
        })
    }
}

fn namespace(request: &Request) -> String {
    let labelled = request.conf.labels().find(|(key, _)| *key == NAMESPACE_LABEL).map(|(_, value)| value);
    let candidates = [labelled.unwrap_or_default(), request.args.test_namespace.as_str()];
    candidates.into_iter().find(|name| !name.is_empty()).unwrap_or(DEFAULT_NAMESPACE).to_string()
}

/// Upstream's rule. A pod: the hash of namespace and name, so that it is the same for every incarnation of the pod. Any other
/// container: the beginning of its id.
fn host_interface(
    orchestrator: &Orchestrator,
    namespace: &str,
    container_id: &str,
    prefix: &str,
) -> Result<InterfaceName, CniError> {
    let suffix: String = match orchestrator {
        Orchestrator::Kubernetes { pod } => pod_suffix(namespace, pod),
        Orchestrator::Cni => container_id.chars().take(SUFFIX).collect(),
    };
    format!("{prefix}{suffix}").parse().map_err(|error: crate::net::InterfaceNameError| {
        CniError::new(ErrorCode::InvalidConfig, format!("interface prefix {prefix:?} is too long or odd"))
            .with_details(error.to_string())
    })
}

/// What comes behind the prefix in the name of a pod's host interface.
pub(crate) fn pod_suffix(namespace: &str, pod: &str) -> String {
    let hash = Sha1::digest(format!("{namespace}.{pod}").as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>().chars().take(SUFFIX).collect()
}
