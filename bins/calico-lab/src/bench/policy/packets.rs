//! P7: what policy costs a packet: a new connection for each, 100 policies of ten rules on the endpoint, and only the last rule of the last
//! allows. From one container to another through the host.
//!
//! Peer: the same rules as a plain list in one chain of the forward hook, behind the same look at connection tracking. Limit: connection
//! tracking and two look-ups, 0.43 µs. Target: half of the list at most. What forwarding costs without any table is taken off both.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};

use super::host::{self, Host};
use super::objects::{egress_is_free, last_allows, local_endpoint};
use super::start::within;
use super::{nft_in, run_here, seconds};
use crate::bench::finding::{Benchmark, Finding, Further};
use crate::bench::stats::{Machine, Spread, version_of};
use crate::error::{Context, LabError};
use crate::progress::Progress;

pub(in crate::bench) const P7: Benchmark = Benchmark {
    id: "P7",
    what: "policy's cost for a packet of a new connection: 100 policies × 10 rules, the last allows",
    peer: "linear nft ruleset",
    target: "½ of linear",
};

const POLICIES: u32 = 100;
const RULES: u32 = 10;
const PACKETS: u32 = 20_000;
const REPETITIONS: usize = 9;
const PODS: [u32; 2] = [1, 2];

/// Two containers and the host between them.
struct Scene {
    host: Netns,
    client: Netns,
    server: Netns,
}

pub(in crate::bench) async fn run(progress: &Progress) -> Result<Finding, LabError> {
    progress.step("P7: building three hosts");
    let (bare, ours, linear) = (scene()?, scene()?, scene()?);
    // Connections are tracked in each.
    nft_in(
        &bare.host,
        "table inet bare { chain forward { type filter hook forward priority 0; ct state established,related accept; }; }\n",
    )?;
    nft_in(&linear.host, &list())?;
    let others = PODS.into_iter().map(local_endpoint).chain([egress_is_free()]);
    let documents = others.chain((0..POLICIES).map(|number| last_allows(number, POLICIES, RULES)));
    let updates = documents.map(|document| host::update(&document)).collect::<Result<Vec<_>, _>>()?;
    within(&ours.host, async || {
        let mut host = Host::open()?;
        host.take_in(&updates);
        host.carry_out().await.map(drop)
    })?;
    for scene in [&bare, &ours, &linear] {
        arrives(scene)?;
    }
    let (mut base, mut policed, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 1..=REPETITIONS {
        progress.step(format!("P7: repetition {repetition} of {REPETITIONS}"));
        // In turn, so that a busy machine is so for all.
        base.push(send(&bare)?);
        policed.push(send(&ours)?);
        listed.push(send(&linear)?);
    }
    let none = || LabError::new("nothing was measured");
    let base = Spread::of(base).ok_or_else(none)?;
    let cost =
        |samples: Vec<f64>| Spread::of(samples.into_iter().map(|one| one - base.median).collect()).ok_or_else(none);
    let (ours, peer) = (cost(policed)?, cost(listed)?);
    Ok(Finding {
        id: P7.id,
        what: P7.what.into(),
        unit: "ns",
        ours,
        peer: Some(peer),
        peer_name: version_of("nft", "--version"),
        peer_source: "measured",
        ratio: Some(peer.median / ours.median),
        target: P7.target,
        met: Some(ours.median * 2.0 <= peer.median),
        limit: "430 ns: connection tracking and two look-ups",
        limit_measured: None,
        of_limit: None,
        machine: Machine::look(),
        further: vec![Further { what: "a packet without policy", unit: "ns", ours: base, peer: None, target: "-" }],
    })
}

fn scene() -> Result<Scene, LabError> {
    let failed = || "cannot make a namespace for the benchmark".to_owned();
    let host = Netns::anonymous().context(failed)?;
    let mut pods = Vec::new();
    let mut socket = RouteSocket::open_in(&host).context(failed)?;
    for number in PODS {
        let pod = Netns::anonymous().context(failed)?;
        let end = |name: String, netns, mac| Ok(VethEnd { name: name.parse().context(failed)?, netns, mac });
        // The one that its endpoint says.
        let mac = format!("02:00:00:00:00:{number:02x}").parse().context(failed)?;
        let ends = (end(format!("cali{number}"), None, None)?, end("eth0".into(), Some(pod.as_fd()), Some(mac))?);
        socket.carry_out(&[Request::veth(ends.0, ends.1, 0)]).context(failed)?;
        host.run(|| -> Result<(), LabError> {
            run_here("ip", &format!("link set cali{number} up"))?;
            run_here("ip", &format!("address add 169.254.1.1/32 dev cali{number}"))?;
            run_here("ip", &format!("route add {} dev cali{number}", address(number)))
        })
        .context(failed)??;
        pod.run(|| -> Result<(), LabError> {
            run_here("ip", "link set lo up")?;
            run_here("ip", "link set eth0 up")?;
            run_here("ip", &format!("address add {}/32 dev eth0", address(number)))?;
            run_here("ip", "route add 169.254.1.1 dev eth0")?;
            run_here("ip", "route add default via 169.254.1.1")
        })
        .context(failed)??;
        pods.push(pod);
    }
    let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    host.run(forward).context(failed)?.context(failed)?;
    let (server, client) = (pods.pop(), pods.pop());
    match (client, server) {
        (Some(client), Some(server)) => Ok(Scene { host, client, server }),
        _ => Err(LabError::new("no containers")),
    }
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 0, 0)) + number)
}

