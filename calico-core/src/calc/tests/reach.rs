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
        for key in self.inputs.objects.keys().cloned().chain(absent).chain(named) {
            let found: BTreeSet<_> = self.graph.endpoints_under(&key).into_iter().cloned().collect();
            let expected = self.expected_reach(&key);
            let more = is_idle(&key) || key.kind() == Kind::Tier && any_is_idle;
            let holds = if more { expected.is_subset(&found) } else { expected == found };
            assert!(holds, "{key}: {found:?}, expected {expected:?}");
        }
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
