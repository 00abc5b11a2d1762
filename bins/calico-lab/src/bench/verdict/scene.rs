//! The policies, sets and endpoints of the benchmarks, from numbers: through the graph, as an agent would have them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use calico_core::calc::Graph;
use calico_core::calc::event::EndpointId;
use calico_core::flow::Flow;
use calico_core::net::{Cidr, Port, PortRange, Protocol};
use calico_core::resource::{
    Action, EntityRule, GlobalNetworkPolicySpec, Kind, Metadata, NetworkSetSpec, Object, PolicyType, Resource,
    ResourceKey, Rule, WorkloadEndpointSpec,
};
use calico_core::update::Update;
use calico_core::verdict::{Compiled, Node, Service};

/// Rules of each policy.
const RULES: u32 = 68;
/// Groups of addresses, each of which is a network set. Half of them are clients, half are others.
const GROUPS: u32 = 128;
/// Members of each. With those that have all clients and all others, the sets have 256 000 members.
const MEMBERS: u32 = 1000;
/// The port that the last rule of all allows.
const PORT: u16 = 5432;

/// One endpoint with many policies.
pub(super) struct Single {
    pub(super) compiled: Compiled,
    pub(super) endpoint: EndpointId,
}

impl Single {
    /// All of these policies apply to the endpoint. Of the rules, one in four wants a set of clients at another port, one the port from a set of
    /// others, one the port in a range from another prefix, one all clients by another protocol; the last rule of the last
    /// policy allows all clients.
    pub(super) fn new(policies: u32) -> Self {
        let mut updates: Vec<Update> = (0..GROUPS).map(network_set).collect();
        for number in 0..policies {
            let mut rules: Vec<Rule> = (0..RULES).map(|rule| near_miss(number, rule)).collect();
            if let Some(last) = rules.last_mut().filter(|_| number + 1 == policies) {
                *last = rule(Protocol::TCP, from("has(client)"), PORT, PORT);
            }
            updates.push(policy(number, PolicyType::Ingress, rules));
        }
        let (key, update) = endpoint(0, 0);
        updates.push(update);
        Self { compiled: compile(&updates), endpoint: EndpointId(key) }
    }

    /// From ever another client.
    pub(super) fn flow(number: u32) -> Flow {
        Flow {
            source: member(number % (GROUPS / 2) * 2, number / GROUPS % MEMBERS).into(),
            destination: workload(0).into(),
            protocol: 6,
            source_port: 40_000,
            destination_port: PORT,
            icmp: None,
        }
    }
}

/// Many endpoints with many policies.
pub(super) struct Many {
    pub(super) compiled: Compiled,
    pub(super) nodes: Vec<Node>,
    pub(super) services: Vec<Service>,
}

impl Many {
    /// Endpoints of 50 kinds. All policies apply to all of them, half of the rules in each direction, and 256 000 other addresses are in
    /// their sets. The last policy allows some kinds to reach others.
    pub(super) fn new(endpoints: u32, policies: u32) -> Self {
        let mut updates: Vec<Update> = (0..GROUPS).map(network_set).collect();
        for number in 0..policies {
            let is_last = number + 1 == policies;
            let rules = |direction| -> Vec<Rule> {
                (0..RULES / 2).map(|rule| between_kinds(number * RULES + rule, direction, is_last)).collect()
            };
            updates.push(both_ways(number, rules(PolicyType::Ingress), rules(PolicyType::Egress)));
        }
        updates.extend((0..endpoints).map(|number| endpoint(number, number % KINDS).1));
        let compiled = compile(&updates);
        let service =
            |protocol, destination_port| Service { protocol, source_port: 40_000, destination_port, icmp: None };
        let services = vec![service(6, 80), service(6, PORT), service(17, 53)];
        Self { nodes: compiled.nodes(), compiled, services }
    }
}

/// Kinds of endpoints.
const KINDS: u32 = 50;

fn compile(updates: &[Update]) -> Compiled {
    let (mut graph, mut compiled) = (Graph::of_cluster(), Compiled::default());
    updates.iter().for_each(|update| graph.handle_update(update));
    graph.flush().iter().for_each(|event| compiled.apply(event));
    compiled
}

