//! Random worlds: a cluster with all that concerns one host, and packets on their way through it.
//!
//! Few names, addresses and ports, so that objects meet: several host endpoints claim one interface, services share addresses with pods,
//! staged policies stand between enforced ones.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde_json::json;

use super::cluster::{NAMESPACES, PORT_NAMES, PROFILES};
use super::{Generator, HOST};
use crate::flow::{ConnState, Flow, Passage, Place};
use crate::net::{InterfaceName, Protocol};
use crate::resource::{
    Action, BgpConfigurationSpec, EntityRule, GlobalNetworkPolicySpec, HostEndpointSpec, HostPort, Kind, Metadata,
    NetworkPolicySpec, ORCHESTRATOR_LABEL, Object, Resource, ResourceKey, Rule, SINGLE_NAME, ServiceMatch,
    ServiceRange, StagedAction, StagedGlobalNetworkPolicySpec, StagedKubernetesNetworkPolicySpec,
    StagedNetworkPolicySpec,
};
use crate::service::{EndpointSlice, EndpointSliceKey};
use crate::text::TextMap;
use crate::update::Update;

/// The host's own interfaces, and which addresses each may have. The last is there in few worlds, and host endpoints name it all the same.
const INTERFACES: [(&str, [&str; 2]); 5] = [
    ("eth0", ["192.0.2.1", "2001:db8::1"]),
    ("eth1", ["192.0.2.2", "2001:db8::2"]),
    ("tunl0", ["192.0.2.3", "2001:db8::3"]),
    ("lo", ["127.0.0.1", "::1"]),
    ("eth9", ["192.0.2.9", "2001:db8::9"]),
];
const SERVICES: [&str; 2] = ["web", "dns"];
const SERVICE_ADDRESSES: [&str; 2] = ["10.96.0.7", "fd00:96::7"];
/// Some are fail-safe, some not.
const HOST_PORTS: [u16; 7] = [22, 53, 80, 179, 4789, 6443, 30_000];
/// IP-in-IP.
const IPIP: u8 = 4;

/// Everything that decides about packets on [`HOST`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct World {
    /// The cluster's objects.
    pub objects: BTreeMap<ResourceKey, Arc<Resource>>,
    /// The host's own interfaces with their addresses.
    pub interfaces: BTreeMap<InterfaceName, Vec<IpAddr>>,
    /// What stands behind services.
    pub slices: BTreeMap<EndpointSliceKey, Arc<EndpointSlice>>,
}

/// One change of a [`World`]; none is absence.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// Of an object.
    Object(Update),
    /// Of an interface of the host.
    Interface(InterfaceName, Option<Vec<IpAddr>>),
    /// Of a slice.
    Slice(EndpointSliceKey, Option<Arc<EndpointSlice>>),
}

impl World {
    /// Takes a change in.
    pub fn apply(&mut self, change: &Change) {
        fn set<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        match change {
            Change::Object(Update { key, value }) => set(&mut self.objects, key, value.as_ref()),
            Change::Interface(name, addresses) => set(&mut self.interfaces, name, addresses.as_ref()),
            Change::Slice(key, slice) => set(&mut self.slices, key, slice.as_ref()),
        }
    }

    /// The changes that lead from this world to another, in the order of keys.
    pub fn changes_to(&self, other: &Self) -> Vec<Change> {
        fn between<K: Ord + Clone, V: PartialEq + Clone>(
            from: &BTreeMap<K, V>,
            to: &BTreeMap<K, V>,
            change: impl Fn(K, Option<V>) -> Change,
        ) -> Vec<Change> {
            let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), None));
            let new = to.iter().filter(|(key, value)| from.get(*key) != Some(*value));
            let new = new.map(|(key, value)| (key.clone(), Some(value.clone())));
            gone.chain(new).map(|(key, value)| change(key, value)).collect()
        }
        let mut changes = between(&self.objects, &other.objects, |key, value| Change::Object(Update { key, value }));
        changes.extend(between(&self.interfaces, &other.interfaces, Change::Interface));
        changes.extend(between(&self.slices, &other.slices, Change::Slice));
        changes
    }

    /// Workload endpoints that say they are on the host.
    fn workloads(&self) -> Vec<(&ResourceKey, &Resource)> {
        let here = |resource: &Resource| match resource {
            Resource::WorkloadEndpoint(object) => *object.spec.node == *HOST,
            _ => false,
        };
        self.objects.iter().filter(|(_, resource)| here(resource)).map(|(key, resource)| (key, &**resource)).collect()
    }
}

