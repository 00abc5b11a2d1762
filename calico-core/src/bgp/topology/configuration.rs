//! BGPConfiguration: `default` for the cluster, `node.NAME` for one node.
//!
//! Of `node.NAME` upstream reads three fields: `listenPort`, `prefixAdvertisements` with `communities` (they replace the cluster's), and
//! `logSeverityScreen`. So do we; whatever else stands there is told.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::bfd::BfdConfig;
use super::problem::BgpProblem;
use super::secrets::KeyRef;
use crate::bgp::{ByFamily, Community, NORMAL_PRIORITY};
use crate::net::{AsNumber, Cidr};
use crate::resource::{
    Aggregation, BgpConfigurationSpec, BindMode, GoDuration, Metadata, Object, Resource, ServiceRange,
};

/// Longest restart time that a peer can be told: 12 bits (RFC 4724 3).
pub(super) const LONGEST_RESTART: u16 = 4095;

/// All configurations, and what follows from them here.
#[derive(Debug, Clone, Default)]
pub(super) struct Configuration {
    resources: BTreeMap<Arc<str>, Arc<Resource>>,
    settings: Settings,
    problems: BTreeMap<Arc<str>, Vec<BgpProblem>>,
    /// Ports that nodes listen on, by node.
    ports: BTreeMap<Arc<str>, u16>,
}

/// What counts on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) as_number: AsNumber,
    pub(super) mesh: bool,
    /// Port that nodes listen on which have none of their own.
    pub(super) port: Option<u16>,
    pub(super) own_addresses: bool,
    pub(super) mesh_password: KeyRef,
    pub(super) mesh_restart: Option<u16>,
    pub(super) mesh_bfd: Option<BfdConfig>,
    pub(super) communities: Vec<(Cidr, Vec<Community>)>,
    pub(super) services: ServiceRanges,
    pub(super) program: ClusterRoutes,
    pub(super) normal_priority: ByFamily<u32>,
    /// Addresses that local workloads have their sessions with.
    pub(super) workload_gateway: ByFamily<Option<IpAddr>>,
}

/// Ranges of services' addresses that are announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceRanges {
    pub(super) cluster: Vec<Cidr>,
    pub(super) external: Vec<Cidr>,
    pub(super) load_balancer: Vec<Cidr>,
    /// Load balancers' ranges are announced whole.
    pub(super) aggregated: bool,
}

/// Which classes of the cluster's routes somebody programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClusterRoutes {
    pub(super) tunnelled: bool,
    pub(super) plain: bool,
}

impl ClusterRoutes {
    /// As `programClusterRoutes` says it, in either configuration.
    pub(super) fn read(text: Option<&str>) -> Option<Self> {
        Some(match text? {
            "Enabled" => Self { tunnelled: true, plain: true },
            "Disabled" => Self { tunnelled: false, plain: false },
            "EnabledIPIPOnly" => Self { tunnelled: true, plain: false },
            "EnabledNoEncapOnly" => Self { tunnelled: false, plain: true },
            _ => return None,
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            as_number: AsNumber::DEFAULT,
            mesh: true,
            port: None,
            own_addresses: false,
            mesh_password: KeyRef::default(),
            mesh_restart: None,
            mesh_bfd: None,
            communities: Vec::new(),
            services: ServiceRanges {
                cluster: Vec::new(),
                external: Vec::new(),
                load_balancer: Vec::new(),
                aggregated: true,
            },
            program: ClusterRoutes { tunnelled: false, plain: true },
            normal_priority: ByFamily { ipv4: NORMAL_PRIORITY, ipv6: NORMAL_PRIORITY },
            workload_gateway: ByFamily::default(),
        }
    }
}

impl Configuration {
    /// Takes in one configuration. Tells whether anything changed.
    pub(super) fn set(&mut self, node: &str, name: &Arc<str>, value: Option<&Arc<Resource>>) -> bool {
        let value = value.filter(|value| matches!(***value, Resource::BgpConfiguration(_)));
        if self.resources.get(name) == value {
            return false;
        }
        match value {
            Some(value) => self.resources.insert(name.clone(), value.clone()),
            None => self.resources.remove(name),
        };
        self.problems.remove(name);
        if let Some(of) = name.strip_prefix("node.") {
            self.ports.remove(of);
        }
        if let Some(Resource::BgpConfiguration(object)) = value.map(|value| &**value) {
            let mut problems: Vec<_> = object.metadata.unread.iter().cloned().map(BgpProblem::NotUnderstood).collect();
            match name.strip_prefix("node.") {
                Some(of) => {
                    self.ports.extend(object.spec.listen_port.filter(|port| *port != 0).map(|port| (of.into(), port)));
                    only_on_default(&object.spec, &mut problems);
                    if of != node {
                        // What that node finds in it, it tells itself.
                        problems.truncate(0);
                    }
                }
                None if **name != *"default" => problems.push(BgpProblem::UnusedConfiguration),
                None => {}
            }
            self.problems.insert(name.clone(), problems);
        }
        self.compile(node)
    }

