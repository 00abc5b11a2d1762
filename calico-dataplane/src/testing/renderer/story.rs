//! A random cluster that changes, and the renderer's part in it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use calico_core::calc::Graph;
use calico_core::calc::event::{ActiveEndpoint, ActiveHostEndpoint, EndpointId, Event, Stack};
use calico_core::net::{Cidr, InterfaceName, Mac};
use calico_core::render::PolicyRenderer;
use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_core::table::{Delta, RouteTarget};
use calico_core::testing::{Generator, HOST};
use calico_core::update::Update;
use calico_core::verdict::ActiveState;

use super::Subject;
use super::decisions::{Case, Seen};
use super::desired::Desired;
use super::hosts;
use crate::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use crate::recording::Recording;

/// Objects, the graph over them, and two renderers: one gets a delta for each event, the other one for many.
pub(super) struct Story<'a> {
    subject: &'a Subject<'a>,
    what: String,
    seed: u64,
    generator: Generator,
    objects: BTreeMap<ResourceKey, Arc<Resource>>,
    /// Interfaces of the host with their addresses.
    interfaces: BTreeMap<InterfaceName, Vec<IpAddr>>,
    graph: Graph,
    active: ActiveState,
    skeleton: Delta,
    single: Follower,
    gathering: Follower,
    driver: Driver,
    host: Recording,
}

/// A renderer, and what its deltas add up to.
struct Follower {
    renderer: Box<dyn PolicyRenderer>,
    desired: Desired,
}

impl Follower {
    fn new(subject: &Subject<'_>) -> Self {
        let renderer = (subject.make)();
        let mut desired = Desired::default();
        let taken = desired.take(&renderer.skeleton());
        assert_eq!(taken, Ok(()), "the skeleton goes into an empty table");
        Self { renderer, desired }
    }

    fn take(&mut self, event: &Event, what: &str) {
        let mut delta = Delta::default();
        self.renderer.handle(event, &mut delta);
        if let Err(error) = self.desired.take(&delta) {
            panic!("what an event changes, a kernel takes; {what}: {event:?} gave\n{delta}\nbut {error}");
        }
    }
}

impl<'a> Story<'a> {
    pub(super) fn new(subject: &'a Subject<'a>, seed: u64) -> Self {
        let generator = if seed.is_multiple_of(3) { Generator::with_faults(seed) } else { Generator::new(seed) };
        let single = Follower::new(subject);
        let skeleton = single.renderer.skeleton();
        let config = ReconcileConfig { workload_prefixes: vec![subject.workload_prefix], ..ReconcileConfig::default() };
        let mut machine = Reconciler::new(skeleton.clone(), config);
        machine.set_in_sync();
        let host = Recording::new();
        Self {
            subject,
            what: format!("seed {seed}"),
            seed,
            generator,
            objects: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            graph: Graph::new(HOST).with_workload_prefixes(vec![subject.workload_prefix]),
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
        for _ in 0..=self.generator.random.below(3) {
            for _ in 0..=self.generator.random.below(24) {
                let update = if self.generator.random.chance(25) {
                    hosts::update(&mut self.generator.random)
                } else {
                    self.generator.update()
                };
                let update = self.dress(update);
                self.update(update);
            }
            for name in hosts::interfaces() {
                if round == 0 || self.generator.random.chance(20) {
                    let addresses = hosts::addresses(&mut self.generator.random);
                    self.graph.set_interface(name, Some(&addresses));
                    self.interfaces.insert(name, addresses);
                }
            }
            flushes.extend(self.graph.flush());
        }
        self.follow(&flushes);
        self.check_routes();
    }

    fn update(&mut self, update: Update) {
        self.graph.handle_update(&update);
        match update.value {
            Some(value) => self.objects.insert(update.key, value),
            None => self.objects.remove(&update.key),
        };
    }

    /// Adds what the generator leaves out: the subject's names of interfaces, Ethernet addresses, further sources, shared addresses.
    fn dress(&mut self, update: Update) -> Update {
        let mut update = hosts::dress(update, &mut self.generator.random);
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
        let has = |endpoint: &ActiveEndpoint, dest| endpoint.addresses.contains(&dest);
        for (dest, to) in routes().filter_map(|route| match route.target {
            RouteTarget::Interface(interface) => Some((route.key.dest, interface)),
            _ => None,
        }) {
            let expected = endpoints().any(|endpoint| endpoint.interface == to && has(endpoint, dest));
            assert!(expected, "{dest} is routed to {to}, which has no such workload; {}", self.what);
        }
        for (endpoint, address) in endpoints().flat_map(|found| found.addresses.iter().map(move |net| (found, *net))) {
            let leads = routes().any(|route| {
                let to = |interface| endpoints().any(|other| other.interface == interface && has(other, address));
                route.key.dest == address && matches!(route.target, RouteTarget::Interface(interface) if to(interface))
            });
            let interface = endpoint.interface;
            assert!(leads, "the address {address} of {interface} has no route to its workload; {}", self.what);
        }
    }

    /// Another graph hears of the objects as they are now only, in another order and in other flushes.
    pub(super) fn compare_with_a_fresh_start(&mut self) {
        let mut fresh = Follower::new(self.subject);
        let mut graph = Graph::new(HOST).with_workload_prefixes(vec![self.subject.workload_prefix]);
        let mut objects: Vec<_> = self.objects.iter().collect();
        self.generator.random.shuffle(&mut objects);
        for (key, value) in objects {
            graph.handle_update(&Update { key: key.clone(), value: Some(Arc::clone(value)) });
            if self.generator.random.chance(10) {
                graph.flush().iter().for_each(|event| fresh.take(event, &self.what));
            }
        }
        for (name, addresses) in &self.interfaces {
            graph.set_interface(*name, Some(addresses));
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
        let case = Case::new(self.subject, self.host.ruleset(), &self.objects, &self.interfaces, self.what.clone());
        for _ in 0..40 {
            case.compare(&self.active.endpoints, &mut self.generator, seen);
        }
    }

    pub(super) fn remove_everything(&mut self) {
        self.what = format!("seed {}, at the end", self.seed);
        for key in std::mem::take(&mut self.objects).into_keys() {
            self.graph.handle_update(&Update { key, value: None });
        }
        for name in std::mem::take(&mut self.interfaces).into_keys() {
            self.graph.set_interface(name, None);
        }
        let events = self.graph.flush();
        self.follow(&events);
        assert!(self.skeleton == self.single.renderer.skeleton(), "the skeleton stays the same; {}", self.what);
        let fresh = Follower::new(self.subject);
        self.same(&fresh.desired, "when nothing is active, the skeleton is all there is");
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
