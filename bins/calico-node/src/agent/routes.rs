//! The routes of this host and of its speaker, for whoever asks.

use std::collections::BTreeMap;

use calico_cmd::control::{Answer, ErrorCode, MOST_ROUTES, RouteReport, RouteSource, Success, ToldReport};
use calico_core::bgp::{PeerId, PeerKind, Programming};
use calico_core::net::Cidr;

use super::pipeline::Pipeline;
use super::{Agent, bgp_reports};
use crate::control::failure;

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

impl Agent {
    pub(super) fn bgp_explain(&self, prefix: Cidr) -> Answer {
        let Some(found) = self.bgp.as_ref().and_then(|bgp| bgp.explain(prefix)) else {
            return failure(ErrorCode::NotFound, &format!("BGP knows nothing of {prefix}"));
        };
        let explanation = bgp_reports::explanation(&found, self.pipeline.kernels_part(prefix));
        Answer::Ok(Success::BgpExplanation(Box::new(explanation)))
    }

    pub(super) fn bgp_received(&self, peer: &str, after: Option<Cidr>) -> Answer {
        let Some(id) = self.peer(peer) else { return no_peer(peer) };
        let Some(paths) = self.bgp.as_ref().and_then(|bgp| bgp.received_from(&id)) else { return mute() };
        let (paths, more) = page(paths.iter().map(bgp_reports::path).collect(), after, |path| path.prefix);
        Answer::Ok(Success::BgpReceived { paths, more })
    }

    pub(super) fn bgp_advertised(&self, peer: &str, after: Option<Cidr>) -> Answer {
        let Some(id) = self.peer(peer) else { return no_peer(peer) };
        let Some(routes) = self.bgp.as_ref().and_then(|bgp| bgp.advertised_to(&id)) else { return mute() };
        let report = |(nlri, told): &(calico_bgp::wire::Nlri, calico_bgp::Told)| ToldReport {
            prefix: nlri.prefix,
            path_id: nlri.path_id.value(),
            route: bgp_reports::told(told),
        };
        let (routes, more) = page(routes.iter().map(report).collect(), after, |route| route.prefix);
        Answer::Ok(Success::BgpAdvertised { routes, more })
    }

    /// A peer by its address, or by its name if only one has that.
    fn peer(&self, wanted: &str) -> Option<PeerId> {
        let peers = self.bgp.as_ref()?.status().peers;
        let by_address = peers.iter().find(|peer| peer.peer.id.to_string() == wanted).map(|peer| peer.peer.id);
        let by_name = || {
            let mut named = peers.iter().filter(|peer| peer.peer.name == wanted).map(|peer| peer.peer.id);
            named.next().filter(|_| named.next().is_none())
        };
        by_address.or_else(by_name)
    }
}

fn no_peer(peer: &str) -> Answer {
    failure(ErrorCode::NotFound, &format!("{peer:?} is no BGP peer here, or the name of several: give its address"))
}

fn mute() -> Answer {
    failure(ErrorCode::NotFound, "the BGP backend of this node does not run, or does not tell its routes")
}

/// What is behind `after`, sorted, as far as an answer goes; what has one prefix stays together.
fn page<T>(mut all: Vec<T>, after: Option<Cidr>, prefix: impl Fn(&T) -> Cidr) -> (Vec<T>, bool) {
    all.retain(|one| after.is_none_or(|after| prefix(one) > after));
    all.sort_by_key(|one| prefix(one));
    let last = all.get(MOST_ROUTES.saturating_sub(1)).map(&prefix);
    let end = last.map_or(all.len(), |last| all.partition_point(|one| prefix(one) <= last));
    let more = end < all.len();
    all.truncate(end);
    (all, more)
}

impl Pipeline {
    /// What becomes of a learned prefix in the kernel.
    fn kernels_part(&self, prefix: Cidr) -> Option<String> {
        let (path, _) = self.bgp_routes.path(prefix)?;
        let hops: Vec<String> = path.next_hops.iter().map(ToString::to_string).collect();
        let hops = hops.join(", ");
        Some(match self.desired_bgp.kernel.decide(prefix, path.next_hop) {
            Programming::Service(range) => {
                format!("not routed: {range} is a range of services, which each node answers itself")
            }
            Programming::Elsewhere(pool) => format!(
                "routed via {hops}, although routes of pool {pool} are somebody else's: there is nobody else yet"
            ),
            Programming::OtherNextHop => {
                format!("routed via {hops}, although its next hop is reached another way: there is no other yet")
            }
            Programming::Tunnel => format!("routed via {hops} without the tunnel that its pool asks for"),
            _ => format!("routed via {hops}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_between_prefixes() {
        let prefix = |number: usize| Cidr::host(std::net::Ipv4Addr::from(u32::try_from(number).unwrap()).into());
        // Two of each, so that the bound falls between two or on one.
        let all: Vec<(Cidr, usize)> = (0..=MOST_ROUTES).map(|number| (prefix(number / 2), number)).rev().collect();
        let (first, more) = page(all.clone(), None, |one| one.0);
        assert_eq!((first.len(), more), (MOST_ROUTES, true));
        let (rest, more) = page(all, Some(first[first.len() - 1].0), |one| one.0);
        assert_eq!((rest.len(), more), (1, false));
        // Here the bound falls between two of one prefix.
        let odd: Vec<Cidr> = (0..MOST_ROUTES + 2).map(|number| prefix(number.saturating_sub(1) / 2)).collect();
        let (first, more) = page(odd, None, |one| *one);
        assert_eq!((first.len(), more), (MOST_ROUTES + 1, true));
    }
}
