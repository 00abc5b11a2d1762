//! A random cluster that changes, and the renderer's part in it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use calico_core::calc::Graph;
use calico_core::calc::event::{ActiveEndpoint, ActiveHostEndpoint, EndpointId, Event, Stack};
use calico_core::net::{Cidr, InterfaceName, Mac};
use calico_core::render::PolicyRenderer;
use calico_core::resource::{
    AllowedUse, AssignmentMode, EncapMode, IpNat, IpPool, IpPoolSpec, Kind, Metadata, QosControls, Resource,
    ResourceKey,
};
use calico_core::table::{Delta, RouteTarget, Shaper};
use calico_core::testing::{Change, Generator, HOST, World};
use calico_core::update::Update;
use calico_core::verdict::ActiveState;

use super::Subject;
use super::decisions::{Case, Seen};
use super::desired::Desired;
use crate::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use crate::recording::Recording;

/// Objects, the graph over them, and two renderers: one gets a delta for each event, the other one for many.
pub(super) struct Story<'a> {
    subject: &'a Subject<'a>,
    what: String,
    seed: u64,
    generator: Generator,
    world: World,
    graph: Graph,
    active: ActiveState,
    skeleton: Delta,
    single: Follower,
    gathering: Follower,
    driver: Driver,
    host: Recording,
}

/// A renderer, and what its deltas add up to.
pub(super) struct Follower {
    pub(super) renderer: Box<dyn PolicyRenderer>,
    pub(super) desired: Desired,
}

impl Follower {
    pub(super) fn new(subject: &Subject<'_>) -> Self {
        let renderer = (subject.make)();
        let mut desired = Desired::default();
        let taken = desired.take(&renderer.skeleton());
        assert_eq!(taken, Ok(()), "the skeleton goes into an empty table");
        Self { renderer, desired }
    }

    pub(super) fn take(&mut self, event: &Event, what: &str) {
        let mut delta = Delta::default();
        self.renderer.handle(event, &mut delta);
        if let Err(error) = self.desired.take(&delta) {
            panic!("what an event changes, a kernel takes; {what}: {event:?} gave\n{delta}\nbut {error}");
        }
    }
}

impl<'a> Story<'a> {
    pub(super) fn new(subject: &'a Subject<'a>, seed: u64) -> Self {
        let mut generator = if seed.is_multiple_of(3) { Generator::with_faults(seed) } else { Generator::new(seed) };
        let single = Follower::new(subject);
        let world = generator.world(0);
        let skeleton = single.renderer.skeleton();
        let config = ReconcileConfig {
            workload_prefixes: subject.settings.workload_prefixes.clone(),
            ..ReconcileConfig::default()
        };
        let mut machine = Reconciler::new(skeleton.clone(), config);
        machine.set_in_sync();
        let host = Recording::new();
        let mut graph = Graph::new(HOST).with_workload_prefixes(subject.settings.workload_prefixes.clone());
        World::default().changes_to(&world).iter().for_each(|change| tell(&mut graph, change));
        Self {
            subject,
            what: format!("seed {seed}"),
            seed,
            generator,
            world,
            graph,
            active: ActiveState::default(),
            skeleton,
            single,
            gathering: Follower::new(subject),
            driver: Driver::new(machine, Box::new(host.clone())),
            host,
        }
    }

    /// Some flushes of some changes each.
    pub(super) fn go_on(&mut self, round: usize) {
        self.what = format!("seed {}, round {round}", self.seed);
        let mut flushes = Vec::new();
        if round == 0 && self.is_crowded() {
            for _ in 0..40 {
                let update = self.generator.crowd();
                self.take(Change::Object(update));
            }
        }
        for _ in 0..=self.generator.random.below(3) {
            for _ in 0..=self.generator.random.below(48) {
                let change = match self.generator.random.below(100) {
                    0..5 => Change::Object(self.pool()),
                    5..50 if self.is_crowded() => Change::Object(self.generator.crowd()),
                    _ => self.generator.change(),
                };
                self.take(change);
            }
            flushes.extend(self.graph.flush());
        }
        self.follow(&flushes);
        self.check_routes();
        self.check_bandwidths();
    }

    /// Of four stories one has so many policies that they are asked by the dozen.
    const fn is_crowded(&self) -> bool {
        self.seed % 4 == 2
    }

