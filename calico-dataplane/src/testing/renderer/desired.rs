//! What a renderer's deltas add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Debug;
use std::net::IpAddr;

use calico_core::net::{InterfaceName, Mac};
use calico_core::table::{Delta, InterfaceSetting, Key, Neighbor, Route, RouteKey, SetName, Shaping};

use crate::recording::Ruleset;

/// A desired state: the skeleton and every delta since.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Desired {
    pub(super) ruleset: Ruleset,
    pub(super) routes: BTreeMap<RouteKey, Route>,
    neighbors: BTreeMap<(InterfaceName, IpAddr), Mac>,
    settings: BTreeMap<(InterfaceName, &'static str), String>,
    pub(super) shapings: BTreeMap<InterfaceName, Shaping>,
}

impl Desired {
    /// Takes in what many events changed: removals first, whether or not what they remove was there.
    pub(super) fn merge(&mut self, delta: &Delta) -> Result<(), String> {
        self.ruleset.apply(delta).map_err(|error| {
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            format!("a kernel refuses it: {error}: {cause}")
        })?;
        self.routes.retain(|key, _| !delta.routes_removed.contains(key));
        self.routes.extend(delta.routes_set.iter().map(|route| (route.key, route.clone())));
        for neighbor in &delta.neighbors_removed {
            self.neighbors.remove(&neighbor_key(neighbor));
        }
        self.neighbors.extend(delta.neighbors_set.iter().map(|neighbor| (neighbor_key(neighbor), neighbor.mac)));
        self.settings.retain(|(interface, _), _| !delta.settings_dropped.contains(interface));
        let setting = |setting: &InterfaceSetting| ((setting.interface, setting.path), setting.value.clone());
        self.settings.extend(delta.settings.iter().map(setting));
        self.shapings.retain(|device, _| !delta.shapings_removed.iter().any(|gone| gone.device == *device));
        self.shapings.extend(delta.shapings_set.iter().map(|shaping| (shaping.shaper.device, *shaping)));
        Ok(())
    }

    /// Takes in what one event changed: what it removes must be there, and removed once.
    pub(super) fn take(&mut self, delta: &Delta) -> Result<(), String> {
        if let Some(absent) = self.first_absent(delta) {
            return Err(format!("it removes what is not there: {absent}"));
        }
        self.merge(delta)
    }

    fn first_absent(&self, delta: &Delta) -> Option<String> {
        let mut chains: BTreeSet<_> = self.ruleset.chains().map(|chain| &chain.name).collect();
        let mut sets: BTreeSet<_> = self.ruleset.sets().map(|(decl, _)| &decl.name).collect();
        let mut routes: BTreeSet<_> = self.routes.keys().collect();
        let mut neighbors: BTreeSet<_> = self.neighbors.keys().copied().collect();
        let mut devices: BTreeSet<_> = self.shapings.keys().collect();
        let mut interfaces: BTreeSet<_> = self.settings.keys().map(|(interface, _)| interface).collect();
        first("chain", &delta.chains_removed, |name| chains.remove(name))
            .or_else(|| first("set", &delta.sets_removed, |name| sets.remove(name)))
            .or_else(|| first("route to", &delta.routes_removed, |key| routes.remove(key)))
            .or_else(|| first("neighbour", &delta.neighbors_removed, |found| neighbors.remove(&neighbor_key(found))))
            .or_else(|| first("settings of", &delta.settings_dropped, |name| interfaces.remove(name)))
            .or_else(|| first("limit at", &delta.shapings_removed, |shaper| devices.remove(&shaper.device)))
            .or_else(|| self.first_absent_element(delta))
    }

    fn first_absent_element(&self, delta: &Delta) -> Option<String> {
        let mut sets: BTreeMap<&SetName, BTreeSet<Key>> = BTreeMap::new();
        for change in &delta.elements {
            let keys = sets.entry(&change.set).or_insert_with(|| self.keys(&change.set));
            let absent = change.removed.iter().find(|element| !keys.remove(&element.key));
            if let Some(element) = absent {
                return Some(format!("element {element} of set {}", change.set));
            }
            keys.extend(change.added.iter().map(|element| element.key.clone()));
        }
        None
    }

    fn keys(&self, set: &SetName) -> BTreeSet<Key> {
        let found = self.ruleset.sets().find(|(decl, _)| decl.name == *set);
        found.into_iter().flat_map(|(_, elements)| elements.map(|element| element.key)).collect()
    }

    /// What only one of two states holds: a line each, `-` of this one, `+` of the other.
    pub(super) fn differences(&self, other: &Self) -> String {
        let (here, there) = (self.lines(), other.lines());
        let gone = here.difference(&there).map(|line| format!("- {line}"));
        gone.chain(there.difference(&here).map(|line| format!("+ {line}"))).collect::<Vec<_>>().join("\n")
    }

    fn lines(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for (decl, elements) in self.ruleset.sets() {
            lines.insert(format!("{decl}"));
            lines.extend(elements.map(|element| format!("{}: {element}", decl.name)));
        }
        for chain in self.ruleset.chains() {
            lines.insert(format!("chain {} {:?}", chain.name, chain.base));
            let rules = chain.rules.iter().enumerate();
            lines.extend(rules.map(|(position, rule)| format!("{} {position}: {rule}", chain.name)));
        }
        lines.extend(self.routes.values().map(|route| format!("{route:?}")));
        lines.extend(self.neighbors.iter().map(|neighbor| format!("neighbour {neighbor:?}")));
        lines.extend(self.settings.iter().map(|setting| format!("setting {setting:?}")));
        lines.extend(self.shapings.values().map(|shaping| format!("limit {shaping}")));
        lines
    }
}

fn first<T: Debug>(what: &str, removed: &[T], mut was_there: impl FnMut(&T) -> bool) -> Option<String> {
    removed.iter().find(|item| !was_there(item)).map(|item| format!("{what} {item:?}"))
}

const fn neighbor_key(neighbor: &Neighbor) -> (InterfaceName, IpAddr) {
    (neighbor.interface, neighbor.address)
}
