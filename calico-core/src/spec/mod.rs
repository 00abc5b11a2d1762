//! The specification evaluator: what happens to a flow, straight from the resources, slowly and obviously.
//!
//! It is the oracle for everything that decides faster: the graph with its stacks, the rendered program, the kernel. It holds no
//! index, and every question scans every resource. In come all resources of a
//! cluster and a flow between two parties, or a packet on its way through one host; out comes a [`Decision`]. The semantics are upstream's
//! tiers, policies, profiles and rules, but that whatever is not there or not understood lets nothing through. How policies of hosts and
//! workloads come together on one host is said in `passage`.
//!
//! Staged policies decide nothing, and a tier with no others has no end; [`Cluster::with_staged_enforced`] is the same cluster as if they were
//! enforced beside all others (upstream's "pending" verdict, `app-policy/checker`). One whose `stagedAction` is `Delete` is not there in either.
//!
//! With all of these it shares the resources and what they say of themselves: the selector language, which directions a policy has that names none
//! (`implied_types`), what a staged policy is to become (`staged_action`, `enforced`), how prefixes and names of interfaces match; and the list
//! of fail-safe ports with the question of who is on it ([`Failsafes`]). A fault in one of these no comparison shows; their own tests, and real
//! packets, do.
//!
//! What depends on what was before is left out, and belongs to no evaluator: limits on packets and connections, what connections are known (the
//! question says that), which of several workloads with one address has the route, and marks, which decide nothing.

mod passage;
mod policy;
mod rule;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use self::policy::{Policy, Stage};
use crate::flow::{ConnState, Decision, Flow, Passage, Place};
pub use crate::flow::{Party, Settings};
use crate::member::{self, Endpoint, Member};
use crate::net::{Cidr, Failsafes, InterfaceName};
use crate::resource::{Kind, Object, PolicyType, ProfileSpec, Resource, ResourceKey, SINGLE_NAME, Tier};
use crate::selector::{Inherited, Selector};
use crate::service::EndpointSlice;

/// All resources of a cluster, as an evaluator sees them.
#[derive(Debug, Default)]
#[must_use]
pub struct Cluster {
    settings: Settings,
    failsafes: Failsafes,
    enforce_staged: bool,
    endpoints: Vec<Endpoint>,
    network_sets: Vec<Member>,
    policies: Vec<Policy>,
    tiers: Vec<Tier>,
    profiles: Vec<Object<ProfileSpec>>,
    /// What stands behind services; none where nobody tells.
    slices: Option<Vec<Arc<EndpointSlice>>>,
    services: Vec<Cidr>,
    /// Of hosts whose interfaces are known, each with its addresses.
    interfaces: BTreeMap<String, Vec<(InterfaceName, Vec<IpAddr>)>>,
}

