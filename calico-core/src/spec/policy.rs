//! Which policies concern an endpoint, in which order, and what they and its profiles decide.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{Cluster, Endpoint, kubernetes, rule};
use crate::flow::{Decision, Flow};
use crate::resource::{
    Action, DEFAULT_TIER, DefaultAction, GlobalNetworkPolicySpec, Kind, NetworkPolicySpec, PolicyType, Resource,
    ResourceKey, Rule, StagedAction, implied_types,
};
use crate::selector::Selector;

/// At which point of a packet's way a policy is asked. Of host endpoints each has policies of its own; workloads know the normal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
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

/// What a list of rules says about a flow.
enum Outcome {
    Decided(Decision),
    Passed,
    Undecided,
}

impl Cluster {
    /// Tiers; of normal policies then profiles, then drop. None where nothing decided.
    pub(super) fn judge(
        &self,
        endpoint: &Endpoint,
        layer: Layer,
        direction: PolicyType,
        flow: &Flow,
    ) -> Option<Decision> {
        // What comes before the normal policies must not end what those are to decide.
        let ends = matches!(layer, Layer::Normal | Layer::Forward);
        for (tier, policies) in self.tiers_for(endpoint, layer, direction) {
            let outcomes = policies
                .into_iter()
                .map(|policy| self.run(policy.rules(direction), policy.key.namespace().unwrap_or_default(), flow));
            match outcomes.into_iter().find(|outcome| !matches!(outcome, Outcome::Undecided)) {
                Some(Outcome::Decided(decision)) => return Some(decision),
                None if ends && self.default_action(tier) != DefaultAction::Pass => return Some(Decision::Deny),
                _ => {}
            }
        }
        (layer == Layer::Normal).then(|| self.judge_by_profiles(endpoint, direction, flow))
    }

    fn judge_by_profiles(&self, endpoint: &Endpoint, direction: PolicyType, flow: &Flow) -> Decision {
        for name in &endpoint.member.profiles {
            // A profile that does not exist denies all.
            let Some(profile) = self.profiles.iter().find(|profile| profile.metadata.name == *name) else {
                return Decision::Deny;
            };
            let spec = &profile.spec;
            let rules = if direction == PolicyType::Ingress { &spec.ingress } else { &spec.egress };
            // Profiles know no tier to leave: Pass goes on with the next profile.
            if let Outcome::Decided(decision) = self.run(rules, "", flow) {
                return decision;
            }
        }
        Decision::Deny
    }

    fn run(&self, rules: &[Rule], namespace: &str, flow: &Flow) -> Outcome {
        for action in rules.iter().filter_map(|rule| rule::action(self, rule, namespace, flow)) {
            match action {
                Action::Allow => return Outcome::Decided(Decision::Allow),
                Action::Deny => return Outcome::Decided(Decision::Deny),
                Action::Pass => return Outcome::Passed,
                Action::Log => {}
            }
        }
        Outcome::Undecided
    }

    /// Tiers in order with the policies, in order, that govern this direction of the endpoint.
    fn tiers_for(&self, endpoint: &Endpoint, layer: Layer, direction: PolicyType) -> Vec<(&str, Vec<&Policy>)> {
        let applies = |policy: &&Policy| {
            policy.stands_in(layer)
                && policy.governs(direction)
                && (self.enforce_staged || !policy.is_staged())
                && policy.selector.as_ref().is_some_and(|selector| self.selects(selector, &endpoint.member))
        };
        let mut policies: Vec<&Policy> = self.policies.iter().filter(applies).collect();
        policies.sort_by(|a, b| {
            let order = |policy: &Policy| policy.spec.order.unwrap_or(f64::INFINITY);
            order(a).total_cmp(&order(b)).then_with(|| a.tie_break().cmp(&b.tie_break()))
        });
        let mut names: Vec<&str> = policies.iter().map(|policy| policy.tier()).collect();
        names.sort_by(|a, b| self.compare_tiers(a, b));
        names.dedup();
        let of_tier = |name| policies.iter().copied().filter(|policy| policy.tier() == name).collect();
        names.into_iter().map(|name| (name, of_tier(name))).collect()
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

    fn default_action(&self, name: &str) -> DefaultAction {
        let tier = self.tiers.iter().find(|tier| tier.metadata.name == name);
        tier.and_then(|tier| tier.spec.default_action).unwrap_or_default()
    }
}

impl Policy {
    /// A resource as a policy, if it is one and not one that is only to be deleted.
    pub(super) fn new(resource: &Resource) -> Option<Self> {
        let stays = |action: Option<StagedAction>| action != Some(StagedAction::Delete);
        match resource {
            Resource::NetworkPolicy(object) => Self::of_namespace(resource, &object.spec),
            Resource::GlobalNetworkPolicy(object) => Self::of_cluster(resource, &object.spec),
            Resource::StagedNetworkPolicy(object) if stays(object.spec.staged_action) => {
                Self::of_namespace(resource, &object.spec.policy)
            }
            Resource::StagedGlobalNetworkPolicy(object) if stays(object.spec.staged_action) => {
                Self::of_cluster(resource, &object.spec.policy)
            }
            Resource::StagedKubernetesNetworkPolicy(object) if stays(object.spec.staged_action) => {
                Self::of_namespace(resource, &kubernetes::policy(&object.spec))
            }
            _ => None,
        }
    }

    fn of_namespace(resource: &Resource, spec: &NetworkPolicySpec) -> Option<Self> {
        let key = resource.key()?;
        let selector = rule::policy_selector(spec, key.namespace()?);
        let spec = GlobalNetworkPolicySpec {
            tier: spec.tier.clone(),
            order: spec.order,
            types: spec.types.clone(),
            ingress: spec.ingress.clone(),
            egress: spec.egress.clone(),
            ..GlobalNetworkPolicySpec::default()
        };
        Some(Self { key, selector, spec })
    }

    fn of_cluster(resource: &Resource, spec: &GlobalNetworkPolicySpec) -> Option<Self> {
        Some(Self { key: resource.key()?, selector: rule::global_policy_selector(spec), spec: spec.clone() })
    }

    fn tier(&self) -> &str {
        if self.spec.tier.is_empty() { DEFAULT_TIER } else { &self.spec.tier }
    }

    fn stands_in(&self, layer: Layer) -> bool {
        let early = self.spec.do_not_track || self.spec.pre_dnat;
        match layer {
            Layer::Untracked => self.spec.do_not_track,
            Layer::PreDnat => self.spec.pre_dnat && !self.spec.do_not_track,
            Layer::Normal => !early,
            Layer::Forward => !early && self.spec.apply_on_forward,
        }
    }

    fn governs(&self, direction: PolicyType) -> bool {
        let GlobalNetworkPolicySpec { types, ingress, egress, .. } = &self.spec;
        if types.is_empty() { implied_types(ingress, egress).contains(&direction) } else { types.contains(&direction) }
    }

    fn rules(&self, direction: PolicyType) -> &[Rule] {
        if direction == PolicyType::Ingress { &self.spec.ingress } else { &self.spec.egress }
    }

    const fn is_staged(&self) -> bool {
        matches!(
            self.key.kind(),
            Kind::StagedNetworkPolicy | Kind::StagedGlobalNetworkPolicy | Kind::StagedKubernetesNetworkPolicy
        )
    }

    fn tie_break(&self) -> String {
        let (name, namespace) = (self.key.name().unwrap_or_default(), self.key.namespace().unwrap_or_default());
        [name, namespace, self.key.kind().name()].join("/")
    }
}
