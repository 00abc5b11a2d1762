//! The specification evaluator: what happens to a flow, straight from the resources, slowly and obviously.
//!
//! It is the oracle for everything that decides faster: the graph with its stacks, the rendered program, the kernel. It holds no
//! index and shares nothing with them but the selector language. Every question scans every resource. In come all resources of a
//! cluster and a flow between two parties, out comes a [`Decision`]. The semantics are upstream's tiers, policies, profiles
//! and rules, but that whatever is not there or not understood lets nothing through.

mod rule;
#[cfg(test)]
mod tests;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::flow::{Decision, Flow};
use crate::render::EndpointToHost;
use crate::resource::{
    Action, DEFAULT_TIER, DefaultAction, Kind, NAMESPACE_LABEL, Object, PolicyType, ProfileSpec, Resource, ResourceKey,
    Rule, Tier, WorkloadEndpointSpec, implied_types,
};
use crate::selector::{Inherited, Selector};
use crate::text::{Text, TextMap};

/// All resources of a cluster, as an evaluator sees them.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    endpoints: Vec<Object<WorkloadEndpointSpec>>,
    policies: Vec<Policy>,
    tiers: Vec<Tier>,
    profiles: Vec<Object<ProfileSpec>>,
    network_sets: Vec<NetworkSet>,
}

