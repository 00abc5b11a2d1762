//! Kubernetes' own policies (`networking.k8s.io/v1`).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

use serde_json::Value;

use super::super as v3;
use super::Older;
use crate::net::{Cidr, Port, PortRange, Protocol};
use crate::resource::limit::Limit;
use crate::resource::model::{Absent, Shaped, model};
use crate::resource::shape::Shape;
use crate::resource::{
    EntityRule, Fault, KubernetesEgressRule, KubernetesIngressRule, KubernetesPolicyPeer, KubernetesPolicyPort,
    LabelRequirement, LabelSelector, Metadata, ORCHESTRATOR_LABEL, PolicyType, Resource, Rule,
    StagedKubernetesNetworkPolicySpec, schema,
};

/// Where upstream puts all of Kubernetes' policies.
const ORDER: f64 = 1000.0;

model! {
    /// `NetworkPolicy` of Kubernetes.
    pub struct NetworkPolicy {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// Name and namespace, and what is not carried over.
        "metadata" metadata: Metadata, required;
        /// What is wanted.
        "spec" spec: NetworkPolicySpec;
        /// What Kubernetes found.
        "status" status: Option<Value>;
    }
}

model! {
    /// Specification of Kubernetes' `NetworkPolicy`.
    pub struct NetworkPolicySpec {
        /// Pods that it applies to; empty means all of the namespace.
        "podSelector" pod_selector: LabelSelector;
        /// What may come in.
        "ingress" ingress: Vec<KubernetesIngressRule>;
        /// What may go out.
        "egress" egress: Vec<KubernetesEgressRule>;
        /// Directions that it governs.
        "policyTypes" policy_types: Vec<PolicyType> where [Limit::Items(0, 2), Limit::Unique];
    }
}

impl Shaped for Metadata {
    const SHAPE: Shape = schema::METADATA;
}

impl Absent for Metadata {
    fn is_absent(&self) -> bool {
        false
    }
}

/// For each rule of the converted policy, the place in its list of Kubernetes' rule that it was made of: that makes one for each protocol
/// and peer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RuleOrigins {
    /// Of `spec.ingress`.
    pub ingress: Vec<usize>,
    /// Of `spec.egress`.
    pub egress: Vec<usize>,
}

/// The v3 policy that a policy of Kubernetes is, and where its rules come from.
///
/// # Errors
/// At least one fault of the document.
pub fn convert_kubernetes_policy(value: &Value) -> Result<(Resource, RuleOrigins), Vec<Fault>> {
    let policy: NetworkPolicy = super::document(value)?;
    policy.with_origins().map_err(|fault| vec![fault])
}

impl Older for NetworkPolicy {
    fn convert(self) -> Result<Resource, Fault> {
        self.with_origins().map(|(resource, _)| resource)
    }
}

impl NetworkPolicy {
    fn with_origins(self) -> Result<(Resource, RuleOrigins), Fault> {
        let NetworkPolicySpec { pod_selector, ingress, egress, policy_types } = &self.spec;
        let (spec, origins) = specification(pod_selector, ingress, egress, policy_types, Err)?;
        let Metadata { name, namespace, .. } = self.metadata;
        let metadata = Metadata { name, namespace, ..Metadata::default() };
        Ok((Resource::NetworkPolicy(v3::Object { metadata, spec }), origins))
    }
}

/// What a staged policy of Kubernetes would become, with its rules that cannot be converted: those are left out, which allows less.
pub(in crate::resource) fn enforced(staged: &StagedKubernetesNetworkPolicySpec) -> (v3::NetworkPolicySpec, Vec<Fault>) {
    let StagedKubernetesNetworkPolicySpec { pod_selector, ingress, egress, policy_types, .. } = staged;
    let mut left_out = Vec::new();
    let note = |fault| {
        left_out.push(fault);
        Ok::<_, Infallible>(())
    };
    match specification(pod_selector, ingress, egress, policy_types, note) {
        Ok((spec, _)) => (spec, Fault::few(left_out)),
        Err(never) => match never {},
    }
}

