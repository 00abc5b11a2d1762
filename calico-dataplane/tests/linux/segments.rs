//! Real packets past many policies, of which a segment asks only those that name their port.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveRule, ActiveRules, EndpointId, Event, PolicyId, ProfileId, Stack, StackTier,
};
use calico_core::net::PortRange;
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{Action, DefaultAction, Kind, ResourceKey};
use calico_core::table::{Delta, Verdict};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::{Dataplane, HostChange};

use super::fixture::{nft, open, run};
use super::network::*;

const POLICIES: u16 = 60;
/// Only the last policy is about it.
const OTHER: u16 = 9000;

/// Each is about one to three ports, and the last one about all.
fn rule(number: u16) -> ActiveRule {
    let first = 7000 + number;
    let ports = vec![PortRange::new(first, first + number % 3).unwrap()];
    let is_last = number + 1 == POLICIES;
    let action = match number % 4 {
        1 if !is_last => Action::Deny,
        2 if !is_last => Action::Pass,
        _ => Action::Allow,
    };
    let destination = ActiveEntity { ports: if is_last { Vec::new() } else { ports }, ..ActiveEntity::default() };
    ActiveRule { protocol: Some(UDP), destination, ..ActiveRule::all(action) }
}

fn passes(port: u16) -> bool {
    let about = |rule: &ActiveRule| rule.destination.ports.iter().all(|range| range.contains(port));
    let rule = (0..POLICIES).map(rule).find(about).unwrap();
    // The profile allows what a policy has passed on.
    rule.action != Action::Deny
}

fn policy(number: u16) -> PolicyId {
    PolicyId(ResourceKey::cluster(Kind::GlobalNetworkPolicy, &format!("p{number}")))
}

fn events() -> Vec<Event> {
    let rules = |ingress| Arc::new(ActiveRules { tier: None, ingress, egress: Vec::new() });
    let mut events: Vec<Event> =
        (0..POLICIES).map(|number| Event::PolicySet { id: policy(number), rules: rules(vec![rule(number)]) }).collect();
    let all = ActiveRule { protocol: None, ..rule(POLICIES - 1) };
    let profile = ProfileId("all".into());
    events.push(Event::ProfileSet { id: profile.clone(), rules: rules(vec![all]) });
    let policies = (0..POLICIES).map(policy).collect();
    let tier = StackTier { name: "default".into(), policies, default_action: DefaultAction::Deny };
    let endpoint = ActiveEndpoint {
        interface: NEAR.parse().unwrap(),
        mac: None,
        addresses: Vec::new(),
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: None,
        ingress: Arc::new(Stack { tiers: vec![tier], profiles: vec![profile] }),
        egress: Arc::default(),
    };
    let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "pod"));
    events.push(Event::EndpointSet { id, endpoint: Arc::new(endpoint) });
    events
}

/// How often the rule of a policy has matched.
fn hits(number: u16) -> String {
    let listing = run("nft", &format!("list chain inet calico-dataplane policy-in/gnp/p{number}"));
    let (_, behind) = listing.split_once("counter packets ").unwrap();
    behind.split(' ').next().unwrap().to_owned()
}

fn desired() -> Delta {
    let mut renderer = Renderer::new(RenderConfig::default());
    let mut delta = renderer.skeleton();
    events().iter().for_each(|event| renderer.handle(event, &mut delta));
    Delta { settings: Vec::new(), ..delta }
}

/// Sends a packet to every port and sees which arrive.
fn assert_judged_right(network: &Network) {
    let server = udp(&network.server, SERVER, 6000);
    let send = |port| assert_eq!(server.send_to(&[1], SocketAddr::new(POD.parse().unwrap(), port)).unwrap(), 1);
    let last = udp(&network.pod, POD, OTHER);
    let (mut let_through, mut dropped) = (0, 0);
    for port in 6999..7000 + POLICIES + 3 {
        let pod = udp(&network.pod, POD, port);
        send(port);
        send(OTHER);
        next(&last);
        pod.set_nonblocking(true).unwrap();
        assert_eq!(pod.recv(&mut [0]).is_ok(), passes(port), "port {port}");
        *if passes(port) { &mut let_through } else { &mut dropped } += 1;
    }
    assert!(let_through > 10 && dropped > 10);
}

#[test]
fn packets_meet_the_policies_that_name_their_port() {
    in_network(async |mut network| {
        let delta = desired();
        let segments = delta.chains_set.iter().filter(|chain| chain.name.as_str().starts_with("segment-")).count();
        assert!(segments > 0);
        network.apply(delta).await;
        assert_judged_right(&network);
        // Ports 7002 to 7004 are the last one's too, but who stands before it was about 7002 already.
        assert_eq!([0, 1, 2].map(hits), ["1", "2", "2"]);
    });
}

/// Does what there is to do, and waits for news until there was one of our tables.
async fn heal(driver: &mut Driver) {
    let news =
        async { while !matches!(driver.next_change().await.unwrap(), HostChange::Objects(_) | HostChange::Ruleset) {} };
    tokio::time::timeout(Duration::from_secs(30), news).await.unwrap();
    settle(driver).await;
}

async fn settle(driver: &mut Driver) {
    while !matches!(driver.step(&|| Duration::ZERO).await, Step::Idle) {}
    let failures: Vec<_> = driver.state().failures().map(|(object, error)| format!("{object}: {error}")).collect();
    assert!(driver.state().is_settled(), "{failures:?}");
}

/// Who renames a chain takes along the maps that lead there, of which nothing is told.
#[test]
fn renamed_chains_behind_a_segment_are_made_right() {
    in_network(async |network| {
        let delta = desired();
        let rules = delta.chains_set.iter().flat_map(|chain| &chain.rules);
        let by_port = rules.filter_map(|rule| rule.verdict.as_ref().filter(|verdict| verdict.target().is_none()));
        let candidates: BTreeSet<_> = by_port.flat_map(Verdict::targets).map(|name| name.as_str().to_owned()).collect();
        let mut driver = Driver::new(Reconciler::new(Delta::default(), ReconcileConfig::default()), Box::new(open()));
        driver.machine().desire(&delta);
        driver.machine().set_in_sync();
        settle(&mut driver).await;
        let chains = async || open().observe().await.unwrap().chains;
        let expected = chains().await;
        let rename = |from: &str, to: &str| nft(&format!("rename chain inet calico-dataplane {from} {to}\n"));
        let mut candidates = candidates.iter().take(8);
        while let (Some(one), Some(other)) = (candidates.next(), candidates.next()) {
            rename(one, "foreign");
            heal(&mut driver).await;
            assert_eq!(chains().await, expected, "{one} renamed");
            // Now each is what the other was, and none is missing.
            rename(one, "foreign");
            rename(other, one);
            rename("foreign", other);
            heal(&mut driver).await;
            assert_eq!(chains().await, expected, "{one} and {other} renamed");
            assert_judged_right(&network);
        }
    });
}
