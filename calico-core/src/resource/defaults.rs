//! What the client fills in before it writes, as upstream's clientv3 does on create and update.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{
    Action, DefaultAction, Fault, FelixConfigurationSpec, GoDuration, Kind, Metadata, Object, PolicyType, ProfileSpec,
    Resource, Rule, StagedAction, Tier, TierSpec, WorkloadEndpointName,
};
use crate::text::{Text, TextMap};

/// The tier of a policy that names none.
pub const DEFAULT_TIER: &str = "default";
/// The profile that allows everything and exists without being stored.
pub const DEFAULT_ALLOW_PROFILE: &str = "projectcalico-default-allow";
/// Label with a policy's tier, so that lists can be filtered by it.
pub const TIER_LABEL: &str = "projectcalico.org/tier";
/// Label with a workload endpoint's namespace.
pub const NAMESPACE_LABEL: &str = "projectcalico.org/namespace";
/// Label with a workload endpoint's orchestrator.
pub const ORCHESTRATOR_LABEL: &str = "projectcalico.org/orchestrator";

/// The name of an object of which there is one.
pub const SINGLE_NAME: &str = "default";

/// Port of the controllers' figures.
const PROMETHEUS_PORT: i64 = 9094;
/// How long an address must look leaked before the controllers release it: 15 minutes.
const LEAK_GRACE_PERIOD: GoDuration = GoDuration::from_nanos(15 * 60 * 1_000_000_000);

/// Order of a tier that gives none.
const DEFAULT_TIER_ORDER: f64 = 1_000_000.0;

/// The tiers that upstream creates in every cluster, with the order and the action that they must keep.
pub(super) const FIXED_TIERS: [(&str, f64, DefaultAction); 3] = [
    (DEFAULT_TIER, DEFAULT_TIER_ORDER, DefaultAction::Deny),
    ("kube-admin", 1_000.0, DefaultAction::Pass),
    ("kube-baseline", 10_000_000.0, DefaultAction::Pass),
];

