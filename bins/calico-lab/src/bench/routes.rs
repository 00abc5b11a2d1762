//! P8: 100 000 routes by one gateway, added, changed by one in a hundred, and removed.
//!
//! Peer: `ip -batch` (iproute2) with the same routes in the same kind of namespace. Limit: a bare netlink loop with 256 messages a
//! send, measured in the same run. Targets: five times the peer's rate and 70 % of the limit's; 25 ms for finding all in place.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use calico_core::net::{Cidr, Mac};
use calico_core::table::{Delta, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::{Dataplane, LinuxConfig, LinuxDataplane};

use super::bare;
use super::finding::{Benchmark, Finding, Further};
use super::stats::{Machine, Spread, version_of};
use crate::error::{Context, LabError};
use crate::progress::Progress;

pub(super) const P8: Benchmark = Benchmark {
    id: "P8",
    what: "100 000 routes: added, 1 % changed, removed",
    peer: "ip -batch, same routes",
    target: "5 times the peer's rate, 70 % of the limit's",
};

const ROUTES: u32 = 100_000;
const REPETITIONS: usize = 5;
const GATEWAYS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)];

pub(super) async fn run(progress: &Progress) -> Result<Finding, LabError> {
    let directory = tempfile::tempdir().context(|| "cannot make a directory".into())?;
    let batch = directory.path().join("batch");
    fs::write(&batch, batch_text()).context(|| "cannot write the batch".into())?;
    let mut samples = Samples::default();
    for repetition in 1..=REPETITIONS {
        progress.step(format!("P8: repetition {repetition} of {REPETITIONS}"));
        // Blocking work on purpose: nothing else may run beside it.
        ours(&mut samples)?;
        samples.peer_add.push(peer(&batch)?);
        samples.bare_add.push(f64::from(ROUTES) / bare::add(&scene()?, ROUTES, destination, GATEWAYS[0])?);
        tokio::task::yield_now().await;
    }
    samples.finding()
}

#[derive(Default)]
struct Samples {
    add: Vec<f64>,
    again: Vec<f64>,
    churn: Vec<f64>,
    remove: Vec<f64>,
    peer_add: Vec<f64>,
    bare_add: Vec<f64>,
}

impl Samples {
    fn finding(self) -> Result<Finding, LabError> {
        let none = || LabError::new("nothing was measured");
        let spread = |samples| Spread::of(samples).ok_or_else(none);
        let (ours, peer, bare) = (spread(self.add)?, spread(self.peer_add)?, spread(self.bare_add)?);
        let (ratio, of_limit) = (ours.median / peer.median, ours.median / bare.median);
        let further = |what, ours, target| Further { what, unit: "ms", ours, peer: None, target };
        Ok(Finding {
            id: P8.id,
            what: "adding 100 000 routes".into(),
            unit: "routes/s",
            ours,
            peer: Some(peer),
            peer_name: version_of("ip", "-V"),
            peer_source: "measured",
            ratio: Some(ratio),
            target: P8.target,
            met: Some(ratio >= 5.0 && of_limit >= 0.7),
            limit: "a bare netlink loop, 256 messages a send",
            limit_measured: Some(bare),
            of_limit: Some(of_limit),
            machine: Machine::look(),
            further: vec![
                further("looking at 100 000 routes and finding all well", spread(self.again)?, "25 ms"),
                further("changing 1 000 of them", spread(self.churn)?, "-"),
                further("removing them", spread(self.remove)?, "-"),
            ],
        })
    }
}

fn ours(samples: &mut Samples) -> Result<(), LabError> {
    let netns = scene()?;
    let measure = || -> Result<[f64; 4], LabError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context(|| "cannot start".into())?.block_on(measure())
    };
    let [add, again, churn, remove] = netns.run(measure).context(|| "cannot enter a namespace".into())??;
    samples.add.push(f64::from(ROUTES) / add);
    samples.again.push(again * 1000.0);
    samples.churn.push(churn * 1000.0);
    samples.remove.push(remove * 1000.0);
    Ok(())
}