/// The policy that says the same, and where its rules come from. A rule that cannot be converted is left out if `unusable` lets that pass.
fn specification<E>(
    pod_selector: &LabelSelector,
    ingress: &[KubernetesIngressRule],
    egress: &[KubernetesEgressRule],
    types: &[PolicyType],
    mut unusable: impl FnMut(Fault) -> Result<(), E>,
) -> Result<(v3::NetworkPolicySpec, RuleOrigins), E> {
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    let mut origins = RuleOrigins::default();
    for (index, rule) in ingress.iter().enumerate() {
        let place = format!("spec.ingress[{index}]");
        let side = |source, ports| Rule { source, destination: with_ports(ports), ..Rule::default() };
        match rules(&place, "from", &rule.from, &rule.ports, side) {
            Ok(rules) => incoming.extend(rules),
            Err(fault) => unusable(fault)?,
        }
        origins.ingress.resize(incoming.len(), index);
    }
    for (index, rule) in egress.iter().enumerate() {
        let place = format!("spec.egress[{index}]");
        let side = |to, ports| Rule { destination: EntityRule { ports, ..to }, ..Rule::default() };
        match rules(&place, "to", &rule.to, &rule.ports, side) {
            Ok(rules) => outgoing.extend(rules),
            Err(fault) => unusable(fault)?,
        }
        origins.egress.resize(outgoing.len(), index);
    }
    let mut types = types.to_vec();
    types.sort_unstable();
    if types.is_empty() {
        // What Kubernetes itself fills in.
        types.push(PolicyType::Ingress);
        types.extend((!egress.is_empty()).then_some(PolicyType::Egress));
    }
    let spec = v3::NetworkPolicySpec {
        order: Some(ORDER),
        selector: pods(Some(pod_selector)),
        ingress: incoming,
        egress: outgoing,
        types,
        ..v3::NetworkPolicySpec::default()
    };
    Ok((spec, origins))
}

fn with_ports(ports: Vec<Port>) -> EntityRule {
    EntityRule { ports, ..EntityRule::default() }
}

/// One rule for each protocol and peer. No peers means any, no ports all.
fn rules(
    place: &str,
    side: &str,
    peers: &[KubernetesPolicyPeer],
    ports: &[KubernetesPolicyPort],
    rule: impl Fn(EntityRule, Vec<Port>) -> Rule,
) -> Result<Vec<Rule>, Fault> {
    let mut entities = Vec::with_capacity(peers.len().max(1));
    for (index, peer) in peers.iter().enumerate() {
        entities.push(entity(peer, &format!("{place}.{side}[{index}]"))?);
    }
    if entities.is_empty() {
        entities.push(EntityRule::default());
    }
    let mut made = Vec::new();
    for (protocol, ports) in by_protocol(place, ports)? {
        for entity in &entities {
            made.push(Rule { protocol, ..rule(entity.clone(), ports.clone()) });
        }
    }
    Ok(made)
}

/// Ports of a protocol; no protocol means all traffic, and no ports all of the protocol's.
type Ports = (Option<Protocol>, Vec<Port>);

/// The ports of each protocol, by its name.
fn by_protocol(place: &str, ports: &[KubernetesPolicyPort]) -> Result<Vec<Ports>, Fault> {
    if ports.is_empty() {
        return Ok(vec![(None, Vec::new())]);
    }
    let mut found: BTreeMap<&str, Option<Vec<Port>>> = BTreeMap::new();
    for (index, port) in ports.iter().enumerate() {
        let named = found.entry(port.protocol.as_deref().unwrap_or("TCP")).or_insert_with(|| Some(Vec::new()));
        match (number(port, &format!("{place}.ports[{index}]"))?, named) {
            (None, all) => *all = None,
            (Some(port), Some(ports)) => ports.push(port),
            (Some(_), None) => {}
        }
    }
    let protocol = |(name, ports): (&str, Option<Vec<Port>>)| {
        let protocol =
            name.parse().map_err(|error| Fault::value(format!("{place}.ports"), Some(name.into()), error))?;
        Ok((Some(protocol), merged(ports.unwrap_or_default())))
    };
    found.into_iter().map(protocol).collect()
}

