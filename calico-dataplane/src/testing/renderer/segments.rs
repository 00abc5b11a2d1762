//! Segments against their naive twin: all policies asked one after the other. Packets meet the same fate by the same rules of policies, so
//! that counters and logs are the same too.

use std::collections::BTreeMap;
use std::sync::Arc;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveRule, ActiveRules, EndpointId, Event, IpSetKind, Member, PolicyId, SetId,
    Stack, StackTier,
};
use calico_core::flow::{Decision, Flow};
use calico_core::net::{Family, PortRange};
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{Action, DefaultAction, Icmp, Kind, ResourceKey};
use calico_core::table::{Chain, CtState, Delta, Hook, Match, Rule, Verdict};
use calico_core::testing::Random;

use crate::recording::{Packet, Ruleset};

const POD: [u8; 4] = [10, 0, 0, 1];
/// The bit of what has passed, with the default mask.
const PASS: u32 = 0x0002_0000;
const NAMED: SetId = SetId::new([7; 16]);

/// Policies of two tiers, on one endpoint.
struct Scene {
    random: Random,
    renderer: Renderer,
    tiers: [Vec<PolicyId>; 2],
    rules: BTreeMap<PolicyId, Arc<ActiveRules>>,
    stack: Arc<Stack>,
    ruleset: Ruleset,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let tiers = ["early", "default"].map(|tier| {
            let count = random.below(90);
            // The first one enforces, so that each tier begins with a rule of its own.
            (0..=count).map(|number| policy(tier, number, number > 0 && random.chance(10))).collect::<Vec<_>>()
        });
        let tier = |name: &str, policies: &Vec<PolicyId>, default_action| StackTier {
            name: name.into(),
            policies: policies.clone(),
            default_action,
        };
        let action = random.pick(&[DefaultAction::Pass, DefaultAction::Deny]);
        let stack = vec![tier("early", &tiers[0], action), tier("default", &tiers[1], DefaultAction::Deny)];
        let stack = Arc::new(Stack { tiers: stack, profiles: Vec::new() });
        let config = RenderConfig { counters: random.chance(50), ..RenderConfig::default() };
        let renderer = Renderer::new(config);
        let mut ruleset = Ruleset::default();
        ruleset.apply(&renderer.skeleton()).unwrap();
        let mut scene = Self { random, renderer, tiers, rules: BTreeMap::new(), stack, ruleset };
        let named = [53, 80].map(|port| Member::AddrPort { address: POD.into(), protocol: 17, port });
        scene.take(Event::SetAdded { id: NAMED, kind: IpSetKind::AddrPort, members: named.into() });
        let all: Vec<PolicyId> = scene.tiers.iter().flatten().cloned().collect();
        all.iter().for_each(|policy| scene.rewrite(policy));
        scene.take(scene.endpoint());
        scene
    }

    fn endpoint(&self) -> Event {
        let endpoint = ActiveEndpoint {
            interface: "cali1".parse().unwrap(),
            mac: None,
            addresses: vec!["10.0.0.1/32".parse().unwrap()],
            allowed_sources: Vec::new(),
            floating: Vec::new(),
            qos: None,
            ingress: self.stack.clone(),
            egress: Arc::default(),
        };
        let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "pod"));
        Event::EndpointSet { id, endpoint: Arc::new(endpoint) }
    }

    fn take(&mut self, event: Event) {
        let mut delta = Delta::default();
        self.renderer.handle(&event, &mut delta);
        self.ruleset.apply(&delta).unwrap();
    }

    /// Gives a policy other rules.
    fn rewrite(&mut self, id: &PolicyId) {
        let ingress = (0..self.random.below(4)).map(|_| rule(&mut self.random)).collect();
        let rules = Arc::new(ActiveRules { tier: None, ingress, egress: Vec::new() });
        self.rules.insert(id.clone(), rules.clone());
        self.take(Event::PolicySet { id: id.clone(), rules });
    }

    fn stack_chain(&self) -> &Chain {
        self.ruleset.chains().find(|chain| chain.name.as_str().starts_with("ingress-")).unwrap()
    }

    /// The same table with a stack that asks each policy.
    fn twin(&self) -> Ruleset {
        let chain = self.stack_chain();
        let mut rules = Vec::new();
        let mut tiers = self.tiers.iter();
        let mut asking = false;
        for rule in &chain.rules {
            let asks = matches!(rule.verdict, Some(Verdict::Jump(_)));
            if asks && !asking {
                rules.extend(tiers.next().unwrap().iter().map(ask));
            } else if !asks {
                rules.push(rule.clone());
            }
            asking = asks;
        }
        assert!(tiers.next().is_none());
        let mut twin = self.ruleset.clone();
        twin.apply(&Delta { chains_set: vec![Chain { rules, ..chain.clone() }], ..Delta::default() }).unwrap();
        twin
    }

    fn chains(&self, beginning: &str) -> Vec<&Chain> {
        self.ruleset.chains().filter(|chain| chain.name.as_str().starts_with(beginning)).collect()
    }

    fn count(&self) -> usize {
        self.tiers.iter().map(Vec::len).sum()
    }
}

fn policy(tier: &str, number: usize, staged: bool) -> PolicyId {
    let kind = if staged { Kind::StagedGlobalNetworkPolicy } else { Kind::GlobalNetworkPolicy };
    PolicyId(ResourceKey::cluster(kind, &format!("{tier}-{number}")))
}

