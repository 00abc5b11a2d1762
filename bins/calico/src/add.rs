//! ADD: attach a container.

use std::net::IpAddr;

use calico_core::cni::{
    CniError, CniResult, ErrorCode, Identity, Interface, IpConfig, Plan, Request, Route, Step, workload_endpoint,
};
use calico_core::net::{Cidr, Mac};
use calico_core::resource::{NodeAddress, nobodys};
use calico_dataplane::workload::{AttachRequest, WorkloadError};
use calico_datastore::Stored;
use calico_ipam::plugin::warn;

use crate::{Births, Parts, endpoint, links, ownership};

/// Attaches the container, or leaves nothing behind.
pub(crate) async fn add(
    request: &Request,
    identity: &Identity,
    parts: &Parts<'_>,
    births: &Births<'_>,
) -> Result<CniResult, CniError> {
    let existing = endpoint::stored(identity, parts).await?.filter(|stored| endpoint::is_ours(stored, identity));
    if let Some(existing) = &existing
        && let Some(result) = repeated(existing, request, identity, parts).await?
    {
        if let Some(spec) = endpoint::spec(existing) {
            parts.agent.wait(identity, &spec.ip_networks, spec.mac);
        }
        return Ok(result);
    }
    if let Some(first) = endpoint::first_interface(identity, parts).await? {
        let container = &identity.container_id;
        let message = format!(
            "container {container} is attached as {first} already: a second interface of one workload is not supported"
        );
        return Err(CniError::new(ErrorCode::UnsupportedField, message));
    }
    ownership::require_free(request, identity, parts).await?;
    let mut plan = Plan::default();
    let attached = attach(&mut plan, request, identity, parts, births).await;
    if attached.is_err() {
        if existing.is_some() {
            // The container was attached before, and its address is about to go: so must the rest.
            plan.done(Step::Attach);
            plan.done(Step::Publish);
        }
        undo(&plan, request, identity, parts).await;
    }
    attached
}

async fn attach(
    plan: &mut Plan,
    request: &Request,
    identity: &Identity,
    parts: &Parts<'_>,
    births: &Births<'_>,
) -> Result<CniResult, CniError> {
    let mut result = CniResult::default();
    let (mut addresses, mut routes, mut mac) = (Vec::new(), Vec::new(), Mac::ALL_EE);
    for step in &Plan::STEPS {
        // A failed attachment has left nothing unless it says so, and an interface that is in its way is not ours to take away.
        if *step != Step::Attach {
            plan.done(*step);
        }
        match step {
            Step::Assign => {
                result = parts.addresses.add(request).await?;
                addresses = addresses_of(&result)?;
                require_workloads(&addresses)?;
            }
            Step::Attach => {
                let wanted = links::wanted(request, identity, &addresses, links::mtu(request)?);
                routes = wanted.routes_by_gateway();
                let attached = parts.links.attach(&wanted);
                if attached.as_ref().err().is_none_or(WorkloadError::is_left_behind) {
                    plan.done(Step::Attach);
                }
                mac = attached.map_err(|error| links::failure("cannot attach the container", &error))?.container_mac;
            }
            Step::Publish => {
                let endpoint = workload_endpoint(identity, request, addresses.clone(), mac);
                endpoint::publish(request, identity, endpoint, parts, births).await?;
            }
            Step::Await => parts.agent.wait(identity, &addresses, Some(mac)),
        }
    }
    Ok(complete(result, &addresses, &routes, mac, request, identity))
}

/// Takes back what was done, last first. What fails here is only told: the first fault is the answer. The address of an endpoint that
/// stays is kept, as by a DEL; the runtime's DEL after a failed ADD takes both.
async fn undo(plan: &Plan, request: &Request, identity: &Identity, parts: &Parts<'_>) {
    let undone: Vec<_> = plan.undo().collect();
    let mut is_published = false;
    for step in undone {
        if is_published && step == Step::Assign {
            continue;
        }
        let outcome = match step {
            Step::Assign => parts.addresses.del(request).await,
            Step::Attach => {
                let unwanted = links::unwanted(request, Some(identity.host_interface));
                let detached = unwanted.map_or(Ok(()), |unwanted| parts.links.detach(&unwanted));
                detached.map_err(|error| links::failure("cannot detach the container", &error))
            }
            Step::Publish => endpoint::withdraw(identity, parts).await.map(|_| ()),
            Step::Await => Ok(()),
        };
        if let Err(error) = outcome {
            is_published |= step == Step::Publish;
            warn(format_args!("cannot take back {step:?}: {error}"));
        }
    }
}

