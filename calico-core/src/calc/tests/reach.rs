//! From an object back to the endpoints that it has a say about.

use super::*;

impl Rig {
    /// The way back from an object leads to the endpoints whose stacks have it. A policy before DNAT about what goes out has a say, although
    /// it is in no stack.
    pub(super) fn check_reach(&self) {
        let absent = [ResourceKey::cluster(Kind::Tier, "absent"), ResourceKey::cluster(Kind::Profile, "absent")];
        let named = referenced_profiles(&self.state).into_iter().map(|id| ResourceKey::cluster(Kind::Profile, &id.0));
        let is_idle = |key: &ResourceKey| self.inputs.objects.get(key).is_some_and(|object| stands_nowhere(object));
        let any_is_idle = self.inputs.objects.keys().any(is_idle);
        for (key, object) in &self.inputs.objects {
            if let Resource::NetworkSet(set) | Resource::GlobalNetworkSet(set) = &**object {
                let found = self.graph.endpoints_under(key);
                assert!(any_is_idle || found.iter().all(|endpoint| self.may_select(endpoint, &set.spec.nets)), "{key}");
            }
        }
        let selects_none = |key: &ResourceKey| !matches!(key.kind(), Kind::NetworkSet | Kind::GlobalNetworkSet);
        for key in self.inputs.objects.keys().cloned().chain(absent).chain(named).filter(selects_none) {
            let found: BTreeSet<_> = self.graph.endpoints_under(&key).into_iter().cloned().collect();
            let expected = self.expected_reach(&key);
            let more = is_idle(&key) || key.kind() == Kind::Tier && any_is_idle;
            let holds = if more { expected.is_subset(&found) } else { expected == found };
            assert!(holds, "{key}: {found:?}, expected {expected:?}");
        }
    }

    /// Whether a policy or profile of an endpoint looks into a set that covers these.
    fn may_select(&self, endpoint: &ResourceKey, nets: &[crate::net::Cidr]) -> bool {
        let id = EndpointId(endpoint.clone());
        let workload = self.state.endpoints.get(&id).into_iter().flat_map(|one| [&one.ingress, &one.egress]);
        let host = self.state.host_endpoints.get(&id).into_iter().flat_map(|one| host_stacks(one));
        let stacks: Vec<_> = workload.chain(host).collect();
        let policies = stacks.iter().flat_map(|stack| &stack.tiers).flat_map(|tier| &tier.policies);
        let policies = policies.filter_map(|id| self.state.policies.get(id));
        let profiles = stacks.iter().flat_map(|stack| &stack.profiles).filter_map(|id| self.state.profiles.get(id));
        let covered = |net: &crate::net::Cidr, members: &BTreeSet<Member>| {
            // The whole of a family is in a set by halves.
            let covers =
                |member: &Member| matches!(member, Member::Net(other) if other.covers(net) || net.length() == 0);
            members.iter().any(covers)
        };
        let mut sets =
            policies.chain(profiles).flat_map(|rules| sets_of(rules)).filter_map(|id| self.state.sets.get(&id));
        sets.any(|(_, members)| nets.iter().all(|net| covered(net, members)))
    }

    fn expected_reach(&self, key: &ResourceKey) -> BTreeSet<ResourceKey> {
        let has = |id: &EndpointId, stacks: &[&Arc<Stack>]| id.0 == *key || stacks.iter().any(|one| stands(one, key));
        let workloads = self.state.endpoints.iter().filter(|(id, one)| has(id, &[&one.ingress, &one.egress]));
        let hosts = self.state.host_endpoints.iter();
        let hosts = hosts.filter(|(id, one)| has(id, &host_stacks(one).collect::<Vec<_>>()));
        workloads.map(|(id, _)| id).chain(hosts.map(|(id, _)| id)).map(|id| id.0.clone()).collect()
    }
}

/// Whether a policy, tier or profile is in a stack.
fn stands(stack: &Stack, key: &ResourceKey) -> bool {
    let name = key.name().unwrap_or_default();
    match key.kind() {
        Kind::Profile => stack.profiles.iter().any(|profile| *profile.0 == *name),
        Kind::Tier => stack.tiers.iter().any(|tier| *tier.name == *name),
        _ => stack.tiers.iter().flat_map(|tier| &tier.policies).any(|policy| policy.0 == *key),
    }
}

/// From a network set to those whose policies or profiles select it, by whatever it is selected.
#[test]
fn a_network_set_concerns_those_whose_rules_select_it() {
    let mut rig = Rig::new();
    let mut put = |kind: Kind, name: &str, document: serde_json::Value| {
        let namespaced = matches!(kind.scope(), crate::resource::Scope::Namespaced);
        let mut document = document;
        document["metadata"]["name"] = name.into();
        let key = match namespaced {
            true => ResourceKey::namespaced(kind, "one", name),
            false => ResourceKey::cluster(kind, name),
        };
        let value = Resource::decode(kind, &document).unwrap();
        rig.update(Update { key, value: Some(Arc::new(value)) });
    };
    let pod = |address: &str, role: &str, profile: &str| {
        serde_json::json!({"metadata": {"labels": {"role": role}}, "spec": {"node": HOST, "interfaceName": format!("cali{role}"),
            "ipNetworks": [address], "profiles": [profile]}})
    };
    put(Kind::WorkloadEndpoint, "a", pod("10.0.0.1/32", "a", "plain"));
    put(Kind::WorkloadEndpoint, "b", pod("10.0.0.2/32", "b", "plain"));
    put(Kind::WorkloadEndpoint, "c", pod("10.0.0.3/32", "c", "choosy"));
    let source = |selector: &str| serde_json::json!([{"action": "Deny", "source": {"selector": selector}}]);
    put(Kind::Profile, "plain", serde_json::json!({}));
    put(Kind::Profile, "choosy", serde_json::json!({"spec": {"ingress": source("threat == 'high'")}}));
    let policy = serde_json::json!({"selector": "role == 'a'", "ingress": source("has(threat)")});
    put(Kind::GlobalNetworkPolicy, "no-threats", serde_json::json!({ "spec": policy }));
    let ports = serde_json::json!([{"action": "Deny", "protocol": "TCP", "source": {"selector": "has(threat)", "ports": ["web"]}}]);
    let policy = serde_json::json!({"selector": "role == 'b'", "ingress": ports});
    put(Kind::GlobalNetworkPolicy, "ports", serde_json::json!({ "spec": policy }));
    let set = |threat: &str| serde_json::json!({"metadata": {"labels": {"threat": threat}}, "spec": {"nets": ["192.0.2.0/24"]}});
    put(Kind::GlobalNetworkSet, "high", set("high"));
    put(Kind::NetworkSet, "low", set("low"));
    put(Kind::GlobalNetworkSet, "none", serde_json::json!({"spec": {"nets": ["192.0.2.0/24"]}}));
    rig.flush();
    let under = |key: ResourceKey| {
        let found = rig.graph.endpoints_under(&key);
        found.into_iter().filter_map(|key| key.name().map(String::from)).collect::<Vec<_>>()
    };
    assert_eq!(under(ResourceKey::cluster(Kind::GlobalNetworkSet, "high")), ["a", "c"]);
    assert_eq!(under(ResourceKey::namespaced(Kind::NetworkSet, "one", "low")), ["a"]);
    assert_eq!(under(ResourceKey::cluster(Kind::GlobalNetworkSet, "none")), Vec::<String>::new());
    assert_eq!(under(ResourceKey::cluster(Kind::GlobalNetworkSet, "absent")), Vec::<String>::new());
}
