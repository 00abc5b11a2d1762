//! Which interfaces of this host are which host endpoint's.
//!
//! In come host endpoints and the host's interfaces with their addresses; out come the host endpoints that have an interface, whenever they or
//! their interfaces change. A host endpoint with a name claims that interface; one without claims every interface that has one of its
//! expected addresses. Of several claims the smallest name wins, whichever way it was made (upstream's rule). `*` claims
//! what is left; there, too, the smallest name wins. A workload's interface is never claimed.
//!
//! A change costs what claims the interfaces that it concerns.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;

use hashbrown::HashMap;

use super::admit::HostEndpoint;
use super::diagnostic::{Diagnostics, Finder, Problem};
use super::event::HostInterfaces;
use crate::net::{InterfaceList, InterfaceName};
use crate::resource::{HostEndpointSpec, ResourceKey};

/// What stands for all interfaces.
const ALL: &str = "*";
/// The node.
#[derive(Debug)]
pub(super) struct HostEndpoints {
    /// None: every host is this one, and nothing is known of interfaces.
    host: Option<Arc<str>>,
    prefixes: Vec<InterfaceName>,
    /// Interfaces whose addresses do not count.
    excluded: InterfaceList,
    local: BTreeMap<ResourceKey, HostEndpoint>,
    interfaces: BTreeMap<InterfaceName, Interface>,
    by_name: HashMap<InterfaceName, BTreeSet<ResourceKey>>,
    by_address: HashMap<IpAddr, BTreeSet<ResourceKey>>,
    with_address: HashMap<IpAddr, BTreeSet<InterfaceName>>,
    wildcards: BTreeSet<ResourceKey>,
    won: HashMap<ResourceKey, BTreeSet<InterfaceName>>,
    /// Whether addresses came or went since that was last asked.
    is_readdressed: bool,
}

/// An interface of the host.
#[derive(Debug, Default)]
struct Interface {
    addresses: BTreeSet<IpAddr>,
    winner: Option<ResourceKey>,
}

/// A host endpoint that has an interface, or has none any more.
pub(super) type Change = (ResourceKey, Option<HostEndpoint>);

impl HostEndpoints {
    pub(super) fn new(host: Option<&str>) -> Self {
        Self {
            host: host.map(Into::into),
            prefixes: vec![InterfaceName::CALI],
            excluded: InterfaceList::default(),
            local: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            with_address: HashMap::new(),
            wildcards: BTreeSet::new(),
            won: HashMap::new(),
            is_readdressed: false,
        }
    }

    pub(super) fn set_prefixes(&mut self, prefixes: Vec<InterfaceName>) {
        self.prefixes = prefixes;
    }

    pub(super) fn set_excluded(&mut self, excluded: InterfaceList) {
        self.excluded = excluded;
    }