fn near_miss(policy: u32, number: u32) -> Rule {
    let group = (policy * RULES + number / 4) % (GROUPS / 2) * 2;
    let other = 8000 + u16::try_from(number).unwrap_or(0);
    match number % 4 {
        0 => rule(Protocol::TCP, from_group(group), other, other),
        1 if number % 8 == 1 => rule(Protocol::TCP, from_group(group + 1), PORT, PORT),
        1 => rule(Protocol::TCP, from("has(other)"), PORT, PORT),
        2 => {
            let net = Cidr::new(Ipv4Addr::new(172, 16, 0, 0).into(), 12);
            let source = EntityRule { nets: net.into_iter().collect(), ..EntityRule::default() };
            rule(Protocol::TCP, source, PORT - 100, PORT + 100)
        }
        _ => rule(Protocol::UDP, from("has(client)"), PORT, PORT),
    }
}

/// Between kinds of endpoints, or from and to other addresses. Only rules of the last policy allow what the matrix asks for.
fn between_kinds(number: u32, direction: PolicyType, allows: bool) -> Rule {
    let kind = from(&format!("kind == 'k{}'", number % KINDS));
    let (protocol, port) = match number % 3 {
        0 => (Protocol::TCP, 80),
        1 => (Protocol::TCP, PORT),
        _ => (Protocol::UDP, 53),
    };
    let (peer, port) = match number % 4 {
        _ if allows => (kind, port),
        0 => (kind, port + 1),
        _ => (from_group(number % GROUPS), port),
    };
    let mut rule = rule(protocol, peer, port, port);
    if direction == PolicyType::Egress {
        let ports = std::mem::take(&mut rule.destination.ports);
        std::mem::swap(&mut rule.source, &mut rule.destination);
        rule.destination.ports = ports;
    }
    rule
}

fn from_group(group: u32) -> EntityRule {
    from(&format!("group == 'g{group}'"))
}

fn from(selector: &str) -> EntityRule {
    EntityRule { selector: selector.into(), ..EntityRule::default() }
}

fn rule(protocol: Protocol, source: EntityRule, first: u16, last: u16) -> Rule {
    let ports = PortRange::new(first, last).map(Port::Range).into_iter().collect();
    let destination = EntityRule { ports, ..EntityRule::default() };
    Rule { action: Action::Allow, protocol: Some(protocol), source, destination, ..Rule::default() }
}

fn policy(number: u32, direction: PolicyType, rules: Vec<Rule>) -> Update {
    match direction {
        PolicyType::Ingress => both_ways(number, rules, Vec::new()),
        PolicyType::Egress => both_ways(number, Vec::new(), rules),
    }
}

fn both_ways(number: u32, ingress: Vec<Rule>, egress: Vec<Rule>) -> Update {
    let spec = GlobalNetworkPolicySpec {
        order: Some(number.into()),
        selector: "has(kind)".into(),
        ingress,
        egress,
        ..GlobalNetworkPolicySpec::default()
    };
    let metadata = Metadata { name: format!("policy-{number}"), ..Metadata::default() };
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, &metadata.name);
    Update { key, value: Some(Arc::new(Resource::GlobalNetworkPolicy(Object { metadata, spec }))) }
}

fn network_set(group: u32) -> Update {
    let nets = (0..MEMBERS).map(|number| Cidr::host(IpAddr::from(member(group, number)))).collect();
    let role = if group.is_multiple_of(2) { "client" } else { "other" };
    let labels =
        [("group".into(), format!("g{group}").as_str().into()), (role.into(), "".into())].into_iter().collect();
    let metadata = Metadata { name: format!("g{group}"), labels, ..Metadata::default() };
    let key = ResourceKey::cluster(Kind::GlobalNetworkSet, &metadata.name);
    let spec = NetworkSetSpec { nets, ..NetworkSetSpec::default() };
    Update { key, value: Some(Arc::new(Resource::GlobalNetworkSet(Object { metadata, spec }))) }
}

fn endpoint(number: u32, kind: u32) -> (ResourceKey, Update) {
    let labels = [("kind".into(), format!("k{kind}").as_str().into())].into_iter().collect();
    let metadata =
        Metadata { name: format!("w{number}"), namespace: Some("default".into()), labels, ..Metadata::default() };
    let spec = WorkloadEndpointSpec {
        node: "bench".into(),
        interface_name: format!("cali{number}").parse().ok(),
        ip_networks: vec![Cidr::host(IpAddr::from(workload(number)))],
        ..WorkloadEndpointSpec::default()
    };
    let key = ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &metadata.name);
    let value = Some(Arc::new(Resource::WorkloadEndpoint(Object { metadata, spec })));
    (key.clone(), Update { key, value })
}

fn workload(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 0, 0)) + number)
}

fn member(group: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 128, 0, 0)) + group * 1024 + number)
}