fn ask(policy: &PolicyId) -> Rule {
    let kind = if policy.is_staged() { "sgnp" } else { "gnp" };
    let name = format!("policy-in/{kind}/{}", policy.0.name().unwrap());
    let target = calico_core::table::ChainName::new(&name).unwrap();
    Rule {
        matches: vec![Match::Mark { mask: PASS, value: 0, negated: false }],
        verdict: Some(Verdict::Jump(target)),
        ..Rule::default()
    }
}

fn range(random: &mut Random) -> PortRange {
    let (min, width) = (random.pick(&[0, 53, 80, 443, 8080, 65_530]), random.pick(&[0, 0, 0, 1, 5, 400]));
    PortRange::new(min, u16::saturating_add(min, width)).unwrap()
}

fn rule(random: &mut Random) -> ActiveRule {
    let ranges = |random: &mut Random, percent| -> Vec<PortRange> {
        let count = if random.chance(percent) { 1 + random.below(3) } else { 0 };
        (0..count).map(|_| range(random)).collect()
    };
    let protocol = random.pick(&[6, 6, 6, 17, 17, 17, 132, 1, 58, 47]);
    let protocol = (!random.chance(4)).then_some(protocol);
    let has_ports = protocol.is_none_or(|number| matches!(number, 6 | 17 | 132));
    let ports = |random: &mut Random, percent| if has_ports { ranges(random, percent) } else { Vec::new() };
    let icmp = Some(Icmp { icmp_type: Some(8), code: None }).filter(|_| !has_ports && random.chance(40));
    let (icmp, not_icmp) = if random.chance(50) { (icmp, None) } else { (None, icmp) };
    let named = if has_ports && random.chance(5) { vec![NAMED] } else { Vec::new() };
    let nets = if random.chance(15) { vec!["192.0.2.0/31".parse().unwrap()] } else { Vec::new() };
    let source = ActiveEntity { nets, ports: ports(random, 10), ..ActiveEntity::default() };
    let (listed, not_ports) = (ports(random, 90), ports(random, 5));
    ActiveRule {
        action: random.pick(&[Action::Allow, Action::Deny, Action::Deny, Action::Pass, Action::Log, Action::Log]),
        family: random.pick(&[None, None, None, Some(Family::V4), Some(Family::V6)]),
        protocol,
        not_protocol: random.chance(3).then(|| random.pick(&[6, 17])),
        icmp,
        not_icmp,
        source,
        destination: ActiveEntity { ports: listed, port_sets: named, not_ports, ..ActiveEntity::default() },
    }
}

fn packet(random: &mut Random) -> Packet {
    let protocol = random.pick(&[6, 6, 6, 17, 17, 132, 136, 1, 47]);
    let has_ports = matches!(protocol, 6 | 17 | 132 | 136);
    let mut port = || if has_ports { range(random).min().saturating_add(random.pick(&[0, 0, 1, 7, 300])) } else { 0 };
    let (source_port, destination_port) = (port(), port());
    let icmp = (protocol == 1).then(|| (random.pick(&[0, 8]), 0));
    let source = [192, 0, 2, random.below(4) as u8].into();
    let flow = Flow { source, destination: POD.into(), protocol, source_port, destination_port, icmp };
    let (iif, oif) = (Some("eth0".parse().unwrap()), Some("cali1".parse().unwrap()));
    Packet { iif, oif, ct_state: CtState::NEW, ..Packet::new(flow) }
}

/// The fate, and what rules of policies matched on the way.
fn fate(ruleset: &Ruleset, packet: Packet) -> (Decision, Vec<String>) {
    let found = ruleset.evaluate(&[Hook::Forward], packet);
    let of_policies = found.trace.iter().map(ToString::to_string).filter(|visit| visit.starts_with("policy-in/"));
    (found.decision, of_policies.collect())
}

#[test]
fn nobody_can_tell_segments_from_a_walk() {
    let (mut fates, mut skipping) = ([0; 2], 0);
    for seed in 0..40 {
        let mut scene = Scene::new(seed);
        for round in 0..3 {
            let twin = scene.twin();
            for _ in 0..60 {
                let packet = packet(&mut scene.random);
                let (found, expected) = (fate(&scene.ruleset, packet), fate(&twin, packet));
                assert_eq!(found, expected, "seed {seed}, round {round}: {packet:?} in\n{}", scene.ruleset);
                fates[usize::from(found.0 == Decision::Allow)] += 1;
            }
            let leads = |chain: &&&Chain| chain.rules.iter().any(|rule| matches!(rule.verdict, Some(Verdict::Goto(_))));
            skipping += scene.chains("segment-").iter().filter(leads).count();
            let listed: usize = scene.chains("policies-").iter().map(|chain| chain.rules.len()).sum();
            assert!(listed <= 8 * scene.count(), "seed {seed}: {listed} places of {} policies", scene.count());
            for _ in 0..scene.random.below(5) {
                let tier = scene.random.below(2);
                let id = scene.random.pick(&scene.tiers[tier]);
                scene.rewrite(&id);
            }
        }
    }
    assert!(fates.iter().all(|count| *count > 500), "{fates:?}");
    assert!(skipping > 100, "{skipping} segments skip something");
}
