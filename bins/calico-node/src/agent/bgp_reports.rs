//! What is told of BGP on the control socket: the speaker's pictures, worded.

use std::time::Duration;

use calico_bgp::wire::{self, NextHop, PathAttributes};
use calico_bgp::{Agreed, Explanation, Fate, MessageCounts, PeerStatus, SessionState, Step, Told};
use calico_cmd::control::{BgpExplanation, PathFate, PathReport, PeerDetails, PeerHears, PeerReport, RouteAttributes};
use calico_core::bgp::{Community, Families, Origin, Originated, PeerKind};
use calico_core::net::Family;
use calico_core::time::Timestamp;

/// A session. Two looks at one state say the same time: what is subtracted is not rounded before.
pub(super) fn peer(status: &PeerStatus, now: Timestamp) -> PeerReport {
    let details = &status.details;
    PeerReport {
        address: status.peer.id.to_string(),
        name: status.peer.name.clone(),
        peer_type: match status.peer.kind {
            PeerKind::Mesh => "node-to-node mesh",
            PeerKind::Node => "node specific",
            PeerKind::LocalWorkload => "local workload",
            _ => "global",
        }
        .into(),
        state: state(status.state).into(),
        since: details.state_for.map(|time| since(now, time)),
        received: status.received,
        last_error: status.last_error.clone(),
        details: PeerDetails {
            as_number: Some(status.peer.as_number.value()),
            sent: details.prefixes_sent,
            dynamic: details.is_dynamic,
            bfd: details.bfd_up,
            established: details.established,
            transitions: details.transitions,
            messages_sent: counts(details.messages_sent),
            messages_received: counts(details.messages_received),
            last_sent: details.last_sent.clone(),
            last_received: details.last_received.clone(),
            identifier: details.agreed.as_ref().map(|agreed| agreed.identifier),
            hold_time: details.agreed.as_ref().and_then(|agreed| agreed.hold_time).map(|time| time.as_secs()),
            agreed: details.agreed.as_ref().map(agreed).unwrap_or_default(),
        },
    }
}

/// Seconds since 1970, to the nearest.
fn since(now: Timestamp, time: Duration) -> u64 {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    now.nanos().saturating_sub(nanos).saturating_add(500_000_000) / 1_000_000_000
}

const fn state(state: SessionState) -> &'static str {
    match state {
        SessionState::Idle => "Idle",
        SessionState::Connect => "Connect",
        SessionState::Active => "Active",
        SessionState::OpenSent => "OpenSent",
        SessionState::OpenConfirm => "OpenConfirm",
        SessionState::Established => "Established",
    }
}

const fn counts(counts: MessageCounts) -> [u64; 5] {
    [counts.opens, counts.updates, counts.notifications, counts.keepalives, counts.route_refreshes]
}

fn agreed(agreed: &Agreed) -> Vec<String> {
    let plain = [
        ("four-octet AS numbers", agreed.four_octet_as),
        ("route refresh", agreed.route_refresh),
        ("enhanced route refresh", agreed.enhanced_route_refresh),
        ("extended messages", agreed.extended_messages),
        ("IPv6 next hops of IPv4", agreed.extended_next_hop),
        ("notifications restart gracefully", agreed.notification_restarts),
    ];
    let by_family = [
        ("several paths received", agreed.add_path_receive),
        ("several paths sent", agreed.add_path_send),
        ("graceful restart", agreed.graceful_restart),
        ("long-lived graceful restart", agreed.long_lived),
    ];
    let mut all: Vec<String> = families(agreed.families);
    all.extend(plain.iter().filter(|(_, is)| *is).map(|(what, _)| (*what).to_owned()));
    let of_families = by_family.iter().filter(|(_, of)| !of.is_empty());
    all.extend(of_families.map(|(what, of)| format!("{what} ({})", families(*of).join(", "))));
    all.extend(agreed.role.map(|role| format!("role of the peer: {role:?}")));
    all
}

