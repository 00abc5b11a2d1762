//! The matrix against the plain evaluator, pair by pair, on each host that a connection passes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use std::println;

use super::cluster::Wide;
use super::*;
use crate::calc::event::{ActiveHostEndpoint, HostInterfaces};
use crate::flow::{ConnState, EndpointToHost, Passage, Place};
use crate::net::{Failsafes, Family, InterfaceName};
use crate::resource::Kind;
use crate::spec;

/// What pairs a run has seen: a test that never gets somewhere proves nothing about it.
#[derive(Debug, Default)]
struct Met {
    cells: usize,
    allowed: usize,
    merged: usize,
    on_one_host: usize,
    before_nat: usize,
    forwarded: usize,
    of_hosts: usize,
    in_circles: usize,
}

#[test]
fn says_of_each_pair_what_both_hosts_say() {
    let mut met = Met::default();
    for seed in 0..80 {
        println!("seed {seed}");
        let mut town = Town::new(seed);
        let nodes = town.nodes();
        let services: Vec<Service> = (0..4).map(|_| town.service()).collect();
        let matrix = Matrix::new(&town.compiled, &town.settings, &nodes, &nodes, &services);
        let (mut found, mut alone) = (BTreeSet::new(), BTreeSet::new());
        matrix.visit(|cell| assert!(found.insert(cell), "{cell:?} twice"));
        Matrix::without_merging(&town.compiled, &town.settings, &nodes, &nodes, &services).visit(|cell| {
            alone.insert(cell);
        });
        assert_eq!(found, alone);
        let pairs = nodes.iter().enumerate().flat_map(|row| nodes.iter().enumerate().map(move |column| (row, column)));
        let mut expected = BTreeSet::new();
        for ((from, source), (to, destination)) in pairs {
            for (index, service) in services.iter().enumerate() {
                for family in [Family::V4, Family::V6] {
                    let decision = town.expect([source, destination], service, family, &mut met);
                    expected.extend(decision.map(|decision| Cell { from, to, service: index, family, decision }));
                }
            }
        }
        let wrong: Vec<_> =
            found.difference(&expected).map(|cell| (cell, &nodes[cell.from], &nodes[cell.to])).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(found, expected);
        let members = |lines: Vec<&[usize]>| lines.concat().into_iter().collect::<BTreeSet<_>>();
        assert_eq!(members(matrix.rows().collect()), (0..nodes.len()).collect());
        assert_eq!((matrix.rows().count(), matrix.columns().count()), matrix.size());
        met.cells += found.len();
        met.allowed += found.iter().filter(|cell| cell.decision == Decision::Allow).count();
        met.merged += usize::from(matrix.size() != (nodes.len(), nodes.len()));
    }
    println!("{met:?}");
    let Met { cells, allowed, merged, on_one_host, before_nat, forwarded, of_hosts, in_circles } = met;
    assert!(cells > 10_000 && allowed > cells / 10 && allowed < cells * 9 / 10 && merged > 20, "{met:?}");
    assert!([on_one_host, before_nat, forwarded, of_hosts, in_circles].into_iter().all(|count| count > 100), "{met:?}");
}

/// Some hosts with workloads.
struct Town {
    wide: Wide,
    compiled: Compiled,
    settings: Settings,
    hosts: Vec<Arc<Host>>,
    /// Where workloads and host endpoints are.
    places: BTreeMap<ResourceKey, alloc::string::String>,
}

impl Town {
    fn new(seed: u64) -> Self {
        let mut wide = Wide::new(seed);
        let mut compiled = Compiled::default();
        let mut graph = Graph::of_cluster();
        let mut places = BTreeMap::new();
        for _ in 0..100 {
            let update = wide.update();
            let node = match update.value.as_deref() {
                Some(Resource::WorkloadEndpoint(object)) => Some(object.spec.node.to_string()),
                Some(Resource::HostEndpoint(object)) => Some(object.spec.node.clone()),
                _ => None,
            };
            match node {
                Some(node) => places.insert(update.key.clone(), node),
                None => places.remove(&update.key),
            };
            graph.handle_update(&update);
        }
        graph.flush().iter().for_each(|event| compiled.apply(event));
        let settings = some_settings(&mut wide);
        let mut town = Self { wide, compiled, settings, hosts: Vec::new(), places };
        town.hosts = [HOST, "node-2"].into_iter().map(|name| Arc::new(town.host(name))).collect();
        town
    }

    fn host(&mut self, name: &str) -> Host {
        let here = |id: &&EndpointId| self.places.get(&id.0).is_some_and(|node| node == name);
        let found: Vec<_> = self.compiled.state().host_endpoints.keys().filter(here).cloned().map(Some).collect();
        let random = &mut self.wide.0.random;
        let uplink = if found.is_empty() || random.chance(20) { None } else { random.pick(&found) };
        let settings = random.chance(30).then(|| Arc::new(some_settings(&mut self.wide)));
        Host { name: name.into(), uplink, settings }
    }

