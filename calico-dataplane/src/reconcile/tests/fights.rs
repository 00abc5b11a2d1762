//! What somebody else keeps changing, and what counts as changed by somebody else.

use super::*;

#[test]
fn a_route_that_somebody_keeps_removing_is_written_ever_more_slowly_and_is_right_in_the_end() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0])]);
    node.settle();
    let key = host.routes()[0].key;
    host.take_applied();
    for round in 0..20 {
        host.set_route(key, None);
        node.work();
        assert_eq!(host.routes().len(), usize::from(round < 3), "round {round}: the first repairs are immediate");
    }
    assert_eq!(host.take_applied().len(), 3, "time stands still");
    assert_eq!(node.driver.state().fought_over(node.now).collect::<Vec<_>>(), [&Object::Route(key)]);

    // As fast as it can, for a minute.
    let end = node.now + Duration::from_secs(60);
    while node.now < end {
        node.now = node.driver.state().poll_timeout(node.now).unwrap();
        node.work();
        assert_eq!(host.routes().len(), 1);
        host.set_route(key, None);
        node.work();
    }
    assert!(host.take_applied().len() < 30);

    node.settle();
    assert_eq!(host.routes().len(), 1);
    node.now += Duration::from_secs(11);
    assert_eq!(node.driver.state().fought_over(node.now).count(), 0, "left alone for long enough");
    host.set_route(key, None);
    node.work();
    assert_eq!(host.routes().len(), 1, "at once, as if nothing had been");
}

#[test]
fn policy_that_somebody_keeps_changing_is_put_right_at_once_each_time() {
    let host = Recording::new();
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0])]);
    node.settle();
    let ruleset = host.ruleset();
    for _ in 0..20 {
        let open = Chain { rules: Vec::new(), ..chain(&host, "to-workload") };
        host.tamper(&Delta { chains_set: vec![open], ..Delta::default() }).unwrap();
        node.work();
        assert_eq!(host.ruleset(), ruleset);
    }
    let named: Vec<String> = node.driver.state().fought_over(node.now).map(ToString::to_string).collect();
    assert_eq!(named, ["chain to-workload"]);
}

#[test]
fn a_link_that_flaps_is_no_fight() {
    let host = Recording::new();
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0])]);
    for _ in 0..20 {
        host.set_link(cali(1), up(7));
        node.work();
        assert_eq!(host.routes().len(), 1);
        // As a kernel tells of IPv6 routes.
        host.set_route(route(1).key, None);
        host.set_link(cali(1), Some(LinkState { index: 7, up: false, mtu: 1500 }));
        node.work();
    }
}

#[test]
fn an_uplink_that_flaps_is_no_fight() {
    let host = Recording::new();
    let uplink = "eth0".parse().unwrap();
    let learned = Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), class: RouteClass::Bgp, ..route(9) };
    let mut node = Node::in_sync(&host);
    node.driver.machine().desire(&Delta { routes_set: vec![learned.clone()], ..Delta::default() });
    for _ in 0..20 {
        host.set_link(uplink, up(2));
        node.work();
        assert_eq!(host.routes(), std::slice::from_ref(&learned));
        host.set_link(uplink, Some(LinkState { index: 2, up: false, mtu: 1500 }));
        host.set_route(learned.key, None);
        node.work();
    }
    assert_eq!(node.driver.state().fought_over(node.now).count(), 0);
}

/// What strangers did so far, as the agent would tell it before it works.
fn undone(node: &mut Node) -> Vec<String> {
    while ready(node.driver.next_change()).transpose().unwrap().is_some() {}
    node.driver.state().undone().map(ToString::to_string).collect()
}

