//! Real packets between pods of one host: for random clusters, what the kernel lets through is what the specification evaluator
//! says straight from the resources.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use calico_core::flow::{Decision, Flow};
use calico_core::net::{Cidr, InterfaceName};
use calico_core::resource::{DEFAULT_ALLOW_PROFILE, Kind, Resource, ResourceKey};
use calico_core::spec::{Cluster, Party};
use calico_core::testing::{Generator, Random};
use calico_core::update::Update;
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::testing::netns::scratch;

use super::fixture::{bind, open};
use super::rendered::Node;

const HOST_ADDRESS: &str = "192.0.2.200";
const POLICED: u8 = 1;
const SENTINEL: u8 = 2;

/// The pods that the generator makes, each in a namespace, by interface.
struct Pods(BTreeMap<InterfaceName, (IpAddr, Netns)>);

impl Pods {
    /// In the calling thread's namespace.
    fn attach() -> Self {
        let mut host = RouteSocket::open().unwrap();
        let lo = index(&mut host, "lo");
        host.carry_out(&[Request::up(lo), Request::address(lo, HOST_ADDRESS.parse().unwrap(), 32)]).unwrap();
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let numbers = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
        let address = |(space, number): (u8, u8)| IpAddr::from([10, 0, space, number]);
        let pod = |(space, number): (u8, u8)| {
            let name: InterfaceName = format!("cali{space}{number}").parse().unwrap();
            let netns = scratch();
            attach(&mut host, name, &netns, address((space, number)), &numbers.map(address));
            (name, (address((space, number)), netns))
        };
        Self(numbers.into_iter().map(pod).collect())
    }

    fn address(&self, name: InterfaceName) -> IpAddr {
        self.0.get(&name).unwrap().0
    }

    /// Whether a datagram gets through. From its own host a pod is always reached, by the same queue: what has not come before the
    /// host's datagram was dropped.
    fn delivers(&self, from: InterfaceName, to: InterfaceName, flow: &Flow) -> bool {
        let bind = |name, port| {
            let (address, netns): &(IpAddr, Netns) = self.0.get(&name).unwrap();
            let socket = netns.run(|| bind(*address, port)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            socket
        };
        let (sender, receiver) = (bind(from, flow.source_port), bind(to, flow.destination_port));
        let host = UdpSocket::bind((HOST_ADDRESS, 0)).unwrap();
        let target = (flow.destination, flow.destination_port);
        sender.send_to(&[POLICED], target).unwrap();
        host.send_to(&[SENTINEL], target).unwrap();
        let mut first = [0];
        receiver.recv(&mut first).unwrap();
        first == [POLICED]
    }
}

fn attach(host: &mut RouteSocket, name: InterfaceName, netns: &Netns, address: IpAddr, others: &[IpAddr]) {
    let far = VethEnd { name: "eth0".parse().unwrap(), netns: Some(netns.as_fd()), mac: None };
    host.carry_out(&[Request::veth(VethEnd { name, netns: None, mac: None }, far, 0)]).unwrap();
    let near = host.link(name).unwrap().unwrap();
    host.carry_out(&[Request::up(near.index)]).unwrap();
    let mut pod = RouteSocket::open_in(netns).unwrap();
    let eth0 = index(&mut pod, "eth0");
    let everywhere = Cidr::new([0, 0, 0, 0].into(), 0).unwrap();
    let mut requests = vec![Request::up(eth0), Request::address(eth0, address, 32)];
    requests.push(Request::route(everywhere, None, eth0));
    requests.extend(others.iter().map(|other| Request::neighbor(eth0, *other, near.mac.unwrap())));
    pod.carry_out(&requests).unwrap();
}

fn index(socket: &mut RouteSocket, name: &str) -> u32 {
    socket.link(name.parse().unwrap()).unwrap().unwrap().index
}

#[derive(Debug, Default)]
struct Seen {
    allowed: usize,
    denied: usize,
}

#[test]
fn packets_go_where_the_specification_says() {
    let mut seen = Seen::default();
    for seed in 100..116 {
        // A new host each time: connection tracking must know none of the flows.
        let host = scratch();
        let run = || {
            let pods = Pods::attach();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(walk(seed, &pods, &mut seen));
        };
        host.run(run).unwrap();
    }
    assert!(seen.allowed > 50 && seen.denied > 50, "{seen:?}");
}

/// Random policies deny nearly everything: fewer of them, and profiles that allow, make both verdicts common.
fn eased(update: Update, random: &mut Random) -> Update {
    let Update { key, value } = update;
    let is_policy = matches!(key.kind(), Kind::NetworkPolicy | Kind::GlobalNetworkPolicy);
    let ease = |value: Arc<Resource>| match &*value {
        Resource::WorkloadEndpoint(endpoint) => {
            let mut endpoint = endpoint.clone();
            endpoint.spec.profiles.push(DEFAULT_ALLOW_PROFILE.into());
            endpoint.spec.profiles.reverse();
            Arc::new(Resource::WorkloadEndpoint(endpoint))
        }
        _ => value,
    };
    let value = value.filter(|_| !is_policy || random.chance(25)).map(ease);
    Update { key, value }
}

async fn walk(seed: u64, pods: &Pods, seen: &mut Seen) {
    let mut generator = Generator::new(seed);
    let (mut node, mut objects) = (Node::start(open()), BTreeMap::new());
    let mut used = BTreeSet::new();
    for round in 0..3 {
        for _ in 0..30 {
            let update = eased(generator.update(), &mut generator.random);
            node.graph.handle_update(&update);
            match update.value {
                Some(value) => objects.insert(update.key, value),
                None => objects.remove(&update.key),
            };
        }
        node.settle().await;
        let cluster = Cluster::new(objects.values().map(|object| &**object));
        let local: Vec<(ResourceKey, InterfaceName)> =
            node.state.endpoints.iter().map(|(id, endpoint)| (id.0.clone(), endpoint.interface)).collect();
        for _ in 0..if local.is_empty() { 0 } else { 25 } {
            let (from, to) = (generator.random.pick(&local), generator.random.pick(&local));
            let (source, destination) = (pods.address(from.1), pods.address(to.1));
            let flow = Flow { source, destination, protocol: 17, icmp: None, ..generator.flow() };
            let ends = BTreeSet::from([(source, flow.source_port), (destination, flow.destination_port)]);
            // A flow seen before, in whichever direction, is a connection by now.
            if source == destination || flow.source_port == 0 || !used.insert(ends) {
                continue;
            }
            let expected = cluster.decide(Party::Workload(&from.0), Party::Workload(&to.0), &flow);
            let delivered = pods.delivers(from.1, to.1, &flow);
            assert_eq!(
                delivered,
                expected == Decision::Allow,
                "seed {seed}, round {round}: {} to {}: {flow:?}",
                from.0,
                to.0
            );
            if delivered { seen.allowed += 1 } else { seen.denied += 1 }
        }
    }
}
