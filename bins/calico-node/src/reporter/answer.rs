//! What a CalicoNodeStatus says, made of the agent's picture. Words and forms are upstream's, so that its readers find what they know.

use std::net::IpAddr;

use calico_cmd::control::{NodeStatus, PeerReport, RouteReport, RouteSource};
use calico_core::net::Family;
use calico_core::resource::{
    BgpDaemonStatus, CalicoNodeStatusStatus, LearnedFrom, NodeAgentStatus, NodeBgpStatus, NodePeer, NodeRoute,
    NodeRoutes, NodeStatusClass,
};
use calico_core::time::Timestamp;

/// What is asked for; the rest stays empty.
pub(super) fn status(
    classes: &[NodeStatusClass],
    status: &NodeStatus,
    routes: &[RouteReport],
    now: Timestamp,
) -> CalicoNodeStatusStatus {
    let mut answer = CalicoNodeStatusStatus { last_updated: Some(now.rfc3339()), ..CalicoNodeStatusStatus::default() };
    for class in classes {
        match class {
            NodeStatusClass::Agent => {
                let daemon = daemon(status, now);
                answer.agent = NodeAgentStatus { bird_v4: daemon.clone(), bird_v6: daemon };
            }
            NodeStatusClass::BGP => answer.bgp = sessions(&status.bgp),
            NodeStatusClass::Routes => {
                let of = |family| all_of(family, routes);
                answer.routes = NodeRoutes { routes_v4: of(Family::V4), routes_v6: of(Family::V6) };
            }
            _ => {}
        }
    }
    answer
}

/// One process speaks for both families.
fn daemon(status: &NodeStatus, now: Timestamp) -> BgpDaemonStatus {
    let booted = now.secs().saturating_sub(status.uptime_ms / 1000);
    let configured = status.bgp_configured.map(|seconds| Timestamp::from_secs(seconds).rfc3339());
    BgpDaemonStatus {
        state: if status.bgp_backend.is_some() { "Ready" } else { "NotReady" }.into(),
        version: format!("calico-node {}", status.version),
        router_id: status.bgp_identifier.map(|id| id.to_string()).unwrap_or_default(),
        last_boot_time: Timestamp::from_secs(booted).rfc3339(),
        last_reconfiguration_time: configured.unwrap_or_default(),
    }
}

fn sessions(peers: &[PeerReport]) -> NodeBgpStatus {
    let of =
        |family| -> Vec<NodePeer> { peers.iter().filter(|peer| is_of(family, &peer.address)).map(session).collect() };
    let (v4, v6) = (of(Family::V4), of(Family::V6));
    let count = |peers: &[NodePeer], up: bool| {
        let counted = peers.iter().filter(|peer| (peer.state == "Established") == up).count();
        i64::try_from(counted).unwrap_or(i64::MAX)
    };
    NodeBgpStatus {
        number_established_v4: count(&v4, true),
        number_not_established_v4: count(&v4, false),
        number_established_v6: count(&v6, true),
        number_not_established_v6: count(&v6, false),
        peers_v4: v4,
        peers_v6: v6,
    }
}

fn session(peer: &PeerReport) -> NodePeer {
    NodePeer {
        peer_ip: peer.address.clone(),
        peer_type: match peer.peer_type.as_str() {
            "node-to-node mesh" => "NodeMesh",
            "global" => "GlobalPeer",
            _ => "NodePeer",
        }
        .into(),
        state: peer.state.clone(),
        since: peer.since.map(|since| Timestamp::from_secs(since).rfc3339()).unwrap_or_default(),
    }
}

/// One for each gateway, as the kernel's own listings have it.
fn all_of(family: Family, routes: &[RouteReport]) -> Vec<NodeRoute> {
    let of_family = routes.iter().filter(|route| route.destination.family() == family);
    of_family.flat_map(each).collect()
}

fn each(route: &RouteReport) -> Vec<NodeRoute> {
    let one = |gateway: Option<&IpAddr>| NodeRoute {
        route_type: if route.programmed { "FIB" } else { "RIB" }.into(),
        destination: route.destination.to_string(),
        gateway: gateway.map_or_else(|| "N/A".into(), ToString::to_string),
        interface: match (route.interface, route.source) {
            (Some(interface), _) => interface.to_string(),
            (None, RouteSource::Block) => "blackhole".into(),
            (None, _) => String::new(),
        },
        learned_from: LearnedFrom {
            source_type: match route.source {
                RouteSource::Workload => "Kernel",
                RouteSource::Block => "Static",
                RouteSource::Mesh => "NodeMesh",
                _ => "BGPPeer",
            }
            .into(),
            peer_ip: route.peer.clone().unwrap_or_default(),
        },
    };
    if route.gateways.is_empty() { vec![one(None)] } else { route.gateways.iter().map(Some).map(one).collect() }
}

fn is_of(family: Family, address: &str) -> bool {
    (family == Family::V6) == address.contains(':')
}
