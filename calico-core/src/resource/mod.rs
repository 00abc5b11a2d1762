//! The v3 resource model: one Rust model per kind, with upstream's JSON names on the wire.
//!
//! Upstream: `api/pkg/apis/projectcalico/v3`, `libcalico-go/lib/backend/model`. What comes in is JSON from a datastore or a
//! manifest; what goes out is a [`Resource`] that cannot be wrong in its own fields. Fields this model does not know are no
//! business of the typed view: the store layer keeps the raw document beside it. Rules are the exception, because a
//! condition that is overlooked lets more through: what is not understood of a stored one is noted beside it ([`Unread`]).

mod check;
mod decode;
mod defaults;
mod fault;
mod header;
mod ip_pool;
mod ipam;
mod key;
mod kind;
mod merge;
mod meta;
mod network_set;
mod node;
mod order;
mod path;
mod policy;
mod profile;
mod remains;
mod rule;
mod schema;
mod shape;
mod tier;
mod unread;
mod workload_endpoint;
mod workload_endpoint_name;

use serde::{Deserialize, Serialize};

pub use check::{SUBDOMAIN, is_subdomain};
pub use defaults::{
    DEFAULT_ALLOW_PROFILE, DEFAULT_TIER, NAMESPACE_LABEL, ORCHESTRATOR_LABEL, TIER_LABEL, implied_types,
};
pub use fault::{Fault, FaultSort, clipped};
pub use ip_pool::{AllowedUse, AssignmentMode, EncapMode, IpPoolSpec};
pub use ipam::{AffinityState, AllocationAttribute, BlockAffinity, IpamBlock, IpamConfig, IpamHandle};
pub use key::{AffinityOwner, ResourceKey};
pub use kind::{Kind, Scope};
pub use merge::{Merged, merge_newer, merge_unknown};
pub use meta::Metadata;
pub use network_set::NetworkSetSpec;
pub use node::{NodeAddress, NodeBgpSpec, NodeSpec};
pub use policy::{GlobalNetworkPolicySpec, NetworkPolicySpec, PolicyType};
pub use profile::ProfileSpec;
pub use rule::{Action, EntityRule, Icmp, Rule, ServiceAccountMatch, ServiceMatch};
pub use tier::{DefaultAction, TierSpec};
pub use unread::Unread;
pub use workload_endpoint::{EndpointPort, WorkloadEndpointSpec};
pub use workload_endpoint_name::{WorkloadEndpointName, WorkloadEndpointNameError};

/// Group and version of every v3 document.
pub const API_VERSION: &str = "projectcalico.org/v3";

/// A v3 object: metadata and the specification of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers build objects with literals; the shape is the API's own")]
pub struct Object<S> {
    /// Name, namespace, labels and the rest.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default = "S::default", bound(deserialize = "S: Default + Deserialize<'de>"))]
    pub spec: S,
}

/// Any object the datastore holds, by kind.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Resource {
    /// A host.
    Node(Object<NodeSpec>),
    /// A range that workload addresses come from.
    IpPool(Object<IpPoolSpec>),
    /// A workload's interface.
    WorkloadEndpoint(Object<WorkloadEndpointSpec>),
    /// Default rules and labels that endpoints name.
    Profile(Object<ProfileSpec>),
    /// An ordered group of policies.
    Tier(Object<TierSpec>),
    /// Policy for endpoints of one namespace.
    NetworkPolicy(Object<NetworkPolicySpec>),
    /// Policy for endpoints anywhere.
    GlobalNetworkPolicy(Object<GlobalNetworkPolicySpec>),
    /// Labelled prefixes of one namespace.
    NetworkSet(Object<NetworkSetSpec>),
    /// Labelled prefixes.
    GlobalNetworkSet(Object<NetworkSetSpec>),
    /// An allocation block (IPAM v2).
    IpamBlock(IpamBlock),
    /// Claim of a block by a host (IPAM v2).
    BlockAffinity(BlockAffinity),
    /// Addresses that one owner holds (IPAM v2).
    IpamHandle(IpamHandle),
    /// Cluster-wide IPAM settings (IPAM v2).
    IpamConfig(IpamConfig),
}

#[cfg(test)]
mod tests;
