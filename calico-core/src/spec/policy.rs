//! Which policies concern an endpoint, in which order, and what they and its profiles decide.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::Cluster;
use super::rule::{self, Question};
use crate::flow::{Decision, Flow};
use crate::member::Endpoint;
use crate::resource::{
    Action, DEFAULT_TIER, DefaultAction, GlobalNetworkPolicySpec, NetworkPolicySpec, PolicyType, ProfileSpec, Resource,
    ResourceKey, Rule, StagedAction, implied_types,
};
use crate::selector::Selector;
use crate::text::Text;

/// At which point of a packet's way a policy is asked. Of host endpoints each has policies of its own; workloads know the normal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before connection tracking (`doNotTrack`).
    Untracked,
    /// Before destination NAT (`preDNAT`), where traffic comes in.
    PreDnat,
    /// To and from the endpoint itself.
    Normal,
    /// Through the host: those of the normal policies that say so (`applyOnForward`).
    Forward,
}

/// A policy of any kind, in the shape of the one that has every field.
#[derive(Debug)]
pub(super) struct Policy {
    key: ResourceKey,
    /// The endpoints it applies to; none when a selector does not parse, and it applies to nothing.
    selector: Option<Selector>,
    spec: GlobalNetworkPolicySpec,
}

impl Cluster {
    /// Tiers; of normal policies then profiles, then drop. None where nothing decided.
    pub(super) fn judge(&self, end: &Endpoint, stage: Stage, direction: PolicyType, flow: &Flow) -> Option<Decision> {
        // What comes before the normal policies must not end what those are to decide.
        let ends = matches!(stage, Stage::Normal | Stage::Forward);
        for policies in self.tiers_for(end, stage, direction) {
            let says =
                |policy: &&Policy| self.run(policy.rules(direction), policy.key.namespace().unwrap_or_default(), flow);
            let closed = || ends && policies.first().is_some_and(|policy| self.is_closed(policy.tier()));
            let decided = match policies.iter().find_map(says) {
                Some(action) => decided(action),
                None => closed().then_some(Decision::Deny),
            };
            if decided.is_some() {
                return decided;
            }
        }
        (stage == Stage::Normal).then(|| self.judge_by_profiles(end, direction, flow))
    }

    /// Profiles know no tier to leave: Pass goes on with the next profile.
    fn judge_by_profiles(&self, endpoint: &Endpoint, direction: PolicyType, flow: &Flow) -> Decision {
        let says = |name: &Text| {
            // A profile that does not exist denies all.
            let Some(profile) = self.profile(name) else { return Some(Decision::Deny) };
            let ProfileSpec { ingress, egress, .. } = &profile.spec;
            self.run(if direction == PolicyType::Ingress { ingress } else { egress }, "", flow).and_then(decided)
        };
        endpoint.member.profiles.iter().find_map(says).unwrap_or(Decision::Deny)
    }

    /// What the first rule says that matches and does more than to log.
    fn run(&self, rules: &[Rule], namespace: &str, flow: &Flow) -> Option<Action> {
        let mut actions = rules.iter().filter_map(|rule| Question { cluster: self, rule, namespace, flow }.action());
        actions.find(|action| *action != Action::Log)
    }

    /// Tiers in order, each as its policies, in order, that govern this direction of the endpoint.
    fn tiers_for(&self, endpoint: &Endpoint, stage: Stage, direction: PolicyType) -> Vec<Vec<&Policy>> {
        let applies = |policy: &&Policy| {
            policy.stands_in(stage)
                && policy.governs(direction)
                && (self.enforce_staged || !policy.key.kind().is_staged_policy())
                && policy.selector.as_ref().is_some_and(|selector| self.selects(selector, &endpoint.member))
        };
        let mut policies: Vec<&Policy> = self.policies.iter().filter(applies).collect();
        policies.sort_by(|a, b| self.compare_tiers(a.tier(), b.tier()).then_with(|| a.compare(b)));
        policies.chunk_by(|a, b| a.tier() == b.tier()).map(<[_]>::to_vec).collect()
    }

