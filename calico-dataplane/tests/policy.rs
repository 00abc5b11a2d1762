//! The whole way from resources to verdicts: what the graph and the renderer make of a random cluster, run by the interpreter, is what
//! the specification evaluator says straight from the resources. Seeds are printed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: what is wrong must stop it")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use calico_core::calc::Graph;
use calico_core::calc::event::{ActiveEndpoint, EndpointId, Event};
use calico_core::flow::{Decision, Flow};
use calico_core::net::{Family, InterfaceName};
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{Resource, ResourceKey};
use calico_core::spec::{Cluster, Party};
use calico_core::table::{CtState, Delta, Hook};
use calico_core::testing::{Generator, HOST};
use calico_core::update::Update;
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::recording::{Evaluation, Packet, Recording, Ruleset};

/// One host with everything from the graph to the memory that stands for a kernel.
struct Node {
    graph: Graph,
    renderer: Renderer,
    driver: Driver,
    host: Recording,
    endpoints: BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
}

impl Node {
    fn new() -> Self {
        let renderer = Renderer::new(RenderConfig::default());
        let host = Recording::new();
        let mut machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        machine.set_in_sync();
        let driver = Driver::new(machine, Box::new(host.clone()));
        Self { graph: Graph::new(HOST), renderer, driver, host, endpoints: BTreeMap::new() }
    }

    fn update(&mut self, update: &Update) {
        self.graph.handle_update(update);
    }

    /// Works until the host is as it should be; every write must be one that a kernel takes.
    fn settle(&mut self) -> Ruleset {
        let mut delta = Delta::default();
        for event in self.graph.flush() {
            self.renderer.handle(&event, &mut delta);
            match event {
                Event::EndpointSet { id, endpoint } => drop(self.endpoints.insert(id, endpoint)),
                Event::EndpointRemoved(id) => drop(self.endpoints.remove(&id)),
                _ => {}
            }
        }
        self.driver.machine().desire(&delta);
        loop {
            match ready(self.driver.step(&|| Duration::ZERO)) {
                Step::Idle => return self.host.ruleset(),
                Step::Applied { report, delta } => assert!(report.ruleset.is_none(), "{report:?} for {delta}"),
                _ => {}
            }
        }
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a host in memory never makes anyone wait"),
    }
}

/// How often each decision fell: a test in which everything is denied proves little.
#[derive(Debug, Default)]
struct Seen {
    allowed: usize,
    denied: usize,
}

impl Seen {
    fn check(&mut self, found: &Evaluation, expected: Decision, what: &dyn Fn() -> String) {
        let way = || found.trace.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert_eq!(found.decision, expected, "{}; the program's way:\n{}", what(), way());
        match expected {
            Decision::Allow => self.allowed += 1,
            Decision::Deny => self.denied += 1,
        }
    }
}

#[test]
fn the_program_decides_as_the_specification_does() {
    let mut seen = Seen::default();
    for seed in 0..90 {
        let mut generator = if seed % 3 == 0 { Generator::with_faults(seed) } else { Generator::new(seed) };
        let (mut node, mut objects) = (Node::new(), BTreeMap::new());
        for round in 0..4 {
            for _ in 0..25 {
                let update = generator.update();
                node.update(&update);
                match update.value {
                    Some(value) => objects.insert(update.key, value),
                    None => objects.remove(&update.key),
                };
            }
            let ruleset = node.settle();
            let cluster = Cluster::new(objects.values().map(|object| &**object));
            let case = Case { ruleset, cluster, objects: &objects, what: format!("seed {seed}, round {round}") };
            for _ in 0..40 {
                case.compare(&node.endpoints, &mut generator, &mut seen);
            }
        }
    }
    assert!(seen.allowed > 1_500 && seen.denied > 1_500, "{seen:?}");
}

struct Case<'a> {
    ruleset: Ruleset,
    cluster: Cluster,
    objects: &'a BTreeMap<ResourceKey, Arc<Resource>>,
    what: String,
}

impl Case<'_> {
    /// One random flow, from and to each of two endpoints, and between them.
    fn compare(
        &self,
        endpoints: &BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
        generator: &mut Generator,
        seen: &mut Seen,
    ) {
        let Some((from, to)) = pick_two(endpoints, generator) else { return };
        let mut flow = generator.flow();
        let spoofed = generator.random.chance(5);
        if let Some(source) = address_of(from.1, flow.family()).filter(|_| !spoofed) {
            flow.source = source;
        }
        let mark = generator.random.bits() as u32;
        let packet = |iif, oif| Packet { iif, oif, flow, ct_state: CtState::NEW, mark };
        let (near, far) = (from.1.interface, to.1.interface);
        let out = self.ruleset.evaluate(&[Hook::Forward], packet(Some(near), Some(uplink())));
        seen.check(&out, self.cluster.egress(&from.0.0, &flow), &|| self.say("egress of", &from.0.0, &flow));
        let into = self.ruleset.evaluate(&[Hook::Forward], packet(Some(uplink()), Some(far)));
        seen.check(&into, self.cluster.ingress(&to.0.0, &flow), &|| self.say("ingress of", &to.0.0, &flow));
        let through = self.ruleset.evaluate(&[Hook::Forward], packet(Some(near), Some(far)));
        let expected = self.cluster.decide(Party::Workload(&from.0.0), Party::Workload(&to.0.0), &flow);
        seen.check(&through, expected, &|| self.say("to its neighbour from", &from.0.0, &flow));
        let up = self.ruleset.evaluate(&[Hook::Input], packet(Some(near), None));
        let expected = self.cluster.decide(Party::Workload(&from.0.0), Party::Host(HOST), &flow);
        seen.check(&up, expected, &|| self.say("to its host from", &from.0.0, &flow));
        let stranger = self.ruleset.evaluate(&[Hook::Forward], packet(Some(name("calistranger")), Some(uplink())));
        seen.check(&stranger, Decision::Deny, &|| "from a workload nobody announced".into());
    }

    fn say(&self, what: &str, key: &ResourceKey, flow: &Flow) -> String {
        let objects: Vec<String> = self.objects.values().map(|object| format!("{object:?}")).collect();
        format!("{}: {what} {key}: {flow:?} in\n{}\n{}", self.what, objects.join("\n"), self.ruleset)
    }
}

type Local<'a> = (&'a EndpointId, &'a ActiveEndpoint);

fn pick_two<'a>(
    endpoints: &'a BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
    generator: &mut Generator,
) -> Option<(Local<'a>, Local<'a>)> {
    let all: Vec<Local<'a>> = endpoints.iter().map(|(id, endpoint)| (id, &**endpoint)).collect();
    (!all.is_empty()).then(|| (generator.random.pick(&all), generator.random.pick(&all)))
}

fn address_of(endpoint: &ActiveEndpoint, family: Family) -> Option<std::net::IpAddr> {
    endpoint.addresses.iter().find(|net| net.family() == family).map(|net| net.address())
}

fn uplink() -> InterfaceName {
    name("eth0")
}

fn name(text: &str) -> InterfaceName {
    text.parse().unwrap()
}
