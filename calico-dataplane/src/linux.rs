//! The Linux backend: nf_tables, route netlink, traffic control, conntrack and `/proc/sys`, in one network namespace.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use calico_core::connection::RouteQuery;
use calico_core::net::InterfaceName;
use calico_core::table::{Delta, Shaper};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::conntrack::Connections;
use crate::conntrack::beside::Beside;
use crate::netlink::Routing;
use crate::netlink::carried::Carried;
use crate::netlink::monitor::{Monitor, News};
use crate::netns::{Netns, NetnsError};
use crate::nftables::{self, Ruleset};
use crate::quiet;
use crate::suspicion;
use crate::sysctl::Settings;
use crate::workload;
use crate::{ApplyReport, Dataplane, DataplaneError, HostChange, Listing, Observed, Pick, Removal, TrackedName, Ways};

/// How a [`LinuxDataplane`] tells what is its own.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LinuxConfig {
    /// What the names of workload interfaces start with. Default: `cali`.
    pub workload_prefixes: Vec<InterfaceName>,
}

impl Default for LinuxConfig {
    fn default() -> Self {
        Self { workload_prefixes: vec![InterfaceName::CALI] }
    }
}

impl LinuxConfig {
    /// With other prefixes of workload interfaces.
    #[must_use]
    pub fn with_workload_prefixes(mut self, prefixes: impl IntoIterator<Item = InterfaceName>) -> Self {
        self.workload_prefixes = prefixes.into_iter().collect();
        self
    }

    pub(crate) fn is_workload(&self, interface: InterfaceName) -> bool {
        self.workload_prefixes.iter().any(|prefix| interface.as_str().starts_with(prefix.as_str()))
    }
}

/// A Linux host, or one network namespace of it.
///
/// Requests are system calls that the kernel completes before they return (a few microseconds for an element, a second for a table
/// of ten thousands of rules); they are made on the calling task's thread, but that [`observe`](Dataplane::observe) reads the tables on one for
/// blocking work where there is a runtime: large sets take the kernel many seconds. [`next_change`](Dataplane::next_change) waits, and
/// needs a tokio runtime with I/O enabled; [`remove_workload`](Dataplane::remove_workload), [`connections`](Dataplane::connections),
/// [`ways`](Dataplane::ways) and [`end_connections`](Dataplane::end_connections) need a runtime, whose threads for blocking work they use.
///
/// Nothing is executed and nothing is flushed, neither on open nor on drop.
///
/// ```no_run
/// use calico_dataplane::{Dataplane, LinuxConfig, LinuxDataplane};
///
/// # async fn example() -> Result<(), calico_dataplane::DataplaneError> {
/// let mut host = LinuxDataplane::open(LinuxConfig::default())?;
/// println!("{} routes are ours", host.observe().await?.routes.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LinuxDataplane {
    config: LinuxConfig,
    ruleset: Arc<Mutex<Ruleset>>,
    /// The look at the tables that was begun last, until it is over.
    reading: Option<Reading>,
    routing: Routing,
    settings: Settings,
    connections: Connections,
    beside: Beside,
    monitor: Monitor,
    netns: Arc<Netns>,
}

impl LinuxDataplane {
    /// Opens the network namespace of the calling thread; whichever thread uses the backend later, it stays there. Changes by
    /// others are collected from now on. Needs `CAP_NET_ADMIN`.
    pub fn open(config: LinuxConfig) -> Result<Self, DataplaneError> {
        let settings = Settings::open()?;
        let ruleset = Ruleset::open()?;
        let routing = Routing::open()?;
        let connections = Connections::open()?;
        let beside = Beside::open()?;
        let monitor = Monitor::open(config.clone(), ruleset.port(), routing.port());
        let monitor = monitor.map_err(|source| DataplaneError::Kernel {
            operation: "subscribe to",
            object: "netlink notifications".into(),
            source,
        })?;
        let netns = Netns::current().map_err(|error| DataplaneError::Kernel {
            operation: "open",
            object: "the network namespace".into(),
            source: io::Error::other(error),
        })?;
        Ok(Self {
            config,
            ruleset: Arc::new(Mutex::new(ruleset)),
            reading: None,
            routing,
            settings,
            connections,
            beside,
            monitor,
            netns: Arc::new(netns),
        })
    }

    /// Reads the tables beside the caller's task. Who gives up waiting and comes again finds the same look going on.
    async fn listing(&mut self) -> Result<nftables::Listing, DataplaneError> {
        let ruleset = Arc::clone(&self.ruleset);
        if self.reading.is_none() && Handle::try_current().is_err() {
            return locked(&ruleset).list();
        }
        let reading = self.reading.get_or_insert_with(|| {
            let carried = Carried::take();
            tokio::task::spawn_blocking(move || {
                carried.put();
                let listing = locked(&ruleset).list();
                (listing, Carried::take())
            })
        });
        let outcome = reading.await;
        self.reading = None;
        match outcome {
            Ok((listing, carried)) => {
                carried.put();
                listing
            }
            Err(ended) => {
                let (operation, object) = ("read", "the tables".into());
                Err(DataplaneError::Kernel { operation, object, source: io::Error::other(ended) })
            }
        }
    }
}

