//! What follows from the resources: stacks, rules and sets of all hosts at once, and what is wrong with objects.

use std::collections::BTreeMap;

use calico_core::calc::{Graph, Problem};
use calico_core::net::{FailsafePort, Failsafes, InterfaceName};
use calico_core::render::EndpointToHost;
use calico_core::resource::{FelixConfigurationSpec, Kind, ProtoPort, Resource, ResourceKey, SINGLE_NAME};
use calico_core::update::Update;
use calico_core::verdict::{ActiveState, Settings};

use super::names::Names;
use super::picture::Picture;

/// The cluster, ready to be asked.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) picture: Picture,
    pub(super) names: Names,
    pub(super) state: ActiveState,
    pub(super) problems: BTreeMap<ResourceKey, Vec<Problem>>,
    pub(super) settings: Settings,
}

impl Model {
    pub(super) fn of(picture: Picture) -> Self {
        let configuration = configuration(&picture);
        let mut graph = Graph::of_cluster().with_workload_prefixes(prefixes(configuration));
        feed(&mut graph, &picture);
        let mut state = ActiveState::default();
        graph.flush().iter().for_each(|event| state.apply(event));
        let mut problems: BTreeMap<ResourceKey, Vec<Problem>> = BTreeMap::new();
        for (key, problem) in graph.diagnostics() {
            problems.entry(key.clone()).or_default().push(problem.clone());
        }
        let settings = settings(configuration);
        Self { names: Names::of(&picture.resources), state, problems, settings, picture }
    }
}

fn feed(graph: &mut Graph, picture: &Picture) {
    for (key, resource) in &picture.resources {
        graph.handle_update(&Update { key: key.clone(), value: Some(resource.clone()) });
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
