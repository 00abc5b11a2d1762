//! What limits of the standard renderer count, and what not.

use std::sync::Arc;
use std::time::Duration;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveRule, ActiveRules, EndpointId, Event, ProfileId, Stack,
};
use calico_core::flow::{Decision, Flow};
use calico_core::net::{Cidr, InterfaceName, PortRange};
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{Action, Kind, QosControls, ResourceKey};
use calico_core::table::{Delta, Hook};

use super::desired::Desired;
use crate::recording::{Packet, Ruleset, Surroundings};

const TCP: u8 = 6;
const ICMPV6: u8 = 58;
const OPEN: u16 = 80;
const CLOSED: u16 = 81;
const WORKLOAD: &str = "fd00::1";
const OTHER: &str = "2001:db8::9";

/// A host with one workload that has these limits, and whose profile knows one port.
fn limited(qos: QosControls) -> Ruleset {
    let profile = ProfileId("one-port".into());
    let port = ActiveEntity { ports: vec![PortRange::single(OPEN)], ..ActiveEntity::default() };
    let allow =
        || vec![ActiveRule { protocol: Some(TCP), destination: port.clone(), ..ActiveRule::all(Action::Allow) }];
    let rules = ActiveRules { tier: None, ingress: allow(), egress: allow() };
    let stack = Arc::new(Stack { tiers: Vec::new(), profiles: vec![profile.clone()] });
    let endpoint = ActiveEndpoint {
        interface: interface(),
        mac: None,
        addresses: vec![Cidr::host(WORKLOAD.parse().unwrap())],
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: Some(Arc::new(qos)),
        ingress: stack.clone(),
        egress: stack,
    };
    let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "pod"));
    let mut renderer = Renderer::new(RenderConfig::default());
    let mut desired = Desired::default();
    desired.take(&renderer.skeleton()).unwrap();
    let set = Event::EndpointSet { id, endpoint: Arc::new(endpoint) };
    for event in [Event::ProfileSet { id: profile, rules: Arc::new(rules) }, set] {
        let mut delta = Delta::default();
        renderer.handle(&event, &mut delta);
        desired.take(&delta).unwrap();
    }
    desired.ruleset
}

fn interface() -> InterfaceName {
    "cali1".parse().unwrap()
}

fn flow(is_sent: bool, source_port: u16, destination_port: u16) -> Flow {
    let [own, other] = [WORKLOAD, OTHER].map(|text| text.parse().unwrap());
    let (source, destination) = if is_sent { (own, other) } else { (other, own) };
    Flow { protocol: TCP, source, source_port, destination, destination_port, icmp: None }
}

#[test]
fn connections_that_policy_denies_take_no_places() {
    let most = Some(2);
    let egress = QosControls { egress_max_connections: most, ..QosControls::default() };
    let ingress = QosControls { ingress_max_connections: most, ..QosControls::default() };
    for (is_sent, qos) in [(true, egress), (false, ingress)] {
        let ruleset = limited(qos);
        let mut host = Surroundings::default();
        let mut begins = |source_port, port| {
            let packet = Packet::new(flow(is_sent, source_port, port));
            let own = Some(interface());
            let packet = if is_sent { Packet { iif: own, ..packet } } else { Packet { oif: own, ..packet } };
            ruleset.evaluate_in(&[Hook::Forward], packet, &mut host)
        };
        for source_port in 1..=5 {
            let found = begins(source_port, CLOSED);
            assert_eq!((found.decision, found.rejected), (Decision::Deny, None), "policy drops it, and no limit");
        }
        let found = [6, 7, 8].map(|source_port| begins(source_port, OPEN).decision);
        assert_eq!(found, [Decision::Allow, Decision::Allow, Decision::Deny], "sent: {is_sent}");
        assert!(begins(9, OPEN).rejected.is_some());
    }
}

/// Among the others, a workload over its limit would lose its gateway, and the host the way to it.
#[test]
fn neighbours_are_found_over_the_limit() {
    let ruleset =
        limited(QosControls { egress_packet_rate: Some(1), egress_packet_burst: Some(1), ..QosControls::default() });
    let mut host = Surroundings::default();
    let sends = |hook, flow, host: &mut Surroundings| {
        ruleset.evaluate_in(&[hook], Packet { iif: Some(interface()), ..Packet::new(flow) }, host).decision
    };
    let data = flow(true, 1, OPEN);
    let discovery = |icmp_type| {
        let icmp = Some((icmp_type, 0));
        Flow { protocol: ICMPV6, source_port: 0, destination_port: 0, icmp, ..data }
    };
    for icmp_type in [133, 135, 136] {
        assert_eq!(sends(Hook::Forward, data, &mut host), Decision::Allow);
        assert_eq!(sends(Hook::Forward, data, &mut host), Decision::Deny);
        let sent = || discovery(icmp_type);
        assert_eq!(sends(Hook::Input, sent(), &mut host), Decision::Allow, "type {icmp_type} has room of its own");
        assert_eq!(sends(Hook::Input, sent(), &mut host), Decision::Deny, "as much as all else");
        host.advance(Duration::from_secs(1));
    }
}