    /// Takes a host endpoint's new state.
    pub(super) fn update(
        &mut self,
        key: &ResourceKey,
        endpoint: Option<&HostEndpoint>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<Change> {
        let here = endpoint.filter(|endpoint| self.is_local(endpoint));
        let former = self.local.get(key).cloned();
        if former.is_none() && here.is_none() {
            return Vec::new();
        }
        let had = self.has_interface(key);
        let mut concerned = BTreeSet::from([key.clone()]);
        if let Some(former) = &former {
            self.claim(key, former, false, &mut concerned);
            self.local.remove(key);
        }
        if let Some(endpoint) = here {
            self.local.insert(key.clone(), endpoint.clone());
            self.claim(key, endpoint, true, &mut concerned);
        }
        let mut touched = BTreeSet::new();
        for interface in former.iter().chain(here).flat_map(|endpoint| self.claimed(endpoint)).collect::<BTreeSet<_>>()
        {
            self.resolve(interface, &mut touched, &mut concerned);
        }
        touched.extend(concerned.iter().filter(|other| self.is_wildcard(other)).cloned());
        if had || self.has_interface(key) {
            touched.insert(key.clone());
        }
        concerned.iter().for_each(|key| self.diagnose(key, diagnostics));
        self.changes(touched)
    }

    /// Takes an interface's new state: its addresses, or that it is gone.
    pub(super) fn set_interface(
        &mut self,
        name: InterfaceName,
        addresses: Option<&[IpAddr]>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<Change> {
        if self.host.is_none() || name.starts_with_any(&self.prefixes) {
            return Vec::new();
        }
        let mut concerned = BTreeSet::new();
        self.is_readdressed = true;
        let former = self.interfaces.get(&name).map(|known| known.addresses.clone()).unwrap_or_default();
        for address in &former {
            if let Some(names) = self.with_address.get_mut(address) {
                names.remove(&name);
                if names.is_empty() {
                    self.with_address.remove(address);
                }
            }
            concerned.extend(self.by_address.get(address).into_iter().flatten().cloned());
        }
        let mut touched = BTreeSet::new();
        match addresses {
            Some(addresses) => {
                let counts = !self.excluded.contains(name);
                let addresses = addresses.iter().filter(|_| counts).map(IpAddr::to_canonical);
                let known = self.interfaces.entry(name).or_default();
                known.addresses = addresses.collect();
                for address in &known.addresses {
                    self.with_address.entry(*address).or_default().insert(name);
                }
                self.resolve(name, &mut touched, &mut concerned);
            }
            None => {
                if let Some(winner) = self.interfaces.remove(&name).and_then(|known| known.winner) {
                    self.lose(&winner, name);
                    touched.insert(winner);
                }
                concerned.extend(self.by_name.get(&name).into_iter().flatten().cloned());
            }
        }
        concerned.iter().for_each(|key| self.diagnose(key, diagnostics));
        self.changes(touched)
    }

    /// Whether an interface of this host, which is no workload's, may have other addresses than at the last call.
    pub(super) const fn take_readdressed(&mut self) -> bool {
        mem::replace(&mut self.is_readdressed, false)
    }

    /// Whether an interface of this host has an address.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.with_address.contains_key(&address)
    }

    /// The interfaces of a host endpoint. Of the whole cluster's graph those that it names: none where it names none.
    pub(super) fn interfaces_of(&self, key: &ResourceKey) -> Option<HostInterfaces> {
        if self.is_wildcard(key) {
            return self.has_interface(key).then_some(HostInterfaces::Others);
        }
        if self.host.is_none() {
            let named =
                self.local.get(key).and_then(|endpoint| interface_name(endpoint.object().map(|one| &one.spec)?));
            return Some(HostInterfaces::Named(named.into_iter().collect()));
        }
        let won = self.won.get(key)?;
        Some(HostInterfaces::Named(won.iter().copied().collect()))
    }

    fn is_local(&self, endpoint: &HostEndpoint) -> bool {
        self.host.as_ref().is_none_or(|host| endpoint.object().is_some_and(|object| *object.spec.node == **host))
    }

    fn is_wildcard(&self, key: &ResourceKey) -> bool {
        self.wildcards.contains(key)
    }

    fn has_interface(&self, key: &ResourceKey) -> bool {
        if self.host.is_none() {
            return self.local.contains_key(key);
        }
        self.won.contains_key(key) || self.wildcards.first() == Some(key)
    }

    /// Enters or withdraws what a host endpoint claims; notes which others for all interfaces that concerns.
    fn claim(
        &mut self,
        key: &ResourceKey,
        endpoint: &HostEndpoint,
        enter: bool,
        concerned: &mut BTreeSet<ResourceKey>,
    ) {
        let Some(spec) = endpoint.object().map(|object| &object.spec) else { return };
        if spec.interface_name == ALL {
            concerned.extend(self.wildcards.iter().cloned());
            if enter {
                self.wildcards.insert(key.clone())
            } else {
                self.wildcards.remove(key)
            };
            return;
        }
        if let Some(name) = interface_name(spec) {
            change(&mut self.by_name, name, key, enter);
        }
        for address in addresses(spec) {
            change(&mut self.by_address, address, key, enter);
        }
    }

    /// Interfaces of this host that a host endpoint claims.
    fn claimed(&self, endpoint: &HostEndpoint) -> BTreeSet<InterfaceName> {
        let Some(spec) = endpoint.object().map(|object| &object.spec) else { return BTreeSet::new() };
        let named = interface_name(spec).filter(|name| self.interfaces.contains_key(name));
        let with_address = addresses(spec).flat_map(|address| self.with_address.get(&address).into_iter().flatten());
        named.into_iter().chain(with_address.copied()).collect()
    }

    fn claimants(&self, name: &InterfaceName) -> impl Iterator<Item = &ResourceKey> {
        let addresses = self.interfaces.get(name).into_iter().flat_map(|known| &known.addresses);
        let by_address = addresses.filter_map(|address| self.by_address.get(address));
        self.by_name.get(name).into_iter().chain(by_address).flatten()
    }

    /// Finds out whose an interface is now.
    fn resolve(
        &mut self,
        name: InterfaceName,
        touched: &mut BTreeSet<ResourceKey>,
        concerned: &mut BTreeSet<ResourceKey>,
    ) {
        concerned.extend(self.claimants(&name).cloned());
        let winner = self.claimants(&name).min().cloned();
        let Some(known) = self.interfaces.get_mut(&name) else { return };
        if known.winner == winner {
            return;
        }
        let former = mem::replace(&mut known.winner, winner.clone());
        if let Some(former) = former {
            self.lose(&former, name);
            touched.insert(former);
        }
        if let Some(winner) = winner {
            self.won.entry(winner.clone()).or_default().insert(name);
            touched.insert(winner);
        }
    }

    fn lose(&mut self, key: &ResourceKey, name: InterfaceName) {
        let Some(won) = self.won.get_mut(key) else { return };
        won.remove(&name);
        if won.is_empty() {
            self.won.remove(key);
        }
    }

    fn changes(&self, touched: BTreeSet<ResourceKey>) -> Vec<Change> {
        let state = |key: &ResourceKey| self.local.get(key).filter(|_| self.has_interface(key)).cloned();
        touched.into_iter().map(|key| (key.clone(), state(&key))).collect()
    }

    fn diagnose(&self, key: &ResourceKey, diagnostics: &mut Diagnostics) {
        let problems = self
            .local
            .get(key)
            .and_then(|endpoint| Some(self.problems(key, endpoint.object().map(|one| &one.spec)?, endpoint)));
        diagnostics.set(key, Finder::Dispatch, problems.unwrap_or_default());
    }

    fn problems(&self, key: &ResourceKey, spec: &HostEndpointSpec, endpoint: &HostEndpoint) -> Vec<Problem> {
        let text = spec.interface_name.as_str();
        if text == ALL {
            let first = self.wildcards.first().filter(|first| *first != key && self.host.is_some());
            return first.map(|by| Problem::OthersTaken { by: by.clone() }).into_iter().collect();
        }
        let Ok(name) = text.parse::<InterfaceName>() else {
            if !text.is_empty() {
                return vec![Problem::ImpossibleInterface(text.into())];
            }
            if spec.expected_ips.is_empty() {
                return vec![Problem::NoInterfaceGiven];
            }
            return self.lost(key, endpoint);
        };
        if name.starts_with_any(&self.prefixes) {
            return vec![Problem::WorkloadInterface { interface: name }];
        }
        self.lost(key, endpoint)
    }

    /// What others have of what it claims, or that there is nothing of the kind.
    fn lost(&self, key: &ResourceKey, endpoint: &HostEndpoint) -> Vec<Problem> {
        let taken = self.claimed(endpoint).into_iter().filter_map(|interface| {
            let by = self.interfaces.get(&interface)?.winner.clone().filter(|winner| winner != key)?;
            Some(Problem::HostInterfaceTaken { interface, by })
        });
        let mut problems: Vec<Problem> = taken.collect();
        if problems.is_empty() && !self.has_interface(key) {
            problems.push(Problem::NoHostInterface);
        }
        problems
    }
}

fn change<K: Eq + core::hash::Hash>(
    map: &mut HashMap<K, BTreeSet<ResourceKey>>,
    place: K,
    key: &ResourceKey,
    enter: bool,
) {
    if enter {
        map.entry(place).or_default().insert(key.clone());
        return;
    }
    let Some(keys) = map.get_mut(&place) else { return };
    keys.remove(key);
    if keys.is_empty() {
        map.remove(&place);
    }
}

/// The interface that it names.
fn interface_name(spec: &HostEndpointSpec) -> Option<InterfaceName> {
    spec.interface_name.parse().ok().filter(|_| spec.interface_name != ALL)
}

/// The addresses that tell its interfaces: none where it has a name.
fn addresses(spec: &HostEndpointSpec) -> impl Iterator<Item = IpAddr> {
    let counts = spec.interface_name.is_empty();
    spec.expected_ips.iter().filter(move |_| counts).map(IpAddr::to_canonical)
}
