//! What the coming and going of interfaces and their addresses means for routes, neighbours, settings and limits.

use calico_core::delta::Tracker;
use calico_core::net::InterfaceName;
use calico_core::table::{Route, RouteKey};

use super::machine::{Look, Reconciler};
use super::retry::Object;
use super::shapings::shapers_of;
use crate::LinkState;

impl Reconciler {
    pub(super) fn change_link(&mut self, name: InterfaceName, state: Option<LinkState>) {
        self.interfaces.set_link(name, state.is_some());
        let before = match state {
            Some(state) => self.links.insert(name, state),
            None => self.links.remove(&name),
        };
        if before == state {
            return;
        }
        let replaced = before.map(|link| link.index) != state.map(|link| link.index);
        let went_down = before.is_some_and(|link| link.up) && !state.is_some_and(|link| link.up);
        if replaced || went_down {
            self.forgive(name);
            // The kernel removes these without a word when an interface goes down.
            self.forget_routes_and_neighbors(name);
            if before.is_some() && !name.starts_with_any(&self.config.workload_prefixes) {
                // It may carry gateways: their routes went as silently, and only a look tells which.
                self.look = Look::Wanted;
                self.uplink_went = true;
            }
        }
        if replaced {
            for key in self.settings_of(name) {
                self.settings.set_observed(key, None);
            }
        }
        self.change_link_of_shapings(name, replaced);
        let shapers = shapers_of(name).map(|shaper| shaper.device);
        self.retries.expedite(|object| match object {
            Object::Route(_) => true,
            Object::Shaper(device) => shapers.contains(device),
            Object::Neighbor(interface, _) | Object::Setting(interface, _) => *interface == name,
            _ => false,
        });
    }

    /// What failed by way of this interface may work now. A route to a gateway names no interface: it may be any.
    pub(super) fn expedite_routes_by(&mut self, name: InterfaceName) {
        let routes = &self.routes;
        self.retries.expedite(|object| match object {
            Object::Route(key) => routes.desired(key).and_then(Route::interface).is_none_or(|by| by == name),
            _ => false,
        });
    }

    /// What the kernel removes together with the link was not undone by anybody.
    fn forgive(&mut self, name: InterfaceName) {
        let carries_gateways = !name.starts_with_any(&self.config.workload_prefixes);
        let shapers = shapers_of(name).map(|shaper| shaper.device);
        let routes = &self.routes;
        let goes_with_it = |object: &Object| match object {
            Object::Route(key) => {
                let either = [routes.desired(key), routes.observed(key)];
                either.into_iter().flatten().any(|route| route.interface().map_or(carries_gateways, |by| by == name))
            }
            Object::Neighbor(interface, _) => *interface == name,
            Object::Shaper(device) => shapers.contains(device),
            _ => false,
        };
        self.fights.forget_if(goes_with_it);
        self.disturbed.retain(|object| !goes_with_it(object));
    }

    /// Whether the loss of it needs nobody who caused it but an uplink that went.
    pub(super) fn may_have_gone_with_an_uplink(&self, object: &Object) -> bool {
        let Object::Route(key) = object else { return false };
        let by_gateway = |route: &Route| route.interface().is_none();
        self.uplink_went && self.routes.observed(key).is_none() && self.routes.desired(key).is_some_and(by_gateway)
    }

    fn forget_routes_and_neighbors(&mut self, name: InterfaceName) {
        for key in self.routes_by_interface.get(&name).cloned().unwrap_or_default() {
            if self.routes.observed(&key).and_then(Route::interface) == Some(name) {
                self.change_route(key, |routes| routes.set_observed(key, None));
            }
        }
        let first = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let on_it = self.neighbors.range((name, first)..).map(|found| *found.key);
        let keys: Vec<_> = on_it.take_while(|key| key.0 == name).collect();
        for key in keys {
            self.neighbors.set_observed(key, None);
        }
    }

    pub(super) fn settings_of(&self, name: InterfaceName) -> Vec<(InterfaceName, &'static str)> {
        let on_it = self.settings.range((name, "")..).map(|found| *found.key);
        on_it.take_while(|key| key.0 == name).collect()
    }

    /// Changes one route on either side and keeps the index by interface true.
    pub(super) fn change_route(&mut self, key: RouteKey, change: impl FnOnce(&mut Tracker<RouteKey, Route>)) {
        let before = self.interfaces_of(&key);
        change(&mut self.routes);
        let after = self.interfaces_of(&key);
        if before == after {
            return;
        }
        for name in before.into_iter().flatten() {
            let empty =
                self.routes_by_interface.get_mut(&name).is_some_and(|keys| keys.remove(&key) && keys.is_empty());
            if empty {
                self.routes_by_interface.remove(&name);
            }
        }
        for name in after.into_iter().flatten() {
            self.routes_by_interface.entry(name).or_default().insert(key);
        }
    }

    /// Builds the index anew, after a look.
    pub(super) fn index_routes(&mut self) {
        self.routes_by_interface.clear();
        let both = self.routes.iter_desired().chain(self.routes.iter_observed());
        for (key, route) in both {
            if let Some(name) = route.interface() {
                self.routes_by_interface.entry(name).or_default().insert(*key);
            }
        }
    }

    fn interfaces_of(&self, key: &RouteKey) -> [Option<InterfaceName>; 2] {
        [self.routes.desired(key), self.routes.observed(key)].map(|route| route.and_then(Route::interface))
    }
}
