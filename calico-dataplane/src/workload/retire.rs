//! Removes a workload's interface without waiting until the kernel has freed it.

use std::thread;
use std::time::Duration;

use calico_core::net::InterfaceName;

use super::{WorkloadError, detach};
use crate::netns::{Departures, Request, RouteSocket};

/// How long notifications are waited for before it is asked whether the deletion is over.
const LOOK: Duration = Duration::from_millis(20);

/// Removes the host's end of a workload's interface, and with it the container's, from the namespace of the calling thread; returns
/// as soon as both are gone. Absence is success, and so is, as for [`detach()`], an interface that is no veth: it is left alone.
///
/// Who deletes a link is held by the kernel for one RCU grace period more, some 10 to 20 ms (`netdev_run_todo`), although nobody can
/// see or use the link any more from the moment at which its end is announced, after a fraction of a millisecond. So a thread is
/// held in place of the caller, which outlives the call: for processes that do not end right afterwards.
pub fn retire(interface: InterfaceName) -> Result<(), WorkloadError> {
    let failed = |source| WorkloadError::Request { interface, source };
    let mut routes = RouteSocket::open().map_err(WorkloadError::HostNetns)?;
    let Some(link) = routes.link(interface).map_err(failed)?.filter(|link| link.is_veth) else { return Ok(()) };
    let mut departures = Departures::subscribe(LOOK).map_err(WorkloadError::HostNetns)?;
    let delete = move || routes.carry_out(&[Request::delete_link(link.index)]);
    let Ok(deletion) = thread::Builder::new().name("retire-link".into()).spawn(delete) else {
        return detach::detach_host(interface);
    };
    while !deletion.is_finished() {
        if departures.includes(link.index) {
            return Ok(());
        }
    }
    match deletion.join() {
        Ok(Err(error)) if !error.is_absent() => Err(failed(error)),
        Ok(_) => Ok(()),
        Err(_) => detach::detach_host(interface),
    }
}
