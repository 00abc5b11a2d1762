//! Native backends among themselves.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::PoisonError;
use std::time::Duration;

use calico_bgp::testing::{Side, backends_converse};
use calico_bgp::{BgpBackend, BgpError, NativeBackend, NativeConfig, SessionState, SpeakerConfig};
use tokio::io::AsyncReadExt;

use crate::support::{Native, PORT, STARTING, desired, in_namespace};

const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);
const AS: u32 = 64512;

#[test]
fn the_native_backend_keeps_the_contract() {
    in_namespace(&[A, B], || async {
        let side = |address: Ipv4Addr| {
            let config =
                NativeConfig { listen: Some(SocketAddr::from((address, PORT))), speaker: SpeakerConfig::default() };
            Side { backend: NativeBackend::start(config).unwrap(), address, port: PORT }
        };
        backends_converse(side(A), side(B), || tokio::time::sleep(Duration::from_millis(5))).await;
    });
}

#[test]
fn two_backends_exchange_routes_and_survive_a_restart() {
    in_namespace(&[A, B], || async {
        let for_a = desired(A, AS, &[(B, AS)], &["10.1.0.0/26"]);
        let for_b = desired(B, AS, &[(A, AS)], &["10.2.0.0/26", "10.2.0.64/26"]);
        let (mut a, mut b) = (Native::start(A, &for_a).await, Native::start(B, &for_b).await);
        a.until("a has b's blocks", |a| a.routes.len() == 2 && a.settled).await;
        b.until("b has a's block", |b| b.routes.len() == 1 && b.settled).await;
        assert_eq!(a.next_hop("10.2.0.64/26"), Some(IpAddr::V4(B)));
        assert_eq!(b.next_hop("10.1.0.0/26"), Some(IpAddr::V4(A)));

        b.backend.apply(&desired(B, AS, &[(A, AS)], &["10.2.0.0/26", "10.2.0.128/26"])).await.unwrap();
        let moved = |a: &Native| a.next_hop("10.2.0.64/26").is_none() && a.next_hop("10.2.0.128/26").is_some();
        a.until("b's blocks have changed", moved).await;

        // As kill -9 would: the sockets close, nothing is said. One block is released while b is away.
        b.backend.stop().await;
        a.until("a notices", |a| !a.is_established()).await;
        assert_eq!(a.routes.len(), 2, "routes of a restarting peer must stay");
        let mut b = Native::start(B, &desired(B, AS, &[(A, AS)], &["10.2.0.0/26"])).await;
        a.until("the released block is forgotten", |a| a.next_hop("10.2.0.128/26").is_none()).await;
        assert_eq!(a.next_hop("10.2.0.0/26"), Some(IpAddr::V4(B)));
        b.until("b has a's block again", |b| b.routes.len() == 1 && b.settled).await;
    });
}

#[test]
fn a_full_table_goes_over_in_bounded_pieces() {
    in_namespace(&[A, B], || async {
        let blocks: Vec<String> =
            (0..20_000_u32).map(|n| format!("{}/26", Ipv4Addr::from(0x0a80_0000 + n * 64))).collect();
        let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
        let mut a = Native::start(A, &desired(A, AS, &[(B, AS)], &blocks)).await;
        let mut b = Native::start(B, &desired(B, AS, &[(A, AS)], &[])).await;
        b.until("b has everything", |b| b.routes.len() == blocks.len() && b.settled).await;
        a.backend.apply(&desired(A, AS, &[(B, AS)], &[])).await.unwrap();
        b.until("b has nothing", |b| b.routes.is_empty()).await;
        assert!(a.is_established() && b.is_established());
    });
}

#[test]
fn strangers_are_refused_without_a_word() {
    in_namespace(&[A, B, STRANGER], || async {
        let a = Native::start(A, &desired(A, AS, &[(B, AS)], &[])).await;
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((STRANGER, 0))).unwrap();
        let mut stream = socket.connect(SocketAddr::from((A, PORT))).await.unwrap();
        let mut heard = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut heard)).await;
        assert!(read.is_ok(), "the connection must be closed");
        assert_eq!(heard, b"", "nothing may be said to a stranger");
        assert_ne!(a.backend.status().peers[0].state, SessionState::Established);
    });
}

#[test]
fn a_wrong_as_is_reported_and_mended_by_configuration() {
    in_namespace(&[A, B], || async {
        let mut a = Native::start(A, &desired(A, AS, &[(B, AS)], &["10.1.0.0/26"])).await;
        let mut b = Native::start(B, &desired(B, 64999, &[(A, AS)], &["10.2.0.0/26"])).await;
        let complains = |native: &Native| {
            native.backend.status().peers[0].last_error.as_deref().is_some_and(|error| error.contains("AS"))
        };
        a.until("a complains", complains).await;
        b.until("b complains", complains).await;
        a.backend.apply(&desired(A, AS, &[(B, 64999)], &["10.1.0.0/26"])).await.unwrap();
        a.until("the session is up", Native::is_established).await;
        a.until("the external route is there", |a| a.next_hop("10.2.0.0/26") == Some(IpAddr::V4(B))).await;
        b.until("the external route is there", |b| b.next_hop("10.1.0.0/26") == Some(IpAddr::V4(A))).await;
    });
}

#[test]
fn a_port_that_is_taken_is_named() {
    in_namespace(&[A], || async {
        let config = NativeConfig { listen: Some(SocketAddr::from((A, PORT))), speaker: SpeakerConfig::default() };
        let _first = NativeBackend::start(config.clone()).unwrap();
        let error = NativeBackend::start(config).unwrap_err();
        assert!(matches!(error, BgpError::Listen { port: PORT, .. }), "{error:?}");
        assert_eq!(error.to_string(), "cannot listen on 10.77.0.1:1790");
    });
}

/// On several threads, where tasks that are told to end may still be running.
#[test]
fn a_stopped_backend_has_given_its_port_back() {
    in_namespace(&[A], || async {
        let rounds = async {
            let config = NativeConfig { listen: Some(SocketAddr::from((A, PORT))), speaker: SpeakerConfig::default() };
            for round in 0..500 {
                match NativeBackend::start(config.clone()) {
                    Ok(backend) => backend.stop().await,
                    Err(error) => panic!("round {round}: {error}"),
                }
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        // A runtime must not be entered on a thread of another one; a new thread stays in the namespace.
        let run = move || {
            let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
            runtime.block_on(rounds);
        };
        std::thread::spawn(run).join().unwrap();
    });
}
