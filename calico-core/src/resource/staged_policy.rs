//! `StagedNetworkPolicy` and `StagedGlobalNetworkPolicy`: policies that are tried out; they are evaluated and never enforced.

use serde::{Deserialize, Serialize};

use super::model::words;
use super::{GlobalNetworkPolicySpec, Kind, NetworkPolicySpec, Resource};

/// Specification of a `StagedNetworkPolicy`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct StagedNetworkPolicySpec {
    /// What becomes of the policy of the same name; `Set` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_action: Option<StagedAction>,
    /// The policy that it would become.
    #[serde(flatten)]
    pub policy: NetworkPolicySpec,
}

/// Specification of a `StagedGlobalNetworkPolicy`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct StagedGlobalNetworkPolicySpec {
    /// What becomes of the policy of the same name; `Set` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_action: Option<StagedAction>,
    /// The policy that it would become.
    #[serde(flatten)]
    pub policy: GlobalNetworkPolicySpec,
}

impl Resource {
    /// What a staged policy says is to become of the policy that it has the name of.
    pub const fn staged_action(&self) -> Option<StagedAction> {
        match self {
            Self::StagedNetworkPolicy(object) => object.spec.staged_action,
            Self::StagedGlobalNetworkPolicy(object) => object.spec.staged_action,
            Self::StagedKubernetesNetworkPolicy(object) => object.spec.staged_action,
            _ => None,
        }
    }
}

impl Kind {
    /// Whether it is a policy that is only tried out.
    pub const fn is_staged_policy(self) -> bool {
        matches!(
            self,
            Self::StagedGlobalNetworkPolicy | Self::StagedNetworkPolicy | Self::StagedKubernetesNetworkPolicy
        )
    }
}

words! {
    /// What becomes of the policy that a staged one has the name of.
    pub enum StagedAction {
        /// It is made, or replaced.
        Set,
        /// It is deleted.
        Delete,
        /// It is learned from traffic.
        Learn,
        /// Nothing.
        Ignore,
    }
}
