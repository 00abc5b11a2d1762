//! What BGP learned, as desired routes.

use std::collections::BTreeMap;

use calico_bgp::{BgpEvent, LearnedRoute};
use calico_core::net::Cidr;
use calico_core::table::{Delta, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};

/// The best paths that the speaker reported, and the routes they ask for.
#[derive(Debug, Default)]
pub(super) struct BgpRoutes {
    paths: BTreeMap<Cidr, LearnedRoute>,
}

impl BgpRoutes {
    /// Takes in one event and adds to `delta` how the desired routes change.
    pub(super) fn handle(&mut self, event: &BgpEvent, delta: &mut Delta) {
        match event {
            BgpEvent::RouteSet(path) => {
                self.paths.insert(path.prefix, *path);
                delta.routes_set.push(route(path));
            }
            BgpEvent::RouteRemoved(prefix) if self.paths.remove(prefix).is_some() => {
                delta.routes_removed.push(key(*prefix));
            }
            _ => {}
        }
    }

    /// Routes in use.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }
}

const fn key(dest: Cidr) -> RouteKey {
    RouteKey { table: RouteTableId::MAIN, dest, metric: 0 }
}

/// The kernel finds the interface: in the mesh, next hops are neighbours of this host or reached through its own routes.
const fn route(path: &LearnedRoute) -> Route {
    Route { key: key(path.prefix), target: RouteTarget::Via(path.next_hop), class: RouteClass::Bgp }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_set_replaced_and_removed_once() {
        let path = |hop: &str| LearnedRoute {
            prefix: "10.1.0.0/26".parse().unwrap(),
            next_hop: hop.parse().unwrap(),
            peer: hop.parse().unwrap(),
        };
        let mut routes = BgpRoutes::default();
        let mut delta = Delta::default();
        routes.handle(&BgpEvent::RouteSet(path("192.0.2.1")), &mut delta);
        routes.handle(&BgpEvent::RouteSet(path("192.0.2.2")), &mut delta);
        assert_eq!(routes.len(), 1);
        assert_eq!(delta.routes_set.last().unwrap().target, RouteTarget::Via("192.0.2.2".parse().unwrap()));
        let mut delta = Delta::default();
        routes.handle(&BgpEvent::RouteRemoved(path("192.0.2.2").prefix), &mut delta);
        routes.handle(&BgpEvent::RouteRemoved(path("192.0.2.2").prefix), &mut delta);
        assert_eq!(delta.routes_removed.len(), 1);
        assert_eq!(routes.len(), 0);
    }
}
