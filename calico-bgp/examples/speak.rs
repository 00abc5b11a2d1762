//! A speaker by itself: one peer, some prefixes, and what it learns on standard output.
//!
//! ```text
//! cargo run -p calico-bgp --features tokio --example speak -- OWN PEER PORT AS PREFIX...
//! ```
//!
//! Both ends use the same port and AS number. It runs until it is killed, and may be killed at any time: the peer keeps the
//! prefixes until it is back.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

use calico_bgp::{BgpBackend, BgpEvent, NativeBackend, NativeConfig};
use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Originated, PeerKind};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        |what: &str| arguments.next().ok_or_else(|| format!("{what} is missing: give OWN PEER PORT AS PREFIX..."));
    let own: Ipv4Addr = next("OWN")?.parse()?;
    let peer: Ipv4Addr = next("PEER")?.parse()?;
    let port: u16 = next("PORT")?.parse()?;
    let as_number = next("AS")?.parse()?;
    let originated = arguments.map(|prefix| prefix.parse().map(Originated::block)).collect::<Result<_, _>>()?;

    let desired = DesiredBgp {
        local: Some(LocalSpeaker::new(own.to_string(), as_number, own)),
        peers: vec![DesiredPeer {
            port,
            ..DesiredPeer::new(peer.into(), as_number, PeerKind::Global, peer.to_string())
        }],
        originated,
        ..DesiredBgp::default()
    };
    let config = NativeConfig { listen: Some(SocketAddr::from((own, port))), ..NativeConfig::default() };
    let mut backend = NativeBackend::start(config)?;
    backend.apply(&desired).await?;
    loop {
        match backend.next_event().await? {
            BgpEvent::RouteSet(route) => println!("{} via {}", route.prefix, route.next_hop),
            BgpEvent::RouteRemoved(prefix) => println!("{prefix} is gone"),
            BgpEvent::Session(status) => println!("session with {}: {:?}", status.peer.id, status.state),
            BgpEvent::Settled => println!("all routes are known"),
            _ => {}
        }
    }
}
