//! Sets that active rules refer to, and their members.
//!
//! In come every endpoint and network set of the cluster, profiles (for their labels), and references from rules. A set lives
//! while something refers to it; sets with the same definition are one. Out come whole new sets, member changes of old ones, and
//! removals. Members are counted, so that two endpoints with one address do not make it flap.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;

use hashbrown::HashMap;

use super::admit::{Endpoint, HostEndpoint, NetworkSet};
use super::contribution::{Contribution, Ports, PortsKey};
use super::entities::Entities;
use super::event::{Event, Member, SetId};
use super::holders::{self, Holders};
use super::member::{NetMembers, PortMembers, halves};
use super::rule_scan::{Definition, NamedPort};
use super::scope::SERVICE_ACCOUNT;
use crate::label::Index;
use crate::net::Cidr;
use crate::resource::{Kind, NAMESPACE_LABEL, ResourceKey};

/// The node.
#[derive(Debug)]
pub(super) struct IpSets {
    index: Index,
    sets: HashMap<SetId, u32>,
    /// By the index's key of the set's selector.
    by_selector: HashMap<u32, Set>,
    /// By the index's key of the item.
    entities: Entities,
    ports: Ports,
    dirty: BTreeSet<u32>,
    departed: BTreeSet<IpAddr>,
    /// Who has the addresses that somebody asked about.
    holders: Holders,
}

/// One set.
#[derive(Debug)]
struct Set {
    definition: Definition,
    references: u32,
    /// Whether the renderer knows it.
    sent: bool,
    members: Members,
    /// Since it was last sent: what came (`true`) and went.
    changes: BTreeMap<Member, bool>,
}

#[derive(Debug)]
enum Members {
    Net(NetMembers),
    Port(NamedPort, PortMembers),
}

impl Default for IpSets {
    fn default() -> Self {
        Self {
            // What comes with the place where an endpoint runs.
            index: Index::with_common(&[NAMESPACE_LABEL, SERVICE_ACCOUNT]),
            sets: HashMap::new(),
            by_selector: HashMap::new(),
            entities: Entities::default(),
            ports: Ports::default(),
            dirty: BTreeSet::new(),
            departed: BTreeSet::new(),
            holders: Holders::default(),
        }
    }
}

impl IpSets {
    pub(super) fn set_endpoint(&mut self, key: &ResourceKey, endpoint: Option<&Endpoint>) {
        let Some((endpoint, object)) = endpoint.and_then(|endpoint| Some((endpoint, endpoint.object()?))) else {
            return self.remove_entity(key);
        };
        let mut addresses = object.spec.addresses();
        let ports = object.spec.ports.iter();
        let ports = self.ports.acquire(ports.map(|port| (port.name.as_str(), port.protocol, port.port)));
        let contribution = match (addresses.next(), addresses.next()) {
            (Some(address), None) => Contribution::new(&[address], ports),
            _ => Contribution::new(&object.spec.addresses().collect::<Vec<_>>(), ports),
        };
        self.set_entity(key, endpoint.labels(key), endpoint.profiles(), contribution);
    }

    /// Its addresses are those that are expected on it, whatever its interfaces have.
    pub(super) fn set_host_endpoint(&mut self, key: &ResourceKey, endpoint: Option<&HostEndpoint>) {
        let Some((endpoint, object)) = endpoint.and_then(|endpoint| Some((endpoint, endpoint.object()?))) else {
            return self.remove_entity(key);
        };
        let ports = object.spec.ports.iter();
        let ports = self.ports.acquire(ports.filter_map(|port| Some((port.name.as_str(), port.protocol?, port.port?))));
        let addresses: Vec<_> =
            object.spec.expected_ips.iter().map(|address| Cidr::host(address.to_canonical())).collect();
        let contribution = Contribution::new(&addresses, ports);
        self.set_entity(key, endpoint.labels(), endpoint.profiles(), contribution);
    }

    pub(super) fn set_network_set(&mut self, key: &ResourceKey, set: Option<&NetworkSet>) {
        let Some((set, object)) = set.and_then(|set| Some((set, set.object()?))) else {
            return self.remove_entity(key);
        };
        // A namespaced set inherits its namespace's labels, which Kubernetes' namespaces hand down by this profile.
        let profile = key.namespace().map(|namespace| alloc::format!("kns.{namespace}"));
        let contribution = Contribution::new(&object.spec.nets, PortsKey::NONE);
        self.set_entity(key, set.labels(key), profile.as_deref(), contribution);
    }

