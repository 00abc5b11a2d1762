//! Rules of address pools: no two overlap, a pool keeps its range and block size, and a deleted pool lets go of its blocks.

use std::sync::Arc;

use calico_core::net::Cidr;
use calico_core::resource::{AllowedUse, Fault, IpPool, IpPoolSpec, Kind, Resource, ResourceKey};

use super::{ClientError, claims};
use crate::store::entry_key;
use crate::{Datastore, DatastoreError, Entry, Listing, Precondition, Revision, Scope, Write};

/// Answers with what must hold for the pool to be stored: that no other came since this looked. `made` are pools that are to be taken
/// for stored beside those that are.
pub(super) async fn before_create(
    store: &dyn Datastore,
    new: &IpPool,
    made: &[IpPool],
) -> Result<Precondition, ClientError> {
    let pools = store.list(&Scope::Kind(Kind::IpPool)).await?;
    let own = own_key(new);
    if pools.entries.iter().any(|entry| *entry_key(entry) == own) {
        let current = pools.entries.into_iter().flatten().find(|stored| stored.key == own).map(Box::new);
        return Err(DatastoreError::AlreadyExists { key: own, current }.into());
    }
    admit(store, new, made, pools).await
}

/// As [`before_create`], for a pool that takes the place of what is stored under its name at a revision and cannot be read.
pub(super) async fn before_mending(
    store: &dyn Datastore,
    new: &IpPool,
    revision: Revision,
    made: &[IpPool],
) -> Result<Precondition, ClientError> {
    let mut pools = store.list(&Scope::Kind(Kind::IpPool)).await?;
    let own = own_key(new);
    let is_own = |entry: &mut Entry| *entry_key(entry) == own;
    let found = pools.entries.extract_if(.., is_own).next();
    // Of two whose ranges nobody knows, one must be mended first.
    pools.entries.retain(|entry| range_of(entry).is_none_or(|range| entry.is_ok() || range.length() > 0));
    match found.map(|entry| entry.map_or_else(|bad| bad.revision, |stored| stored.revision)) {
        Some(found) if found == revision => admit(store, new, made, pools).await,
        Some(_) => Err(DatastoreError::Conflict { key: own, current: None }.into()),
        None => Err(DatastoreError::NotFound { key: own }.into()),
    }
}

fn own_key(pool: &IpPool) -> ResourceKey {
    ResourceKey::cluster(Kind::IpPool, &pool.metadata.name)
}

/// Compares a pool with the others.
async fn admit(
    store: &dyn Datastore,
    new: &IpPool,
    made: &[IpPool],
    pools: Listing,
) -> Result<Precondition, ClientError> {
    let cidr = new.spec.cidr;
    let refused = |reason: String| Err(Fault::value("spec.cidr", Some(cidr.to_string()), reason).into());
    let stored = pools.entries.iter().filter_map(|entry| Some((entry_key(entry).name()?, range_of(entry)?)));
    let made = made.iter().map(|pool| (pool.metadata.name.as_str(), pool.spec.cidr));
    if let Some((name, taken)) = stored.chain(made).find(|(_, taken)| taken.overlaps(&cidr)) {
        let is_unread = |entry: &Entry| entry.is_err() && entry_key(entry).name() == Some(name);
        if taken.length() == 0 && pools.entries.iter().any(is_unread) {
            return refused(format!("IPPool({name}) may hold it, and cannot be read: mend or delete that first"));
        }
        return refused(format!("IPPool({}) CIDR overlaps with IPPool({name}) CIDR {taken}", new.metadata.name));
    }
    let blocks = store.list(&Scope::Kind(Kind::IpamBlock)).await?;
    for key in blocks.entries.iter().map(entry_key) {
        if let ResourceKey::Block(block) = key
            && block.overlaps(&cidr)
            && block.length() != new.spec.block_length()
        {
            return refused(format!("IPPool block size conflicts with existing allocation block {block}"));
        }
    }
    Ok(Precondition::NothingNewerIn(Kind::IpPool, pools.revision))
}

/// What a pool takes, which of one that cannot be read may still be known.
fn range_of(entry: &Entry) -> Option<Cidr> {
    let resource = match entry {
        Ok(stored) => &stored.resource,
        Err(bad) => bad.remains.as_ref()?,
    };
    match &**resource {
        Resource::IpPool(pool) => Some(pool.spec.cidr),
        _ => None,
    }
}

pub(super) fn before_update(old: &IpPool, new: &IpPool) -> Result<(), ClientError> {
    let (old, new) = (&old.spec, &new.spec);
    let mut faults = Vec::new();
    if old.cidr != new.cidr {
        faults.push(Fault::value("spec.cidr", Some(new.cidr.to_string()), "IPPool CIDR cannot be modified"));
    }
    if old.block_length() != new.block_length() {
        let reason = "IPPool BlockSize cannot be modified";
        faults.push(Fault::value("spec.blockSize", Some(new.block_length().to_string()), reason));
    }
    let balances = |pool: &IpPoolSpec| pool.allowed_uses.contains(&AllowedUse::LoadBalancer);
    if balances(old) != balances(new) {
        let reason = "a pool for load balancers serves nothing else, from its creation on";
        faults.push(Fault::value("spec.allowedUses", None, reason));
    }
    if faults.is_empty() { Ok(()) } else { Err(ClientError::Invalid { faults }) }
}

/// Disables a pool and releases the claims on its blocks. Answers with the revision at which it may be deleted.
pub(super) async fn retire(
    store: &dyn Datastore,
    key: &ResourceKey,
    wanted: Option<Revision>,
) -> Result<Option<Revision>, ClientError> {
    let read = match store.get(key).await {
        Ok(read) => read,
        // What cannot be read cannot be disabled either, but it can be deleted.
        Err(DatastoreError::Unreadable { .. }) => return Ok(wanted),
        Err(error) => return Err(error.into()),
    };
    if let Some(wanted) = wanted
        && wanted != read.revision
    {
        return Err(DatastoreError::Conflict { key: key.clone(), current: Some(Box::new(read)) }.into());
    }
    let Resource::IpPool(pool) = &*read.resource else { return Ok(wanted) };
    let mut revision = read.revision;
    // What cannot be written back cannot be disabled, but it can be deleted.
    if !pool.spec.disabled && read.raw.inexact().is_none() {
        let mut disabled = pool.clone();
        disabled.spec.disabled = true;
        let write = Write::update(&read, Arc::new(Resource::IpPool(disabled)));
        revision = store.commit(write.into()).await?.first().map_or(revision, |one| one.revision);
    }
    let range = pool.spec.cidr;
    claims::release(store, &Scope::Kind(Kind::BlockAffinity), |block| range.covers(block)).await?;
    Ok(Some(revision))
}
