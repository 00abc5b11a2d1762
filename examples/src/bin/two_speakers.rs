//! Two BGP speakers in one process, without a socket and without a clock.
//!
//! The speaker is a machine: bytes, connections and time go in by `handle_*`, and what it wants comes out by `poll_*`. This
//! program is the smallest world that carries that out: one connection, both directions, and a clock that jumps to the next
//! deadline. It then kills one speaker, and shows that the other keeps its route (RFC 4724).
//!
//! Run: `cargo run -p calico-examples --bin two_speakers`

use std::net::{IpAddr, Ipv4Addr};

use calico_bgp::{Action, BgpEvent, ConnectionId, Speaker, SpeakerConfig, Timestamp};
use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Originated, PeerKind};
use calico_core::net::AsNumber;

const A: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut now = Timestamp::ZERO;
    let (mut a, mut b) = (speaker("a", A, B, "10.1.0.0/26", now)?, speaker("b", B, A, "10.2.0.0/26", now)?);
    let mut ends: Option<(ConnectionId, ConnectionId)> = None;
    let mut settled = 0;
    while settled < 2 {
        while let Some(Action::Connect { connection, .. }) = a.poll_action() {
            ends = b.handle_accepted(now, IpAddr::V4(A).into()).map(|accepted| (connection, accepted));
            a.handle_connected(now, connection);
        }
        // In this world, only a's calls get through. The speakers do not mind who calls whom.
        while let Some(Action::Connect { connection, .. }) = b.poll_action() {
            b.handle_closed(now, connection);
        }
        let progress = match ends {
            Some((at_a, at_b)) => {
                deliver(now, (&mut a, at_a), (&mut b, at_b)) | deliver(now, (&mut b, at_b), (&mut a, at_a))
            }
            None => false,
        };
        for (name, speaker) in [("a", &mut a), ("b", &mut b)] {
            settled += print_events(now, name, speaker);
        }
        if !progress {
            now = a.poll_timeout().min(b.poll_timeout()).ok_or("nothing left to wait for")?;
            a.handle_timeout(now);
            b.handle_timeout(now);
        }
    }
    println!("-- b is killed; its connection closes without a word");
    drop(b);
    let (at_a, _) = ends.ok_or("the speakers never connected")?;
    a.handle_closed(now, at_a);
    print_events(now, "a", &mut a);
    println!("-- a still routes to b's block: no route was removed");
    Ok(())
}

/// A speaker that peers with `peer` and originates `block`.
fn speaker(
    node: &str,
    own: Ipv4Addr,
    peer: Ipv4Addr,
    block: &str,
    now: Timestamp,
) -> Result<Speaker, Box<dyn std::error::Error>> {
    let as_number = AsNumber::DEFAULT;
    let local = LocalSpeaker::new(node, as_number, own);
    let peer = DesiredPeer::new(peer.into(), as_number, PeerKind::Mesh, peer.to_string());
    let mut speaker = Speaker::new(SpeakerConfig { seed: u64::from(u32::from(own)), ..SpeakerConfig::default() });
    speaker.set_desired(
        now,
        &DesiredBgp {
            local: Some(local),
            peers: vec![peer],
            originated: vec![Originated::block(block.parse()?)],
            ..DesiredBgp::default()
        },
    );
    Ok(speaker)
}

/// Moves bytes from one end to the other. Says whether there were any.
fn deliver(now: Timestamp, from: (&mut Speaker, ConnectionId), to: (&mut Speaker, ConnectionId)) -> bool {
    let mut bytes = Vec::new();
    from.0.poll_transmit(from.1, &mut bytes);
    to.0.handle_bytes(now, to.1, &bytes);
    !bytes.is_empty()
}

/// Prints what a speaker has to tell. Returns how often it said that it is settled.
fn print_events(now: Timestamp, name: &str, speaker: &mut Speaker) -> usize {
    let at = now.since_origin().as_secs_f64();
    let mut settled = 0;
    while let Some(event) = speaker.poll_event() {
        match event {
            BgpEvent::RouteSet(route) => println!("{at:6.3} s  {name}: {} via {}", route.prefix, route.next_hop),
            BgpEvent::RouteRemoved(prefix) => println!("{at:6.3} s  {name}: {prefix} is gone"),
            BgpEvent::Session(status) => println!("{at:6.3} s  {name}: {:?} with {}", status.state, status.peer.name),
            BgpEvent::Settled => {
                settled += 1;
                println!("{at:6.3} s  {name}: all routes are known");
            }
            other => println!("{at:6.3} s  {name}: {other:?}"),
        }
    }
    settled
}
