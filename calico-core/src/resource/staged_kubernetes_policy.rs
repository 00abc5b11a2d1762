//! `StagedKubernetesNetworkPolicy`: a Kubernetes `NetworkPolicy` that is tried out (`networking.k8s.io/v1`).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::formats::STRICT_CIDR;
use super::limit::Limit;
use super::model::model;
use super::v1::enforced;
use super::{Fault, NetworkPolicySpec, PolicyType, StagedAction};

model! {
    /// Specification of a `StagedKubernetesNetworkPolicy`.
    pub struct StagedKubernetesNetworkPolicySpec: specification {
        /// What becomes of the policy of the same name.
        "stagedAction" staged_action: Option<StagedAction> = "Set";
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

impl StagedKubernetesNetworkPolicySpec {
    /// The policy that it would become, in Calico's words, and what of its rules cannot be said in them: those rules are left out, which
    /// allows less (upstream does the same to Kubernetes' own policies).
    pub fn enforced(&self) -> (NetworkPolicySpec, Vec<Fault>) {
        enforced(self)
    }
}

model! {
    /// Kubernetes' selector. All requirements must hold; without any, everything is selected.
    pub struct LabelSelector {
        /// Labels with exactly these values.
        "matchLabels" match_labels: BTreeMap<String, String>;
        /// Further requirements.
        "matchExpressions" match_expressions: Vec<LabelRequirement>;
    }
}

model! {
    /// One requirement.
    pub struct LabelRequirement {
        /// The label.
        "key" key: String, required;
        /// How its value is compared.
        "operator" operator: String, required where [Limit::OneOf(&["In", "NotIn", "Exists", "DoesNotExist"])];
        /// Values that it is compared with.
        "values" values: Vec<String>;
    }
}

model! {
    /// What may come in.
    pub struct KubernetesIngressRule {
        /// Ports that it may come to; none given means all.
        "ports" ports: Vec<KubernetesPolicyPort>;
        /// Where it may come from; none given means everywhere.
        "from" from: Vec<KubernetesPolicyPeer>;
    }
}

model! {
    /// What may go out.
    pub struct KubernetesEgressRule {
        /// Ports that it may go to; none given means all.
        "ports" ports: Vec<KubernetesPolicyPort>;
        /// Where it may go; none given means everywhere.
        "to" to: Vec<KubernetesPolicyPeer>;
    }
}

model! {
    /// Ports.
    pub struct KubernetesPolicyPort {
        /// TCP where it is absent.
        "protocol" protocol: Option<String> where [Limit::OneOf(&["TCP", "UDP", "SCTP"])];
        /// Number or name; all where it is absent.
        "port" port: Option<Value>;
        /// Last of a range that begins with `port`.
        "endPort" end_port: Option<i32> where [Limit::Range(1, 65_535)];
    }
}

model! {
    /// Pods, or addresses.
    pub struct KubernetesPolicyPeer {
        /// Pods with such labels.
        "podSelector" pod_selector: Option<LabelSelector>;
        /// Pods of namespaces with such labels.
        "namespaceSelector" namespace_selector: Option<LabelSelector>;
        /// Addresses.
        "ipBlock" ip_block: Option<IpBlock>;
    }
}

model! {
    /// A prefix without parts of it.
    pub struct IpBlock {
        /// The prefix.
        "cidr" cidr: String, required where [Limit::Text(&STRICT_CIDR)];
        /// What is left out.
        "except" except: Vec<String> where [Limit::Text(&STRICT_CIDR)];
    }
}