impl Resource {
    /// Fills what upstream's client fills on create and update: a policy's tier, types and tier label, a pool's block size and node
    /// selector, a tier's order and action, a workload endpoint's name and labels, some settings of the agent and of the controllers.
    /// Filling twice changes nothing more.
    ///
    /// # Errors
    /// A workload endpoint whose name cannot be computed, or is not what its specification gives.
    pub fn fill_defaults(&mut self) -> Result<(), Fault> {
        self.fill_schema_defaults();
        match self {
            Self::NetworkPolicy(policy) => {
                let spec = &mut policy.spec;
                fill_policy(&mut policy.metadata, &mut spec.tier, &mut spec.types, &spec.ingress, &spec.egress);
            }
            Self::GlobalNetworkPolicy(policy) => {
                let spec = &mut policy.spec;
                fill_policy(&mut policy.metadata, &mut spec.tier, &mut spec.types, &spec.ingress, &spec.egress);
            }
            Self::StagedNetworkPolicy(policy) => {
                let spec = &mut policy.spec.policy;
                fill_policy(&mut policy.metadata, &mut spec.tier, &mut spec.types, &spec.ingress, &spec.egress);
                if *policy.spec.staged_action.get_or_insert(StagedAction::Set) == StagedAction::Delete {
                    spec.types.clear();
                }
            }
            Self::StagedGlobalNetworkPolicy(policy) => {
                let spec = &mut policy.spec.policy;
                fill_policy(&mut policy.metadata, &mut spec.tier, &mut spec.types, &spec.ingress, &spec.egress);
                if *policy.spec.staged_action.get_or_insert(StagedAction::Set) == StagedAction::Delete {
                    spec.types.clear();
                }
            }
            Self::Tier(tier) => {
                let fixed = FIXED_TIERS.into_iter().find(|(name, ..)| *name == tier.metadata.name);
                let (_, order, action) = fixed.unwrap_or((DEFAULT_TIER, DEFAULT_TIER_ORDER, DefaultAction::Deny));
                tier.spec.order.get_or_insert(order);
                tier.spec.default_action.get_or_insert(action);
            }
            Self::IpPool(pool) => {
                pool.spec.block_size = Some(pool.spec.block_length());
                let selector = pool.spec.node_selector.take().filter(|selector| !selector.is_empty());
                pool.spec.node_selector = Some(selector.unwrap_or_else(|| "all()".to_string()));
            }
            Self::WorkloadEndpoint(endpoint) => {
                let name = WorkloadEndpointName::of(&endpoint.spec)
                    .map_err(|error| Fault::value("metadata.name", Some(endpoint.metadata.name.clone()), error))?;
                let name = name.to_string();
                let metadata = &mut endpoint.metadata;
                if !metadata.name.is_empty() && metadata.name != name {
                    let reason = alloc::format!("the specification gives the name {name}");
                    return Err(Fault::value("metadata.name", Some(metadata.name.clone()), reason));
                }
                metadata.name = name;
                let namespace = metadata.namespace.as_deref().unwrap_or_default().into();
                metadata.labels.insert(NAMESPACE_LABEL.into(), namespace);
                metadata.labels.insert(ORCHESTRATOR_LABEL.into(), endpoint.spec.orchestrator.clone());
            }
            Self::FelixConfiguration(object) => fill_felix(&mut object.spec),
            Self::KubeControllersConfiguration(object) => {
                object.spec.prometheus_metrics_port.get_or_insert(PROMETHEUS_PORT);
                if let Some(node) = object.spec.controllers.as_mut().and_then(|controllers| controllers.node.as_mut()) {
                    node.leak_grace_period.get_or_insert(LEAK_GRACE_PERIOD);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The defaults that the schema gives. The object is read anew from its typed view, which knows nothing of what was not understood
    /// of a rule: kinds with rules have no defaults in the schema, and get theirs by hand.
    fn fill_schema_defaults(&mut self) {
        let shape = self.kind().shape();
        if !shape.has_defaults() {
            return;
        }
        let mut document = self.typed_document();
        shape.fill(&mut document);
        if let Ok(filled) = Self::read(self.kind(), &document) {
            *self = filled;
        }
    }

    /// The profile `projectcalico-default-allow`: every store has it, none stores it.
    pub fn default_allow_profile() -> Self {
        let allow = || vec![Rule { action: Action::Allow, ..Rule::default() }];
        let spec = ProfileSpec { ingress: allow(), egress: allow(), labels_to_apply: TextMap::new() };
        Self::Profile(Object::named(DEFAULT_ALLOW_PROFILE, spec))
    }

    /// Fills what upstream's client fills on reading: the tier label of a policy that was stored without it, by somebody who did not fill
    /// defaults. (Upstream says `default` even of a policy in another tier, against which its own filters by that label do not help.)
    pub fn fill_shown(&mut self) {
        let Some(tier) = self.tier().map(Text::from) else { return };
        if let Some(metadata) = self.metadata_mut()
            && !metadata.labels.contains_key(TIER_LABEL)
        {
            metadata.labels.insert(TIER_LABEL.into(), tier);
        }
    }

    /// The tier whose existence a policy needs.
    pub fn tier(&self) -> Option<&str> {
        let tier = match self {
            Self::NetworkPolicy(policy) => policy.spec.tier.as_str(),
            Self::GlobalNetworkPolicy(policy) => policy.spec.tier.as_str(),
            Self::StagedNetworkPolicy(policy) => policy.spec.policy.tier.as_str(),
            Self::StagedGlobalNetworkPolicy(policy) => policy.spec.policy.tier.as_str(),
            _ => return None,
        };
        Some(if tier.is_empty() { DEFAULT_TIER } else { tier })
    }

    /// The tiers that upstream creates in every cluster.
    pub fn initial_tiers() -> Vec<Self> {
        let tier = |(name, order, action): (&str, f64, DefaultAction)| {
            Self::Tier(Tier::named(name, TierSpec { order: Some(order), default_action: Some(action) }))
        };
        FIXED_TIERS.into_iter().map(tier).collect()
    }
}

/// Who sets the older flag means both fields that came after it.
fn fill_felix(spec: &mut FelixConfigurationSpec) {
    let or = |field: &mut String, default: &str| {
        if field.is_empty() {
            *field = default.into();
        }
    };
    or(&mut spec.floating_ips, "Disabled");
    or(&mut spec.bpf_connect_time_load_balancing, "TCP");
    or(&mut spec.bpf_host_networked_nat_without_ctlb, "Enabled");
    if let Some(enabled) = spec.bpf_connect_time_load_balancing_enabled {
        spec.bpf_connect_time_load_balancing = if enabled { "Enabled" } else { "Disabled" }.into();
        spec.bpf_host_networked_nat_without_ctlb = "Disabled".into();
    }
}

fn fill_policy(
    metadata: &mut Metadata,
    tier: &mut String,
    types: &mut Vec<PolicyType>,
    ingress: &[Rule],
    egress: &[Rule],
) {
    if tier.is_empty() {
        *tier = DEFAULT_TIER.into();
    }
    if types.is_empty() {
        *types = implied_types(ingress, egress);
    }
    metadata.labels.insert(TIER_LABEL.into(), tier.as_str().into());
}

/// Directions of a policy that names none: those it has rules for, and ingress if it has no rules at all.
pub fn implied_types(ingress: &[Rule], egress: &[Rule]) -> Vec<PolicyType> {
    match (ingress, egress) {
        (_, []) => vec![PolicyType::Ingress],
        ([], _) => vec![PolicyType::Egress],
        _ => vec![PolicyType::Ingress, PolicyType::Egress],
    }
}

impl Kind {
    /// Whether every cluster has the object of that name, stored, as it must stay.
    pub fn is_fixed(self, name: &str) -> bool {
        self == Self::Tier && FIXED_TIERS.iter().any(|(fixed, ..)| *fixed == name)
    }

    /// Whether there is one object of the kind, called [`SINGLE_NAME`].
    pub const fn is_single(self) -> bool {
        matches!(self, Self::ClusterInformation | Self::IpamConfiguration | Self::KubeControllersConfiguration)
    }

    /// What is wrong with the name of an object of which there is only one.
    pub fn misnamed(self, name: &str) -> Option<Fault> {
        let reason = || alloc::format!("the only {self} is called {SINGLE_NAME}");
        (self.is_single() && name != SINGLE_NAME)
            .then(|| Fault::value("metadata.name", Some(name.to_string()), reason()))
    }

    /// Whether the object of that name exists without being stored and cannot be written.
    pub fn is_built_in(self, name: &str) -> bool {
        self == Self::Profile && name == DEFAULT_ALLOW_PROFILE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn filled(kind: Kind, metadata: Value, spec: Value) -> Result<Value, Fault> {
        let mut resource = Resource::decode(kind, &json!({"metadata": metadata, "spec": spec})).unwrap();
        resource.fill_defaults()?;
        let once = resource.clone();
        resource.fill_defaults()?;
        assert_eq!(resource, once, "filling is idempotent");
        Ok(resource.document())
    }

    #[test]
    fn policies_get_tier_types_and_label() {
        let rule = json!([{"action": "Allow"}]);
        for (spec, types) in [
            (json!({}), json!(["Ingress"])),
            (json!({"ingress": rule}), json!(["Ingress"])),
            (json!({"egress": rule}), json!(["Egress"])),
            (json!({"ingress": rule, "egress": rule}), json!(["Ingress", "Egress"])),
            (json!({"ingress": rule, "types": ["Egress"]}), json!(["Egress"])),
        ] {
            let document = filled(Kind::NetworkPolicy, json!({"name": "p", "namespace": "n"}), spec).unwrap();
            assert_eq!(document["spec"]["types"], types);
            assert_eq!(document["spec"]["tier"], "default");
            assert_eq!(document["metadata"]["labels"][TIER_LABEL], "default");
        }
    }

    /// What is not understood of a rule makes it allow nothing, and must not be forgotten on the way.
    #[test]
    fn what_is_not_understood_of_a_rule_stays() {
        for kind in [Kind::NetworkPolicy, Kind::GlobalNetworkPolicy] {
            let document = json!({"metadata": {"name": "p", "namespace": "n"},
                                  "spec": {"ingress": [{"action": "Allow", "newer": true}]}});
            let mut resource = Resource::decode(kind, &document).unwrap();
            resource.fill_defaults().unwrap();
            let ingress = match &resource {
                Resource::NetworkPolicy(policy) => &policy.spec.ingress,
                Resource::GlobalNetworkPolicy(policy) => &policy.spec.ingress,
                _ => unreachable!(),
            };
            assert!(ingress[0].unread.is_some(), "{kind}");
        }
    }

    #[test]
    fn pools_and_tiers_get_their_numbers() {
        let pool = filled(Kind::IpPool, json!({"name": "p"}), json!({"cidr": "fd00::1/64"})).unwrap();
        assert_eq!(pool["spec"]["blockSize"], 122);
        assert_eq!(pool["spec"]["cidr"], "fd00::/64");
        assert_eq!(pool["spec"]["nodeSelector"], "all()");
        assert_eq!(pool["spec"]["allowedUses"], json!(["Workload", "Tunnel"]));
        let pool =
            filled(Kind::IpPool, json!({"name": "p"}), json!({"cidr": "10.0.0.0/16", "allowedUses": []})).unwrap();
        assert_eq!(pool["spec"]["allowedUses"], json!(["Workload", "Tunnel"]));
        let pool = filled(Kind::IpPool, json!({"name": "p"}), json!({"cidr": "10.0.0.0/16", "blockSize": 0})).unwrap();
        assert_eq!(pool["spec"]["blockSize"], 26, "0 says the same as none");
        for (name, order, action) in [
            ("t", 1_000_000, "Deny"),
            ("default", 1_000_000, "Deny"),
            ("kube-admin", 1_000, "Pass"),
            ("kube-baseline", 10_000_000, "Pass"),
        ] {
            let tier = filled(Kind::Tier, json!({"name": name}), json!({})).unwrap();
            assert_eq!(tier["spec"], json!({"order": order, "defaultAction": action}), "{name}");
        }
    }

    #[test]
    fn staged_policies_get_what_policies_get_but_no_types_for_a_deletion() {
        for (kind, metadata) in [
            (Kind::StagedNetworkPolicy, json!({"name": "p", "namespace": "n"})),
            (Kind::StagedGlobalNetworkPolicy, json!({"name": "p"})),
        ] {
            let set = filled(kind, metadata.clone(), json!({"egress": [{"action": "Allow"}]})).unwrap();
            assert_eq!(set["spec"]["types"], json!(["Egress"]));
            assert_eq!((&set["spec"]["stagedAction"], &set["spec"]["tier"]), (&json!("Set"), &json!("default")));
            assert_eq!(set["metadata"]["labels"][TIER_LABEL], "default");
            let deleted = filled(kind, metadata, json!({"tier": "t", "stagedAction": "Delete", "types": ["Ingress"]}));
            assert_eq!(deleted.unwrap()["spec"], json!({"tier": "t", "stagedAction": "Delete"}));
        }
    }

    #[test]
    fn an_older_flag_of_the_agent_decides_what_came_after_it() {
        let settings = |spec: Value| {
            let spec = filled(Kind::FelixConfiguration, json!({"name": "default"}), spec).unwrap()["spec"].take();
            ["floatingIPs", "bpfConnectTimeLoadBalancing", "bpfHostNetworkedNATWithoutCTLB"]
                .map(|name| spec[name].as_str().unwrap().to_string())
        };
        assert_eq!(settings(json!({})), ["Disabled", "TCP", "Enabled"]);
        let given = json!({"floatingIPs": "Enabled", "bpfConnectTimeLoadBalancing": "Disabled",
                           "bpfHostNetworkedNATWithoutCTLB": "Disabled"});
        assert_eq!(settings(given), ["Enabled", "Disabled", "Disabled"]);
        assert_eq!(settings(json!({"bpfConnectTimeLoadBalancingEnabled": true})), ["Disabled", "Enabled", "Disabled"]);
        assert_eq!(
            settings(json!({"bpfConnectTimeLoadBalancingEnabled": false})),
            ["Disabled", "Disabled", "Disabled"]
        );
    }

    #[test]
    fn controllers_get_their_port_and_the_node_controller_its_patience() {
        let spec = |controllers: Value| {
            let spec = json!({"controllers": controllers});
            filled(Kind::KubeControllersConfiguration, json!({"name": "default"}), spec).unwrap()["spec"].take()
        };
        let with = spec(json!({"node": {}, "loadBalancer": {}}));
        assert_eq!(with["prometheusMetricsPort"], 9094);
        assert_eq!(with["controllers"]["node"]["leakGracePeriod"], "15m0s");
        assert_eq!(with["controllers"]["loadBalancer"]["assignIPs"], "AllServices");
        assert_eq!(spec(json!({}))["controllers"], json!({}));
    }

    #[test]
    fn workload_endpoints_get_name_and_labels() {
        let spec = json!({"node": "node-1", "orchestrator": "cni", "containerID": "abc", "endpoint": "eth0",
                          "interfaceName": "cali0"});
        let document = filled(Kind::WorkloadEndpoint, json!({"namespace": "default"}), spec.clone()).unwrap();
        assert_eq!(document["metadata"]["name"], "node--1-cni-abc-eth0");
        assert_eq!(document["metadata"]["labels"], json!({NAMESPACE_LABEL: "default", ORCHESTRATOR_LABEL: "cni"}));
        let fault = filled(Kind::WorkloadEndpoint, json!({"name": "other", "namespace": "default"}), spec).unwrap_err();
        assert_eq!(fault.path, "metadata.name");
        let spec = json!({"orchestrator": "cni", "interfaceName": "cali0"});
        assert!(filled(Kind::WorkloadEndpoint, json!({"namespace": "default"}), spec).is_err());
    }
}
