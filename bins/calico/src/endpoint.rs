//! The WorkloadEndpoint in the datastore, and the network's profile beside it.

use std::sync::Arc;

use calico_cmd::output::chain;
use calico_core::cni::{CniError, Identity, Request, network_profile, renewed_endpoint};
use calico_core::resource::{Kind, Metadata, Object, Resource, ResourceKey, WorkloadEndpointSpec};
use calico_datastore::{Batch, DatastoreError, Precondition, Scope, Stored, Write};
use calico_ipam::plugin::{datastore_failure, warn};

use crate::{Births, Parts};

/// How often a write that lost against another is tried.
const ATTEMPTS: u32 = 6;

/// The stored endpoint of the workload, whichever container made it.
pub(crate) async fn stored(identity: &Identity, parts: &Parts<'_>) -> Result<Option<Stored>, CniError> {
    let found = optional(parts.store.get(&key(identity)).await);
    found.map_err(|error| datastore_failure("cannot read the workload endpoint", &error))
}

/// The interface by which the container is attached already, if this is a second one. Both would have the host interface's name and
/// the handle, and so the address, of the first, so a second one is refused. (Upstream answers with the first one's addresses and
/// makes no interface.) Runtimes call the first one `eth0`, so only for other names the namespace is looked through.
pub(crate) async fn first_interface(identity: &Identity, parts: &Parts<'_>) -> Result<Option<String>, CniError> {
    if identity.interface.as_str() == "eth0" {
        return Ok(None);
    }
    let scope = Scope::Namespace { kind: Kind::WorkloadEndpoint, namespace: identity.namespace.as_str().into() };
    let listing = parts.store.list(&scope).await;
    let listing = listing.map_err(|error| datastore_failure("cannot list workload endpoints", &error))?;
    let is_first = |spec: &&WorkloadEndpointSpec| {
        spec.interface_name == Some(identity.host_interface)
            && spec.node == *identity.node
            && spec.container_id == identity.container_id
            && spec.endpoint != identity.interface.as_str()
    };
    Ok(listing.entries.iter().flatten().filter_map(spec).find(is_first).map(|first| first.endpoint.to_string()))
}

/// The endpoint of another workload of this node that has the host's interface of this one. Names of host interfaces hold no more
/// than the beginning of a container id or of a hash, so two workloads may get the same. Asked only where an interface of that name
/// is in the way, since all endpoints are looked through.
pub(crate) async fn other_owner(identity: &Identity, parts: &Parts<'_>) -> Result<Option<Stored>, CniError> {
    let listing = parts.store.list(&Scope::Kind(Kind::WorkloadEndpoint)).await;
    let listing = listing.map_err(|error| datastore_failure("cannot list workload endpoints", &error))?;
    let own = key(identity);
    let has_interface = |stored: &Stored| {
        spec(stored).is_some_and(|spec| {
            spec.interface_name == Some(identity.host_interface) && spec.node == *identity.node && stored.key != own
        })
    };
    Ok(listing.entries.into_iter().flatten().find(has_interface))
}

/// Its specification.
pub(crate) fn spec(stored: &Stored) -> Option<&WorkloadEndpointSpec> {
    match stored.resource.as_ref() {
        Resource::WorkloadEndpoint(endpoint) => Some(&endpoint.spec),
        _ => None,
    }
}

/// Whether the container made it. One without a container id is anybody's, as for upstream.
pub(crate) fn is_ours(stored: &Stored, identity: &Identity) -> bool {
    spec(stored).is_some_and(|spec| spec.container_id.is_empty() || spec.container_id == identity.container_id)
}

