//! Routes, neighbours, links and traffic control over raw route netlink.
//!
//! Messages are those of `netlink-packet-route`, but for traffic control, of which that knows too little; sending them is ours, because a library that waits for each acknowledgement needs
//! twice the time (4.1 against 2.1 µs a route). [`Routing`] is the request side, [`monitor`] the notification side.

pub(crate) mod address;
pub(crate) mod batch;
pub(crate) mod carried;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod faults;
mod index;
pub(crate) mod link;
mod lookup;
pub(crate) mod monitor;
pub(crate) mod neighbor;
mod readiness;
pub(crate) mod route;
mod shaper;
pub(crate) mod socket;
pub(crate) mod tc;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use calico_core::connection::{RouteQuery, Routes};
use calico_core::net::InterfaceName;
use calico_core::table::{Delta, Neighbor, Route, RouteKey, RouteTarget};
use netlink_packet_core::Emitable;
use netlink_packet_route::AddressFamily;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;

use self::batch::Batch;
use self::link::{Link, Links};
use self::socket::RequestSocket;
use self::wire::{CREATE, REPLACE, Writer};
use crate::{ApplyReport, DataplaneError, RouteFailure};

/// Route netlink of one network namespace.
#[derive(Debug)]
pub(crate) struct Routing {
    socket: RequestSocket,
    /// Devices made, and indices of those deleted, since they were last taken.
    own_links: Vec<(u32, Option<Link>)>,
}

/// Indices of the interfaces that a delta names: asked for once per apply, as an index lives no longer than its link.
#[derive(Debug, Default)]
struct Indices(BTreeMap<InterfaceName, Option<u32>>);

impl Indices {
    fn known(&self, interface: InterfaceName) -> Option<u32> {
        self.0.get(&interface).copied().flatten()
    }
}

impl Routing {
    pub(crate) fn open() -> Result<Self, DataplaneError> {
        let socket = RequestSocket::open(NETLINK_ROUTE).map_err(kernel("open a socket", "route netlink"))?;
        socket.check_strictly();
        Ok(Self { socket, own_links: Vec::new() })
    }

    pub(crate) const fn port(&self) -> u32 {
        self.socket.port()
    }

    /// Devices that were made, and indices of those that were deleted, since the last call: nobody tells us of what we do.
    pub(crate) fn take_own_links(&mut self) -> Vec<(u32, Option<Link>)> {
        std::mem::take(&mut self.own_links)
    }

    /// All links.
    pub(crate) fn links(&mut self) -> Result<Links, DataplaneError> {
        let body = |w: &mut Writer| emit(w, &link::dump_request());
        let links = self.socket.dump(link::GET, body, |links: &mut Links, message| {
            if let Some(link) = link::decode(message.body) {
                links.insert(link);
            }
        });
        links.map_err(kernel("list", "links"))
    }

    /// All addresses of the host.
    pub(crate) fn own_addresses(&mut self) -> Result<BTreeSet<IpAddr>, DataplaneError> {
        address::all(&mut self.socket).map_err(kernel("list", "addresses"))
    }

    /// The interfaces by which the host sends what is asked about.
    pub(crate) fn ways(&mut self, asked: &BTreeSet<RouteQuery>) -> Result<Routes, DataplaneError> {
        let links = self.links()?;
        lookup::all(&mut self.socket, &links, asked).map_err(kernel("look up", "routes"))
    }

    /// Addresses of links that `wanted` picks.
    pub(crate) fn addresses(
        &mut self,
        links: &Links,
        wanted: impl Fn(InterfaceName) -> bool,
    ) -> Result<BTreeMap<InterfaceName, BTreeSet<IpAddr>>, DataplaneError> {
        let mut addresses: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
        for (index, address) in address::by_link(&mut self.socket).map_err(kernel("list", "addresses"))? {
            if let Some(name) = links.name(index).filter(|name| wanted(*name)) {
                addresses.entry(name).or_default().insert(address);
            }
        }
        Ok(addresses)
    }