    fn take(&mut self, change: Change) {
        let change = match change {
            Change::Object(update) => Change::Object(self.dress(update)),
            other => other,
        };
        tell(&mut self.graph, &change);
        self.world.apply(&change);
    }

    fn pool(&mut self) -> Update {
        let random = &mut self.generator.random;
        let cidr = random.pick(&["10.0.0.0/24", "10.0.1.0/24", "fd00::/64", "192.0.2.0/26"]);
        let name = cidr.replace(['.', ':', '/'], "-");
        let spec = IpPoolSpec {
            cidr: cidr.parse().unwrap(),
            vxlan_mode: EncapMode::default(),
            ipip_mode: EncapMode::default(),
            nat_outgoing: random.chance(60),
            disabled: random.chance(20),
            disable_bgp_export: false,
            block_size: None,
            node_selector: None,
            namespace_selector: None,
            allowed_uses: vec![AllowedUse::Workload],
            assignment_mode: AssignmentMode::default(),
        };
        let pool = Resource::IpPool(IpPool::new(Metadata { name: name.clone(), ..Metadata::default() }, spec));
        Update { key: ResourceKey::cluster(Kind::IpPool, &name), value: (!random.chance(25)).then(|| Arc::new(pool)) }
    }

    /// Adds what the generator leaves out: the subject's names of interfaces, Ethernet addresses, further sources, shared addresses,
    /// limits.
    fn dress(&mut self, mut update: Update) -> Update {
        let Some(Resource::WorkloadEndpoint(object)) = update.value.as_deref() else { return update };
        let (mut object, random) = (object.clone(), &mut self.generator.random);
        let spec = &mut object.spec;
        if let Some(name) = spec.interface_name {
            spec.interface_name = Some(self.subject.workload(name.as_str().trim_start_matches("cali")));
        }
        spec.mac = random.chance(50).then(|| Mac::new([2, 0, 0, 0, 0, random.below(3) as u8]));
        if random.chance(20) {
            let prefixes = ["192.0.2.0/28", "2001:db8::/32"];
            spec.allow_spoofed_source_prefixes = prefixes.map(|prefix| prefix.parse().unwrap()).into();
        }
        let shared: Cidr = "10.0.0.1/32".parse().unwrap();
        if random.chance(10) && !spec.ip_networks.is_empty() && !spec.ip_networks.contains(&shared) {
            spec.ip_networks.push(shared);
        }
        let inside = spec.ip_networks.first().map(|net| net.address()).filter(|_| random.chance(25));
        spec.ip_nats = inside.into_iter().flat_map(|inside| floating(inside, random.below(3))).collect();
        // Not by chance: that would make another story of each seed.
        let number = spec.mac.map_or(3, |mac| u64::from(mac.octets()[5]));
        let limit = |number: u64| [None, Some(8_000), Some(16_000)].get(number as usize % 4).copied().flatten();
        let (ingress_bandwidth, egress_bandwidth) = (limit(number), limit(number + 2));
        let rate = |number: u64| limit(number).map(|bits| bits * 10);
        let (ingress_packet_rate, egress_max_connections) = (rate(number), rate(number + 2));
        let controls = QosControls {
            ingress_bandwidth,
            egress_bandwidth,
            ingress_packet_rate,
            // More than a story has packets: this is about what is written.
            ingress_packet_burst: Some(1_000_000),
            egress_max_connections,
            ..QosControls::default()
        };
        spec.qos_controls = Some(Box::new(controls));
        update.value = Some(Arc::new(Resource::WorkloadEndpoint(object)));
        update
    }

    /// Hands events to both renderers, and what they change to the host.
    fn follow(&mut self, events: &[Event]) {
        let mut delta = Delta::default();
        for event in events {
            self.single.take(event, &self.what);
            self.gathering.renderer.handle(event, &mut delta);
            self.active.apply(event);
        }
        let merged = self.gathering.desired.merge(&delta);
        assert_eq!(merged, Ok(()), "events gathered in one delta, {}:\n{delta}", self.what);
        self.same(&self.gathering.desired, "events gathered in one delta change what they change one by one");
        self.driver.machine().desire(&delta);
        settle(&mut self.driver, &self.what);
        assert!(self.host.ruleset() == self.single.desired.ruleset, "the host holds what is desired, {}", self.what);
    }

