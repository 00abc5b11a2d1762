//! The machine on a host in memory, driven by the standard renderer, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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

mod connections;
mod fights;
mod history;
mod links;
mod parts;
mod shapings;

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
        // Each declared set may be refused alone.
        for _ in 0..1000 {
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
    host.set_link(cali(1), Some(LinkState { index: 8, up: false, mtu: 1500 }));
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
    host.set_route(learned.key, Some(learned.clone()));
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
    node.driver.machine().desire(&Delta { routes_set: vec![learned.clone()], ..Delta::default() });
    for _ in 0..10 {
        node.work();
        node.now = node.driver.state().poll_timeout(node.now).unwrap();
    }
    node.work();
    host.set_faults(Faults::default());
    node.work();
    assert!(host.routes().is_empty(), "it waits");
    node.driver.machine().host_change(HostChange::Address {
        interface: "eth0".parse().unwrap(),
        address: "192.0.2.1".parse().unwrap(),
        present: true,
    });
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
    let interfaces = BTreeSet::from([cali(1)]);
    host.set_faults(Faults { routes, interfaces: interfaces.clone(), ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.events(&[policy(0, &[]), endpoint(1, &[0]), endpoint(2, &[0])]);
    node.work();
    assert!(node.driver.state().poll_timeout(node.now).is_some());
    node.events(&[Event::EndpointRemoved(endpoint_id(2))]);
    // What failed may have been written all the same, and is removed once.
    host.set_faults(Faults { routes: BTreeSet::from([route(1).key]), interfaces, ..Faults::default() });
    host.set_link(cali(1), None);
    node.now += Duration::from_secs(3_600);
    node.work();
    assert_eq!(node.driver.state().poll_timeout(node.now), None, "{:?}", node.failures());
}

fn policy(number: u8, sets: &[u8]) -> Event {
    let entity = |sets: &[u8]| ActiveEntity { sets: sets.iter().map(|n| set(*n)).collect(), ..ActiveEntity::default() };
    let rule = ActiveRule { protocol: Some(6), source: entity(sets), ..ActiveRule::all(Action::Allow) };
    let rules = ActiveRules { tier: None, ingress: vec![rule], egress: Vec::new() };
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
        floating: Vec::new(),
        qos: None,
        ingress: Arc::new(Stack { tiers, profiles: Vec::new() }),
        egress: Arc::new(Stack::default()),
    };
    Event::EndpointSet { id: endpoint_id(number), endpoint: Arc::new(endpoint) }
}

fn endpoint_id(number: u8) -> EndpointId {
    EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &format!("e{number}")))
}

/// Those of workloads are no news: there are thousands, and nobody asks whose they are.
#[test]
fn own_interfaces_are_told_with_their_addresses() {
    let host = Recording::new();
    let (eth0, eth1): (InterfaceName, InterfaceName) = ("eth0".parse().unwrap(), "eth1".parse().unwrap());
    let (one, two) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    host.set_link(eth0, up(2));
    host.set_link(cali(1), up(3));
    host.set_address(eth0, one, true);
    host.set_address(cali(1), one, true);
    let mut node = Node::start(&host);
    let mut told = || {
        node.work();
        node.driver.machine().take_interfaces()
    };
    assert_eq!(told(), [(eth0, Some(vec![one]))]);
    assert!(told().is_empty(), "told once");
    host.set_address(eth0, two, true);
    host.set_address(cali(1), two, true);
    assert_eq!(told(), [(eth0, Some(vec![one, two]))]);
    host.set_address(eth0, one, false);
    host.set_link(eth1, up(4));
    assert_eq!(told(), [(eth0, Some(vec![two])), (eth1, Some(vec![]))]);
    host.set_link(eth0, None);
    assert_eq!(told(), [(eth0, None)]);
    host.set_link(eth0, up(9));
    host.set_address(eth0, one, true);
    assert_eq!(told(), [(eth0, Some(vec![one]))]);
}

fn cali(number: u8) -> InterfaceName {
    format!("cali{number}").parse().unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "reads as the state that links have in this file")]
const fn up(index: u32) -> Option<LinkState> {
    Some(LinkState { index, up: true, mtu: 1500 })
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
