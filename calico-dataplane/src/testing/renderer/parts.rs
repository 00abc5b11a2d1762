//! Sets of which only parts with members exist, against a fresh start and against their naive twin: sets of which all parts always exist.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveRule, ActiveRules, EndpointId, Event, IpSetKind, Member, PolicyId, SetId,
    Stack, StackTier,
};
use calico_core::flow::{Decision, Flow};
use calico_core::net::{Family, PortRange};
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{Action, DefaultAction, Kind, ResourceKey};
use calico_core::table::{CtState, Delta, Hook};
use calico_core::testing::Random;

use super::desired::Desired;
use crate::recording::Packet;

const SETS: u8 = 5;
const POLICIES: usize = 10;
const NETS: [&str; 8] = [
    "192.0.2.1/32",
    "192.0.2.2/32",
    "192.0.2.4/31",
    "192.0.2.6/31",
    "2001:db8::1/128",
    "2001:db8::2/128",
    "2001:db8::4/127",
    "2001:db8::6/127",
];
/// One member of each part, which no packet has.
const ELSEWHERE: [&str; 4] = ["203.0.113.1/32", "203.0.113.128/25", "2001:db8:f::1/128", "2001:db8:f:1::/64"];

/// What is active.
#[derive(Default)]
struct Active {
    sets: BTreeMap<SetId, BTreeSet<Member>>,
    rules: BTreeMap<PolicyId, Arc<ActiveRules>>,
    endpoint: bool,
}

/// A renderer and what its deltas add up to.
struct Follower {
    renderer: Renderer,
    desired: Desired,
}

impl Follower {
    fn new(config: &RenderConfig) -> Self {
        let renderer = Renderer::new(config.clone());
        let mut desired = Desired::default();
        desired.take(&renderer.skeleton()).unwrap();
        Self { renderer, desired }
    }

    fn take(&mut self, event: &Event) {
        let mut delta = Delta::default();
        self.renderer.handle(event, &mut delta);
        self.desired.take(&delta).unwrap_or_else(|error| panic!("{event:?} gave\n{delta}\nbut {error}"));
    }
}

struct Scene {
    random: Random,
    config: RenderConfig,
    active: Active,
    single: Follower,
    gathering: Follower,
    gathered: Delta,
    twin: Follower,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let config = RenderConfig { counters: random.chance(50), ..RenderConfig::default() };
        let [single, gathering, twin] = [(); 3].map(|()| Follower::new(&config));
        let (active, gathered) = (Active::default(), Delta::default());
        let mut scene = Self { random, config, active, single, gathering, gathered, twin };
        (0..SETS).for_each(|number| scene.add_set(set(number)));
        policies().for_each(|policy| scene.rewrite(&policy));
        scene.change_endpoint();
        scene
    }

    fn take(&mut self, event: &Event) {
        self.single.take(event);
        self.gathering.renderer.handle(event, &mut self.gathered);
        self.twin.take(&with_all_parts(event));
    }

    fn go_on(&mut self) {
        match self.random.below(10) {
            0 => self.remove_or_add_set(),
            1 => self.change_endpoint(),
            2 | 3 => {
                let policy = policies().nth(self.random.below(POLICIES)).unwrap();
                self.rewrite(&policy);
            }
            _ => self.change_members(),
        }
        if self.random.chance(25) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let delta = std::mem::take(&mut self.gathered);
        self.gathering.desired.merge(&delta).unwrap_or_else(|error| panic!("gathered\n{delta}\nbut {error}"));
    }

    fn add_set(&mut self, id: SetId) {
        let members = self.members(id);
        self.active.sets.insert(id, members.clone());
        self.take(&added(id, &members));
    }

    fn remove_or_add_set(&mut self) {
        let id = set(self.random.below(usize::from(SETS)) as u8);
        if self.active.sets.remove(&id).is_none() {
            return self.add_set(id);
        }
        // Whoever refers to it first ceases to.
        let users: Vec<PolicyId> =
            self.active.rules.iter().filter(|(_, rules)| refers(rules, id)).map(|(policy, _)| policy.clone()).collect();
        users.iter().for_each(|policy| self.rewrite(policy));
        self.take(&Event::SetRemoved(id));
    }

    fn change_members(&mut self) {
        let known: Vec<SetId> = self.active.sets.keys().copied().collect();
        let Some(id) = (!known.is_empty()).then(|| self.random.pick(&known)) else { return };
        let after = self.members(id);
        let before = self.active.sets.insert(id, after.clone()).unwrap();
        let difference =
            |one: &BTreeSet<Member>, other: &BTreeSet<Member>| one.difference(other).copied().collect::<Vec<_>>();
        self.take(&Event::SetChanged { id, added: difference(&after, &before), removed: difference(&before, &after) });
    }

    /// Few, so that parts come and go.
    fn members(&mut self, id: SetId) -> BTreeSet<Member> {
        let count = self.random.below(4);
        (0..count).map(|_| member(kind(id), self.random.pick(&NETS), self.random.pick(&[53, 80]))).collect()
    }

    fn rewrite(&mut self, policy: &PolicyId) {
        let mut list = || (0..self.random.below(4)).map(|_| rule(&mut self.random, &self.active)).collect();
        let rules = Arc::new(ActiveRules { tier: None, ingress: list(), egress: list() });
        self.active.rules.insert(policy.clone(), rules.clone());
        self.take(&Event::PolicySet { id: policy.clone(), rules });
    }

    fn change_endpoint(&mut self) {
        self.active.endpoint = !self.active.endpoint;
        self.take(&if self.active.endpoint { endpoint() } else { Event::EndpointRemoved(endpoint_id()) });
    }

    /// A renderer that never saw anything but the end.
    fn fresh(&mut self) -> Follower {
        let mut fresh = Follower::new(&self.config);
        let mut sets: Vec<_> = self.active.sets.iter().collect();
        self.random.shuffle(&mut sets);
        sets.into_iter().for_each(|(id, members)| fresh.take(&added(*id, members)));
        let mut rules: Vec<_> = self.active.rules.iter().collect();
        self.random.shuffle(&mut rules);
        for (id, rules) in rules {
            fresh.take(&Event::PolicySet { id: id.clone(), rules: rules.clone() });
        }
        if self.active.endpoint {
            fresh.take(&endpoint());
        }
        fresh
    }

    /// Kernel sets that stand for IP sets, each with its number of members.
    fn parts(&self) -> BTreeMap<String, usize> {
        let sets = self.single.desired.ruleset.sets();
        let named = sets.map(|(decl, elements)| (decl.name.as_str().to_owned(), elements.count()));
        named.filter(|(name, _)| name.len() > 32).collect()
    }
}