#[test]
fn only_what_was_right_and_is_not_any_more_was_undone() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0])]);
    node.settle();
    let own = host.neighbors()[0];
    let tell = |node: &mut Node, neighbor, present| {
        node.driver.machine().host_change(HostChange::Neighbor { neighbor, present });
        let told = undone(node);
        node.work();
        told
    };
    let link_local = Neighbor { address: "fe80::1".parse().unwrap(), ..own };
    assert!(tell(&mut node, link_local, false).is_empty(), "aged");
    assert!(tell(&mut node, own, true).is_empty(), "as it should be");
    assert_eq!(tell(&mut node, own, false), ["neighbour 10.0.0.1 on cali1"]);
    assert_eq!(tell(&mut node, Neighbor { mac: "02:00:00:00:00:99".parse().unwrap(), ..own }, true).len(), 1);

    host.set_route(route(1).key, None);
    assert_eq!(undone(&mut node).len(), 1);
    node.settle();
    let strange = RouteKey { metric: 7, ..route(1).key };
    host.set_route(strange, None);
    assert!(undone(&mut node).is_empty(), "what nobody wants is not there");
    host.set_route(strange, Some(Route { key: strange, ..route(1) }));
    assert_eq!(undone(&mut node).len(), 1, "it carries our protocol");
    node.settle();
    assert_eq!(host.routes(), [route(1)]);
    assert!(undone(&mut node).is_empty(), "made right");
}

#[test]
fn what_goes_with_its_interface_was_not_undone() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0])]);
    node.settle();
    let neighbor = host.neighbors()[0];
    node.driver.machine().host_change(HostChange::Neighbor { neighbor, present: false });
    host.set_route(route(1).key, None);
    assert_eq!(undone(&mut node).len(), 2, "the interface is there");
    host.set_link(cali(1), None);
    assert!(undone(&mut node).is_empty(), "{:?}", undone(&mut node));
    node.work();
    node.driver.machine().host_change(HostChange::Neighbor { neighbor, present: false });
    assert!(undone(&mut node).is_empty(), "told late");
}

#[test]
fn what_a_look_finds_was_undone_unless_an_uplink_went() {
    let host = Recording::new();
    let uplink = "eth0".parse().unwrap();
    host.set_link(uplink, up(2));
    let learned = Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), class: RouteClass::Bgp, ..route(9) };
    let mut node = Node::in_sync(&host);
    let looked = |node: &mut Node| {
        assert!(undone(node).is_empty(), "not known yet");
        let now = node.now;
        assert!(matches!(ready(node.driver.step(&move || now)).unwrap(), Step::Looked));
        undone(node)
    };
    assert!(looked(&mut node).is_empty(), "left by an earlier life");
    node.driver.machine().desire(&Delta { routes_set: vec![learned.clone()], ..Delta::default() });
    node.settle();

    let open = Chain { rules: Vec::new(), ..chain(&host, "to-workload") };
    host.tamper(&Delta { chains_set: vec![open.clone()], ..Delta::default() }).unwrap();
    node.driver.machine().host_change(HostChange::Overrun);
    assert_eq!(looked(&mut node), ["chain to-workload"]);
    node.settle();
    host.tamper(&Delta { chains_set: vec![open], ..Delta::default() }).unwrap();
    assert_eq!(undone(&mut node), ["chain to-workload"], "told by name, no look is needed");
    let now = node.now;
    assert!(matches!(ready(node.driver.step(&move || now)).unwrap(), Step::Applied { .. }));
    node.settle();
    host.set_link(uplink, Some(LinkState { index: 2, up: false, mtu: 1500 }));
    host.set_route(learned.key, None);
    assert!(looked(&mut node).is_empty(), "the kernel took the route away");
    node.settle();
    host.set_route(learned.key, None);
    assert_eq!(undone(&mut node).len(), 1);
}

#[test]
fn what_is_wanted_anew_does_not_wait_for_a_fight() {
    let host = Recording::new();
    let learned = Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), class: RouteClass::Bgp, ..route(9) };
    let mut node = Node::in_sync(&host);
    node.driver.machine().desire(&Delta { routes_set: vec![learned.clone()], ..Delta::default() });
    node.work();
    for _ in 0..5 {
        host.set_route(learned.key, None);
        node.work();
    }
    assert!(host.routes().is_empty(), "it waits");
    let other = Route { target: RouteTarget::Via("192.0.2.2".parse().unwrap()), ..learned.clone() };
    node.driver.machine().desire(&Delta { routes_set: vec![other.clone()], ..Delta::default() });
    node.work();
    assert_eq!(host.routes(), [other], "no time has passed");
}
