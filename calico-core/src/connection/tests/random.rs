//! No change denies a connection without raising doubt of it.

use std::println;

use super::*;
use crate::calc::Graph;
use crate::testing::{Change, Generator, HOST};
use crate::update::Update;

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
