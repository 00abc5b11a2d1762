//! Endpoints of this host, one for each interface.
//!
//! An interface that is not called like a workload's is the host's own, whatever an endpoint says: it is neither policed nor routed
//! to, and the endpoint is inactive. (Upstream accepts it, and its chains for workloads never see that interface.)
//!
//! While several endpoints claim one interface, that with the smallest key is active and the others wait (upstream's rule; it
//! happens while a pod is replaced).

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::admit::Endpoint;
use super::diagnostic::{Diagnostics, Finder, Problem};
use crate::net::InterfaceName;
use crate::resource::ResourceKey;

/// The node.
#[derive(Debug)]
pub(super) struct Dispatch {
    host: Arc<str>,
    /// How names of workload interfaces start.
    prefixes: Vec<InterfaceName>,
    local: HashMap<ResourceKey, (InterfaceName, Endpoint)>,
    claims: HashMap<InterfaceName, BTreeSet<ResourceKey>>,
}

/// An endpoint's new state as far as this host polices it.
pub(super) type Change = (ResourceKey, Option<Endpoint>);

impl Dispatch {
    pub(super) fn new(host: &str) -> Self {
        let prefixes = vec![InterfaceName::CALI];
        Self { host: host.into(), prefixes, local: HashMap::new(), claims: HashMap::new() }
    }

    pub(super) fn set_prefixes(&mut self, prefixes: Vec<InterfaceName>) {
        self.prefixes = prefixes;
    }

    /// Takes an endpoint's new state; returns what becomes active, changes while active, or ceases to be.
    pub(super) fn update(
        &mut self,
        key: &ResourceKey,
        endpoint: Option<&Endpoint>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<Change> {
        let here = endpoint.filter(|endpoint| self.is_local(endpoint));
        let named = here.and_then(|endpoint| endpoint.object()?.spec.interface_name);
        let interface = named.filter(|interface| interface.starts_with_any(&self.prefixes));
        let foreign = named.filter(|_| interface.is_none());
        let foreign = foreign.map(|interface| Problem::ForeignInterface { interface });
        diagnostics.set(key, Finder::Dispatch, foreign.into_iter().collect());
        let former = self.local.get(key).map(|(interface, _)| *interface);
        if former.is_none() && interface.is_none() {
            // Nearly all endpoints of a cluster.
            return Vec::new();
        }
        let mut changes = Vec::new();
        if former.is_some() && former != interface {
            self.withdraw(key, &mut changes);
        }
        if let (Some(interface), Some(endpoint)) = (interface, here) {
            self.claim(key, interface, endpoint, &mut changes);
        }
        for interface in [former, interface].into_iter().flatten() {
            self.diagnose(interface, diagnostics);
        }
        changes
    }

    fn is_local(&self, endpoint: &Endpoint) -> bool {
        endpoint.object().is_some_and(|object| *object.spec.node == *self.host)
    }

    fn claim(&mut self, key: &ResourceKey, interface: InterfaceName, endpoint: &Endpoint, changes: &mut Vec<Change>) {
        self.local.insert(key.clone(), (interface, endpoint.clone()));
        let claims = self.claims.entry(interface).or_default();
        let former = claims.first().cloned();
        claims.insert(key.clone());
        if claims.first() != Some(key) {
            return;
        }
        changes.extend(former.filter(|former| former != key).map(|former| (former, None)));
        changes.push((key.clone(), Some(endpoint.clone())));
    }

    fn withdraw(&mut self, key: &ResourceKey, changes: &mut Vec<Change>) {
        let Some((interface, _)) = self.local.remove(key) else { return };
        let Some(claims) = self.claims.get_mut(&interface) else { return };
        let active = claims.first() == Some(key);
        claims.remove(key);
        if active {
            changes.push((key.clone(), None));
            let next = claims.first().and_then(|next| Some((next.clone(), Some(self.local.get(next)?.1.clone()))));
            changes.extend(next);
        }
        if claims.is_empty() {
            self.claims.remove(&interface);
        }
    }

    fn diagnose(&self, interface: InterfaceName, diagnostics: &mut Diagnostics) {
        let Some(claims) = self.claims.get(&interface) else { return };
        let Some(winner) = claims.first() else { return };
        for key in claims {
            let taken = (key != winner).then(|| Problem::InterfaceTaken { interface, by: winner.clone() });
            diagnostics.set(key, Finder::Dispatch, taken.into_iter().collect());
        }
    }
}
