//! Kubernetes' policies as ours, written once more as the twin of the conversion: one rule for each peer and port, none merged.
//!
//! They only allow, so what cannot be read is left out.

use alloc::string::{String, ToString};
use alloc::vec;

use serde_json::Value;

use super::staged::renamed;
use super::*;
use crate::net::{Cidr, Port, Protocol};
use crate::resource::{
    EntityRule, KubernetesPolicyPeer, KubernetesPolicyPort, LabelRequirement, LabelSelector, NetworkPolicySpec,
    ORCHESTRATOR_LABEL, Rule, StagedKubernetesNetworkPolicySpec, StagedNetworkPolicySpec,
};
use crate::selector::Selector;
use crate::testing::{Generator, HOST};

/// The policy of the default tier that stands for one of Kubernetes. Without types it governs what Kubernetes says: ingress, and egress if
/// it has rules for that.
fn policy(spec: &StagedKubernetesNetworkPolicySpec) -> NetworkPolicySpec {
    let ports_of = |ports: Vec<Port>| EntityRule { ports, ..EntityRule::default() };
    let ingress = spec.ingress.iter().flat_map(|rule| alternatives(&rule.from, &rule.ports));
    let egress = spec.egress.iter().flat_map(|rule| alternatives(&rule.to, &rule.ports));
    let ingress = ingress.map(|(source, protocol, ports)| Rule {
        protocol,
        source,
        destination: ports_of(ports),
        ..Rule::default()
    });
    let egress = egress.map(|(peer, protocol, ports)| Rule {
        protocol,
        destination: EntityRule { ports, ..peer },
        ..Rule::default()
    });
    let implied =
        if spec.egress.is_empty() { vec![PolicyType::Ingress] } else { vec![PolicyType::Ingress, PolicyType::Egress] };
    NetworkPolicySpec {
        order: Some(1000.0),
        selector: pods(Some(&spec.pod_selector)),
        types: if spec.policy_types.is_empty() { implied } else { spec.policy_types.clone() },
        ingress: ingress.collect(),
        egress: egress.collect(),
        ..NetworkPolicySpec::default()
    }
}

type Alternative = (EntityRule, Option<Protocol>, Vec<Port>);

/// Each peer with each port; no peers means anybody, no ports anything.
fn alternatives(peers: &[KubernetesPolicyPeer], ports: &[KubernetesPolicyPort]) -> Vec<Alternative> {
    let anybody = peers.is_empty().then(EntityRule::default);
    let anything = ports.is_empty().then_some((None, Vec::new()));
    let peers: Vec<EntityRule> = peers.iter().filter_map(peer).chain(anybody).collect();
    let ports: Vec<_> = ports.iter().filter_map(port).chain(anything).collect();
    let with_ports = |peer: &EntityRule| {
        let peer = peer.clone();
        ports.iter().map(move |(protocol, ports)| (peer.clone(), *protocol, ports.clone())).collect::<Vec<_>>()
    };
    peers.iter().flat_map(with_ports).collect()
}

fn port(port: &KubernetesPolicyPort) -> Option<(Option<Protocol>, Vec<Port>)> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP").parse().ok()?;
    let first = match &port.port {
        None | Some(Value::Null) => return Some((Some(protocol), Vec::new())),
        Some(Value::String(name)) => name.clone(),
        Some(number) => number.to_string(),
    };
    let text = port.end_port.map_or_else(|| first.clone(), |last| [&*first, &last.to_string()].join(":"));
    Some((Some(protocol), vec![text.parse().ok()?]))
}

fn peer(peer: &KubernetesPolicyPeer) -> Option<EntityRule> {
    let selects = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
    match &peer.ip_block {
        None => selects.then(|| EntityRule {
            selector: pods(peer.pod_selector.as_ref()),
            namespace_selector: peer
                .namespace_selector
                .as_ref()
                .map_or_else(String::new, |one| text(&requirements(one))),
            ..EntityRule::default()
        }),
        Some(_) if selects => None,
        Some(block) => Some(EntityRule {
            nets: vec![block.cidr.parse().ok()?],
            not_nets: block.except.iter().map(|part| part.parse::<Cidr>().ok()).collect::<Option<_>>()?,
            ..EntityRule::default()
        }),
    }
}

/// Pods only: other endpoints have no such label.
fn pods(selector: Option<&LabelSelector>) -> String {
    let pod = Selector::equal(ORCHESTRATOR_LABEL, "k8s");
    text(&selector.map_or_else(|| pod.clone(), |selector| pod.and(&requirements(selector))))
}

fn text(selector: &Selector) -> String {
    selector.canonical().to_string()
}

fn requirements(selector: &LabelSelector) -> Selector {
    let exact = selector.match_labels.iter().map(|(key, value)| Selector::equal(key, value));
    let all: Vec<Selector> = exact.chain(selector.match_expressions.iter().map(requirement)).collect();
    all.iter().skip(1).fold(all.first().cloned().unwrap_or_else(Selector::all), |all, one| all.and(one))
}

fn requirement(requirement: &LabelRequirement) -> Selector {
    let LabelRequirement { key, operator, values } = requirement;
    let one_of = || Selector::any_of(key, values.iter().map(String::as_str));
    match operator.as_str() {
        "In" => one_of(),
        "NotIn" => one_of().negated(),
        "Exists" => Selector::has(key),
        _ => Selector::has(key).negated(),
    }
}

/// The conversion makes policies that decide as these.
#[test]
fn the_conversion_decides_as_its_twin() {
    let (mut policies, mut differ) = (0, 0);
    for seed in 0..150 {
        std::println!("seed {seed}");
        let mut generator = if seed % 2 == 0 { Generator::new(seed) } else { Generator::with_faults(seed) };
        let world = generator.world(80);
        let usable = world.objects.iter().filter(|(key, value)| key.kind() == value.kind());
        let objects: Vec<Resource> = usable.map(|(_, value)| renamed(value)).collect();
        let twins: Vec<Resource> = objects
            .iter()
            .map(|object| match object {
                Resource::StagedKubernetesNetworkPolicy(one) => {
                    let spec =
                        StagedNetworkPolicySpec { staged_action: one.spec.staged_action, policy: policy(&one.spec) };
                    policies += 1;
                    Resource::StagedNetworkPolicy(Object { metadata: one.metadata.clone(), spec }.into())
                }
                other => other.clone(),
            })
            .collect();
        let cluster = |objects: &[Resource]| {
            let all = Cluster::new(objects).with_interfaces(HOST, world.interfaces.clone());
            all.with_slices(world.slices.values().cloned())
        };
        let (without, with) = (cluster(&objects), cluster(&objects).with_staged_enforced());
        let twin = cluster(&twins).with_staged_enforced();
        for _ in 0..150 {
            let passage = generator.passage(&world);
            let decided = with.passage(HOST, &passage);
            assert_eq!(decided, twin.passage(HOST, &passage), "{passage:#?} in {objects:#?}");
            differ += usize::from(decided != without.passage(HOST, &passage));
        }
    }
    assert!(policies > 50 && differ > 200, "{policies} policies, {differ} decisions of staged ones");
}
