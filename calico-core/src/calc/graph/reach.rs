//! The way back through the graph: from an object to the endpoints that it has a say about.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use super::super::event::{SetId, Stack};
use super::Graph;
use super::flush::Sent;
use crate::resource::{Kind, ResourceKey};

impl Graph {
    /// The active endpoints that an object has a say about, as of the last flush: those that a policy selects, that have a policy of a
    /// tier, that name a profile, whose rules select a network set, or that it is itself. Whether the object exists does not matter, but for
    /// a network set.
    ///
    /// For whoever asks now and then: it costs what it finds, for a profile a look at each endpoint, and for a network set one at each policy
    /// as well.
    pub fn endpoints_under(&self, key: &ResourceKey) -> BTreeSet<&ResourceKey> {
        let name = key.name().unwrap_or_default();
        match key.kind() {
            Kind::WorkloadEndpoint | Kind::HostEndpoint => self.active_key(key).into_iter().collect(),
            Kind::Profile => self.endpoints_with_profile(name).collect(),
            Kind::NetworkSet | Kind::GlobalNetworkSet => self.endpoints_that_select(key),
            // What is selected may be a host endpoint without an interface, which is not active.
            Kind::Tier => self.activation.endpoints_in_tier(name).filter_map(|one| self.active_key(one)).collect(),
            _ => self.activation.endpoints_of(key).filter_map(|one| self.active_key(one)).collect(),
        }
    }

    fn active_key(&self, key: &ResourceKey) -> Option<&ResourceKey> {
        let workload = self.endpoints.get_key_value(key).map(|(key, _)| key);
        workload.or_else(|| self.host_endpoints.get_key_value(key).map(|(key, _)| key))
    }

    fn endpoints_that_select(&self, network_set: &ResourceKey) -> BTreeSet<&ResourceKey> {
        let sets: BTreeSet<SetId> = self.sets.of_network_set(network_set).collect();
        let refers = |sent: &Sent| sent.selects(&sets);
        let policies = self.policies.iter().filter(|(_, sent)| refers(sent));
        let selected = policies.flat_map(|(policy, _)| self.activation.endpoints_of(policy));
        let selected = selected.filter_map(|one| self.active_key(one));
        let profiles = self.profiles.iter().filter(|(_, sent)| refers(sent));
        selected.chain(profiles.flat_map(|(name, _)| self.endpoints_with_profile(name))).collect()
    }

    fn endpoints_with_profile(&self, name: &str) -> impl Iterator<Item = &ResourceKey> {
        let workloads = self.endpoints.iter().map(|(key, endpoint)| (key, &endpoint.ingress));
        let hosts = self.host_endpoints.iter().map(|(key, endpoint)| (key, &endpoint.normal.ingress));
        let names = move |stack: &Arc<Stack>| stack.profiles.iter().any(|profile| *profile.0 == *name);
        workloads.chain(hosts).filter(move |(_, stack)| names(stack)).map(|(key, _)| key)
    }
}
