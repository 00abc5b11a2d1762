//! From differences to one [`Delta`] that can be carried out as it stands.
//!
//! The nf_tables part is a list of items in an order of which every beginning is complete in itself: sets with their elements,
//! chains after what they refer to, map entries after the chains that they lead to, removals last. So the list can be cut
//! anywhere, which is how the object to blame for a failed transaction is found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calico_core::delta::{Difference, Tracker};
use calico_core::net::InterfaceName;
use calico_core::table::{
    Chain, ChainName, Datum, Delta, Element, ElementData, ElementDelta, InterfaceSetting, Key, Neighbor, SetDecl,
    SetKind, SetName,
};

use super::elements::Data;
use super::machine::{Reconciler, WorkloadState};
use super::retry::Object;

/// The nf_tables part, and the object that each of its items stands for.
pub(super) fn ruleset(machine: &Reconciler, now: Duration) -> (Delta, Vec<Object>) {
    let mut plan = Plan {
        machine,
        now,
        limit: machine.limit.unwrap_or(usize::MAX),
        delta: Delta::default(),
        items: Vec::new(),
        sets: BTreeSet::new(),
        chains: BTreeSet::new(),
    };
    let mut changes = plan.element_changes();
    plan.sets(&mut changes);
    plan.chains();
    plan.entries(&changes);
    plan.removals();
    (plan.delta, plan.items)
}

struct Plan<'a> {
    machine: &'a Reconciler,
    now: Duration,
    limit: usize,
    delta: Delta,
    items: Vec<Object>,
    /// Sets that this delta makes.
    sets: BTreeSet<SetName>,
    /// Chains that this delta writes.
    chains: BTreeSet<ChainName>,
}

/// By reference, so that the map of a few sets is a small allocation.
type Changes<'a> = BTreeMap<&'a SetName, ElementDelta>;

impl<'a> Plan<'a> {
    fn may(&self, object: &Object) -> bool {
        self.items.len() < self.limit && self.machine.retries.may_try(object, self.now)
    }

