//! The host in memory as a [`Dataplane`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use async_trait::async_trait;
use calico_core::connection::{Connection, RouteQuery};
use calico_core::net::{InterfaceName, Mac};
use calico_core::table::{ChainName, Delta, Neighbor, Route, RouteKey, SetName, Shaper, Shaping};

use super::Ruleset;
use crate::{
    ApplyReport, Dataplane, DataplaneError, HostChange, LinkState, Listing, Observed, ObservedObjects, Pick, Removal,
    RouteFailure, Shaped, TokenBucket, Tracked, TrackedName, Tracking, Ways,
};

/// A host in memory. Clones are handles on the same host.
#[derive(Debug, Clone, Default)]
pub struct Recording(Arc<Mutex<Host>>);

#[derive(Debug, Default)]
struct Host {
    table_present: bool,
    ruleset: Ruleset,
    /// Chains whose rules a stranger changed.
    tampered: BTreeSet<ChainName>,
    routes: BTreeMap<RouteKey, Route>,
    neighbors: BTreeMap<(InterfaceName, IpAddr), Mac>,
    settings: BTreeMap<(InterfaceName, &'static str), String>,
    /// Limits on bandwidth, by device.
    shapings: BTreeMap<InterfaceName, Shaped>,
    links: BTreeMap<InterfaceName, LinkState>,
    addresses: BTreeMap<InterfaceName, BTreeSet<IpAddr>>,
    connections_cut: Vec<IpAddr>,
    tracking: Tracking,
    ways: BTreeMap<IpAddr, Vec<InterfaceName>>,
    /// How many connections there have been, for their names.
    tracked: u64,
    listings: usize,
    applied: Vec<Delta>,
    faults: Faults,
    changes: VecDeque<HostChange>,
    /// What strangers touched since somebody asked.
    touched: (BTreeSet<ChainName>, BTreeSet<SetName>),
    waker: Option<Waker>,
}

/// What is to go wrong.
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "tests build it with literals")]
pub struct Faults {
    /// So many looks fail.
    pub looks: usize,
    /// So many transactions fail, whatever they hold.
    pub transactions: usize,
    /// Every transaction that writes one of these chains fails.
    pub chains: BTreeSet<ChainName>,
    /// Every transaction that changes one of these sets fails.
    pub sets: BTreeSet<SetName>,
    /// Writing or removing one of these routes fails.
    pub routes: BTreeSet<RouteKey>,
    /// Writing a neighbour or a setting of one of these interfaces fails.
    pub interfaces: BTreeSet<InterfaceName>,
    /// Setting or lifting a limit on bandwidth at one of these devices fails.
    pub shapers: BTreeSet<InterfaceName>,
    /// So often the connections that are to end stay.
    pub cuts: usize,
    /// So often connections cannot be listed, or not be ended.
    pub tracking: usize,
}

impl Recording {
    /// An empty host.
    pub fn new() -> Self {
        Self::default()
    }

    /// What our table holds now.
    pub fn ruleset(&self) -> Ruleset {
        self.host().ruleset.clone()
    }

    /// The routes now.
    pub fn routes(&self) -> Vec<Route> {
        self.host().routes.values().cloned().collect()
    }

    /// The permanent neighbours now.
    pub fn neighbors(&self) -> Vec<Neighbor> {
        let neighbor = |((interface, address), mac): (&(InterfaceName, IpAddr), &Mac)| Neighbor {
            interface: *interface,
            address: *address,
            mac: *mac,
        };
        self.host().neighbors.iter().map(neighbor).collect()
    }

    /// An interface setting, by its path with `{}` for the interface.
    pub fn setting(&self, interface: InterfaceName, path: &str) -> Option<String> {
        let host = self.host();
        host.settings
            .iter()
            .find(|((name, found), _)| *name == interface && *found == path)
            .map(|(_, value)| value.clone())
    }

    /// The limits on bandwidth now, by device.
    pub fn shapings(&self) -> BTreeMap<InterfaceName, Shaped> {
        self.host().shapings.clone()
    }

    /// A stranger changes what limits bandwidth at a device.
    pub fn set_shaping(&self, device: InterfaceName, shaped: Option<Shaped>) {
        let mut host = self.host();
        match shaped {
            Some(shaped) => host.shapings.insert(device, shaped),
            None => host.shapings.remove(&device),
        };
        host.tell(HostChange::Shaping { device });
    }

    /// The addresses whose connections ended since the last call, in order of time.
    pub fn take_connections_cut(&self) -> Vec<IpAddr> {
        core::mem::take(&mut self.host().connections_cut)
    }