/// The result of an ADD that was carried out before, if all of it is still there.
async fn repeated(
    existing: &Stored,
    request: &Request,
    identity: &Identity,
    parts: &Parts<'_>,
) -> Result<Option<CniResult>, CniError> {
    let Some(spec) = endpoint::spec(existing) else { return Ok(None) };
    if spec.ip_networks.is_empty() {
        return Ok(None);
    }
    // An MTU that the file says now does not make an interface of an earlier one unsound.
    let wanted = links::wanted(request, identity, &spec.ip_networks, request.conf.mtu);
    let wanted = AttachRequest { container_mac: spec.mac, ..wanted };
    let plumbing = parts.links.inspect(&wanted);
    let plumbing = plumbing.map_err(|error| links::failure("cannot look at the container", &error))?;
    let mac = plumbing.container.as_ref().and_then(|end| end.mac);
    let (true, Some(mac)) = (plumbing.mismatches(&wanted).is_empty(), mac) else { return Ok(None) };
    let result = if parts.addresses.is_idempotent() {
        parts.addresses.add(request).await?
    } else {
        from_endpoint(&spec.ip_networks)
    };
    let addresses = addresses_of(&result)?;
    if addresses != spec.ip_networks {
        return Ok(None);
    }
    Ok(Some(complete(result, &addresses, &wanted.routes_by_gateway(), mac, request, identity)))
}

fn from_endpoint(addresses: &[Cidr]) -> CniResult {
    let ips = addresses.iter().filter_map(|cidr| {
        let address = NodeAddress::new(cidr.address(), cidr.length())?;
        Some(IpConfig { interface: None, address, gateway: None })
    });
    CniResult { ips: ips.collect(), ..CniResult::default() }
}

fn addresses_of(result: &CniResult) -> Result<Vec<Cidr>, CniError> {
    let addresses = links::host_prefixes(result);
    if addresses.is_empty() {
        let message = "IPAM plugin returned no IP addresses in result";
        return Err(CniError::new(ErrorCode::InvalidConfig, message));
    }
    Ok(addresses)
}

/// Refuses an address that is never a workload's: the agent takes an endpoint for one without it, so the container would be attached and
/// have no traffic.
fn require_workloads(addresses: &[Cidr]) -> Result<(), CniError> {
    for address in addresses.iter().map(|cidr| cidr.address()) {
        if let Some(reason) = nobodys(address) {
            let message =
                format!("the IPAM plugin gave {address}, which {reason}: give it a range of addresses for workloads");
            return Err(CniError::new(ErrorCode::InvalidConfig, message));
        }
    }
    Ok(())
}

/// The IPAM plugin's result with the interfaces, addresses narrowed to themselves, and the routes that the container has: the IPAM
/// plugin's are not set (those of `calico-ipam` are none, see there).
fn complete(
    mut result: CniResult,
    addresses: &[Cidr],
    routes: &[(Cidr, IpAddr)],
    mac: Mac,
    request: &Request,
    identity: &Identity,
) -> CniResult {
    let routes = routes.iter().filter_map(|(dst, gateway)| {
        Some(Route { dst: NodeAddress::new(dst.address(), dst.length())?, gw: Some(*gateway) })
    });
    result.routes = routes.collect();
    let narrowed = from_endpoint(addresses).ips;
    result.ips = narrowed.into_iter().map(|ip| IpConfig { interface: Some(1), ..ip }).collect();
    result.interfaces = vec![
        Interface { name: identity.host_interface.to_string(), ..Interface::default() },
        Interface {
            name: identity.interface.to_string(),
            mac: Some(mac),
            mtu: Some(request.conf.mtu).filter(|mtu| *mtu != 0),
            sandbox: request.netns.clone().unwrap_or_default(),
        },
    ];
    result
}