    /// Element changes by set, of sets that are wanted.
    fn element_changes(&self) -> Changes<'a> {
        let mut changes = Changes::new();
        let wanted = self.machine.elements.pending_sets().filter(|(set, _)| self.machine.sets.desired(set).is_some());
        for (set, elements) in wanted {
            let added = Vec::with_capacity(elements.pending_len());
            let mut change = ElementDelta { set: set.clone(), removed: Vec::new(), added };
            for difference in elements.pending() {
                let key = difference.key;
                if difference.desired.is_some() && self.machine.holds_element(set, key) {
                    continue;
                }
                let element = |data: &Data| Element { key: key.clone(), data: data.clone() };
                change.removed.extend(difference.observed.map(element));
                change.added.extend(difference.desired.map(element));
            }
            if !change.removed.is_empty() || !change.added.is_empty() {
                changes.insert(set, change);
            }
        }
        changes
    }

    fn sets(&mut self, changes: &mut Changes<'a>) {
        let machine = self.machine;
        for difference in machine.sets.pending() {
            let Some(Some(decl)) = difference.desired else { continue };
            let object = Object::Set(difference.key.clone());
            if !self.may(&object) {
                changes.remove(&decl.name);
                continue;
            }
            if difference.observed.is_some() {
                self.replace_set(decl);
                changes.remove(&decl.name);
            } else if decl.kind != SetKind::VerdictMap {
                self.delta.elements.extend(changes.remove(&decl.name));
            }
            self.delta.sets_added.push(decl.clone());
            self.sets.insert(decl.name.clone());
            self.items.push(object);
        }
        let is_map =
            |name: &SetName| matches!(machine.sets.desired(name), Some(Some(decl)) if decl.kind == SetKind::VerdictMap);
        let plain: Vec<&SetName> = changes.keys().filter(|name| !is_map(name)).copied().collect();
        for name in plain {
            let object = Object::Set(name.clone());
            let change = changes.remove(name);
            if self.may(&object) {
                self.delta.elements.extend(change);
                self.items.push(object);
            }
        }
    }

    /// A set of our name but not of our making: it goes, with everything that refers to it, and all is written anew.
    fn replace_set(&mut self, decl: &SetDecl) {
        let machine = self.machine;
        self.delta.sets_removed.push(decl.name.clone());
        for (name, chain) in &machine.bodies {
            if chain.set_references().any(|set| *set == decl.name) && self.chains.insert(name.clone()) {
                self.delta.chains_set.push(chain.clone());
            }
        }
        let wanted = machine.elements.of(&decl.name).into_iter().flat_map(Tracker::iter_desired);
        let added = wanted.filter(|(key, _)| !machine.holds_element(&decl.name, key));
        let added = added.map(|(key, data)| Element { key: key.clone(), data: data.clone() });
        self.delta.elements.push(ElementDelta { set: decl.name.clone(), removed: Vec::new(), added: added.collect() });
    }

    fn chains(&mut self) {
        let machine = self.machine;
        let mut visited = BTreeSet::new();
        for difference in machine.chains.pending() {
            if difference.desired.is_some() {
                self.chain_after_its_targets(difference.key, &mut visited, 0);
            }
        }
    }

    fn chain_after_its_targets(&mut self, name: &ChainName, visited: &mut BTreeSet<ChainName>, depth: usize) {
        let machine = self.machine;
        let Some(body) = machine.bodies.get(name) else { return };
        if depth > MAX_DEPTH || machine.chains.is_settled(name) || !visited.insert(name.clone()) {
            return;
        }
        for target in body.chain_references() {
            self.chain_after_its_targets(target, visited, depth + 1);
        }
        let object = Object::Chain(name.clone());
        if self.chains.contains(name) || !self.may(&object) || !self.references_exist(body) {
            return;
        }
        let observed = machine.chains.observed(name);
        if observed.is_some_and(|mark| mark.base != body.base) {
            self.delta.chains_removed.push(name.clone());
        }
        self.delta.chains_set.push(body.clone());
        self.chains.insert(name.clone());
        self.items.push(object);
    }

    fn references_exist(&self, body: &Chain) -> bool {
        body.chain_references().all(|chain| self.chain_exists(chain))
            && body.set_references().all(|set| self.set_exists(set))
    }

    fn chain_exists(&self, name: &ChainName) -> bool {
        self.chains.contains(name) || self.machine.chains.observed(name).is_some()
    }

    fn set_exists(&self, name: &SetName) -> bool {
        let as_wanted = || self.machine.sets.observed(name).is_some() && self.machine.sets.is_settled(name);
        self.sets.contains(name) || as_wanted()
    }

    fn entries(&mut self, changes: &Changes<'a>) {
        for (set, change) in changes.iter().filter(|(set, _)| self.set_exists(set)).collect::<Vec<_>>() {
            let mut taken = ElementDelta { set: (*set).clone(), removed: Vec::new(), added: Vec::new() };
            // An entry that only goes waits for no chain: that only ever closes. One that changes keeps its former verdict until then.
            let added: BTreeMap<&Key, &Element> = change.added.iter().map(|element| (&element.key, element)).collect();
            let removed: BTreeMap<&Key, &Element> =
                change.removed.iter().map(|element| (&element.key, element)).collect();
            let keys: BTreeSet<&Key> = added.keys().chain(removed.keys()).copied().collect();
            for key in keys {
                let object = entry(set, key);
                let target = added.get(key).and_then(|element| element.data.as_ref()?.target());
                if !self.may(&object) || !target.is_none_or(|chain| self.chain_exists(chain)) {
                    continue;
                }
                taken.removed.extend(removed.get(key).map(|element| (*element).clone()));
                taken.added.extend(added.get(key).map(|element| (*element).clone()));
                self.items.push(object);
            }
            if !taken.removed.is_empty() || !taken.added.is_empty() {
                self.delta.elements.push(taken);
            }
        }
    }

    /// What goes may be referred to by what stands where an addition failed, so it waits for those. While the object to blame for a
    /// failure is sought, additions have their turn first.
    fn removals(&mut self) {
        let machine = self.machine;
        let sought = machine.limit.is_some() && !self.items.is_empty();
        if sought || machine.retries.objects().any(|object| is_addition(machine, object)) {
            return;
        }
        let unwanted = machine.chains.pending().filter(|difference| difference.desired.is_none());
        let chains: Vec<&ChainName> = unwanted.map(|difference| difference.key).collect();
        let led_to = if chains.is_empty() { BTreeSet::new() } else { self.led_to() };
        // Whatever refers to something goes before it: chains to maps, and maps to chains.
        let (last, first): (Vec<&ChainName>, Vec<&ChainName>) =
            chains.into_iter().partition(|name| led_to.contains(name));
        first.into_iter().for_each(|name| self.remove_chain(name));
        for difference in machine.sets.pending().filter(|difference| difference.desired.is_none()) {
            let object = Object::Set(difference.key.clone());
            if self.may(&object) {
                self.delta.sets_removed.push(difference.key.clone());
                self.items.push(object);
            }
        }
        last.into_iter().for_each(|name| self.remove_chain(name));
    }

    fn remove_chain(&mut self, name: &ChainName) {
        let object = Object::Chain(name.clone());
        if self.may(&object) {
            self.delta.chains_removed.push(name.clone());
            self.items.push(object);
        }
    }

    /// Chains to which elements lead that are there and are not wanted any more.
    fn led_to(&self) -> BTreeSet<&ChainName> {
        let gone = self.machine.elements.pending().filter(|(_, difference)| difference.desired.is_none());
        gone.filter_map(|(_, difference)| difference.observed?.as_ref()?.target()).collect()
    }
}

