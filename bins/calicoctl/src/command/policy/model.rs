//! What follows from the resources: stacks, rules and sets of all hosts at once, and what is wrong with objects.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use calico_core::calc::event::{ActiveHostEndpoint, EndpointId, HostInterfaces};
use calico_core::calc::{Graph, Problem};
use calico_core::net::{FailsafePort, Failsafes, InterfaceName};
use calico_core::render::EndpointToHost;
use calico_core::resource::{
    FelixConfigurationSpec, HostEndpointSpec, Kind, ProtoPort, Resource, ResourceKey, SINGLE_NAME,
};
use calico_core::update::Update;
use calico_core::verdict::{ActiveState, Compiled, Settings};

use super::names::Names;
use super::picture::Picture;

/// The cluster, ready to be asked.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) picture: Picture,
    pub(super) names: Names,
    /// Its host endpoints are those of the host that is being asked.
    pub(super) state: ActiveState,
    /// Those of all hosts.
    pub(super) host_endpoints: BTreeMap<EndpointId, Arc<ActiveHostEndpoint>>,
    /// The same for those who ask much and want no reasons.
    pub(super) compiled: Rc<Compiled>,
    pub(super) problems: BTreeMap<ResourceKey, Vec<Problem>>,
    pub(super) settings: Settings,
}

impl Model {
    pub(super) fn of(picture: Picture) -> Self {
        let configuration = configuration(&picture);
        let mut graph = Graph::of_cluster().with_workload_prefixes(prefixes(configuration));
        feed(&mut graph, &picture);
        let mut state = ActiveState::default();
        let mut compiled = Compiled::default();
        for event in graph.flush() {
            state.apply(&event);
            compiled.apply(&event);
        }
        let mut problems: BTreeMap<ResourceKey, Vec<Problem>> = BTreeMap::new();
        for (key, problem) in graph.diagnostics() {
            problems.entry(key.clone()).or_default().push(problem.clone());
        }
        let settings = settings(configuration);
        let host_endpoints = std::mem::take(&mut state.host_endpoints);
        Self {
            names: Names::of(&picture.resources),
            state,
            host_endpoints,
            compiled: Rc::new(compiled),
            problems,
            settings,
            picture,
        }
    }

    /// Makes a host's endpoints those that are asked: the one behind the interface that leads elsewhere, and that of all other interfaces.
    /// The former may be given; or else it is the one that has the host's address, or the only one with an interface of its own.
    pub(super) fn enter(&mut self, node: &str, given: Option<&ResourceKey>, uplink: InterfaceName) {
        self.state.host_endpoints.clear();
        if self.host_endpoints.is_empty() {
            return;
        }
        let here = self.of_host(node);
        let chosen = match given {
            Some(key) => here.iter().find(|(id, _)| id.0 == *key).copied(),
            None => self.uplink_of(node),
        };
        let chosen = chosen.map(|(id, endpoint)| ((*id).clone(), (*endpoint).clone()));
        let others = here
            .iter()
            .find(|(_, endpoint)| is_other(endpoint))
            .map(|(id, endpoint)| ((*id).clone(), (*endpoint).clone()));
        self.state.host_endpoints.extend(others);
        if let Some((id, endpoint)) = chosen {
            let interfaces = match endpoint.interfaces {
                HostInterfaces::Others => {
                    // Of several the one that is asked.
                    self.state.host_endpoints.clear();
                    HostInterfaces::Others
                }
                HostInterfaces::Named(_) => HostInterfaces::Named(vec![uplink]),
            };
            self.state.host_endpoints.insert(id, Arc::new(ActiveHostEndpoint { interfaces, ..(*endpoint).clone() }));
        }
    }

    /// Whether it is not known which of the host's endpoints has the interface that leads elsewhere.
    pub(super) fn is_uplink_unknown(&self, node: &str) -> bool {
        self.of_host(node).iter().any(|(_, endpoint)| !is_other(endpoint)) && self.uplink_of(node).is_none()
    }

