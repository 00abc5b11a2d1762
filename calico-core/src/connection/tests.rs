//! No change denies a connection without raising doubt of it; and what the judge says, case by case.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use std::println;

use super::*;
use crate::calc::Graph;
use crate::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveHostEndpoint, ActiveRule, ActiveRules, Directions, EndpointId, Event,
    HostInterfaces, IpSetKind, Member, PolicyId, ProfileId, SetId, Stack, StackTier,
};
use crate::net::{Cidr, InterfaceName};
use crate::resource::{Action, DefaultAction, Kind, ResourceKey};
use crate::testing::Change;
use crate::testing::{Generator, HOST};
use crate::update::Update;
use crate::verdict::{ActiveState, Compiled, Settings};

/// What is known of a host that has these addresses, its settings being the default.
#[derive(Default)]
struct Known {
    settings: Settings,
    addresses: BTreeSet<IpAddr>,
    interfaces: BTreeMap<InterfaceName, Vec<IpAddr>>,
    routes: Routes,
}

impl Known {
    fn host(&self) -> Host<'_> {
        Host {
            settings: &self.settings,
            addresses: &self.addresses,
            interfaces: &self.interfaces,
            routes: &self.routes,
        }
    }

    fn of(addresses: &[&str]) -> Self {
        Self { addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(), ..Self::default() }
    }

    /// All that is asked for leads by these interfaces.
    fn route(&mut self, from: Option<&str>, to: &str, interfaces: &[&str]) {
        let query = RouteQuery { from: from.map(|from| from.parse().unwrap()), to: to.parse().unwrap() };
        self.routes.insert(query, interfaces.iter().map(|name| name.parse().unwrap()).collect());
    }
}

fn back(flow: &Flow) -> Flow {
    Flow {
        source: flow.destination,
        destination: flow.source,
        source_port: flow.destination_port,
        destination_port: flow.source_port,
        ..*flow
    }
}

fn connection(flow: Flow) -> Connection {
    Connection { original: flow, reply: back(&flow), master: None }
}

/// A connection between random addresses, one of them a workload's of this host where there is one; some are translated.
fn any_connection(generator: &mut Generator, state: &ActiveState) -> Connection {
    let mut flow = generator.flow();
    let mut arriving = flow;
    let all: Vec<IpAddr> = state.endpoints.values().flat_map(|one| &one.addresses).map(Cidr::address).collect();
    let own: Vec<IpAddr> = all.into_iter().filter(|own| own.is_ipv4() == flow.source.is_ipv4()).collect();
    if !own.is_empty() {
        let own = generator.random.pick(&own);
        let is_source = generator.random.chance(50);
        *if is_source { &mut flow.source } else { &mut flow.destination } = own;
        arriving.source = flow.source;
    }
    let reply = back(&flow);
    Connection { original: arriving, reply, master: None }
}

#[test]
fn nothing_is_denied_without_doubt() {
    let (mut newly_denied, mut undoubted, mut flushes) = (0, 0, 0);
    let known = Known::default();
    for seed in 0..30 {
        let mut generator = Generator::new(seed);
        let mut graph = Graph::new(HOST);
        let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
        for _ in 0..150 {
            for _ in 0..=generator.random.below(2) {
                graph.handle_update(&generator.update());
            }
            let before = state.clone();
            let events = graph.flush();
            for event in &events {
                doubts.handle(&state, event);
                state.apply(event);
            }
            let doubt = doubts.take();
            flushes += 1;
            undoubted += usize::from(doubt.is_none() && !events.is_empty());
            let (before, after) = (Compiled::from(before), Compiled::from(state.clone()));
            let (mut then, mut now) = (Judge::new(&before, known.host()), Judge::new(&after, known.host()));
            for _ in 0..40 {
                let connection = any_connection(&mut generator, &state);
                let at = connection.at_policy();
                let was_here = |address| then.knows(address) || !now.knows(address);
                let were_here = was_here(at.source) && was_here(at.destination);
                if !were_here || !now.denies(&connection) || then.denies(&connection) {
                    continue;
                }
                newly_denied += 1;
                let concerned = doubt.as_ref().is_some_and(|doubt| doubt.concerns(&connection));
                assert!(concerned, "seed {seed}: {connection:?} is denied since {events:?}; doubt: {doubt:?}");
            }
        }
    }
    println!("{newly_denied} newly denied, {undoubted} of {flushes} changes without doubt");
    assert!(newly_denied > 1000 && undoubted > 100, "{newly_denied}, {undoubted}");
}