/// Whether an object that failed belongs to the nf_tables part and is wanted. An entry counts always: chains that go wait for those
/// that lead to them.
fn is_addition(machine: &Reconciler, object: &Object) -> bool {
    match object {
        Object::Set(name) => machine.sets.desired(name).is_some(),
        Object::Chain(name) => machine.chains.desired(name).is_some(),
        Object::Entry(..) => true,
        _ => false,
    }
}

/// Routes, neighbours and settings that can be written now.
pub(super) fn host_objects(machine: &Reconciler, now: Duration, delta: &mut Delta) {
    let exists = |name: InterfaceName| machine.links.contains_key(&name);
    let up = |name: InterfaceName| machine.links.get(&name).is_some_and(|link| link.up);
    let may = |object: Object| machine.retries.may_try(&object, now) && machine.fights.may_repair(&object, now);
    for difference in machine.routes.pending() {
        let key = *difference.key;
        let stale = difference.observed.is_some_and(|route| machine.is_kept_for_bgp(route));
        match difference.desired {
            _ if !may(Object::Route(key)) => {}
            Some(_) if machine.holds_route(&key) => {
                delta.routes_removed.extend(difference.observed.map(|_| key));
            }
            Some(route) if route.interface().is_none_or(up) => delta.routes_set.push(route.clone()),
            None if !stale => delta.routes_removed.push(key),
            _ => {}
        }
    }
    for difference in machine.neighbors.pending() {
        let (interface, address) = *difference.key;
        let neighbor = |mac| Neighbor { interface, address, mac };
        match (difference.desired, difference.observed) {
            _ if !may(Object::Neighbor(interface, address)) || !up(interface) => {}
            (Some(mac), _) => delta.neighbors_set.push(neighbor(*mac)),
            (None, Some(mac)) => delta.neighbors_removed.push(neighbor(*mac)),
            (None, None) => {}
        }
    }
    for difference in machine.settings.pending() {
        let (interface, path) = *difference.key;
        let Some(value) = difference.desired else { continue };
        if exists(interface) && may(Object::Setting(interface, path)) {
            delta.settings.push(InterfaceSetting { interface, path, value: value.clone() });
        }
    }
}

