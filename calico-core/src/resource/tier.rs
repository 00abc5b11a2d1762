//! `Tier`: an ordered group of policies.

use serde::{Deserialize, Serialize};

use super::{Conditions, ReportedObject};

/// A `Tier`; `Ready` is reported of it.
pub type Tier = ReportedObject<TierSpec, Conditions>;

/// Specification of a `Tier`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct TierSpec {
    /// Position; lower comes first, absent comes last.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "super::order::serialize")]
    pub order: Option<f64>,
    /// What happens to traffic that policies of the tier apply to but no rule decides; default `Deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_action: Option<DefaultAction>,
}

impl Eq for TierSpec {}

/// End-of-tier action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DefaultAction {
    /// Drop.
    #[default]
    Deny,
    /// Go on to the next tier, or to the profiles.
    Pass,
}
