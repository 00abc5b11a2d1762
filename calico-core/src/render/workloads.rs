//! The workload endpoints of this host: who is active where several claim one interface, who has the route where several have one
//! address, and what changes when one comes, changes or goes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::bandwidth::Bandwidths;
use super::chains::Chains;
use super::endpoint::{self, Parts};
use super::floating::Floating;
use super::names::Direction;
use super::owner::Layer;
use super::pending::Pending;
use super::stack::Course;
use crate::calc::event::{ActiveEndpoint, EndpointId};
use crate::net::{Cidr, InterfaceName};
use crate::table::{Delta, Element, ElementDelta, Neighbor, SetName};

/// The workload endpoints.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    endpoints: BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
    /// Of several endpoints that claim an interface, the smallest is active (upstream's rule).
    claims: BTreeMap<InterfaceName, BTreeSet<EndpointId>>,
    /// Interfaces of active endpoints by address; the first has the route.
    addresses: BTreeMap<Cidr, BTreeSet<InterfaceName>>,
    floating: Floating,
    bandwidths: Bandwidths,
}

impl Workloads {
    pub(super) fn change(
        &mut self,
        id: &EndpointId,
        endpoint: Option<&Arc<ActiveEndpoint>>,
        chains: &mut Chains,
        delta: &mut Delta,
    ) {
        // What the base chains do not catch would be reachable and unpoliced.
        let endpoint = endpoint.filter(|new| chains.config.is_workload(new.interface));
        let before = self.endpoints.get(id).map(|old| old.interface);
        let after = endpoint.map(|new| new.interface);
        let mut interfaces = vec![before, after];
        interfaces.dedup();
        let was: Vec<_> = interfaces.into_iter().flatten().map(|name| (name, self.active(name))).collect();
        if let Some(name) = before {
            let empty = self.claims.get_mut(&name).is_some_and(|claims| claims.remove(id) && claims.is_empty());
            if empty {
                self.claims.remove(&name);
            }
        }
        match endpoint {
            Some(new) => {
                self.endpoints.insert(id.clone(), Arc::clone(new));
                self.claims.entry(new.interface).or_default().insert(id.clone());
            }
            None => {
                self.endpoints.remove(id);
            }
        }
        for (name, old) in was {
            let new = self.active(name);
            if old != new {
                self.replace(name, old.as_deref(), new.as_deref(), chains, delta);
            }
        }
    }

    fn active(&self, interface: InterfaceName) -> Option<Arc<ActiveEndpoint>> {
        let id = self.claims.get(&interface)?.first()?;
        self.endpoints.get(id).cloned()
    }

    /// Changes what the active endpoint of an interface contributes. Takes the new references before it lets go of the old, so
    /// that what both use stays.
    fn replace(
        &mut self,
        interface: InterfaceName,
        old: Option<&ActiveEndpoint>,
        new: Option<&ActiveEndpoint>,
        chains: &mut Chains,
        delta: &mut Delta,
    ) {
        let parts = |endpoint: Option<&ActiveEndpoint>| {
            endpoint.map(|endpoint| endpoint::parts(endpoint, chains)).unwrap_or_default()
        };
        let (before, after) = (parts(old), parts(new));
        if let Some(endpoint) = new {
            for (stack, course) in stacks(endpoint) {
                chains.take_stack(stack, course, delta);
            }
        }
        chains.exchange_chains(&before.chains, &after.chains, delta);
        change_elements(&before.elements, &after.elements, delta);
        self.floating.change(interface, &before.floating, &after.floating, chains, delta);
        change_neighbors(&before, &after, &mut chains.pending, delta);
        self.bandwidths.change(&before.shapings, &after.shapings, &mut chains.pending, delta);
        for setting in after.settings.difference(&before.settings) {
            chains.pending.write_setting(setting.clone(), delta);
        }
        if new.is_none() {
            let paths = before.settings.iter().map(|setting| setting.path);
            chains.pending.drop_settings(interface, paths, delta);
        }
        let (had, has) = (&before.routes, &after.routes);
        had.difference(has).for_each(|address| self.change_route(*address, interface, false, chains, delta));
        has.difference(had).for_each(|address| self.change_route(*address, interface, true, chains, delta));
        if let Some(endpoint) = old {
            for (stack, course) in stacks(endpoint) {
                chains.drop_stack(stack, course, delta);
            }
        }
        before.chains.into_iter().for_each(|chain| chains.drop_chain(chain.name, delta));
    }

    fn change_route(
        &mut self,
        address: Cidr,
        interface: InterfaceName,
        present: bool,
        chains: &mut Chains,
        delta: &mut Delta,
    ) {
        let claims = self.addresses.entry(address).or_default();
        let before = claims.first().copied();
        if present {
            claims.insert(interface);
        } else {
            claims.remove(&interface);
        }
        let after = claims.first().copied();
        if claims.is_empty() {
            self.addresses.remove(&address);
        }
        let route = |interface| endpoint::route(address, interface, &chains.config);
        match after {
            _ if before == after => {}
            Some(winner) => chains.pending.set_route(route(winner), delta),
            None => chains.pending.remove_route(route(interface).key, delta),
        }
    }
}

fn stacks(endpoint: &ActiveEndpoint) -> [(&Arc<crate::calc::event::Stack>, Course); 2] {
    [(&endpoint.ingress, course(Direction::Ingress)), (&endpoint.egress, course(Direction::Egress))]
}

/// How a workload's stacks are run.
pub(super) const fn course(direction: Direction) -> Course {
    Course { direction, layer: Layer::Filter, closed: true }
}

pub(super) fn change_elements(
    before: &BTreeSet<(SetName, Element)>,
    after: &BTreeSet<(SetName, Element)>,
    delta: &mut Delta,
) {
    let mut changes: BTreeMap<SetName, (Vec<Element>, Vec<Element>)> = BTreeMap::new();
    for (set, element) in before.difference(after) {
        changes.entry(set.clone()).or_default().0.push(element.clone());
    }
    for (set, element) in after.difference(before) {
        changes.entry(set.clone()).or_default().1.push(element.clone());
    }
    let changes = changes.into_iter().map(|(set, (removed, added))| ElementDelta { set, removed, added });
    delta.elements.extend(changes);
}

fn change_neighbors(before: &Parts, after: &Parts, pending: &mut Pending, delta: &mut Delta) {
    let same = |a: &Neighbor, b: &Neighbor| (a.interface, a.address) == (b.interface, b.address);
    for gone in before.neighbors.difference(&after.neighbors) {
        if !after.neighbors.iter().any(|kept| same(kept, gone)) {
            pending.remove_neighbor(*gone, delta);
        }
    }
    after.neighbors.difference(&before.neighbors).for_each(|neighbor| pending.set_neighbor(*neighbor, delta));
}