pub(super) fn workload_state(machine: &Reconciler, interface: InterfaceName) -> WorkloadState {
    let first = Datum::Interface(interface);
    let mut entries: Vec<(&SetName, Difference<'_, Key, Data>)> = Vec::new();
    let start = Key::from([first]);
    for set in &machine.interface_sets {
        let found = machine.elements.of(set).into_iter().flat_map(|elements| elements.range(&start..));
        let mine = found.take_while(|found| found.key.first() == Some(&first));
        entries.extend(mine.filter(|found| found.desired.is_some()).map(|found| (set, found)));
    }
    if entries.is_empty() {
        return WorkloadState::Unknown;
    }
    let mut objects = BTreeSet::new();
    for (set, element) in entries {
        if element.desired != element.observed {
            objects.insert(entry(set, element.key));
        }
        if let Some(target) = element.desired.and_then(Option::as_ref).and_then(ElementData::target) {
            missing_below(machine, target, &mut objects, 0);
        }
    }
    for route in machine.routes_by_interface.get(&interface).into_iter().flatten() {
        if !machine.routes.is_settled(route) {
            objects.insert(Object::Route(*route));
        }
    }
    let neighbors = machine.neighbors.pending().filter(|found| found.key.0 == interface);
    objects.extend(neighbors.map(|found| Object::Neighbor(found.key.0, found.key.1)));
    let settings = machine.settings.pending().filter(|found| found.key.0 == interface);
    objects.extend(settings.map(|found| Object::Setting(found.key.0, found.key.1)));
    objects.extend(machine.unsettled_shapings(interface));
    if objects.is_empty() {
        return WorkloadState::Programmed;
    }
    let down = !machine.links.get(&interface).is_some_and(|link| link.up);
    let waits = down.then(|| format!("interface {interface} is not there or not up"));
    let reason =
        |object: &Object| match machine.retries.error(object).or_else(|| machine.retries.error(&Object::Ruleset)) {
            Some(error) => format!("{object}: {error}"),
            None => format!("{object} is not written yet"),
        };
    WorkloadState::Waiting { reasons: waits.into_iter().chain(objects.iter().map(reason)).collect() }
}

fn missing_below(machine: &Reconciler, name: &ChainName, objects: &mut BTreeSet<Object>, depth: usize) {
    if !machine.chains.is_settled(name) {
        objects.insert(Object::Chain(name.clone()));
    }
    let Some(body) = machine.bodies.get(name).filter(|_| depth <= MAX_DEPTH) else { return };
    for set in body.set_references() {
        if !machine.sets.is_settled(set) {
            objects.insert(Object::Set(set.clone()));
        }
    }
    for target in body.chain_references() {
        missing_below(machine, target, objects, depth + 1);
    }
}

/// Whether nothing is to be done about an object that failed before: it was not wanted any more, or it came right by itself.
pub(super) fn is_settled(machine: &Reconciler, object: &Object) -> bool {
    match object {
        Object::Look | Object::Ruleset => false,
        Object::Connections => machine.cuts.is_empty(),
        Object::Set(name) => machine.sets.is_settled(name) && machine.elements.is_set_settled(name),
        Object::Chain(name) => machine.chains.is_settled(name),
        Object::Entry(set, key) => machine.elements.of(set).is_none_or(|elements| elements.is_settled(key)),
        Object::Route(key) => machine.routes.is_settled(key),
        Object::Neighbor(interface, address) => machine.neighbors.is_settled(&(*interface, *address)),
        Object::Shaper(device) => machine.shapings.is_settled(device),
        Object::Setting(interface, path) => machine.settings.is_settled(&(*interface, path)),
    }
}

pub(super) fn entry(map: &SetName, key: &Key) -> Object {
    Object::Entry(map.clone(), key.clone())
}

/// Far more than chains are nested; it only bounds recursion.
const MAX_DEPTH: usize = 16;
