//! The v3 resource model: one Rust model per kind, with upstream's JSON names on the wire.
//!
//! Upstream: `api/pkg/apis/projectcalico/v3`, `libcalico-go/lib/backend/model`. What comes in is JSON from a datastore or a
//! manifest; what goes out is a [`Resource`] that cannot be wrong in its own fields. Fields this model does not know are no
//! business of the typed view: the store layer keeps the raw document beside it. Rules are the exception, because a
//! condition that is overlooked lets more through: what is not understood of a stored one is noted beside it ([`Unread`]).
//!
//! # Kinds
//!
//! What is known of each v3 kind: the fields of its specification and status; how many of them refuse some value of a manifest, by
//! type, bounds or form (rules between fields come on top); how many are filled in when an object is written that gives only what
//! is mandatory; and whether documents made at random come back as they were. A test computes the cells from the schema.
//!
#![doc = include_str!("kinds.md")]

mod bgp_configuration;
mod bgp_filter;
mod bgp_peer;
mod block_affinity;
mod calico_node_status;
mod check;
mod cluster_information;
mod condition;
mod custom;
mod decode;
mod defaults;
mod duration;
mod fault;
mod felix_configuration;
mod formats;
mod header;
mod host_endpoint;
mod ip_pool;
mod ip_reservation;
mod ipam;
mod ipam_configuration;
mod key;
pub(crate) mod key_ids;
mod key_map;
mod kinds;
mod kube_controllers_configuration;
mod limit;
mod live_migration;
mod merge;
mod meta;
mod model;
mod network_set;
mod node;
mod order;
mod path;
mod plain;
mod policy;
mod profile;
mod remains;
mod rule;
mod schema;
mod shape;
pub(crate) mod short_key;
mod staged_kubernetes_policy;
mod staged_policy;
mod tier;
mod unread;
pub mod v1;
mod workload_endpoint;
mod workload_endpoint_name;

use serde::{Deserialize, Serialize};

pub use bgp_configuration::{
    Aggregation, BgpConfigurationSpec, BindMode, Community, PrefixAdvertisement, ServiceRange,
};
pub use bgp_filter::{
    AddCommunity, BgpFilterRule, BgpFilterSpec, BgpPeerType, CommunityMatch, FilterAction, FilterOperation,
    MatchOperator, PrefixLengthRange, PrependAsPath, SetPriority,
};
pub use bgp_peer::{BgpPassword, BgpPeerSpec, NextHopMode, ReversePeering, SecretKeyRef, SourceAddress};
pub use block_affinity::{BlockAffinitySpec, Tombstone};
pub use calico_node_status::{
    BgpDaemonStatus, CalicoNodeStatusSpec, CalicoNodeStatusStatus, LearnedFrom, NodeAgentStatus, NodeBgpStatus,
    NodePeer, NodeRoute, NodeRoutes, NodeStatusClass,
};
pub use check::{SUBDOMAIN, is_subdomain};
pub use cluster_information::ClusterInformationSpec;
pub use condition::{Condition, Conditions};
pub use custom::{CUSTOM_KINDS, CustomGroup, custom_name, from_custom, from_custom_strict, to_custom};
pub use decode::NAME_ANNOTATION;
pub use defaults::{
    DEFAULT_ALLOW_PROFILE, DEFAULT_TIER, NAMESPACE_LABEL, ORCHESTRATOR_LABEL, SINGLE_NAME, TIER_LABEL, implied_types,
};
pub use duration::{GoDuration, GoDurationError};
pub(crate) use fault::OneLine;
pub use fault::{Fault, FaultSort, clipped, nearest};
pub use felix_configuration::{
    BpfConntrackTimeouts, FelixConfigurationSpec, HealthTimeoutOverride, ProtoPort, RouteTableIdRange, RouteTableRange,
};
pub use host_endpoint::{HostEndpointSpec, HostPort};
pub use ip_pool::{ALLOCATABLE, AllowedUse, AssignmentMode, EncapMode, IpPool, IpPoolSpec};
pub use ip_reservation::IpReservationSpec;
pub use ipam::{AffinityState, AllocationAttribute, BlockAffinity, IpamBlock, IpamConfig, IpamHandle};
pub use ipam_configuration::IpamConfigurationSpec;
pub use key::{AffinityOwner, ResourceKey};
pub use key_map::{KeyMap, Packed};
pub use kinds::{Kind, Resource, Scope};
pub use kube_controllers_configuration::{
    AutoHostEndpointConfig, ControllerConfig, ControllersConfig, HostEndpointTemplate,
    KubeControllersConfigurationSpec, KubeControllersConfigurationStatus, LoadBalancerControllerConfig,
    MigrationControllerConfig, NodeControllerConfig,
};
pub use live_migration::{
    LiveMigrationSource, LiveMigrationSpec, LiveMigrationTarget, WorkloadEndpointIdentifier, WorkloadIdentifier,
};
pub use merge::{Merged, merge_newer, merge_unknown};
pub use meta::Metadata;
pub use network_set::NetworkSetSpec;
pub use node::{
    ListedAddress, NodeAddress, NodeBgpSpec, NodeInterface, NodeSpec, NodeStatus, NodeWireguardSpec, OrchRef,
};
pub use order::{json_number, shown_number};
pub use policy::{GlobalNetworkPolicySpec, NetworkPolicySpec, PolicyType};
pub use profile::ProfileSpec;
pub use rule::{Action, EntityRule, HttpMatch, HttpPath, Icmp, Rule, RuleMetadata, ServiceAccountMatch, ServiceMatch};
pub use staged_kubernetes_policy::{
    IpBlock, KubernetesEgressRule, KubernetesIngressRule, KubernetesPolicyPeer, KubernetesPolicyPort, LabelRequirement,
    LabelSelector, StagedKubernetesNetworkPolicySpec,
};
pub use staged_policy::{StagedAction, StagedGlobalNetworkPolicySpec, StagedNetworkPolicySpec};
pub use tier::{DefaultAction, Tier, TierSpec};
pub use unread::Unread;
pub(crate) use workload_endpoint::QosRange;
pub use workload_endpoint::{EndpointPort, IpNat, QosControls, WorkloadEndpointSpec, nobodys};
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

impl<S> Object<S> {
    /// Of these parts.
    pub const fn new(metadata: Metadata, spec: S) -> Self {
        Self { metadata, spec }
    }

    /// Of this name, without a namespace.
    pub fn named(name: &str, spec: S) -> Self {
        Self::new(Metadata::named(name), spec)
    }
}

/// A v3 object that somebody reports on: as [`Object`], and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers build objects with literals; the shape is the API's own")]
pub struct ReportedObject<S, T> {
    /// Name, labels and the rest.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default = "S::default", bound(deserialize = "S: Default + Deserialize<'de>"))]
    pub spec: S,
    /// What was found.
    #[serde(default = "T::default", bound(deserialize = "T: Default + Deserialize<'de>"))]
    pub status: T,
}

impl<S, T: Default> ReportedObject<S, T> {
    /// Of these parts, with nothing reported yet.
    pub fn new(metadata: Metadata, spec: S) -> Self {
        Self { metadata, spec, status: T::default() }
    }

    /// Of this name, without a namespace, with nothing reported yet.
    pub fn named(name: &str, spec: S) -> Self {
        Self::new(Metadata::named(name), spec)
    }
}

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;
