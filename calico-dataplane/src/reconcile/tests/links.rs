//! What the coming and going of an interface means for others, and for what failed there.

use super::*;

fn learned() -> Route {
    Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), class: RouteClass::Bgp, ..route(9) }
}

/// What is told again, or of another interface, is no reason to try again.
#[test]
fn an_interface_that_changed_brings_back_what_failed_there() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let (routes, interfaces) = (BTreeSet::from([route(1).key, learned().key]), BTreeSet::from([cali(1)]));
    host.set_faults(Faults { routes, interfaces, ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.events(&[endpoint(1, &[])]);
    node.driver.machine().desire(&Delta { routes_set: vec![learned()], ..Delta::default() });
    for _ in 0..20 {
        node.work();
        node.now = node.driver.state().poll_timeout(node.now).unwrap();
    }
    node.work();
    host.set_faults(Faults::default());
    host.set_link(cali(1), up(7));
    node.work();
    assert!(host.routes().is_empty() && host.neighbors().is_empty(), "nothing changed");
    node.driver.machine().host_change(HostChange::Address {
        interface: "eth0".parse().unwrap(),
        address: "192.0.2.1".parse().unwrap(),
        present: true,
    });
    node.work();
    assert_eq!(
        (host.routes(), host.neighbors()),
        (vec![learned()], Vec::new()),
        "no route leads to a workload by eth0"
    );
    host.set_link(cali(1), Some(LinkState { index: 7, up: true, mtu: 9000 }));
    node.work();
    assert_eq!((host.routes().len(), host.neighbors().len()), (2, 1), "no time has passed");
}

#[test]
fn a_gateway_is_not_lost_with_a_workload() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let mut node = Node::in_sync(&host);
    node.driver.machine().desire(&Delta { routes_set: vec![learned()], ..Delta::default() });
    node.settle();
    host.set_route(learned().key, None);
    host.set_link(cali(1), None);
    while ready(node.driver.next_change()).transpose().unwrap().is_some() {}
    let undone: Vec<String> = node.driver.state().undone().map(ToString::to_string).collect();
    assert_eq!(undone, [Object::Route(learned().key).to_string()]);
}

#[test]
fn an_interface_that_flaps_concerns_no_other() {
    let host = Recording::new();
    (1..=3).for_each(|number| host.set_link(cali(number), up(u32::from(number))));
    let mut node = Node::in_sync(&host);
    node.events(&[endpoint(1, &[]), endpoint(2, &[]), endpoint(3, &[])]);
    node.settle();
    host.take_applied();
    for state in [None, up(9)] {
        host.set_link(cali(2), state);
        node.settle();
    }
    let applied = host.take_applied();
    let routes: Vec<_> = applied.iter().flat_map(|delta| delta.routes_set.clone()).collect();
    let neighbors: Vec<_> = applied.iter().flat_map(|delta| &delta.neighbors_set).map(|one| one.interface).collect();
    assert_eq!((routes, neighbors), (vec![route(2)], vec![cali(2)]));
}

#[test]
fn one_of_two_routes_of_an_interface_may_go_and_the_other_comes_back_with_it() {
    let host = Recording::new();
    host.set_link(cali(1), up(1));
    let mut node = Node::in_sync(&host);
    let Event::EndpointSet { id, endpoint: one } = endpoint(1, &[]) else { panic!("an endpoint is set") };
    let addresses = vec![route(1).key.dest, route(2).key.dest];
    let both = ActiveEndpoint { addresses, ..(*one).clone() };
    node.events(&[Event::EndpointSet { id, endpoint: Arc::new(both) }]);
    node.settle();
    assert_eq!(host.routes().len(), 2);
    node.events(&[endpoint(1, &[])]);
    node.settle();
    assert_eq!(host.routes(), [route(1)]);
    for state in [None, up(9)] {
        host.set_link(cali(1), state);
        node.settle();
    }
    assert_eq!(host.routes(), [route(1)]);
}
