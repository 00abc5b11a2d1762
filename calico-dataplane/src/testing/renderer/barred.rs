//! What comes out of the middle of connections that were ended ([`PolicyRenderer::bar`](calico_core::render::PolicyRenderer::bar)).

use std::net::IpAddr;
use std::sync::Arc;

use calico_core::calc::event::{ActiveEndpoint, ActiveRule, ActiveRules, EndpointId, Event, ProfileId, Stack};
use calico_core::flow::{Decision, Flow};
use calico_core::net::{Cidr, InterfaceName};
use calico_core::resource::{Action, Kind, ResourceKey};
use calico_core::table::{Delta, Hook, TcpFlags};

use super::Subject;
use super::story::Follower;
use crate::recording::Packet;

const TCP: u8 = 6;
const WAY: [Hook; 3] = [Hook::Prerouting, Hook::Forward, Hook::Postrouting];
/// A workload's addresses and where it sends to.
const ENDS: [(&str, &str); 2] = [("10.0.0.1", "203.0.113.9"), ("fd00::1", "2001:db8::9")];

/// A workload that may do everything, but for going on with connections that were ended.
pub(super) fn barred(subject: &Subject<'_>) {
    let interface = subject.workload("1");
    let mut follower = Follower::new(subject);
    workload(interface).iter().for_each(|event| follower.take(event, "a workload that may do everything"));
    let free = follower.desired.clone();
    let flows = ENDS.map(|(from, to)| flow(from, to));
    bar(&mut follower, &flows, &[]);
    if follower.desired == free {
        // A renderer that cannot do it adds nothing.
        return;
    }
    let [first, second] = flows;
    let decided = |follower: &Follower, flow: Flow, flags: TcpFlags| {
        let to = Some(InterfaceName::ETH0);
        let packet = Packet { iif: Some(interface), oif: to, tcp_flags: flags.bits(), ..Packet::new(flow) };
        follower.desired.ruleset.evaluate(&WAY, packet).decision
    };
    let other = |flow: Flow| Flow { destination_port: 81, ..flow };
    for flow in flows {
        let found = [(flow, TcpFlags::ACK), (flow, TcpFlags::SYN), (other(flow), TcpFlags::ACK)]
            .map(|(flow, flags)| decided(&follower, flow, flags));
        let expected = [Decision::Deny, Decision::Allow, Decision::Allow];
        assert!(
            found == expected,
            "of an ended connection that is dropped which does not begin it: {found:?}, {flow:?}"
        );
    }
    bar(&mut follower, &[], &[first]);
    let found = flows.map(|flow| decided(&follower, flow, TcpFlags::ACK));
    assert!(found == [Decision::Allow, Decision::Deny], "what is over, and that alone, is dropped no more: {found:?}");
    bar(&mut follower, &[], &[second]);
    assert!(follower.desired == free, "what is over leaves nothing:\n{}", free.differences(&follower.desired));
}

fn bar(follower: &mut Follower, ended: &[Flow], over: &[Flow]) {
    let mut delta = Delta::default();
    follower.renderer.bar(ended, over, &mut delta);
    if let Err(error) = follower.desired.take(&delta) {
        panic!("what bars connections, a kernel takes; it is\n{delta}\nbut {error}");
    }
}

fn flow(source: &str, destination: &str) -> Flow {
    let [source, destination]: [IpAddr; 2] = [source, destination].map(|text| text.parse().unwrap());
    Flow { protocol: TCP, source, source_port: 40_000, destination, destination_port: 80, icmp: None }
}

fn workload(interface: InterfaceName) -> [Event; 2] {
    let profile = ProfileId("open".into());
    let all = || vec![ActiveRule::all(Action::Allow)];
    let rules = ActiveRules { tier: None, ingress: all(), egress: all() };
    let stack = Arc::new(Stack { tiers: Vec::new(), profiles: vec![profile.clone()] });
    let endpoint = ActiveEndpoint {
        interface,
        mac: None,
        addresses: ENDS.map(|(own, _)| Cidr::host(own.parse().unwrap())).into(),
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: None,
        ingress: stack.clone(),
        egress: stack,
    };
    let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "one", "pod"));
    [Event::ProfileSet { id: profile, rules: Arc::new(rules) }, Event::EndpointSet { id, endpoint: Arc::new(endpoint) }]
}
