//! Detaches a container.

use calico_core::net::InterfaceName;

use super::{DetachRequest, WorkloadError};
use crate::netns::{Netns, Request, RouteSocket};

/// Removes the workload's interface. Absence, of the interface or of the whole namespace, is success.
///
/// Deleting either end deletes both, and with them every address, route and neighbour on them.
pub fn detach(request: &DetachRequest) -> Result<(), WorkloadError> {
    if let Some(path) = &request.netns {
        match Netns::open(path) {
            Ok(netns) => {
                let host = Netns::current().map_err(WorkloadError::HostNetns)?;
                if netns.is_same(&host).map_err(WorkloadError::Netns)? {
                    return Err(WorkloadError::SharedNetns);
                }
                let mut inside = RouteSocket::open_in(&netns).map_err(WorkloadError::Netns)?;
                delete_veth(&mut inside, request.container_interface)?;
            }
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(WorkloadError::Netns(error)),
        }
    }
    request.host_interface.map_or(Ok(()), detach_host)
}

/// Removes the host's end, and with it the container's.
pub(super) fn detach_host(interface: InterfaceName) -> Result<(), WorkloadError> {
    let mut host = RouteSocket::open().map_err(WorkloadError::HostNetns)?;
    delete_veth(&mut host, interface)
}

fn delete_veth(routes: &mut RouteSocket, interface: InterfaceName) -> Result<(), WorkloadError> {
    let failed = |source| WorkloadError::Request { interface, source };
    // Anything but a veth is none of ours: a container may have made an interface of that name itself.
    let Some(link) = routes.link(interface).map_err(failed)?.filter(|link| link.is_veth) else { return Ok(()) };
    match routes.carry_out(&[Request::delete_link(link.index)]) {
        Err(error) if !error.is_absent() => Err(failed(error)),
        _ => Ok(()),
    }
}
