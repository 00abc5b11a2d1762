//! The matrix against the plain evaluator, pair by pair.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use std::println;

use super::cluster::{Wide, graph};
use super::*;
use crate::net::Family;

#[test]
fn says_of_each_pair_what_both_ends_say() {
    let (mut cells, mut allowed, mut merged) = (0, 0, 0);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut wide = Wide::new(seed);
        let (mut graph, mut compiled) = (graph(), Compiled::default());
        (0..100).for_each(|_| graph.handle_update(&wide.update()));
        graph.flush().iter().for_each(|event| compiled.apply(event));
        let nodes = nodes(&compiled, &mut wide);
        let services: Vec<Service> = (0..4).map(|_| service(&mut wide)).collect();
        let settings = Settings::default();
        let matrix = Matrix::new(&compiled, &settings, &nodes, &nodes, &services);
        let (mut found, mut alone) = (BTreeSet::new(), BTreeSet::new());
        matrix.visit(|cell| assert!(found.insert(cell), "{cell:?} twice"));
        Matrix::without_merging(&compiled, &settings, &nodes, &nodes, &services).visit(|cell| {
            alone.insert(cell);
        });
        assert_eq!(found, alone);
        let pairs = nodes.iter().enumerate().flat_map(|row| nodes.iter().enumerate().map(move |column| (row, column)));
        let mut expected = BTreeSet::new();
        for ((from, source), (to, destination)) in pairs {
            for (index, service) in services.iter().enumerate() {
                for family in [Family::V4, Family::V6] {
                    let decision = expect(compiled.state(), &settings, [source, destination], service, family);
                    expected.extend(decision.map(|decision| Cell { from, to, service: index, family, decision }));
                }
            }
        }
        assert_eq!(found, expected);
        cells += found.len();
        allowed += found.iter().filter(|cell| cell.decision == Decision::Allow).count();
        merged += usize::from(matrix.size() != (nodes.len(), nodes.len()));
    }
    println!("{cells} cells, {allowed} allowed, {merged} matrices smaller by merging");
    assert!(cells > 10_000 && allowed > cells / 10 && allowed < cells * 9 / 10 && merged > 20);
}

/// Workloads, host endpoints, addresses of nobody, and an endpoint that is not there.
fn nodes(compiled: &Compiled, wide: &mut Wide) -> Vec<Node> {
    let mut nodes = compiled.nodes();
    let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
    for id in compiled.state().host_endpoints.keys() {
        nodes.push(Node { endpoint: Some(id.clone()), addresses: addresses(&["192.0.2.1", "fd00::9"]) });
    }
    for _ in 0..3 {
        nodes.push(Node { endpoint: None, addresses: vec![wide.0.flow().source] });
    }
    nodes.push(Node { endpoint: None, addresses: vec![] });
    let key = ResourceKey::namespaced(crate::resource::Kind::WorkloadEndpoint, "one", "gone");
    nodes.push(Node { endpoint: Some(EndpointId(key)), addresses: addresses(&["10.0.0.1"]) });
    nodes
}

fn service(wide: &mut Wide) -> Service {
    let Flow { protocol, source_port, mut destination_port, icmp, .. } = wide.0.flow();
    if wide.0.random.chance(20) && destination_port != 0 {
        destination_port = wide.0.random.pick(&[22, 4789]);
    }
    Service { protocol, source_port, destination_port, icmp }
}

fn expect(
    state: &ActiveState,
    settings: &Settings,
    [from, to]: [&Node; 2],
    service: &Service,
    family: Family,
) -> Option<Decision> {
    let of_family = |node: &Node| node.addresses.iter().copied().find(|address| Family::of(*address) == family);
    let Service { protocol, source_port, destination_port, icmp } = *service;
    let (source, destination) = (of_family(from)?, of_family(to)?);
    let flow = Flow { source, destination, protocol, source_port, destination_port, icmp };
    let one = |node: &Node, direction| {
        let Some(id) = &node.endpoint else { return Decision::Allow };
        let is_workload = state.endpoints.contains_key(id);
        let forbidden = protocol == 17 && destination_port == 4789;
        if is_workload && direction == PolicyType::Egress && forbidden {
            return Decision::Deny;
        }
        if state.host_endpoints.contains_key(id) && settings.failsafes.admits(direction, &flow) {
            return Decision::Allow;
        }
        state.judge(id, direction, &flow).decision
    };
    Some(one(from, PolicyType::Egress).max(one(to, PolicyType::Ingress)))
}