impl Cluster {
    /// Takes in resources; kinds that decide nothing are left out.
    pub fn new<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut cluster = Self::default();
        resources.into_iter().for_each(|resource| cluster.add(resource));
        // It exists in every cluster without being stored.
        cluster.add(&Resource::default_allow_profile());
        cluster
    }

    /// The same resources on hosts with other settings.
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The same resources on hosts with other fail-safe ports.
    pub fn with_failsafes(mut self, failsafes: Failsafes) -> Self {
        self.failsafes = failsafes;
        self
    }

    /// With what stands behind the services. Where nobody tells, a condition on them is one that is not understood.
    pub fn with_slices(mut self, slices: impl IntoIterator<Item = Arc<EndpointSlice>>) -> Self {
        self.slices.get_or_insert_default().extend(slices);
        self
    }

    /// With all of a host's own interfaces and their addresses; the first leads to other hosts. Those whose addresses are to be left alone
    /// (`InterfaceExclude`) are given without. Of a host that is not given any name may be there.
    pub fn with_interfaces(mut self, node: &str, all: impl IntoIterator<Item = (InterfaceName, Vec<IpAddr>)>) -> Self {
        self.interfaces.entry(node.into()).or_default().extend(all);
        self
    }

    /// The same cluster if all staged policies were enforced.
    pub const fn with_staged_enforced(mut self) -> Self {
        self.enforce_staged = true;
        self
    }

    /// What happens to the first packet of a flow that nobody translates, on both hosts that it passes. Between hosts it goes by the first
    /// interface that is known of each, or `eth0`.
    pub fn decide(&self, from: Party<'_>, to: Party<'_>, flow: &Flow) -> Decision {
        let unknown = |party| matches!(party, Party::Workload(_)) && self.host_of(party).is_none();
        if unknown(from) || unknown(to) {
            return Decision::Deny;
        }
        let allows = |node: &str| {
            let (from, to) = (self.place_on(node, from), self.place_on(node, to));
            let passage = Passage { from, to, arriving: *flow, flow: *flow, state: ConnState::New };
            self.passage(node, &passage) == Decision::Allow
        };
        let (near, far) = (self.host_of(from), self.host_of(to));
        let allowed = near.is_none_or(allows) && far.filter(|far| near != Some(far)).is_none_or(allows);
        if allowed { Decision::Allow } else { Decision::Deny }
    }

    /// What the endpoint's own host does with traffic from it, before it looks at where that goes.
    pub fn egress(&self, source: &ResourceKey, flow: &Flow) -> Decision {
        let Some(endpoint) = self.workload(source) else { return Decision::Deny };
        if self.is_spoofed(endpoint, flow) { Decision::Deny } else { self.workload_egress(endpoint, flow) }
    }

    /// What the endpoint's own host does with traffic to it that does not come from the host itself.
    pub fn ingress(&self, destination: &ResourceKey, flow: &Flow) -> Decision {
        let Some(endpoint) = self.workload(destination) else { return Decision::Deny };
        self.judge(endpoint, Stage::Normal, PolicyType::Ingress, flow).unwrap_or(Decision::Deny)
    }

    fn host_of<'a>(&'a self, party: Party<'a>) -> Option<&'a str> {
        match party {
            Party::Workload(key) => self.workload(key).map(|endpoint| endpoint.node.as_str()),
            Party::Host(node) => Some(node),
            Party::Outside => None,
        }
    }

    fn place_on<'a>(&'a self, node: &str, party: Party<'a>) -> Place<'a> {
        match party {
            Party::Workload(key) if self.host_of(party) == Some(node) => Place::Workload(key),
            Party::Host(name) if name == node => Place::Host,
            _ => Place::Interface(
                self.interfaces.get(node).and_then(|all| all.first()).map_or(InterfaceName::ETH0, |one| one.0),
            ),
        }
    }

    /// The workload endpoint of the key, if it has its interface to itself: of several that claim one, the first by key has it.
    fn workload(&self, key: &ResourceKey) -> Option<&Endpoint> {
        let workloads = || self.endpoints.iter().filter(|endpoint| endpoint.key.kind() == Kind::WorkloadEndpoint);
        let found = workloads().find(|endpoint| endpoint.key == *key)?;
        let before = |other: &Endpoint| {
            (&other.node, &other.interface) == (&found.node, &found.interface) && other.key < found.key
        };
        let mut prefixes = self.settings.workload_prefixes.iter();
        let policed = prefixes.any(|prefix| found.interface.starts_with(prefix.as_str()));
        (policed && !workloads().any(before)).then_some(found)
    }

    fn selects(&self, selector: &Selector, member: &Member) -> bool {
        let profiles = member.profiles.iter().filter_map(|name| self.profile(name));
        let parents = profiles.map(|profile| &profile.spec.labels_to_apply);
        selector.matches(&Inherited { own: &member.labels, parents: &parents.collect::<Vec<_>>() })
    }

    fn profile(&self, name: &str) -> Option<&Object<ProfileSpec>> {
        self.profiles.iter().find(|profile| profile.metadata.name == name)
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        self.endpoints.iter().map(|endpoint| &endpoint.member).chain(&self.network_sets)
    }

    fn add(&mut self, resource: &Resource) {
        match resource {
            Resource::WorkloadEndpoint(object) => self.endpoints.extend(Endpoint::workload(resource.key(), object)),
            Resource::HostEndpoint(object) => self.endpoints.extend(Endpoint::host(resource.key(), object)),
            Resource::Profile(object) => self.profiles.push(object.clone()),
            Resource::Tier(object) => self.tiers.push(object.clone()),
            Resource::NetworkSet(set) | Resource::GlobalNetworkSet(set) => {
                self.network_sets.push(Member::network_set(set))
            }
            Resource::BgpConfiguration(object) if object.metadata.name == SINGLE_NAME => {
                self.services = member::service_ranges(&object.spec);
            }
            _ => self.policies.extend(Policy::new(resource)),
        }
    }
}
