//! The fourth level of the policy oracle: what a real kernel does with real packets is what the specification says straight from the resources.
//!
//! From each seed come a world and settings; the graph, the renderer and the reconciler bring the table of a host, in a namespace, from the last
//! world's to this one's. Then a batch of packets is sent, and answers to those that arrived, and complaints about them. Each packet must arrive where the
//! specification says and nowhere else, with the destination that it should have by then. How many packets met rules of each policy and
//! profile must be what the evaluator of the graph's events gives as reasons.
//!
//! Left out here, and why:
//!
//! - Unusable objects, interfaces of the host that come and go, and addresses that move: what becomes of them is decided before anything is
//!   rendered, by the graph, which the levels below compare. A host endpoint whose interface is not there has no packets.
//! - Packets of an established connection that policy denies by now: see `denied` and the agent's tests.
//! - Translation by which a packet of the host itself leaves by another interface: policy before translation then sees that of the route which it
//!   would have had, which a [`Passage`](calico_core::flow::Passage) does not name. `host_endpoints` has such packets.
//! - UDP-Lite: to connection tracking of some kernels its right checksums are wrong ones, and others track it like any protocol.
//! - Translation of protocols without ports or queries: nobody writes rules for it.
//! - Packets from or to loopback addresses that come from outside, IPv6 extension headers and fragments: the kernel drops or reassembles them
//!   before policy.
//! - Masquerading, floating addresses, limits of connections and rates: no part of the question.

mod counters;
mod field;
mod question;
mod tally;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::flow::Decision;
use calico_core::net::{Cidr, Failsafes};
use calico_core::render::{DenyAction, EndpointToHost, RenderConfig, ServiceLoops};
use calico_core::resource::{DEFAULT_ALLOW_PROFILE, Kind, Resource, ResourceKey};
use calico_core::spec::{Cluster, Settings};
use calico_core::testing::{self, Change, Generator, HOST, Random};
use calico_core::verdict;
use calico_dataplane::testing::netns::scratch;

use self::counters::Expected;
use self::field::{Arrival, Field, WORKLOADS};
use self::question::{End, Question, World, pod};
use self::tally::Tally;
use super::fixture::{nft, open, run};
use super::rendered::Node;

/// Worlds, packets of each, and questions of which the rarest kind is asked.
const WORLDS: u64 = 400;
/// From this world on, what policy denies is refused where that is possible.
const REFUSING: u64 = 350;
const PACKETS: u32 = 36;
const CHOICES: u32 = 4;

#[test]
fn packets_go_where_the_specification_says() {
    let mut tally = Tally::default();
    let mut counted = 0;
    let host = scratch();
    let test = || {
        let field = Field::open();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for seed in 0..WORLDS {
            if seed == REFUSING {
                // Base chains move then, which the kernel takes only in two steps: see the known limits.
                nft("delete table inet calico-dataplane");
            }
            counted += runtime.block_on(ask(seed, &field, &mut tally));
        }
    };
    host.run(test).unwrap();
    println!("{tally}\n{} packets, {counted} times a rule was counted", tally.packets());
    let few = tally.below(5);
    assert!(few.is_empty(), "fewer than five cases of {few:#?}");
    assert!(tally.packets() > 4000 && counted > 1000);
}

/// Brings the host to a world, and puts packets to it. Returns how many were counted by rules.
async fn ask(seed: u64, field: &Field, tally: &mut Tally) -> u64 {
    let mut generator = Generator::new(seed);
    let world = world(&mut generator, field);
    let (settings, mut config) = settings(&mut generator.random);
    config.deny_action = if seed < REFUSING { DenyAction::Drop } else { DenyAction::Reject };
    let is_counted = config.counters && config.deny_action == DenyAction::Drop;
    let mut node = Node::with(open(), config);
    testing::World::default().changes_to(&world).iter().for_each(|change| tell(&mut node, change));
    node.settle().await;
    run("conntrack", "-F");
    let mut asked = subject(&world, &node, settings);
    let batch = draw(&mut asked, &mut generator, tally);
    let translations: Vec<_> = batch.iter().filter_map(|one| Some((one.before, one.translated?, one.number))).collect();
    field::translate(&translations);
    let before = if is_counted { counters::read() } else { BTreeMap::new() };
    send(field, &batch, &mut generator.random);
    compare(&batch, &field.collect(), &world, seed);
    let mut met = 0;
    if is_counted {
        let mut expected = Expected::default();
        batch.iter().for_each(|question| expected.take(question, &node.state));
        met = expected.compare(&before, &counters::read(), &format!("seed {seed}"));
    }
    let arrived = batch.iter().filter(|question| question.expected == Decision::Allow);
    let returns: Vec<Question> = arrived.flat_map(|question| asked.returns(question)).collect();
    returns.iter().for_each(|question| tally.count(question));
    send(field, &returns, &mut generator.random);
    compare(&returns, &field.collect(), &world, seed);
    met
}

/// Questions, each the rarest of some.
fn draw(asked: &mut World<'_>, generator: &mut Generator, tally: &mut Tally) -> Vec<Question> {
    let mut batch = Vec::new();
    for first in (0..PACKETS).map(|packet| packet * CHOICES) {
        let choices = (first..first + CHOICES).filter_map(|number| asked.ask(generator, number));
        if let Some(question) = choices.min_by_key(|question| tally.cases(question)) {
            asked.take(&question);
            tally.count(&question);
            batch.push(question);
        }
    }
    batch
}