/// None for all ports.
fn number(port: &KubernetesPolicyPort, place: &str) -> Result<Option<Port>, Fault> {
    let text = match &port.port {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let text = port.end_port.map_or_else(|| text.clone(), |end| format!("{text}:{end}"));
    let fault = |error| Fault::value(format!("{place}.port"), Some(text.clone()), error);
    text.parse().map(Some).map_err(fault)
}

/// Names first, then as few ranges as cover the numbers.
fn merged(ports: Vec<Port>) -> Vec<Port> {
    let mut ranges: Vec<PortRange> = Vec::new();
    let mut merged = Vec::new();
    for port in ports {
        match port {
            Port::Range(range) => ranges.push(range),
            named @ Port::Named(_) => merged.push(named),
        }
    }
    ranges.sort_unstable();
    let mut joined: Vec<PortRange> = Vec::new();
    for range in ranges {
        let whole =
            joined.last().filter(|last| u32::from(PortRange::min(range)) <= u32::from(PortRange::max(**last)) + 1);
        match whole
            .and_then(|last| PortRange::new(PortRange::min(*last), PortRange::max(*last).max(PortRange::max(range))))
        {
            Some(whole) => {
                joined.pop();
                joined.push(whole);
            }
            None => joined.push(range),
        }
    }
    merged.extend(joined.into_iter().map(Port::Range));
    merged
}

fn entity(peer: &KubernetesPolicyPeer, place: &str) -> Result<EntityRule, Fault> {
    let Some(block) = &peer.ip_block else {
        return Ok(EntityRule {
            selector: pods(peer.pod_selector.as_ref()),
            namespace_selector: peer.namespace_selector.as_ref().map(namespaces).unwrap_or_default(),
            ..EntityRule::default()
        });
    };
    if peer.pod_selector.is_some() || peer.namespace_selector.is_some() {
        return Err(Fault::value(
            place,
            None,
            "ipBlock stands alone: give podSelector and namespaceSelector in an entry of their own",
        ));
    }
    let cidr = |text: &String| -> Result<Cidr, Fault> {
        text.parse().map_err(|error| Fault::value(format!("{place}.ipBlock"), Some(text.clone()), error))
    };
    Ok(EntityRule {
        nets: vec![cidr(&block.cidr)?],
        not_nets: block.except.iter().map(cidr).collect::<Result<_, _>>()?,
        ..EntityRule::default()
    })
}

/// Pods only: other endpoints have no such label.
fn pods(selector: Option<&LabelSelector>) -> String {
    let mut terms = vec![format!("{ORCHESTRATOR_LABEL} == 'k8s'")];
    terms.extend(selector.into_iter().flat_map(requirements));
    terms.join(" && ")
}

/// An empty selector means all namespaces; an empty text would mean the policy's own.
fn namespaces(selector: &LabelSelector) -> String {
    let terms: Vec<String> = requirements(selector).collect();
    if terms.is_empty() { "all()".to_string() } else { terms.join(" && ") }
}

fn requirements(selector: &LabelSelector) -> impl Iterator<Item = String> + '_ {
    let exact = selector.match_labels.iter().map(|(key, value)| format!("{key} == '{value}'"));
    exact.chain(selector.match_expressions.iter().map(requirement))
}

fn requirement(requirement: &LabelRequirement) -> String {
    let LabelRequirement { key, operator, values } = requirement;
    let values = values.join("', '");
    match operator.as_str() {
        "In" => format!("{key} in {{ '{values}' }}"),
        "NotIn" => format!("{key} not in {{ '{values}' }}"),
        "Exists" => format!("has({key})"),
        _ => format!("! has({key})"),
    }
}