impl Generator {
    /// A world after so many random changes of an empty one whose host has all its interfaces but the last.
    pub fn world(&mut self, changes: usize) -> World {
        let mut world = World::default();
        for (name, addresses) in INTERFACES.into_iter().take(INTERFACES.len() - 1) {
            let addresses = addresses.iter().filter_map(|address| address.parse().ok()).collect();
            world.apply(&Change::Interface(interface(name), Some(addresses)));
        }
        for _ in 0..changes {
            let change = self.change();
            world.apply(&change);
        }
        world
    }

    /// A change of any kind of thing.
    pub fn change(&mut self) -> Change {
        match self.random.below(20) {
            0..=10 => {
                let mut update = self.update();
                if let Some(resource) = update.value.as_mut().map(Arc::make_mut) {
                    self.widen(resource);
                }
                Change::Object(update)
            }
            11..=13 => Change::Object(self.staged()),
            14..=16 => Change::Object(self.host_endpoint()),
            17 => Change::Object(self.service_ranges()),
            18 => self.slice(),
            _ => {
                let (name, addresses) = self.random.pick(&INTERFACES);
                let addresses = self.some(&addresses, 80).iter().filter_map(|address| address.parse().ok()).collect();
                Change::Interface(interface(name), (!self.random.chance(10)).then_some(addresses))
            }
        }
    }

