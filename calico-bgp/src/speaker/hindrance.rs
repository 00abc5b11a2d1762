//! What keeps a session down because this speaker does not carry it out yet.
//!
//! To make the session without it would be worse: without its password anybody may speak, without its filters routes pass that were
//! refused. What only tunes a session (timers, several paths, BFD) is left out instead.

use calico_core::bgp::{DesiredPeer, NextHop, Password, SessionParameters, Source};

/// Why a session stays down; none if it can be had as it is wanted.
pub(super) fn hindrance(peer: &DesiredPeer) -> Option<String> {
    let SessionParameters { local_as, families, source, password, ttl_security, role, gateway, .. } = &peer.session;
    if let Password::Missing(reason) = password {
        return Some(reason.clone());
    }
    let wanted = [
        ("a password", *password != Password::None),
        ("TTL security", ttl_security.is_some()),
        ("an AS number of its own", local_as.is_some()),
        ("IPv6", families.ipv6 || !families.ipv4),
        ("another source address than the node's", *source != Source::Node),
        ("a role", role.is_some()),
        ("a gateway", gateway.is_some()),
        ("filters", !peer.policy.filters.is_empty()),
        ("route reflection", peer.policy.reflector_client),
        ("another next hop than usual", peer.policy.next_hop != NextHop::Auto),
        ("the own AS number in received paths", peer.policy.own_as_allowed > 0),
    ];
    let missing: Vec<&str> = wanted.iter().filter(|(_, wanted)| *wanted).map(|(what, _)| *what).collect();
    (!missing.is_empty()).then(|| format!("this version cannot do it with: {}", missing.join(", ")))
}