/// What is dropped costs less than what is measured here.
fn arrives(scene: &Scene) -> Result<(), LabError> {
    let failed = || "no packet arrives".to_owned();
    let [_, server] = PODS.map(address);
    let receiver = scene.server.run(|| UdpSocket::bind((server, 9))).context(failed)?.context(failed)?;
    receiver.set_read_timeout(Some(Duration::from_secs(5))).context(failed)?;
    let send = || UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| socket.send_to(b"x", (server, 9)));
    scene.client.run(send).context(failed)?.context(failed)?;
    receiver.recv(&mut [0; 1]).context(failed).map(drop)
}

/// Nanoseconds for a packet, each of a connection of its own: the kernel forwards it within the sender's call.
fn send(scene: &Scene) -> Result<f64, LabError> {
    let failed = || "cannot send".to_owned();
    // Those of the last repetition must not be there any more.
    scene.host.run(|| run_here("conntrack", "-F")).context(failed)??;
    let work = || -> std::io::Result<f64> {
        let [_, server] = PODS.map(address);
        let sockets: Vec<UdpSocket> =
            (0..4).map(|_| UdpSocket::bind(("0.0.0.0", 0))).collect::<std::io::Result<_>>()?;
        // The first ones find neighbours and fill caches.
        for port in 1..200 {
            let _ = sockets.first().map(|socket| socket.send_to(b"x", (server, port)));
        }
        let begun = Instant::now();
        for (socket, start) in sockets.iter().zip([10_000_u16, 20_000, 30_000, 40_000]) {
            for port in 0..PACKETS / 4 {
                // A port that nobody listens on is told by an ICMP message, which is no failure of this packet.
                let _ = socket.send_to(b"x", (server, start + u16::try_from(port).unwrap_or_default()));
            }
        }
        Ok(seconds(begun) * 1e9 / f64::from(PACKETS))
    };
    scene.client.run(work).context(failed)?.context(failed)
}

/// The rules of the policies, one after the other.
fn list() -> String {
    let mut text = String::from(
        "table inet linear { chain forward { type filter hook forward priority 0; policy drop; ct state established,related accept;\n",
    );
    for policy in 0..POLICIES {
        for rule in 0..RULES {
            let is_last = policy + 1 == POLICIES && rule + 1 == RULES;
            let condition = if is_last { String::new() } else { condition(policy, rule) };
            text.push_str(&format!("meta l4proto udp {condition} accept\n"));
        }
    }
    text + "}; }\n"
}

fn condition(policy: u32, rule: u32) -> String {
    format!("ip saddr 172.16.{policy}.0/24 udp dport {}", 1000 + rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_as_long_as_the_policies() {
        assert_eq!(list().lines().filter(|line| line.starts_with("meta")).count(), 1000);
    }
}
