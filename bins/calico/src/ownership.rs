//! Whose the host's interface is.
//!
//! The name of a host interface is upstream's: `cali` and eleven characters of a container id, or of a pod's hash. So two workloads
//! may want the same name. The one that has it keeps it: an ADD that finds it taken is refused, and a DEL leaves it alone. (Upstream
//! takes the interface away from whoever has it.)
//!
//! The kernel answers first: an interface whose peer is in the container is the container's. One whose peer is elsewhere is not, and a
//! DEL leaves it alone. An ADD asks the datastore whether another workload of this node has it; one that nobody has is left from a
//! workload that is gone, and is replaced.
//!
//! A DEL must not ask the datastore alone. The containers that a pod has one after the other share the name, and between the moment at
//! which a new one is attached and that at which its endpoint is written, the stored endpoint is still the old one's: a late DEL of that
//! would take the new one's interface. Only where the container's namespace cannot be looked at is there nobody else to ask.

use calico_core::cni::{CniError, ErrorCode, Identity, Request};
use calico_core::net::InterfaceName;

use crate::links::{self, HostEnd};
use crate::{Parts, endpoint};

/// Refuses an ADD whose host interface is another workload's. The code is "try again later": it is free once that one is detached.
pub(crate) async fn require_free(request: &Request, identity: &Identity, parts: &Parts<'_>) -> Result<(), CniError> {
    if matches!(host_end(request, identity, parts)?, HostEnd::Absent | HostEnd::Ours) {
        return Ok(());
    }
    let Some(owner) = endpoint::other_owner(identity, parts).await? else { return Ok(()) };
    let interface = identity.host_interface;
    let container = endpoint::spec(&owner).map(|spec| spec.container_id.as_str()).unwrap_or_default();
    let message = format!(
        "host interface {interface} of container {} is in use by container {container} ({}): its name holds only the beginning of \
         the container id; detach that container first, or use an id that differs earlier",
        identity.container_id, owner.key
    );
    Err(CniError::new(ErrorCode::TryAgain, message))
}

/// The host interface, if it is there and no other workload's.
pub(crate) async fn removable(
    request: &Request,
    identity: &Identity,
    parts: &Parts<'_>,
) -> Result<Option<InterfaceName>, CniError> {
    let is_removable = match host_end(request, identity, parts)? {
        HostEnd::Absent | HostEnd::Elsewhere => false,
        HostEnd::Ours => true,
        HostEnd::Unknown => endpoint::other_owner(identity, parts).await?.is_none(),
    };
    Ok(is_removable.then_some(identity.host_interface))
}

fn host_end(request: &Request, identity: &Identity, parts: &Parts<'_>) -> Result<HostEnd, CniError> {
    let Some(ends) = links::unwanted(request, Some(identity.host_interface)) else { return Ok(HostEnd::Absent) };
    parts.links.host_end(&ends).map_err(|error| links::failure("cannot look at the host's interface", &error))
}
