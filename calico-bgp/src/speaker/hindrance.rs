//! What keeps a session down because this speaker does not carry it out yet.
//!
//! To make the session without it would be worse: without its password anybody may speak, without its filters routes pass that were
//! refused. What only tunes a session (timers, several paths, BFD) is left out instead.

use calico_core::bgp::{DesiredPeer, Families, NextHop, Password, SessionParameters, Source};

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
        ("IPv6", *families != Families::IPV4),
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

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use calico_core::bgp::{DesiredBgp, Filter, LocalSpeaker, PeerKind, PeerPolicy, Secret};
    use calico_core::net::AsNumber;

    use super::*;
    use crate::{Action, BgpEvent, SessionState, Speaker, SpeakerConfig, Timestamp};

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn peer(change: impl Fn(&mut SessionParameters, &mut PeerPolicy)) -> DesiredPeer {
        let mut peer = DesiredPeer::new(PEER, AsNumber::DEFAULT, PeerKind::Global, "tor");
        change(&mut peer.session, &mut peer.policy);
        peer
    }

    /// Rather than without its password or its filters, a session is not made; nobody waits for it, and it comes up when nothing is in its way.
    #[test]
    fn what_cannot_be_done_keeps_a_session_down() {
        let key = Secret::new("key".into()).unwrap();
        let rows: [(&str, DesiredPeer); 4] = [
            ("a password", peer(|session, _| session.password = Password::Key(key.clone()))),
            ("no such secret", peer(|session, _| session.password = Password::Missing("no such secret".into()))),
            ("filters", peer(|_, policy| policy.filters = vec![Arc::new(Filter::default())])),
            ("TTL security", peer(|session, _| session.ttl_security = Some(1))),
        ];
        for (reason, hindered) in rows {
            let local = LocalSpeaker::new("us", AsNumber::DEFAULT, Ipv4Addr::new(10, 0, 0, 1));
            let mut desired = DesiredBgp { local: Some(local), peers: vec![hindered], ..DesiredBgp::default() };
            let mut speaker = Speaker::new(SpeakerConfig::default());
            speaker.set_desired(Timestamp::ZERO, &desired);
            let later = Timestamp::ZERO.after(core::time::Duration::from_secs(3600));
            speaker.handle_timeout(later);
            assert_eq!(speaker.poll_action(), None, "{reason}");
            assert_eq!(speaker.handle_accepted(later, PEER.into()), None, "{reason}");
            let status = speaker.status();
            let [known] = status.peers.as_slice() else { panic!("one peer") };
            assert_eq!(known.state, SessionState::Idle);
            assert!(known.last_error.as_ref().is_some_and(|error| error.contains(reason)), "{known:?}");
            let events: Vec<BgpEvent> = core::iter::from_fn(|| speaker.poll_event()).collect();
            assert_eq!(events.last(), Some(&BgpEvent::Settled), "{reason}");
            desired.peers = vec![peer(|_, _| ())];
            speaker.set_desired(later, &desired);
            speaker.handle_timeout(later.after(SpeakerConfig::default().passive_delay));
            assert!(matches!(speaker.poll_action(), Some(Action::Connect { .. })), "{reason}");
        }
    }
}