/// Seconds for adding, looking, changing, removing.
async fn measure() -> Result<[f64; 4], LabError> {
    let mut dataplane = LinuxDataplane::open(LinuxConfig::default()).context(|| "cannot open the dataplane".into())?;
    let all: Vec<Route> = (0..ROUTES).map(|number| route(number, GATEWAYS[0])).collect();
    let add = carry_out(&mut dataplane, Delta { routes_set: all.clone(), ..Delta::default() }).await?;
    let begun = Instant::now();
    let observed = dataplane.observe().await.context(|| "cannot look at the routes".into())?;
    // Both are sorted by key.
    let unchanged = all.iter().zip(observed.routes.values()).filter(|(wanted, found)| wanted == found).count();
    let again = begun.elapsed().as_secs_f64();
    if unchanged != all.len() {
        return Err(LabError::new(format!("only {unchanged} of {} routes are as written", all.len())));
    }
    let moved = (0..ROUTES).step_by(100).map(|number| route(number, GATEWAYS[1])).collect();
    let churn = carry_out(&mut dataplane, Delta { routes_set: moved, ..Delta::default() }).await?;
    let keys = all.iter().map(|route| route.key).collect();
    let remove = carry_out(&mut dataplane, Delta { routes_removed: keys, ..Delta::default() }).await?;
    Ok([add, again, churn, remove])
}

async fn carry_out(dataplane: &mut LinuxDataplane, delta: Delta) -> Result<f64, LabError> {
    let begun = Instant::now();
    let report = dataplane.apply(&delta).await;
    let took = begun.elapsed().as_secs_f64();
    match report.routes.into_iter().next() {
        None => Ok(took),
        Some(failure) => Err(failure.error).context(|| format!("cannot write the route to {}", failure.key.dest)),
    }
}

fn peer(batch: &Path) -> Result<f64, LabError> {
    let netns = scene()?;
    let mut command = Command::new("ip");
    command.arg("-batch").arg(batch).stdin(Stdio::null()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = netns.run(|| command.status()).context(|| "cannot enter a namespace".into())?;
    let took = begun.elapsed().as_secs_f64();
    if !status.context(|| "cannot run ip (Debian: iproute2)".into())?.success() {
        return Err(LabError::new("ip -batch failed"));
    }
    Ok(f64::from(ROUTES) / took)
}

/// A namespace with one link, on whose subnet the gateways are.
fn scene() -> Result<Netns, LabError> {
    let failed = || "cannot make a namespace for the benchmark".to_owned();
    let netns = Netns::anonymous().context(failed)?;
    let mut routes = RouteSocket::open_in(&netns).context(failed)?;
    let name = |text: &str| text.parse().context(failed);
    let end = |name| VethEnd { name, netns: None, mac: None };
    routes.carry_out(&[Request::veth(end(name("eth0")?), end(name("far")?), 0)]).context(failed)?;
    let mut links = Vec::new();
    for text in ["lo", "eth0", "far"] {
        links.push(routes.link(name(text)?).context(failed)?.ok_or("no link").context(failed)?.index);
    }
    let mut requests: Vec<Request> = links.iter().map(|index| Request::up(*index)).collect();
    let eth0 = links.get(1).copied().unwrap_or_default();
    requests.push(Request::address(eth0, Ipv4Addr::new(10, 0, 0, 1).into(), 24));
    requests.extend(GATEWAYS.map(|gateway| Request::neighbor(eth0, gateway.into(), Mac::ALL_EE)));
    routes.carry_out(&requests).context(failed)?;
    Ok(netns)
}

fn destination(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(11, 0, 0, 0)) + number)
}

fn route(number: u32, gateway: Ipv4Addr) -> Route {
    let dest = Cidr::host(destination(number).into());
    let key = RouteKey { table: RouteTableId::MAIN, dest, metric: 0 };
    Route { key, target: RouteTarget::Via(gateway.into()), class: RouteClass::Bgp }
}

fn batch_text() -> String {
    let line = |number| format!("route add {}/32 via {} proto 80\n", destination(number), GATEWAYS[0]);
    (0..ROUTES).map(line).collect()
}
