//! Tells what is there of a workload's interface, and how it differs from what was asked for.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use calico_core::net::{Cidr, InterfaceName, Mac};
use netlink_packet_route::AddressFamily;

use super::{AttachRequest, WorkloadError};
use crate::netns::{LinkInfo, Netns, RouteSocket};

/// Both ends of a workload's interface, as found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plumbing {
    /// The container's end, if it is there.
    pub container: Option<ContainerEnd>,
    /// The host's end, if it is there.
    pub host: Option<HostEnd>,
}

/// The container's end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerEnd {
    /// Index within the container's namespace.
    pub index: u32,
    /// Index of its peer, wherever that is.
    pub peer: Option<u32>,
    /// Ethernet address.
    pub mac: Option<Mac>,
    /// Largest packet.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Addresses, without IPv6 link-local ones.
    pub addresses: Vec<Cidr>,
    /// Destinations of its routes, with their gateways.
    pub routes: Vec<(Cidr, Option<IpAddr>)>,
}

/// The host's end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostEnd {
    /// Index.
    pub index: u32,
    /// Index of its peer, wherever that is.
    pub peer: Option<u32>,
    /// Ethernet address.
    pub mac: Option<Mac>,
    /// Administratively up.
    pub up: bool,
}

/// Something that is not as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The container has no such interface.
    NoContainerInterface(InterfaceName),
    /// The host has no such interface.
    NoHostInterface(InterfaceName),
    /// The two are not ends of one pair.
    NotPeers,
    /// An end is down.
    Down(InterfaceName),
    /// An address is missing.
    NoAddress(Cidr),
    /// A route by the gateway is missing.
    NoRoute(Cidr),
    /// The Ethernet address is another.
    Mac {
        /// Asked for.
        wanted: Mac,
        /// Found.
        found: Option<Mac>,
    },
    /// The largest packet is another.
    Mtu {
        /// Asked for.
        wanted: u32,
        /// Found.
        found: u32,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoContainerInterface(name) => write!(f, "the container has no interface {name}"),
            Self::NoHostInterface(name) => write!(f, "the host has no interface {name}"),
            Self::NotPeers => f.write_str("the host's and the container's interface are not ends of one veth pair"),
            Self::Down(name) => write!(f, "interface {name} is down"),
            Self::NoAddress(address) => write!(f, "the container's interface lacks the address {address}"),
            Self::NoRoute(route) => write!(f, "the container lacks the route to {route}"),
            Self::Mac { wanted, found: Some(found) } => {
                write!(f, "the container's Ethernet address is {found} and should be {wanted}")
            }
            Self::Mac { wanted, found: None } => {
                write!(f, "the container's interface lacks the Ethernet address {wanted}")
            }
            Self::Mtu { wanted, found } => write!(f, "the container's MTU is {found} and should be {wanted}"),
        }
    }
}

impl Plumbing {
    /// What differs from `request`; empty when all is well.
    pub fn mismatches(&self, request: &AttachRequest) -> Vec<Mismatch> {
        let mut found = Vec::new();
        match &self.container {
            None => found.push(Mismatch::NoContainerInterface(request.container_interface)),
            Some(end) => end.compare(request, &mut found),
        }
        match &self.host {
            None => found.push(Mismatch::NoHostInterface(request.host_interface)),
            Some(end) if !end.up => found.push(Mismatch::Down(request.host_interface)),
            Some(_) => {}
        }
        if let (Some(container), Some(host)) = (&self.container, &self.host)
            && (container.peer != Some(host.index) || host.peer != Some(container.index))
        {
            found.push(Mismatch::NotPeers);
        }
        found
    }
}

impl ContainerEnd {
    fn compare(&self, request: &AttachRequest, found: &mut Vec<Mismatch>) {
        if !self.up {
            found.push(Mismatch::Down(request.container_interface));
        }
        if request.mtu != 0 && self.mtu != request.mtu {
            found.push(Mismatch::Mtu { wanted: request.mtu, found: self.mtu });
        }
        if let Some(wanted) = request.container_mac.filter(|wanted| self.mac != Some(*wanted)) {
            found.push(Mismatch::Mac { wanted, found: self.mac });
        }
        let wanted = request.addresses.iter().map(|address| Cidr::host(address.address()));
        found.extend(wanted.filter(|address| !self.addresses.contains(address)).map(Mismatch::NoAddress));
        let routes = request.routes_by_gateway().into_iter();
        let missing = routes.filter(|(route, by)| !self.routes.contains(&(*route, Some(*by))));
        found.extend(missing.map(|(route, _)| Mismatch::NoRoute(route)));
    }
}

/// Looks at both ends of a workload's interface. An absent namespace is an error, see [`WorkloadError::is_netns_absent`].
pub fn inspect(
    netns: &Path,
    container_interface: InterfaceName,
    host_interface: InterfaceName,
) -> Result<Plumbing, WorkloadError> {
    let netns = Netns::open(netns).map_err(WorkloadError::Netns)?;
    let mut inside = RouteSocket::open_in(&netns).map_err(WorkloadError::Netns)?;
    let failed = |source| WorkloadError::Request { interface: container_interface, source };
    let container = match inside.link(container_interface).map_err(failed)? {
        None => None,
        Some(link) => Some(container_end(&mut inside, &link).map_err(failed)?),
    };
    let mut outside = RouteSocket::open().map_err(WorkloadError::HostNetns)?;
    let host = outside.link(host_interface);
    let host = host.map_err(|source| WorkloadError::Request { interface: host_interface, source })?;
    let host = host.map(|link| HostEnd { index: link.index, peer: link.peer, mac: link.mac, up: link.up });
    Ok(Plumbing { container, host })
}

fn container_end(routes: &mut RouteSocket, link: &LinkInfo) -> Result<ContainerEnd, crate::netns::RequestError> {
    let addresses = routes.addresses()?;
    let mut destinations = routes.routes_of(link.index, AddressFamily::Inet)?;
    destinations.extend(routes.routes_of(link.index, AddressFamily::Inet6)?);
    Ok(ContainerEnd {
        index: link.index,
        peer: link.peer,
        mac: link.mac,
        mtu: link.mtu,
        up: link.up,
        addresses: addresses
            .into_iter()
            .filter(|state| state.index == link.index && !is_link_local(state.address))
            .map(|state| Cidr::host(state.address))
            .collect(),
        routes: destinations,
    })
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}