    /// What counts here.
    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The port that a node listens on, if any configuration says so.
    pub(super) fn port(&self, node: &str) -> Option<u16> {
        self.ports.get(node).copied().or(self.settings.port)
    }

    /// What is odd, by name of the configuration.
    pub(super) fn problems(&self) -> impl Iterator<Item = (&Arc<str>, &BgpProblem)> {
        self.problems.iter().flat_map(|(name, problems)| problems.iter().map(move |problem| (name, problem)))
    }

    /// Names of nodes that have one of their own.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.resources.keys().filter_map(|name| name.strip_prefix("node."))
    }

    fn object(&self, name: &str) -> Option<&Object<BgpConfigurationSpec>> {
        match self.resources.get(name).map(|value| &**value) {
            Some(Resource::BgpConfiguration(object)) => Some(object),
            _ => None,
        }
    }

    /// Works the settings out again; the problems of both objects that count are those found now.
    fn compile(&mut self, node: &str) -> bool {
        let own_name = ["node.", node].concat();
        let (mut of_default, mut of_node) = (Vec::new(), Vec::new());
        let mut settings = match self.object("default") {
            Some(object) => Settings::new(&object.metadata, &object.spec, &mut of_default),
            None => Settings::default(),
        };
        if let Some(object) = self.object(&own_name) {
            if !object.spec.prefix_advertisements.is_empty() {
                settings.communities = communities(&object.spec, &mut of_node);
            }
            tell_log(&object.spec, &mut of_node);
        }
        for (name, found) in [("default", of_default), (own_name.as_str(), of_node)] {
            if let Some(problems) = self.problems.get_mut(name) {
                problems.retain(is_of_the_object_alone);
                problems.extend(found);
            }
        }
        self.settings = settings;
        true
    }
}

/// Whether it was found when the object came, and not when the settings were worked out.
const fn is_of_the_object_alone(problem: &BgpProblem) -> bool {
    matches!(problem, BgpProblem::NotUnderstood(_) | BgpProblem::OnlyOnDefault(_) | BgpProblem::UnusedConfiguration)
}

impl Settings {
    fn new(metadata: &Metadata, spec: &BgpConfigurationSpec, problems: &mut Vec<BgpProblem>) -> Self {
        let mut settings = Self::default();
        match spec.as_number {
            Some(number) if number.is_nobodys() => problems.push(BgpProblem::NobodysAs("asNumber")),
            Some(number) => settings.as_number = number,
            None => {}
        }
        settings.mesh = spec.node_to_node_mesh_enabled != Some(false);
        settings.port = spec.listen_port.filter(|port| *port != 0);
        settings.own_addresses = spec.bind_mode == Some(BindMode::NodeIP);
        settings.mesh_password = KeyRef::new(spec.node_mesh_password.as_ref());
        let longest = u32::from(LONGEST_RESTART);
        settings.mesh_restart =
            whole_seconds("nodeMeshMaxRestartTime", spec.node_mesh_max_restart_time, 0..=longest, problems);
        settings.mesh_bfd = BfdConfig::read(metadata).unwrap_or_else(|error| {
            problems.push(BgpProblem::Bfd(error));
            None
        });
        settings.communities = communities(spec, problems);
        settings.services = ServiceRanges {
            cluster: ranges("serviceClusterIPs", &spec.service_cluster_ips, problems),
            external: ranges("serviceExternalIPs", &spec.service_external_ips, problems),
            load_balancer: ranges("serviceLoadBalancerIPs", &spec.service_load_balancer_ips, problems),
            aggregated: spec.service_load_balancer_aggregation != Some(Aggregation::Disabled),
        };
        if let Some(text) = &spec.program_cluster_routes {
            match ClusterRoutes::read(Some(text)) {
                Some(program) => settings.program = program,
                None => problems.push(BgpProblem::Text {
                    field: "programClusterRoutes",
                    text: text.clone(),
                    expected: "word that is known",
                    effect: "EnabledNoEncapOnly counts",
                }),
            }
        }
        settings.normal_priority = ByFamily {
            ipv4: priority("ipv4NormalRoutePriority", spec.ipv4_normal_route_priority, problems),
            ipv6: priority("ipv6NormalRoutePriority", spec.ipv6_normal_route_priority, problems),
        };
        settings.workload_gateway = ByFamily {
            ipv4: spec.local_workload_peering_ipv4.map(IpAddr::V4),
            ipv6: spec.local_workload_peering_ipv6.map(IpAddr::V6),
        };
        if !spec.ignored_interfaces.is_empty() {
            let reason = "no interface's addresses are announced, so there are none to leave out";
            problems.push(BgpProblem::NotCarriedOut { field: "ignoredInterfaces", reason });
        }
        tell_log(spec, problems);
        settings
    }
}

fn tell_log(spec: &BgpConfigurationSpec, problems: &mut Vec<BgpProblem>) {
    if !spec.log_severity_screen.is_empty() && !spec.log_severity_screen.eq_ignore_ascii_case("Info") {
        let reason = "what the agent logs is said when it is started";
        problems.push(BgpProblem::NotCarriedOut { field: "logSeverityScreen", reason });
    }
}

