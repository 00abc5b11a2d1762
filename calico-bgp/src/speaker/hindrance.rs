//! What keeps a session down before anybody is called: a password that is not known, no address of the peer's family.
//!
//! To make the session without it would be worse: without its password anybody may speak.

use calico_core::bgp::{DesiredPeer, LocalSpeaker, Password};

use crate::session::transport::{is_link_local, source};

/// Why a session stays down; none if it can be had as it is wanted.
pub(super) fn hindrance(local: &LocalSpeaker, peer: &DesiredPeer) -> Option<String> {
    if let Password::Missing(reason) = &peer.session.password {
        return Some(reason.clone());
    }
    if peer.session.families.is_empty() {
        return Some("no family of routes is wanted".into());
    }
    if is_link_local(peer.id.address) && peer.id.interface.is_none() {
        return Some(format!("{} says nothing without its interface", peer.id));
    }
    source(local, peer).err()
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use calico_core::bgp::{DesiredBgp, Families, PeerKind, Source};
    use calico_core::net::AsNumber;

    use super::*;
    use crate::{Action, BgpEvent, SessionState, Speaker, SpeakerConfig, Timestamp};

    fn peer(address: &str, change: impl Fn(&mut DesiredPeer)) -> DesiredPeer {
        let mut peer = DesiredPeer::new(address.parse().unwrap(), AsNumber::DEFAULT, PeerKind::Global, "tor");
        change(&mut peer);
        peer
    }

    fn calls(speaker: &mut Speaker) -> bool {
        core::iter::from_fn(|| speaker.poll_action()).any(|action| matches!(action, Action::Connect { .. }))
    }

    /// Rather than without its password, a session is not made; nobody waits for it, and it comes up when nothing is in its way.
    #[test]
    fn what_cannot_be_done_keeps_a_session_down() {
        let foreign = Source::Address("2001:db8::1".parse().unwrap());
        let rows: [(&str, DesiredPeer); 5] = [
            ("no such secret", peer("10.0.0.2", |p| p.session.password = Password::Missing("no such secret".into()))),
            ("no family", peer("10.0.0.2", |p| p.session.families = Families::NONE)),
            ("cannot be the source", peer("10.0.0.2", |p| p.session.source = foreign)),
            ("no IPv6 address", peer("2001:db8::2", |_| ())),
            ("without its interface", peer("fe80::2", |_| ())),
        ];
        for (reason, hindered) in rows {
            let id = hindered.id;
            let local = LocalSpeaker::new("us", AsNumber::DEFAULT, Ipv4Addr::new(10, 0, 0, 1));
            let mut desired = DesiredBgp { local: Some(local), peers: vec![hindered], ..DesiredBgp::default() };
            let mut speaker = Speaker::new(SpeakerConfig::default());
            speaker.set_desired(Timestamp::ZERO, &desired);
            let later = Timestamp::ZERO.after(core::time::Duration::from_secs(3600));
            speaker.handle_timeout(later);
            assert!(!calls(&mut speaker), "{reason}");
            assert_eq!(speaker.handle_accepted(later, id), None, "{reason}");
            let status = speaker.status();
            let [known] = status.peers.as_slice() else { panic!("one peer") };
            assert_eq!(known.state, SessionState::Idle);
            assert!(known.last_error.as_ref().is_some_and(|error| error.contains(reason)), "{known:?}");
            let events: Vec<BgpEvent> = core::iter::from_fn(|| speaker.poll_event()).collect();
            assert_eq!(events.last(), Some(&BgpEvent::Settled), "{reason}");
            desired.peers = vec![DesiredPeer::new(
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
                AsNumber::DEFAULT,
                PeerKind::Global,
                "tor",
            )];
            speaker.set_desired(later, &desired);
            speaker.handle_timeout(later.after(SpeakerConfig::default().passive_delay));
            assert!(calls(&mut speaker), "{reason}");
        }
    }
}
