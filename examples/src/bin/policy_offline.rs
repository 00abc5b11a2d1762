//! Policy without a cluster: resources as YAML in, the program of each host and a verdict with its reason out. Needs no root.
//!
//! `policy_offline` asks about the sample; `policy_offline FILE FROM TO PORT` asks about TCP between two addresses.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::calc::Graph;
use calico_core::calc::event::EndpointId;
use calico_core::flow::{Decision, Flow};
use calico_core::net::InterfaceName;
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{PolicyType, Resource};
use calico_core::table::Hook;
use calico_core::update::Update;
use calico_core::verdict::ActiveState;
use calico_dataplane::recording::{Packet, Ruleset};
use calico_examples::{SAMPLE, read};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = match arguments.as_slice() {
        [] => answer(&read("the sample", SAMPLE)?, "10.0.1.2", "10.0.2.2", "5432")?,
        [file, from, to, port] => answer(&read(file, &std::fs::read_to_string(file)?)?, from, to, port)?,
        _ => return Err("usage: policy_offline [FILE FROM TO PORT]".into()),
    };
    println!("{text}");
    Ok(())
}

/// The flow passes the host of its source, then that of its destination.
fn answer(resources: &[Resource], from: &str, to: &str, port: &str) -> Result<String, Box<dyn Error>> {
    let (source, destination, destination_port) = (from.parse()?, to.parse()?, port.parse()?);
    let flow = Flow { source, destination, protocol: 6, source_port: 40_000, destination_port, icmp: None };
    let uplink: InterfaceName = "eth0".parse()?;
    let (mut text, mut verdict) = (String::new(), Decision::Allow);
    for (address, direction) in [(source, PolicyType::Egress), (destination, PolicyType::Ingress)] {
        let Some((id, node, interface)) = resources.iter().find_map(|one| workload(one, address)) else { continue };
        let (ruleset, state) = host(node, resources)?;
        let (iif, oif) = if address == source { (interface, uplink) } else { (uplink, interface) };
        let packet = Packet { iif: Some(iif), oif: Some(oif), ..Packet::new(flow) };
        let found = ruleset.evaluate(&[Hook::Forward], packet);
        let said = state.judge(&id, direction, &flow);
        text += &format!("# {direction:?} on {node} by {interface}\n\n{ruleset}\n{:?}: {said}\n", said.decision);
        found.trace.iter().for_each(|visit| text += &format!("  {visit}\n"));
        verdict = verdict.max(found.decision);
    }
    Ok(text + &format!("\n{from} -> {to}:{port}: {verdict:?}"))
}

fn workload(resource: &Resource, address: IpAddr) -> Option<(EndpointId, &str, InterfaceName)> {
    let Resource::WorkloadEndpoint(endpoint) = resource else { return None };
    endpoint.spec.ip_networks.iter().find(|net| net.contains(address))?;
    Some((EndpointId(resource.key()?), &endpoint.spec.node, endpoint.spec.interface_name?))
}

/// What a host holds: the graph says what is active on it, the renderer what that means, and the table is kept in memory.
fn host(node: &str, resources: &[Resource]) -> Result<(Ruleset, ActiveState), Box<dyn Error>> {
    let (mut graph, mut renderer) = (Graph::new(node), Renderer::new(RenderConfig::default()));
    let (mut delta, mut state, mut ruleset) = (renderer.skeleton(), ActiveState::default(), Ruleset::default());
    for resource in resources {
        let key = resource.key().ok_or("a resource without a name")?;
        graph.handle_update(&Update { key, value: Some(Arc::new(resource.clone())) });
    }
    for event in graph.flush() {
        renderer.handle(&event, &mut delta);
        state.apply(&event);
    }
    ruleset.apply(&delta)?;
    Ok((ruleset, state))
}

#[test]
fn the_sample_lets_in_who_may() {
    let ask = |from, port| answer(&read("the sample", SAMPLE).unwrap(), from, "10.0.2.2", port).unwrap();
    assert!(ask("10.0.1.2", "5432").ends_with("10.0.1.2 -> 10.0.2.2:5432: Allow"));
    assert!(ask("10.0.1.2", "22").ends_with("Deny") && ask("192.0.2.1", "5432").ends_with("Deny"));
}