fn only_on_default(spec: &BgpConfigurationSpec, problems: &mut Vec<BgpProblem>) {
    // Named here one by one, so that a new field cannot be forgotten.
    let BgpConfigurationSpec {
        log_severity_screen: _,
        node_to_node_mesh_enabled,
        as_number,
        service_load_balancer_ips,
        service_external_ips,
        service_cluster_ips,
        // Filled in by defaults.
        service_load_balancer_aggregation,
        communities: _,
        prefix_advertisements: _,
        listen_port: _,
        node_mesh_password,
        node_mesh_max_restart_time,
        bind_mode,
        ignored_interfaces,
        local_workload_peering_ipv4,
        local_workload_peering_ipv6,
        program_cluster_routes,
        ipv4_normal_route_priority,
        ipv6_normal_route_priority,
    } = spec;
    let given = [
        ("nodeToNodeMeshEnabled", node_to_node_mesh_enabled.is_some()),
        ("asNumber", as_number.is_some()),
        ("serviceLoadBalancerIPs", !service_load_balancer_ips.is_empty()),
        ("serviceExternalIPs", !service_external_ips.is_empty()),
        ("serviceClusterIPs", !service_cluster_ips.is_empty()),
        ("serviceLoadBalancerAggregation", *service_load_balancer_aggregation == Some(Aggregation::Disabled)),
        ("nodeMeshPassword", node_mesh_password.is_some()),
        ("nodeMeshMaxRestartTime", node_mesh_max_restart_time.is_some()),
        ("bindMode", bind_mode.is_some()),
        ("ignoredInterfaces", !ignored_interfaces.is_empty()),
        ("localWorkloadPeeringIPV4", local_workload_peering_ipv4.is_some()),
        ("localWorkloadPeeringIPV6", local_workload_peering_ipv6.is_some()),
        ("programClusterRoutes", program_cluster_routes.is_some()),
        ("ipv4NormalRoutePriority", ipv4_normal_route_priority.is_some()),
        ("ipv6NormalRoutePriority", ipv6_normal_route_priority.is_some()),
    ];
    problems.extend(given.into_iter().filter(|(_, given)| *given).map(|(field, _)| BgpProblem::OnlyOnDefault(field)));
}

/// Communities by prefix; names are those that the same object defines.
fn communities(spec: &BgpConfigurationSpec, problems: &mut Vec<BgpProblem>) -> Vec<(Cidr, Vec<Community>)> {
    let named: BTreeMap<&str, &str> =
        spec.communities.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
    let mut found = Vec::new();
    for advertisement in &spec.prefix_advertisements {
        let Some(cidr) = range("prefixAdvertisements", &advertisement.cidr, problems) else { continue };
        let mut communities = Vec::new();
        for text in &advertisement.communities {
            match text.parse().or_else(|error| named.get(text.as_str()).map_or(Err(error), |value| value.parse())) {
                Ok(community) => communities.push(community),
                Err(_) => problems.push(BgpProblem::NoSuchCommunity(text.clone())),
            }
        }
        communities.sort_unstable();
        communities.dedup();
        found.push((cidr, communities));
    }
    found
}

fn ranges(field: &'static str, ranges: &[ServiceRange], problems: &mut Vec<BgpProblem>) -> Vec<Cidr> {
    let mut found: Vec<Cidr> = ranges.iter().filter_map(|one| range(field, &one.cidr, problems)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn range(field: &'static str, text: &str, problems: &mut Vec<BgpProblem>) -> Option<Cidr> {
    let cidr = text.parse().ok();
    if cidr.is_none() {
        let (text, expected) = (String::from(text), "prefix");
        problems.push(BgpProblem::Text { field, text, expected, effect: "it is left out" });
    }
    cidr
}

/// A metric as configurations give it.
pub(super) fn priority(field: &'static str, given: Option<i64>, problems: &mut Vec<BgpProblem>) -> u32 {
    let Some(given) = given else { return NORMAL_PRIORITY };
    let metric = u32::try_from(given).ok().filter(|metric| (1..=2_147_483_646).contains(metric));
    metric.unwrap_or_else(|| {
        problems.push(BgpProblem::OutOfRange { field, used: NORMAL_PRIORITY });
        NORMAL_PRIORITY
    })
}

/// Whole seconds, rounded as upstream does, and within what can be said.
pub(super) fn whole_seconds(
    field: &'static str,
    given: Option<GoDuration>,
    bounds: core::ops::RangeInclusive<u32>,
    problems: &mut Vec<BgpProblem>,
) -> Option<u16> {
    let seconds = given?.nanos().saturating_add(500_000_000).div_euclid(1_000_000_000);
    let used = seconds.clamp(i64::from(*bounds.start()), i64::from(*bounds.end()));
    if used != seconds {
        problems.push(BgpProblem::OutOfRange { field, used: u32::try_from(used).unwrap_or_default() });
    }
    u16::try_from(used).ok()
}