    /// Routes of our protocols.
    pub(crate) fn routes(&mut self, links: &Links) -> Result<BTreeMap<RouteKey, Route>, DataplaneError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let body = |w: &mut Writer| emit(w, &route::dump_request(family));
            let found = self.socket.dump(route::GET, body, |found: &mut Vec<Route>, message| {
                found.extend(route::decode(message.body, links).and_then(|found| found.route));
            });
            // A kernel without IPv6 knows no such list.
            match found {
                Ok(found) => routes.extend(found),
                Err(error) if is(&error, &[Errno::EOPNOTSUPP, Errno::EAFNOSUPPORT]) => {}
                Err(error) => return Err(kernel("list", "routes")(error)),
            }
        }
        // All at once: the kernel lists them nearly sorted, and a tree of sorted entries is built without a search for each.
        Ok(routes.into_iter().map(|route| (route.key, route)).collect())
    }

    /// Permanent neighbours on links that `wanted` picks.
    pub(crate) fn neighbors(
        &mut self,
        links: &Links,
        wanted: impl Fn(InterfaceName) -> bool,
    ) -> Result<Vec<Neighbor>, DataplaneError> {
        let body = |w: &mut Writer| emit(w, &neighbor::dump_request());
        let found = self.socket.dump(neighbor::GET, body, |found: &mut Vec<Neighbor>, message| {
            let decoded = neighbor::decode(message.body, links).filter(|decoded| decoded.permanent);
            found.extend(decoded.map(|decoded| decoded.neighbor).filter(|neighbor| wanted(neighbor.interface)));
        });
        found.map_err(kernel("list", "neighbours"))
    }

    /// Neighbours, then routes: a route that leads to a workload finds its neighbour there; removals last, so that a destination
    /// that gets another route is never without one.
    pub(crate) fn apply(&mut self, delta: &Delta, report: &mut ApplyReport) {
        let mut indices = Indices::default();
        self.set(delta, &mut indices, report);
        self.remove_routes(delta, report);
        self.remove_neighbors(delta, &mut indices, report);
    }

    /// Both kinds in the same datagrams, whose failures are told apart by tags: first the neighbours', then the routes'.
    fn set(&mut self, delta: &Delta, indices: &mut Indices, report: &mut ApplyReport) {
        let (neighbors, routes) = (&delta.neighbors_set, &delta.routes_set);
        self.miss_interfaces(delta, indices, report);
        let mut batch = Batch::new(&mut self.socket);
        for (tag, neighbor) in neighbors.iter().enumerate() {
            if let Some(index) = indices.known(neighbor.interface) {
                let message = neighbor::encode(neighbor, index);
                batch.push(tag, neighbor::NEW, CREATE | REPLACE, |w| emit(w, &message));
            }
        }
        for (tag, route) in (neighbors.len()..).zip(routes) {
            let interface = route.interface();
            let index = interface.and_then(|interface| indices.known(interface));
            if interface.is_none() || index.is_some() {
                let message = route::encode(route, index);
                batch.push(tag, route::NEW, CREATE | REPLACE, |w| emit(w, &message));
            }
        }
        for (tag, error) in batch.finish() {
            if let Some(neighbor) = neighbors.get(tag) {
                report.neighbors.push((*neighbor, neighbor_refused(neighbor, error)));
            } else if let Some(route) = tag.checked_sub(neighbors.len()).and_then(|place| routes.get(place)) {
                report.routes.push(RouteFailure { key: route.key, error: route_refused(route, error) });
            }
        }
    }

    /// Asks for the interfaces by which something is to be written; what has none is not.
    fn miss_interfaces(&self, delta: &Delta, indices: &mut Indices, report: &mut ApplyReport) {
        for neighbor in &delta.neighbors_set {
            if self.index(neighbor.interface, indices).is_none() {
                let error = no_interface(neighbor::name(neighbor), neighbor.interface);
                report.neighbors.push((*neighbor, error));
            }
        }
        for route in &delta.routes_set {
            if let Some(interface) = route.interface()
                && self.index(interface, indices).is_none()
            {
                let error = no_interface(route::name(&route.key), interface);
                report.routes.push(RouteFailure { key: route.key, error });
            }
        }
    }

    /// A key does not say the class, and only routes of our own protocols may go: each protocol is tried until one fits.
    fn remove_routes(&mut self, delta: &Delta, report: &mut ApplyReport) {
        let set: BTreeSet<_> = delta.routes_set.iter().map(|route| route.key).collect();
        let removed = delta.routes_removed.iter().filter(|key| !set.contains(key));
        let (ambiguous, mut keys): (Vec<_>, Vec<_>) = removed.partition(|key| route::is_ambiguous(key));
        self.remove_ambiguous(&ambiguous, report);
        for protocol in route::PROTOCOLS {
            let removals: Vec<_> = keys.iter().map(|key| (*key, protocol)).collect();
            keys = self.remove_of_protocol(&removals, report);
        }
    }

    /// Nobody writes these any more; what an older release or upstream left is looked for, so that nothing else goes in its place.
    fn remove_ambiguous(&mut self, keys: &[&RouteKey], report: &mut ApplyReport) {
        if keys.is_empty() {
            return;
        }
        match self.routes(&Links::default()) {
            Ok(found) => {
                let protocol = |key: &RouteKey| Some(route::class_protocol(found.get(key)?.class));
                let removals: Vec<_> = keys.iter().filter_map(|key| Some((*key, protocol(key)?))).collect();
                self.remove_of_protocol(&removals, report);
            }
            Err(error) => report.routes.extend(keys.iter().map(|key| {
                let error =
                    DataplaneError::Reply { operation: "look for a route to remove", detail: error.to_string() };
                RouteFailure { key: **key, error }
            })),
        }
    }

    /// Removes routes, and returns those that were not there.
    fn remove_of_protocol<'k>(
        &mut self,
        removals: &[(&'k RouteKey, u8)],
        report: &mut ApplyReport,
    ) -> Vec<&'k RouteKey> {
        let mut batch = Batch::new(&mut self.socket);
        for (tag, (key, protocol)) in removals.iter().enumerate() {
            let message = route::removal(key, *protocol);
            batch.push(tag, route::DELETE, 0, |w| emit(w, &message));
        }
        let mut absent = Vec::new();
        for (tag, error) in batch.finish() {
            let Some((key, _)) = removals.get(tag) else { continue };
            if is(&error, &[Errno::ESRCH, Errno::ENODEV, Errno::ENOENT]) {
                absent.push(*key);
            } else {
                let error = kernel("remove", &route::name(key))(error);
                report.routes.push(RouteFailure { key: **key, error });
            }
        }
        absent
    }

    fn remove_neighbors(&mut self, delta: &Delta, indices: &mut Indices, report: &mut ApplyReport) {
        let identity = |neighbor: &Neighbor| (neighbor.interface, neighbor.address);
        let set: BTreeSet<_> = delta.neighbors_set.iter().map(identity).collect();
        for neighbor in &delta.neighbors_removed {
            self.index(neighbor.interface, indices);
        }
        let mut batch = Batch::new(&mut self.socket);
        for (tag, neighbor) in
            delta.neighbors_removed.iter().enumerate().filter(|(_, one)| !set.contains(&identity(one)))
        {
            // Gone with its interface, otherwise.
            if let Some(index) = indices.known(neighbor.interface) {
                let message = neighbor::removal(neighbor, index);
                batch.push(tag, neighbor::DELETE, 0, |w| emit(w, &message));
            }
        }
        for (tag, error) in batch.finish() {
            let Some(neighbor) = delta.neighbors_removed.get(tag) else { continue };
            if !is(&error, &[Errno::ENOENT, Errno::ENODEV, Errno::ENXIO]) {
                report.neighbors.push((*neighbor, kernel("remove", &neighbor::name(neighbor))(error)));
            }
        }
    }

    fn index(&self, interface: InterfaceName, indices: &mut Indices) -> Option<u32> {
        if let Some(known) = indices.0.get(&interface) {
            return *known;
        }
        let index = self.socket.index_of(interface).ok().flatten();
        indices.0.insert(interface, index);
        index
    }
}

