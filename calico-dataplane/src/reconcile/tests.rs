//! The machine on a host in memory, driven by the standard renderer, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveRule, ActiveRules, EndpointId, Event, IpSetKind, Member, PolicyId, SetId,
    Stack, StackTier,
};
use calico_core::net::{Cidr, InterfaceName};
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{Action, DefaultAction, Kind, ResourceKey};
use calico_core::table::{
    Chain, Delta, Neighbor, Route, RouteClass, RouteKey, RouteTableId, RouteTarget, Rule, SetDecl, SetKind, Verdict,
};
use proptest::prelude::*;

use super::*;
use crate::recording::{Faults, Recording};
use crate::{Dataplane, HostChange, LinkState};

/// A renderer, a machine and a host.
struct Node {
    renderer: Renderer,
    driver: Driver,

    now: Duration,
}

impl Node {
    fn start(host: &Recording) -> Self {
        let renderer = Renderer::new(RenderConfig::default());
        let machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        let driver = Driver::new(machine, Box::new(host.clone()));
        Self { renderer, driver, now: Duration::ZERO }
    }

    fn in_sync(host: &Recording) -> Self {
        let mut node = Self::start(host);
        node.driver.machine().set_in_sync();
        node
    }

    fn events(&mut self, events: &[Event]) {
        let mut delta = Delta::default();
        events.iter().for_each(|event| self.renderer.handle(event, &mut delta));
        self.driver.machine().desire(&delta);
    }

    /// Takes in what strangers did and works until there is nothing to do at this moment.
    fn work(&mut self) {
        for _ in 0..200 {
            while ready(self.driver.next_change()).transpose().unwrap().is_some() {}
            let now = self.now;
            if matches!(ready(self.driver.step(&move || now)).unwrap(), Step::Idle) {
                return;
            }
        }
        panic!("no end of work: {:?}", self.failures());
    }

    /// Works, and lets time pass as the machine asks, until nothing is left to do or try again.
    fn settle(&mut self) {
        for _ in 0..50 {
            self.work();
            match self.driver.state().poll_timeout(self.now) {
                Some(due) => self.now = due,
                None => return,
            }
        }
        panic!("never settles: {:?}", self.failures());
    }

    fn failures(&self) -> Vec<String> {
        self.driver.state().failures().map(|(object, error)| format!("{object}: {error}")).collect()
    }

    fn state(&self, interface: &str) -> WorkloadState {
        self.driver.state().workload_state(interface.parse().unwrap())
    }
}

/// The value of a future that a host in memory completes at once, if it does.
fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn before_in_sync_only_an_absent_table_is_written_and_that_as_a_skeleton() {
    let host = Recording::new();
    let mut node = Node::start(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0])]);
    node.work();
    let skeleton = Renderer::new(RenderConfig::default()).skeleton();
    assert_eq!(host.take_applied(), vec![skeleton]);
    node.work();
    assert!(host.take_applied().is_empty());

    let mut successor = Node::start(&host);
    successor.events(&[policy(0, &[]), endpoint(1, &[0])]);
    successor.work();
    assert!(host.take_applied().is_empty(), "our table was there");
    successor.driver.machine().set_in_sync();
    successor.work();
    assert!(host.ruleset().chain("policy-in/gnp/p0").is_some());
}

#[test]
fn a_restart_over_an_unchanged_host_writes_settings_at_most() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let events = [set_added(0, &[1, 2]), policy(0, &[0]), endpoint(1, &[0]), endpoint(2, &[])];
    let mut node = Node::in_sync(&host);
    node.events(&events);
    node.settle();
    assert!(!host.take_applied().is_empty());

    let mut successor = Node::in_sync(&host);
    successor.events(&events);
    successor.settle();
    for delta in host.take_applied() {
        assert_eq!(delta, Delta { settings: delta.settings.clone(), ..Delta::default() });
    }
}

