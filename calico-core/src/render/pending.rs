//! Writes changes into a delta, and takes back what a later event makes void.
//!
//! A delta may gather a snapshot, and as many removals as it has entries; so what is to be taken back is found by where it was put and
//! never by search. The places are only remembered as hints: whoever owns the delta may have begun another one since. A hint that does
//! not lead to an entry of that name is void.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::net::InterfaceName;
use crate::table::{
    Chain, ChainName, Delta, ElementDelta, InterfaceSetting, Neighbor, Route, RouteKey, SetDecl, SetName, Shaper,
    Shaping,
};

/// Knows where in the current delta things stand.
#[derive(Debug, Default)]
pub(super) struct Pending {
    chains: Places<ChainName>,
    sets: Places<SetName>,
    /// Of sets that can go: each of their changes, in order.
    elements: BTreeMap<SetName, Vec<usize>>,
    routes: Places<RouteKey>,
    neighbors: Places<(InterfaceName, IpAddr)>,
    settings: Places<(InterfaceName, &'static str)>,
    /// By device.
    shapings: Places<InterfaceName>,
}

impl Pending {
    pub(super) fn set_chain(&mut self, chain: Chain, delta: &mut Delta) {
        self.chains.put(&mut delta.chains_set, chain);
    }

    pub(super) fn remove_chain(&mut self, name: ChainName, delta: &mut Delta) {
        self.chains.take(&mut delta.chains_set, &name);
        delta.chains_removed.push(name);
    }

    pub(super) fn add_set(&mut self, decl: SetDecl, delta: &mut Delta) {
        self.sets.put(&mut delta.sets_added, decl);
    }

    pub(super) fn remove_set(&mut self, name: SetName, delta: &mut Delta) {
        self.sets.take(&mut delta.sets_added, &name);
        for place in self.elements.remove(&name).unwrap_or_default() {
            // Emptied and not removed: changes of one set count in order, and others stand behind.
            if let Some(change) = delta.elements.get_mut(place).filter(|change| change.set == name) {
                change.removed.clear();
                change.added.clear();
            }
        }
        delta.sets_removed.push(name);
    }

    /// Changes elements of a set that may be removed later.
    pub(super) fn change_elements(&mut self, change: ElementDelta, delta: &mut Delta) {
        let places = self.elements.entry(change.set.clone()).or_default();
        let current = places.first().and_then(|first| delta.elements.get(*first));
        if current.is_none_or(|found| found.set != change.set) {
            places.clear();
        }
        places.push(delta.elements.len());
        delta.elements.push(change);
    }

    pub(super) fn set_route(&mut self, route: Route, delta: &mut Delta) {
        self.routes.put(&mut delta.routes_set, route);
    }

    pub(super) fn remove_route(&mut self, key: RouteKey, delta: &mut Delta) {
        self.routes.take(&mut delta.routes_set, &key);
        delta.routes_removed.push(key);
    }

    pub(super) fn set_neighbor(&mut self, neighbor: Neighbor, delta: &mut Delta) {
        self.neighbors.put(&mut delta.neighbors_set, neighbor);
    }

    pub(super) fn remove_neighbor(&mut self, neighbor: Neighbor, delta: &mut Delta) {
        self.neighbors.take(&mut delta.neighbors_set, &neighbor.key());
        delta.neighbors_removed.push(neighbor);
    }

    pub(super) fn write_setting(&mut self, setting: InterfaceSetting, delta: &mut Delta) {
        self.settings.put(&mut delta.settings, setting);
    }

    pub(super) fn set_shaping(&mut self, shaping: Shaping, delta: &mut Delta) {
        self.shapings.put(&mut delta.shapings_set, shaping);
    }

    pub(super) fn remove_shaping(&mut self, shaper: Shaper, delta: &mut Delta) {
        self.shapings.take(&mut delta.shapings_set, &shaper.device);
        delta.shapings_removed.push(shaper);
    }

    /// Forgets the settings of an interface: these paths.
    pub(super) fn drop_settings(
        &mut self,
        interface: InterfaceName,
        paths: impl Iterator<Item = &'static str>,
        delta: &mut Delta,
    ) {
        for path in paths {
            self.settings.take(&mut delta.settings, &(interface, path));
        }
        delta.settings_dropped.push(interface);
    }
}

/// Where in a list of a delta the entry of each key stands. There is at most one: of two values the later counts.
#[derive(Debug)]
struct Places<K>(BTreeMap<K, usize>);

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

trait Keyed {
    type Key: Ord;

    fn key(&self) -> Self::Key;
}

impl<K: Ord> Places<K> {
    fn put<T: Keyed<Key = K>>(&mut self, list: &mut Vec<T>, item: T) {
        let key = item.key();
        let place = self.0.get(&key).and_then(|place| list.get_mut(*place)).filter(|found| found.key() == key);
        match place {
            Some(place) => *place = item,
            None => {
                self.0.insert(key, list.len());
                list.push(item);
            }
        }
    }

    fn take<T: Keyed<Key = K>>(&mut self, list: &mut Vec<T>, key: &K) {
        let Some(place) = self.0.remove(key) else { return };
        if list.get(place).is_none_or(|found| found.key() != *key) {
            return;
        }
        list.swap_remove(place);
        if let Some(moved) = list.get(place) {
            self.0.insert(moved.key(), place);
        }
    }
}

impl Keyed for Chain {
    type Key = ChainName;

    fn key(&self) -> ChainName {
        self.name.clone()
    }
}

impl Keyed for SetDecl {
    type Key = SetName;

    fn key(&self) -> SetName {
        self.name.clone()
    }
}

impl Keyed for Route {
    type Key = RouteKey;

    fn key(&self) -> RouteKey {
        self.key
    }
}

impl Keyed for Neighbor {
    type Key = (InterfaceName, IpAddr);

    fn key(&self) -> (InterfaceName, IpAddr) {
        (self.interface, self.address)
    }
}

impl Keyed for InterfaceSetting {
    type Key = (InterfaceName, &'static str);

    fn key(&self) -> (InterfaceName, &'static str) {
        (self.interface, self.path)
    }
}

impl Keyed for Shaping {
    type Key = InterfaceName;

    fn key(&self) -> InterfaceName {
        self.shaper.device
    }
}
