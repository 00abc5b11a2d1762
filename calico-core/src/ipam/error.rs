//! What can go wrong with an allocation, typed by what the caller can do about it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::net::{Cidr, Family};
use crate::resource::{AllowedUse, ResourceKey};

/// A request that IPAM cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IpamError {
    /// No pool of the family is enabled.
    #[error(
        "cannot find a qualified ippool: no enabled {family} pool exists; create an IPPool, enable one, or see why a pool's status \
         says that it is not Allocatable"
    )]
    NoPool {
        /// Family asked for.
        family: Family,
    },
    /// Pools exist, but none selects the node.
    #[error("no configured Calico pools for node {node}: no {family} pool's nodeSelector matches its labels")]
    NoPoolForNode {
        /// The node.
        node: Arc<str>,
        /// Family asked for.
        family: Family,
    },
    /// Pools select the node, but none the workload's namespace.
    #[error("no configured Calico pools for node {node}: each {family} pool for it ({}) has a namespaceSelector, and {}",
        .pools.join(", "),
        if *.known { "none matches the labels of the workload's namespace" }
        else { "the labels of the workload's namespace are not known; name a pool, or have one without namespaceSelector" })]
    NoPoolForNamespace {
        /// The node.
        node: Arc<str>,
        /// Family asked for.
        family: Family,
        /// Names of the pools that select the node.
        pools: Vec<String>,
        /// Whether the labels of the namespace are known.
        known: bool,
    },
    /// The pools left may not be used for this.
    #[error("cannot find a qualified ippool, no pools match the required use ({wanted:?})")]
    NoPoolForUse {
        /// Intended use.
        wanted: AllowedUse,
    },
    /// A pool that the request names is not there.
    #[error("the given pool ({pool}) does not exist, or is not enabled")]
    UnknownPool {
        /// As named.
        pool: String,
    },
    /// A pool that the request names is of the other family.
    #[error("the given pool ({pool}) is not an {family} pool")]
    WrongFamily {
        /// As named.
        pool: String,
        /// Family asked for.
        family: Family,
    },
    /// The host holds as many blocks as it may.
    #[error("Need to allocate an IPAM block but could not - limit of {limit} blocks reached for this node")]
    BlockLimit {
        /// The limit.
        limit: u32,
    },
    /// No address is left.
    #[error("Assigned {obtained} out of {wanted} requested {family} addresses; no more free addresses in pools {pools:?}{}",
        if *.strict { " with strict affinity" } else { "" })]
    Exhausted {
        /// Family.
        family: Family,
        /// How many were asked for.
        wanted: u32,
        /// How many there were.
        obtained: u32,
        /// Where.
        pools: Vec<Cidr>,
        /// Whether other hosts' blocks were out of bounds.
        strict: bool,
    },
    /// The address asked for lies in no enabled pool.
    #[error("The provided IP address {address} is not in a configured pool")]
    NotInPool {
        /// It.
        address: IpAddr,
    },
    /// The address asked for is taken.
    #[error("Address already assigned in block: {address}{}",
        .holder.as_deref().map(|holder| alloc::format!(" is held by {holder}")).unwrap_or_default())]
    AlreadyAssigned {
        /// It.
        address: IpAddr,
        /// Handle that holds it; `None` while it rests after a release, or if it has no handle.
        holder: Option<String>,
    },
    /// Affinity is strict and the address asked for is in another host's block.
    #[error("Block affinity ({affinity}) of {block} does not match provided ({wanted})")]
    ForeignBlock {
        /// The block.
        block: Cidr,
        /// Whose it is; `none` if nobody's.
        affinity: String,
        /// Who asked.
        wanted: String,
    },
    /// The address is no longer held by the handle that the caller believes.
    #[error("{address} is not held by handle {expected}")]
    BadHandle {
        /// The address.
        address: IpAddr,
        /// Expected handle.
        expected: Arc<str>,
    },
    /// The address was handed out again since the caller looked.
    #[error("{address} was allocated anew since: sequence number {found} instead of {expected}")]
    BadSequence {
        /// The address.
        address: IpAddr,
        /// What the caller knows.
        expected: u64,
        /// What is stored.
        found: u64,
    },
    /// A stored object that the request depends on cannot be used.
    #[error("stored value of {key} cannot be used: {reason}")]
    Unusable {
        /// Which.
        key: ResourceKey,
        /// Field and fault.
        reason: String,
    },
    /// Others wrote first, every time.
    #[error("Max retries hit - excessive concurrent IPAM requests ({attempts} attempts)")]
    Contention {
        /// How often it was tried.
        attempts: u32,
    },
}

impl IpamError {
    /// Whether there is no address to give: more pools, blocks or releases are needed, not a retry.
    pub const fn is_exhausted(&self) -> bool {
        matches!(self, Self::Exhausted { .. } | Self::BlockLimit { .. })
    }

    /// Whether the same request may succeed at once.
    pub const fn is_contention(&self) -> bool {
        matches!(self, Self::Contention { .. })
    }

    /// Whether pools or the request are at fault, and an operator must act.
    pub const fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::NoPool { .. }
                | Self::NoPoolForNode { .. }
                | Self::NoPoolForNamespace { .. }
                | Self::NoPoolForUse { .. }
                | Self::UnknownPool { .. }
                | Self::WrongFamily { .. }
                | Self::NotInPool { .. }
        )
    }
}