#[test]
fn what_needs_an_interface_waits_for_it_and_returns_with_its_successor() {
    let host = Recording::new();
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0])]);
    node.settle();
    assert!(host.routes().is_empty());
    assert!(matches!(node.state("cali1"), WorkloadState::Waiting { reasons } if reasons[0].contains("cali1")));
    for index in [7, 8] {
        host.set_link(cali(1), up(index));
        node.settle();
        assert_eq!(host.routes().len(), 1);
        assert_eq!(host.neighbors().len(), 1);
        assert_eq!(host.setting(cali(1), "net/ipv4/conf/{}/proxy_arp").as_deref(), Some("1"));
        assert_eq!(node.state("cali1"), WorkloadState::Programmed);
    }
    host.set_link(cali(1), Some(LinkState { index: 8, up: false }));
    node.settle();
    assert!(host.routes().is_empty());
    host.set_link(cali(1), up(8));
    node.settle();
    assert_eq!((host.routes().len(), host.neighbors().len()), (1, 1));
    node.events(&[Event::EndpointRemoved(endpoint_id(1))]);
    node.settle();
    assert_eq!((host.routes().len(), host.neighbors().len()), (0, 0));
    assert_eq!(node.state("cali1"), WorkloadState::Unknown);
}

#[test]
fn what_strangers_change_is_put_right() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let mut node = Node::in_sync(&host);
    node.events(&[set_added(0, &[1]), policy(0, &[0]), endpoint(1, &[0])]);
    node.settle();
    let (ruleset, routes) = (host.ruleset(), host.routes());

    host.flush_ruleset();
    node.settle();
    assert_eq!(host.ruleset(), ruleset);

    let open = Chain {
        rules: vec![Rule { verdict: Some(Verdict::Accept), ..Rule::default() }],
        ..chain(&host, "to-workload")
    };
    host.tamper(&Delta { chains_set: vec![open], ..Delta::default() }).unwrap();
    node.settle();
    assert_eq!(host.ruleset(), ruleset);

    host.set_route(routes[0].key, None);
    node.settle();
    assert_eq!(host.routes(), routes);
}

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
        host.set_link(cali(1), Some(LinkState { index: 7, up: false }));
        node.work();
    }
}

#[test]
fn an_uplink_that_flaps_is_no_fight() {
    let host = Recording::new();
    let uplink = "eth0".parse().unwrap();
    let learned = Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), class: RouteClass::Bgp, ..route(9) };
    let mut node = Node::in_sync(&host);
    node.driver.machine().desire(&Delta { routes_set: vec![learned], ..Delta::default() });
    for _ in 0..20 {
        host.set_link(uplink, up(2));
        node.work();
        assert_eq!(host.routes(), [learned]);
        host.set_link(uplink, Some(LinkState { index: 2, up: false }));
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
    node.driver.machine().desire(&Delta { routes_set: vec![learned], ..Delta::default() });
    node.settle();

    let open = Chain { rules: Vec::new(), ..chain(&host, "to-workload") };
    host.tamper(&Delta { chains_set: vec![open], ..Delta::default() }).unwrap();
    assert_eq!(looked(&mut node), ["chain to-workload"]);
    node.settle();
    host.set_link(uplink, Some(LinkState { index: 2, up: false }));
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
    node.driver.machine().desire(&Delta { routes_set: vec![learned], ..Delta::default() });
    node.work();
    for _ in 0..5 {
        host.set_route(learned.key, None);
        node.work();
    }
    assert!(host.routes().is_empty(), "it waits");
    let other = Route { target: RouteTarget::Via("192.0.2.2".parse().unwrap()), ..learned };
    node.driver.machine().desire(&Delta { routes_set: vec![other], ..Delta::default() });
    node.work();
    assert_eq!(host.routes(), [other], "no time has passed");
}

#[test]
fn a_set_of_another_type_is_made_anew_with_all_that_refers_to_it() {
    let host = Recording::new();
    let mut node = Node::in_sync(&host);
    node.events(&[set_added(0, &[1]), policy(0, &[0]), endpoint(1, &[0])]);
    node.settle();
    let ruleset = host.ruleset();
    let (decl, _) = ruleset.sets().find(|(decl, _)| decl.name.as_str().starts_with("hosts4-")).unwrap();
    let wrong = SetDecl { kind: SetKind::Interval, ..decl.clone() };
    let swap = Delta { sets_added: vec![wrong], sets_removed: vec![decl.name.clone()], ..Delta::default() };
    host.tamper(&swap).unwrap();
    node.settle();
    assert_eq!(host.ruleset(), ruleset);
}