fn set(number: u8) -> SetId {
    SetId::new([number; 16])
}

fn net(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn profile() -> ProfileId {
    ProfileId("open".into())
}

fn pod(number: u8) -> EndpointId {
    EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &std::format!("pod-{number}")))
}

fn endpoint(number: u8) -> Event {
    let stack = Arc::new(Stack { tiers: Vec::new(), profiles: vec![profile()] });
    let endpoint = ActiveEndpoint {
        interface: std::format!("cali{number}").parse().unwrap(),
        mac: None,
        addresses: vec![Cidr::host([10, 65, 0, number].into())],
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: None,
        ingress: stack.clone(),
        egress: stack,
    };
    Event::EndpointSet { id: pod(number), endpoint: Arc::new(endpoint) }
}

fn rule(action: Action, sources: &[SetId], not_sources: &[SetId]) -> ActiveRule {
    let source = ActiveEntity { sets: sources.to_vec(), not_sets: not_sources.to_vec(), ..ActiveEntity::default() };
    ActiveRule { source, ..ActiveRule::all(action) }
}

fn rules(ingress: Vec<ActiveRule>) -> Event {
    let egress = vec![rule(Action::Allow, &[], &[])];
    Event::ProfileSet { id: profile(), rules: Arc::new(ActiveRules { tier: None, ingress, egress }) }
}

/// Sets 1 and 2, which hold 192.0.2.0/24 and nothing.
fn sets() -> [Event; 2] {
    [(1, vec![Member::Net(net("192.0.2.0/24"))]), (2, Vec::new())].map(|(number, members)| Event::SetAdded {
        id: set(number),
        kind: IpSetKind::Net,
        members,
    })
}

fn apply(state: &mut ActiveState, doubts: &mut Doubts, events: impl IntoIterator<Item = Event>) -> Option<Doubt> {
    for event in events {
        doubts.handle(state, &event);
        state.apply(&event);
    }
    doubts.take()
}

fn changed(number: u8, added: &[&str], removed: &[&str]) -> [Event; 1] {
    let members = |texts: &[&str]| texts.iter().map(|text| Member::Net(net(text))).collect();
    [Event::SetChanged { id: set(number), added: members(added), removed: members(removed) }]
}

#[test]
fn members_raise_doubt_by_what_rules_make_of_them() {
    let (allow, deny) = (rule(Action::Allow, &[set(1)], &[]), rule(Action::Deny, &[], &[set(2)]));
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let start = sets().into_iter().chain([rules(vec![deny, allow]), endpoint(1)]);
    assert_eq!(apply(&mut state, &mut doubts, start), None, "nobody had connections");

    assert_eq!(apply(&mut state, &mut doubts, changed(1, &["198.51.100.0/24"], &[])), None);
    assert_eq!(apply(&mut state, &mut doubts, changed(2, &["198.51.100.1/32"], &[])), None);
    let doubt = apply(&mut state, &mut doubts, changed(1, &["203.0.113.0/24"], &["192.0.2.0/24"])).unwrap();
    assert_eq!(doubt, Doubt::Of { hosts: BTreeSet::new(), nets: vec![net("192.0.2.0/24")] });
    let doubt = apply(&mut state, &mut doubts, changed(2, &[], &["198.51.100.1/32"])).unwrap();
    assert_eq!(doubt, Doubt::Of { hosts: ["198.51.100.1".parse().unwrap()].into(), nets: Vec::new() });

    // The same sets, used the other way round.
    let swapped = [rules(vec![rule(Action::Deny, &[set(1)], &[]), rule(Action::Allow, &[], &[set(2)])])];
    assert_eq!(apply(&mut state, &mut doubts, swapped), Some(Doubt::All));
    assert_eq!(apply(&mut state, &mut doubts, changed(1, &[], &["198.51.100.0/24"])), None);
    assert!(apply(&mut state, &mut doubts, changed(1, &["192.0.2.0/24"], &[])).is_some());
    assert!(apply(&mut state, &mut doubts, changed(2, &["198.51.100.1/32"], &[])).is_some());
    assert_eq!(apply(&mut state, &mut doubts, changed(2, &[], &["198.51.100.1/32"])), None);

    let many: Vec<std::string::String> = (0..=64).map(|number| std::format!("100.64.{number}.0/24")).collect();
    let many: Vec<&str> = many.iter().map(std::string::String::as_str).collect();
    assert_eq!(
        apply(&mut state, &mut doubts, changed(1, &many, &[])),
        Some(Doubt::All),
        "more prefixes than are compared"
    );
}

