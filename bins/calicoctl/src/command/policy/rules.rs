//! The rules of a resource, in Calico's words.

use calico_core::resource::v1::{RuleOrigins, convert_kubernetes_policy};
use calico_core::resource::{PolicyType, Resource, Rule};
use serde_json::json;

/// All rules of one direction, as far as a resource has such.
pub(super) fn rules(resource: &Resource, direction: PolicyType) -> Vec<Rule> {
    let (ingress, egress) = match resource {
        Resource::NetworkPolicy(object) => (&object.spec.ingress, &object.spec.egress),
        Resource::GlobalNetworkPolicy(object) => (&object.spec.ingress, &object.spec.egress),
        Resource::StagedNetworkPolicy(object) => (&object.spec.policy.ingress, &object.spec.policy.egress),
        Resource::StagedGlobalNetworkPolicy(object) => (&object.spec.policy.ingress, &object.spec.policy.egress),
        Resource::Profile(object) => (&object.spec.ingress, &object.spec.egress),
        Resource::StagedKubernetesNetworkPolicy(_) => return staged_kubernetes(resource, direction),
        _ => return Vec::new(),
    };
    match direction {
        PolicyType::Ingress => ingress.clone(),
        PolicyType::Egress => egress.clone(),
    }
}

/// Those of a staged policy of Kubernetes, in Calico's words.
fn staged_kubernetes(resource: &Resource, direction: PolicyType) -> Vec<Rule> {
    let found = of_kubernetes(resource).map(|(converted, _)| rules(&converted, direction));
    found.unwrap_or_default()
}

/// The policy that a staged one of Kubernetes would become, and where its rules come from.
pub(super) fn of_kubernetes(resource: &Resource) -> Option<(Resource, RuleOrigins)> {
    let mut spec = resource.document().get_mut("spec")?.take();
    spec.as_object_mut()?.shift_remove("stagedAction");
    let metadata = resource.metadata()?;
    let document = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": metadata.name, "namespace": metadata.namespace },
        "spec": spec,
    });
    convert_kubernetes_policy(&document).ok()
}
