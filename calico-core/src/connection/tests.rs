//! What the tests of connections have in common.

mod doubt;
mod hosts;
mod judge;
mod random;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::*;
use crate::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveHostEndpoint, ActiveRule, ActiveRules, Directions, EndpointId, Event,
    HostInterfaces, IpSetKind, Member, PolicyId, ProfileId, SetId, Stack, StackTier,
};
use crate::net::{Cidr, InterfaceName};
use crate::resource::{Action, DefaultAction, Kind, ResourceKey};
use crate::verdict::{ActiveState, Compiled, Settings};

/// What is known of a host that has these addresses, its settings being the default.
#[derive(Default)]
struct Known {
    settings: Settings,
    addresses: BTreeSet<IpAddr>,
    interfaces: BTreeMap<InterfaceName, Vec<IpAddr>>,
    routes: Routes,
}

impl Known {
    fn host(&self) -> Host<'_> {
        Host {
            settings: &self.settings,
            addresses: &self.addresses,
            interfaces: &self.interfaces,
            routes: &self.routes,
        }
    }

    fn of(addresses: &[&str]) -> Self {
        Self { addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(), ..Self::default() }
    }

    /// All that is asked for leads by these interfaces.
    fn route(&mut self, from: Option<&str>, to: &str, interfaces: &[&str]) {
        let query = RouteQuery { from: from.map(|from| from.parse().unwrap()), to: to.parse().unwrap() };
        self.routes.insert(query, interfaces.iter().map(|name| name.parse().unwrap()).collect());
    }
}

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
    ActiveRule { source, ..ActiveRule::all(action) }
}

fn rules(ingress: Vec<ActiveRule>) -> Event {
    let egress = vec![rule(Action::Allow, &[], &[])];
    Event::ProfileSet { id: profile(), rules: Arc::new(ActiveRules { tier: None, ingress, egress }) }
}

fn apply(state: &mut ActiveState, doubts: &mut Doubts, events: impl IntoIterator<Item = Event>) -> Option<Doubt> {
    for event in events {
        doubts.handle(state, &event);
        state.apply(&event);
    }
    doubts.take()
}

fn flow(source: &str, destination: &str, destination_port: u16) -> Flow {
    Flow {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: 6,
        source_port: 40_000,
        destination_port,
        icmp: None,
    }
}

const OWN: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const FAR: [&str; 3] = ["203.0.113.9", "198.51.100.8", "10.65.7.1"];

/// Two uplinks of the host, by one of which each stranger is reached, or by both.
fn between_uplinks() -> Known {
    let mut known = Known::of(&OWN);
    for (name, own) in [("eth0", OWN[0]), ("eth1", OWN[1])] {
        known.interfaces.insert(name.parse().unwrap(), vec![own.parse().unwrap()]);
    }
    for from in [None, Some(OWN[0]), Some(OWN[1])] {
        known.route(from, FAR[0], &["eth0"]);
        known.route(from, FAR[1], &["eth1"]);
        known.route(from, FAR[2], &["eth0", "eth1"]);
    }
    known
}

/// A host endpoint that lets nothing in and out, and through only what the policy allows, if it is asked.
fn host_endpoint(interfaces: HostInterfaces, policy: Option<&PolicyId>) -> Event {
    let tier = |policy: &PolicyId| StackTier {
        name: "default".into(),
        default_action: DefaultAction::Deny,
        policies: vec![policy.clone()],
    };
    let forward = Arc::new(Stack { tiers: policy.map(tier).into_iter().collect(), profiles: Vec::new() });
    let endpoint = ActiveHostEndpoint {
        dscp: Vec::new(),
        interfaces,
        untracked: Directions::default(),
        pre_dnat: Arc::default(),
        normal: Directions::default(),
        forward: Directions { ingress: forward.clone(), egress: forward },
    };
    let id = EndpointId(ResourceKey::cluster(Kind::HostEndpoint, "uplink"));
    Event::HostEndpointSet { id, endpoint: Arc::new(endpoint) }
}

fn eth0() -> HostInterfaces {
    HostInterfaces::Named(vec![InterfaceName::ETH0])
}