#[test]
fn a_stack_raises_doubt_of_its_own_endpoint_only() {
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let start = [rules(vec![rule(Action::Allow, &[], &[])]), endpoint(1), endpoint(2)];
    assert_eq!(apply(&mut state, &mut doubts, start), None);
    assert_eq!(apply(&mut state, &mut doubts, [endpoint(1)]), None, "nothing is new");
    let Event::EndpointSet { id, endpoint: known } = endpoint(1) else { panic!("an endpoint is set") };
    let bare = ActiveEndpoint { ingress: Arc::new(Stack::default()), ..(*known).clone() };
    let doubt = apply(&mut state, &mut doubts, [Event::EndpointSet { id, endpoint: Arc::new(bare) }]).unwrap();
    assert_eq!(doubt, Doubt::Of { hosts: ["10.65.0.1".parse().unwrap()].into(), nets: Vec::new() });
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(2))]), None, "they end with it");
}

#[test]
fn a_lost_address_is_in_doubt_where_another_endpoint_has_it() {
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let at = |number: u8, addresses: &[u8]| {
        let Event::EndpointSet { id, endpoint } = endpoint(number) else { panic!("an endpoint is set") };
        let addresses = addresses.iter().map(|last| Cidr::host([10, 65, 0, *last].into())).collect();
        Event::EndpointSet { id, endpoint: Arc::new(ActiveEndpoint { addresses, ..(*endpoint).clone() }) }
    };
    let of = |last: u8| Some(Doubt::Of { hosts: [IpAddr::from([10, 65, 0, last])].into(), nets: Vec::new() });
    // One may be given an address twice, and be told again.
    let start = [at(1, &[1, 9, 9]), at(1, &[1, 9, 9]), at(2, &[9]), at(3, &[9, 8])];
    assert_eq!(apply(&mut state, &mut doubts, start), None);
    assert_eq!(apply(&mut state, &mut doubts, [at(1, &[9])]), None, "nobody else has it");
    assert_eq!(apply(&mut state, &mut doubts, [at(1, &[1])]), of(9), "two others have it");
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(3))]), of(9), "another has it");
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(2))]), None, "it was the last");
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(2))]), None, "it is gone already");
}

#[test]
fn connections_are_judged_by_their_translated_destination_and_not_where_the_host_itself_began() {
    let mut state = ActiveState::default();
    let allow_web = ActiveRule {
        protocol: Some(6),
        destination: ActiveEntity { ports: vec![crate::net::PortRange::single(80)], ..ActiveEntity::default() },
        ..rule(Action::Allow, &[], &[])
    };
    [rules(vec![allow_web]), endpoint(1), endpoint(2)].iter().for_each(|event| state.apply(event));
    let (known, compiled) = (Known::of(&["192.0.2.1"]), Compiled::from(state));
    let mut judge = Judge::new(&compiled, known.host());
    assert!(!judge.denies(&connection(flow("10.65.0.2", "10.65.0.1", 80))));
    assert!(judge.denies(&connection(flow("10.65.0.2", "10.65.0.1", 81))));
    assert!(judge.denies(&connection(flow("198.51.100.9", "10.65.0.1", 81))));
    assert!(!judge.denies(&connection(flow("10.65.0.2", "198.51.100.9", 81))), "egress is free");
    assert!(!judge.denies(&connection(flow("192.0.2.1", "10.65.0.1", 81))), "from the host itself");
    assert!(!judge.denies(&connection(flow("127.0.0.1", "10.65.0.1", 81))));
    assert!(!judge.denies(&connection(flow("198.51.100.9", "198.51.100.8", 81))), "nobody's here");

    // To a service's address, port 443, translated to port 80 or 81 of the workload; masqueraded on the way.
    for (port, denied) in [(80, false), (81, true)] {
        let original = flow("198.51.100.9", "10.96.0.1", 443);
        let reply = back(&flow("192.0.2.1", "10.65.0.1", port));
        assert_eq!(judge.denies(&Connection { original, reply, master: None }), denied, "{port}");
    }
    let master = Some(flow("198.51.100.9", "10.65.0.1", 80));
    assert!(!judge.denies(&Connection { master, ..connection(flow("198.51.100.9", "10.65.0.1", 81)) }));
}