fn set(number: u8) -> SetId {
    SetId::new([number; 16])
}

/// The last two hold ports.
fn kind(id: SetId) -> IpSetKind {
    if id.octets()[0] < SETS - 2 { IpSetKind::Net } else { IpSetKind::AddrPort }
}

fn member(kind: IpSetKind, net: &str, port: u16) -> Member {
    let cidr: calico_core::net::Cidr = net.parse().unwrap();
    match kind {
        IpSetKind::Net => Member::Net(cidr),
        IpSetKind::AddrPort => Member::AddrPort { address: cidr.address(), protocol: 17, port },
    }
}

fn added(id: SetId, members: &BTreeSet<Member>) -> Event {
    Event::SetAdded { id, kind: kind(id), members: members.iter().copied().collect() }
}

fn with_all_parts(event: &Event) -> Event {
    let Event::SetAdded { id, kind, members } = event else { return event.clone() };
    let all = ELSEWHERE.map(|net| member(*kind, net, 1));
    let members = members.iter().copied().chain(all).collect::<BTreeSet<_>>();
    added(*id, &members)
}

fn policies() -> impl Iterator<Item = PolicyId> {
    (0..POLICIES).map(|number| PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, &format!("p{number}"))))
}

fn endpoint_id() -> EndpointId {
    EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "pod"))
}

fn endpoint() -> Event {
    let tier =
        StackTier { name: "default".into(), policies: policies().collect(), default_action: DefaultAction::Deny };
    let stack = Arc::new(Stack { tiers: vec![tier], profiles: Vec::new() });
    let endpoint = ActiveEndpoint {
        interface: "cali1".parse().unwrap(),
        mac: None,
        addresses: ["10.0.0.1/32", "fd00::1/128"].map(|net| net.parse().unwrap()).into(),
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: None,
        ingress: stack.clone(),
        egress: stack,
    };
    Event::EndpointSet { id: endpoint_id(), endpoint: Arc::new(endpoint) }
}

fn lists(entity: &ActiveEntity) -> [&Vec<SetId>; 4] {
    [&entity.sets, &entity.not_sets, &entity.port_sets, &entity.not_port_sets]
}

