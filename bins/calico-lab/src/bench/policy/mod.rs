//! P4 and P5: one small change on a host with much policy, from the graph's input to the kernel's acknowledgement: graph, renderer,
//! reconciler and Linux backend as the agent wires them.
//!
//! P4: one member joins one of 2 000 sets of 100 members, in a table of 2 000 policies with 10 rules each. P5: one endpoint comes to
//! a host with 3 policies in a cluster of 10 000 other endpoints, 250 of them on the same host, with a route and a neighbour of its own.
//!
//! Peer: `nft` with the same elements and the same table (for P5 it writes neither route nor neighbour); for P4 `ipset` as well. Limits: 3 µs
//! for an element of a plain set; for an element with a verdict 0.35 µs for each chain in the namespace. Targets: 60 µs and 150 µs.

pub(super) mod drift;
mod host;
mod legacy;
mod objects;
pub(super) mod packets;
pub(super) mod start;

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use calico_core::net::InterfaceName;
use calico_core::render::TABLE;
use calico_core::table::{Datum, Element, ElementData, ElementDelta, Table};
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use serde_json::Value;

use super::finding::{Benchmark, Finding};
use super::stats::{Spread, version_of};
use crate::error::{Context, LabError};
use crate::progress::Progress;
use host::Host;
use objects::{OTHERS, common_policy, group_of_members, local_endpoint, remote_endpoint};

pub(super) const P4: Benchmark = Benchmark {
    id: "P4",
    what: "one member joins a set: 2 000 sets × 100, 2 000 policies × 10 rules",
    peer: "nft, same table and element",
    target: "60 µs",
};

pub(super) const P5: Benchmark = Benchmark {
    id: "P5",
    what: "one endpoint added, with route and neighbour: 3 policies, 10 000 others",
    peer: "nft, same elements only",
    target: "150 µs",
};

/// Of the 10 000 other endpoints, those on the measured host: as many as a host usually has at most.
const LOCAL: u32 = 250;
/// Measured changes of ours, and of the peer, who is slower.
const OURS: u16 = 200;
const PEERS: u16 = 10;

/// P4.
pub(super) async fn member(progress: &Progress) -> Result<Finding, LabError> {
    let mut documents = vec![local_endpoint(0)];
    for group in 0..2000 {
        documents.extend(group_of_members(group));
    }
    let change = |number: u16| remote_endpoint(u32::from(number), u32::from(number) * 7 % 2000);
    let measured = measure(progress, "P4", documents, Vec::new(), change).await?;
    progress.step("P4: beside ipset");
    let size = legacy::Size { sets: 2000, members: 100, policies: 2000, endpoints: 1 };
    let further = vec![legacy::member(size, PEERS, measured.ours)?];
    let finding = measured.finding(&P4, 60.0, "3 to 36 µs: one plain element in a transaction of its own");
    Ok(Finding { further, ..finding })
}

/// P5.
pub(super) async fn endpoint(progress: &Progress) -> Result<Finding, LabError> {
    let mut documents: Vec<Value> = (0..3).map(common_policy).collect();
    documents.extend((0..LOCAL).map(|number| local_endpoint(OTHERS + number)));
    documents.extend((LOCAL..10_000).map(|number| remote_endpoint(number, number % 100)));
    let change = |number: u16| local_endpoint(u32::from(number));
    let links = (0..u32::from(OURS)).chain((0..LOCAL).map(|number| OTHERS + number)).collect();
    let measured = measure(progress, "P5", documents, links, change).await?;
    Ok(measured.finding(&P5, 150.0, "18 to 23 µs at 20 chains"))
}

struct Measured {
    ours: Spread,
    peer: Spread,
}

impl Measured {
    fn finding(self, benchmark: &Benchmark, target_us: f64, limit: &'static str) -> Finding {
        let Self { ours, peer } = self;
        let finding = benchmark.finding(benchmark.what.into(), "µs", ours);
        let met = Some(ours.median <= target_us);
        Finding { met, limit, ..finding.beside(peer, version_of("nft", "--version")) }
    }
}