fn flow(source: &str, destination: &str, destination_port: u16) -> Flow {
    Flow {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: 6,
        source_port: 40_000,
        destination_port,
        icmp: None,
    }
}

const OWN: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const FAR: [&str; 3] = ["203.0.113.9", "198.51.100.8", "10.65.7.1"];

/// Two uplinks of the host, by one of which each stranger is reached, or by both.
fn between_uplinks() -> Known {
    let mut known = Known::of(&OWN);
    for (name, own) in [("eth0", OWN[0]), ("eth1", OWN[1])] {
        known.interfaces.insert(name.parse().unwrap(), vec![own.parse().unwrap()]);
    }
    for from in [None, Some(OWN[0]), Some(OWN[1])] {
        known.route(from, FAR[0], &["eth0"]);
        known.route(from, FAR[1], &["eth1"]);
        known.route(from, FAR[2], &["eth0", "eth1"]);
    }
    known
}

/// A host endpoint that lets nothing in and out, and through only what the policy allows, if it is asked.
fn host_endpoint(interfaces: HostInterfaces, policy: Option<&PolicyId>) -> Event {
    let tier = |policy: &PolicyId| StackTier {
        name: "default".into(),
        default_action: DefaultAction::Deny,
        policies: vec![policy.clone()],
    };
    let forward = Arc::new(Stack { tiers: policy.map(tier).into_iter().collect(), profiles: Vec::new() });
    let endpoint = ActiveHostEndpoint {
        dscp: Vec::new(),
        interfaces,
        untracked: Directions::default(),
        pre_dnat: Arc::default(),
        normal: Directions::default(),
        forward: Directions { ingress: forward.clone(), egress: forward },
    };
    let id = EndpointId(ResourceKey::cluster(Kind::HostEndpoint, "uplink"));
    Event::HostEndpointSet { id, endpoint: Arc::new(endpoint) }
}

fn eth0() -> HostInterfaces {
    HostInterfaces::Named(vec![InterfaceName::ETH0])
}

#[test]
fn host_endpoints_are_asked_about_every_possible_way() {
    let (mut state, mut doubts, known) = (ActiveState::default(), Doubts::default(), between_uplinks());
    assert_eq!(apply(&mut state, &mut doubts, [endpoint(1), host_endpoint(eth0(), None)]), Some(Doubt::All));
    assert_eq!(apply(&mut state, &mut doubts, [host_endpoint(eth0(), None)]), None, "nothing is new");
    let compiled = Compiled::from(state);
    let mut judge = Judge::new(&compiled, known.host());
    let mut denies = |source, destination, port| {
        let connection = connection(flow(source, destination, port));
        for query in judge.routes(&connection) {
            assert!(known.routes.contains_key(&query), "{query:?} is asked for {connection:?}");
        }
        judge.denies(&connection)
    };
    assert!(denies(FAR[0], OWN[0], 80), "by eth0");
    assert!(!denies(FAR[0], OWN[0], 22), "to a fail-safe port");
    assert!(!denies(FAR[0], OWN[1], 80), "it may come by eth1, which has the address");
    assert!(!denies(FAR[1], OWN[1], 80), "by eth1, which nobody polices");
    assert!(!denies(FAR[2], OWN[0], 80), "by either");
    assert!(denies(OWN[0], FAR[0], 80));
    assert!(!denies(OWN[0], FAR[1], 80) && !denies(OWN[0], FAR[2], 80) && !denies(OWN[0], OWN[1], 80));
    assert!(!denies(FAR[0], FAR[1], 80), "no policy is about what is forwarded");
    assert!(!judge.denies(&connection(flow("203.0.113.77", OWN[0], 80))), "whence, nobody knows");
    let local = connection(flow("127.0.0.1", "127.0.0.1", 80));
    let policed = Policed::of(compiled.state(), &known.settings);
    assert!(!policed.concerns(&local) && policed.concerns(&connection(flow(FAR[0], OWN[0], 80))));
}

