//! What can be asked for: so many addresses of each family, or a certain one.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::Holder;
use super::pool::PoolRef;
use crate::resource::AllowedUse;
use crate::text::TextMap;
use crate::time::Timestamp;

/// A request for addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Assign {
    /// Node that asks: its blocks are used, and pools select it by its labels.
    pub node: Arc<str>,
    /// Labels of the workload's namespace, by which pools select it. Where they are not known, pools that select namespaces serve
    /// it only if they are asked for by name.
    pub namespace_labels: Option<TextMap>,
    /// Who is to hold the addresses.
    pub holder: Holder,
    /// Which.
    pub want: Want,
    /// For what. A tunnel address is never borrowed: routes to it follow the block's owner.
    pub intended_use: AllowedUse,
    /// Most blocks the node may have in the chosen pools; 0 leaves it to the cluster's setting.
    pub max_blocks: u32,
    /// Shifts the place where the search for a new block starts; the node's name alone decides with 0.
    pub seed: u64,
    /// The time.
    pub now: Timestamp,
}

/// Which addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a request is of one of these forms")]
pub enum Want {
    /// So many of each family.
    Any {
        /// IPv4.
        v4: FamilyWant,
        /// IPv6.
        v6: FamilyWant,
    },
    /// This one.
    Address(IpAddr),
}

/// How many addresses of a family the handle is to hold, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct FamilyWant {
    /// Number, those that the handle holds already included.
    pub count: u32,
    /// Pools to draw from; empty: every pool that selects the node.
    pub pools: Vec<PoolRef>,
}