#[test]
fn stale_learned_routes_stay_until_the_speaker_has_settled() {
    let host = Recording::new();
    let learned = Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), class: RouteClass::Bgp, ..route(9) };
    let local = Route { target: RouteTarget::Blackhole, class: RouteClass::LocalBlock, ..route(8) };
    host.set_route(learned.key, Some(learned));
    host.set_route(local.key, Some(local));
    let mut node = Node::in_sync(&host);
    node.settle();
    assert_eq!(host.routes(), vec![learned]);
    assert_eq!((node.driver.state().stale_routes(), node.driver.state().is_settled()), (1, true), "as it should be");
    node.driver.machine().set_bgp_settled();
    assert!(!node.driver.state().is_settled());
    node.settle();
    assert!(host.routes().is_empty());
    assert_eq!((node.driver.state().stale_routes(), node.driver.state().is_settled()), (0, true));
}

#[test]
fn a_policy_that_cannot_be_written_stops_only_those_that_need_it() {
    let host = Recording::new();
    for number in 1..=3 {
        host.set_link(cali(number), up(u32::from(number)));
    }
    host.set_faults(Faults { chains: BTreeSet::from([chain_name("policy-in/gnp/p0")]), ..Faults::default() });
    let mut node = Node::in_sync(&host);
    let policies = [policy(0, &[]), policy(1, &[]), policy(2, &[])];
    node.events(&policies);
    node.events(&[endpoint(1, &[1]), endpoint(2, &[0, 1]), endpoint(3, &[2])]);
    node.work();
    assert_eq!(node.state("cali1"), WorkloadState::Programmed);
    assert_eq!(node.state("cali3"), WorkloadState::Programmed);
    let WorkloadState::Waiting { reasons } = node.state("cali2") else { panic!("cali2 cannot be programmed") };
    assert!(
        reasons.iter().any(|reason| reason.contains("policy-in/gnp/p0") && reason.contains("planted")),
        "{reasons:?}"
    );
    let ruleset = host.ruleset();
    let (_, mut elements) = ruleset.sets().find(|(decl, _)| decl.name.as_str() == "to-workload").unwrap();
    assert!(elements.all(|element| element.key[0].to_string() != "cali2"), "it would be open or broken");

    host.set_faults(Faults::default());
    node.settle();
    assert_eq!(node.state("cali2"), WorkloadState::Programmed);
    assert!(node.driver.state().is_settled());
}

#[test]
fn removals_that_were_refused_are_tried_again() {
    // One failure halves the transaction; several in a row find a lone removal to blame.
    for refusals in 1..=8 {
        let host = Recording::new();
        let mut node = Node::in_sync(&host);
        node.events(&[set_added(0, &[1, 2]), policy(0, &[0]), policy(1, &[])]);
        node.settle();
        host.set_faults(Faults { transactions: refusals, ..Faults::default() });
        node.events(&[
            Event::PolicyRemoved(policy_id(0)),
            Event::PolicyRemoved(policy_id(1)),
            Event::SetRemoved(set(0)),
        ]);
        node.settle();
        assert!(node.driver.state().is_settled(), "{refusals}: {:?}", node.failures());
        assert!(
            host.ruleset().chain("policy-in/gnp/p0").is_none() && host.ruleset().chain("policy-in/gnp/p1").is_none()
        );
    }
}

