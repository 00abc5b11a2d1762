//! The specification against the evaluators of the graph's events, by random passages through random worlds.

use alloc::collections::BTreeMap;
use std::println;

use super::*;
use crate::calc::Graph;
use crate::flow::{ConnState, Passage, Place};
use crate::testing::{Change, Coverage, Generator, HOST, Random, World};
use crate::verdict::{self, ActiveState, Compiled, Stage};

/// How often each kind of policy let a packet go on, and how often it dropped one.
type Stages = BTreeMap<(Stage, PolicyType), [usize; 2]>;

/// The graph of a host, and what it said so far.
pub(super) struct Rig {
    graph: Graph,
    compiled: Compiled,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self { graph: Graph::new(HOST), compiled: Compiled::default() }
    }

    pub(super) fn take(&mut self, change: &Change) {
        match change {
            Change::Object(update) => self.graph.handle_update(update),
            Change::Interface(name, addresses) => self.graph.set_interface(*name, addresses.as_deref()),
            Change::Slice(key, slice) => self.graph.set_endpoint_slice(key, slice.clone()),
        }
    }

    pub(super) fn flush(&mut self) {
        self.graph.flush().iter().for_each(|event| self.compiled.apply(event));
    }

    pub(super) const fn state(&self) -> &ActiveState {
        self.compiled.state()
    }
}

fn specified(world: &World, settings: &verdict::Settings) -> Cluster {
    // An object under a key of another kind is absent.
    let usable = world.objects.iter().filter(|(key, value)| key.kind() == value.kind()).map(|(_, value)| &**value);
    Cluster::new(usable)
        .with_settings(settings.host.clone())
        .with_failsafes(settings.failsafes.clone())
        .with_interfaces(HOST, world.interfaces.clone())
        .with_slices(world.slices.values().cloned())
}

fn some_settings(random: &mut Random) -> verdict::Settings {
    let actions = [EndpointToHost::Drop, EndpointToHost::Return, EndpointToHost::Accept];
    let host = Settings {
        endpoint_to_host: random.pick(&actions),
        drop_invalid: random.chance(80),
        prevent_service_loops: random.chance(80),
        vxlan_port: random.pick(&[4789, 4789, 80]),
        allow_vxlan_from_workloads: random.chance(30),
        allow_ipip_from_workloads: random.chance(30),
        allow_spoofed_sources: random.chance(50),
        ..Settings::default()
    };
    let failsafes = if random.chance(80) { Failsafes::default() } else { Failsafes::NONE };
    verdict::Settings { host, failsafes }
}

/// What a run has seen.
#[derive(Default)]
struct Seen {
    coverage: Coverage,
    stages: Stages,
}

/// Puts so many passages of a world to all: the resources, the events as they are, and those compiled.
fn compare(generator: &mut Generator, world: &World, compiled: &Compiled, passages: usize, seen: &mut Seen) {
    let settings = some_settings(&mut generator.random);
    let cluster = specified(world, &settings);
    let mut asker = compiled.asker();
    for _ in 0..passages {
        let passage = generator.passage(world);
        let found = compiled.state().passage(&settings, &passage);
        let expected = cluster.passage(HOST, &passage);
        assert_eq!(found.decision, expected, "{passage:#?}\n{settings:?}\n{found:#?}");
        assert_eq!(asker.passage(&settings, &passage).decision, expected, "{passage:#?}\n{settings:?}");
        seen.coverage.count(world, &passage, &found);
        for end in found.ends {
            let denied = usize::from(end.verdict.decision == DENY);
            seen.stages.entry((end.stage, end.direction)).or_default()[denied] += 1;
        }
    }
}

/// Interfaces of workloads that nobody announced, by whichever prefix.
#[test]
fn whoever_has_any_prefix_is_a_workload() {
    let workload_prefixes = ["cali", "tap"].map(|prefix| prefix.parse().unwrap()).into();
    let settings =
        verdict::Settings { host: Settings { workload_prefixes, ..Settings::default() }, ..Default::default() };
    let (cluster, compiled) = (specified(&World::default(), &settings), Compiled::default());
    let place = |name: &str| Place::Interface(name.parse().unwrap());
    let flow = flow("10.0.0.1", "10.0.0.2", 6, 80);
    for (from, to, expected) in
        [("cali9", "eth0", DENY), ("tap9", "eth0", DENY), ("eth0", "tap9", DENY), ("ta9", "eth0", ALLOW)]
    {
        let passage = Passage { from: place(from), to: place(to), arriving: flow, flow, state: ConnState::New };
        assert_eq!(cluster.passage(HOST, &passage), expected, "{from} to {to}");
        assert_eq!(compiled.state().passage(&settings, &passage).decision, expected, "{from} to {to}");
        assert_eq!(compiled.asker().passage(&settings, &passage).decision, expected, "{from} to {to}");
    }
}

#[test]
fn the_events_decide_as_the_resources_do() {
    let mut seen = Seen::default();
    for seed in 0..1200 {
        println!("seed {seed}");
        let mut generator = if seed % 4 == 0 { Generator::with_faults(seed) } else { Generator::new(seed) };
        let changes = generator.random.pick(&[60, 120, 200]);
        let world = generator.world(changes);
        let mut rig = Rig::new();
        World::default().changes_to(&world).iter().for_each(|change| rig.take(change));
        rig.flush();
        compare(&mut generator, &world, &rig.compiled, 320, &mut seen);
    }
    println!("{}\n{:#?}", seen.coverage, seen.stages);
    let missing = seen.coverage.below(5);
    assert!(missing.is_empty(), "{} cells have less than five cases: {missing:#?}", missing.len());
    assert_eq!(seen.stages.len(), 10);
    let policies = seen.stages.iter().filter(|((stage, _), _)| *stage != Stage::Forwarding);
    assert!(policies.flat_map(|(_, counts)| counts).all(|count| *count > 100), "{:#?}", seen.stages);
}

/// The same while the world changes: what the graph remembers of its past must not matter.
#[test]
fn the_events_decide_as_the_resources_do_on_the_way() {
    let mut seen = Seen::default();
    for seed in 5000..5020 {
        println!("seed {seed}");
        let mut generator = Generator::with_faults(seed);
        let mut world = generator.world(0);
        let mut rig = Rig::new();
        World::default().changes_to(&world).iter().for_each(|change| rig.take(change));
        for _ in 0..25 {
            for _ in 0..=generator.random.below(12) {
                let change = generator.change();
                world.apply(&change);
                rig.take(&change);
            }
            rig.flush();
            compare(&mut generator, &world, &rig.compiled, 12, &mut seen);
        }
    }
}
