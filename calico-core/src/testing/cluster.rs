//! Random clusters over a few names, so that objects meet: endpoints on two hosts, sets, profiles, tiers, policies, flows.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::Random;
use crate::flow::Flow;
use crate::net::{Cidr, Port, PortRange, Protocol};
use crate::resource::{
    Action, DefaultAction, EndpointPort, EntityRule, Fault, GlobalNetworkPolicySpec, HttpMatch, Icmp, Kind, Metadata,
    NAMESPACE_LABEL, NetworkPolicySpec, NetworkSetSpec, Object, PolicyType, ProfileSpec, Resource, ResourceKey, Rule,
    ServiceAccountMatch, ServiceMatch, Tier, TierSpec, Unread, WorkloadEndpointSpec,
};
use crate::text::{Text, TextMap};
use crate::update::Update;

/// The host whose graph the tests run.
pub const HOST: &str = "node-1";

pub(super) const NAMESPACES: [&str; 2] = ["one", "two"];
pub(super) const PROFILES: [&str; 4] = ["kns.one", "kns.two", "ksa.one.robot", "extra"];
const TIERS: [&str; 3] = ["default", "early", "late"];
pub(super) const PORT_NAMES: [&str; 2] = ["web", "dns"];
const PORTS: [u16; 4] = [53, 80, 443, 8080];
const SELECTORS: [&str; 12] = [
    "all()",
    "app == 'web'",
    "app in {'web', 'db'} && has(tier)",
    "!has(app)",
    "tier != 'front'",
    "app starts with 'd' || tier == 'back'",
    "app not in {'db'}",
    "projectcalico.org/serviceaccount == 'robot'",
    "pcns.team == 'red'",
    "has(pcsa.role)",
    "tier contains 'o' && !(app == 'db')",
    "projectcalico.org/namespace == 'one'",
];
const SCOPES: [&str; 6] = ["all()", "global()", "team == 'red'", "has(team)", "team != 'blue'", "!has(team)"];

/// Makes random objects and flows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Generator {
    /// Where the choices come from.
    pub random: Random,
    /// Whether some objects are unusable or carry conditions that cannot be carried out.
    pub faults: bool,
}