#[test]
fn many_policies_that_cannot_be_written_stop_no_other() {
    let host = Recording::new();
    host.set_link(cali(1), up(1));
    // All sort before the one that can be written.
    let bad = 0..7;
    let chains = bad.clone().map(|number| chain_name(&format!("policy-in/gnp/p{number}"))).collect();
    host.set_faults(Faults { chains, ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.work();
    node.events(&bad.flat_map(|number| [policy(number, &[]), endpoint(100 + number, &[number])]).collect::<Vec<_>>());
    node.events(&[policy(8, &[]), endpoint(1, &[8])]);
    for _ in 0..4 {
        node.work();
        node.now = node.driver.state().poll_timeout(node.now).unwrap();
    }
    assert_eq!(node.state("cali1"), WorkloadState::Programmed, "{:?}", node.failures());
    assert!(node.driver.state().is_carried_out());
    assert!(!node.driver.state().is_settled());

    // Nor does a newcomer wait for their next try.
    host.set_link(cali(2), up(2));
    node.events(&[policy(9, &[]), endpoint(2, &[9])]);
    node.work();
    assert_eq!(node.state("cali2"), WorkloadState::Programmed, "{:?}", node.failures());

    node.events(&[Event::EndpointRemoved(endpoint_id(2))]);
    assert!(!node.driver.state().is_rid_of_the_unwanted());
    node.work();
    assert!(node.driver.state().is_rid_of_the_unwanted());
}

#[test]
fn a_kernel_that_refuses_everything_is_asked_ever_more_slowly() {
    let host = Recording::new();
    host.set_faults(Faults { transactions: usize::MAX, looks: 2, ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0]), endpoint(2, &[0])]);
    for _ in 0..12 {
        node.work();
        node.now = node.driver.state().poll_timeout(node.now).unwrap();
        assert!(!node.driver.state().is_carried_out());
    }
    assert!(node.now > Duration::from_secs(2), "{:?}", node.now);
    host.set_faults(Faults::default());
    node.settle();
    assert!(host.ruleset().chain("policy-in/gnp/p0").is_some());
}

#[test]
fn a_route_that_fails_stops_no_other() {
    let host = Recording::new();
    for number in 1..=2 {
        host.set_link(cali(number), up(u32::from(number)));
    }
    host.set_faults(Faults { routes: BTreeSet::from([route(1).key]), ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0]), endpoint(2, &[0])]);
    node.work();
    assert_eq!(host.routes().len(), 1);
    assert_eq!(node.failures().len(), 1);
    host.set_faults(Faults::default());
    node.settle();
    assert_eq!(host.routes().len(), 2);
}

#[test]
fn a_new_address_brings_failed_routes_back_at_once() {
    let host = Recording::new();
    let learned = Route { target: RouteTarget::Via("192.0.2.1".parse().unwrap()), class: RouteClass::Bgp, ..route(9) };
    host.set_faults(Faults { routes: BTreeSet::from([learned.key]), ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.driver.machine().desire(&Delta { routes_set: vec![learned], ..Delta::default() });
    for _ in 0..10 {
        node.work();
        node.now = node.driver.state().poll_timeout(node.now).unwrap();
    }
    node.work();
    host.set_faults(Faults::default());
    node.work();
    assert!(host.routes().is_empty(), "it waits");
    node.driver.machine().host_change(HostChange::Address { interface: "eth0".parse().unwrap() });
    node.work();
    assert_eq!(host.routes(), vec![learned], "no time has passed");
}

#[test]
fn what_failed_and_is_no_longer_wanted_or_possible_is_not_waited_for() {
    let host = Recording::new();
    for number in 1..=2 {
        host.set_link(cali(number), up(u32::from(number)));
    }
    let routes = BTreeSet::from([route(1).key, route(2).key]);
    host.set_faults(Faults { routes, interfaces: BTreeSet::from([cali(1)]), ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0]), endpoint(2, &[0])]);
    node.work();
    assert!(node.driver.state().poll_timeout(node.now).is_some());
    node.events(&[Event::EndpointRemoved(endpoint_id(2))]);
    host.set_link(cali(1), None);
    node.now += Duration::from_secs(3_600);
    node.work();
    assert_eq!(node.driver.state().poll_timeout(node.now), None, "{:?}", node.failures());
}

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

