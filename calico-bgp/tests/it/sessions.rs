//! What a session may be made of, with each of the daemons that a node meets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_bgp::{Agreed, BgpBackend, PeerStatus, SessionState};
use calico_core::bgp::{
    DesiredBgp, DesiredPeer, DynamicPeers, Families, Listen, LocalSpeaker, Originated, Password, PeerKind, Role, Secret,
};
use calico_core::net::AsNumber;

use crate::neighbour::{ALL, Daemon, Neighbour, Theirs};
use crate::support::{Native, PORT, add_address, in_namespace, ip};

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const THEM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
const US6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));
const THEM6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2));
const OUR_AS: u32 = 64512;
const THEIR_AS: u32 = 64513;

/// A namespace with the addresses of both ends.
fn scene<F: Future<Output = ()>>(body: impl FnOnce() -> F + Send + 'static) {
    in_namespace(&[], move || {
        [US, THEM, US6, THEM6].into_iter().for_each(add_address);
        body()
    });
}

fn desired(address: IpAddr, change: impl FnOnce(&mut DesiredPeer)) -> DesiredBgp {
    let mut peer = DesiredPeer::new(address, AsNumber::new(THEIR_AS), PeerKind::Global, "them");
    peer.port = PORT;
    change(&mut peer);
    let IpAddr::V4(ipv4) = US else { unreachable!() };
    let IpAddr::V6(ipv6) = US6 else { unreachable!() };
    let local = LocalSpeaker {
        ipv6: Some(ipv6),
        listen: Listen { port: PORT, own_addresses: true },
        ..LocalSpeaker::new("us", AsNumber::new(OUR_AS), ipv4)
    };
    DesiredBgp {
        local: Some(local),
        peers: vec![peer],
        originated: vec![Originated::block("10.1.0.0/26".parse().unwrap())],
        ..DesiredBgp::default()
    }
}

fn theirs(address: IpAddr) -> Theirs {
    let us = if address.is_ipv4() { US } else { US6 };
    Theirs::new(address, THEIR_AS, us, OUR_AS)
}

fn status(native: &Native) -> Option<PeerStatus> {
    native.backend.status().peers.into_iter().next()
}

fn agreed(native: &Native) -> Option<Agreed> {
    status(native)?.details.agreed
}

fn is_up(native: &Native) -> bool {
    status(native).is_some_and(|status| status.state == SessionState::Established)
}

/// Comes up, or shows what the neighbour says of it.
async fn comes_up(native: &mut Native, neighbour: &Neighbour) {
    let wait = native.until("the session is up", is_up);
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(25), wait).await;
    assert!(outcome.is_ok(), "{:#?}\n{}", native.backend.status(), neighbour.log());
}

fn key(text: &str) -> Password {
    Password::Key(Secret::new(text.into()).unwrap())
}

/// Up with the right key, down with another, and up again.
fn passwords(daemon: Daemon, address: IpAddr) {
    scene(move || async move {
        let neighbour = Neighbour::start(daemon, &Theirs { password: Some("hunter2"), ..theirs(address) });
        let with = |password: Password| desired(address, |peer| peer.session.password = password);
        let mut us = Native::follow(&with(key("hunter2"))).await;
        comes_up(&mut us, &neighbour).await;
        us.apply(&with(key("another"))).await;
        us.until("another key is another session", |us| !is_up(us)).await;
        tokio::time::timeout(std::time::Duration::from_secs(3), us.until("never", is_up)).await.unwrap_err();
        us.apply(&with(Password::None)).await;
        tokio::time::timeout(std::time::Duration::from_secs(3), us.until("never", is_up)).await.unwrap_err();
        us.apply(&with(key("hunter2"))).await;
        comes_up(&mut us, &neighbour).await;
    });
}

#[test]
fn passwords_with_bird() {
    passwords(Daemon::Bird, THEM);
}

#[test]
fn passwords_with_frr_over_ipv6() {
    passwords(Daemon::Frr, THEM6);
}

#[test]
fn passwords_with_gobgp() {
    passwords(Daemon::GoBgp, THEM);
}

