//! What every [`BgpBackend`] must do.
//!
//! The suite needs no runtime of its own: it polls the backend's futures by means of a `pause` that the caller provides, for
//! instance `|| tokio::time::sleep(Duration::from_millis(5))`. Two backends that can reach each other are given, not yet used.

use core::future::Future;
use core::net::{IpAddr, Ipv4Addr};
use core::pin::pin;
use core::task::Poll;
use std::collections::BTreeMap;

use calico_core::bgp::{DesiredBgp, DesiredPeer, Listen, LocalSpeaker, Originated, PeerKind};
use calico_core::net::{AsNumber, Cidr};

use crate::{BgpBackend, BgpEvent, LearnedRoute, SessionState};

/// Pauses after which a condition that still does not hold fails the suite.
const PATIENCE: usize = 6000;

/// One side of the suite.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Side<B> {
    /// The backend, to which nothing has been applied.
    pub backend: B,
    /// The address that it speaks from.
    pub address: Ipv4Addr,
    /// The port that it listens on.
    pub port: u16,
}

struct Watched<B> {
    side: Side<B>,
    routes: BTreeMap<Cidr, LearnedRoute>,
    settled: usize,
}

/// Runs the whole suite on two backends of equal kind. Panics where the contract is not met.
pub async fn backends_converse<B, P>(a: Side<B>, b: Side<B>, pause: impl Fn() -> P)
where
    B: BgpBackend,
    P: Future<Output = ()>,
{
    let ends = [(a.address, a.port), (b.address, b.port)];
    let [one, two, three] = [[10, 101, 0, 0], [10, 102, 0, 0], [10, 102, 0, 64]].map(|octets| block(octets.into()));
    let [end_a, end_b] = ends;
    let (mut a, mut b) = (Watched::new(a), Watched::new(b));
    a.apply(&desired(end_a, &[end_b], &[one])).await;
    assert_eq!(a.side.backend.status().peers.len(), 1, "status tells of every configured peer, up or not");
    b.apply(&desired(end_b, &[end_a], &[two])).await;

    until("routes go both ways, and both say that this is all", &pause, &mut a, &mut b, |a, b| {
        a.reaches(&[two], end_b) && b.reaches(&[one], end_a) && a.settled == 1 && b.settled == 1
    })
    .await;

    b.apply(&desired(end_b, &[end_a], &[two])).await;
    assert!(a.is_up() && b.is_up(), "the same desired state changes nothing");
    b.apply(&desired(end_b, &[end_a], &[three])).await;
    until("a change of prefixes is a change of routes", &pause, &mut a, &mut b, |a, _| a.reaches(&[three], end_b))
        .await;
    assert!(a.is_up() && b.is_up(), "prefixes change without touching the session");

    b.apply(&desired(end_b, &[], &[three])).await;
    until("without the peer there is no route", &pause, &mut a, &mut b, |a, b| {
        a.routes.is_empty() && b.routes.is_empty() && b.side.backend.status().peers.is_empty() && !a.is_up()
    })
    .await;
    b.apply(&desired(end_b, &[end_a], &[three])).await;
    until("a peer that is back is welcome", &pause, &mut a, &mut b, |a, b| {
        a.reaches(&[three], end_b) && b.reaches(&[one], end_a)
    })
    .await;

    drop(b);
    alone("a dropped backend is noticed", &pause, &mut a, |a| !a.is_up()).await;
    assert!(a.reaches(&[three], end_b), "its routes stay, for it may be restarting");
    assert_eq!(a.settled, 1, "a backend settles once in a life");
}

impl<B: BgpBackend> Watched<B> {
    const fn new(side: Side<B>) -> Self {
        Self { side, routes: BTreeMap::new(), settled: 0 }
    }

    async fn apply(&mut self, desired: &DesiredBgp) {
        let applied = self.side.backend.apply(desired).await;
        assert!(applied.is_ok(), "apply failed: {applied:?}");
    }

    fn reaches(&self, blocks: &[Cidr], (via, _): (Ipv4Addr, u16)) -> bool {
        let expected: BTreeMap<Cidr, IpAddr> = blocks.iter().map(|block| (*block, IpAddr::V4(via))).collect();
        self.routes.iter().map(|(prefix, route)| (*prefix, route.next_hop)).collect::<BTreeMap<_, _>>() == expected
    }

    fn is_up(&self) -> bool {
        let peers = self.side.backend.status().peers;
        !peers.is_empty() && peers.iter().all(|peer| peer.state == SessionState::Established)
    }

    /// Takes every event that is there, without waiting for one: also a test of cancel safety.
    async fn drain(&mut self) {
        while let Some(event) = ready(self.side.backend.next_event()).await {
            match event {
                Ok(BgpEvent::RouteSet(route)) => drop(self.routes.insert(route.prefix, route)),
                Ok(BgpEvent::RouteRemoved(prefix)) => drop(self.routes.remove(&prefix)),
                Ok(BgpEvent::Settled) => self.settled += 1,
                Ok(BgpEvent::Session(_)) => {}
                Ok(BgpEvent::Restarted) => {
                    self.routes.clear();
                    self.settled = 0;
                }
                Err(error) => assert!(error.to_string().is_empty(), "the backend failed: {error}"),
            }
        }
    }
}

async fn until<B: BgpBackend, P: Future<Output = ()>>(
    what: &str,
    pause: &impl Fn() -> P,
    a: &mut Watched<B>,
    b: &mut Watched<B>,
    condition: impl Fn(&Watched<B>, &Watched<B>) -> bool,
) {
    for _ in 0..PATIENCE {
        a.drain().await;
        b.drain().await;
        if condition(a, b) {
            return;
        }
        pause().await;
    }
    assert!(condition(a, b), "{what}: a {:?} {:?}; b {:?} {:?}", a.routes, a.settled, b.routes, b.settled);
}

async fn alone<B: BgpBackend, P: Future<Output = ()>>(
    what: &str,
    pause: &impl Fn() -> P,
    a: &mut Watched<B>,
    condition: impl Fn(&Watched<B>) -> bool,
) {
    for _ in 0..PATIENCE {
        a.drain().await;
        if condition(a) {
            return;
        }
        pause().await;
    }
    assert!(condition(a), "{what}: {:?}", a.routes);
}

/// A future's output if it is there at once; the future is dropped otherwise.
async fn ready<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    core::future::poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

fn block(first: Ipv4Addr) -> Cidr {
    Cidr::new(first.into(), 26).unwrap_or_else(|| Cidr::host(first.into()))
}

fn desired((own, own_port): (Ipv4Addr, u16), peers: &[(Ipv4Addr, u16)], blocks: &[Cidr]) -> DesiredBgp {
    let as_number = AsNumber::DEFAULT;
    let peer = |(address, port): &(Ipv4Addr, u16)| DesiredPeer {
        port: *port,
        ..DesiredPeer::new(IpAddr::V4(*address), as_number, PeerKind::Mesh, address.to_string())
    };
    DesiredBgp {
        local: Some(LocalSpeaker {
            listen: Listen { port: own_port, own_addresses: true },
            ..LocalSpeaker::new(own.to_string(), as_number, own)
        }),
        peers: peers.iter().map(peer).collect(),
        originated: blocks.iter().copied().map(Originated::block).collect(),
        ..DesiredBgp::default()
    }
}
