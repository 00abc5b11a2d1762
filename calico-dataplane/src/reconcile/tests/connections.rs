//! Connections of an address end before the next owner is let in.

use super::*;

/// Endpoint `number` with the address of endpoint `of`.
fn endpoint_at(number: u8, of: u8) -> Event {
    let (Event::EndpointSet { id, endpoint: own }, address) = (endpoint(number, &[]), route(of).key.dest) else {
        panic!("an endpoint is set")
    };
    Event::EndpointSet { id, endpoint: Arc::new(ActiveEndpoint { addresses: vec![address], ..(*own).clone() }) }
}

fn cut(number: u8) -> Delta {
    Delta { connections_cut: vec![route(number).key.dest.address()], ..Delta::default() }
}

/// What a change does about the address of endpoint 1: takes it from its owner, ends its connections, gives it to the next.
fn steps(delta: &Delta) -> Vec<&'static str> {
    let address = route(1).key.dest.address();
    let gives = |elements: &[calico_core::table::Element]| {
        elements.iter().any(|element| element.key.get(1) == Some(&calico_core::table::Datum::Addr(address)))
    };
    let taken = delta.elements.iter().any(|change| gives(&change.removed));
    let given = delta.elements.iter().any(|change| gives(&change.added));
    let cut = delta.connections_cut.contains(&address);
    let routed = delta.routes_set.iter().any(|route| route.key.dest.address() == address);
    let unrouted = delta.routes_removed.iter().any(|key| key.dest.address() == address);
    let all = [(taken, "taken"), (unrouted, "unrouted"), (cut, "cut"), (given, "given"), (routed, "routed")];
    all.into_iter().filter(|(does, _)| *does).map(|(_, step)| step).collect()
}

/// A host on which endpoint 1 passes its address on to endpoint 2, with these faults.
fn pass_on(faults: Faults) -> (Recording, Node) {
    let host = Recording::new();
    (1..=2).for_each(|number| host.set_link(cali(number), up(u32::from(number))));
    let mut node = Node::in_sync(&host);
    node.events(&[endpoint(1, &[])]);
    node.settle();
    host.take_applied();
    host.set_faults(faults);
    node.events(&[endpoint_at(2, 1), Event::EndpointRemoved(endpoint_id(1))]);
    node.driver.machine().desire(&cut(1));
    (host, node)
}

#[test]
fn an_address_comes_to_its_next_owner_after_the_connections_of_the_former_have_ended() {
    let (host, mut node) = pass_on(Faults::default());
    node.settle();
    let steps: Vec<_> = host.take_applied().iter().map(steps).collect();
    assert_eq!(steps, [vec!["taken", "unrouted", "cut"], vec!["given", "routed"]]);
    assert_eq!(host.take_connections_cut(), cut(1).connections_cut);
    assert_eq!(node.state("cali2"), WorkloadState::Programmed);
    assert!(node.driver.state().is_settled());
}

#[test]
fn an_address_whose_connections_cannot_be_ended_waits() {
    let (host, mut node) = pass_on(Faults { cuts: 3, ..Faults::default() });
    node.work();
    assert!(node.failures()[0].contains("ending connections"), "{:?}", node.failures());
    assert!(!node.driver.state().is_settled() && !node.driver.state().is_rid_of_the_unwanted());
    assert!(host.routes().is_empty());
    let WorkloadState::Waiting { .. } = node.state("cali2") else { panic!("it has no address yet") };
    node.settle();
    let steps: Vec<_> = host.take_applied().iter().map(steps).collect();
    assert_eq!(
        steps,
        [vec!["taken", "unrouted", "cut"], vec!["cut"], vec!["cut"], vec!["cut"], vec!["given", "routed"]]
    );
    assert_eq!(node.failures(), Vec::<String>::new());
    assert!(node.driver.state().is_settled());
}