#[async_trait]
impl Dataplane for LinuxDataplane {
    async fn observe(&mut self) -> Result<Observed, DataplaneError> {
        let listing = self.listing().await?;
        let links = self.routing.links()?;
        let routes = self.routing.routes(&links)?;
        let neighbors = self.routing.neighbors(&links, |interface| self.config.is_workload(interface))?;
        let is_the_hosts = |interface| !self.config.is_workload(interface) && !Shaper::is_device(interface);
        let addresses = self.routing.addresses(&links, is_the_hosts)?;
        let shapings = self.routing.shapings(&links, &self.config)?;
        let by_name = links.by_name();
        self.monitor.know(links);
        Ok(Observed {
            table_present: listing.present,
            chains: listing.chains,
            sets: listing.sets,
            routes,
            neighbors: neighbors.into_iter().collect(),
            shapings,
            links: by_name,
            addresses,
        })
    }

    async fn apply(&mut self, delta: &Delta) -> ApplyReport {
        // What is being read is not what will be there.
        self.reading = None;
        let written = quiet::apply(&mut locked(&self.ruleset), &mut self.monitor, delta);
        let mut report = ApplyReport { ruleset: written.err(), ..ApplyReport::default() };
        for setting in &delta.settings {
            report.settings.extend(self.settings.write(setting).err().map(|error| (setting.clone(), error)));
        }
        // Before routes lead anything there.
        self.routing.shape(delta, &self.config, &mut report);
        self.monitor.learn(self.routing.take_own_links());
        self.routing.apply(delta, &mut report);
        // Last: until the former owner is out, a packet of its makes the entry anew.
        report.connections = self.connections.cut(&delta.connections_cut).err();
        report
    }

    async fn next_change(&mut self) -> Result<HostChange, DataplaneError> {
        loop {
            let news = self.monitor.next().await.map_err(|source| DataplaneError::Kernel {
                operation: "read",
                object: "netlink notifications".into(),
                source,
            })?;
            match news {
                News::Change(change) => return Ok(change),
                News::Touched => {
                    if let Some(change) = suspicion::look(&mut locked(&self.ruleset), &mut self.monitor) {
                        return Ok(change);
                    }
                }
            }
        }
    }

    fn remove_workload(&mut self, interface: InterfaceName) -> Removal {
        let netns = Arc::clone(&self.netns);
        let work = tokio::task::spawn_blocking(move || retire(&netns, interface));
        Box::pin(async move { work.await.unwrap_or_else(|ended| Err(not_removed(interface, ended))) })
    }

    fn connections(&mut self, pick: Pick) -> Listing {
        self.beside.list(pick)
    }

    fn end_connections(&mut self, names: Vec<TrackedName>) -> Removal {
        self.beside.end(names)
    }

    fn ways(&mut self, asked: BTreeSet<RouteQuery>) -> Ways {
        self.beside.routes(asked)
    }

    fn forwards_ipv6(&self) -> Option<bool> {
        self.settings.forwards_ipv6()
    }
}

type Reading = JoinHandle<(Result<nftables::Listing, DataplaneError>, Carried)>;

/// A panic in the middle of a look leaves nothing that the next does not read anew.
fn locked(ruleset: &Mutex<Ruleset>) -> MutexGuard<'_, Ruleset> {
    ruleset.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters the namespace only where the thread is in another one: that takes a privilege which an agent in its own does not need.
fn retire(netns: &Netns, interface: InterfaceName) -> Result<(), DataplaneError> {
    let here = Netns::current().and_then(|current| current.is_same(netns));
    let failed = |error: NetnsError| not_removed(interface, error);
    let retired = match here.map_err(failed)? {
        true => workload::retire(interface),
        false => netns.run(|| workload::retire(interface)).map_err(failed)?,
    };
    retired.map_err(|error| not_removed(interface, error))
}

fn not_removed(interface: InterfaceName, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DataplaneError {
    let object = format!("interface {interface}");
    DataplaneError::Kernel { operation: "remove", object, source: io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use calico_core::table::ElementDelta;

    use super::*;
    use crate::testing::netns::scratch;
    use crate::testing::sample::{self, addr, member, set_name};

    /// Whoever gives up a look and writes is not told what was there before.
    #[test]
    fn a_look_that_was_given_up_is_not_taken_for_a_later_one() {
        let work = async {
            let mut host = LinuxDataplane::open(LinuxConfig::default()).unwrap();
            assert!(host.apply(&sample::delta()).await.is_complete());
            for number in 0..20 {
                let mut look = host.observe();
                let _ = look.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                drop(look);
                let added = vec![member([addr(&format!("10.8.8.{number}"))])];
                let elements =
                    vec![ElementDelta { set: set_name("hosts4"), removed: Vec::new(), added: added.clone() }];
                let over = async {
                    while host.reading.as_ref().is_some_and(|look| !look.is_finished()) {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::time::timeout(std::time::Duration::from_secs(30), over).await.expect("a look ends");
                host.apply(&Delta { elements, ..Delta::default() }).await;
                assert!(host.observe().await.unwrap().sets[&set_name("hosts4")].elements.contains(&added[0]));
            }
        };
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        scratch().run(move || runtime().block_on(work)).unwrap();
    }
}