fn emit(w: &mut Writer, message: &impl Emitable) {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    w.raw(&bytes);
}

fn is(error: &io::Error, any: &[Errno]) -> bool {
    any.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

fn neighbor_refused(neighbor: &Neighbor, error: io::Error) -> DataplaneError {
    let object = neighbor::name(neighbor);
    match is(&error, &[Errno::ENODEV, Errno::ENETDOWN]) {
        true => no_interface(object, neighbor.interface),
        false => kernel("write", &object)(error),
    }
}

fn route_refused(route: &Route, error: io::Error) -> DataplaneError {
    let object = route::name(&route.key);
    match &route.target {
        RouteTarget::Interface(interface) if is(&error, &[Errno::ENODEV, Errno::ENETDOWN]) => {
            no_interface(object, *interface)
        }
        _ => kernel("write", &object)(error),
    }
}

fn no_interface(object: String, interface: InterfaceName) -> DataplaneError {
    DataplaneError::NoInterface { object, interface: interface.to_string() }
}

fn kernel(operation: &'static str, object: &str) -> impl FnOnce(io::Error) -> DataplaneError {
    let object = object.to_owned();
    move |source| DataplaneError::Kernel { operation, object, source }
}

/// Feeds arbitrary bytes to every decoder; for fuzzing, and replayed over a corpus by the tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn decode_any(bytes: &[u8]) {
    let mut links = Links::default();
    for message in wire::messages(bytes) {
        if let Some(link) = link::decode(message.body) {
            links.insert(link);
        }
        lookup::decode_any(message.body);
        let _ = tc::Qdisc::read(message.body);
        let _ = tc::Filter::read(message.body);
        let _ = route::decode(message.body, &links);
        let _ = neighbor::decode(message.body, &links);
    }
}
