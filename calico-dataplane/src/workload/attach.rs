//! Attaches a container: all or nothing.

use std::os::fd::AsFd;

use calico_core::net::{Cidr, Family, InterfaceName, Mac};

use super::{AttachRequest, Attached, WorkloadError, gateway, sysctl};
use crate::netns::{LinkInfo, Netns, Request, RequestError, RouteSocket, VethEnd};

/// Makes the workload's interface as asked for.
///
/// When anything fails, what was made is removed again and the error tells what failed; it is [`WorkloadError::CleanUp`] if something is
/// left. An existing veth of the host
/// interface's name is replaced, together with its peer; callers that want a repeated request to leave a sound interface alone
/// look first, with [`inspect`](super::inspect()).
pub fn attach(request: &AttachRequest) -> Result<Attached, WorkloadError> {
    let container = Netns::open(&request.netns).map_err(WorkloadError::Netns)?;
    let host = Netns::current().map_err(WorkloadError::HostNetns)?;
    if container.is_same(&host).map_err(WorkloadError::Netns)? {
        return Err(WorkloadError::SharedNetns);
    }
    let mut routes = RouteSocket::open().map_err(WorkloadError::HostNetns)?;
    remove_stale(&mut routes, request.host_interface)?;
    create(&mut routes, &container, request)?;
    // The peer goes with it, and addresses, routes and neighbours with the peer.
    plumb(&mut routes, &container, request)
        .map_err(|first| taken_back(first, remove_stale(&mut routes, request.host_interface)))
}

/// The error of an attachment that failed and was taken back with this outcome.
pub(super) fn taken_back(first: WorkloadError, outcome: Result<(), WorkloadError>) -> WorkloadError {
    match outcome {
        Ok(()) => first,
        Err(second) => WorkloadError::CleanUp { first: Box::new(first), second: Box::new(second) },
    }
}

fn remove_stale(routes: &mut RouteSocket, interface: InterfaceName) -> Result<(), WorkloadError> {
    let failed = |source| WorkloadError::Request { interface, source };
    match routes.link(interface).map_err(failed)? {
        None => Ok(()),
        Some(link) if !link.is_veth => Err(WorkloadError::ForeignHostInterface { interface }),
        Some(link) => match routes.carry_out(&[Request::delete_link(link.index)]) {
            Err(error) if !error.is_absent() => Err(failed(error)),
            _ => Ok(()),
        },
    }
}

fn create(routes: &mut RouteSocket, container: &Netns, request: &AttachRequest) -> Result<(), WorkloadError> {
    let near = VethEnd { name: request.host_interface, netns: None, mac: Some(Mac::ALL_EE) };
    let far = VethEnd { name: request.container_interface, netns: Some(container.as_fd()), mac: request.container_mac };
    routes.carry_out(&[Request::veth(near, far, request.mtu)]).map_err(|source| {
        if source.is_exists() {
            // The host's name was free a moment ago.
            WorkloadError::ContainerInterfaceExists { interface: request.container_interface }
        } else {
            WorkloadError::Request { interface: request.host_interface, source }
        }
    })
}

fn plumb(routes: &mut RouteSocket, container: &Netns, request: &AttachRequest) -> Result<Attached, WorkloadError> {
    let (v4, v6) = (request.has(Family::V4), request.has(Family::V6));
    let host = find(routes, request.host_interface)?;
    // Both ends exist and are down: whatever must be set before the first packet is set now.
    sysctl::prepare_host(request.host_interface, v4, v6)?;
    let up = routes.carry_out(&[Request::up(host.index)]);
    up.map_err(|source| WorkloadError::Request { interface: request.host_interface, source })?;
    let inside = container.run(|| plumb_container(request, v4, v6)).map_err(WorkloadError::Netns)??;
    let mac = |link: &LinkInfo, interface| link.mac.ok_or(WorkloadError::Vanished { interface });
    Ok(Attached {
        container_mac: mac(&inside, request.container_interface)?,
        host_mac: mac(&host, request.host_interface)?,
        host_index: host.index,
        container_index: inside.index,
    })
}

/// Runs on a thread inside the container's namespace.
fn plumb_container(request: &AttachRequest, v4: bool, v6: bool) -> Result<LinkInfo, WorkloadError> {
    let mut routes = RouteSocket::open().map_err(WorkloadError::Netns)?;
    sysctl::prepare_container(request.container_interface, v4, v6, request.ip_forwarding)?;
    let link = find(&mut routes, request.container_interface)?;
    let failed = |source: RequestError| WorkloadError::Request { interface: request.container_interface, source };
    routes.carry_out(&container_requests(request, link.index)).map_err(failed)?;
    Ok(link)
}

fn container_requests(request: &AttachRequest, index: u32) -> Vec<Request> {
    let mut requests = vec![Request::up(index)];
    requests.extend(request.addresses.iter().map(|cidr| {
        let host = Cidr::host(cidr.address());
        Request::address(index, host.address(), host.length())
    }));
    for family in [Family::V4, Family::V6].into_iter().filter(|of| request.has(*of)) {
        let gateway = gateway(family);
        requests.push(Request::neighbor(index, gateway, Mac::ALL_EE));
        if family == Family::V4 {
            // Makes the gateway reachable although no address shares a subnet with it; link-local needs none.
            requests.push(Request::route(Cidr::host(gateway), None, index));
        }
        let of_family = request.routes_by_gateway().into_iter().filter(|(_, by)| *by == gateway);
        requests.extend(of_family.map(|(route, by)| Request::route(route, Some(by), index)));
    }
    requests
}

fn find(routes: &mut RouteSocket, interface: InterfaceName) -> Result<LinkInfo, WorkloadError> {
    let found = routes.link(interface).map_err(|source| WorkloadError::Request { interface, source })?;
    found.ok_or(WorkloadError::Vanished { interface })
}
