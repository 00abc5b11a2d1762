//! Addresses that several endpoints of this host have at once: who has the route, to whom a floating address leads, and who is told that
//! it has not, or that it leads elsewhere.
//!
//! In come the changes that dispatch makes: what is active here. The renderer gives an address to the first interface by name, so
//! that every restart decides alike (upstream's choice is the interface that the kernel made last, which the graph cannot see). Whose
//! endpoint does not have the route gets a diagnostic for each such address. It is active otherwise: it may send from there, and its
//! other addresses are its own. A floating address leads to the smallest of the addresses that it is to lead to, and of one address to the first
//! interface (upstream compares their texts). A change costs what claims the addresses that change.
//!
//! A floating address that is somebody's own (a workload's or a host's, here or elsewhere) leads nowhere: it would take away what is
//! meant for its owner. Who owns which, the graph says ([`Addresses::set_owner`]).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;

use hashbrown::HashMap;

use super::admit::Endpoint;
use super::describe;
use super::diagnostic::{Diagnostics, Finder, Owner, Problem};
use crate::net::{Cidr, InterfaceName};
use crate::resource::ResourceKey;

/// The node.
#[derive(Debug)]
pub(super) struct Addresses {
    active: HashMap<ResourceKey, Endpoint>,
    claims: HashMap<Address, BTreeSet<Claim>>,
    /// Floating addresses that are somebody's own.
    owners: HashMap<IpAddr, Owner>,
    /// Floating addresses that came or went since they were last asked for.
    fresh: BTreeSet<IpAddr>,
    /// Whether floating addresses lead anywhere.
    has_floating: bool,
}

/// An address that one endpoint can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Address {
    /// A workload's own.
    Own(Cidr),
    /// One outside.
    Floating(IpAddr),
}

/// Whose an address is; the smallest claim wins. A floating address is claimed by the address that it leads to, first of all.
type Claim = (Option<IpAddr>, InterfaceName, ResourceKey);

impl Default for Addresses {
    fn default() -> Self {
        Self {
            active: HashMap::new(),
            claims: HashMap::new(),
            owners: HashMap::new(),
            fresh: BTreeSet::new(),
            has_floating: true,
        }
    }
}

impl Addresses {
    pub(super) const fn set_floating(&mut self, has_floating: bool) {
        self.has_floating = has_floating;
    }

    /// Takes the new state of an endpoint as far as it is active here.
    pub(super) fn update(&mut self, key: &ResourceKey, endpoint: Option<&Endpoint>, diagnostics: &mut Diagnostics) {
        let former = match endpoint {
            Some(endpoint) => self.active.insert(key.clone(), endpoint.clone()),
            None => self.active.remove(key),
        };
        let has_floating = self.has_floating;
        let mut concerned = BTreeSet::from([key.clone()]);
        for (address, claim) in former.iter().flat_map(|former| claimed(key, former, has_floating)) {
            let Some(claims) = self.claims.get_mut(&address) else { continue };
            claims.remove(&claim);
            concerned.extend(claims.iter().map(|(.., other)| other.clone()));
            if claims.is_empty() {
                self.claims.remove(&address);
                self.note(address);
            }
        }
        for (address, claim) in endpoint.into_iter().flat_map(|endpoint| claimed(key, endpoint, has_floating)) {
            let claims = self.claims.entry(address).or_default();
            concerned.extend(claims.iter().map(|(.., other)| other.clone()));
            let is_first = claims.is_empty();
            claims.insert(claim);
            if is_first {
                self.note(address);
            }
        }
        concerned.iter().for_each(|key| self.diagnose(key, diagnostics));
    }

    /// Floating addresses that came or went since the last call.
    pub(super) fn take_fresh(&mut self) -> BTreeSet<IpAddr> {
        mem::take(&mut self.fresh)
    }

    /// All floating addresses that lead, or are to lead, to a workload.
    pub(super) fn floating(&self) -> impl Iterator<Item = IpAddr> {
        self.claims.keys().filter_map(|address| match address {
            Address::Floating(external) => Some(*external),
            Address::Own(_) => None,
        })
    }

    pub(super) fn is_floating(&self, external: IpAddr) -> bool {
        self.claims.contains_key(&Address::Floating(external))
    }

    /// Says whose own a floating address is. Returns the endpoints that this lets have it, or takes it from.
    pub(super) fn set_owner(
        &mut self,
        external: IpAddr,
        owner: Option<Owner>,
        diagnostics: &mut Diagnostics,
    ) -> BTreeSet<ResourceKey> {
        if self.owners.get(&external) == owner.as_ref() {
            return BTreeSet::new();
        }
        match owner {
            Some(owner) => self.owners.insert(external, owner),
            None => self.owners.remove(&external),
        };
        let claims = self.claims.get(&Address::Floating(external)).into_iter().flatten();
        let concerned: BTreeSet<_> = claims.map(|(.., key)| key.clone()).collect();
        concerned.iter().for_each(|key| self.diagnose(key, diagnostics));
        concerned
    }

    /// Whether a floating address is somebody's own.
    pub(super) fn is_owned(&self, external: IpAddr) -> bool {
        self.owners.contains_key(&external)
    }

    fn note(&mut self, address: Address) {
        if let Address::Floating(external) = address {
            self.fresh.insert(external);
        }
    }

    fn diagnose(&self, key: &ResourceKey, diagnostics: &mut Diagnostics) {
        let problems = self.active.get(key).map(|endpoint| self.problems(key, endpoint));
        diagnostics.set(key, Finder::Addresses, problems.unwrap_or_default());
    }

    fn problems(&self, key: &ResourceKey, endpoint: &Endpoint) -> Vec<Problem> {
        let claims = claimed(key, endpoint, self.has_floating);
        let addresses: BTreeSet<_> = claims.into_iter().map(|(address, _)| address).collect();
        let taken = addresses.into_iter().filter_map(|address| {
            if let Address::Floating(external) = address
                && let Some(owner) = self.owners.get(&external)
            {
                return Some(Problem::FloatingOwned { external, owner: owner.clone() });
            }
            let (_, interface, by) = self.claims.get(&address)?.first()?;
            let (interface, by) = (*interface, (by != key).then(|| by.clone())?);
            Some(match address {
                Address::Own(address) => Problem::AddressTaken { address, interface, by },
                Address::Floating(external) => Problem::FloatingTaken { external, interface, by },
            })
        });
        taken.collect()
    }
}

fn claimed(key: &ResourceKey, endpoint: &Endpoint, has_floating: bool) -> Vec<(Address, Claim)> {
    let Some(spec) = endpoint.object().map(|object| &object.spec) else { return Vec::new() };
    let Some(interface) = spec.interface_name else { return Vec::new() };
    let own = spec.addresses().map(|address| (Address::Own(address), (None, interface, key.clone())));
    let floating = if has_floating { describe::floating_addresses(spec) } else { Vec::new() };
    let floating = floating
        .into_iter()
        .map(|(outside, inside)| (Address::Floating(outside), (Some(inside), interface, key.clone())));
    own.chain(floating).collect()
}