/// Whoever calls without the key is not even answered; whoever has it is, though only its call made it a peer.
#[test]
fn a_range_has_a_password_and_a_limit() {
    scene(|| async {
        let mut ours = desired(THEM, |peer| peer.session.password = key("hunter2"));
        let like = ours.peers.remove(0);
        ours.dynamic = vec![DynamicPeers { range: "10.77.0.0/24".parse().unwrap(), limit: 1, like }];
        let mut us = Native::follow(&ours).await;
        let mut neighbour = Neighbour::start(Daemon::Bird, &Theirs { password: Some("hunter2"), ..theirs(THEM) });
        comes_up(&mut us, &neighbour).await;
        let known = status(&us).unwrap();
        assert_eq!((known.peer.id.address, known.details.is_dynamic), (THEM, true));
        us.until("its route is here", |us| us.next_hop("10.2.0.0/26") == Some(THEM)).await;
        let stranger = Neighbour::start(Daemon::GoBgp, &Theirs { password: Some("other"), ..theirs(THEM6) });
        neighbour.kill();
        us.until("it is gone, its routes wait", |us| !is_up(us)).await;
        assert_eq!(us.next_hop("10.2.0.0/26"), Some(THEM));
        assert_eq!(us.backend.status().peers.len(), 1, "{}", stranger.log());
    });
}

fn ttl_security(daemon: Daemon, address: IpAddr) {
    scene(move || async move {
        let neighbour = Neighbour::start(daemon, &Theirs { ttl_security: true, ..theirs(address) });
        let mut us = Native::follow(&desired(address, |peer| peer.session.ttl_security = Some(1))).await;
        comes_up(&mut us, &neighbour).await;
    });
}

#[test]
fn ttl_security_with_bird() {
    ttl_security(Daemon::Bird, THEM);
}

#[test]
fn ttl_security_with_frr_over_ipv6() {
    ttl_security(Daemon::Frr, THEM6);
}

#[test]
fn ttl_security_with_gobgp() {
    ttl_security(Daemon::GoBgp, THEM);
}

/// A peer that sends with a TTL of 64 is too far away.
#[test]
fn a_low_ttl_is_not_taken() {
    scene(|| async {
        let _neighbour = Neighbour::start(Daemon::GoBgp, &theirs(THEM));
        let mut us = Native::follow(&desired(THEM, |peer| peer.session.ttl_security = Some(1))).await;
        tokio::time::timeout(std::time::Duration::from_secs(8), us.until("never", is_up)).await.unwrap_err();
    });
}

#[test]
fn both_families_in_one_session_over_either() {
    for daemon in ALL {
        for address in [THEM, THEM6] {
            scene(move || async move {
                let neighbour = Neighbour::start(daemon, &Theirs { families: Families::BOTH, ..theirs(address) });
                let both = |families| desired(address, |peer| peer.session.families = families);
                let mut us = Native::follow(&both(Families::BOTH)).await;
                comes_up(&mut us, &neighbour).await;
                assert_eq!(agreed(&us).unwrap().families, Families::BOTH, "{}", neighbour.log());
                if address == THEM6 && daemon != Daemon::GoBgp {
                    us.until("its IPv6 route is here", |us| us.next_hop("fd02::/64") == Some(THEM6)).await;
                }
                us.apply(&both(Families::IPV6)).await;
                us.until("fewer families are another session", |us| {
                    agreed(us).is_some_and(|agreed| agreed.families == Families::IPV6)
                })
                .await;
            });
        }
    }
}

#[test]
fn no_common_family_ends_with_the_reason() {
    scene(|| async {
        let _neighbour = Neighbour::start(Daemon::Bird, &Theirs { families: Families::IPV6, ..theirs(THEM) });
        let mut us = Native::follow(&desired(THEM, |_| ())).await;
        us.until("either end says why", |us| {
            let error = status(us).and_then(|status| status.last_error).unwrap_or_default();
            error.contains("capability")
        })
        .await;
    });
}

/// Either end may be the one that waits.
#[test]
fn passive_ends() {
    for daemon in ALL {
        for we_wait in [true, false] {
            scene(move || async move {
                let neighbour = Neighbour::start(daemon, &Theirs { passive: !we_wait, ..theirs(THEM) });
                let mut us = Native::follow(&desired(THEM, |peer| peer.session.passive = we_wait)).await;
                comes_up(&mut us, &neighbour).await;
            });
        }
    }
}