fn families(families: Families) -> Vec<String> {
    let name = |family| match family {
        Family::V4 => "IPv4".to_owned(),
        Family::V6 => "IPv6".to_owned(),
    };
    families.iter().map(name).collect()
}

/// A path, and what became of it.
pub(super) fn path(report: &calico_bgp::PathReport) -> PathReport {
    let (fate, reason) = match &report.fate {
        Fate::Best => (PathFate::Best, None),
        Fate::Shares(step) => (PathFate::Shares, Some(by(*step))),
        Fate::Lost(step) => (PathFate::Lost, Some(by(*step))),
        Fate::BehindOwn => (PathFate::BehindOwn, Some("this node originates the prefix".to_owned())),
        Fate::Refused(refusal) => (PathFate::Refused, Some(refusal.to_string())),
        other => (PathFate::Lost, Some(format!("{other:?}"))),
    };
    PathReport {
        prefix: report.prefix,
        peer: report.peer.to_string(),
        path_id: report.path_id.value(),
        route: attributes(&report.attributes, report.next_hop),
        stale: report.is_stale,
        fate,
        reason,
    }
}

/// The step of the decision by which the best path came first.
fn by(step: Step) -> String {
    match step {
        Step::LongLivedStale => "this one is kept as a last resort only",
        Step::LocalPref => "the best has a higher LOCAL_PREF",
        Step::PathLength => "the best has a shorter AS path",
        Step::Origin => "the best has a better ORIGIN",
        Step::Med => "the best has a lower MED",
        Step::External => "the best came from an external peer",
        Step::Identifier => "the best's router has a lower identifier",
        Step::ClusterList => "the best has a shorter CLUSTER_LIST",
        Step::Address => "the best's peer has a lower address",
        Step::PathId => "the best has a lower path identifier",
        other => return format!("the best came first by {other:?}"),
    }
    .to_owned()
}

/// A route that a peer is told.
pub(super) fn told(told: &Told) -> RouteAttributes {
    attributes(&told.attributes, told.next_hop)
}

fn attributes(attributes: &PathAttributes, next_hop: NextHop) -> RouteAttributes {
    let standard = attributes.communities.iter().map(|number| Community::Standard(*number).to_string());
    let large = attributes.extra.large_communities.iter().map(|octets| large(octets).to_string());
    RouteAttributes {
        next_hop: next_hop.to_string(),
        origin: match attributes.origin {
            wire::Origin::Igp => "IGP",
            wire::Origin::Egp => "EGP",
            wire::Origin::Incomplete => "Incomplete",
        }
        .into(),
        as_path: attributes.as_path.systems().iter().map(|system| system.value()).collect(),
        local_pref: attributes.local_pref,
        med: attributes.med,
        communities: standard.chain(large).collect(),
        originator: attributes.originator_id,
        clusters: attributes.cluster_list.clone(),
    }
}

fn large(octets: &[u8; 12]) -> Community {
    let mut numbers = [0; 3];
    for (number, four) in numbers.iter_mut().zip(octets.chunks_exact(4)) {
        *number = four.iter().fold(0, |number, octet| number << 8 | u32::from(*octet));
    }
    Community::Large(numbers)
}

/// Why a prefix is as it is; `kernel` says what becomes of it there.
pub(super) fn explanation(found: &Explanation, kernel: Option<String>) -> BgpExplanation {
    let hears = found.told.iter().map(|(peer, outcome)| PeerHears {
        peer: peer.to_string(),
        told: outcome.as_ref().ok().map(told),
        withheld: outcome.as_ref().err().map(ToString::to_string),
    });
    BgpExplanation {
        prefix: found.prefix,
        originated: found.originated.as_ref().map(originated),
        paths: found.paths.iter().map(path).collect(),
        kernel,
        told: hears.collect(),
    }
}

fn originated(originated: &Originated) -> String {
    let reason = match originated.origin {
        Origin::Block => "it is a block of this node",
        Origin::Workload => "it is the address of a workload here",
        Origin::Service => "it is a service's",
        _ => "somebody asked for it",
    };
    format!("{reason}, priority {}", originated.priority)
}
