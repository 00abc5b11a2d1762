//! What a host does with a packet, against the specification.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use std::println;

use super::cluster::{Objects, Wide, graph, interfaces, note};
use super::*;
use crate::calc::event::ActiveEndpoint;
use crate::render::EndpointToHost;
use crate::spec;
use crate::testing::HOST;

#[test]
fn agrees_with_the_specification() {
    let mut seen: BTreeMap<_, [usize; 2]> = BTreeMap::new();
    for seed in 0..150 {
        println!("seed {seed}");
        let mut wide = Wide::new(seed);
        let (mut graph, mut objects, mut state) = (graph(), Objects::new(), ActiveState::default());
        for _ in 0..80 {
            let update = wide.update();
            graph.handle_update(&update);
            note(&mut objects, &update);
        }
        graph.flush().iter().for_each(|event| state.apply(event));
        let settings = settings(&mut wide);
        let usable = objects.iter().filter(|(key, value)| key.kind() == value.kind()).map(|(_, value)| &**value);
        let cluster = Cluster::new(usable).with_settings(settings.host).with_interfaces(HOST, interfaces());
        let workloads: Vec<_> = state.endpoints.iter().map(with_addresses).collect();
        for _ in 0..200 {
            let passage = wide.passage(&workloads);
            let found = state.passage(&settings, &passage);
            let expected = cluster.passage(HOST, &passage);
            assert_eq!(found.decision, expected, "{passage:#?}\n{:#?}\n{found:#?}", state.host_endpoints);
            for end in found.ends {
                let denied = usize::from(end.verdict.decision == Decision::Deny);
                seen.entry((end.stage, end.direction)).or_default()[denied] += 1;
            }
        }
    }
    println!("{seen:#?}");
    assert_eq!(seen.len(), 10, "{seen:#?}");
    let counts = seen.iter().filter(|((stage, _), _)| *stage != Stage::Forwarding).flat_map(|(_, counts)| counts);
    assert!(counts.into_iter().all(|count| *count > 5), "{seen:#?}");
}

fn settings(wide: &mut Wide) -> Settings {
    let random = &mut wide.0.random;
    let host = spec::Settings {
        endpoint_to_host: random.pick(&[EndpointToHost::Drop, EndpointToHost::Return]),
        drop_invalid: random.chance(70),
        prevent_service_loops: random.chance(70),
        allow_vxlan_from_workloads: random.chance(50),
        allow_spoofed_sources: random.chance(50),
        ..spec::Settings::default()
    };
    Settings { host, ..Settings::default() }
}

pub(super) fn with_addresses((id, endpoint): (&EndpointId, &Arc<ActiveEndpoint>)) -> (ResourceKey, Vec<IpAddr>) {
    (id.0.clone(), endpoint.addresses.iter().map(|net| net.address()).collect())
}