    fn same(&self, other: &Desired, sentence: &str) {
        let found = &self.single.desired;
        assert!(found == other, "{sentence}; {}: what differs is\n{}", self.what, found.differences(other));
    }

    /// Each address of an active endpoint is routed to its interface, or to another active one that has it too; and nothing else is.
    fn check_routes(&self) {
        let endpoints = || self.active.endpoints.values();
        let routes = || self.single.desired.routes.values();
        let floats = self.single.renderer.abilities().floating_addresses;
        let addresses = |endpoint: &ActiveEndpoint| -> Vec<Cidr> {
            let floating = endpoint.floating.iter().filter(|_| floats).map(|(outside, _)| Cidr::host(*outside));
            endpoint.addresses.iter().copied().chain(floating).collect()
        };
        let has = |endpoint: &ActiveEndpoint, dest| addresses(endpoint).contains(&dest);
        for (dest, to) in routes().filter_map(|route| match route.target {
            RouteTarget::Interface(interface) => Some((route.key.dest, interface)),
            _ => None,
        }) {
            let expected = endpoints().any(|endpoint| endpoint.interface == to && has(endpoint, dest));
            assert!(expected, "{dest} is routed to {to}, which has no such workload; {}", self.what);
        }
        for (endpoint, address) in
            endpoints().flat_map(|found| addresses(found).into_iter().map(move |net| (found, net)))
        {
            let leads = routes().any(|route| {
                let to = |interface| endpoints().any(|other| other.interface == interface && has(other, address));
                route.key.dest == address && matches!(route.target, RouteTarget::Interface(interface) if to(interface))
            });
            let interface = endpoint.interface;
            assert!(leads, "the address {address} of {interface} has no route to its workload; {}", self.what);
        }
    }

    /// Each interface is limited as one of its active endpoints asks, and no other is.
    fn check_bandwidths(&self) {
        let shapings = &self.single.desired.shapings;
        let mut interfaces: BTreeSet<_> = shapings.values().map(|shaping| shaping.shaper.workload()).collect();
        interfaces.extend(self.active.endpoints.values().map(|endpoint| endpoint.interface));
        for interface in interfaces {
            let rate = |shaper: Shaper| {
                let found = shapings.get(&shaper.device).filter(|found| found.shaper == shaper);
                found.map(|found| found.rate)
            };
            let found = [Shaper::of_received(interface), Shaper::of_sent(interface)].map(rate);
            let expected = self.asked_of(interface);
            let what = &self.what;
            assert!(expected.contains(&found), "{interface} is limited as no endpoint asks: {found:?}; {what}");
        }
    }

    fn asked_of(&self, interface: InterfaceName) -> Vec<[Option<u64>; 2]> {
        let asked = |endpoint: &ActiveEndpoint| {
            let controls = endpoint.qos.as_deref();
            let both = [
                controls.and_then(|controls| controls.ingress_bandwidth),
                controls.and_then(|controls| controls.egress_bandwidth),
            ];
            both.map(|bits| bits.map(|bits| bits.unsigned_abs() / 8))
        };
        let there = self.active.endpoints.values().filter(|endpoint| endpoint.interface == interface);
        there.map(|endpoint| asked(endpoint)).collect()
    }

    /// Another graph hears of the objects as they are now only, in another order and in other flushes.
    pub(super) fn compare_with_a_fresh_start(&mut self) {
        let mut fresh = Follower::new(self.subject);
        let mut graph = Graph::new(HOST).with_workload_prefixes(self.subject.settings.workload_prefixes.clone());
        let mut changes = World::default().changes_to(&self.world);
        self.generator.random.shuffle(&mut changes);
        for change in &changes {
            tell(&mut graph, change);
            if self.generator.random.chance(10) {
                graph.flush().iter().for_each(|event| fresh.take(event, &self.what));
            }
        }
        graph.flush().iter().for_each(|event| fresh.take(event, &self.what));
        self.same(&fresh.desired, "the desired state depends on what is active, and on nothing before");
    }