    /// A packet on its way through the host. Its ends are in the world; addresses are mostly those of its ends.
    pub fn passage<'a>(&mut self, world: &'a World) -> Passage<'a> {
        let workloads = world.workloads();
        let (from, to) = (self.place(world, &workloads), self.place(world, &workloads));
        let v6 = self.random.chance(45);
        let mut flow = self.flow_of(v6);
        if flow.protocol == 47 && self.random.chance(30) {
            flow.protocol = IPIP;
        }
        if flow.source_port != 0 || flow.destination_port != 0 {
            let (source, destination) = (self.host_port(), self.host_port());
            flow.destination_port = self.random.pick(&[flow.destination_port, destination]);
            flow.source_port = self.random.pick(&[40_000, flow.source_port, source]);
        }
        if let Some(source) = self.address_of(world, from, &flow).filter(|_| !self.random.chance(8)) {
            flow.source = source;
        }
        if let Some(destination) = self.address_of(world, to, &flow).filter(|_| !self.random.chance(8)) {
            flow.destination = destination;
        }
        if flow.protocol == 58 && self.random.chance(20) {
            flow.icmp = Some((self.random.pick(&[133, 134, 135, 136]), 0));
        }
        let mut arriving = flow;
        if self.random.chance(40) {
            let service = SERVICE_ADDRESSES.iter().filter_map(|address| address.parse().ok());
            let host = INTERFACES.iter().flat_map(|(_, addresses)| addresses).filter_map(|text| text.parse().ok());
            let of_family = |address: &IpAddr| address.is_ipv4() == flow.source.is_ipv4();
            let before: Vec<IpAddr> = service.chain(host).filter(of_family).collect();
            arriving.destination = self.random.pick(&before);
            if flow.destination_port != 0 {
                arriving.destination_port = self.host_port();
            }
        }
        let states = [ConnState::Established, ConnState::Related, ConnState::Invalid];
        let state = if self.random.chance(80) { ConnState::New } else { self.random.pick(&states) };
        Passage { from, to, arriving, flow, state }
    }

    fn host_port(&mut self) -> u16 {
        self.random.pick(&HOST_PORTS)
    }

    fn place<'a>(&mut self, world: &World, workloads: &[(&'a ResourceKey, &Resource)]) -> Place<'a> {
        match self.random.below(10) {
            0..=3 if !workloads.is_empty() => Place::Workload(self.random.pick(workloads).0),
            0..=7 => {
                let there: Vec<_> = world.interfaces.keys().copied().collect();
                // One that is not there as well: what it meets is what an interface meets that has just come.
                let any = there.is_empty() || self.random.chance(10);
                Place::Interface(if any {
                    interface(self.random.pick(&INTERFACES).0)
                } else {
                    self.random.pick(&there)
                })
            }
            _ => Place::Host,
        }
    }

    /// An address that belongs to an end, of the flow's family.
    fn address_of(&mut self, world: &World, place: Place<'_>, flow: &Flow) -> Option<IpAddr> {
        let of_family = |address: &IpAddr| address.is_ipv4() == flow.source.is_ipv4();
        let addresses: Vec<IpAddr> = match place {
            Place::Workload(key) => match world.objects.get(key).map(|object| &**object) {
                Some(Resource::WorkloadEndpoint(object)) => {
                    object.spec.ip_networks.iter().map(|net| net.address()).filter(of_family).collect()
                }
                _ => return None,
            },
            Place::Host => world.interfaces.values().flatten().copied().filter(of_family).collect(),
            Place::Interface(_) => return None,
        };
        (!addresses.is_empty()).then(|| self.random.pick(&addresses))
    }

    /// Gives an object what only worlds have: flags of host endpoints' policies, services, the mark of Kubernetes' pods.
    fn widen(&mut self, resource: &mut Resource) {
        match resource {
            Resource::GlobalNetworkPolicy(object) => self.widen_global(&mut object.spec),
            Resource::NetworkPolicy(object) => self.widen_namespaced(&mut object.spec),
            Resource::Profile(object) => {
                self.relax(&mut object.spec.ingress);
                self.relax(&mut object.spec.egress);
            }
            Resource::WorkloadEndpoint(object) => {
                if self.random.chance(70) {
                    object.metadata.labels.insert(ORCHESTRATOR_LABEL.into(), "k8s".into());
                }
                let further = self.some(&["10.0.0.0/29", "fd00::/64"], 15);
                object.spec.allow_spoofed_source_prefixes = further.iter().filter_map(|net| net.parse().ok()).collect();
            }
            _ => {}
        }
    }

    fn widen_global(&mut self, spec: &mut GlobalNetworkPolicySpec) {
        (spec.do_not_track, spec.pre_dnat, spec.apply_on_forward) = match self.random.below(10) {
            0..=2 => (false, false, true),
            3..=4 => (true, false, true),
            5..=6 => (false, true, true),
            // What the API refuses, as somebody may have stored it.
            7 if self.faults => (true, true, false),
            8 if self.faults => (false, true, false),
            _ => (false, false, false),
        };
        if spec.pre_dnat && !self.faults {
            spec.egress.clear();
            spec.types.clear();
        }
        self.relax(&mut spec.ingress);
        self.relax(&mut spec.egress);
        self.add_services(&mut spec.ingress, &mut spec.egress, false);
    }

    /// Lets some rules match far more: of those with conditions on everything most match nothing.
    fn relax(&mut self, rules: &mut [Rule]) {
        for rule in rules.iter_mut().filter(|rule| rule.unread.is_none()) {
            if self.random.chance(60) {
                let action = self.random.pick(&[Action::Allow, Action::Deny, Action::Pass, Action::Log]);
                let relaxed = Rule { action, ..Rule::default() };
                let protocol = rule.protocol.filter(|_| self.random.chance(60));
                let source = EntityRule { nets: rule.source.nets.clone(), ..EntityRule::default() };
                *rule = if self.random.chance(70) { Rule { protocol, ..relaxed } } else { Rule { source, ..relaxed } };
            }
        }
    }

    fn widen_namespaced(&mut self, spec: &mut NetworkPolicySpec) {
        self.add_services(&mut spec.ingress, &mut spec.egress, true);
    }

    /// Services stand alone on their side of a rule.
    fn add_services(&mut self, ingress: &mut [Rule], egress: &mut [Rule], has_own: bool) {
        let sides = ingress.iter_mut().map(|rule| &mut rule.source);
        for side in sides.chain(egress.iter_mut().map(|rule| &mut rule.destination)) {
            if !self.random.chance(12) {
                continue;
            }
            let namespaces: &[&str] = if has_own { &["", "one", "two"] } else { &NAMESPACES };
            let namespace = self.random.pick(namespaces).to_string();
            if !self.faults {
                *side = Default::default();
            }
            side.services = Some(ServiceMatch { name: self.random.pick(&SERVICES).into(), namespace });
        }
    }

    fn staged(&mut self) -> Update {
        let number = self.random.below(3);
        let (namespace, name) = (self.random.pick(&NAMESPACES), format!("policy-{number}"));
        let actions = [None, Some(StagedAction::Set), Some(StagedAction::Learn), Some(StagedAction::Delete)];
        let staged_action = self.random.pick(&actions);
        let (key, resource) = match self.random.below(3) {
            0 => {
                let key = ResourceKey::cluster(Kind::StagedGlobalNetworkPolicy, &name);
                let mut policy = self.global_network_policy();
                self.widen_global(&mut policy);
                let spec = StagedGlobalNetworkPolicySpec { staged_action, policy };
                let object = Object { metadata: self.metadata(&key), spec };
                (key, Resource::StagedGlobalNetworkPolicy(object.into()))
            }
            1 => {
                let key = ResourceKey::namespaced(Kind::StagedNetworkPolicy, namespace, &name);
                let mut policy = self.network_policy();
                self.widen_namespaced(&mut policy);
                let spec = StagedNetworkPolicySpec { staged_action, policy };
                let object = Object { metadata: self.metadata(&key), spec };
                (key, Resource::StagedNetworkPolicy(object.into()))
            }
            _ => {
                let key = ResourceKey::namespaced(Kind::StagedKubernetesNetworkPolicy, namespace, &name);
                let spec = self.kubernetes(staged_action);
                let object = Object { metadata: self.metadata(&key), spec };
                (key, Resource::StagedKubernetesNetworkPolicy(object.into()))
            }
        };
        Update { key, value: (!self.random.chance(25)).then(|| Arc::new(resource)) }
    }

    fn kubernetes(&mut self, staged_action: Option<StagedAction>) -> StagedKubernetesNetworkPolicySpec {
        let lists = [(); 2].map(|()| {
            let rules: Vec<_> =
                (0..self.random.below(3)).map(|_| (self.kubernetes_peers(), self.kubernetes_ports())).collect();
            rules
        });
        let [ingress, egress] = lists;
        let ingress: Vec<_> =
            ingress.into_iter().map(|(peers, ports)| json!({"from": peers, "ports": ports})).collect();
        let egress: Vec<_> = egress.into_iter().map(|(peers, ports)| json!({"to": peers, "ports": ports})).collect();
        let types = self.random.pick(&[json!([]), json!(["Ingress"]), json!(["Egress"]), json!(["Ingress", "Egress"])]);
        let document = json!({
            "podSelector": self.kubernetes_selector(), "ingress": ingress, "egress": egress, "policyTypes": types,
        });
        let spec = serde_json::from_value(document).unwrap_or_default();
        StagedKubernetesNetworkPolicySpec { staged_action, ..spec }
    }

    fn kubernetes_selector(&mut self) -> serde_json::Value {
        let requirement = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        self.random.pick(&[
            json!({}),
            json!({"matchLabels": {"app": "web"}}),
            json!({"matchLabels": {"app": "db", "tier": "back"}}),
            requirement("In", &["web", "db"]),
            requirement("NotIn", &["db"]),
            requirement("Exists", &[]),
            requirement("DoesNotExist", &[]),
        ])
    }

    fn kubernetes_peers(&mut self) -> Vec<serde_json::Value> {
        let mut peers = Vec::new();
        for _ in 0..self.random.below(3) {
            let selector = self.kubernetes_selector();
            let team = self.random.pick(&[json!({}), json!({"matchLabels": {"team": "red"}})]);
            let block = self.random.pick(&["10.0.0.0/24", "10.0.1.0/31", "fd00::/64"]);
            peers.push(match self.random.below(6) {
                0..=1 => json!({"podSelector": selector}),
                2 => json!({"namespaceSelector": team}),
                3 => json!({"podSelector": selector, "namespaceSelector": team}),
                4 => json!({"ipBlock": {"cidr": block}}),
                _ if self.faults => self.random.pick(&[
                    json!({"ipBlock": {"cidr": "nonsense"}}),
                    json!({"ipBlock": {"cidr": block}, "podSelector": selector}),
                    json!({}),
                ]),
                _ => json!({"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.0.0.0/31", "10.0.1.0/24"]}}),
            });
        }
        peers
    }

    fn kubernetes_ports(&mut self) -> Vec<serde_json::Value> {
        let ports = [
            json!({"port": 80}),
            json!({"port": "web"}),
            json!({"port": 53, "protocol": "UDP"}),
            json!({"port": 53, "endPort": 443, "protocol": "TCP"}),
            json!({"protocol": "SCTP"}),
        ];
        (0..self.random.below(3)).map(|_| self.random.pick(&ports)).collect()
    }

    /// Several claim one interface, each in a way of its own.
    fn host_endpoint(&mut self) -> Update {
        let name = format!("host-{}", self.random.below(4));
        let key = ResourceKey::cluster(Kind::HostEndpoint, &name);
        let expected = INTERFACES.map(|(_, addresses)| addresses);
        let expected = self.some(expected.as_flattened(), 25);
        let impossible = self.random.pick(&["cali00", "no such name"]);
        let absent = if self.random.chance(15) { "eth9" } else { "eth0" };
        let names = [absent, "eth1", "", "", "*", "*", if self.faults { impossible } else { "tunl0" }];
        let ports = PORT_NAMES.map(|name| HostPort {
            name: name.into(),
            protocol: Some(self.random.pick(&[Protocol::TCP, Protocol::UDP])),
            port: Some(self.host_port()),
        });
        let spec = HostEndpointSpec {
            node: self.random.pick(&[HOST, HOST, HOST, "node-2"]).into(),
            interface_name: self.random.pick(&names).into(),
            expected_ips: expected.iter().filter_map(|address| address.parse().ok()).collect(),
            profiles: self.some(&PROFILES, 30).into_iter().map(Into::into).collect(),
            ports: ports.into(),
        };
        let labels: TextMap = self.labels(&[("app", &["web", "db"]), ("tier", &["front", "back"])]);
        let mut metadata = Metadata { labels, ..Metadata::named(&name) };
        if self.random.chance(30) {
            metadata
                .annotations
                .insert("qos.projectcalico.org/dscp".into(), self.random.pick(&["AF41", "EF", "x"]).into());
        }
        let resource = Resource::HostEndpoint(Object { metadata, spec });
        Update { key, value: (!self.random.chance(15)).then(|| Arc::new(resource)) }
    }

    fn service_ranges(&mut self) -> Update {
        let range = |text: &str| ServiceRange { cidr: text.into() };
        let spec = BgpConfigurationSpec {
            service_cluster_ips: self.random.pick(&[vec![], vec![range("10.96.0.0/24"), range("fd00:96::/112")]]),
            service_external_ips: self.random.pick(&[vec![], vec![range("192.0.2.64/26")]]),
            ..BgpConfigurationSpec::default()
        };
        let key = ResourceKey::cluster(Kind::BgpConfiguration, SINGLE_NAME);
        let resource = Resource::BgpConfiguration(Object { metadata: Metadata::named(SINGLE_NAME), spec }.into());
        Update { key, value: (!self.random.chance(20)).then(|| Arc::new(resource)) }
    }

    fn slice(&mut self) -> Change {
        let namespace: Arc<str> = self.random.pick(&NAMESPACES).into();
        let number = self.random.below(2);
        let key = EndpointSliceKey { namespace: namespace.clone(), name: format!("slice-{number}").into() };
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.1.0", "192.0.2.1", "fd00::1", "fd00::1:0:1"];
        let mut addresses: Vec<IpAddr> =
            self.some(&addresses, 50).iter().filter_map(|address| address.parse().ok()).collect();
        addresses.sort_unstable();
        let ports = [vec![], vec![(6, 80)], vec![(6, 80), (17, 53)], vec![(6, 443), (132, 80)]];
        let slice = EndpointSlice {
            namespace,
            service: self.random.pick(&["web", "web", "dns", ""]).into(),
            addresses,
            ports: self.random.pick(&ports),
        };
        Change::Slice(key, (!self.random.chance(20)).then(|| Arc::new(slice)))
    }
}

fn interface(name: &str) -> InterfaceName {
    name.parse().unwrap_or(InterfaceName::ETH0)
}