    pub(super) fn set_profile_labels<'a>(
        &mut self,
        name: &Arc<str>,
        labels: Option<impl IntoIterator<Item = (&'a str, &'a str)>>,
    ) {
        self.index.set_parent(name, labels);
    }

    /// Refers to a set, which is made when it does not exist.
    pub(super) fn acquire(&mut self, definition: &Definition) -> SetId {
        let id = definition.id();
        let selector = *self.sets.entry(id).or_insert_with(|| self.index.add_selector(&definition.selector));
        let set = self.by_selector.entry(selector).or_insert_with(|| Set::new(definition.clone()));
        set.references += 1;
        self.dirty.insert(selector);
        id
    }

    /// Gives one reference up.
    pub(super) fn release(&mut self, id: SetId) {
        let Some(selector) = self.sets.get(&id) else { return };
        let Some(set) = self.by_selector.get_mut(selector) else { return };
        set.references -= 1;
        if set.references == 0 {
            self.dirty.insert(*selector);
        }
    }

    /// The sets that a network set is in. Those of named ports it is never in, whatever they select.
    pub(super) fn of_network_set(&self, key: &ResourceKey) -> impl Iterator<Item = SetId> {
        let item = self.entities.find(key).ok();
        let selectors = item.into_iter().flat_map(move |item| self.index.matching(item));
        let sets = selectors.filter_map(move |selector| self.by_selector.get(selector));
        sets.filter(|set| matches!(set.members, Members::Net(_))).map(|set| set.definition.id())
    }

    /// From now on it is known which workload of the cluster has each of these addresses, and of no other.
    pub(super) fn ask_for_holders(&mut self, addresses: impl Iterator<Item = IpAddr>) {
        let new: BTreeSet<IpAddr> = addresses.filter(|address| !self.holders.is_asked(*address)).collect();
        if new.is_empty() {
            return;
        }
        let each = self.entities.iter().flat_map(|(key, contribution)| {
            let asked = holders::hosts(contribution).filter(|address| new.contains(address));
            asked.map(move |address| (address, key()))
        });
        self.holders.ask(&new, each.filter(|(_, key)| key.kind() == Kind::WorkloadEndpoint));
    }

    /// Who has the addresses that were asked for.
    pub(super) const fn holders(&mut self) -> &mut Holders {
        &mut self.holders
    }

    /// Works out all changes: additions and changes in the first list, removals in the second, each in order of the sets' ids.
    pub(super) fn flush(&mut self) -> (Vec<Event>, Vec<Event>) {
        let mut removed = self.drop_unreferenced();
        let Self { index, by_selector, entities, ports, dirty, .. } = self;
        index.settle(|change| {
            let set = by_selector.get_mut(&change.selector);
            let Some((set, contribution)) = set.zip(entities.get(change.item)) else { return };
            set.apply(contribution, ports, change.started);
            if set.sent {
                dirty.insert(change.selector);
            }
        });
        let dirty = mem::take(&mut self.dirty);
        let mut events: Vec<_> =
            dirty.into_iter().filter_map(|key| self.by_selector.get_mut(&key)?.take_event()).collect();
        events.sort_by_key(order);
        removed.sort_by_key(order);
        (events, removed)
    }

    /// Addresses that an endpoint gave up, since the last call, and that thereby left a set. Where no set changes, no rule can tell the
    /// address's next owner from the former one: so an endpoint that moves to another host, and another that takes its address over
    /// before it goes, are not among them.
    pub(super) fn take_departed(&mut self) -> BTreeSet<IpAddr> {
        mem::take(&mut self.departed)
    }

    fn drop_unreferenced(&mut self) -> Vec<Event> {
        let unreferenced = |key: &u32| self.by_selector.get(key).is_some_and(|set| set.references == 0);
        let keys: Vec<u32> = self.dirty.iter().copied().filter(unreferenced).collect();
        let mut removed = Vec::new();
        for key in keys {
            self.dirty.remove(&key);
            let Some(set) = self.by_selector.remove(&key) else { continue };
            self.index.remove_selector(key);
            self.sets.remove(&set.definition.id());
            if set.sent {
                removed.push(Event::SetRemoved(set.definition.id()));
            }
        }
        removed
    }

    fn set_entity<'a>(
        &mut self,
        key: &ResourceKey,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        parents: impl IntoIterator<Item = &'a str>,
        contribution: Contribution,
    ) {
        match self.entities.find(key) {
            Ok(item) => {
                self.index.change_item(item, labels, parents);
                self.replace_contribution(key, item, contribution);
            }
            Err(place) => {
                let item = self.index.add_item(labels, parents);
                self.holders.replace(key, &Contribution::Nothing, &contribution);
                self.entities.insert(place, item, key, contribution);
            }
        }
    }

    fn remove_entity(&mut self, key: &ResourceKey) {
        let Ok(item) = self.entities.find(key) else { return };
        self.replace_contribution(key, item, Contribution::Nothing);
        self.entities.remove(item, key);
        self.index.remove_item(item);
    }

    /// In all sets that the item is in. The new is added before the old is taken back, so that what stays does not flap.
    fn replace_contribution(&mut self, key: &ResourceKey, item: u32, new: Contribution) {
        let Some(current) = self.entities.get_mut(item) else { return self.ports.release(new.ports()) };
        if *current == new {
            return self.ports.release(new.ports());
        }
        let old = mem::replace(current, new);
        self.holders.replace(key, &old, current);
        let mut lost = false;
        for selector in self.index.matching(item) {
            let Some(set) = self.by_selector.get_mut(selector) else { continue };
            set.apply(current, &self.ports, true);
            lost |= set.apply(&old, &self.ports, false);
            self.dirty.insert(*selector);
        }
        if lost && key.kind() == Kind::WorkloadEndpoint {
            let gone = old.nets().filter(|net| !current.nets().any(|other| other == *net));
            self.departed.extend(gone.map(|net| net.address()));
        }
        self.ports.release(old.ports());
    }
}