    /// Those that exist come first, then by order, then by name.
    fn compare_tiers(&self, a: &str, b: &str) -> Ordering {
        let rank = |name: &str| {
            let tier = self.tiers.iter().find(|tier| tier.metadata.name == name);
            (tier.is_none(), tier.and_then(|tier| tier.spec.order).unwrap_or(f64::INFINITY))
        };
        let (left, right) = (rank(a), rank(b));
        left.0.cmp(&right.0).then_with(|| left.1.total_cmp(&right.1)).then_with(|| a.cmp(b))
    }

    /// Whether what no policy of the tier decides is denied.
    fn is_closed(&self, name: &str) -> bool {
        let tier = self.tiers.iter().find(|tier| tier.metadata.name == name);
        tier.and_then(|tier| tier.spec.default_action).unwrap_or_default() != DefaultAction::Pass
    }
}

impl Policy {
    /// A resource as a policy, if it is one and not one that is only to be deleted.
    pub(super) fn new(resource: &Resource) -> Option<Self> {
        let key = resource.key()?;
        let (selector, spec) = match resource {
            _ if resource.staged_action() == Some(StagedAction::Delete) => return None,
            Resource::NetworkPolicy(object) => of_namespace(&key, object.spec.clone())?,
            Resource::GlobalNetworkPolicy(object) => of_cluster(object.spec.clone()),
            Resource::StagedNetworkPolicy(object) => of_namespace(&key, object.spec.policy.clone())?,
            Resource::StagedGlobalNetworkPolicy(object) => of_cluster(object.spec.policy.clone()),
            Resource::StagedKubernetesNetworkPolicy(object) => of_namespace(&key, object.spec.enforced().0)?,
            _ => return None,
        };
        Some(Self { key, selector, spec })
    }

    fn tier(&self) -> &str {
        if self.spec.tier.is_empty() { DEFAULT_TIER } else { &self.spec.tier }
    }

    fn stands_in(&self, stage: Stage) -> bool {
        let early = self.spec.do_not_track || self.spec.pre_dnat;
        match stage {
            Stage::Untracked => self.spec.do_not_track,
            Stage::PreDnat => self.spec.pre_dnat && !self.spec.do_not_track,
            Stage::Normal => !early,
            Stage::Forward => !early && self.spec.apply_on_forward,
        }
    }

    fn governs(&self, direction: PolicyType) -> bool {
        let GlobalNetworkPolicySpec { types, ingress, egress, .. } = &self.spec;
        if types.is_empty() { implied_types(ingress, egress).contains(&direction) } else { types.contains(&direction) }
    }

    fn rules(&self, direction: PolicyType) -> &[Rule] {
        if direction == PolicyType::Ingress { &self.spec.ingress } else { &self.spec.egress }
    }

    /// By order, then by name, namespace and kind.
    fn compare(&self, other: &Self) -> Ordering {
        let order = |policy: &Self| policy.spec.order.unwrap_or(f64::INFINITY);
        let text = |policy: &Self| {
            let key = &policy.key;
            [key.name().unwrap_or_default(), key.namespace().unwrap_or_default(), key.kind().name()].join("/")
        };
        order(self).total_cmp(&order(other)).then_with(|| text(self).cmp(&text(other)))
    }
}

/// The endpoints that it applies to, and itself.
type Read = (Option<Selector>, GlobalNetworkPolicySpec);

fn of_namespace(key: &ResourceKey, spec: NetworkPolicySpec) -> Option<Read> {
    Some((rule::policy_selector(&spec, key.namespace()?), spec.into()))
}

fn of_cluster(spec: GlobalNetworkPolicySpec) -> Read {
    (rule::global_policy_selector(&spec), spec)
}

/// What an action decides. To pass decides nothing, nor does to log.
const fn decided(action: Action) -> Option<Decision> {
    match action {
        Action::Allow => Some(Decision::Allow),
        Action::Deny => Some(Decision::Deny),
        Action::Pass | Action::Log => None,
    }
}
