//! Stored forms of IPAM, version 2 (upstream `libcalico-go/lib/backend/model/{block,block_affinity,ipam_handle,ipam_config}.go`).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::net::Cidr;

/// An allocation block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is upstream's stored shape")]
pub struct IpamBlock {
    /// The block.
    pub cidr: Cidr,
    /// `host:<name>`, `virtual:<name>` or none.
    #[serde(default)]
    pub affinity: Option<String>,
    /// When the affinity was claimed (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_claim_time: Option<String>,
    /// By ordinal: index into `attributes`, or none where the address is free.
    pub allocations: Vec<Option<usize>>,
    /// Free ordinals, first in first out.
    pub unallocated: Vec<u32>,
    /// Who holds what; shared by ordinals of one allocation.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub attributes: Vec<AllocationAttribute>,
    /// Grows by one with every write of the block.
    #[serde(default, rename = "sequenceNumber")]
    pub sequence_number: u64,
    /// By ordinal (as text): the block's number when the ordinal was allocated.
    #[serde(default, rename = "sequenceNumberForAllocation", deserialize_with = "null_is_empty")]
    pub sequence_number_for_allocation: BTreeMap<String, u64>,
    /// Tombstone of the Kubernetes datastore.
    #[serde(default)]
    pub deleted: bool,
    /// Form of before version 2; carried, never read.
    #[serde(default, rename = "hostAffinity", skip_serializing_if = "Option::is_none")]
    pub host_affinity: Option<String>,
}

/// Owner of allocated addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is upstream's stored shape")]
pub struct AllocationAttribute {
    /// Handle; what follows a carriage return is not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle_id: Option<String>,
    /// Attributes of the active owner (`pod`, `namespace`, `node` …).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_empty")]
    pub secondary: BTreeMap<String, String>,
    /// Attributes of the other owner during a live migration.
    #[serde(
        default,
        rename = "alternateOwnerAttrs",
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub alternate_owner: BTreeMap<String, String>,
    /// When released (RFC 3339); the ordinal is then in its cool-down.
    #[serde(default, rename = "releasedAt", skip_serializing_if = "Option::is_none")]
    pub released_at: Option<String>,
}

/// Claim of a block by its owner; owner and block are in the key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is upstream's stored shape")]
pub struct BlockAffinity {
    /// Progress of the claim.
    #[serde(default)]
    pub state: AffinityState,
    /// Tombstone of the Kubernetes datastore.
    #[serde(default)]
    pub deleted: bool,
}

impl BlockAffinity {
    /// Whether the claim is complete. Very old versions knew no states, and wrote complete claims only.
    pub fn is_confirmed(&self) -> bool {
        !self.deleted && matches!(self.state, AffinityState::Confirmed | AffinityState::Unset)
    }
}

/// Progress of a block claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AffinityState {
    /// Written by very old versions, which had no states.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// The block is the owner's.
    #[serde(rename = "confirmed")]
    Confirmed,
    /// The owner intends to make the block.
    #[serde(rename = "pending")]
    Pending,
    /// The owner intends to give it up.
    #[serde(rename = "pendingDeletion")]
    PendingDeletion,
}

/// Addresses that one handle holds, by block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is upstream's stored shape")]
pub struct IpamHandle {
    /// Block (with `/`) to number of addresses. The handle is deleted when this is empty.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub block: BTreeMap<Cidr, u32>,
    /// Tombstone of the Kubernetes datastore.
    #[serde(default)]
    pub deleted: bool,
}

/// Cluster-wide settings. The defaults hold only while the key is absent: a field missing from a stored value is zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is upstream's stored shape")]
pub struct IpamConfig {
    /// Whether hosts may not borrow from each other's blocks.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub strict_affinity: bool,
    /// Whether blocks are claimed on demand.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub auto_allocate_blocks: bool,
    /// Most blocks of a host; zero means 20 at allocation time.
    #[serde(default, rename = "maxBlocksPerHost", skip_serializing_if = "is_zero")]
    pub max_blocks_per_host: u32,
    /// `Enabled` or `Disabled`; carried for KubeVirt.
    #[serde(default, rename = "kubeVirtVMAddressPersistence", skip_serializing_if = "Option::is_none")]
    pub kube_virt_vm_address_persistence: Option<String>,
    /// Seconds that a released address rests.
    #[serde(default, rename = "ipCooldownSeconds", skip_serializing_if = "is_zero")]
    pub ip_cooldown_seconds: u32,
}

impl Default for IpamConfig {
    fn default() -> Self {
        Self {
            strict_affinity: false,
            auto_allocate_blocks: true,
            max_blocks_per_host: 0,
            kube_virt_vm_address_persistence: None,
            ip_cooldown_seconds: 0,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Go writes `null` for an empty slice or map.
fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
