//! CHECK: is the container attached as its result says?

use calico_core::cni::{CniError, CniResult, ErrorCode, Identity, Interface, Request};
use calico_core::net::Mac;

use crate::{Parts, endpoint, links};

/// Compares addresses, interfaces and endpoint with `prevResult`. Changes nothing.
pub(crate) async fn check(request: &Request, identity: &Identity, parts: &Parts<'_>) -> Result<(), CniError> {
    let document = request.conf.prev_result.as_ref();
    let document = document
        .ok_or_else(|| CniError::new(ErrorCode::InvalidConfig, "CHECK needs the ADD's result as prevResult"))?;
    let previous = CniResult::from_json(document, request.version)?;
    parts.addresses.check(request).await?;
    let addresses = links::host_prefixes(&previous);
    let mut wanted = links::wanted(request, identity, &addresses)?;
    wanted.container_mac = mac_of(&previous, identity);
    let mut faults = Vec::new();
    match endpoint::stored(identity, parts).await? {
        None => faults.push(format!("there is no workload endpoint {}", identity.endpoint_name)),
        Some(stored) if !endpoint::is_ours(&stored, identity) => {
            faults.push(format!("workload endpoint {} is another container's", identity.endpoint_name));
        }
        Some(stored) => {
            let spec = endpoint::spec(&stored);
            let networks = spec.map(|spec| spec.ip_networks.as_slice()).unwrap_or_default();
            let missing = addresses.iter().filter(|address| !networks.contains(address));
            faults.extend(missing.map(|address| format!("the workload endpoint has no address {address}")));
            // The host's permanent neighbour has the endpoint's, so any other one gets no packet.
            let mac = spec.and_then(|spec| spec.mac);
            if let (Some(stored), Some(told)) = (mac, wanted.container_mac)
                && stored != told
            {
                faults.push(format!("the workload endpoint has the Ethernet address {stored}, and the result {told}"));
            }
            wanted.container_mac = mac.or(wanted.container_mac);
        }
    }
    let plumbing = parts.links.inspect(&wanted);
    let plumbing = plumbing.map_err(|error| links::failure("cannot look at the container", &error))?;
    faults.extend(plumbing.mismatches(&wanted).iter().map(ToString::to_string));
    if faults.is_empty() {
        return Ok(());
    }
    Err(CniError::new(ErrorCode::UnknownContainer, faults.join("; ")))
}

/// The Ethernet address that the result tells of the container's interface. Results before 0.3.0 tell of none.
fn mac_of(previous: &CniResult, identity: &Identity) -> Option<Mac> {
    let is_containers =
        |interface: &&Interface| !interface.sandbox.is_empty() && interface.name == identity.interface.as_str();
    previous.interfaces.iter().find(is_containers).and_then(|interface| interface.mac)
}