#[test]
fn host_endpoints_are_asked_about_what_goes_through() {
    let policy = PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "web"));
    let web = ActiveRule {
        protocol: Some(6),
        destination: ActiveEntity { ports: vec![crate::net::PortRange::single(80)], ..ActiveEntity::default() },
        ..rule(Action::Allow, &[], &[])
    };
    let rules_of = ActiveRules { tier: Some("default".into()), ingress: vec![web.clone()], egress: vec![web] };
    let set = Event::PolicySet { id: policy.clone(), rules: Arc::new(rules_of) };
    let denied = |interfaces, source: &str, destination: &str, port| {
        let (mut state, mut known) = (ActiveState::default(), between_uplinks());
        known.route(None, "10.65.0.1", &["cali1"]);
        let open = rules(vec![rule(Action::Allow, &[], &[])]);
        let events = [set.clone(), open, endpoint(1), host_endpoint(interfaces, Some(&policy))];
        events.iter().for_each(|event| state.apply(event));
        let compiled = Compiled::from(state);
        Judge::new(&compiled, known.host()).denies(&connection(flow(source, destination, port)))
    };
    for (source, destination) in [(FAR[0], FAR[1]), (FAR[1], FAR[0]), (FAR[0], "10.65.0.1"), ("10.65.0.1", FAR[0])] {
        assert!(denied(eth0(), source, destination, 81) && !denied(eth0(), source, destination, 80), "{source}");
    }
    assert!(!denied(eth0(), FAR[1], "10.65.0.1", 81) && !denied(eth0(), FAR[2], "10.65.0.1", 81));
    assert!(denied(HostInterfaces::Others, FAR[1], "10.65.0.1", 81), "whichever it is");
    assert!(denied(HostInterfaces::Others, FAR[2], "10.65.0.1", 81), "whichever it is");
}

#[test]
fn further_sources_are_their_workloads_or_whoever_the_route_leads_to() {
    let Event::EndpointSet { id, endpoint: known } = endpoint(1) else { panic!("an endpoint is set") };
    let further =
        |endpoint: &ActiveEndpoint| Event::EndpointSet { id: id.clone(), endpoint: Arc::new(endpoint.clone()) };
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    let with = ActiveEndpoint { allowed_sources: vec![net("203.0.113.0/24")], ..(*known).clone() };
    apply(&mut state, &mut doubts, [further(&with)]);
    let closed = ActiveEndpoint { egress: Arc::new(Stack::default()), ..with.clone() };
    let doubt = apply(&mut state, &mut doubts, [further(&closed)]).unwrap();
    let outward = connection(flow(FAR[0], FAR[1], 80));
    assert!(doubt.concerns(&outward));
    let mut known = between_uplinks();
    let compiled = Compiled::from(state.clone());
    assert!(!Judge::new(&compiled, known.host()).denies(&outward), "it may not use them, so others do");
    known.settings.host.allow_spoofed_sources = true;
    let mut judge = Judge::new(&compiled, known.host());
    assert!(Policed::of(&state, &known.settings).concerns(&outward) && judge.denies(&outward));
    assert!(!judge.denies(&connection(flow(FAR[1], FAR[0], 80))), "the other way it is nobody's");
    drop(judge);

    state.apply(&host_endpoint(HostInterfaces::Others, None));
    let compiled = Compiled::from(state.clone());
    assert!(!Judge::new(&compiled, known.host()).denies(&outward), "it may come by eth0, where its source is reached");
    known.route(None, FAR[0], &["cali1"]);
    assert!(Judge::new(&compiled, known.host()).denies(&outward), "its source is reached at the workload");
    let without = ActiveEndpoint { allowed_sources: Vec::new(), ..closed };
    assert!(apply(&mut state, &mut doubts, [further(&without)]).unwrap().concerns(&outward));
}

