//! Random clusters with host endpoints, policies for them, and staged ones; and packets through a host of them.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::calc::Graph;
use crate::flow::{ConnState, Flow, Passage, Place};
use crate::net::InterfaceName;
use crate::resource::{
    Action, BgpConfigurationSpec, HostEndpointSpec, Kind, Metadata, Object, PolicyType, Resource, ResourceKey, Rule,
    ServiceRange, StagedGlobalNetworkPolicySpec, StagedNetworkPolicySpec,
};
use crate::testing::{Generator, HOST};
use crate::update::Update;

pub(super) struct Wide(pub(super) Generator);

impl Wide {
    pub(super) const fn new(seed: u64) -> Self {
        Self(if seed.is_multiple_of(2) { Generator::new(seed) } else { Generator::with_faults(seed) })
    }

    pub(super) fn update(&mut self) -> Update {
        match self.0.random.below(20) {
            0..=2 => self.host_endpoint(),
            3 => self.services(),
            _ => {
                let mut update = self.0.update();
                if let Some(Resource::GlobalNetworkPolicy(object)) = update.value.as_mut().map(Arc::make_mut) {
                    let spec = &mut object.spec;
                    let random = &mut self.0.random;
                    (spec.do_not_track, spec.pre_dnat) =
                        random.pick(&[(false, false), (false, false), (true, false), (false, true)]);
                    spec.apply_on_forward = spec.do_not_track || spec.pre_dnat || random.chance(50);
                    if spec.do_not_track && random.chance(40) {
                        let deny = Rule { action: Action::Deny, ..Rule::default() };
                        spec.types = vec![PolicyType::Ingress, PolicyType::Egress];
                        spec.ingress.push(deny.clone());
                        spec.egress.push(deny);
                    }
                    if spec.pre_dnat {
                        spec.egress.clear();
                        spec.types.clear();
                    }
                }
                if self.0.random.chance(20) { staged(update) } else { update }
            }
        }
    }

    fn host_endpoint(&mut self) -> Update {
        let random = &mut self.0.random;
        let name = random.pick(&["a", "b", "c"]);
        let addresses =
            random.pick(&[vec![], vec![address("192.0.2.1")], vec![address("fd00::9"), address("192.0.2.2")]]);
        let spec = HostEndpointSpec {
            node: random.pick(&[HOST, HOST, HOST, "node-2"]).into(),
            interface_name: random.pick(&["eth0", "eth1", "*", ""]).into(),
            expected_ips: addresses,
            profiles: random.pick(&[vec![], vec!["extra".to_string()], vec!["projectcalico-default-allow".into()]]),
            ..HostEndpointSpec::default()
        };
        let labels = [("app".into(), random.pick(&["web", "db"]).into()), ("tier".into(), "front".into())];
        let metadata = Metadata { name: name.into(), labels: labels.into_iter().collect(), ..Metadata::default() };
        let value = (!random.chance(20)).then(|| Arc::new(Resource::HostEndpoint(Object { metadata, spec })));
        Update { key: ResourceKey::cluster(Kind::HostEndpoint, name), value }
    }

    fn services(&mut self) -> Update {
        let range = self.0.random.pick(&["198.51.100.0/24", "10.0.1.2/31"]);
        let spec = BgpConfigurationSpec {
            service_cluster_ips: vec![ServiceRange { cidr: range.into() }],
            ..BgpConfigurationSpec::default()
        };
        let metadata = Metadata { name: "default".into(), ..Metadata::default() };
        let value = Some(Arc::new(Resource::BgpConfiguration(Object { metadata, spec }.into())));
        Update { key: ResourceKey::cluster(Kind::BgpConfiguration, "default"), value }
    }

    /// A packet, mostly with addresses that fit its ends.
    pub(super) fn passage<'k>(&mut self, workloads: &'k [(ResourceKey, Vec<IpAddr>)]) -> Passage<'k> {
        let mut arriving = self.0.flow();
        let (from, to) = (self.place(workloads), self.place(workloads));
        let own = |place: Place<'_>, flow: &Flow| {
            let Place::Workload(key) = place else { return None };
            let (_, addresses) = workloads.iter().find(|(known, _)| known == key)?;
            addresses.iter().copied().find(|address| address.is_ipv4() == flow.source.is_ipv4())
        };
        if !self.0.random.chance(10) {
            arriving.source = own(from, &arriving).unwrap_or(arriving.source);
        }
        arriving.destination = own(to, &arriving).unwrap_or(arriving.destination);
        let mut flow = arriving;
        if self.0.random.chance(25) {
            let other = self.0.flow();
            if other.family() == flow.family() {
                arriving.destination = other.destination;
                arriving.destination_port = if flow.destination_port == 0 { 0 } else { 80 };
            }
        }
        if self.0.random.chance(10) {
            flow.destination_port = self.0.random.pick(&[22, 53, 4789]);
        }
        let state = self.0.random.pick(&[
            ConnState::New,
            ConnState::New,
            ConnState::New,
            ConnState::New,
            ConnState::Established,
            ConnState::Related,
            ConnState::Invalid,
        ]);
        Passage { from, to, arriving, flow, state }
    }

    fn place<'k>(&mut self, workloads: &'k [(ResourceKey, Vec<IpAddr>)]) -> Place<'k> {
        match self.0.random.below(10) {
            0..=3 if !workloads.is_empty() => {
                let index = self.0.random.below(workloads.len());
                Place::Workload(&workloads[index].0)
            }
            8..=9 => Place::Host,
            _ => {
                Place::Interface(self.0.random.pick(&["eth0", "eth0", "eth1", "eth2", "lo", "cali99"]).parse().unwrap())
            }
        }
    }
}

/// Interfaces of [`HOST`].
fn interfaces() -> Vec<(InterfaceName, Vec<IpAddr>)> {
    let of =
        |name: &str, addresses: &[&str]| (name.parse().unwrap(), addresses.iter().map(|text| address(text)).collect());
    vec![of("eth0", &["192.0.2.1"]), of("eth1", &["192.0.2.2", "fd00::9"]), of("eth2", &[]), of("lo", &["127.0.0.1"])]
}

pub(super) fn graph() -> Graph {
    let mut graph = Graph::new(HOST);
    interfaces().iter().for_each(|(name, addresses)| graph.set_interface(*name, Some(addresses)));
    graph
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The same, but tried out only.
fn staged(update: Update) -> Update {
    let Update { key, value } = update;
    let name = format!("staged-{}", key.name().unwrap());
    let renamed = |metadata: &Metadata| Metadata { name: name.clone(), ..metadata.clone() };
    match value.as_deref() {
        Some(Resource::NetworkPolicy(object)) => {
            let spec = StagedNetworkPolicySpec { staged_action: None, policy: object.spec.clone() };
            let object = Object { metadata: renamed(&object.metadata), spec };
            let key = ResourceKey::namespaced(Kind::StagedNetworkPolicy, key.namespace().unwrap(), &name);
            Update { key, value: Some(Arc::new(Resource::StagedNetworkPolicy(object.into()))) }
        }
        Some(Resource::GlobalNetworkPolicy(object)) => {
            let spec = StagedGlobalNetworkPolicySpec { staged_action: None, policy: object.spec.clone() };
            let object = Object { metadata: renamed(&object.metadata), spec };
            let key = ResourceKey::cluster(Kind::StagedGlobalNetworkPolicy, &name);
            Update { key, value: Some(Arc::new(Resource::StagedGlobalNetworkPolicy(object.into()))) }
        }
        _ => Update { key, value },
    }
}
