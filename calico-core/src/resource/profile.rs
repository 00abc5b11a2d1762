//! `Profile`: labels and default rules that endpoints name.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Rule;
use crate::text::TextMap;

/// Specification of a `Profile`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct ProfileSpec {
    /// Rules for traffic to the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Rule>,
    /// Rules for traffic from the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Rule>,
    /// Labels that endpoints inherit unless they set the key themselves.
    #[serde(skip_serializing_if = "TextMap::is_empty")]
    pub labels_to_apply: TextMap,
}
