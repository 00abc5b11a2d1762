//! No change denies a connection without raising doubt of it; and what the judge says, case by case.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use std::println;

use super::*;
use crate::calc::Graph;
use crate::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveRule, ActiveRules, EndpointId, Event, IpSetKind, Member, ProfileId, SetId,
    Stack,
};
use crate::net::Cidr;
use crate::resource::{Action, Kind, ResourceKey};
use crate::testing::{Generator, HOST};
use crate::verdict::ActiveState;

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
    let host = BTreeSet::new();
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
            let (then, now) = (Judge::new(&before, &host), Judge::new(&state, &host));
            for _ in 0..40 {
                let connection = any_connection(&mut generator, &state);
                let at = connection.at_policy();
                let was_here = |address| then.knows(address) || !now.knows(address);
                let is_new = now.denies(&connection) && !then.denies(&connection);
                if !is_new || !was_here(at.source) || !was_here(at.destination) {
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
    ActiveRule {
        action,
        family: None,
        protocol: None,
        not_protocol: None,
        icmp: None,
        not_icmp: None,
        source,
        destination: ActiveEntity::default(),
    }
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
fn connections_are_judged_by_their_translated_destination_and_not_where_the_host_itself_began() {
    let mut state = ActiveState::default();
    let allow_web = ActiveRule {
        protocol: Some(6),
        destination: ActiveEntity { ports: vec![crate::net::PortRange::single(80)], ..ActiveEntity::default() },
        ..rule(Action::Allow, &[], &[])
    };
    [rules(vec![allow_web]), endpoint(1), endpoint(2)].iter().for_each(|event| state.apply(event));
    let host = BTreeSet::from(["192.0.2.1".parse().unwrap()]);
    let judge = Judge::new(&state, &host);
    let flow = |source: &str, destination: &str, destination_port| Flow {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: 6,
        source_port: 40_000,
        destination_port,
        icmp: None,
    };
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
