//! What single kinds add: upstream's rules per resource type.

use std::collections::BTreeSet;
use std::sync::Arc;

use calico_core::resource::{DEFAULT_ALLOW_PROFILE, Fault, Kind, Resource, ResourceKey};

use super::rehearsal::Made;
use super::{ClientError, pool};
use crate::store::entry_key;
use crate::{Datastore, DatastoreError, Listing, Precondition, Revision, Scope, Stored};

/// Whether a key is that of the profile that exists without being stored.
pub(super) fn is_built_in(key: &ResourceKey) -> bool {
    key.name().is_some_and(|name| key.kind().is_built_in(name))
}

/// The built-in profile. Upstream shows it at revision 1.
pub(super) fn built_in_profile() -> Stored {
    let mut resource = Resource::default_allow_profile();
    let raw = resource.encode();
    if let Some(metadata) = resource.metadata_mut() {
        metadata.resource_version = Some("1".to_owned());
    }
    let key = ResourceKey::cluster(Kind::Profile, DEFAULT_ALLOW_PROFILE);
    Stored::new(key, Arc::new(resource), Arc::new(raw.into()), Revision::from_raw(1))
}

/// Puts the built-in profile into a listing whose scope has it, instead of what may be stored under its name.
pub(super) fn add_built_in(scope: &Scope, listing: &mut Listing) {
    let profile = built_in_profile();
    if !scope.contains(&profile.key) {
        return;
    }
    listing.entries.retain(|entry| !is_built_in(entry_key(entry)));
    let position = listing.entries.partition_point(|entry| *entry_key(entry) < profile.key);
    listing.entries.insert(position, Ok(profile));
}

/// Upstream's answer to whoever would change what is built in.
pub(super) fn protected(operation: &'static str, key: &ResourceKey) -> ClientError {
    let name = key.name().unwrap_or_default();
    let reason = match (key.kind(), operation) {
        (Kind::Profile, "Update") => {
            format!("The profile \"{name}\" is a default provided by Calico and cannot be updated")
        }
        (Kind::Profile, _) => format!("The profile \"{name}\" is a default provided by Calico and cannot be deleted"),
        _ => "it is built in".to_owned(),
    };
    ClientError::NotSupported { operation, key: key.clone(), reason }
}

/// Two policies meet in one key: the one that is to be written, and one that users see under another name and that lies there since
/// before 3.32.
pub(super) fn taken(key: &ResourceKey, shown: &ResourceKey) -> ClientError {
    let reason = format!(
        "{shown} is stored under this name, as versions before 3.32 did: calicoctl datastore migrate-policy-names moves it"
    );
    ClientError::NotSupported { operation: "Update", key: key.clone(), reason }
}

/// Answers with what must hold for the object to be stored. `made` is what is to be taken for stored beside what is.
pub(super) async fn before_create(
    store: &dyn Datastore,
    resource: &Resource,
    made: &Made,
) -> Result<Precondition, ClientError> {
    before_presence(store, resource, made).await?;
    match resource {
        Resource::IpPool(new) => pool::before_create(store, new, &made.pools).await,
        _ => Ok(Precondition::Absent),
    }
}

/// What must hold for an object to be there, by itself and with what it needs.
pub(super) async fn before_presence(
    store: &dyn Datastore,
    resource: &Resource,
    made: &Made,
) -> Result<(), ClientError> {
    if let Some(fault) = resource.metadata().and_then(|metadata| resource.kind().misnamed(&metadata.name)) {
        return Err(fault.into());
    }
    if let Some(tier) = resource.tier().filter(|tier| !made.tiers.contains(*tier)) {
        require(store, ResourceKey::cluster(Kind::Tier, tier)).await?;
    }
    before_write(store, resource, made).await
}

/// What must hold whenever an object is written, new or not: the filters that a BGP peer names are there, and a claim is not marked
/// deleted.
pub(super) async fn before_write(store: &dyn Datastore, resource: &Resource, made: &Made) -> Result<(), ClientError> {
    if let Resource::ApiBlockAffinity(claim) = resource
        && let Some(fault) = claim.spec.refusal()
    {
        return Err(fault.into());
    }
    let Resource::BgpPeer(peer) = resource else { return Ok(()) };
    let mut faults = Vec::new();
    let filters = peer.spec.filters.iter().enumerate();
    for (index, name) in filters.filter(|(_, name)| !made.filters.contains(*name)) {
        match require(store, ResourceKey::cluster(Kind::BgpFilter, name)).await {
            Ok(()) => {}
            Err(DatastoreError::NotFound { .. }) => {
                let path = format!("spec.filters[{index}]");
                faults.push(Fault::value(path, Some(name.clone()), "BGPFilter not found: create it first"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(ClientError::Invalid { faults }) }
}

/// Present is enough: an object that cannot be read is somebody else's trouble.
async fn require(store: &dyn Datastore, key: ResourceKey) -> Result<(), DatastoreError> {
    match store.get(&key).await {
        Ok(_) | Err(DatastoreError::Unreadable { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn before_update(old: &Resource, new: &Resource) -> Result<(), ClientError> {
    match (old, new) {
        (Resource::IpPool(old), Resource::IpPool(new)) => pool::before_update(old, new),
        _ => Ok(()),
    }
}

/// `gone` is what is to be taken for deleted already.
pub(super) async fn before_delete(
    store: &dyn Datastore,
    key: &ResourceKey,
    gone: &BTreeSet<ResourceKey>,
) -> Result<(), ClientError> {
    if is_built_in(key) {
        return Err(protected("Delete", key));
    }
    match (key.kind(), key.name()) {
        (Kind::Tier, Some(name)) => before_tier_delete(store, key, name, gone).await,
        _ => Ok(()),
    }
}

async fn before_tier_delete(
    store: &dyn Datastore,
    key: &ResourceKey,
    name: &str,
    gone: &BTreeSet<ResourceKey>,
) -> Result<(), ClientError> {
    if Kind::Tier.is_fixed(name) {
        return Err(protected("Delete", key));
    }
    let policies =
        [Kind::NetworkPolicy, Kind::GlobalNetworkPolicy, Kind::StagedNetworkPolicy, Kind::StagedGlobalNetworkPolicy];
    for kind in policies {
        let listing = store.list(&Scope::Kind(kind)).await?;
        for entry in listing.entries.iter().filter(|entry| !gone.contains(entry_key(entry))) {
            let reason = match entry {
                Ok(stored) if stored.resource.tier() != Some(name) => continue,
                Ok(stored) => format!("{} is in it: delete its policies first", stored.key),
                Err(bad) => {
                    format!("{} cannot be read and may be in it: mend or delete it first ({})", bad.key, bad.reason)
                }
            };
            return Err(ClientError::NotSupported { operation: "Delete", key: key.clone(), reason });
        }
    }
    Ok(())
}
