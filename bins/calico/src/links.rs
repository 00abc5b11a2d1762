//! Interfaces.

use std::path::Path;

use calico_cmd::output::chain;
use calico_core::cni::{CniError, CniResult, ErrorCode, Identity, Request};
use calico_core::net::{Cidr, Family, InterfaceName};
use calico_dataplane::netns::{Netns, RouteSocket};
use calico_dataplane::workload::{
    AttachRequest, Attached, DetachRequest, Plumbing, WorkloadError, attach, detach, inspect,
};
use calico_ipam::plugin::first_line;

/// Where calico-node writes the MTU that fits the cluster's encapsulation.
const MTU_FILE: &str = "/var/lib/calico/mtu";

/// What the commands do to interfaces.
pub(crate) trait Links: Send + Sync {
    fn attach(&self, request: &AttachRequest) -> Result<Attached, WorkloadError>;
    fn detach(&self, request: &DetachRequest) -> Result<(), WorkloadError>;
    fn inspect(&self, request: &AttachRequest) -> Result<Plumbing, WorkloadError>;
    fn host_end(&self, request: &DetachRequest) -> Result<HostEnd, WorkloadError>;
}

/// Whose an interface on the host is, as far as the kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostEnd {
    /// There is none of that name.
    Absent,
    /// Its peer is the interface in the container's namespace.
    Ours,
    /// The container's namespace was looked at, and its peer is not there.
    Elsewhere,
    /// The container's namespace is not known, is gone, or cannot be looked at.
    Unknown,
}

/// The kernel's.
pub(crate) struct Kernel;

impl Links for Kernel {
    fn attach(&self, request: &AttachRequest) -> Result<Attached, WorkloadError> {
        attach(request)
    }

    fn detach(&self, request: &DetachRequest) -> Result<(), WorkloadError> {
        detach(request)
    }

    fn inspect(&self, request: &AttachRequest) -> Result<Plumbing, WorkloadError> {
        inspect(&request.netns, request.container_interface, request.host_interface)
    }

    fn host_end(&self, request: &DetachRequest) -> Result<HostEnd, WorkloadError> {
        let Some(interface) = request.host_interface else { return Ok(HostEnd::Absent) };
        let mut outside = RouteSocket::open().map_err(WorkloadError::HostNetns)?;
        let host = outside.link(interface).map_err(|source| WorkloadError::Request { interface, source })?;
        let Some(host) = host else { return Ok(HostEnd::Absent) };
        let inside = request.netns.as_deref().and_then(|path| RouteSocket::open_in(&Netns::open(path).ok()?).ok());
        let Some(Ok(container)) = inside.map(|mut inside| inside.link(request.container_interface)) else {
            return Ok(HostEnd::Unknown);
        };
        let is_ours = container.is_some_and(|end| end.peer == Some(host.index) && host.peer == Some(end.index));
        Ok(if is_ours { HostEnd::Ours } else { HostEnd::Elsewhere })
    }
}

/// What to make, or to find, for a request and its addresses. An MTU of 0 is any.
pub(crate) fn wanted(request: &Request, identity: &Identity, addresses: &[Cidr], mtu: u32) -> AttachRequest {
    AttachRequest {
        netns: request.netns.as_deref().map(Path::new).unwrap_or_else(|| Path::new("")).to_owned(),
        container_interface: identity.interface,
        host_interface: identity.host_interface,
        addresses: addresses.to_vec(),
        routes: routes(request, addresses),
        mtu,
        container_mac: None,
        ip_forwarding: request.conf.container_settings.allow_ip_forwarding,
    }
}

/// What to take away. The host's end only where it is certainly this container's; it goes with the container's end anyway.
pub(crate) fn unwanted(request: &Request, host_interface: Option<InterfaceName>) -> Option<DetachRequest> {
    let netns = request.netns.as_deref().map(Into::into);
    Some(DetachRequest { netns, container_interface: request.interface?, host_interface })
}

/// The addresses of an IPAM result, each for itself: no subnet is shared with anybody.
pub(crate) fn host_prefixes(result: &CniResult) -> Vec<Cidr> {
    result.ips.iter().map(|ip| Cidr::host(ip.address.address())).collect()
}

/// A failed change of interfaces as the runtime shall see it.
pub(crate) fn failure(what: &str, error: &WorkloadError) -> CniError {
    let code = match error {
        WorkloadError::SharedNetns | WorkloadError::Netns(_) => ErrorCode::InvalidNamespace,
        _ => ErrorCode::Io,
    };
    CniError::new(code, format!("{what}: {}", chain(error)))
}

/// `ipam.routes` in place of the defaults, or with `include_default_routes` beside them.
fn routes(request: &Request, addresses: &[Cidr]) -> Vec<Cidr> {
    let conf = &request.conf;
    let mut routes: Vec<_> = conf.ipam.routes.iter().map(|route| route.dst).collect();
    if !routes.is_empty() && conf.include_default_routes {
        let defaults = [(Family::V4, "0.0.0.0/0"), (Family::V6, "::/0")];
        let has = |family| addresses.iter().any(|address| address.family() == family);
        routes.extend(
            defaults.into_iter().filter(|(family, _)| has(*family)).filter_map(|(_, all)| all.parse::<Cidr>().ok()),
        );
    }
    routes
}

/// The MTU of a container that is attached now.
pub(crate) fn mtu(request: &Request) -> Result<u32, CniError> {
    if request.conf.mtu != 0 {
        return Ok(request.conf.mtu);
    }
    let bad = |reason: String| CniError::new(ErrorCode::InvalidConfig, format!("{MTU_FILE}: {reason}"));
    match first_line(Path::new(MTU_FILE)).map_err(|error| bad(error.to_string()))? {
        Some(line) => line.parse().map_err(|_| bad(format!("{line:?} is not an MTU"))),
        None if request.conf.require_mtu_file => {
            Err(bad("there is no such file, no mtu is configured, and require_mtu_file is set".into()))
        }
        None => Ok(0),
    }
}