fn roles(daemon: Daemon) {
    scene(move || async move {
        let neighbour = Neighbour::start(daemon, &Theirs { role: Some("customer"), ..theirs(THEM) });
        let with = |role| desired(THEM, |peer| peer.session.role = Some(role));
        let mut us = Native::follow(&with(Role::Customer)).await;
        us.until("two customers are a mistake", |us| {
            status(us).and_then(|status| status.last_error).is_some_and(|error| error.contains("role"))
        })
        .await;
        us.apply(&with(Role::Provider)).await;
        comes_up(&mut us, &neighbour).await;
        assert_eq!(agreed(&us).unwrap().role, Some(Role::Customer));
    });
}

#[test]
fn roles_with_bird() {
    roles(Daemon::Bird);
}

#[test]
fn roles_with_frr() {
    roles(Daemon::Frr);
}

/// Routes outlive the restart time, as a last resort.
#[test]
fn frr_is_kept_for_long() {
    scene(|| async {
        let mut neighbour = Neighbour::start(Daemon::Frr, &Theirs { long_lived: Some(600), ..theirs(THEM) });
        let mut us = Native::follow(&desired(THEM, |peer| peer.session.long_lived = Some(500))).await;
        comes_up(&mut us, &neighbour).await;
        us.until("its route is here", |us| us.next_hop("10.2.0.0/26") == Some(THEM)).await;
        assert_eq!(agreed(&us).unwrap().long_lived, Families::IPV4, "{}", neighbour.log());
        neighbour.kill();
        us.until("it is gone", |us| !is_up(us)).await;
        assert_eq!(us.next_hop("10.2.0.0/26"), Some(THEM), "{}", neighbour.log());
    });
}

/// Two neighbours on one link that know each other by nothing but it.
#[test]
fn link_local_peers() {
    in_namespace(&[], || async {
        ip(&["link", "add", "end0", "type", "veth", "peer", "name", "end1"]);
        let near: IpAddr = "fe80::ff:fe00:1".parse().unwrap();
        let far: IpAddr = "fe80::ff:fe00:2".parse().unwrap();
        for (link, address) in [("end0", near), ("end1", far)] {
            ip(&["link", "set", link, "addrgenmode", "none"]);
            ip(&["link", "set", link, "up"]);
            ip(&["address", "add", &format!("{address}/64"), "dev", link, "nodad"]);
        }
        let end = |own: u8, peer: IpAddr, link: &str, port: u16, other: u16| {
            let mut desired = desired(peer, |peer| {
                peer.as_number = AsNumber::new(OUR_AS);
                peer.id.interface = Some(link.parse().unwrap());
                peer.port = other;
                peer.session.families = Families::BOTH;
                peer.session.password = key("hunter2");
            });
            let own = Ipv4Addr::new(10, 0, 0, own);
            let listen = Listen { port, own_addresses: false };
            desired.local = Some(LocalSpeaker { listen, ..LocalSpeaker::new("us", AsNumber::new(OUR_AS), own) });
            desired
        };
        let mut a = Native::follow(&end(1, far, "end0", PORT, PORT + 1)).await;
        let mut b = Native::follow(&end(2, near, "end1", PORT + 1, PORT)).await;
        a.until("a is up", is_up).await;
        b.until("b is up", is_up).await;
        assert_eq!(agreed(&a).unwrap().families, Families::BOTH);
    });
}

/// Where somebody else has the port, that is told, and it is taken when it is free.
#[test]
fn a_port_that_is_taken_is_waited_for() {
    scene(|| async {
        let ours = desired(THEM, |_| ());
        let holder = std::net::TcpListener::bind((US, PORT)).unwrap();
        let mut us = Native::follow(&ours).await;
        let told = |us: &Native| us.backend.status().problem;
        let neighbour = Neighbour::start(Daemon::Bird, &Theirs { passive: true, ..theirs(THEM) });
        comes_up(&mut us, &neighbour).await;
        assert!(
            told(&us).is_some_and(|problem| problem.contains("cannot listen on 10.77.0.1:1790")),
            "{:?}",
            told(&us)
        );
        drop(holder);
        let start = std::time::Instant::now();
        while told(&us).is_some() {
            assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", told(&us));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(is_up(&us), "the session does not need the port");
    });
}