impl Set {
    fn new(definition: Definition) -> Self {
        let members = match &definition.port {
            None => Members::Net(NetMembers::default()),
            Some(port) => Members::Port(port.clone(), PortMembers::default()),
        };
        Self { definition, references: 0, sent: false, members, changes: BTreeMap::new() }
    }

    /// Adds a contribution or takes it back; says whether a member went.
    fn apply(&mut self, contribution: &Contribution, ports: &Ports, add: bool) -> bool {
        let Self { members, changes, sent, .. } = self;
        let mut lost = false;
        let mut show = |member, present: bool| {
            lost |= !present;
            // Until the set has been sent as a whole there is nothing to change. Coming and going cancel out.
            if *sent && changes.remove(&member).is_none() {
                changes.insert(member, present);
            }
        };
        match members {
            Members::Net(members) => {
                for net in contribution.nets().flat_map(halves) {
                    match (add, *sent) {
                        (true, true) => members.add(net, &mut show),
                        (true, false) => members.gather(net),
                        (false, _) => members.remove(net, &mut show),
                    }
                }
            }
            Members::Port(wanted, members) => {
                let ports = ports.like(contribution.ports(), wanted);
                let hosts = contribution.nets().filter(Cidr::is_host).map(|net| net.address());
                for (address, port) in hosts.flat_map(|host| ports.clone().map(move |port| (host, port))) {
                    let (protocol, port) = (port.protocol, port.port);
                    if add {
                        members.add(address, protocol, port, &mut show);
                    } else {
                        members.remove(address, protocol, port, &mut show);
                    }
                }
            }
        }
        lost
    }

    fn take_event(&mut self) -> Option<Event> {
        if !self.sent {
            self.sent = true;
            let members = match &mut self.members {
                Members::Net(members) => members.shown(),
                Members::Port(_, members) => members.shown(),
            };
            return Some(Event::SetAdded { id: self.definition.id(), kind: self.definition.kind(), members });
        }
        let changes = mem::take(&mut self.changes);
        if changes.is_empty() {
            return None;
        }
        let (added, removed): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(_, present)| *present);
        let members = |changes: Vec<(Member, bool)>| changes.into_iter().map(|(member, _)| member).collect();
        Some(Event::SetChanged { id: self.definition.id(), added: members(added), removed: members(removed) })
    }
}

/// Whole sets before changes, each in order of ids.
fn order(event: &Event) -> (bool, Option<SetId>) {
    match event {
        Event::SetAdded { id, .. } => (false, Some(*id)),
        Event::SetChanged { id, .. } | Event::SetRemoved(id) => (true, Some(*id)),
        _ => (true, None),
    }
}
