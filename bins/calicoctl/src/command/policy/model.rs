//! What follows from the resources: stacks, rules and sets of all hosts at once, and what is wrong with objects.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::calc::event::{EndpointId, HostInterfaces};
use calico_core::calc::{Abilities, Graph, Problem};
use calico_core::net::InterfaceName;
use calico_core::resource::{DefaultAction, HostEndpointSpec, Kind, Resource, ResourceKey};
use calico_core::update::Update;
use calico_core::verdict::{ActiveState, Compiled, Host, Node, Settings};

use super::hosts::{self, HostSettings};
use super::names::{Names, Party};
use super::picture::Picture;

/// The cluster, ready to be asked.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) picture: Picture,
    pub(super) names: Names,
    /// What is active, on all hosts at once.
    pub(super) compiled: Compiled,
    pub(super) problems: BTreeMap<ResourceKey, Vec<Problem>>,
    pub(super) settings: HostSettings,
    /// What stands for the interface of a host that leads elsewhere: which it is, only the host knows.
    pub(super) beyond: InterfaceName,
    /// Host endpoints by host.
    by_node: BTreeMap<String, Vec<EndpointId>>,
}

impl Model {
    pub(super) fn of(picture: Picture) -> Self {
        let prefixes = hosts::prefixes(&picture);
        let beyond = hosts::no_workloads(&prefixes);
        // Agents know services no better than what is described here: without their endpoints a condition on services is not understood.
        let abilities = Abilities { services: !picture.slices.is_empty(), ..Abilities::default() };
        let mut graph = Graph::of_cluster().with_workload_prefixes(prefixes).with_abilities(abilities);
        feed(&mut graph, &picture);
        let mut compiled = Compiled::default();
        graph.flush().iter().for_each(|event| compiled.apply(event));
        let mut problems: BTreeMap<ResourceKey, Vec<Problem>> = BTreeMap::new();
        for (key, problem) in graph.diagnostics() {
            problems.entry(key.clone()).or_default().push(problem.clone());
        }
        let mut by_node: BTreeMap<String, Vec<EndpointId>> = BTreeMap::new();
        for id in compiled.state().host_endpoints.keys() {
            if let Some(spec) = spec_of(&picture, &id.0) {
                by_node.entry(spec.node.clone()).or_default().push(id.clone());
            }
        }
        Self {
            names: Names::of(&picture),
            settings: HostSettings::of(&picture),
            compiled,
            problems,
            beyond,
            by_node,
            picture,
        }
    }

    /// What is active, as plain as it was told: for those who want reasons.
    pub(super) const fn state(&self) -> &ActiveState {
        self.compiled.state()
    }

    /// The host endpoint by which a host reaches others: the one that is given, or has the host's address, or the only one with an
    /// interface of its own, or that of all other interfaces.
    pub(super) fn uplink(&self, node: &str, given: Option<&ResourceKey>) -> Option<EndpointId> {
        let here = self.of_host(node);
        let chosen = match given {
            Some(key) => here.iter().find(|id| id.0 == *key),
            None => self.named_uplink(node),
        };
        chosen.or_else(|| here.iter().find(|id| self.is_other(id))).cloned()
    }

    /// An end as the matrix wants it.
    pub(super) fn node(&self, party: &Party) -> Node {
        let given = match party {
            Party::HostEndpoint { key, .. } => Some(key),
            _ => None,
        };
        let endpoint = match party {
            Party::Workload { key, .. } => Some(EndpointId(key.clone())),
            _ => None,
        };
        let host = party.node().map(|node| {
            let (uplink, settings) = (self.uplink(node, given), self.settings.own(node));
            Arc::new(Host { name: node.into(), uplink, settings })
        });
        Node { endpoint, addresses: party.addresses().to_vec(), host }
    }

    /// Whether the end of a tier with enforced policies denies.
    pub(super) fn denies_at_end(&self, tier: &str) -> bool {
        match self.picture.resources.get(&ResourceKey::cluster(Kind::Tier, tier)).map(|resource| &**resource) {
            Some(Resource::Tier(tier)) => tier.spec.default_action != Some(DefaultAction::Pass),
            _ => true,
        }
    }

    /// Settings of a host.
    pub(super) fn settings_of(&self, node: &str) -> &Settings {
        self.settings.of_node(node)
    }

    /// Whether it is not known which of the host's endpoints has the interface that leads elsewhere.
    pub(super) fn is_uplink_unknown(&self, node: &str) -> bool {
        self.of_host(node).iter().any(|id| !self.is_other(id)) && self.named_uplink(node).is_none()
    }

    fn of_host(&self, node: &str) -> &[EndpointId] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    fn named_uplink(&self, node: &str) -> Option<&EndpointId> {
        let named: Vec<_> = self.of_host(node).iter().filter(|id| !self.is_other(id)).collect();
        let is_hosts = |ip: &IpAddr| self.names.host_of(*ip) == Some(node);
        let has_address =
            |id: &EndpointId| spec_of(&self.picture, &id.0).is_some_and(|spec| spec.expected_ips.iter().any(is_hosts));
        let of_address = named.iter().find(|id| has_address(id)).copied();
        of_address.or_else(|| named.first().copied().filter(|_| named.len() == 1))
    }

    fn is_other(&self, id: &EndpointId) -> bool {
        self.state().host_endpoints.get(id).is_some_and(|endpoint| endpoint.interfaces == HostInterfaces::Others)
    }
}

fn spec_of<'p>(picture: &'p Picture, key: &ResourceKey) -> Option<&'p HostEndpointSpec> {
    match &**picture.resources.get(key)? {
        Resource::HostEndpoint(object) => Some(&object.spec),
        _ => None,
    }
}

fn feed(graph: &mut Graph, picture: &Picture) {
    for (key, resource) in &picture.resources {
        graph.handle_update(&Update { key: key.clone(), value: Some(resource.clone()) });
    }
    for (key, slice) in &picture.slices {
        graph.set_endpoint_slice(key, Some(slice.clone()));
    }
}
