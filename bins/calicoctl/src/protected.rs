//! Resources that are not the operator's to write, in upstream's words: the nodes keep `ClusterInformation`, and Kubernetes the policies
//! that are mirrored from it.

use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::client::Intent;

/// Policies whose name begins so are mirrored from Kubernetes.
const KUBERNETES_POLICY: &str = "knp.default.";

/// What is to be done with a resource.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Apply,
    Create,
    /// Also to patch and to label it.
    Replace,
    Delete,
}

impl From<Intent> for Operation {
    fn from(intent: Intent) -> Self {
        match intent {
            Intent::Create => Self::Create,
            Intent::Update | Intent::Mend => Self::Replace,
            Intent::Apply => Self::Apply,
        }
    }
}

impl Operation {
    /// As upstream names it where it refuses it.
    const fn words(self) -> &'static str {
        match self {
            Self::Apply | Self::Create => "create or apply",
            Self::Replace => "apply or replace",
            Self::Delete => "delete",
        }
    }
}

/// Whether it is a policy that is mirrored from Kubernetes.
pub(crate) fn is_mirrored(key: &ResourceKey) -> bool {
    key.kind() == Kind::NetworkPolicy && key.name().is_some_and(|name| name.starts_with(KUBERNETES_POLICY))
}

/// Why an operation is refused whatever is stored; none if it is not.
pub(crate) fn refusal(operation: Operation, key: &ResourceKey) -> Option<String> {
    let words = operation.words();
    match key.kind() {
        Kind::ClusterInformation => Some(match operation {
            Operation::Apply => {
                "operation apply is not supported on ClusterInformation: resource is readonly".to_owned()
            }
            _ => format!("operation {words} is not supported on ClusterInformation"),
        }),
        _ if is_mirrored(key) => Some(format!(
            "operation {words} is not supported on {key}: kubernetes network policies must be managed through the kubernetes API"
        )),
        _ => None,
    }
}