    /// Whole values once more, and removals of what is gone.
    pub(super) fn tell_again(&mut self) {
        let ActiveState { sets, policies, profiles, endpoints, host_endpoints, network, .. } = &self.active;
        let mut events: Vec<Event> = Vec::new();
        events.extend(sets.iter().map(|(id, (kind, members))| Event::SetAdded {
            id: *id,
            kind: *kind,
            members: members.iter().copied().collect(),
        }));
        events.extend(policies.iter().map(|(id, rules)| Event::PolicySet { id: id.clone(), rules: rules.clone() }));
        events.extend(profiles.iter().map(|(id, rules)| Event::ProfileSet { id: id.clone(), rules: rules.clone() }));
        let endpoint = |(id, endpoint): (&EndpointId, &Arc<ActiveEndpoint>)| Event::EndpointSet {
            id: id.clone(),
            endpoint: endpoint.clone(),
        };
        events.extend(endpoints.iter().map(endpoint));
        let host_endpoint = |(id, endpoint): (&EndpointId, &Arc<ActiveHostEndpoint>)| Event::HostEndpointSet {
            id: id.clone(),
            endpoint: endpoint.clone(),
        };
        events.extend(host_endpoints.iter().map(host_endpoint));
        events.push(Event::NetworkSet(network.clone()));
        events.retain(|_| self.generator.random.chance(30));
        for event in &events {
            let before = self.single.desired.clone();
            self.single.take(event, &self.what);
            self.same(&before, "a value told again changes nothing");
        }
    }

    pub(super) fn decide(&mut self, seen: &mut Seen) {
        let case = Case::new(self.subject, self.host.ruleset(), &self.world, self.what.clone());
        for _ in 0..40 {
            case.compare(&self.active.endpoints, &mut self.generator, seen);
        }
    }

    pub(super) fn remove_everything(&mut self) {
        self.what = format!("seed {}, at the end", self.seed);
        self.world.changes_to(&World::default()).iter().for_each(|change| tell(&mut self.graph, change));
        self.world = World::default();
        let events = self.graph.flush();
        self.follow(&events);
        assert!(self.skeleton == self.single.renderer.skeleton(), "the skeleton stays the same; {}", self.what);
        let fresh = Follower::new(self.subject);
        self.same(&fresh.desired, "when nothing is active, the skeleton is all there is");
    }
}

/// An address outside, and now and then a second one, that few share.
fn floating(inside: IpAddr, number: usize) -> impl Iterator<Item = IpNat> {
    let outside: &[&str] = match (inside, number) {
        (IpAddr::V4(_), 0) => &["203.0.113.1"],
        (IpAddr::V4(_), 1) => &["203.0.113.2"],
        (IpAddr::V4(_), _) => &["203.0.113.1", "203.0.113.2"],
        (IpAddr::V6(_), _) => &["2001:db8:f::1"],
    };
    outside.iter().map(move |text| IpNat { internal_ip: inside.to_string(), external_ip: (*text).to_owned() })
}

fn tell(graph: &mut Graph, change: &Change) {
    match change {
        Change::Object(update) => graph.handle_update(update),
        Change::Interface(name, addresses) => graph.set_interface(*name, addresses.as_deref()),
        Change::Slice(key, slice) => graph.set_endpoint_slice(key, slice.clone()),
        _ => panic!("a change that nobody can tell the graph: {change:?}"),
    }
}

/// What no base chain catches would be reachable and not policed.
pub(super) fn endpoint_on_another_interface(subject: &Subject<'_>) {
    let mut follower = Follower::new(subject);
    let before = follower.desired.clone();
    let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "pod"));
    let endpoint = Arc::new(ActiveEndpoint {
        interface: "eth1".parse().unwrap(),
        mac: Some(Mac::ALL_EE),
        addresses: vec!["10.0.0.1/32".parse().unwrap()],
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: None,
        ingress: Arc::new(Stack::default()),
        egress: Arc::new(Stack::default()),
    });
    for event in [Event::EndpointSet { id: id.clone(), endpoint }, Event::EndpointRemoved(id)] {
        follower.take(&event, "on an interface that is no workload's");
        let same = follower.desired == before;
        assert!(same, "an endpoint on eth1 gets nothing, but:\n{}", before.differences(&follower.desired));
    }
}

fn settle(driver: &mut Driver, what: &str) {
    loop {
        match ready(driver.step(&|| Duration::ZERO)) {
            Step::Idle => return,
            Step::Applied { report, delta } => assert!(report.ruleset.is_none(), "{what}: {report:?} for {delta}"),
            _ => {}
        }
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a host in memory never makes anyone wait"),
    }
}
