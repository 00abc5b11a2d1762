//! Addresses that several endpoints of this host have at once: who has the route, and who is told that it has not.
//!
//! In come the changes that dispatch makes: what is active here. The renderer gives an address to the first interface by name, so
//! that every restart decides alike (upstream's choice is the interface that the kernel made last, which the graph cannot see). Whose
//! endpoint does not have the route gets a diagnostic for each such address. It is active otherwise: it may send from there, and its
//! other addresses are its own. A change costs what claims the addresses that change.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::admit::Endpoint;
use super::diagnostic::{Diagnostics, Finder, Problem};
use crate::net::{Cidr, InterfaceName};
use crate::resource::{ResourceKey, WorkloadEndpointSpec};

/// The node.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    active: HashMap<ResourceKey, Endpoint>,
    claims: HashMap<Cidr, BTreeSet<(InterfaceName, ResourceKey)>>,
}

impl Addresses {
    /// Takes the new state of an endpoint as far as it is active here.
    pub(super) fn update(&mut self, key: &ResourceKey, endpoint: Option<&Endpoint>, diagnostics: &mut Diagnostics) {
        let former = match endpoint {
            Some(endpoint) => self.active.insert(key.clone(), endpoint.clone()),
            None => self.active.remove(key),
        };
        let mut concerned = BTreeSet::from([key.clone()]);
        for (interface, address) in former.iter().flat_map(claimed) {
            let Some(claims) = self.claims.get_mut(&address) else { continue };
            claims.remove(&(interface, key.clone()));
            concerned.extend(claims.iter().map(|(_, other)| other.clone()));
            if claims.is_empty() {
                self.claims.remove(&address);
            }
        }
        for (interface, address) in endpoint.into_iter().flat_map(claimed) {
            let claims = self.claims.entry(address).or_default();
            concerned.extend(claims.iter().map(|(_, other)| other.clone()));
            claims.insert((interface, key.clone()));
        }
        for key in concerned {
            let problems = self.active.get(&key).map(|endpoint| self.problems(&key, endpoint));
            diagnostics.set(&key, Finder::Addresses, problems.unwrap_or_default());
        }
    }

    fn problems(&self, key: &ResourceKey, endpoint: &Endpoint) -> Vec<Problem> {
        let addresses: BTreeSet<_> = claimed(endpoint).collect();
        let taken = addresses.into_iter().filter_map(|(_, address)| {
            let (interface, by) = self.claims.get(&address)?.first()?;
            (by != key).then(|| Problem::AddressTaken { address, interface: *interface, by: by.clone() })
        });
        taken.collect()
    }
}

fn claimed(endpoint: &Endpoint) -> impl Iterator<Item = (InterfaceName, Cidr)> {
    let spec = endpoint.object().map(|object| &object.spec);
    let interface = spec.and_then(|spec| spec.interface_name);
    let addresses = spec.into_iter().flat_map(WorkloadEndpointSpec::addresses);
    interface.into_iter().flat_map(move |interface| addresses.clone().map(move |address| (interface, address)))
}