    /// Workloads with and without their host, hosts, host endpoints, addresses of nobody, and an endpoint that is not there.
    fn nodes(&mut self) -> Vec<Node> {
        let mut nodes = self.compiled.nodes();
        for node in &mut nodes {
            let place = node.endpoint.as_ref().and_then(|id| self.places.get(&id.0));
            let host = self.hosts.iter().find(|host| place.is_some_and(|place| **place == *host.name));
            node.host = host.filter(|_| !self.wide.0.random.chance(10)).cloned();
        }
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        for host in &self.hosts {
            let (host, own) = (Some(host.clone()), addresses(&["192.0.2.1", "fd00::9"]));
            nodes.push(Node { endpoint: None, addresses: own.clone(), host: host.clone() });
        }
        for id in self.compiled.state().host_endpoints.keys() {
            nodes.push(Node { endpoint: Some(id.clone()), addresses: addresses(&["192.0.2.2"]), host: None });
        }
        for _ in 0..3 {
            nodes.push(Node { endpoint: None, addresses: vec![self.wide.0.flow().source], host: None });
        }
        nodes.push(Node { endpoint: None, addresses: vec![], host: None });
        let key = ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "gone");
        nodes.push(Node { endpoint: Some(EndpointId(key)), addresses: addresses(&["10.0.0.1"]), host: None });
        nodes
    }

    fn service(&mut self) -> Service {
        let Flow { mut protocol, mut source_port, mut destination_port, mut icmp, .. } = self.wide.0.flow();
        let random = &mut self.wide.0.random;
        if random.chance(20) && destination_port != 0 {
            destination_port = random.pick(&[22, 4789]);
            source_port = random.pick(&[source_port, 179]);
        }
        if random.chance(5) {
            (protocol, source_port, destination_port, icmp) = (58, 0, 0, Some((random.pick(&[135, 136, 143]), 0)));
        }
        Service { protocol, source_port, destination_port, icmp }
    }

    fn expect(&self, [from, to]: [&Node; 2], service: &Service, family: Family, met: &mut Met) -> Option<Decision> {
        let of_family = |node: &Node| node.addresses.iter().copied().find(|address| Family::of(*address) == family);
        let Service { protocol, source_port, destination_port, icmp } = *service;
        let (source, destination) = (of_family(from)?, of_family(to)?);
        let flow = Flow { source, destination, protocol, source_port, destination_port, icmp };
        let uplink: InterfaceName = "uplink".parse().unwrap();
        let beyond = Place::Interface(uplink);
        let name = |node: &Node| node.host.as_ref().map(|host| host.name.clone());
        let places = [self.place(from), self.place(to)];
        if name(from).is_some() && name(from) == name(to) {
            met.on_one_host += 1;
            let [Some(from_place), Some(to_place)] = places else { panic!() };
            return Some(self.pass(from, [from_place, to_place], &flow, met));
        }
        let out = places[0].map(|place| self.pass(from, [place, beyond], &flow, met));
        let into = places[1].map(|place| self.pass(to, [beyond, place], &flow, met));
        Some(out.into_iter().chain(into).max().unwrap_or(Decision::Allow))
    }

    fn place<'n>(&self, node: &'n Node) -> Option<Place<'n>> {
        match &node.endpoint {
            Some(EndpointId(key)) if key.kind() == Kind::WorkloadEndpoint => Some(Place::Workload(key)),
            None if node.host.is_none() => None,
            _ => Some(Place::Host),
        }
    }

    /// Through a host that has but the host endpoint of its uplink.
    fn pass(&self, node: &Node, [from, to]: [Place<'_>; 2], flow: &Flow, met: &mut Met) -> Decision {
        let is_host = |id: &&EndpointId| id.0.kind() == Kind::HostEndpoint;
        let uplink = node.endpoint.as_ref().filter(is_host);
        let uplink = uplink.or_else(|| node.host.as_ref().and_then(|host| host.uplink.as_ref()));
        let mut state = self.compiled.state().clone();
        state.host_endpoints = uplink
            .and_then(|id| {
                let endpoint = ActiveHostEndpoint::clone(self.compiled.state().host_endpoints.get(id)?);
                let interfaces = HostInterfaces::Named(vec!["uplink".parse().unwrap()]);
                Some((id.clone(), Arc::new(ActiveHostEndpoint { interfaces, ..endpoint })))
            })
            .into_iter()
            .collect();
        let own = node.host.as_ref().and_then(|host| host.settings.as_deref());
        let mut settings = own.unwrap_or(&self.settings).clone();
        settings.host.prevent_service_loops &= node.host.is_some();
        let passage = Passage { from, to, arriving: *flow, flow: *flow, state: ConnState::New };
        let verdict = state.passage(&settings, &passage);
        let has = |stage: Stage| verdict.ends.iter().any(|end| end.stage == stage);
        met.before_nat += usize::from(has(Stage::Untracked) || has(Stage::PreDnat));
        met.forwarded += usize::from(has(Stage::Forward));
        met.of_hosts += usize::from(has(Stage::Host));
        met.in_circles += usize::from(has(Stage::Forwarding));
        verdict.decision
    }
}

fn some_settings(wide: &mut Wide) -> Settings {
    let random = &mut wide.0.random;
    let host = spec::Settings {
        endpoint_to_host: random.pick(&[EndpointToHost::Drop, EndpointToHost::Return, EndpointToHost::Accept]),
        prevent_service_loops: random.chance(80),
        vxlan_port: random.pick(&[4789, 4789, 80]),
        allow_vxlan_from_workloads: random.chance(30),
        allow_ipip_from_workloads: random.chance(30),
        // Generated addresses may be others' as well.
        ..spec::Settings::default()
    };
    let failsafes = if random.chance(80) { Failsafes::default() } else { Failsafes::NONE };
    Settings { host, failsafes }
}