#[derive(Debug, Clone)]
enum Op {
    Endpoint(u8, Vec<u8>),
    NoEndpoint(u8),
    Policy(u8, Vec<u8>),
    Members(u8, BTreeSet<u8>),
    Link(u8, Option<u32>),
    Flush,
    LoseRoute(u8),
    Pass(u16),
    Fail(Vec<u8>),
    Work,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let few = || proptest::collection::vec(0..3_u8, 0..3);
    prop_oneof![
        4 => (1..5_u8, few()).prop_map(|(n, policies)| Op::Endpoint(n, policies)),
        2 => (1..5_u8).prop_map(Op::NoEndpoint),
        3 => (0..3_u8, proptest::collection::vec(0..2_u8, 0..2)).prop_map(|(n, sets)| Op::Policy(n, sets)),
        3 => (0..2_u8, proptest::collection::btree_set(0..5_u8, 0..4)).prop_map(|(n, members)| Op::Members(n, members)),
        2 => (1..5_u8, proptest::option::of(1..9_u32)).prop_map(|(n, index)| Op::Link(n, index)),
        1 => Just(Op::Flush),
        4 => (1..5_u8).prop_map(Op::LoseRoute),
        2 => (0..6000_u16).prop_map(Op::Pass),
        1 => few().prop_map(Op::Fail),
        4 => Just(Op::Work),
        1 => Just(Op::Restart),
    ]
}

/// What is active, by number: enough to tell a fresh node all of it.
#[derive(Default)]
struct World {
    endpoints: BTreeMap<u8, Vec<u8>>,
    policies: BTreeMap<u8, Vec<u8>>,
    members: BTreeMap<u8, BTreeSet<u8>>,
}

impl World {
    fn new() -> Self {
        Self {
            policies: (0..3).map(|number| (number, Vec::new())).collect(),
            members: (0..2).map(|number| (number, BTreeSet::new())).collect(),
            ..Self::default()
        }
    }

    fn events(&self) -> Vec<Event> {
        let sets = self.members.iter().map(|(n, members)| set_added(*n, &members.iter().copied().collect::<Vec<_>>()));
        let policies = self.policies.iter().map(|(n, sets)| policy(*n, sets));
        let endpoints = self.endpoints.iter().map(|(n, policies)| endpoint(*n, policies));
        sets.chain(policies).chain(endpoints).collect()
    }

