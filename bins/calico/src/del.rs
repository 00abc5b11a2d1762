//! DEL: detach a container.
//!
//! Endpoint, interface and address are taken away each for itself: one that fails does not keep the others (upstream stops at the first,
//! and leaks addresses when its datastore is slow). With one exception: while the endpoint is or may be stored, its address is kept. It
//! would be given to another workload, and whatever policy selects the former one would be applied to it, on every host. The runtime
//! repeats a DEL that failed, and its GC takes what it forgot, so the address is late and not lost. An interface that stays keeps nothing:
//! without an endpoint the agent drops all that comes from it, and routes nothing to it.
//!
//! Who deletes a veth is held by the kernel for an RCU grace period, 10 to 20 ms. So an agent that runs is asked to do it; whether it
//! did or not, the plugin then looks at both ends itself, and deletes what is left.

use calico_core::cni::{CniError, Identity, Request};
use calico_core::net::InterfaceName;

use crate::links::{self, Links};
use crate::{Parts, endpoint, ownership};

/// Detaches the container. What is not there is fine. `identity` is none where the agent never ran: no endpoint can be named, so none
/// was written by this host. Where it cannot be told, an endpoint may be there.
pub(crate) async fn del(
    request: &Request,
    identity: Result<Option<Identity>, CniError>,
    parts: &Parts<'_>,
) -> Result<(), CniError> {
    let withdrawn = match &identity {
        Err(error) => Err(error.clone()),
        Ok(None) => Ok(None),
        // A second interface, whose ADD was refused: address and host interface are the first one's.
        Ok(Some(identity)) if endpoint::first_interface(identity, parts).await?.is_some() => return Ok(()),
        Ok(Some(identity)) => withdraw(request, identity, parts).await,
    };
    let host_interface = withdrawn.as_ref().ok().copied().flatten();
    if let Some(interface) = host_interface {
        parts.agent.remove(interface);
    }
    let detached = detach(request, parts.links, host_interface);
    let released = if withdrawn.is_ok() { parts.addresses.del(request).await } else { Ok(()) };
    CniError::join([withdrawn.err(), detached.err(), released.err()].into_iter().flatten())
}

/// Deletes the endpoint; answers with the host's interface if it is for this DEL to remove. Whose that is must be known first: where
/// it cannot be told, the endpoint stays, and the next DEL does both.
async fn withdraw(
    request: &Request,
    identity: &Identity,
    parts: &Parts<'_>,
) -> Result<Option<InterfaceName>, CniError> {
    let removable = ownership::removable(request, identity, parts).await?;
    let was_ours = endpoint::withdraw(identity, parts).await?;
    Ok(removable.filter(|_| was_ours))
}

/// Takes the interface away. A namespace that is gone took it along.
pub(crate) fn detach(
    request: &Request,
    links: &dyn Links,
    host_interface: Option<InterfaceName>,
) -> Result<(), CniError> {
    match links::unwanted(request, host_interface).map(|unwanted| links.detach(&unwanted)) {
        Some(Err(error)) if !error.is_netns_absent() => Err(links::failure("cannot detach the container", &error)),
        _ => Ok(()),
    }
}
