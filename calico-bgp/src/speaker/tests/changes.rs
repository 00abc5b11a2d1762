//! Which changes of the desired state end a session, field by field: see the table in `speaker/desired.rs`.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use calico_core::bgp::{
    AddPath, Bfd, DesiredBgp, DesiredPeer, Families, KernelPolicy, Listen, LocalSpeaker, Originated, Password,
    PeerKind, PeerPolicy, Role, Secret, SessionParameters, Source,
};
use calico_core::net::AsNumber;

use super::bench::{Bench, cidr, graceful, open};
use crate::backend::SessionState;
use crate::wire::notification::cease;

/// What becomes of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    EndsSilently,
    Ends(u8),
}

fn fate(change: impl Fn(&mut DesiredBgp)) -> Fate {
    let mut bench = Bench::new(|_| ());
    bench.establish(&open(Families::IPV4, &[graceful(Families::IPV4, 120, false)]));
    bench.announce("10.2.0.0/26");
    change(&mut bench.desired);
    bench.apply();
    let kept = bench.has("10.2.0.0/26");
    match (bench.closed, bench.refusal()) {
        (false, None) => {
            assert!(bench.state() == SessionState::Established && kept);
            Fate::Stays
        }
        (true, None) => {
            assert!(kept, "as in a restart");
            Fate::EndsSilently
        }
        (true, Some((6, subcode))) => {
            assert!(!kept);
            Fate::Ends(subcode)
        }
        other => panic!("{other:?}"),
    }
}

fn session(change: impl Fn(&mut SessionParameters)) -> Fate {
    fate(|desired| change(&mut desired.peers[0].session))
}

fn peer(change: impl Fn(&mut DesiredPeer)) -> Fate {
    fate(|desired| change(&mut desired.peers[0]))
}

fn local(change: impl Fn(&mut LocalSpeaker)) -> Fate {
    fate(|desired| change(desired.local.as_mut().unwrap()))
}

const RESET: Fate = Fate::Ends(cease::CONFIGURATION_CHANGE);

/// Names every field: one that is new has to be thought of.
#[test]
fn session_parameters() {
    let SessionParameters {
        local_as: _,
        families: _,
        source: _,
        passive: _,
        password: _,
        ttl_security: _,
        hold_time: _,
        keepalive: _,
        restart_time: _,
        long_lived: _,
        add_path: _,
        extended_next_hop: _,
        role: _,
        bfd: _,
        gateway: _,
        maximum_prefixes: _,
    } = SessionParameters::default();
    assert_eq!(session(|s| s.local_as = Some(AsNumber::new(1))), RESET);
    assert_eq!(session(|s| s.families = Families::BOTH), RESET);
    assert_eq!(session(|s| s.source = Source::Kernel), RESET);
    assert_eq!(session(|s| s.passive = true), Fate::Stays);
    assert_eq!(session(|s| s.password = Password::Key(Secret::new("key".into()).unwrap())), Fate::EndsSilently);
    assert_eq!(session(|s| s.password = Password::Missing("gone".into())), RESET);
    assert_eq!(session(|s| s.ttl_security = Some(1)), RESET);
    assert_eq!(session(|s| s.hold_time = Some(30)), RESET);
    assert_eq!(session(|s| s.keepalive = Some(5)), Fate::Stays);
    assert_eq!(session(|s| s.restart_time = Some(5)), RESET);
    assert_eq!(session(|s| s.long_lived = Some(5)), RESET);
    assert_eq!(session(|s| s.add_path = AddPath { receive: true, send: 0 }), RESET);
    assert_eq!(session(|s| s.extended_next_hop = true), RESET);
    assert_eq!(session(|s| s.role = Some(Role::Peer)), RESET);
    let interval = core::time::Duration::from_secs(1);
    let bfd = Bfd { transmit: interval, receive: interval, multiplier: 3, multihop: false };
    assert_eq!(session(|s| s.bfd = Some(bfd)), Fate::Stays);
    assert_eq!(session(|s| s.gateway = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)))), Fate::Stays);
    assert_eq!(session(|s| s.maximum_prefixes = Some(10)), Fate::Stays);
}

#[test]
fn peers() {
    let DesiredPeer { id: _, port: _, as_number: _, kind: _, name: _, session: _, policy } =
        Bench::new(|_| ()).desired.peers.remove(0);
    // What is said on a session is carried out on it; that is the RIB's to test.
    let PeerPolicy { next_hop: _, reflector_client: _, own_as_allowed: _, filters: _ } = policy;
    assert_eq!(peer(|p| p.port = 1790), Fate::Stays);
    assert_eq!(peer(|p| p.as_number = AsNumber::new(1)), RESET);
    assert_eq!(peer(|p| p.kind = PeerKind::Node), Fate::Stays);
    assert_eq!(peer(|p| p.name = "another".into()), Fate::Stays);
    assert_eq!(peer(|p| p.id = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)).into()), Fate::Ends(cease::PEER_DECONFIGURED));
}

#[test]
fn this_speaker() {
    let LocalSpeaker { node: _, as_number: _, router_id: _, ipv4: _, ipv6: _, cluster_id: _, listen } =
        LocalSpeaker::new("us", AsNumber::DEFAULT, Ipv4Addr::new(10, 0, 0, 1));
    let Listen { port: _, own_addresses: _ } = listen;
    let other = Ipv4Addr::new(10, 0, 0, 77);
    assert_eq!(local(|l| l.node = "another".into()), Fate::Stays);
    assert_eq!(local(|l| l.as_number = AsNumber::new(1)), RESET);
    assert_eq!(local(|l| l.router_id = other), RESET);
    assert_eq!(local(|l| l.ipv4 = Some(other)), RESET);
    assert_eq!(local(|l| l.ipv6 = None), RESET);
    assert_eq!(local(|l| l.cluster_id = Some(other)), RESET);
    assert_eq!(local(|l| l.listen.port = 1790), Fate::Stays);
    assert_eq!(local(|l| l.listen.own_addresses = true), Fate::Stays);
    assert_eq!(fate(|desired| desired.local = None), Fate::Ends(cease::ADMINISTRATIVE_SHUTDOWN));
}

#[test]
fn everything_else() {
    assert_eq!(fate(|_| ()), Fate::Stays);
    assert_eq!(fate(|desired| desired.originated = vec![Originated::block(cidr("10.1.0.0/26"))]), Fate::Stays);
    assert_eq!(fate(|desired| desired.export = Arc::default()), Fate::Stays);
    assert_eq!(fate(|desired| desired.kernel = Arc::new(KernelPolicy::default())), Fate::Stays);
}