    fn change(&mut self, op: &Op) -> Vec<Event> {
        match op {
            Op::Endpoint(n, policies) => {
                self.endpoints.insert(*n, policies.clone());
                vec![endpoint(*n, policies)]
            }
            Op::NoEndpoint(n) => {
                self.endpoints.remove(n).map(|_| Event::EndpointRemoved(endpoint_id(*n))).into_iter().collect()
            }
            Op::Policy(n, sets) => {
                self.policies.insert(*n, sets.clone());
                vec![policy(*n, sets)]
            }
            Op::Members(n, members) => {
                let before = self.members.insert(*n, members.clone()).unwrap();
                let pick =
                    |from: &BTreeSet<u8>, less: &BTreeSet<u8>| from.difference(less).map(|n| member(*n)).collect();
                vec![Event::SetChanged { id: set(*n), added: pick(members, &before), removed: pick(&before, members) }]
            }
            _ => Vec::new(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever happens on the way, a node ends where a fresh node on a fresh host ends at once.
    #[test]
    fn every_way_ends_at_the_same_host(ops in proptest::collection::vec(op(), 0..40)) {
        let (host, mut world) = (Recording::new(), World::new());
        let mut node = Node::in_sync(&host);
        node.events(&world.events());
        for op in &ops {
            node.events(&world.change(op));
            match op {
                Op::Link(n, index) => host.set_link(cali(*n), index.and_then(up)),
                Op::Flush => host.flush_ruleset(),
                Op::Pass(millis) => node.now += Duration::from_millis((*millis).into()),
                Op::LoseRoute(n) => host.set_route(route(*n).key, None),
                Op::Fail(policies) => {
                    let chains = policies.iter().map(|n| chain_name(&format!("policy-in/gnp/p{n}"))).collect();
                    host.set_faults(Faults { chains, ..Faults::default() });
                }
                Op::Work => node.work(),
                Op::Restart => {
                    let now = node.now;
                    node = Node::in_sync(&host);
                    node.now = now;
                    node.events(&world.events());
                }
                _ => {}
            }
        }
        host.set_faults(Faults::default());
        node.settle();

        let fresh_host = Recording::new();
        let links = ready(host.clone().observe()).unwrap().unwrap().links;
        links.into_iter().for_each(|(name, state)| fresh_host.set_link(name, Some(state)));
        let mut fresh = Node::in_sync(&fresh_host);
        fresh.events(&world.events());
        fresh.settle();
        prop_assert_eq!(host.ruleset().to_string(), fresh_host.ruleset().to_string());
        prop_assert_eq!(host.routes(), fresh_host.routes());
        prop_assert_eq!(host.neighbors(), fresh_host.neighbors());
        for n in 1..5 {
            let path = "net/ipv4/conf/{}/proxy_arp";
            prop_assert_eq!(
                world.endpoints.contains_key(&n).then(|| host.setting(cali(n), path)).flatten(),
                fresh_host.setting(cali(n), path)
            );
        }
    }
}

fn policy(number: u8, sets: &[u8]) -> Event {
    let entity = |sets: &[u8]| ActiveEntity { sets: sets.iter().map(|n| set(*n)).collect(), ..ActiveEntity::default() };
    let rule = ActiveRule {
        action: Action::Allow,
        family: None,
        protocol: Some(6),
        not_protocol: None,
        icmp: None,
        not_icmp: None,
        source: entity(sets),
        destination: ActiveEntity::default(),
    };
    let rules = ActiveRules { ingress: vec![rule], egress: Vec::new() };
    Event::PolicySet { id: policy_id(number), rules: Arc::new(rules) }
}

fn policy_id(number: u8) -> PolicyId {
    PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, &format!("p{number}")))
}

fn set(number: u8) -> SetId {
    SetId::new([number; 16])
}

fn set_added(number: u8, members: &[u8]) -> Event {
    Event::SetAdded {
        id: set(number),
        kind: IpSetKind::Net,
        members: members.iter().map(|number| member(*number)).collect(),
    }
}

/// Odd numbers are hosts, even ones prefixes.
fn member(number: u8) -> Member {
    let length = if number % 2 == 1 { 32 } else { 24 };
    Member::Net(Cidr::new([10, 9, number, 0].into(), length).unwrap())
}

fn endpoint(number: u8, policies: &[u8]) -> Event {
    let tier = StackTier {
        name: "default".into(),
        policies: policies.iter().map(|number| policy_id(*number)).collect(),
        default_action: DefaultAction::Deny,
    };
    let tiers = if policies.is_empty() { Vec::new() } else { vec![tier] };
    let endpoint = ActiveEndpoint {
        interface: cali(number),
        mac: Some("ee:00:00:00:00:01".parse().unwrap()),
        addresses: vec![route(number).key.dest],
        allowed_sources: Vec::new(),
        ingress: Arc::new(Stack { tiers, profiles: Vec::new() }),
        egress: Arc::new(Stack::default()),
    };
    Event::EndpointSet { id: endpoint_id(number), endpoint: Arc::new(endpoint) }
}

fn endpoint_id(number: u8) -> EndpointId {
    EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &format!("e{number}")))
}

fn cali(number: u8) -> InterfaceName {
    format!("cali{number}").parse().unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "reads as the state that links have in this file")]
const fn up(index: u32) -> Option<LinkState> {
    Some(LinkState { index, up: true })
}

fn route(number: u8) -> Route {
    Route {
        key: RouteKey { table: RouteTableId::MAIN, dest: Cidr::host([10, 0, 0, number].into()), metric: 1024 },
        target: RouteTarget::Interface(cali(number)),
        class: RouteClass::LocalWorkload,
    }
}

fn chain_name(text: &str) -> calico_core::table::ChainName {
    calico_core::table::ChainName::new(text).unwrap()
}

fn chain(host: &Recording, name: &str) -> Chain {
    host.ruleset().chain(name).unwrap().clone()
}
