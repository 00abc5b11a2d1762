//! A policy as the graph sees it: what of it decides where it stands and whom it concerns.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::diagnostic::{Combination, Problem};
use super::scope;
use crate::resource::{
    DEFAULT_TIER, GlobalNetworkPolicySpec, NetworkPolicySpec, Object, PolicyType, Resource, ResourceKey, Rule,
    StagedAction, StagedNetworkPolicySpec, implied_types,
};
use crate::selector::Selector;

/// The hint that a policy is needed on every node, before the first endpoint that it selects.
const EVERY_NODE: &str = "AssumeNeededOnEveryNode";

/// A policy of any kind. Tens of thousands are inactive, so it is only a view. A staged one of Kubernetes is one of Calico's by now.
#[derive(Debug, Clone)]
pub(super) struct Policy(Arc<Resource>);

/// Where on a packet's way policies of an endpoint are asked. A workload has the normal stage only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// `doNotTrack`.
    Untracked,
    /// `preDNAT`.
    PreDnat,
    /// Neither.
    Normal,
    /// Those of the normal ones that say `applyOnForward`.
    Forward,
}

/// What is common to both kinds of specification.
enum Spec<'a> {
    Namespaced(&'a NetworkPolicySpec),
    Global(&'a GlobalNetworkPolicySpec),
}

/// What an update makes of a policy: itself with the endpoints that it selects, if it counts at all; and what is wrong with it.
pub(super) type Admission = (Option<(Policy, Selector)>, Vec<Problem>);

impl Policy {
    /// Takes a policy in.
    pub(super) fn admit(key: &ResourceKey, source: &Arc<Resource>) -> Admission {
        let mut problems = Vec::new();
        let source = match &**source {
            // What it would delete is there, and stays so until it does.
            Resource::StagedNetworkPolicy(object) if deletes(object.spec.staged_action) => return (None, problems),
            Resource::StagedGlobalNetworkPolicy(object) if deletes(object.spec.staged_action) => {
                return (None, problems);
            }
            Resource::StagedKubernetesNetworkPolicy(object) if deletes(object.spec.staged_action) => {
                return (None, problems);
            }
            Resource::StagedKubernetesNetworkPolicy(object) => {
                let (policy, faults) = object.spec.enforced();
                problems.extend(faults.into_iter().map(Problem::Unconverted));
                let spec = StagedNetworkPolicySpec { staged_action: object.spec.staged_action, policy };
                Arc::new(Resource::StagedNetworkPolicy(Object { metadata: object.metadata.clone(), spec }.into()))
            }
            _ => source.clone(),
        };
        let policy = Self(source);
        match policy.scope(key) {
            None => (None, alloc::vec![Problem::WrongKind]),
            Some(Err((field, error))) => (None, alloc::vec![Problem::Selector { field, error }]),
            Some(Ok(selector)) => {
                policy.find_problems(&mut problems);
                (Some((policy, selector)), problems)
            }
        }
    }

    /// The endpoints that it selects; none when it is of another kind than its key.
    fn scope(&self, key: &ResourceKey) -> Option<Result<Selector, scope::Fault>> {
        match (self.spec()?, key.namespace()) {
            (Spec::Namespaced(spec), Some(namespace)) => Some(scope::network_policy(namespace, spec)),
            (Spec::Global(spec), None) => Some(scope::global_network_policy(spec)),
            _ => None,
        }
    }

    /// The endpoints that a policy of that key selects, again: it is not kept.
    pub(super) fn selector(&self, key: &ResourceKey) -> Option<Selector> {
        self.scope(key)?.ok()
    }

    fn find_problems(&self, problems: &mut Vec<Problem>) {
        let Some(spec) = self.spec() else { return };
        problems.extend(self.combinations().map(Problem::Combination));
        // That a preDNAT policy has egress rules is told already.
        let is_told = |direction: &PolicyType| *direction == PolicyType::Egress && self.stands_in(Stage::PreDnat);
        let idle = |direction: &PolicyType| !self.governs(*direction) && !self.all_rules(*direction).is_empty();
        let directions = [PolicyType::Ingress, PolicyType::Egress].into_iter();
        problems.extend(directions.filter(|one| idle(one) && !is_told(one)).map(Problem::Ungoverned));
        let hints = match spec {
            Spec::Namespaced(spec) => &spec.performance_hints,
            Spec::Global(spec) => &spec.performance_hints,
        };
        problems.extend(hints.iter().find(|hint| *hint != EVERY_NODE).cloned().map(Problem::UnknownHint));
    }

    fn spec(&self) -> Option<Spec<'_>> {
        match &*self.0 {
            Resource::NetworkPolicy(object) => Some(Spec::Namespaced(&object.spec)),
            Resource::StagedNetworkPolicy(object) => Some(Spec::Namespaced(&object.spec.policy)),
            Resource::GlobalNetworkPolicy(object) => Some(Spec::Global(&object.spec)),
            Resource::StagedGlobalNetworkPolicy(object) => Some(Spec::Global(&object.spec.policy)),
            _ => None,
        }
    }

    pub(super) fn tier(&self) -> &str {
        self.0.tier().unwrap_or(DEFAULT_TIER)
    }

    pub(super) fn order(&self) -> Option<f64> {
        match self.spec()? {
            Spec::Namespaced(spec) => spec.order,
            Spec::Global(spec) => spec.order,
        }
    }

    /// Whether it is only tried out.
    pub(super) fn is_staged(&self) -> bool {
        matches!(*self.0, Resource::StagedNetworkPolicy(_) | Resource::StagedGlobalNetworkPolicy(_))
    }

    /// Whether it is active although it selects nothing here.
    pub(super) fn is_needed_everywhere(&self) -> bool {
        let hints = match self.spec() {
            Some(Spec::Namespaced(spec)) => &spec.performance_hints,
            Some(Spec::Global(spec)) => &spec.performance_hints,
            None => return false,
        };
        hints.iter().any(|hint| hint == EVERY_NODE)
    }

    pub(super) fn governs(&self, direction: PolicyType) -> bool {
        let types = match self.spec() {
            Some(Spec::Namespaced(spec)) => &spec.types,
            Some(Spec::Global(spec)) => &spec.types,
            None => return false,
        };
        if types.is_empty() {
            let rules = |direction| self.all_rules(direction);
            return implied_types(rules(PolicyType::Ingress), rules(PolicyType::Egress)).contains(&direction);
        }
        types.contains(&direction)
    }

    /// Rules of a direction; none when it does not govern that direction.
    pub(super) fn rules(&self, direction: PolicyType) -> &[Rule] {
        if self.governs(direction) { self.all_rules(direction) } else { &[] }
    }

    fn all_rules(&self, direction: PolicyType) -> &[Rule] {
        let (ingress, egress) = match self.spec() {
            Some(Spec::Namespaced(spec)) => (&spec.ingress, &spec.egress),
            Some(Spec::Global(spec)) => (&spec.ingress, &spec.egress),
            None => return &[],
        };
        match direction {
            PolicyType::Ingress => ingress,
            PolicyType::Egress => egress,
        }
    }

    const fn global(spec: Option<Spec<'_>>) -> Option<&GlobalNetworkPolicySpec> {
        match spec {
            Some(Spec::Global(spec)) => Some(spec),
            _ => None,
        }
    }

    /// Whether it is asked at that stage. `doNotTrack` goes before `preDNAT`, as upstream's.
    pub(super) fn stands_in(&self, stage: Stage) -> bool {
        let global = Self::global(self.spec());
        let (untracked, pre_dnat, forward) =
            global.map_or((false, false, false), |spec| (spec.do_not_track, spec.pre_dnat, spec.apply_on_forward));
        match stage {
            Stage::Untracked => untracked,
            Stage::PreDnat => pre_dnat && !untracked,
            Stage::Normal => !untracked && !pre_dnat,
            Stage::Forward => !untracked && !pre_dnat && forward,
        }
    }

    /// Whether it has a say about workloads.
    pub(super) fn concerns_workloads(&self) -> bool {
        self.stands_in(Stage::Normal)
    }

    /// Flags and rules that the API does not take together.
    fn combinations(&self) -> impl Iterator<Item = Combination> {
        let global = Self::global(self.spec());
        let (untracked, pre_dnat) = global.map_or((false, false), |spec| (spec.do_not_track, spec.pre_dnat));
        let contradiction = (untracked && pre_dnat).then_some(Combination::UntrackedPreDnat);
        let has_egress = global.is_some_and(|spec| !spec.egress.is_empty() || spec.types.contains(&PolicyType::Egress));
        let egress = (pre_dnat && has_egress).then_some(Combination::EgressPreDnat);
        let host_only = (untracked || pre_dnat) && global.is_some_and(|spec| !spec.apply_on_forward);
        [contradiction, egress, host_only.then_some(Combination::NotOnForward)].into_iter().flatten()
    }

    /// Whether it takes the same place in an endpoint's stacks as another version of itself.
    pub(super) fn stands_like(&self, other: &Self) -> bool {
        let directions = |policy: &Self| [PolicyType::Ingress, PolicyType::Egress].map(|one| policy.governs(one));
        let stages =
            |policy: &Self| [Stage::Untracked, Stage::PreDnat, Stage::Forward].map(|one| policy.stands_in(one));
        self.tier() == other.tier()
            && self.order() == other.order()
            && directions(self) == directions(other)
            && stages(self) == stages(other)
    }

    /// Whether it selects the same endpoints as another version of itself, as written.
    pub(super) fn selects_like(&self, other: &Self) -> bool {
        match (self.spec(), other.spec()) {
            (Some(Spec::Namespaced(one)), Some(Spec::Namespaced(other))) => {
                one.selector == other.selector && one.service_account_selector == other.service_account_selector
            }
            (Some(Spec::Global(one)), Some(Spec::Global(two))) => {
                one.selector == two.selector
                    && one.service_account_selector == two.service_account_selector
                    && one.namespace_selector == two.namespace_selector
                    && self.concerns_workloads() == other.concerns_workloads()
            }
            _ => false,
        }
    }
}

fn deletes(action: Option<StagedAction>) -> bool {
    action == Some(StagedAction::Delete)
}
