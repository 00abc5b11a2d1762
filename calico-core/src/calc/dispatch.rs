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
use crate::text::Text;

/// The node.
#[derive(Debug)]
pub(super) struct Dispatch {
    /// None: every host is this one.
    host: Option<Arc<str>>,
    /// How names of workload interfaces start.
    prefixes: Vec<InterfaceName>,
    local: HashMap<ResourceKey, (Place, Endpoint)>,
    /// By host and interface; the host is empty where there is only this one.
    claims: HashMap<Place, BTreeSet<ResourceKey>>,
}

/// An interface of a host.
type Place = (Text, InterfaceName);

/// An endpoint's new state as far as this host polices it.
pub(super) type Change = (ResourceKey, Option<Endpoint>);

impl Dispatch {
    pub(super) fn new(host: Option<&str>) -> Self {
        let prefixes = vec![InterfaceName::CALI];
        Self { host: host.map(Into::into), prefixes, local: HashMap::new(), claims: HashMap::new() }
    }

    pub(super) fn set_prefixes(&mut self, prefixes: Vec<InterfaceName>) {
        self.prefixes = prefixes;
    }

    /// Whether there is one host, and not all of them.
    pub(super) const fn is_of_a_host(&self) -> bool {
        self.host.is_some()
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
        let node = |endpoint: &Endpoint| match &self.host {
            Some(_) => Text::default(),
            None => endpoint.object().map(|object| object.spec.node.clone()).unwrap_or_default(),
        };
        let place = here.and_then(|endpoint| Some((node(endpoint), interface?)));
        let former = self.local.get(key).map(|(place, _)| place.clone());
        if former.is_none() && place.is_none() {
            // Nearly all endpoints of a cluster.
            return Vec::new();
        }
        let mut changes = Vec::new();
        if former.is_some() && former != place {
            self.withdraw(key, &mut changes);
        }
        if let (Some(place), Some(endpoint)) = (&place, here) {
            self.claim(key, place.clone(), endpoint, &mut changes);
        }
        for place in [former, place].iter().flatten() {
            self.diagnose(place, diagnostics);
        }
        changes
    }

    /// Whether an endpoint is of this host.
    pub(super) fn is_local(&self, endpoint: &Endpoint) -> bool {
        self.host.as_ref().is_none_or(|host| endpoint.object().is_some_and(|object| *object.spec.node == **host))
    }

    fn claim(&mut self, key: &ResourceKey, place: Place, endpoint: &Endpoint, changes: &mut Vec<Change>) {
        self.local.insert(key.clone(), (place.clone(), endpoint.clone()));
        let claims = self.claims.entry(place).or_default();
        let former = claims.first().cloned();
        claims.insert(key.clone());
        if claims.first() != Some(key) {
            return;
        }
        changes.extend(former.filter(|former| former != key).map(|former| (former, None)));
        changes.push((key.clone(), Some(endpoint.clone())));
    }

    fn withdraw(&mut self, key: &ResourceKey, changes: &mut Vec<Change>) {
        let Some((place, _)) = self.local.remove(key) else { return };
        let Some(claims) = self.claims.get_mut(&place) else { return };
        let active = claims.first() == Some(key);
        claims.remove(key);
        if active {
            changes.push((key.clone(), None));
            let next = claims.first().and_then(|next| Some((next.clone(), Some(self.local.get(next)?.1.clone()))));
            changes.extend(next);
        }
        if claims.is_empty() {
            self.claims.remove(&place);
        }
    }

    fn diagnose(&self, place: &Place, diagnostics: &mut Diagnostics) {
        let interface = place.1;
        let Some(claims) = self.claims.get(place) else { return };
        let Some(winner) = claims.first() else { return };
        for key in claims {
            let taken = (key != winner).then(|| Problem::InterfaceTaken { interface, by: winner.clone() });
            diagnostics.set(key, Finder::Dispatch, taken.into_iter().collect());
        }
    }
}
