//! The BGP speaker alone: no datastore, no policy, and kernel routes only when asked.
//!
//! ```text
//! cargo run --release --example bgp_speaker -- examples/data/speaker.yaml
//! ```
//!
//! Prints sessions and routes as they change: `+` a route that is new or another now, `-` one that is gone. With `--kernel` it programs
//! what it learns (needs `NET_ADMIN`) and takes it away again when it is told to stop. It may be killed at any time: peers that know
//! graceful restart keep its prefixes until it is back. Killed with `--kernel` it leaves its routes, and the next one takes them over as its
//! peers announce them.

use std::collections::BTreeSet;
use std::error::Error;

use calico_bgp::{BgpBackend, BgpEvent, LearnedRoute, NativeBackend, NativeConfig, SpeakerConfig};
use calico_cmd::manifest;
use calico_core::bgp::DesiredBgp;
use calico_core::net::Cidr;
use calico_core::table::{Delta, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
use calico_dataplane::{Dataplane, LinuxConfig, LinuxDataplane};
use calico_datastore::{IdSource, SystemIds};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: bgp_speaker [--kernel] SPEAKER.yaml";
/// The agent's metric of learned routes.
const METRIC: u32 = 4096;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (kernel, file) = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--kernel", file] => (true, *file),
        [file] if !file.starts_with('-') => (false, *file),
        _ => return Err(USAGE.into()),
    };
    let desired = read(file)?;
    let mut kernel = if kernel { Some(Kernel::open()?) } else { None };
    // Every speaker has jitter of its own.
    let seed = u64::try_from(SystemIds::open()?.draw() >> 64).unwrap_or_default();
    let speaker = SpeakerConfig { seed, ..SpeakerConfig::default() };
    let mut backend = NativeBackend::start(NativeConfig { listen: None, speaker })?;
    backend.apply(&desired).await?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    loop {
        tokio::select! {
            event = backend.next_event() => tell(event?, kernel.as_mut()).await,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    if let Some(kernel) = &mut kernel {
        kernel.clear().await;
    }
    Ok(())
}

fn read(file: &str) -> Result<DesiredBgp, Box<dyn Error>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let documents = manifest::read(file, &text)?;
    let [document] = documents.as_slice() else {
        return Err(format!("{file}: one document describes a speaker").into());
    };
    Ok(DesiredBgp::from_document(&document.value).map_err(|error| format!("{file}: {error}"))?)
}

async fn tell(event: BgpEvent, kernel: Option<&mut Kernel>) {
    match &event {
        BgpEvent::RouteSet(route) => {
            let hops: Vec<String> = route.next_hops.iter().map(ToString::to_string).collect();
            println!("+ {} via {} from {}", route.prefix, hops.join(","), route.peer);
        }
        BgpEvent::RouteRemoved(prefix) => println!("- {prefix}"),
        BgpEvent::Session(status) => {
            let reason = status.last_error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
            println!("peer {} {:?}{reason}", status.peer.id, status.state);
        }
        BgpEvent::Settled => println!("settled"),
        _ => {}
    }
    if let Some(kernel) = kernel {
        kernel.follow(&event).await;
    }
}

/// The kernel's routes of ours.
struct Kernel {
    dataplane: LinuxDataplane,
    held: BTreeSet<Cidr>,
}

impl Kernel {
    fn open() -> Result<Self, Box<dyn Error>> {
        Ok(Self { dataplane: LinuxDataplane::open(LinuxConfig::default())?, held: BTreeSet::new() })
    }

    async fn follow(&mut self, event: &BgpEvent) {
        let mut delta = Delta::default();
        match event {
            BgpEvent::RouteSet(route) => {
                self.held.insert(route.prefix);
                delta.routes_set.extend(programmed(route));
            }
            BgpEvent::RouteRemoved(prefix) if self.held.remove(prefix) => delta.routes_removed.push(key(*prefix)),
            _ => return,
        }
        self.carry_out(&delta).await;
    }

    async fn clear(&mut self) {
        let routes_removed = std::mem::take(&mut self.held).into_iter().map(key).collect();
        self.carry_out(&Delta { routes_removed, ..Delta::default() }).await;
    }

    async fn carry_out(&mut self, delta: &Delta) {
        for failure in self.dataplane.apply(delta).await.routes {
            eprintln!("kernel: {}: {}", failure.key.dest, failure.error);
        }
    }
}

fn programmed(route: &LearnedRoute) -> Option<Route> {
    let target = RouteTarget::via(route.next_hops.iter().copied())?;
    Some(Route { key: key(route.prefix), target, class: RouteClass::Bgp })
}

const fn key(dest: Cidr) -> RouteKey {
    RouteKey { table: RouteTableId::MAIN, dest, metric: METRIC }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample shows every field, and is a speaker.
    #[test]
    fn the_sample_is_a_speaker() {
        let desired = read(concat!(env!("CARGO_MANIFEST_DIR"), "/data/speaker.yaml")).unwrap();
        assert_eq!((desired.peers.len(), desired.dynamic.len(), desired.originated.len()), (2, 1, 2));
    }
}