/// A world in which all interfaces are there, and all workloads speak both families. As random policies deny workloads nearly everything, every other
/// world has few of them, and profiles that allow.
fn world(generator: &mut Generator, field: &Field) -> testing::World {
    let full = generator.world(0);
    let changes = generator.random.pick(&[60, 120, 200]);
    let mut world = generator.world(changes);
    world.interfaces = full.interfaces;
    let eased = generator.random.chance(50);
    let policies = [Kind::NetworkPolicy, Kind::GlobalNetworkPolicy];
    world.objects.retain(|key, _| !eased || !policies.contains(&key.kind()) || generator.random.chance(40));
    for object in world.objects.values_mut() {
        let Resource::WorkloadEndpoint(endpoint) = Arc::make_mut(object) else { continue };
        let spec = &mut endpoint.spec;
        if eased {
            spec.profiles.insert(0, DEFAULT_ALLOW_PROFILE.into());
        }
        spec.mac = spec.interface_name.and_then(|name| field.workload(name));
        if let [IpAddr::V4(address)] = *spec.ip_networks.iter().map(|net| net.address()).collect::<Vec<_>>() {
            let [_, _, space, number] = address.octets();
            spec.ip_networks.push(Cidr::host(pod(space, number)[1]));
        }
    }
    world
}

/// Settings of a host, in the words of the evaluators and in those of the renderer.
fn settings(random: &mut Random) -> (verdict::Settings, RenderConfig) {
    let host = Settings {
        endpoint_to_host: random.pick(&[EndpointToHost::Drop, EndpointToHost::Return, EndpointToHost::Accept]),
        drop_invalid: random.chance(70),
        prevent_service_loops: random.chance(70),
        vxlan_port: random.pick(&[4789, 4789, 80]),
        allow_vxlan_from_workloads: random.chance(30),
        allow_ipip_from_workloads: random.chance(60),
        allow_spoofed_sources: random.chance(50),
        ..Settings::default()
    };
    let failsafes = if random.chance(80) { Failsafes::default() } else { Failsafes::NONE };
    let config = RenderConfig {
        endpoint_to_host: host.endpoint_to_host,
        drop_invalid: host.drop_invalid,
        service_loops: if host.prevent_service_loops { ServiceLoops::Drop } else { ServiceLoops::Allow },
        vxlan_port: host.vxlan_port,
        allow_vxlan_from_workloads: host.allow_vxlan_from_workloads,
        allow_ipip_from_workloads: host.allow_ipip_from_workloads,
        allow_spoofed_sources: host.allow_spoofed_sources,
        failsafes: failsafes.clone(),
        counters: random.chance(80),
        rp_filter: 0,
        ..RenderConfig::default()
    };
    (verdict::Settings { host, failsafes }, config)
}

fn tell(node: &mut Node, change: &Change) {
    match change {
        Change::Object(update) => node.graph.handle_update(update),
        Change::Interface(name, addresses) => node.graph.set_interface(*name, addresses.as_deref()),
        Change::Slice(key, slice) => node.graph.set_endpoint_slice(key, slice.clone()),
        other => panic!("a change that the graph cannot be told: {other:?}"),
    }
}

fn subject<'a>(world: &testing::World, node: &'a Node, settings: verdict::Settings) -> World<'a> {
    let cluster = Cluster::new(world.objects.values().map(|object| &**object))
        .with_settings(settings.host.clone())
        .with_failsafes(settings.failsafes.clone())
        .with_interfaces(HOST, world.interfaces.clone())
        .with_slices(world.slices.values().cloned());
    let active = node.state.endpoints.iter();
    let workloads: Vec<_> = active
        .map(|(id, endpoint)| {
            let addresses = endpoint.addresses.iter().map(|net| net.address()).collect();
            (End::Workload(id.0.clone(), endpoint.interface), addresses)
        })
        .collect();
    let taken: BTreeSet<_> = workloads.iter().filter_map(|(end, _)| end.interface()).collect();
    let free = WORKLOADS.into_iter().map(|name| name.parse().unwrap()).filter(|name| !taken.contains(name));
    let nobody = ResourceKey::namespaced(Kind::WorkloadEndpoint, "none", "nobody");
    let strangers = free.map(|name| End::Workload(nobody.clone(), name)).collect();
    World { cluster, state: &node.state, settings, workloads, strangers, used: BTreeSet::new() }
}

fn send(field: &Field, batch: &[Question], random: &mut Random) {
    for question in batch {
        let packet = wire::packet(&question.before, question.part, question.number, question.about.as_deref());
        match question.from.interface() {
            Some(interface) => field.inject(interface, &packet),
            None => field.emit(question.before.destination, random.bits() as u32 & 0xffff_0000, &packet),
        }
    }
}

/// Each packet is where it should be, once, and on its way to where it should go; or nowhere.
fn compare(batch: &[Question], arrived: &BTreeMap<u32, Vec<Arrival>>, world: &testing::World, seed: u64) {
    for question in batch {
        let found = arrived.get(&question.number).map(Vec::as_slice).unwrap_or_default();
        let to = (question.after.destination, question.after.destination_port);
        let right = match (question.expected, found) {
            (Decision::Deny, []) => true,
            (Decision::Allow, [arrival]) => {
                arrival.interface == question.to.interface() && arrival.destination.is_none_or(|found| found == to)
            }
            _ => false,
        };
        if !right {
            let objects: Vec<String> = world.objects.values().map(|object| format!("{object:?}")).collect();
            panic!(
                "seed {seed}: {question:#?}\narrived at {found:?} in\n{}\n{}",
                objects.join("\n"),
                run("nft", "list table inet calico-dataplane")
            );
        }
    }
}