impl Generator {
    /// A generator that makes usable objects only.
    pub const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), faults: false }
    }

    /// A generator that also makes unusable objects.
    pub const fn with_faults(seed: u64) -> Self {
        Self { random: Random::new(seed), faults: true }
    }

    /// New state of a random key; of three updates one or so removes.
    pub fn update(&mut self) -> Update {
        let key = self.key();
        let value = (!self.random.chance(25)).then(|| Arc::new(self.resource(&key)));
        Update { key, value }
    }

    /// A whole cluster.
    pub fn cluster(&mut self, updates: usize) -> BTreeMap<ResourceKey, Arc<Resource>> {
        let mut objects = BTreeMap::new();
        for _ in 0..updates {
            let Update { key, value } = self.update();
            match value {
                Some(value) => objects.insert(key, value),
                None => objects.remove(&key),
            };
        }
        objects
    }

    /// A flow between addresses that clusters of this generator have, or nearly have.
    pub fn flow(&mut self) -> Flow {
        let v6 = self.random.chance(30);
        self.flow_of(v6)
    }

    pub(super) fn flow_of(&mut self, v6: bool) -> Flow {
        let protocol = self.random.pick(&[6, 6, 17, 17, 132, if v6 { 58 } else { 1 }, 136, 47]);
        let ports = matches!(protocol, 6 | 17 | 132 | 136);
        let mut port = || if ports { self.random.pick(&PORTS) } else { 0 };
        let (source_port, destination_port) = (port(), port());
        let icmp = matches!(protocol, 1 | 58).then(|| (self.random.pick(&[0, 3, 8, 128]), self.random.pick(&[0, 1])));
        let (source, destination) = (self.address(v6), self.address(v6));
        Flow { source, destination, protocol, source_port, destination_port, icmp }
    }

    fn key(&mut self) -> ResourceKey {
        let namespace = self.random.pick(&NAMESPACES);
        let number = self.random.below(4);
        match self.random.below(20) {
            0..=5 => ResourceKey::namespaced(Kind::WorkloadEndpoint, namespace, &format!("pod-{number}")),
            6..=7 => ResourceKey::cluster(Kind::Profile, self.random.pick(&PROFILES)),
            8 => ResourceKey::cluster(Kind::Tier, self.random.pick(&TIERS)),
            9 => ResourceKey::namespaced(Kind::NetworkSet, namespace, &format!("set-{}", number % 2)),
            10 => ResourceKey::cluster(Kind::GlobalNetworkSet, &format!("set-{}", number % 2)),
            11..=15 => ResourceKey::namespaced(Kind::NetworkPolicy, namespace, &format!("policy-{number}")),
            _ => ResourceKey::cluster(Kind::GlobalNetworkPolicy, &format!("policy-{number}")),
        }
    }

    fn resource(&mut self, key: &ResourceKey) -> Resource {
        let kind = key.kind();
        let kind = if self.faults && self.random.chance(1) { Kind::Tier } else { kind };
        let metadata = self.metadata(key);
        match kind {
            Kind::WorkloadEndpoint => Resource::WorkloadEndpoint(Object { metadata, spec: self.endpoint(key) }),
            Kind::Profile => Resource::Profile(Object { metadata, spec: self.profile() }),
            Kind::NetworkSet => Resource::NetworkSet(Object { metadata, spec: self.set() }),
            Kind::GlobalNetworkSet => Resource::GlobalNetworkSet(Object { metadata, spec: self.set() }),
            Kind::NetworkPolicy => Resource::NetworkPolicy(Object { metadata, spec: self.network_policy() }),
            Kind::GlobalNetworkPolicy => {
                Resource::GlobalNetworkPolicy(Object { metadata, spec: self.global_network_policy() })
            }
            _ => Resource::Tier(Tier::new(metadata, self.tier())),
        }
    }

    pub(super) fn metadata(&mut self, key: &ResourceKey) -> Metadata {
        let mut labels = self.labels(&[("app", &["web", "db"]), ("tier", &["front", "back"])]);
        if let (Kind::WorkloadEndpoint | Kind::NetworkSet, Some(namespace)) = (key.kind(), key.namespace()) {
            // What is stored may lie about the namespace, or not speak of it.
            let claimed = self.random.pick(&[Some(namespace), Some(namespace), Some("two"), None]);
            labels.extend(claimed.map(|claimed| (NAMESPACE_LABEL.into(), claimed.into())));
        }
        Metadata {
            name: key.name().unwrap_or_default().into(),
            namespace: key.namespace().map(ToString::to_string),
            labels,
            ..Metadata::default()
        }
    }

    pub(super) fn labels(&mut self, choices: &[(&str, &[&str])]) -> TextMap {
        let mut labels = TextMap::new();
        for (name, values) in choices {
            if self.random.chance(60) {
                labels.insert((*name).into(), (*self.random.pick(values)).into());
            }
        }
        labels
    }

    fn endpoint(&mut self, key: &ResourceKey) -> WorkloadEndpointSpec {
        let name = key.name().unwrap_or_default();
        let number: u8 = name.trim_start_matches("pod-").parse().unwrap_or_default();
        // The last pod of each namespace claims the interface of the first, as while a pod is replaced.
        let number = if number == 3 { 0 } else { number };
        let space = u8::from(key.namespace() == Some("two"));
        let mut nets = vec![Cidr::host(IpAddr::from([10, 0, space, number]))];
        if self.random.chance(40) {
            nets.push(Cidr::host(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, space.into(), number.into()])));
        }
        if self.faults && self.random.chance(5) {
            // Another endpoint's, as after an address was given out twice.
            nets.push(Cidr::host(IpAddr::from([10, 0, space, (number + 1) % 3])));
            // One that cannot be a workload's.
            nets.push(Cidr::host(IpAddr::from([127, 0, 0, number])));
        }
        if self.faults && self.random.chance(5) {
            nets.clear();
        }
        let interface = format!("cali{space}{number}").parse().ok();
        WorkloadEndpointSpec {
            orchestrator: "k8s".into(),
            node: self.random.pick(&[HOST, HOST, "node-2"]).into(),
            service_account_name: self.random.pick(&["", "robot"]).into(),
            ip_networks: nets,
            profiles: self.some(&PROFILES, 50).into_iter().map(Text::from).collect(),
            interface_name: interface.filter(|_| !(self.faults && self.random.chance(5))),
            ports: self.endpoint_ports(),
            ..WorkloadEndpointSpec::default()
        }
    }

    fn endpoint_ports(&mut self) -> Vec<EndpointPort> {
        let mut ports = Vec::new();
        for name in PORT_NAMES {
            if self.random.chance(50) {
                ports.push(EndpointPort {
                    name: name.into(),
                    protocol: self.random.pick(&[Protocol::TCP, Protocol::UDP]),
                    port: self.random.pick(&PORTS),
                    host_port: 0,
                    host_ip: Text::default(),
                });
            }
        }
        ports
    }

    fn profile(&mut self) -> ProfileSpec {
        let labels = self.labels(&[
            ("pcns.team", &["red", "blue"]),
            ("pcsa.role", &["reader", "writer"]),
            ("app", &["web", "inherited"]),
        ]);
        ProfileSpec { ingress: self.rules(None, true), egress: self.rules(None, true), labels_to_apply: labels }
    }

    fn set(&mut self) -> NetworkSetSpec {
        let nets =
            ["10.0.0.0/24", "10.0.0.0/30", "10.0.1.1/32", "192.0.2.0/28", "192.0.2.5/32", "fd00::/64", "0.0.0.0/0"];
        NetworkSetSpec { nets: self.nets(&nets, 30), unread: None }
    }

    fn tier(&mut self) -> TierSpec {
        TierSpec {
            order: self.order(),
            default_action: self.random.pick(&[None, Some(DefaultAction::Deny), Some(DefaultAction::Pass)]),
        }
    }

    fn order(&mut self) -> Option<f64> {
        self.random.pick(&[None, Some(10.0), Some(20.0), Some(-1.5)])
    }

    pub(super) fn network_policy(&mut self) -> NetworkPolicySpec {
        NetworkPolicySpec {
            tier: self.random.pick(&["", "default", "early", "late"]).into(),
            order: self.order(),
            ingress: self.rules(Some(PolicyType::Ingress), false),
            egress: self.rules(Some(PolicyType::Egress), false),
            selector: self.selector(70),
            types: self.types(),
            service_account_selector: self.random.pick(&["", "", "", "role == 'reader'", "all()"]).into(),
            ..NetworkPolicySpec::default()
        }
    }

    pub(super) fn global_network_policy(&mut self) -> GlobalNetworkPolicySpec {
        GlobalNetworkPolicySpec {
            tier: self.random.pick(&["", "default", "early", "late"]).into(),
            order: self.order(),
            ingress: self.rules(Some(PolicyType::Ingress), false),
            egress: self.rules(Some(PolicyType::Egress), false),
            selector: self.selector(80),
            types: self.types(),
            do_not_track: self.random.chance(3),
            namespace_selector: self.random.pick(&["", "", "all()", "team == 'red'"]).into(),
            service_account_selector: self.random.pick(&["", "", "", "has(role)", "all()"]).into(),
            ..GlobalNetworkPolicySpec::default()
        }
    }

    fn types(&mut self) -> Vec<PolicyType> {
        self.random.pick(&[
            vec![],
            vec![PolicyType::Ingress],
            vec![PolicyType::Egress],
            vec![PolicyType::Ingress, PolicyType::Egress],
        ])
    }

    fn selector(&mut self, percent: usize) -> String {
        if self.faults && self.random.chance(3) {
            return "app = 'web'".into();
        }
        if self.random.chance(percent) { self.random.pick(&SELECTORS).into() } else { String::new() }
    }

    /// Rules of one list; those of profiles mostly allow.
    fn rules(&mut self, direction: Option<PolicyType>, profile: bool) -> Vec<Rule> {
        let count = self.random.below(4);
        let mut rules: Vec<Rule> = (0..count).map(|_| self.rule(direction)).collect();
        if profile && self.random.chance(60) {
            rules.push(Rule::default());
        }
        rules
    }

    fn rule(&mut self, direction: Option<PolicyType>) -> Rule {
        let protocols = [Protocol::TCP, Protocol::UDP, Protocol::SCTP, Protocol::ICMP, Protocol::ICMPV6];
        let protocol = self.random.chance(50).then(|| self.random.pick(&protocols));
        let ports = protocol.is_some_and(Protocol::has_ports);
        let icmp = protocol.is_some_and(|protocol| matches!(protocol.number(), 1 | 58));
        let icmp_type = |random: &mut Random| Icmp {
            icmp_type: Some(random.pick(&[0, 3, 8, 128])),
            code: random.chance(30).then(|| random.pick(&[0, 1])),
        };
        let mut rule = Rule {
            action: self.random.pick(&[
                Action::Allow,
                Action::Allow,
                Action::Deny,
                Action::Deny,
                Action::Pass,
                Action::Log,
            ]),
            ip_version: self.random.pick(&[None, None, None, Some(4), Some(6)]),
            protocol,
            not_protocol: self.random.chance(10).then(|| self.random.pick(&protocols)),
            icmp: (icmp && self.random.chance(50)).then(|| icmp_type(&mut self.random)),
            not_icmp: (icmp && self.random.chance(20)).then(|| icmp_type(&mut self.random)),
            source: self.entity(ports, protocol.is_none()),
            destination: self.entity(ports, protocol.is_none()),
            ..Rule::default()
        };
        // The names of the ICMP protocols imply a family, and the API refuses the other one.
        match protocol {
            Some(Protocol::ICMP) => rule.ip_version = rule.ip_version.map(|_| 4),
            Some(Protocol::ICMPV6) => rule.ip_version = rule.ip_version.map(|_| 6),
            _ => {}
        }
        if self.faults && self.random.chance(6) {
            self.spoil(&mut rule, direction);
        }
        rule
    }

    /// Adds a condition that cannot be carried out.
    fn spoil(&mut self, rule: &mut Rule, direction: Option<PolicyType>) {
        match self.random.below(6) {
            5 => {
                let fault = Fault::value("spec.ingress[0].newer", None, "not known");
                rule.unread = Some(Box::new(Unread::new(vec![fault], serde_json::Value::Null)));
            }
            0 => rule.http = Some(HttpMatch::default()),
            1 => rule.ip_version = Some(5),
            2 => rule.source.not_selector = "has(".into(),
            3 => rule.icmp = Some(Icmp { icmp_type: None, code: Some(1) }),
            _ => {
                let services = Some(ServiceMatch { name: String::new(), namespace: "one".into() });
                match direction {
                    Some(PolicyType::Egress) => rule.destination.services = services,
                    _ => rule.source.services = services,
                }
            }
        }
    }

    fn entity(&mut self, numbers: bool, names: bool) -> EntityRule {
        if self.random.chance(35) {
            return EntityRule::default();
        }
        let nets = ["10.0.0.0/24", "10.0.1.0/31", "10.0.1.2/32", "192.0.2.0/24", "fd00::/64", "fd00::1:0/112"];
        let not_nets = ["10.0.0.1/32", "10.0.1.0/24", "fd00::2/128", "0.0.0.0/0", "192.0.2.5/32"];
        EntityRule {
            nets: self.nets(&nets, 8),
            not_nets: self.nets(&not_nets, 5),
            selector: self.selector(40),
            not_selector: self.selector(12),
            namespace_selector: if self.random.chance(20) { self.random.pick(&SCOPES).into() } else { String::new() },
            ports: self.ports(numbers, names, 30),
            not_ports: self.ports(numbers, names, 10),
            service_accounts: self.random.chance(10).then(|| ServiceAccountMatch {
                names: self.random.pick(&[vec![], vec!["robot".to_string()], vec!["robot".into(), "other".into()]]),
                selector: self.random.pick(&["", "role == 'reader'", "all()"]).into(),
            }),
            services: None,
        }
    }

    fn ports(&mut self, numbers: bool, names: bool, percent: usize) -> Vec<Port> {
        let mut ports = Vec::new();
        if !(numbers || names) || !self.random.chance(percent) {
            return ports;
        }
        for _ in 0..=self.random.below(2) {
            ports.push(if numbers && self.random.chance(60) {
                let (low, high) = self.random.pick(&[(53, 53), (80, 443), (8080, 8080), (1, 65535)]);
                PortRange::new(low, high).map_or_else(|| Port::Named("web".into()), Port::Range)
            } else {
                Port::Named(self.random.pick(&PORT_NAMES).into())
            });
        }
        ports
    }

    fn nets(&mut self, choices: &[&str], percent: usize) -> Vec<Cidr> {
        self.some(choices, percent).into_iter().filter_map(|text| text.parse().ok()).collect()
    }

    pub(super) fn some<'a>(&mut self, choices: &[&'a str], percent: usize) -> Vec<&'a str> {
        choices.iter().copied().filter(|_| self.random.chance(percent)).collect()
    }

    fn address(&mut self, v6: bool) -> IpAddr {
        let (space, number) = (self.random.below(2) as u8, self.random.below(4) as u8);
        let outside = self.random.chance(20);
        match (v6, outside) {
            (false, false) => IpAddr::from([10, 0, space, number]),
            (false, true) => self.random.pick(&[[192, 0, 2, 5], [192, 0, 2, 77], [198, 51, 100, 1]]).into(),
            (true, false) => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, space.into(), number.into()]),
            (true, true) => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
        }
    }
}
