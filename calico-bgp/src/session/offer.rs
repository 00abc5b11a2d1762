//! Our OPEN: what a peer is offered.

use calico_core::bgp::{DesiredPeer, LocalSpeaker};
use calico_core::net::{AsNumber, Family};

use crate::speaker::SpeakerConfig;
use crate::wire::capability::{
    AddPath, AddPathMode, ExtendedNextHop, LongLivedGracefulRestart, LongLivedGracefulRestartFamily,
};
use crate::wire::{AddressFamily, Capability, GracefulRestart, GracefulRestartFamily, Open, PeerType};

/// Most seconds of a restart time: it has twelve bits.
const MOST_RESTART_TIME: u16 = 4095;

/// Least hold time but none (RFC 4271 section 4.2).
const LEAST_HOLD_TIME: u16 = 3;

/// AS number by which a peer knows us.
pub(crate) fn local_as(local: &LocalSpeaker, peer: &DesiredPeer) -> AsNumber {
    peer.session.local_as.unwrap_or(local.as_number)
}

/// Whether a session is internal or external.
pub(crate) fn peer_type(local: &LocalSpeaker, peer: &DesiredPeer) -> PeerType {
    if local_as(local, peer) == peer.as_number { PeerType::Internal } else { PeerType::External }
}

/// The OPEN for a peer; `restarting` says that this speaker may have had an earlier life.
pub(crate) fn offer(local: &LocalSpeaker, peer: &DesiredPeer, config: &SpeakerConfig, restarting: bool) -> Open {
    let as_number = local_as(local, peer);
    let hold_time = match peer.session.hold_time.unwrap_or(config.hold_time) {
        0 => 0,
        seconds => seconds.max(LEAST_HOLD_TIME),
    };
    Open {
        as_number,
        hold_time,
        identifier: local.router_id,
        capabilities: capabilities(local, peer, config, restarting),
    }
}

fn capabilities(local: &LocalSpeaker, peer: &DesiredPeer, config: &SpeakerConfig, restarting: bool) -> Vec<Capability> {
    let session = &peer.session;
    let families: Vec<AddressFamily> = session.families.iter().map(AddressFamily::unicast).collect();
    let mut offered: Vec<Capability> = families.iter().copied().map(Capability::Multiprotocol).collect();
    offered.extend([Capability::RouteRefresh, Capability::EnhancedRouteRefresh]);
    if config.extended_messages {
        offered.push(Capability::ExtendedMessage);
    }
    if session.extended_next_hop && session.families.contains(Family::V4) {
        let next_hop_afi = AddressFamily::IPV6_UNICAST.afi;
        offered.push(Capability::ExtendedNextHop(vec![ExtendedNextHop {
            family: AddressFamily::IPV4_UNICAST,
            next_hop_afi,
        }]));
    }
    // On internal sessions a role means nothing (RFC 9234 section 4.1).
    if peer_type(local, peer) == PeerType::External {
        offered.extend(session.role.map(Capability::Role));
    }
    let forwarding_preserved = config.forwarding_preserved;
    offered.push(Capability::GracefulRestart(GracefulRestart {
        restarting: restarting && config.restarting,
        notification: config.notification_restarts,
        restart_time: session.restart_time.unwrap_or(config.restart_time).min(MOST_RESTART_TIME),
        families: families
            .iter()
            .map(|family| GracefulRestartFamily { family: *family, forwarding_preserved })
            .collect(),
    }));
    offered.push(Capability::FourOctetAs(local_as(local, peer)));
    if let Some(mode) = add_path_mode(session.add_path) {
        offered.push(Capability::AddPath(families.iter().map(|family| AddPath { family: *family, mode }).collect()));
    }
    // Without families it says that long-lived stale routes of others are understood.
    let kept = session.long_lived.filter(|seconds| *seconds > 0).map(|stale_time| {
        let row = |family: &AddressFamily| LongLivedGracefulRestartFamily {
            family: *family,
            forwarding_preserved,
            stale_time,
        };
        families.iter().map(row).collect()
    });
    offered.push(Capability::LongLivedGracefulRestart(LongLivedGracefulRestart { families: kept.unwrap_or_default() }));
    offered
}

const fn add_path_mode(wanted: calico_core::bgp::AddPath) -> Option<AddPathMode> {
    match (wanted.receive, wanted.send > 0) {
        (true, true) => Some(AddPathMode::Both),
        (true, false) => Some(AddPathMode::Receive),
        (false, true) => Some(AddPathMode::Send),
        (false, false) => None,
    }
}
