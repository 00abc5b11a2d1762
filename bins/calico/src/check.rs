//! CHECK: is the container attached as its result says?

use calico_core::cni::{CniError, CniResult, ErrorCode, Identity, Request};

use crate::{Parts, endpoint, links};

/// Compares addresses, interfaces and endpoint with `prevResult`. Changes nothing.
pub(crate) async fn check(request: &Request, identity: &Identity, parts: &Parts<'_>) -> Result<(), CniError> {
    let document = request.conf.prev_result.as_ref();
    let document = document
        .ok_or_else(|| CniError::new(ErrorCode::InvalidConfig, "CHECK needs the ADD's result as prevResult"))?;
    let previous = CniResult::from_json(document, request.version)?;
    parts.addresses.check(request).await?;
    let addresses = links::host_prefixes(&previous);
    let mut faults = Vec::new();
    match endpoint::stored(identity, parts).await? {
        None => faults.push(format!("there is no workload endpoint {}", identity.endpoint_name)),
        Some(stored) if !endpoint::is_ours(&stored, identity) => {
            faults.push(format!("workload endpoint {} is another container's", identity.endpoint_name));
        }
        Some(stored) => {
            let networks = endpoint::spec(&stored).map(|spec| spec.ip_networks.as_slice()).unwrap_or_default();
            let missing = addresses.iter().filter(|address| !networks.contains(address));
            faults.extend(missing.map(|address| format!("the workload endpoint has no address {address}")));
        }
    }
    let wanted = links::wanted(request, identity, &addresses)?;
    let plumbing = parts.links.inspect(&wanted);
    let plumbing = plumbing.map_err(|error| links::failure("cannot look at the container", &error))?;
    faults.extend(plumbing.mismatches(&wanted).iter().map(ToString::to_string));
    if faults.is_empty() {
        return Ok(());
    }
    Err(CniError::new(ErrorCode::UnknownContainer, faults.join("; ")))
}