    /// The host tracks a connection from now on.
    pub fn track(&self, connection: Connection) {
        let mut host = self.host();
        host.tracked += 1;
        let name = TrackedName(host.tracked.to_be_bytes().into());
        host.tracking.connections.push(Tracked { connection, name });
    }

    /// The connections that it tracks.
    pub fn tracked(&self) -> Vec<Connection> {
        self.host().tracking.connections.iter().map(|tracked| tracked.connection).collect()
    }

    /// How often they were listed since the last call.
    pub fn take_listings(&self) -> usize {
        core::mem::take(&mut self.host().listings)
    }

    /// Gives the host an address of its own.
    pub fn add_address(&self, address: IpAddr) {
        self.host().tracking.host.insert(address);
    }

    /// The host reaches an address by these interfaces, whichever of its own it sends from.
    pub fn set_way(&self, to: IpAddr, interfaces: Vec<InterfaceName>) {
        self.host().ways.insert(to, interfaces);
    }

    /// The changes carried out, or refused, since the last call.
    pub fn take_applied(&self) -> Vec<Delta> {
        core::mem::take(&mut self.host().applied)
    }

    /// Plants faults, in place of those planted before.
    pub fn set_faults(&self, faults: Faults) {
        self.host().faults = faults;
    }

    /// A link comes, changes or (none) goes. As in a kernel, routes, neighbours and settings go with it.
    pub fn set_link(&self, name: InterfaceName, state: Option<LinkState>) {
        let mut host = self.host();
        let before = match state {
            Some(state) => host.links.insert(name, state),
            None => host.links.remove(&name),
        };
        let replaced = before.map(|link| link.index) != state.map(|link| link.index);
        if replaced || !state.is_some_and(|link| link.up) {
            host.routes.retain(|_, route| route.interface() != Some(name));
            host.neighbors.retain(|(interface, _), _| *interface != name);
        }
        if state.is_none() {
            host.addresses.remove(&name);
        }
        if replaced {
            host.settings.retain(|(interface, _), _| *interface != name);
            host.shapings.remove(&name);
            // The device that what it sent was led through stays.
            let led = host.shapings.values_mut().filter(|shaped| shaped.source == Some(name));
            led.for_each(|shaped| *shaped = Shaped { source: None, bucket: None });
        }
        host.tell(HostChange::Link { name, state });
    }

    /// A link gets an address, or loses it.
    pub fn set_address(&self, interface: InterfaceName, address: IpAddr, present: bool) {
        let mut host = self.host();
        let addresses = host.addresses.entry(interface).or_default();
        if present {
            addresses.insert(address)
        } else {
            addresses.remove(&address)
        };
        host.tell(HostChange::Address { interface, address, present });
    }

    /// A stranger flushes the ruleset.
    pub fn flush_ruleset(&self) {
        let mut host = self.host();
        host.ruleset = Ruleset::default();
        host.table_present = false;
        host.tell(HostChange::Ruleset);
    }

