//! Connections that a change of policy denies end; others go on, and nobody looks at them without reason.

use std::net::IpAddr;

use calico_core::connection::Connection;
use calico_core::flow::Flow;
use calico_core::table::SetDecl;

use super::*;

const POD: &str = "10.1.0.5";

fn connection(from: &str) -> Connection {
    let ends: (IpAddr, IpAddr) = (from.parse().unwrap(), POD.parse().unwrap());
    let flow = |(source, destination)| Flow {
        source,
        destination,
        protocol: 17,
        source_port: 5353,
        destination_port: 5353,
        icmp: None,
    };
    Connection { original: flow(ends), reply: flow((ends.1, ends.0)), master: None }
}

async fn world_with_pod(kernel: &Recording, store: MemoryStore) -> World {
    let world = World::start_on(store, kernel.clone());
    populate(&world).await;
    world.link("cali1", 7);
    world.put(endpoint_key("pod"), endpoint("a", "cali1", &format!("{POD}/32"))).await;
    assert_eq!(world.wait("pod", 60_000).await, Answer::Ok(Success::Enforced));
    world.until("settled", |status| status.dataplane_in_sync).await;
    world
}

/// Ingress from this network only, if any is given.
async fn allow_from(world: &World, network: Option<&str>) {
    let mut rule = Rule::default();
    rule.source.nets = network.map(|text| text.parse().unwrap()).into_iter().collect();
    let ingress = if network.is_some() { vec![rule] } else { Vec::new() };
    let rules = ProfileSpec { ingress, egress: vec![Rule::default()], ..ProfileSpec::default() };
    let profile = Resource::Profile(Object { spec: rules, ..Object::default() });
    world.put(ResourceKey::cluster(Kind::Profile, "open"), profile).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_with_the_policy_that_allowed_it() {
    let kernel = Recording::new();
    kernel.add_address("10.0.0.1".parse().unwrap());
    let world = world_with_pod(&kernel, MemoryStore::new()).await;
    world.until("looked at once, at the start", |_| kernel.take_listings() == 1).await;
    for from in ["10.9.0.1", "10.9.1.1", "10.0.0.1"] {
        kernel.track(connection(from));
    }
    world.link("cali2", 8);
    world.put(endpoint_key("other"), endpoint("a", "cali2", "10.1.0.6/32")).await;
    assert_eq!(world.wait("other", 60_000).await, Answer::Ok(Success::Enforced));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(kernel.take_listings(), 0, "a new workload denies nothing");

    kernel.take_applied();
    allow_from(&world, Some("10.9.0.0/24")).await;
    world.until("ended", |_| kernel.tracked().len() == 2).await;
    assert_eq!(kernel.tracked(), [connection("10.9.0.1"), connection("10.0.0.1")], "the host reaches its workloads");
    assert!(!kernel.take_applied().is_empty(), "the policy was there first");
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_agent_left_behind_ends_at_the_start() {
    let (kernel, store) = (Recording::new(), MemoryStore::new());
    let first = world_with_pod(&kernel, store.clone()).await;
    allow_from(&first, None).await;
    first.until("settled", |status| status.dataplane_in_sync).await;
    first.agent.abort();
    drop(first);
    kernel.track(connection("10.9.0.1"));
    kernel.take_applied();
    let second = World::start_on(store, kernel.clone());
    second.until("ended", |_| kernel.tracked().is_empty()).await;
    let decides = |delta: &calico_core::table::Delta| !delta.chains_set.is_empty() || !delta.elements.is_empty();
    assert!(!kernel.take_applied().iter().any(decides), "nothing had to be written");
}

/// A rule that somebody else took away may have let in what it denies.
#[tokio::test(start_paused = true)]
async fn what_began_while_the_table_was_tampered_with_ends() {
    let kernel = Recording::new();
    let world = world_with_pod(&kernel, MemoryStore::new()).await;
    allow_from(&world, None).await;
    world.until("settled", |status| status.dataplane_in_sync).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    kernel.track(connection("10.9.0.1"));
    let table = kernel.ruleset();
    let victim = table.chains().find(|chain| chain.base.is_none() && !chain.rules.is_empty()).unwrap().clone();
    let tampered = calico_core::table::Chain { rules: Vec::new(), ..victim };
    kernel.tamper(&calico_core::table::Delta { chains_set: vec![tampered], ..Default::default() }).unwrap();
    world.until("ended", |_| kernel.tracked().is_empty()).await;
}

/// Whoever flushed the ruleset let everything in for a moment, by the uplink as well.
#[tokio::test(start_paused = true)]
async fn what_a_host_endpoint_denies_ends_with_the_policy_and_after_a_flush() {
    let kernel = Recording::new();
    let world = world_with_pod(&kernel, MemoryStore::new()).await;
    let (eth0, own): (InterfaceName, IpAddr) = ("eth0".parse().unwrap(), "192.0.2.1".parse().unwrap());
    world.link("eth0", 2);
    kernel.set_address(eth0, own, true);
    kernel.add_address(own);
    let stranger: IpAddr = "203.0.113.9".parse().unwrap();
    kernel.set_way(stranger, vec![eth0]);
    let mut begun = connection("203.0.113.9");
    (begun.original.destination, begun.reply.source) = (own, own);
    kernel.track(begun);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(kernel.tracked(), [begun], "nobody polices the uplink");

    let spec = HostEndpointSpec { node: "a".into(), interface_name: "eth0".into(), ..HostEndpointSpec::default() };
    let uplink = Resource::HostEndpoint(Object { metadata: Metadata::default(), spec });
    world.put(ResourceKey::cluster(Kind::HostEndpoint, "uplink"), uplink).await;
    world.until("ended with the policy", |_| kernel.tracked().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;

    kernel.flush_ruleset();
    kernel.track(begun);
    world.until("ended after the flush", |_| kernel.tracked().is_empty()).await;
}

/// How many connections of TCP may not be picked up in their middle.
fn barred(kernel: &Recording) -> usize {
    let of_set =
        |(set, elements): (&SetDecl, _)| if set.name.as_str() == "ended4" { Iterator::count(elements) } else { 0 };
    kernel.ruleset().sets().map(of_set).sum()
}

/// Nothing else happens then that would bring the loop round.
#[tokio::test(start_paused = true)]
async fn what_is_allowed_again_is_barred_no_longer() {
    let kernel = Recording::new();
    let world = world_with_pod(&kernel, MemoryStore::new()).await;
    let mut begun = connection("10.9.0.1");
    (begun.original.protocol, begun.reply.protocol) = (6, 6);
    kernel.track(begun);
    allow_from(&world, None).await;
    world.until("ended", |_| kernel.tracked().is_empty()).await;
    assert_eq!(barred(&kernel), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;

    allow_from(&world, Some("10.9.0.0/24")).await;
    world.until("settled", |status| status.dataplane_in_sync).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(barred(&kernel), 0);
}