/// As above, with host endpoints, policies of all their stages, and addresses that lead to the host's interfaces.
#[test]
fn nothing_is_denied_without_doubt_where_host_endpoints_are() {
    let (mut newly_denied, mut by_hosts) = (0, 0);
    for seed in 0..20 {
        let mut generator = Generator::new(seed);
        let world = generator.world(0);
        let mut known = Known { interfaces: world.interfaces.clone(), ..Known::default() };
        known.addresses = world.interfaces.values().flatten().copied().collect();
        let mut graph = Graph::new(HOST);
        world.interfaces.iter().for_each(|(name, addresses)| graph.set_interface(*name, Some(addresses)));
        let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
        for _ in 0..150 {
            match generator.change() {
                Change::Object(Update { key, value }) => graph.handle_update(&Update { key, value }),
                Change::Interface(name, addresses) => graph.set_interface(name, addresses.as_deref()),
                Change::Slice(..) => continue,
            }
            let before = state.clone();
            for event in graph.flush() {
                doubts.handle(&state, &event);
                state.apply(&event);
            }
            let doubt = doubts.take();
            let (before, after) = (Compiled::from(before), Compiled::from(state.clone()));
            for _ in 0..20 {
                let connection = any_connection(&mut generator, &state);
                let asked: Vec<RouteQuery> = Judge::new(&after, known.host()).routes(&connection).collect();
                for query in asked {
                    let names = ["eth0", "eth1", "tunl0"].map(|name| name.parse().unwrap());
                    known.routes.entry(query).or_insert_with(|| vec![generator.random.pick(&names)]);
                }
                let (mut then, mut now) = (Judge::new(&before, known.host()), Judge::new(&after, known.host()));
                let at = connection.at_policy();
                let stayed = |address| then.knows(address) == now.knows(address);
                if !stayed(at.source) || !stayed(at.destination) {
                    continue;
                }
                if now.denies(&connection) && !then.denies(&connection) {
                    newly_denied += 1;
                    by_hosts += usize::from(!now.knows(at.source) && !now.knows(at.destination));
                    let concerned = doubt.as_ref().is_some_and(|doubt| doubt.concerns(&connection));
                    assert!(concerned, "seed {seed}: {connection:?}; doubt: {doubt:?}");
                }
            }
        }
    }
    println!("{newly_denied} newly denied, {by_hosts} by host endpoints alone");
    assert!(newly_denied > 100 && by_hosts > 30, "{newly_denied}, {by_hosts}");
}

/// Four lists of two sides of rules in two directions: whether a new member, and the loss of one, can deny. When all have gone, nothing is
/// remembered.
#[test]
fn a_set_raises_doubt_by_where_rules_name_it() {
    type List = fn(&mut ActiveEntity) -> &mut Vec<SetId>;
    let lists: [(bool, List); 4] = [
        (true, |side| &mut side.sets),
        (true, |side| &mut side.port_sets),
        (false, |side| &mut side.not_sets),
        (false, |side| &mut side.not_port_sets),
    ];
    let actions = [
        (Action::Allow, [false, true]),
        (Action::Deny, [true, false]),
        (Action::Pass, [true, true]),
        (Action::Log, [false, false]),
    ];
    for (action, [by_match, by_miss]) in actions {
        for (place, (is_wanted, list)) in lists.into_iter().enumerate() {
            for (is_source, is_ingress) in [(true, true), (true, false), (false, true), (false, false)] {
                let mut named = rule(action, &[], &[]);
                list(if is_source { &mut named.source } else { &mut named.destination }).push(set(1));
                let (mut ingress, mut egress) = (vec![named], Vec::new());
                if !is_ingress {
                    core::mem::swap(&mut ingress, &mut egress);
                }
                let rules = Arc::new(ActiveRules { tier: None, ingress, egress });
                let start = sets().into_iter().chain([Event::ProfileSet { id: profile(), rules }, endpoint(1)]);
                let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
                assert_eq!(apply(&mut state, &mut doubts, start), None);
                let told = [changed(1, &["198.51.100.1/32"], &[]), changed(1, &[], &["192.0.2.0/24"])]
                    .map(|event| apply(&mut state, &mut doubts, event).is_some());
                let expected = if is_wanted { [by_match, by_miss] } else { [by_miss, by_match] };
                assert_eq!(told, expected, "{action:?}, list {place}, source: {is_source}, ingress: {is_ingress}");
                let end = [Event::EndpointRemoved(pod(1)), Event::ProfileRemoved(profile())];
                assert_eq!(apply(&mut state, &mut doubts, end), None);
                assert_eq!(std::format!("{doubts:?}"), std::format!("{:?}", Doubts::default()));
            }
        }
    }
}

#[test]
fn further_sources_are_in_doubt_when_their_workload_goes() {
    let Event::EndpointSet { id, endpoint: known } = endpoint(1) else { panic!("an endpoint is set") };
    let with = ActiveEndpoint { allowed_sources: vec![net("203.0.113.0/24")], ..(*known).clone() };
    let (mut state, mut doubts) = (ActiveState::default(), Doubts::default());
    assert_eq!(apply(&mut state, &mut doubts, [Event::EndpointSet { id, endpoint: Arc::new(with) }]), None);
    let doubt = apply(&mut state, &mut doubts, [Event::EndpointRemoved(pod(1))]);
    assert_eq!(doubt, Some(Doubt::Of { hosts: BTreeSet::new(), nets: vec![net("203.0.113.0/24")] }));
}

