//! GC: remove what belongs to no attachment that the runtime knows.
//!
//! As by a DEL, the endpoint goes first, then the host's interface, then the address. The runtime does not add or delete in a network
//! while it collects its garbage.

use std::collections::BTreeSet;

use calico_core::cni::{CniError, Request, WorkloadPrefixes, is_stale_endpoint};
use calico_core::net::InterfaceName;
use calico_core::resource::{Kind, WorkloadEndpointSpec};
use calico_dataplane::workload::DetachRequest;
use calico_datastore::{Precondition, Scope, Stored, Write};
use calico_ipam::plugin::datastore_failure;

use crate::{Parts, endpoint, links};

/// Collects. One failure does not keep the other endpoints, but the addresses: whoever assigns them cannot be told which to keep.
pub(crate) async fn gc(
    request: &Request,
    node: &str,
    prefixes: &WorkloadPrefixes,
    parts: &Parts<'_>,
) -> Result<(), CniError> {
    let valid = request.conf.valid_attachments()?;
    let listing = parts.store.list(&Scope::Kind(Kind::WorkloadEndpoint)).await;
    let listing = listing.map_err(|error| datastore_failure("cannot list workload endpoints", &error))?;
    let is_stale = |spec: &WorkloadEndpointSpec| is_stale_endpoint(spec, &request.conf.name, node, valid);
    let of_node = listing.entries.iter().flatten().filter_map(|stored| Some((stored, endpoint::spec(stored)?)));
    let (stale, others): (Vec<_>, Vec<_>) =
        of_node.filter(|(_, spec)| spec.node == node).partition(|(_, spec)| is_stale(spec));
    let taken: BTreeSet<_> = others.iter().filter_map(|(_, spec)| spec.interface_name).collect();
    let mut failures = Vec::new();
    for (stored, spec) in stale {
        let is_ours = |name: &InterfaceName| {
            !taken.contains(name) && prefixes.to_vec().iter().any(|prefix| name.as_str().starts_with(prefix.as_str()))
        };
        failures.extend(collect(stored, spec.interface_name.filter(is_ours), parts).await.err());
    }
    if failures.is_empty() {
        let kept = others.iter().map(|(_, spec)| spec.container_id.to_string()).collect();
        failures.extend(parts.addresses.gc(request, node, &kept).await.err());
    }
    CniError::join(failures)
}

async fn collect(stored: &Stored, interface: Option<InterfaceName>, parts: &Parts<'_>) -> Result<(), CniError> {
    let delete = Write::delete(stored.key.clone(), Precondition::At(stored.revision));
    match parts.store.commit(delete.into()).await {
        Err(error) if !error.is_not_found() => {
            return Err(datastore_failure(&format!("cannot delete {}", stored.key), &error));
        }
        _ => {}
    }
    let Some(interface) = interface else { return Ok(()) };
    parts.agent.remove(interface);
    let unwanted = DetachRequest { netns: None, container_interface: interface, host_interface: Some(interface) };
    parts.links.detach(&unwanted).map_err(|error| links::failure("cannot remove the host's interface", &error))
}