    /// A stranger changes the table by a transaction of its own. Chains it writes no longer count as ours.
    ///
    /// # Errors
    /// What the kernel would refuse.
    pub fn tamper(&self, delta: &Delta) -> Result<(), DataplaneError> {
        let mut host = self.host();
        host.ruleset.apply(delta)?;
        let written: BTreeSet<_> = delta.chains_set.iter().map(|chain| chain.name.clone()).collect();
        host.touched.0.extend(written.iter().chain(&delta.chains_removed).cloned());
        let added = delta.sets_added.iter().map(|decl| &decl.name);
        let changed = delta.elements.iter().map(|change| &change.set);
        host.touched.1.extend(added.chain(changed).chain(&delta.sets_removed).cloned());
        host.tampered.extend(written);
        host.waker.take().into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// A stranger writes or (none) deletes a route.
    pub fn set_route(&self, key: RouteKey, route: Option<Route>) {
        let mut host = self.host();
        match &route {
            Some(route) => host.routes.insert(key, route.clone()),
            None => host.routes.remove(&key),
        };
        host.tell(HostChange::Route { key, route });
    }

    fn host(&self) -> MutexGuard<'_, Host> {
        // A test that panicked while it held the lock has failed already.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Dataplane for Recording {
    async fn observe(&mut self) -> Result<Observed, DataplaneError> {
        let mut host = self.host();
        if host.faults.looks > 0 {
            host.faults.looks -= 1;
            return Err(planted("read the ruleset", "our table"));
        }
        Ok(Observed {
            table_present: host.table_present,
            chains: host.ruleset.observed_chains(&host.tampered),
            sets: host.ruleset.observed_sets(),
            routes: host.routes.clone(),
            neighbors: host
                .neighbors
                .iter()
                .map(|((interface, address), mac)| Neighbor { interface: *interface, address: *address, mac: *mac })
                .collect(),
            shapings: host.shapings.clone(),
            links: host.links.clone(),
            addresses: host.addresses.clone(),
        })
    }

    async fn apply(&mut self, delta: &Delta) -> ApplyReport {
        let mut host = self.host();
        host.applied.push(delta.clone());
        let mut report = ApplyReport { ruleset: host.apply_ruleset(delta).err(), ..ApplyReport::default() };
        host.apply_routes(delta, &mut report);
        host.apply_interfaces(delta, &mut report);
        host.apply_shapings(delta, &mut report);
        report.connections = host.cut_connections(&delta.connections_cut).err();
        report
    }

    async fn next_change(&mut self) -> Result<HostChange, DataplaneError> {
        poll_fn(|context| {
            let mut host = self.host();
            match host.changes.pop_front().or_else(|| host.look_at_touched()) {
                Some(change) => Poll::Ready(Ok(change)),
                None => {
                    host.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn remove_workload(&mut self, interface: InterfaceName) -> Removal {
        if self.host().links.contains_key(&interface) {
            self.set_link(interface, None);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn connections(&mut self, pick: Pick) -> Listing {
        let mut host = self.host();
        host.listings += 1;
        let listed = host.tracking_works("list").map(|()| {
            let Tracking { host, connections } = &host.tracking;
            let picked = connections.iter().filter(|tracked| pick(&tracked.connection)).cloned();
            Tracking { host: host.clone(), connections: picked.collect() }
        });
        Box::pin(std::future::ready(listed))
    }

    fn end_connections(&mut self, names: Vec<TrackedName>) -> Removal {
        let mut host = self.host();
        let ended = host.tracking_works("end");
        if ended.is_ok() {
            host.tracking.connections.retain(|tracked| !names.contains(&tracked.name));
        }
        Box::pin(std::future::ready(ended))
    }

    fn ways(&mut self, asked: BTreeSet<RouteQuery>) -> Ways {
        let mut host = self.host();
        let found = host
            .tracking_works("look up")
            .map(|()| asked.into_iter().filter_map(|query| Some((query, host.ways.get(&query.to)?.clone()))).collect());
        Box::pin(std::future::ready(found))
    }
}

impl Host {
    fn tell(&mut self, change: HostChange) {
        self.changes.push_back(change);
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// What was touched, as it is when somebody asks.
    fn look_at_touched(&mut self) -> Option<HostChange> {
        let (chains, sets) = core::mem::take(&mut self.touched);
        if chains.is_empty() && sets.is_empty() {
            return None;
        }
        let (mut all_chains, mut all_sets) =
            (self.ruleset.observed_chains(&self.tampered), self.ruleset.observed_sets());
        let pick_chain = |name: ChainName| (name.clone(), all_chains.remove(&name));
        let chains = chains.into_iter().map(pick_chain).collect();
        let sets = sets.into_iter().map(|name| (name.clone(), all_sets.remove(&name))).collect();
        Some(HostChange::Objects(Arc::new(ObservedObjects { chains, sets })))
    }

    fn apply_ruleset(&mut self, delta: &Delta) -> Result<(), DataplaneError> {
        let untouched = delta.sets_added.is_empty()
            && delta.chains_set.is_empty()
            && delta.elements.is_empty()
            && delta.chains_removed.is_empty()
            && delta.sets_removed.is_empty();
        if untouched {
            return Ok(());
        }
        if self.faults.transactions > 0 {
            self.faults.transactions -= 1;
            return Err(planted("commit", "the transaction"));
        }
        let chain = delta.chains_set.iter().map(|chain| &chain.name).find(|name| self.faults.chains.contains(name));
        if let Some(name) = chain {
            return Err(planted("write chain", name.as_str()));
        }
        let sets =
            delta.sets_added.iter().map(|decl| &decl.name).chain(delta.elements.iter().map(|change| &change.set));
        if let Some(name) = sets.into_iter().find(|name| self.faults.sets.contains(name)) {
            return Err(planted("change set", name.as_str()));
        }
        self.ruleset.apply(delta)?;
        self.table_present = true;
        for chain in &delta.chains_set {
            self.tampered.remove(&chain.name);
        }
        Ok(())
    }

    fn apply_routes(&mut self, delta: &Delta, report: &mut ApplyReport) {
        let written = delta.routes_set.iter().map(|route| (route.key, Some(route.clone())));
        for (key, route) in delta.routes_removed.iter().map(|key| (*key, None)).chain(written) {
            let waits = route.as_ref().and_then(Route::interface).filter(|name| !self.is_up(*name));
            let error = match waits {
                _ if self.faults.routes.contains(&key) => planted("write route", &key.dest.to_string()),
                Some(name) => no_interface(&key.dest.to_string(), name),
                None => {
                    match route {
                        Some(route) => self.routes.insert(key, route),
                        None => self.routes.remove(&key),
                    };
                    continue;
                }
            };
            report.routes.push(RouteFailure { key, error });
        }
    }

    fn apply_interfaces(&mut self, delta: &Delta, report: &mut ApplyReport) {
        for Neighbor { interface, address, .. } in &delta.neighbors_removed {
            self.neighbors.remove(&(*interface, *address));
        }
        for neighbor in &delta.neighbors_set {
            let Neighbor { interface, address, mac } = *neighbor;
            if self.faults.interfaces.contains(&interface) {
                report.neighbors.push((*neighbor, planted("write neighbour", &address.to_string())));
            } else if !self.is_up(interface) {
                report.neighbors.push((*neighbor, no_interface(&address.to_string(), interface)));
            } else {
                self.neighbors.insert((interface, address), mac);
            }
        }
        for setting in &delta.settings {
            if self.faults.interfaces.contains(&setting.interface) {
                report.settings.push((setting.clone(), planted("write setting", setting.path)));
            } else if !self.links.contains_key(&setting.interface) {
                report.settings.push((setting.clone(), no_interface(setting.path, setting.interface)));
            } else {
                self.settings.insert((setting.interface, setting.path), setting.value.clone());
            }
        }
    }

    fn apply_shapings(&mut self, delta: &Delta, report: &mut ApplyReport) {
        let set: BTreeSet<_> = delta.shapings_set.iter().map(|shaping| shaping.shaper.device).collect();
        for shaper in delta.shapings_removed.iter().filter(|shaper| !set.contains(&shaper.device)) {
            if self.faults.shapers.contains(&shaper.device) {
                report.shapings.push((*shaper, planted("lift the limit at", shaper.device.as_str())));
            } else {
                self.shapings.remove(&shaper.device);
            }
        }
        for shaping in &delta.shapings_set {
            if let Err(error) = self.set_shaping(shaping) {
                report.shapings.push((shaping.shaper, error));
            }
        }
    }

    fn set_shaping(&mut self, shaping: &Shaping) -> Result<(), DataplaneError> {
        let Shaper { device, source } = shaping.shaper;
        if self.faults.shapers.contains(&device) {
            return Err(planted("set the limit at", device.as_str()));
        }
        let workload = shaping.shaper.workload();
        let link = self.links.get(&workload).ok_or_else(|| no_interface(device.as_str(), workload))?;
        self.shapings.insert(device, Shaped { source, bucket: Some(TokenBucket::of(shaping, link.mtu)) });
        Ok(())
    }

    fn cut_connections(&mut self, addresses: &[IpAddr]) -> Result<(), DataplaneError> {
        if !addresses.is_empty() && self.faults.cuts > 0 {
            self.faults.cuts -= 1;
            return Err(planted("end", "connections"));
        }
        self.connections_cut.extend(addresses);
        let stays = |tracked: &Tracked| !tracked.connection.addresses().iter().any(|one| addresses.contains(one));
        self.tracking.connections.retain(stays);
        Ok(())
    }

    fn tracking_works(&mut self, operation: &'static str) -> Result<(), DataplaneError> {
        match self.faults.tracking.checked_sub(1) {
            None => Ok(()),
            Some(left) => {
                self.faults.tracking = left;
                Err(planted(operation, "tracked connections"))
            }
        }
    }

    fn is_up(&self, name: InterfaceName) -> bool {
        self.links.get(&name).is_some_and(|link| link.up)
    }
}

fn planted(operation: &'static str, object: &str) -> DataplaneError {
    let source = std::io::Error::other("a planted fault");
    DataplaneError::Kernel { operation, object: object.into(), source }
}

fn no_interface(object: &str, interface: InterfaceName) -> DataplaneError {
    DataplaneError::NoInterface { object: object.into(), interface: interface.to_string() }
}