/// Loads `documents` into a host of its own that has interfaces for the endpoints numbered `links`, then measures changes one by one.
async fn measure(
    progress: &Progress,
    id: &str,
    documents: Vec<Value>,
    links: Vec<u32>,
    change: impl Fn(u16) -> Value + Sync,
) -> Result<Measured, LabError> {
    let failed = || "cannot make a namespace for the benchmark".to_owned();
    progress.step(format!("{id}: loading"));
    let netns = Netns::anonymous().context(failed)?;
    add_links(&netns, &links)?;
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context(|| "cannot start".into())?.block_on(async {
            let mut host = Host::open()?;
            host.load(documents).await?;
            progress.step(format!("{id}: measuring"));
            let mut ours = Vec::new();
            let mut elements = Vec::new();
            for number in 0..OURS {
                let (took, delta) = host.change(&change(number)).await?;
                ours.push(took.as_secs_f64() * 1e6);
                elements = delta.elements;
            }
            let mut peer = Vec::new();
            for number in 0..PEERS {
                peer.push(nft(&script(&elements, number))?.as_secs_f64() * 1e6);
            }
            let none = || LabError::new("nothing was measured");
            let (ours, peer) = (Spread::of(ours).ok_or_else(none)?, Spread::of(peer).ok_or_else(none)?);
            Ok(Measured { ours, peer })
        })
    };
    // Blocking work on purpose: nothing else may run beside it.
    netns.run(work).context(failed)?
}

/// An uplink, and veths for the endpoints to come; their peers stay beside them.
fn add_links(netns: &Netns, numbers: &[u32]) -> Result<(), LabError> {
    let failed = || "cannot make interfaces for the benchmark".to_owned();
    let mut routes = RouteSocket::open_in(netns).context(failed)?;
    let lo: InterfaceName = "lo".parse().context(failed)?;
    let lo = routes.link(lo).context(failed)?.ok_or("no loopback").context(failed)?;
    routes.carry_out(&[Request::up(lo.index)]).context(failed)?;
    let mut add = |near: String, far: String| -> Result<u32, LabError> {
        let name = |text: String| text.parse::<InterfaceName>().context(failed);
        let (near, far) = (name(near)?, name(far)?);
        let end = |name| VethEnd { name, netns: None, mac: None };
        routes.carry_out(&[Request::veth(end(near), end(far), 0)]).context(failed)?;
        let link = routes.link(near).context(failed)?.ok_or("no link").context(failed)?;
        routes.carry_out(&[Request::up(link.index)]).context(failed)?;
        Ok(link.index)
    };
    let uplink = add("eth0".into(), "wire".into())?;
    for number in numbers {
        add(format!("cali{number}"), format!("far{number}"))?;
    }
    routes.carry_out(&[Request::address(uplink, HOST, 24)]).context(failed)?;
    Ok(())
}

/// As every host that agents run on has one, on an interface that was there first. Where none has an address, the kernel goes through all
/// interfaces for each route (0.07 µs each), to find one that it could name as the source.
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// What the peer reads to write the same number of elements of the same kind into the same sets.
fn script(elements: &[ElementDelta], number: u16) -> String {
    let mut text = String::new();
    for change in elements {
        for element in &change.added {
            let (family, set) = (family(change.set.table()), &change.set);
            text.push_str(&format!("add element {family} {TABLE} {set} {{ {} }}\n", element_text(element, number)));
        }
    }
    text
}

const fn family(table: Table) -> &'static str {
    match table {
        Table::Arp => "arp",
        _ => "inet",
    }
}

fn element_text(element: &Element, number: u16) -> String {
    let [high, low] = number.to_be_bytes();
    let key: Vec<String> = element
        .key
        .iter()
        .map(|datum| match datum {
            Datum::Interface(_) => format!("\"calipeer{number}\""),
            Datum::Addr(IpAddr::V4(_)) => Ipv4Addr::new(10, 250, high, low).to_string(),
            other => other.to_string(),
        })
        .collect();
    let data = match &element.data {
        None => String::new(),
        Some(ElementData::Verdict(verdict)) => format!(" : {verdict}"),
        Some(_) => " : drop".into(),
    };
    key.join(" . ") + &data
}

fn nft(script: &str) -> Result<Duration, LabError> {
    let failed = || "cannot run nft (Debian: nftables)".to_owned();
    let begun = Instant::now();
    let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().context(failed)?;
    if let Some(mut input) = child.stdin.take() {
        std::io::Write::write_all(&mut input, script.as_bytes()).context(failed)?;
    }
    let status = child.wait().context(failed)?;
    if status.success() { Ok(begun.elapsed()) } else { Err(LabError::new("nft refused what it read")) }
}

fn nft_in(netns: &Netns, script: &str) -> Result<Duration, LabError> {
    netns.run(|| nft(script)).context(|| "cannot enter a namespace".into())?
}

/// Runs a program in the calling thread's namespace.
fn run_here(program: &str, arguments: &str) -> Result<(), LabError> {
    let failed = || format!("cannot run {program} {arguments}");
    let output = Command::new(program).args(arguments.split(' ')).stdin(Stdio::null()).output().context(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(LabError::new(format!("{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

fn seconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64()
}