    fn of_host(&self, node: &str) -> Vec<(&EndpointId, &Arc<ActiveHostEndpoint>)> {
        let here = |id: &EndpointId| self.spec_of(&id.0).is_some_and(|spec| spec.node == node);
        self.host_endpoints.iter().filter(|(id, _)| here(id)).collect()
    }

    fn uplink_of(&self, node: &str) -> Option<(&EndpointId, &Arc<ActiveHostEndpoint>)> {
        let named: Vec<_> = self.of_host(node).into_iter().filter(|(_, endpoint)| !is_other(endpoint)).collect();
        let is_hosts = |ip: &IpAddr| self.names.host_of(*ip) == Some(node);
        let has_address =
            |id: &EndpointId| self.spec_of(&id.0).is_some_and(|spec| spec.expected_ips.iter().any(is_hosts));
        let of_address = named.iter().find(|(id, _)| has_address(id)).copied();
        of_address.or_else(|| named.first().filter(|_| named.len() == 1).copied())
    }

    fn spec_of(&self, key: &ResourceKey) -> Option<&HostEndpointSpec> {
        match &**self.picture.resources.get(key)? {
            Resource::HostEndpoint(object) => Some(&object.spec),
            _ => None,
        }
    }
}

fn is_other(endpoint: &ActiveHostEndpoint) -> bool {
    endpoint.interfaces == HostInterfaces::Others
}

fn feed(graph: &mut Graph, picture: &Picture) {
    for (key, resource) in &picture.resources {
        graph.handle_update(&Update { key: key.clone(), value: Some(resource.clone()) });
    }
    for (key, slice) in &picture.slices {
        graph.set_endpoint_slice(key, Some(slice.clone()));
    }
}

/// What all hosts are set to, unless their own environment says otherwise.
fn configuration(picture: &Picture) -> Option<&FelixConfigurationSpec> {
    let key = ResourceKey::cluster(Kind::FelixConfiguration, SINGLE_NAME);
    match &**picture.resources.get(&key)? {
        Resource::FelixConfiguration(object) => Some(&object.spec),
        _ => None,
    }
}

fn prefixes(configuration: Option<&FelixConfigurationSpec>) -> Vec<InterfaceName> {
    let given = configuration.map(|spec| spec.interface_prefix.as_str()).unwrap_or_default();
    let prefixes: Vec<_> = given.split(',').filter_map(|prefix| prefix.trim().parse().ok()).collect();
    if prefixes.is_empty() { vec![InterfaceName::CALI] } else { prefixes }
}

fn settings(configuration: Option<&FelixConfigurationSpec>) -> Settings {
    let mut settings = Settings::default();
    let Some(spec) = configuration else { return settings };
    settings.host.endpoint_to_host = match spec.default_endpoint_to_host_action.to_ascii_lowercase().as_str() {
        "accept" => EndpointToHost::Accept,
        "return" => EndpointToHost::Return,
        _ => EndpointToHost::Drop,
    };
    if let Some(port) = spec.vxlan_port.and_then(|port| u16::try_from(port).ok()) {
        settings.host.vxlan_port = port;
    }
    let defaults = Failsafes::default();
    let list = |given: &Option<Vec<ProtoPort>>, default| match given {
        Some(ports) => ports.iter().filter_map(failsafe).collect(),
        None => default,
    };
    settings.failsafes = Failsafes {
        inbound: list(&spec.failsafe_inbound_host_ports, defaults.inbound),
        outbound: list(&spec.failsafe_outbound_host_ports, defaults.outbound),
    };
    settings
}

fn failsafe(port: &ProtoPort) -> Option<FailsafePort> {
    let protocol = if port.protocol.is_empty() { Some(6) } else { super::traffic::protocol(&port.protocol).ok() }?;
    Some(FailsafePort { protocol, net: port.net.parse().ok(), port: port.port? })
}