/// Writes the endpoint and, where it is missing, the profile that it names: one batch.
pub(crate) async fn publish(
    request: &Request,
    identity: &Identity,
    endpoint: Object<WorkloadEndpointSpec>,
    parts: &Parts<'_>,
    births: &Births<'_>,
) -> Result<(), CniError> {
    let failed = |error: &DatastoreError| datastore_failure("cannot write the workload endpoint", error);
    for attempt in 1.. {
        let former = stored(identity, parts).await?;
        let mut writes = Vec::from_iter(missing_profile(request, identity, parts, births).await?);
        writes.push(endpoint_write(identity, endpoint.clone(), former, births));
        match parts.store.commit(Batch { writes }).await {
            Ok(_) => return Ok(()),
            Err(error) if attempt < ATTEMPTS && (error.is_conflict() || error.is_not_found()) => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(())
}

/// Deletes the endpoint if the container made it; answers whether there was one to delete. One that cannot be read is left: whose it is
/// cannot be told, and nothing is allowed by it, so that address and interface may go.
pub(crate) async fn withdraw(identity: &Identity, parts: &Parts<'_>) -> Result<bool, CniError> {
    for attempt in 1.. {
        let stored = match parts.store.get(&key(identity)).await {
            Err(error @ DatastoreError::Unreadable { .. }) => {
                warn(format_args!("warning: the workload endpoint stays, since it cannot be read: {}", chain(&error)));
                return Ok(false);
            }
            other => optional(other).map_err(|error| datastore_failure("cannot read the workload endpoint", &error))?,
        };
        let Some(stored) = stored else { return Ok(false) };
        if !is_ours(&stored, identity) {
            // The workload was made anew in the meantime.
            return Ok(false);
        }
        let delete = Write::delete(stored.key, Precondition::At(stored.revision));
        match parts.store.commit(delete.into()).await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_not_found() => return Ok(true),
            Err(error) if attempt < ATTEMPTS && error.is_conflict() => {}
            Err(error) => return Err(datastore_failure("cannot delete the workload endpoint", &error)),
        }
    }
    Ok(false)
}

fn key(identity: &Identity) -> ResourceKey {
    ResourceKey::namespaced(Kind::WorkloadEndpoint, &identity.namespace, &identity.endpoint_name.to_string())
}

/// The endpoint over the one that is stored. That of the same container is brought up to date; that of a container which the workload had
/// before gives its identity only.
fn endpoint_write(
    identity: &Identity,
    mut endpoint: Object<WorkloadEndpointSpec>,
    former: Option<Stored>,
    births: &Births<'_>,
) -> Write {
    let Some(former) = former else {
        created(&mut endpoint.metadata, births);
        return Write::create(key(identity), Arc::new(Resource::WorkloadEndpoint(endpoint)));
    };
    if let Resource::WorkloadEndpoint(stored) = former.resource.as_ref()
        && is_ours(&former, identity)
    {
        let mut renewed = renewed_endpoint(stored, endpoint);
        if renewed.metadata.uid.is_none() {
            created(&mut renewed.metadata, births);
        }
        return Write::update(&former, Arc::new(Resource::WorkloadEndpoint(renewed)));
    }
    match former.resource.metadata().filter(|metadata| metadata.uid.is_some()) {
        Some(Metadata { uid, creation_timestamp, .. }) => {
            endpoint.metadata.uid.clone_from(uid);
            endpoint.metadata.creation_timestamp.clone_from(creation_timestamp);
        }
        None => created(&mut endpoint.metadata, births),
    }
    let precondition = Precondition::At(former.revision);
    Write::put(key(identity), precondition, Arc::new(Resource::WorkloadEndpoint(endpoint)), None)
}

async fn missing_profile(
    request: &Request,
    identity: &Identity,
    parts: &Parts<'_>,
    births: &Births<'_>,
) -> Result<Option<Write>, CniError> {
    let key = ResourceKey::cluster(Kind::Profile, &request.conf.name);
    let found = match parts.store.get(&key).await {
        // One that cannot be read is there nevertheless.
        Err(DatastoreError::Unreadable { .. }) => return Ok(None),
        other => optional(other).map_err(|error| datastore_failure("cannot read the network's profile", &error))?,
    };
    if found.is_some() {
        return Ok(None);
    }
    let mut profile = network_profile(&request.conf.name, &identity.orchestrator);
    created(&mut profile.metadata, births);
    Ok(Some(Write::create(key, Arc::new(Resource::Profile(profile)))))
}

fn created(metadata: &mut Metadata, births: &Births<'_>) {
    metadata.creation_timestamp = Some(births.clock.now().rfc3339());
    metadata.uid = Some(uuid(births.ids.draw()));
}

fn optional<T>(result: Result<T, DatastoreError>) -> Result<Option<T>, DatastoreError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Random bits as a UUID of version 4.
fn uuid(bits: u128) -> String {
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 4 << 76 | 2 << 62;
    let digits = format!("{bits:032x}");
    let (mut uuid, mut rest) = (String::new(), digits.as_str());
    for length in [8, 4, 4, 4, 12] {
        let (part, after) = rest.split_at(length);
        uuid.push_str(part);
        uuid.push(if after.is_empty() { ' ' } else { '-' });
        rest = after;
    }
    uuid.trim_end().to_owned()
}
