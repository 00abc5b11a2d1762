//! The rule language shared by policies and profiles.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Unread;
use super::limit::Limit;
use super::model::model;
use crate::net::{Cidr, Port, Protocol};
use crate::text::TextMap;

/// One rule. All given fields must match; lists within a field are alternatives.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct Rule {
    /// What happens to matching traffic. Mandatory in a document: a rule that lost its action must not become an Allow.
    pub action: Action,
    /// 4 or 6; absent means both, unless the protocol's name implies one.
    #[serde(default, rename = "ipVersion", skip_serializing_if = "Option::is_none")]
    pub ip_version: Option<u8>,
    /// Protocol that must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Protocol that must not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_protocol: Option<Protocol>,
    /// ICMP type and code that must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp: Option<Icmp>,
    /// ICMP type and code that must not match.
    #[serde(default, rename = "notICMP", skip_serializing_if = "Option::is_none")]
    pub not_icmp: Option<Icmp>,
    /// Conditions on the source.
    #[serde(default, skip_serializing_if = "EntityRule::is_empty")]
    pub source: EntityRule,
    /// Conditions on the destination.
    #[serde(default, skip_serializing_if = "EntityRule::is_empty")]
    pub destination: EntityRule,
    /// HTTP conditions. The kernel cannot see them: an Allow rule that has them never matches, a Deny or Pass rule denies without
    /// them; all are reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpMatch>,
    /// What is noted about the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RuleMetadata>,
    /// What of the stored rule this version does not understand. Whoever carries the rule out fails closed: Deny and Pass
    /// deny without it, Allow and Log never match.
    #[serde(skip)]
    pub unread: Option<Box<Unread>>,
}

/// Conditions on one side of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct EntityRule {
    /// The address lies in one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nets: Vec<Cidr>,
    /// The address lies in none of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_nets: Vec<Cidr>,
    /// The address belongs to an endpoint or network set with such labels.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// The address belongs to none with such labels.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_selector: String,
    /// The endpoint's namespace has such labels.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace_selector: String,
    /// The port is one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
    /// The port is none of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ports: Vec<Port>,
    /// The endpoint's service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_accounts: Option<ServiceAccountMatch>,
    /// A Kubernetes service's endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<ServiceMatch>,
}

impl EntityRule {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Condition on a service account: one of the names, and the selector.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct ServiceAccountMatch {
    /// Names, any of which matches; empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Selector over the service account's labels.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
}

/// A Kubernetes service by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct ServiceMatch {
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace; in a namespaced policy empty means the policy's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// ICMP type and code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct Icmp {
    /// Type, 0 to 254.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
    /// Code; only together with a type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
}

model! {
    /// Conditions on an HTTP request.
    pub struct HttpMatch {
        /// The method is one of these.
        "methods" methods: Vec<String> where [Limit::Items(0, 20), Limit::Unique];
        /// The path is one of these.
        "paths" paths: Vec<HttpPath> where [Limit::Items(0, 20)];
    }
}

model! {
    /// A condition on an HTTP request's path: exactly one of its members is given.
    pub struct HttpPath {
        /// The whole path.
        "exact" exact: Option<String> where [Limit::Length(1024)];
        /// Its beginning.
        "prefix" prefix: Option<String> where [Limit::Length(1024)];
    }
}

model! {
    /// What is noted about a rule.
    pub struct RuleMetadata {
        /// Notes by key.
        "annotations" annotations: TextMap;
    }
}

impl Eq for HttpMatch {}
impl Eq for HttpPath {}
impl Eq for RuleMetadata {}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "a new action must break every match that decides traffic")]
pub enum Action {
    /// Accept, and stop looking.
    #[default]
    Allow,
    /// Drop.
    Deny,
    /// Log and go on with the next rule.
    Log,
    /// Leave the tier.
    Pass,
}
