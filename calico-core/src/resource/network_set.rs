//! `NetworkSet` and `GlobalNetworkSet`: labelled prefixes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Unread;
use crate::net::Cidr;

/// Specification of a `NetworkSet` or `GlobalNetworkSet`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct NetworkSetSpec {
    /// The prefixes; order and repetition mean nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nets: Vec<Cidr>,
    /// Entries of the stored list that cannot be read: `nets` is without them.
    #[serde(skip)]
    pub unread: Option<Box<Unread>>,
}
