//! `IPPool`: a range that workload addresses come from.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Deserializer, Serialize};

use super::{Conditions, ReportedObject};
use crate::net::{Cidr, Family};

/// An `IPPool`; whether it is [allocatable](ALLOCATABLE) is reported of it.
pub type IpPool = ReportedObject<IpPoolSpec, Conditions>;

/// The condition under which addresses may be taken from a pool: it overlaps no other, is not disabled and not about to go.
pub const ALLOCATABLE: &str = "Allocatable";

/// Specification of an `IPPool`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct IpPoolSpec {
    /// The range.
    pub cidr: Cidr,
    /// VXLAN encapsulation of traffic to this pool.
    #[serde(default)]
    pub vxlan_mode: EncapMode,
    /// IP-in-IP encapsulation of traffic to this pool.
    #[serde(default)]
    pub ipip_mode: EncapMode,
    /// Whether traffic that leaves the pools is masqueraded.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub nat_outgoing: bool,
    /// Whether new allocations avoid this pool.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// Whether blocks of this pool are kept out of BGP.
    #[serde(default, rename = "disableBGPExport", skip_serializing_if = "core::ops::Not::not")]
    pub disable_bgp_export: bool,
    /// Prefix length of allocation blocks; default 26 (IPv4) or 122 (IPv6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u8>,
    /// Nodes that may allocate from it; default `all()`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<String>,
    /// Namespaces whose workloads may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<String>,
    /// What addresses may be used for; stored as an empty list, it is the default.
    #[serde(default = "workload_and_tunnel", deserialize_with = "allowed_uses")]
    pub allowed_uses: Vec<AllowedUse>,
    /// Whether addresses are taken without being asked for by name.
    #[serde(default)]
    pub assignment_mode: AssignmentMode,
}

impl IpPool {
    /// Whether addresses may be taken from it, as far as it says itself: it is not disabled, is not to be gone, and nobody found that
    /// it must not be used. Of the addresses that workloads have already this says nothing.
    pub fn is_allocatable(&self) -> bool {
        !self.spec.disabled && self.metadata.deletion_timestamp.is_none() && !self.status.deny(ALLOCATABLE)
    }
}

impl IpPoolSpec {
    /// The effective block prefix length; 0 says the same as none.
    pub fn block_length(&self) -> u8 {
        self.block_size.filter(|size| *size != 0).unwrap_or_else(|| match self.cidr.family() {
            Family::V4 => 26,
            Family::V6 => 122,
        })
    }
}

/// For `..Default::default()` only: a pool without a CIDR does not parse.
impl Default for IpPoolSpec {
    fn default() -> Self {
        Self {
            cidr: Cidr::host(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            vxlan_mode: EncapMode::Never,
            ipip_mode: EncapMode::Never,
            nat_outgoing: false,
            disabled: false,
            disable_bgp_export: false,
            block_size: None,
            node_selector: None,
            namespace_selector: None,
            allowed_uses: workload_and_tunnel(),
            assignment_mode: AssignmentMode::Automatic,
        }
    }
}

fn workload_and_tunnel() -> Vec<AllowedUse> {
    vec![AllowedUse::Workload, AllowedUse::Tunnel]
}

/// Upstream's clients fill the default in on reading, too, for objects that older versions stored.
fn allowed_uses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AllowedUse>, D::Error> {
    let given = Vec::deserialize(deserializer)?;
    Ok(if given.is_empty() { workload_and_tunnel() } else { given })
}

/// When traffic is encapsulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EncapMode {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// Only between subnets.
    CrossSubnet,
}

/// What a pool's addresses may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AllowedUse {
    /// Workload interfaces.
    Workload,
    /// Tunnel interfaces of hosts.
    Tunnel,
    /// Services of type LoadBalancer.
    LoadBalancer,
}

/// Whether a pool's addresses are taken automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AssignmentMode {
    /// Any request may take one.
    #[default]
    Automatic,
    /// Only requests that name the pool.
    Manual,
}
