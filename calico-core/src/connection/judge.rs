//! Whether a connection would be denied if it began now.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::Connection;
use crate::calc::event::EndpointId;
use crate::flow::{ConnState, Decision, Flow, Passage, Place};
use crate::net::{Cidr, DISCOVERY, InterfaceName};
use crate::verdict::{Asker, Compiled, Settings};

/// A way that a host is asked for: to an address, from one of its own (or from anybody's).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a question, built by whoever asks it")]
pub struct RouteQuery {
    /// The host's own address that packets come from; none if it is not the host that sends.
    pub from: Option<IpAddr>,
    /// Where they go.
    pub to: IpAddr,
}

/// The interfaces by which a host reaches addresses. What is not there has no known way.
pub type Routes = BTreeMap<RouteQuery, Vec<InterfaceName>>;

/// What is known of the host that tracks connections.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "whoever judges must say all of it")]
pub struct Host<'a> {
    /// Its settings.
    pub settings: &'a Settings,
    /// Its own addresses.
    pub addresses: &'a BTreeSet<IpAddr>,
    /// Its own interfaces, with the addresses that lie on them.
    pub interfaces: &'a BTreeMap<InterfaceName, Vec<IpAddr>>,
    /// Answers to what [`Judge::routes`] asked.
    pub routes: &'a Routes,
}

/// What is active on a host, as a judge of connections.
#[derive(Debug)]
pub struct Judge<'a> {
    asker: Asker<'a>,
    host: Host<'a>,
    settings: Settings,
    workloads: BTreeMap<IpAddr, Vec<&'a EndpointId>>,
    /// Workloads that may use more than their own addresses.
    further: Vec<(Cidr, &'a EndpointId)>,
    by_interface: BTreeMap<InterfaceName, &'a EndpointId>,
    has_host_endpoints: bool,
}

/// Where a packet may come from, or go to.
#[derive(Debug)]
enum Side<'a> {
    /// One of these.
    Known(Vec<Place<'a>>),
    /// Whatever the host's routes say, and one of these.
    Routed(RouteQuery, Vec<Place<'a>>),
}

impl<'a> Judge<'a> {
    /// By what is active.
    pub fn new(compiled: &'a Compiled, host: Host<'a>) -> Self {
        let state = compiled.state();
        let mut workloads: BTreeMap<IpAddr, Vec<&EndpointId>> = BTreeMap::new();
        let (mut further, mut by_interface) = (Vec::new(), BTreeMap::new());
        for (id, endpoint) in &state.endpoints {
            for address in &endpoint.addresses {
                workloads.entry(address.address()).or_default().push(id);
            }
            if host.settings.host.allow_spoofed_sources {
                further.extend(endpoint.allowed_sources.iter().map(|net| (*net, id)));
            }
            by_interface.entry(endpoint.interface).or_insert(id);
        }
        let mut settings = host.settings.clone();
        // What goes in circles goes through no policy.
        settings.host.prevent_service_loops = false;
        let has_host_endpoints = !state.host_endpoints.is_empty();
        Self { asker: compiled.asker(), host, settings, workloads, further, by_interface, has_host_endpoints }
    }

    /// Whether a connection would be denied, whichever of its possible ways it takes. Nobody remembers by which interface it came; see the
    /// [module](super) for what is taken for possible.
    pub fn denies(&mut self, connection: &Connection) -> bool {
        let flow = connection.at_policy();
        // What belongs to another falls with that one. Neighbour discovery is no connection, whoever says so.
        if connection.master.is_some() || flow.is_icmpv6(&DISCOVERY) {
            return false;
        }
        let (from, to) = self.sides(connection);
        let (Some(from), Some(to)) = (self.places(from), self.places(to)) else { return false };
        let mut ways: Vec<(Place<'a>, Place<'a>)> =
            from.iter().flat_map(|from| to.iter().map(|to| (*from, *to))).collect();
        // Nothing is sent back to where it came from, if it can have come from elsewhere.
        if ways.iter().any(|(from, to)| from != to) {
            ways.retain(|(from, to)| from != to);
        }
        let arriving = connection.original;
        !ways.is_empty()
            && ways.into_iter().all(|(from, to)| {
                let passage = Passage { from, to, arriving, flow, state: ConnState::New };
                self.asker.passage(&self.settings, &passage).decision == Decision::Deny
            })
    }

    /// What must be known of the host's routes to judge a connection.
    pub fn routes(&self, connection: &Connection) -> impl Iterator<Item = RouteQuery> + use<'a> {
        let (from, to) = self.sides(connection);
        let wanted = self.has_host_endpoints && connection.master.is_none();
        let query = move |side| match side {
            Side::Routed(query, _) if wanted => Some(query),
            _ => None,
        };
        [from, to].into_iter().filter_map(query)
    }

    /// Whether an address is a workload's of this host.
    pub fn knows(&self, address: IpAddr) -> bool {
        self.workloads.contains_key(&address)
    }

    fn sides(&self, connection: &Connection) -> (Side<'a>, Side<'a>) {
        let Flow { source, destination, .. } = connection.at_policy();
        let from = if let Some(ids) = self.workloads.get(&source) {
            Side::Known(ids.iter().map(|id| Place::Workload(&id.0)).collect())
        } else if self.is_own(source) {
            Side::Known(vec![Place::Host])
        } else {
            let answers_from = Some(destination).filter(|own| self.host.addresses.contains(own));
            let further = self.further.iter().filter(|(net, _)| net.contains(source));
            let further = further.map(|(_, id)| Place::Workload(&id.0)).collect();
            Side::Routed(RouteQuery { from: answers_from, to: source }, further)
        };
        let to = if let Some(ids) = self.workloads.get(&destination) {
            Side::Known(ids.iter().map(|id| Place::Workload(&id.0)).collect())
        } else if self.is_own(destination) || !self.is_own(source) && is_for_many(destination) {
            Side::Known(vec![Place::Host])
        } else {
            let own = Some(source).filter(|own| self.host.addresses.contains(own));
            Side::Routed(RouteQuery { from: own, to: destination }, Vec::new())
        };
        (self.with_own_interfaces(from, destination), to)
    }

    /// What goes to an address of the host may come by the interface that has it, wherever the answer leaves.
    fn with_own_interfaces(&self, from: Side<'a>, own: IpAddr) -> Side<'a> {
        let Side::Routed(query, mut places) = from else { return from };
        let having = self.host.interfaces.iter().filter(|(_, addresses)| addresses.contains(&own));
        places.extend(having.map(|(name, _)| Place::Interface(*name)));
        Side::Routed(query, places)
    }

    /// The places that a side can be; none if they are not known.
    fn places(&self, side: Side<'a>) -> Option<Vec<Place<'a>>> {
        let (query, mut places) = match side {
            Side::Known(places) => return Some(places),
            // Nobody polices it.
            Side::Routed(_, mut places) if !self.has_host_endpoints => {
                places.push(Place::Interface(InterfaceName::LOOPBACK));
                return Some(places);
            }
            Side::Routed(query, places) => (query, places),
        };
        let interfaces = self.host.routes.get(&query).filter(|interfaces| !interfaces.is_empty())?;
        places.extend(interfaces.iter().map(|name| match self.by_interface.get(name) {
            Some(id) => Place::Workload(&id.0),
            None => Place::Interface(*name),
        }));
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.host.addresses.contains(&address)
    }
}

/// Whether what is sent to an address reaches the host itself, beside others.
fn is_for_many(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(core::net::Ipv4Addr::BROADCAST)
}
