//! The objects that an attached workload has in the datastore.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Identity, Orchestrator, Request};
use crate::net::{Cidr, Mac};
use crate::resource::{
    Action, EntityRule, Metadata, NAMESPACE_LABEL, ORCHESTRATOR_LABEL, Object, ProfileSpec, Rule, WorkloadEndpointSpec,
};
use crate::text::{Text, TextMap};

/// The workload endpoint of an attachment. Its profile is the network's name, as upstream's where no API server is asked
/// (`policy.type` empty); its labels are those that the runtime hands over.
pub fn workload_endpoint(
    identity: &Identity,
    request: &Request,
    addresses: Vec<Cidr>,
    mac: Mac,
) -> Object<WorkloadEndpointSpec> {
    let pod = match &identity.orchestrator {
        Orchestrator::Kubernetes { pod } => pod.as_str().into(),
        Orchestrator::Cni => Text::default(),
    };
    let orchestrator = Text::from(identity.orchestrator.as_str());
    let mut labels: TextMap =
        request.conf.labels().map(|(key, value)| (label_text(key).into(), label_text(value).into())).collect();
    labels.retain(|key, _| !key.is_empty() && *key != label_text(NAMESPACE_LABEL));
    labels.insert(NAMESPACE_LABEL.into(), identity.namespace.as_str().into());
    labels.insert(ORCHESTRATOR_LABEL.into(), orchestrator.clone());
    Object {
        metadata: Metadata {
            name: identity.endpoint_name.to_string(),
            namespace: Some(identity.namespace.clone()),
            labels,
            ..Metadata::default()
        },
        spec: WorkloadEndpointSpec {
            orchestrator,
            node: identity.node.as_ref().into(),
            container_id: identity.container_id.as_str().into(),
            pod,
            endpoint: identity.interface.as_str().into(),
            ip_networks: addresses,
            profiles: vec![request.conf.name.as_str().into()],
            interface_name: Some(identity.host_interface),
            mac: Some(mac),
            ..WorkloadEndpointSpec::default()
        },
    }
}

/// The endpoint of a container that is attached anew, over the one that it has. What an attachment decides, and the labels that the runtime
/// hands over, are those of `fresh`; all else is the stored one's. It belongs to whoever put it there: a policy may select the endpoint
/// by a label of an operator's, and must go on selecting it.
pub fn renewed_endpoint(
    stored: &Object<WorkloadEndpointSpec>,
    fresh: Object<WorkloadEndpointSpec>,
) -> Object<WorkloadEndpointSpec> {
    let mut endpoint = stored.clone();
    endpoint.metadata.labels.extend(fresh.metadata.labels);
    let attached = fresh.spec;
    endpoint.spec = WorkloadEndpointSpec {
        node: attached.node,
        container_id: attached.container_id,
        endpoint: attached.endpoint,
        interface_name: attached.interface_name,
        ip_networks: attached.ip_networks,
        mac: attached.mac,
        ..endpoint.spec
    };
    endpoint
}

/// The profile of a network, which the plugin creates where it is missing and never changes: everything may go out; in may come
/// everything (pods), or what is in the same network. Endpoints get the label that says so.
pub fn network_profile(network: &str, orchestrator: &Orchestrator) -> Object<ProfileSpec> {
    let source = match orchestrator {
        Orchestrator::Kubernetes { .. } => EntityRule::default(),
        Orchestrator::Cni => EntityRule { selector: alloc::format!("has({network})"), ..EntityRule::default() },
    };
    Object {
        metadata: Metadata { name: network.into(), ..Metadata::default() },
        spec: ProfileSpec {
            ingress: vec![Rule { action: Action::Allow, source, ..Rule::default() }],
            egress: vec![Rule { action: Action::Allow, ..Rule::default() }],
            labels_to_apply: [(network.into(), Text::default())].into(),
        },
    }
}

/// Free text as a label key or value, as upstream turns Mesos' labels: `/` is `.`; other characters outside the label grammar become
/// `-`, one for each run; dots and dashes that touch a dot become one dot; none stays at either end.
fn label_text(text: &str) -> String {
    let mut runs = String::new();
    let mut in_run = false;
    for c in text.chars().map(|c| if c == '/' { '.' } else { c }) {
        let good = c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if good {
            runs.push(c);
        } else if !in_run {
            runs.push('-');
        }
        in_run = !good;
    }
    let mut label = String::new();
    let mut rest = runs.as_str();
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !matches!(c, '.' | '-')).unwrap_or(rest.len());
        let (seam, after) = rest.split_at(length);
        if seam.contains('.') {
            label.push('.');
            rest = after;
        } else if seam.is_empty() {
            label.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        } else {
            label.push_str(seam);
            rest = after;
        }
    }
    label.trim_matches(['.', '-']).to_string()
}

#[cfg(test)]
mod tests {
    use super::label_text;

    #[test]
    fn free_text_becomes_a_label() {
        let cases = [
            ("k", "k"),
            ("-a-b", "a-b"),
            ("?a..b", "a.b"),
            ("//a/b/", "a.b"),
            ("one_two-three.four*five^^six#7", "one_two-three.four-five-six-7"),
            ("a-.-b--c", "a.b--c"),
            ("...", ""),
            ("ünï", "n"),
        ];
        for (text, label) in cases {
            assert_eq!(label_text(text), label, "{text:?}");
        }
    }
}