fn query(from: Option<&str>, to: &str) -> RouteQuery {
    RouteQuery { from: from.map(|from| from.parse().unwrap()), to: to.parse().unwrap() }
}

#[test]
fn routes_are_asked_for_by_the_hosts_own_address_and_only_where_somebody_polices_them() {
    let pod = "10.65.0.1";
    let cases = [
        (FAR[0], OWN[0], vec![query(Some(OWN[0]), FAR[0])]),
        (OWN[1], FAR[0], vec![query(Some(OWN[1]), FAR[0])]),
        (FAR[0], FAR[1], vec![query(None, FAR[0]), query(None, FAR[1])]),
        (FAR[0], pod, vec![query(None, FAR[0])]),
        (pod, FAR[0], vec![query(None, FAR[0])]),
        (pod, OWN[0], vec![]),
        ("127.0.0.1", OWN[0], vec![]),
    ];
    let known = Known::of(&OWN);
    let mut state = ActiveState::default();
    state.apply(&endpoint(1));
    let without = Compiled::from(state.clone());
    state.apply(&host_endpoint(eth0(), None));
    let with = Compiled::from(state);
    for (source, destination, expected) in cases {
        let one = connection(flow(source, destination, 80));
        let asked = |compiled, one: &Connection| Judge::new(compiled, known.host()).routes(one).collect::<Vec<_>>();
        assert_eq!(asked(&with, &one), expected, "{source} {destination}");
        assert_eq!(asked(&without, &one), [], "{source} {destination}");
        let child = Connection { master: Some(one.original), ..one };
        assert_eq!(asked(&with, &child), [], "it passes with its master");
    }
}

#[test]
fn what_is_for_many_reaches_the_host_itself_unless_the_host_sends_it() {
    let mut state = ActiveState::default();
    state.apply(&host_endpoint(eth0(), None));
    let compiled = Compiled::from(state);
    let far6 = "2001:db8::9";
    for (far, own, many) in
        [(FAR[0], OWN[0], "224.0.0.5"), (FAR[0], OWN[0], "255.255.255.255"), (far6, "2001:db8::1", "ff02::5")]
    {
        let mut known = Known::of(&[OWN[0], "2001:db8::1"]);
        known.route(None, far, &["eth0"]);
        let came = connection(flow(far, many, 80));
        let mut judge = Judge::new(&compiled, known.host());
        assert_eq!(judge.routes(&came).collect::<Vec<_>>(), [query(None, far)]);
        assert!(judge.denies(&came), "{many}");
        for (interface, denied) in [("eth0", true), ("eth1", false)] {
            let mut known = Known::of(&[OWN[0], "2001:db8::1"]);
            known.route(Some(own), many, &[interface]);
            let sent = connection(flow(own, many, 80));
            assert_eq!(Judge::new(&compiled, known.host()).denies(&sent), denied, "{many} by {interface}");
        }
    }
}

#[test]
fn no_connection_ends_that_no_policy_denies() {
    let mut known = between_uplinks();
    known.settings.host.prevent_service_loops = true;
    known.route(Some(OWN[0]), "203.0.113.77", &[]);
    let network = crate::calc::event::Network { services: vec![net("10.96.0.0/12")], ..Default::default() };
    let mut state = ActiveState::default();
    let open = rules(vec![rule(Action::Allow, &[], &[])]);
    [open, endpoint(1), Event::NetworkSet(Arc::new(network))].iter().for_each(|event| state.apply(event));
    let compiled = Compiled::from(state.clone());
    let circling = connection(flow("10.65.0.1", "10.96.0.1", 80));
    assert!(!Judge::new(&compiled, known.host()).denies(&circling), "it goes in circles, which is no policy");

    state.apply(&host_endpoint(eth0(), None));
    let compiled = Compiled::from(state.clone());
    let lost = connection(flow("203.0.113.77", OWN[0], 80));
    assert!(!Judge::new(&compiled, known.host()).denies(&lost), "no route leads there");

    // A workload of IPv6 that nothing may reach.
    let Event::EndpointSet { id, endpoint: one } = endpoint(1) else { panic!("an endpoint is set") };
    let (addresses, ingress) = (vec![net("fd65::1/128")], Arc::new(Stack::default()));
    let closed = ActiveEndpoint { addresses, ingress, ..(*one).clone() };
    let mut state = ActiveState::default();
    state.apply(&Event::EndpointSet { id, endpoint: Arc::new(closed) });
    let compiled = Compiled::from(state);
    for (icmp_type, denied) in [(128, true), (135, false), (136, false)] {
        let (source, destination) = ("fd65::9".parse().unwrap(), "fd65::1".parse().unwrap());
        let icmp = Some((icmp_type, 0));
        let flow = Flow { source, destination, protocol: 58, source_port: 0, destination_port: 0, icmp };
        let reply = Flow { source: destination, destination: source, ..flow };
        let one = Connection { original: flow, reply, master: None };
        assert_eq!(Judge::new(&compiled, known.host()).denies(&one), denied, "{icmp_type}");
    }
}