fn refers(rules: &ActiveRules, id: SetId) -> bool {
    let entities = rules.ingress.iter().chain(&rules.egress).flat_map(|rule| [&rule.source, &rule.destination]);
    entities.flat_map(lists).any(|list| list.contains(&id))
}

fn rule(random: &mut Random, active: &Active) -> ActiveRule {
    let known = |kind_of| active.sets.keys().copied().filter(|id| kind(*id) == kind_of).collect::<Vec<_>>();
    let (nets, ports) = (known(IpSetKind::Net), known(IpSetKind::AddrPort));
    let some = |random: &mut Random, from: &[SetId], percent| -> Vec<SetId> {
        if from.is_empty() || !random.chance(percent) { Vec::new() } else { vec![random.pick(from)] }
    };
    let side = |random: &mut Random| ActiveEntity {
        sets: some(random, &nets, 35),
        not_sets: some(random, &nets, 20),
        port_sets: some(random, &ports, 15),
        not_port_sets: some(random, &ports, 10),
        ports: if random.chance(20) { vec![PortRange::single(80)] } else { Vec::new() },
        ..ActiveEntity::default()
    };
    let (source, destination) = (side(random), side(random));
    ActiveRule {
        family: random.pick(&[None, None, None, Some(Family::V4), Some(Family::V6)]),
        protocol: random.pick(&[None, Some(17)]),
        source,
        destination,
        ..ActiveRule::all(random.pick(&[Action::Allow, Action::Allow, Action::Deny, Action::Pass]))
    }
}

/// From or to the endpoint; the other end is most often a member of something.
fn packet(random: &mut Random) -> Packet {
    let other = if random.chance(50) { "192.0.2." } else { "2001:db8::" };
    let other: IpAddr = format!("{other}{}", random.below(9)).parse().unwrap();
    let own = if other.is_ipv4() { "10.0.0.1" } else { "fd00::1" };
    let own: IpAddr = own.parse().unwrap();
    let (pod, uplink) = (Some("cali1".parse().unwrap()), Some("eth0".parse().unwrap()));
    let enters = random.chance(50);
    let (source, destination) = if enters { (other, own) } else { (own, other) };
    let (iif, oif) = if enters { (uplink, pod) } else { (pod, uplink) };
    let (source_port, destination_port) = (random.pick(&[53, 80, 81]), random.pick(&[53, 80, 81]));
    let flow = Flow { source, destination, protocol: 17, source_port, destination_port, icmp: None };
    Packet { iif, oif, ct_state: CtState::NEW, ..Packet::new(flow) }
}

#[test]
fn parts_without_members_are_missed_by_nobody() {
    let (mut fates, mut absent, mut present) = ([0; 2], 0, 0);
    for seed in 0..60 {
        let mut scene = Scene::new(seed);
        for round in 0..8 {
            let what = format!("seed {seed}, round {round}");
            (0..=scene.random.below(8)).for_each(|_| scene.go_on());
            scene.flush();
            let fresh = scene.fresh();
            for found in [&scene.single, &scene.gathering] {
                let differences = found.desired.differences(&fresh.desired);
                assert!(found.desired == fresh.desired, "{what}: unlike a fresh start\n{differences}");
            }
            let parts = scene.parts();
            let always = |name: &str| name.starts_with("hosts4-") || name.starts_with("ports4-");
            assert_eq!(parts.keys().filter(|name| always(name)).count(), scene.active.sets.len(), "{what}: {parts:?}");
            assert!(parts.iter().all(|(name, members)| always(name) || *members > 0), "{what}: {parts:?}");
            let possible: usize =
                scene.active.sets.keys().map(|id| if kind(*id) == IpSetKind::Net { 4 } else { 2 }).sum();
            (present, absent) = (present + parts.len(), absent + possible - parts.len());
            for _ in 0..60 {
                let packet = packet(&mut scene.random);
                let fate = |follower: &Follower| follower.desired.ruleset.evaluate(&[Hook::Forward], packet).decision;
                let (found, expected) = (fate(&scene.single), fate(&scene.twin));
                assert_eq!(found, expected, "{what}: {packet:?} in\n{}", scene.single.desired.ruleset);
                fates[usize::from(found == Decision::Allow)] += 1;
            }
        }
    }
    assert!(fates.iter().all(|count| *count > 1000), "{fates:?}");
    assert!(absent > 1000 && present > 1000, "{absent} parts absent, {present} present");
}
