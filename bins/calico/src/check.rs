//! CHECK: is the container attached as its result says?

use calico_core::cni::{CniError, CniResult, ErrorCode, Identity, Interface, Request};

use crate::{Parts, endpoint, links};

/// Compares addresses, interfaces and endpoint with `prevResult`. Changes nothing.
pub(crate) async fn check(request: &Request, identity: &Identity, parts: &Parts<'_>) -> Result<(), CniError> {
    let document = request.conf.prev_result.as_ref();
    let document = document
        .ok_or_else(|| CniError::new(ErrorCode::InvalidConfig, "CHECK needs the ADD's result as prevResult"))?;
    let previous = CniResult::from_json(document, request.version)?;
    let addresses = links::host_prefixes(&previous);
    let told = interface_of(&previous, identity);
    // What the MTU file says today is for the containers of today.
    let mtu = told.and_then(|interface| interface.mtu).unwrap_or(request.conf.mtu);
    let mut wanted = links::wanted(request, identity, &addresses, mtu);
    wanted.container_mac = told.and_then(|interface| interface.mac);
    let mut faults = Vec::new();
    let held = parts.addresses.check(request).await;
    let is_held = match held {
        Ok(()) => true,
        Err(error) if error.code == ErrorCode::TryAgain => return Err(error),
        Err(error) => {
            faults.push(error.to_string());
            error.code != ErrorCode::UnknownContainer
        }
    };
    let stored = endpoint::stored(identity, parts).await?;
    let is_stored = stored.is_some();
    match stored {
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
    // "Unknown" tells the runtime that it need not clean up, so nothing must be there.
    let is_there = is_held || is_stored || plumbing.container.is_some() || plumbing.host.is_some();
    let code = if is_there { ErrorCode::Internal } else { ErrorCode::UnknownContainer };
    Err(CniError::new(code, faults.join("; ")))
}

/// What the result tells of the container's interface. Results before 0.3.0 tell nothing.
fn interface_of<'a>(previous: &'a CniResult, identity: &Identity) -> Option<&'a Interface> {
    let is_containers =
        |interface: &&Interface| !interface.sandbox.is_empty() && interface.name == identity.interface.as_str();
    previous.interfaces.iter().find(is_containers)
}
