//! The routes of this host, for whoever asks.

use std::collections::BTreeMap;

use calico_cmd::control::{RouteReport, RouteSource};
use calico_core::bgp::PeerKind;
use calico_core::net::Cidr;

use super::pipeline::Pipeline;

impl Pipeline {
    /// Routes to workloads and blocks of this host, and what BGP learned, sorted by destination; those behind `after` only.
    pub(super) fn routes(&self, after: Option<Cidr>) -> Vec<RouteReport> {
        let of_workloads = self.active().endpoints.values().flat_map(|endpoint| {
            let route = |destination: &Cidr| RouteReport {
                interface: Some(endpoint.interface),
                ..own(*destination, RouteSource::Workload)
            };
            endpoint.addresses.iter().map(route)
        });
        let of_blocks = self.blocks.iter().map(|block| own(*block, RouteSource::Block));
        let mut routes: Vec<_> = of_workloads.chain(of_blocks).chain(self.learned()).collect();
        routes.retain(|route| after.is_none_or(|after| route.destination > after));
        routes.sort_by_key(|route| route.destination);
        routes
    }

    fn learned(&self) -> impl Iterator<Item = RouteReport> {
        let kinds: BTreeMap<_, _> = self.desired_bgp.peers.iter().map(|peer| (peer.id, peer.kind)).collect();
        self.bgp_routes.paths().map(move |(path, programmed)| RouteReport {
            gateways: path.next_hops.to_vec(),
            peer: Some(path.peer.to_string()),
            programmed,
            ..own(
                path.prefix,
                match kinds.get(&path.peer) {
                    Some(PeerKind::Mesh) => RouteSource::Mesh,
                    _ => RouteSource::Peer,
                },
            )
        })
    }
}

const fn own(destination: Cidr, source: RouteSource) -> RouteReport {
    RouteReport { destination, gateways: Vec::new(), interface: None, source, peer: None, programmed: true }
}