#[test]
fn policy_before_translation_sees_where_a_connection_was_sent() {
    let policy = PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "early"));
    let to = |port| ActiveRule {
        protocol: Some(6),
        destination: ActiveEntity { ports: vec![crate::net::PortRange::single(port)], ..ActiveEntity::default() },
        ..rule(Action::Deny, &[], &[])
    };
    for (port, denied) in [(443, true), (80, false)] {
        let rules_of = ActiveRules { tier: Some("default".into()), ingress: vec![to(port)], egress: Vec::new() };
        let Event::HostEndpointSet { id, endpoint: uplink } = host_endpoint(eth0(), Some(&policy)) else {
            panic!("a host endpoint is set")
        };
        let stack = Stack {
            tiers: uplink
                .forward
                .ingress
                .tiers
                .iter()
                .cloned()
                .map(|tier| StackTier { default_action: DefaultAction::Pass, ..tier })
                .collect(),
            profiles: Vec::new(),
        };
        let early =
            ActiveHostEndpoint { pre_dnat: Arc::new(stack), forward: Directions::default(), ..(*uplink).clone() };
        let mut state = ActiveState::default();
        let events = [
            Event::PolicySet { id: policy.clone(), rules: Arc::new(rules_of) },
            rules(vec![rule(Action::Allow, &[], &[])]),
            endpoint(1),
            Event::HostEndpointSet { id, endpoint: Arc::new(early) },
        ];
        events.iter().for_each(|event| state.apply(event));
        let (known, compiled) = (between_uplinks(), Compiled::from(state));
        let translated = Connection {
            original: flow(FAR[0], OWN[0], 443),
            reply: back(&flow(FAR[0], "10.65.0.1", 80)),
            master: None,
        };
        assert_eq!(Judge::new(&compiled, known.host()).denies(&translated), denied, "{port}");
    }
}

#[test]
fn a_connection_concerns_whoever_may_have_policy_for_it() {
    let Event::EndpointSet { id, endpoint: one } = endpoint(1) else { panic!("an endpoint is set") };
    let with = ActiveEndpoint { allowed_sources: vec![net("203.0.113.0/24")], ..(*one).clone() };
    let mut state = ActiveState::default();
    state.apply(&Event::EndpointSet { id, endpoint: Arc::new(with) });
    let without_hosts = state.clone();
    state.apply(&host_endpoint(eth0(), None));
    let with_hosts = state;
    let (pod, far, further) = ("10.65.0.1", FAR[1], FAR[0]);
    // Of each the ends, and whether it concerns anybody: usually, where further sources are allowed, and where host endpoints are.
    for (source, destination, expected) in [
        (pod, far, [true, true, true]),
        (far, pod, [true, true, true]),
        (further, far, [false, true, true]),
        (far, further, [false, false, true]),
        ("127.0.0.1", "127.0.0.1", [false, false, false]),
        ("127.0.0.1", pod, [true, true, true]),
    ] {
        let one = connection(flow(source, destination, 80));
        let mut lenient = Known::default();
        lenient.settings.host.allow_spoofed_sources = true;
        let strict = Known::default();
        let found = [(&without_hosts, &strict), (&without_hosts, &lenient), (&with_hosts, &strict)]
            .map(|(state, known)| Policed::of(state, &known.settings).concerns(&one));
        assert_eq!(found, expected, "{source} {destination}");
    }
}