/// Settings of hosts that decide about flows, with upstream's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct Settings {
    /// What happens to traffic from a workload to its own host that its policy allows.
    pub endpoint_to_host: EndpointToHost,
    /// UDP port of VXLAN.
    pub vxlan_port: u16,
    /// Whether workloads may send VXLAN.
    pub allow_vxlan_from_workloads: bool,
    /// Whether workloads may send IP-in-IP.
    pub allow_ipip_from_workloads: bool,
    /// Whether an endpoint's further source prefixes are honoured.
    pub allow_spoofed_sources: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint_to_host: EndpointToHost::Drop,
            vxlan_port: 4789,
            allow_vxlan_from_workloads: false,
            allow_ipip_from_workloads: false,
            allow_spoofed_sources: false,
        }
    }
}

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an end is one of these; another would break every evaluator")]
pub enum Party<'a> {
    /// A workload endpoint, by its key.
    Workload(&'a ResourceKey),
    /// A host of the cluster, by its node name.
    Host(&'a str),
    /// Anything else.
    Outside,
}

/// A policy of either kind, in one shape.
#[derive(Debug)]
struct Policy {
    kind: Kind,
    namespace: String,
    name: String,
    tier: String,
    order: Option<f64>,
    /// The endpoints it applies to; none when a selector does not parse, and it applies to nothing.
    selector: Option<Selector>,
    types: Vec<PolicyType>,
    ingress: Vec<Rule>,
    egress: Vec<Rule>,
}

#[derive(Debug)]
struct NetworkSet {
    labels: TextMap,
    /// The profile whose labels a namespaced set inherits.
    profile: Option<Text>,
    nets: Vec<crate::net::Cidr>,
}

/// What a list of rules says about a flow.
enum Outcome {
    Decided(Decision),
    Passed,
    Undecided,
}

impl Cluster {
    /// Takes in resources; kinds that decide nothing are left out.
    pub fn new<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut cluster = Self {
            settings: Settings::default(),
            endpoints: Vec::new(),
            policies: Vec::new(),
            tiers: Vec::new(),
            profiles: Vec::new(),
            network_sets: Vec::new(),
        };
        for resource in resources {
            cluster.add(resource);
        }
        // It exists in every cluster without being stored.
        cluster.add(&Resource::default_allow_profile());
        cluster
    }

    /// The same resources on hosts with other settings.
    #[must_use]
    pub const fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// What happens to a flow, on all hosts that it passes.
    pub fn decide(&self, from: Party<'_>, to: Party<'_>, flow: &Flow) -> Decision {
        if let Party::Workload(source) = from
            && !is_neighbor_discovery(flow, to)
            && self.egress(source, flow) == Decision::Deny
        {
            return Decision::Deny;
        }
        match to {
            Party::Workload(destination) if self.host_of(from) == self.host_of(to) && is_host(from) => {
                // From its own host a workload is always reached.
                self.endpoint(destination).map_or(Decision::Deny, |_| Decision::Allow)
            }
            Party::Workload(destination) => self.ingress(destination, flow),
            Party::Host(node) if matches!(from, Party::Workload(_)) && self.host_of(from) == Some(node) => {
                self.to_own_host(flow, to)
            }
            Party::Host(_) | Party::Outside => Decision::Allow,
        }
    }

    /// What the endpoint's own host does with traffic from it.
    pub fn egress(&self, source: &ResourceKey, flow: &Flow) -> Decision {
        let Some(endpoint) = self.endpoint(source) else { return Decision::Deny };
        let settings = &self.settings;
        let own = endpoint.spec.ip_networks.iter().any(|net| net.contains(flow.source));
        let further = endpoint.spec.allow_spoofed_source_prefixes.iter().any(|net| net.contains(flow.source));
        let vxlan_port = flow.protocol == 17 && flow.destination_port == settings.vxlan_port;
        let vxlan = vxlan_port && !settings.allow_vxlan_from_workloads;
        let ipip = flow.protocol == IPIP && !settings.allow_ipip_from_workloads;
        if !(own || further && settings.allow_spoofed_sources) || vxlan || ipip {
            return Decision::Deny;
        }
        self.govern(endpoint, PolicyType::Egress, flow)
    }

    /// What the endpoint's own host does with traffic to it that does not come from the host itself.
    pub fn ingress(&self, destination: &ResourceKey, flow: &Flow) -> Decision {
        self.endpoint(destination).map_or(Decision::Deny, |endpoint| self.govern(endpoint, PolicyType::Ingress, flow))
    }

    fn to_own_host(&self, flow: &Flow, to: Party<'_>) -> Decision {
        match self.settings.endpoint_to_host {
            EndpointToHost::Drop if !is_neighbor_discovery(flow, to) => Decision::Deny,
            _ => Decision::Allow,
        }
    }

    /// Tiers, then profiles, then drop.
    fn govern(&self, endpoint: &Object<WorkloadEndpointSpec>, direction: PolicyType, flow: &Flow) -> Decision {
        for (tier, policies) in self.tiers_for(endpoint, direction) {
            let mut passed = false;
            for policy in policies {
                let rules = if direction == PolicyType::Ingress { &policy.ingress } else { &policy.egress };
                match self.run(rules, &policy.namespace, flow) {
                    Outcome::Decided(decision) => return decision,
                    Outcome::Passed => {
                        passed = true;
                        break;
                    }
                    Outcome::Undecided => {}
                }
            }
            if !passed && self.default_action(tier) != DefaultAction::Pass {
                return Decision::Deny;
            }
        }
        for name in &endpoint.spec.profiles {
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
    fn tiers_for(&self, endpoint: &Object<WorkloadEndpointSpec>, direction: PolicyType) -> Vec<(&str, Vec<&Policy>)> {
        let labels = endpoint_labels(endpoint);
        let applies = |policy: &&Policy| {
            let selected = policy.selector.as_ref().is_some_and(|selector| {
                let parents = self.parents(&endpoint.spec.profiles);
                selector.matches(&Inherited { own: &labels, parents: &parents })
            });
            selected && policy.types.contains(&direction)
        };
        let mut policies: Vec<&Policy> = self.policies.iter().filter(applies).collect();
        policies.sort_by(|a, b| {
            let order = |policy: &Policy| policy.order.unwrap_or(f64::INFINITY);
            order(a).total_cmp(&order(b)).then_with(|| a.tie_break().cmp(&b.tie_break()))
        });
        let mut names: Vec<&str> = policies.iter().map(|policy| policy.tier.as_str()).collect();
        names.sort_by(|a, b| self.compare_tiers(a, b));
        names.dedup();
        let of_tier = |name| policies.iter().copied().filter(|policy| policy.tier == name).collect();
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

    fn parents(&self, profiles: &[Text]) -> Vec<&TextMap> {
        let find = |name: &Text| self.profiles.iter().find(|profile| profile.metadata.name == *name);
        profiles.iter().filter_map(find).map(|profile| &profile.spec.labels_to_apply).collect()
    }

    fn endpoint(&self, key: &ResourceKey) -> Option<&Object<WorkloadEndpointSpec>> {
        let mine = |endpoint: &&Object<WorkloadEndpointSpec>| {
            key.kind() == Kind::WorkloadEndpoint
                && key.name() == Some(endpoint.metadata.name.as_str())
                && key.namespace() == endpoint.metadata.namespace.as_deref()
        };
        self.endpoints.iter().find(mine)
    }

    fn host_of<'a>(&'a self, party: Party<'a>) -> Option<&'a str> {
        match party {
            Party::Workload(key) => self.endpoint(key).map(|endpoint| endpoint.spec.node.as_str()),
            Party::Host(node) => Some(node),
            Party::Outside => None,
        }
    }

    fn add(&mut self, resource: &Resource) {
        match resource {
            // Without an address or an interface it takes no part.
            Resource::WorkloadEndpoint(object)
                if object.spec.addresses().next().is_some() && object.spec.interface_name.is_some() =>
            {
                let mut object = object.clone();
                object.spec.ip_networks = object.spec.addresses().collect();
                self.endpoints.push(object);
            }
            Resource::Profile(object) => self.profiles.push(object.clone()),
            Resource::Tier(object) => self.tiers.push(object.clone()),
            Resource::GlobalNetworkSet(object) => self.network_sets.push(NetworkSet {
                labels: object.metadata.labels.clone(),
                profile: None,
                nets: object.spec.nets.clone(),
            }),
            Resource::NetworkSet(object) => {
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                let mut labels = object.metadata.labels.clone();
                labels.insert(NAMESPACE_LABEL.into(), namespace.as_str().into());
                let profile = Some(["kns.", &namespace].concat().into());
                self.network_sets.push(NetworkSet { labels, profile, nets: object.spec.nets.clone() });
            }
            // Policies of host endpoints have no say about workloads.
            Resource::GlobalNetworkPolicy(object) if object.spec.do_not_track || object.spec.pre_dnat => {}
            Resource::GlobalNetworkPolicy(object) => {
                let spec = &object.spec;
                let selector = rule::global_policy_selector(spec);
                let shape = (spec.tier.as_str(), spec.order, &spec.types, &spec.ingress, &spec.egress);
                self.policies.push(Policy::new(Kind::GlobalNetworkPolicy, &object.metadata, selector, shape));
            }
            Resource::NetworkPolicy(object) => {
                let spec = &object.spec;
                let selector = rule::policy_selector(spec, object.metadata.namespace.as_deref().unwrap_or_default());
                let shape = (spec.tier.as_str(), spec.order, &spec.types, &spec.ingress, &spec.egress);
                self.policies.push(Policy::new(Kind::NetworkPolicy, &object.metadata, selector, shape));
            }
            _ => {}
        }
    }
}

type Shape<'a> = (&'a str, Option<f64>, &'a Vec<PolicyType>, &'a Vec<Rule>, &'a Vec<Rule>);

impl Policy {
    fn new(kind: Kind, metadata: &crate::resource::Metadata, selector: Option<Selector>, shape: Shape<'_>) -> Self {
        let (tier, order, types, ingress, egress) = shape;
        Self {
            kind,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone(),
            tier: if tier.is_empty() { DEFAULT_TIER } else { tier }.to_string(),
            order,
            selector,
            types: if types.is_empty() { implied_types(ingress, egress) } else { types.clone() },
            ingress: ingress.clone(),
            egress: egress.clone(),
        }
    }

    fn tie_break(&self) -> String {
        [self.name.as_str(), &self.namespace, self.kind.name()].join("/")
    }
}

/// An endpoint's labels as selectors see them: nobody may claim to be of another namespace or service account.
fn endpoint_labels(endpoint: &Object<WorkloadEndpointSpec>) -> TextMap {
    let labels = endpoint.metadata.labels.iter();
    let own = labels.filter(|(key, _)| !key.starts_with("pcns.") && !key.starts_with("pcsa."));
    let mut labels: TextMap = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(namespace) = &endpoint.metadata.namespace {
        labels.insert(NAMESPACE_LABEL.into(), namespace.into());
    }
    if !endpoint.spec.service_account_name.is_empty() {
        labels.insert(rule::SERVICE_ACCOUNT.into(), endpoint.spec.service_account_name.clone());
    }
    labels
}

const fn is_host(party: Party<'_>) -> bool {
    matches!(party, Party::Host(_))
}

/// A workload's neighbour discovery reaches its host before any policy.
fn is_neighbor_discovery(flow: &Flow, to: Party<'_>) -> bool {
    is_host(to) && flow.protocol == 58 && matches!(flow.icmp, Some((130..=133 | 135 | 136, _)))
}

const IPIP: u8 = 4;
