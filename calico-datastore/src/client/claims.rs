//! Letting go of blocks, on behalf of an owner or a pool that is deleted.

use std::sync::Arc;

use calico_core::net::Cidr;
use calico_core::resource::{AffinityOwner, IpamBlock, Resource, ResourceKey};

use super::ClientError;
use crate::{Batch, Datastore, DatastoreError, Precondition, Scope, Stored, Write};

/// How often releasing one block is tried against others who write it.
const ATTEMPTS: usize = 10;

/// Releases the claims of a scope on the wanted blocks: empty blocks go, used ones stay without an owner.
pub(super) async fn release(
    store: &dyn Datastore,
    scope: &Scope,
    wanted: impl Fn(&Cidr) -> bool + Send,
) -> Result<(), ClientError> {
    let affinities = store.list(scope).await?;
    for affinity in affinities.entries.into_iter().flatten() {
        if let ResourceKey::Affinity { owner, block } = &affinity.key
            && wanted(block)
        {
            release_one(store, &affinity.key, owner, *block).await?;
        }
    }
    Ok(())
}

async fn release_one(
    store: &dyn Datastore,
    affinity: &ResourceKey,
    owner: &AffinityOwner,
    block: Cidr,
) -> Result<(), ClientError> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        let mut writes = vec![Write::delete(affinity.clone(), Precondition::None)];
        match store.get(&ResourceKey::Block(block)).await {
            Ok(stored) => writes.extend(let_go(&stored, owner)),
            Err(DatastoreError::NotFound { .. } | DatastoreError::Unreadable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match store.commit(Batch { writes }).await {
            Ok(_) => return Ok(()),
            Err(error) if (error.is_conflict() || error.is_not_found()) && left > 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What becomes of a block whose owner lets go; nothing if it is another's by now.
fn let_go(stored: &Stored, owner: &AffinityOwner) -> Option<Write> {
    let Resource::IpamBlock(block) = &*stored.resource else { return None };
    if block.affinity.as_deref() != Some(owner.to_string().as_str()) {
        return None;
    }
    if block.allocations.iter().all(Option::is_none) {
        return Some(Write::delete(stored.key.clone(), Precondition::At(stored.revision)));
    }
    let orphan = IpamBlock {
        affinity: None,
        affinity_claim_time: None,
        sequence_number: block.sequence_number.wrapping_add(1),
        ..block.clone()
    };
    Some(Write::update(stored, Arc::new(Resource::IpamBlock(orphan))))
}
