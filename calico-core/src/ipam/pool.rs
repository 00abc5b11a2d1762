//! Which pools a request may draw from, and in which order.
//!
//! Order is that of the datastore's list, by name: users rely on the first pool to fill first. Pools named by the request must be
//! enabled ([`IpPool::is_allocatable`]) but need not select the node; the intended use is checked in either case (as upstream's
//! `determinePools`).
//!
//! A pool with a namespace selector serves requests whose namespace's labels are known, and no others. (Upstream takes an unknown
//! namespace for one without labels, which `!has(x)` selects.)

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::machine::{Halt, Picture, Seen};
use super::{Found, IpamError, Query};
use crate::ipam::address;
use crate::net::{Cidr, Family};
use crate::resource::{AllowedUse, AssignmentMode, IpPool, IpPoolSpec, Kind, Resource, ResourceKey};
use crate::selector::Selector;
use crate::text::TextMap;

/// A pool as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "upstream's configuration takes these two forms")]
pub enum PoolRef {
    /// By the name of the IPPool.
    Name(Arc<str>),
    /// By its prefix.
    Cidr(Cidr),
}

impl PoolRef {
    /// What parses as `ADDRESS/LENGTH` is a prefix, anything else a name.
    pub fn parse(text: &str) -> Self {
        let cidr = text.contains('/').then(|| text.parse().ok()).flatten();
        cidr.map_or_else(|| Self::Name(text.into()), Self::Cidr)
    }
}

impl fmt::Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Cidr(cidr) => cidr.fmt(f),
        }
    }
}

/// What a request wants of its pools.
pub(super) struct Wish<'a> {
    pub(super) family: Family,
    pub(super) named: &'a [PoolRef],
    pub(super) node: &'a Arc<str>,
    pub(super) namespace_labels: Option<&'a TextMap>,
    pub(super) intended_use: AllowedUse,
}

/// The pools to draw from, best first; at least one.
pub(super) fn choose<'a>(picture: &'a Picture, wish: &Wish<'_>) -> Result<Vec<&'a IpPoolSpec>, Halt> {
    let enabled = enabled(picture)?;
    let of_family: Vec<_> = enabled.iter().filter(|(_, pool)| pool.cidr.family() == wish.family).copied().collect();
    let mut pools = if wish.named.is_empty() {
        if of_family.is_empty() {
            return Err(IpamError::NoPool { family: wish.family }.into());
        }
        selecting(picture, of_family, wish)?
    } else {
        wish.named.iter().map(|named| find(&enabled, named, wish.family)).collect::<Result<_, _>>()?
    };
    pools.retain(|pool| pool.allowed_uses.contains(&wish.intended_use));
    if pools.is_empty() { Err(IpamError::NoPoolForUse { wanted: wish.intended_use }.into()) } else { Ok(pools) }
}

/// The enabled pool that holds an address, whatever it selects.
pub(super) fn holding(picture: &Picture, address: core::net::IpAddr) -> Result<Option<&IpPoolSpec>, Halt> {
    Ok(enabled(picture)?.into_iter().map(|(_, pool)| pool).find(|pool| pool.cidr.contains(address)))
}

/// Every pool that can be cut into blocks, also those from which nothing may be taken (any more).
pub(super) fn all(picture: &Picture) -> Result<impl Iterator<Item = &IpPoolSpec>, Halt> {
    Ok(pools(picture)?.map(|(_, pool)| &pool.spec))
}

fn enabled(picture: &Picture) -> Result<Vec<(&str, &IpPoolSpec)>, Halt> {
    let allocatable = pools(picture)?.filter(|(_, pool)| pool.is_allocatable());
    Ok(allocatable.map(|(name, pool)| (name, &pool.spec)).collect())
}

fn pools(picture: &Picture) -> Result<impl Iterator<Item = (&str, &IpPool)>, Halt> {
    let pools = picture.list(&Query::Pools)?.filter_map(|(key, found)| match found {
        Found::Present { resource, .. } => match resource.as_ref() {
            Resource::IpPool(pool) => Some((key.name().unwrap_or_default(), pool)),
            _ => None,
        },
        Found::Absent | Found::Unreadable { .. } => None,
    });
    Ok(pools.filter(|(_, pool)| address::block_count(pool.spec.cidr, pool.spec.block_length()).is_some()))
}

fn find<'a>(enabled: &[(&str, &'a IpPoolSpec)], named: &PoolRef, family: Family) -> Result<&'a IpPoolSpec, IpamError> {
    let mut pools = enabled.iter();
    let pool = pools.find(|(name, pool)| match named {
        PoolRef::Name(wanted) => *name == &**wanted,
        PoolRef::Cidr(wanted) => pool.cidr == *wanted,
    });
    let (_, pool) = pool.ok_or_else(|| IpamError::UnknownPool { pool: named.to_string() })?;
    if pool.cidr.family() == family {
        Ok(pool)
    } else {
        Err(IpamError::WrongFamily { pool: named.to_string(), family })
    }
}

fn selecting<'a>(
    picture: &'a Picture,
    mut pools: Vec<(&'a str, &'a IpPoolSpec)>,
    wish: &Wish<'_>,
) -> Result<Vec<&'a IpPoolSpec>, Halt> {
    let no_labels = TextMap::new();
    let labels = if pools.iter().all(|(_, pool)| is_trivial(pool.node_selector.as_deref())) {
        &no_labels
    } else {
        node_labels(picture, wish.node)?
    };
    pools.retain(|(_, pool)| {
        pool.assignment_mode == AssignmentMode::Automatic && matches(pool.node_selector.as_deref(), labels)
    });
    let (node, family) = (wish.node.clone(), wish.family);
    if pools.is_empty() {
        return Err(IpamError::NoPoolForNode { node, family }.into());
    }
    let of_node: Vec<_> = pools.iter().map(|(name, _)| (*name).to_string()).collect();
    pools.retain(|(_, pool)| {
        let selector = pool.namespace_selector.as_deref();
        wish.namespace_labels.map_or_else(|| is_trivial(selector), |labels| matches(selector, labels))
    });
    if pools.is_empty() {
        let known = wish.namespace_labels.is_some();
        return Err(IpamError::NoPoolForNamespace { node, family, pools: of_node, known }.into());
    }
    Ok(pools.into_iter().map(|(_, pool)| pool).collect())
}

fn node_labels<'a>(picture: &'a Picture, node: &Arc<str>) -> Result<&'a TextMap, Halt> {
    let key = ResourceKey::Named { kind: Kind::Node, namespace: None, name: node.clone() };
    let view = |resource: &'a Resource| match resource {
        Resource::Node(node) => Some(&node.metadata.labels),
        _ => None,
    };
    let reason = match picture.typed(&key, view)? {
        Seen::Present(labels, _) => return Ok(labels),
        Seen::Absent => "there is no such node, and pools select nodes by label: has calico-node started there?".into(),
        Seen::Unusable(reason) => reason,
    };
    Err(IpamError::Unusable { key, reason }.into())
}

fn is_trivial(selector: Option<&str>) -> bool {
    selector.is_none_or(|text| matches!(text.trim(), "" | "all()"))
}

/// A selector that does not parse selects nothing.
fn matches(selector: Option<&str>, labels: &TextMap) -> bool {
    let Some(text) = selector.filter(|text| !is_trivial(Some(text))) else { return true };
    Selector::parse(text).is_ok_and(|selector| selector.matches(labels))
}
