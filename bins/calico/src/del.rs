//! DEL: detach a container.
//!
//! Endpoint, interface and address are taken away each for itself: one that fails does not keep the others (upstream stops at the first,
//! and leaks addresses when its datastore is slow). The address goes last, since one that is free while its interface still exists
//! could be given to another workload of the host.

use calico_core::cni::{CniError, Identity, Request};

use crate::{Parts, endpoint, links};

/// Detaches the container. What is not there is fine. Without a node name (the agent never ran here) no endpoint can be named, so none
/// was written by this host.
pub(crate) async fn del(
    request: &Request,
    identity: Result<Identity, CniError>,
    parts: &Parts<'_>,
) -> Result<(), CniError> {
    let mut failures = Vec::new();
    let mut host_interface = None;
    if let Ok(identity) = &identity {
        match endpoint::withdraw(identity, parts).await {
            Ok(is_ours) => host_interface = is_ours.then_some(identity.host_interface),
            Err(error) => failures.push(error),
        }
    }
    if let Some(unwanted) = links::unwanted(request, host_interface)
        && let Err(error) = parts.links.detach(&unwanted)
        && !error.is_netns_absent()
    {
        failures.push(links::failure("cannot detach the container", &error));
    }
    failures.extend(parts.addresses.del(request).await.err());
    join(failures)
}

/// One error for all: the first one's code, everybody's words.
fn join(failures: Vec<CniError>) -> Result<(), CniError> {
    let Some(code) = failures.first().map(|error| error.code) else { return Ok(()) };
    let words: Vec<_> = failures.iter().map(ToString::to_string).collect();
    Err(CniError::new(code, words.join("; ")))
}