/// Connections that end while the former owner still has the address may begin anew.
#[test]
fn a_cut_that_came_too_early_is_made_again() {
    for faults in [
        Faults { transactions: 2, ..Faults::default() },
        Faults { routes: BTreeSet::from([route(1).key]), ..Faults::default() },
    ] {
        let (host, mut node) = pass_on(faults);
        node.work();
        host.set_faults(Faults::default());
        node.settle();
        let applied: Vec<_> = host.take_applied().iter().map(steps).collect();
        let last = |step| applied.iter().rposition(|steps| steps.contains(&step)).unwrap();
        assert!(last("taken") <= last("cut") && last("unrouted") <= last("cut"), "{applied:?}");
        assert!(last("cut") < last("given") && last("cut") < last("routed"), "{applied:?}");
        assert!(applied.iter().filter(|steps| steps.contains(&"cut")).count() > 1, "{applied:?}");
    }
}

#[test]
fn connections_of_what_left_while_no_agent_ran_end() {
    let host = Recording::new();
    (1..=3).for_each(|number| host.set_link(cali(number), up(u32::from(number))));
    let mut node = Node::in_sync(&host);
    node.events(&[endpoint(1, &[]), endpoint(2, &[]), endpoint(3, &[])]);
    node.settle();
    assert!(host.take_connections_cut().is_empty());
    // The first is gone, the second's address is the third's now.
    let mut successor = Node::start(&host);
    successor.events(&[endpoint_at(3, 2)]);
    successor.work();
    assert!(host.take_connections_cut().is_empty());
    successor.driver.machine().set_in_sync();
    successor.settle();
    assert_eq!(host.take_connections_cut(), [1, 2, 3].map(|number| route(number).key.dest.address()));
    assert_eq!(successor.state("cali3"), WorkloadState::Programmed);

    let mut third = Node::in_sync(&host);
    third.events(&[endpoint_at(3, 2)]);
    // Upstream's route of another metric leads to the same interface.
    let leftover = RouteKey { metric: 7, ..route(2).key };
    host.set_route(leftover, Some(Route { key: leftover, target: RouteTarget::Interface(cali(3)), ..route(2) }));
    third.settle();
    assert!(third.driver.state().is_settled());
    assert_eq!(host.routes().len(), 1);
    assert!(host.take_connections_cut().is_empty(), "nothing left");
}

/// The host may have either left: the element that lets an interface use an address, or the route.
#[test]
fn what_left_is_found_by_its_element_and_by_its_route() {
    let host = Recording::new();
    (1..=2).for_each(|number| host.set_link(cali(number), up(u32::from(number))));
    let mut node = Node::in_sync(&host);
    node.events(&[endpoint(1, &[]), endpoint(2, &[])]);
    node.settle();
    host.set_route(route(1).key, None);
    let second = calico_core::table::Datum::Addr(route(2).key.dest.address());
    let elements = host.take_applied().into_iter().flat_map(|delta| delta.elements).filter_map(|change| {
        let removed: Vec<_> = change.added.into_iter().filter(|one| one.key.get(1) == Some(&second)).collect();
        (!removed.is_empty()).then_some(calico_core::table::ElementDelta {
            removed,
            added: Vec::new(),
            set: change.set,
        })
    });
    host.tamper(&Delta { elements: elements.collect(), ..Delta::default() }).unwrap();
    assert_eq!(host.routes(), [route(2)]);
    Node::in_sync(&host).settle();
    assert_eq!(host.take_connections_cut(), [1, 2].map(|number| route(number).key.dest.address()));
}

/// What began while the table was away would go on as established for ever.
#[test]
fn connections_end_when_the_table_was_lost() {
    for faults in [Faults::default(), Faults { transactions: 2, ..Faults::default() }] {
        let host = Recording::new();
        host.set_link(cali(1), up(1));
        let mut node = Node::in_sync(&host);
        node.events(&[endpoint(1, &[])]);
        node.settle();
        host.take_applied();
        assert!(host.take_connections_cut().is_empty(), "nothing was lost");
        host.flush_ruleset();
        host.set_faults(faults);
        node.settle();
        let applied = host.take_applied();
        let table = applied.iter().rposition(|delta| !delta.chains_set.is_empty()).unwrap();
        let cut = applied.iter().rposition(|delta| !delta.connections_cut.is_empty()).unwrap();
        let given = applied.iter().rposition(|delta| steps(delta).contains(&"given")).unwrap();
        assert!(table <= cut && cut < given, "{applied:?}");
        assert!(host.take_connections_cut().contains(&route(1).key.dest.address()));
        assert!(node.driver.state().is_settled());
        node.settle();
        assert!(host.take_connections_cut().is_empty(), "once");
    }
}
