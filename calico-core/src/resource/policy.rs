//! `NetworkPolicy` and `GlobalNetworkPolicy`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Rule;

/// Specification of a `NetworkPolicy`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct NetworkPolicySpec {
    /// Tier; empty means `default`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tier: String,
    /// Position in the tier; lower comes first, absent comes last, ties go by name. Minus infinity stands for one that
    /// is stored and cannot be read, so that the policy comes before all others.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "super::order::serialize")]
    pub order: Option<f64>,
    /// Rules for traffic to the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Rule>,
    /// Rules for traffic from the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Rule>,
    /// Endpoints of the policy's namespace that it applies to; empty means all of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Directions it governs; defaulted from the rules when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<PolicyType>,
    /// Further condition on the endpoint's service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account_selector: String,
    /// How the policy may be carried out faster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub performance_hints: Vec<String>,
}

/// Specification of a `GlobalNetworkPolicy`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct GlobalNetworkPolicySpec {
    /// Tier; empty means `default`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tier: String,
    /// Position in the tier; lower comes first, absent comes last, ties go by name. Minus infinity stands for one that
    /// is stored and cannot be read, so that the policy comes before all others.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "super::order::serialize")]
    pub order: Option<f64>,
    /// Rules for traffic to the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Rule>,
    /// Rules for traffic from the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Rule>,
    /// Endpoints that it applies to; empty means all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Directions it governs; defaulted from the rules when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<PolicyType>,
    /// Exempts matching traffic from connection tracking (host endpoints only).
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub do_not_track: bool,
    /// Applies before destination NAT (host endpoints only).
    #[serde(rename = "preDNAT", skip_serializing_if = "core::ops::Not::not")]
    pub pre_dnat: bool,
    /// Applies to forwarded traffic too (host endpoints only).
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub apply_on_forward: bool,
    /// Further condition on the endpoint's service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account_selector: String,
    /// Further condition on the endpoint's namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace_selector: String,
    /// How the policy may be carried out faster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub performance_hints: Vec<String>,
}

/// The same without its namespace, for whoever knows whom it concerns.
impl From<NetworkPolicySpec> for GlobalNetworkPolicySpec {
    fn from(spec: NetworkPolicySpec) -> Self {
        let NetworkPolicySpec {
            tier,
            order,
            ingress,
            egress,
            selector,
            types,
            service_account_selector,
            performance_hints,
        } = spec;
        Self {
            tier,
            order,
            ingress,
            egress,
            selector,
            types,
            service_account_selector,
            performance_hints,
            ..Self::default()
        }
    }
}

impl Eq for NetworkPolicySpec {}
impl Eq for GlobalNetworkPolicySpec {}

super::model::scalars!(PolicyType);

/// A direction that a policy governs, as seen from the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "traffic has two directions")]
pub enum PolicyType {
    /// To the endpoint.
    Ingress,
    /// From the endpoint.
    Egress,
}
