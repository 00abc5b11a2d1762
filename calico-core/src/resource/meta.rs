//! Object metadata, the part of Kubernetes' `ObjectMeta` that a v3 object carries.

use alloc::boxed::Box;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::Fault;
use crate::text::TextMap;

/// Metadata of a v3 object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct Metadata {
    /// Name, unique within kind and namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace, for namespaced kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Identity given on creation (random UUID version 4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The store's revision as shown to users; never stored in etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Time of creation, RFC 3339 in UTC with whole seconds. Older writers emit `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// When the object is to be gone, if that is wanted: it stays until everybody who holds it back (`finalizers`) lets go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Labels that selectors match.
    #[serde(skip_serializing_if = "TextMap::is_empty")]
    pub labels: TextMap,
    /// Free annotations.
    #[serde(skip_serializing_if = "TextMap::is_empty")]
    pub annotations: TextMap,
    /// What of the stored metadata, of the stored text as a whole, of a tier's status or of a policy without rules cannot be read, and which
    /// fields of an object without rules are not known; the object counts without it.
    #[serde(skip)]
    pub unread: Box<[Fault]>,
}

impl Metadata {
    /// With this name and nothing else.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}
