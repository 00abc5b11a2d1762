//! What BGP learned, as desired routes.
//!
//! Their metric is never zero: the kernel's removal takes IPv4 metric zero for "any", and writing would replace a connected route of
//! the same prefix. It is the largest of our classes ([`METRIC`], above [`BLOCK_METRIC`], above the renderer's 1024 for workloads), so
//! that of two routes to one prefix the more local one wins: a workload that moved here is reached here, although the host it left
//! still announces it, and whatever the host's own administration set up for a prefix goes before what a peer says. (BIRD's default of
//! 32 would have it the other way round.) Classes never share a key, so none removes or replaces another's route.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use calico_bgp::{BgpEvent, LearnedRoute};
use calico_core::bgp::{KernelPolicy, Programming};
use calico_core::net::Cidr;
use calico_core::table::{Delta, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};

/// Metric of learned routes, whoever gives them to the kernel.
pub(crate) const METRIC: u32 = 4096;
/// Metric of the blackholes for this host's own blocks.
pub(super) const BLOCK_METRIC: u32 = 2048;

/// The best paths that the speaker reported, and the routes they ask for.
#[derive(Debug, Default)]
pub(super) struct BgpRoutes {
    paths: BTreeMap<Cidr, LearnedRoute>,
    policy: Arc<KernelPolicy>,
}

impl BgpRoutes {
    /// Takes in one event and adds to `delta` how the desired routes change.
    pub(super) fn handle(&mut self, event: &BgpEvent, delta: &mut Delta) {
        match event {
            BgpEvent::RouteSet(path) => {
                self.paths.insert(path.prefix, path.clone());
                if is_programmed(&self.policy, path) {
                    delta.routes_set.push(route(path));
                }
            }
            BgpEvent::RouteRemoved(prefix) if self.paths.remove(prefix).is_some() => {
                delta.routes_removed.push(key(*prefix));
            }
            // Not wanted any more and not yet announced again: the kernel keeps them as those of an earlier life.
            BgpEvent::Restarted => delta.routes_removed.extend(core::mem::take(&mut self.paths).into_keys().map(key)),
            _ => {}
        }
    }

    /// From now on, this decides which paths become routes.
    pub(super) fn set_policy(&mut self, policy: &Arc<KernelPolicy>, delta: &mut Delta) {
        let former = core::mem::replace(&mut self.policy, Arc::clone(policy));
        if former == *policy {
            return;
        }
        for path in self.paths.values() {
            match (is_programmed(&former, path), is_programmed(policy, path)) {
                (false, true) => delta.routes_set.push(route(path)),
                (true, false) => delta.routes_removed.push(key(path.prefix)),
                _ => {}
            }
        }
    }

    /// Every path, and whether the kernel is to have it.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&LearnedRoute, bool)> {
        self.paths.values().map(|path| (path, is_programmed(&self.policy, path)))
    }

    /// The path to a prefix, and whether the kernel is to have it.
    pub(super) fn path(&self, prefix: Cidr) -> Option<(&LearnedRoute, bool)> {
        self.paths.get(&prefix).map(|path| (path, is_programmed(&self.policy, path)))
    }

    /// Routes in use.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }
}

/// All but services', which each node answers itself. Pools with tunnels, and nodes that are reached through WireGuard, are here like
/// others: there are no such devices yet.
fn is_programmed(policy: &KernelPolicy, path: &LearnedRoute) -> bool {
    !matches!(policy.decide(path.prefix, path.next_hop), Programming::Service(_))
}

const fn key(dest: Cidr) -> RouteKey {
    RouteKey { table: RouteTableId::MAIN, dest, metric: METRIC }
}

/// The kernel finds the interface: in the mesh, next hops are neighbours of this host or reached through its own routes. A link-local
/// one is on the link that its peer is on, and stays alone: the links of others are not known.
fn route(path: &LearnedRoute) -> Route {
    let is_local = |gateway: &IpAddr| matches!(gateway, IpAddr::V6(gateway) if gateway.is_unicast_link_local());
    let shared = path.next_hops.iter().filter(|gateway| !is_local(gateway));
    let target = match (is_local(&path.next_hop), path.peer.interface) {
        (true, Some(interface)) => RouteTarget::ViaOnlink { gateway: path.next_hop, interface },
        _ => RouteTarget::via(shared.copied()).unwrap_or(RouteTarget::Via(path.next_hop)),
    };
    Route { key: key(path.prefix), target, class: RouteClass::Bgp }
}

#[cfg(test)]
mod tests {
    use calico_core::bgp::PeerId;

    use super::*;

    #[test]
    fn a_path_is_set_replaced_and_removed_once() {
        let path = |hop: &str| {
            LearnedRoute::new(
                "10.1.0.0/26".parse().unwrap(),
                hop.parse().unwrap(),
                hop.parse::<IpAddr>().unwrap().into(),
            )
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

    #[test]
    fn what_is_as_good_shares_the_traffic() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let path = |next_hops: &[&str], peer: PeerId| {
            let next_hops = addresses(next_hops);
            let route = LearnedRoute::new("fd00:1::/64".parse().unwrap(), next_hops[0], peer);
            LearnedRoute { next_hops: next_hops.into(), ..route }
        };
        let far = PeerId::from("fd00::9".parse::<IpAddr>().unwrap());
        let several = route(&path(&["fd00::2", "fd00::3"], far)).target;
        assert_eq!(Some(several), RouteTarget::via(addresses(&["fd00::2", "fd00::3"])));
        assert_eq!(route(&path(&["fd00::2", "fe80::3"], far)).target, RouteTarget::Via("fd00::2".parse().unwrap()));
        let interface = "eth0".parse().unwrap();
        let near = PeerId { address: "fe80::2".parse().unwrap(), interface: Some(interface) };
        let expected = RouteTarget::ViaOnlink { gateway: "fe80::2".parse().unwrap(), interface };
        assert_eq!(route(&path(&["fe80::2", "fd00::3"], near)).target, expected);
    }

    #[test]
    fn services_are_answered_here() {
        let path = LearnedRoute::new(
            "10.96.0.0/12".parse().unwrap(),
            "192.0.2.1".parse().unwrap(),
            "192.0.2.1".parse::<IpAddr>().unwrap().into(),
        );
        let services = Arc::new(KernelPolicy { rejected: vec![path.prefix], ..KernelPolicy::default() });
        let (mut routes, mut delta) = (BgpRoutes::default(), Delta::default());
        routes.handle(&BgpEvent::RouteSet(path.clone()), &mut delta);
        assert_eq!(delta.routes_set.len(), 1);
        routes.set_policy(&services, &mut delta);
        assert_eq!(delta.routes_removed, [key(path.prefix)]);
        let mut delta = Delta::default();
        routes.handle(&BgpEvent::RouteSet(path.clone()), &mut delta);
        assert!(delta.is_empty(), "{delta:?}");
        routes.set_policy(&Arc::default(), &mut delta);
        assert_eq!(delta.routes_set.len(), 1);
    }
}
