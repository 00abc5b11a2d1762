//! The specification evaluator: what happens to a flow, straight from the resources, slowly and obviously.
//!
//! It is the oracle for everything that decides faster: the graph with its stacks, the rendered program, the kernel. It holds no
//! index and shares nothing with them but the selector language. Every question scans every resource. In come all resources of a
//! cluster and a flow between two parties, or a packet on its way through one host; out comes a [`Decision`]. The semantics are upstream's
//! tiers, policies, profiles and rules, but that whatever is not there or not understood lets nothing through. How policies of hosts and
//! workloads come together on one host is said in `passage`.
//!
//! Staged policies decide nothing, and a tier with no others has no end; [`Cluster::with_staged_enforced`] is the same cluster as if they were
//! enforced beside all others (upstream's "pending" verdict, `app-policy/checker`). One whose `stagedAction` is `Delete` is not there in either.

mod kubernetes;
mod passage;
mod policy;
mod rule;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use self::policy::{Layer, Policy};
use crate::flow::{ConnState, Decision, Flow, Passage, Place};
use crate::net::{Cidr, Failsafes, InterfaceName};
use crate::render::EndpointToHost;
use crate::resource::{
    BgpConfigurationSpec, HostEndpointSpec, Kind, NAMESPACE_LABEL, Object, PolicyType, ProfileSpec, Resource,
    ResourceKey, SINGLE_NAME, Tier, WorkloadEndpointSpec,
};
use crate::selector::{Inherited, Selector};
use crate::service::EndpointSlice;
use crate::text::{Text, TextMap};

/// All resources of a cluster, as an evaluator sees them.
#[derive(Debug, Default)]
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

/// Settings of hosts that decide about flows, with upstream's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct Settings {
    /// How names of workload interfaces start. Who has another one is no workload.
    pub workload_prefix: InterfaceName,
    /// What happens to traffic from a workload to its own host that its policy allows.
    pub endpoint_to_host: EndpointToHost,
    /// Whether packets of no possible connection are dropped where there is a policed endpoint.
    pub drop_invalid: bool,
    /// Whether what is forwarded to an address that is still a service's is dropped.
    pub prevent_service_loops: bool,
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
            workload_prefix: InterfaceName::CALI,
            endpoint_to_host: EndpointToHost::Drop,
            drop_invalid: true,
            prevent_service_loops: true,
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

/// An endpoint of a workload or a host.
#[derive(Debug)]
struct Endpoint {
    key: ResourceKey,
    node: String,
    /// Its interface; of a host endpoint also `*` for all that are left, and empty for those that have one of its addresses.
    interface: String,
    /// Prefixes that a workload may send from beside its addresses.
    further_sources: Vec<Cidr>,
    member: Member,
}

/// What a selector can select: addresses with labels, and names of ports.
#[derive(Debug, Default)]
struct Member {
    labels: TextMap,
    /// Profiles, whose labels it inherits.
    profiles: Vec<Text>,
    nets: Vec<Cidr>,
    /// Name, protocol number and port.
    ports: Vec<(String, u8, u16)>,
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
    #[must_use]
    pub const fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The same resources on hosts with other fail-safe ports.
    #[must_use]
    pub fn with_failsafes(mut self, failsafes: Failsafes) -> Self {
        self.failsafes = failsafes;
        self
    }

    /// With what stands behind the services. Where nobody tells, a condition on them is one that is not understood.
    #[must_use]
    pub fn with_slices(mut self, slices: impl IntoIterator<Item = Arc<EndpointSlice>>) -> Self {
        self.slices.get_or_insert_default().extend(slices);
        self
    }

    /// With all of a host's own interfaces and their addresses; the first leads to other hosts. Those whose addresses are to be left alone
    /// (`InterfaceExclude`) are given without. Of a host that is not given any name may be there.
    #[must_use]
    pub fn with_interfaces(
        mut self,
        node: &str,
        interfaces: impl IntoIterator<Item = (InterfaceName, Vec<IpAddr>)>,
    ) -> Self {
        self.interfaces.entry(node.into()).or_default().extend(interfaces);
        self
    }

    /// The same cluster if all staged policies were enforced.
    #[must_use]
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
        self.judge(endpoint, Layer::Normal, PolicyType::Ingress, flow).unwrap_or(Decision::Deny)
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
            _ => {
                let first = self.interfaces.get(node).and_then(|known| known.first());
                Place::Interface(first.map_or(InterfaceName::ETH0, |(name, _)| *name))
            }
        }
    }

    /// The workload endpoint of the key, if it has its interface to itself: of several that claim one, the first by key has it.
    fn workload(&self, key: &ResourceKey) -> Option<&Endpoint> {
        let workloads = || self.endpoints.iter().filter(|endpoint| endpoint.key.kind() == Kind::WorkloadEndpoint);
        let found = workloads().find(|endpoint| endpoint.key == *key)?;
        let before = |other: &Endpoint| {
            (&other.node, &other.interface) == (&found.node, &found.interface) && other.key < found.key
        };
        let policed = found.interface.starts_with(self.settings.workload_prefix.as_str());
        (policed && !workloads().any(before)).then_some(found)
    }

    fn selects(&self, selector: &Selector, member: &Member) -> bool {
        let find = |name: &Text| self.profiles.iter().find(|profile| profile.metadata.name == *name);
        let parents = member.profiles.iter().filter_map(find).map(|profile| &profile.spec.labels_to_apply);
        selector.matches(&Inherited { own: &member.labels, parents: &parents.collect::<Vec<_>>() })
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        self.endpoints.iter().map(|endpoint| &endpoint.member).chain(&self.network_sets)
    }

    fn add(&mut self, resource: &Resource) {
        match resource {
            Resource::WorkloadEndpoint(object) => self.endpoints.extend(workload_endpoint(resource, object)),
            Resource::HostEndpoint(object) => self.endpoints.extend(host_endpoint(resource, object)),
            Resource::Profile(object) => self.profiles.push(object.clone()),
            Resource::Tier(object) => self.tiers.push(object.clone()),
            Resource::GlobalNetworkSet(object) => {
                let labels = object.metadata.labels.clone();
                self.network_sets.push(Member { labels, nets: object.spec.nets.clone(), ..Member::default() });
            }
            Resource::NetworkSet(object) => {
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                let mut labels = object.metadata.labels.clone();
                labels.insert(NAMESPACE_LABEL.into(), namespace.as_str().into());
                let profiles = [["kns.", &namespace].concat().into()].into();
                self.network_sets.push(Member {
                    labels,
                    profiles,
                    nets: object.spec.nets.clone(),
                    ..Member::default()
                });
            }
            Resource::BgpConfiguration(object) if object.metadata.name == SINGLE_NAME => {
                self.services = service_ranges(&object.spec);
            }
            _ => self.policies.extend(Policy::new(resource)),
        }
    }
}

/// Without an address or an interface it takes no part.
fn workload_endpoint(resource: &Resource, object: &Object<WorkloadEndpointSpec>) -> Option<Endpoint> {
    let (metadata, spec) = (&object.metadata, &object.spec);
    // Nobody may claim to be of another namespace or service account.
    let own = metadata.labels.iter().filter(|(key, _)| !key.starts_with("pcns.") && !key.starts_with("pcsa."));
    let mut labels: TextMap = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.extend(metadata.namespace.as_ref().map(|namespace| (NAMESPACE_LABEL.into(), namespace.as_str().into())));
    if !spec.service_account_name.is_empty() {
        labels.insert(rule::SERVICE_ACCOUNT.into(), spec.service_account_name.clone());
    }
    let ports = spec.ports.iter().map(|port| (port.name.to_string(), port.protocol.number(), port.port)).collect();
    let nets: Vec<Cidr> = spec.addresses().collect();
    (!nets.is_empty()).then_some(Endpoint {
        key: resource.key()?,
        node: spec.node.to_string(),
        interface: spec.interface_name?.as_str().to_string(),
        further_sources: spec.allow_spoofed_source_prefixes.clone(),
        member: Member { labels, profiles: spec.profiles.clone(), nets, ports },
    })
}

fn host_endpoint(resource: &Resource, object: &Object<HostEndpointSpec>) -> Option<Endpoint> {
    let spec = &object.spec;
    let ports = spec.ports.iter().filter_map(|port| Some((port.name.clone(), port.protocol?.number(), port.port?)));
    Some(Endpoint {
        key: resource.key()?,
        node: spec.node.clone(),
        interface: spec.interface_name.clone(),
        further_sources: Vec::new(),
        member: Member {
            labels: object.metadata.labels.clone(),
            profiles: spec.profiles.iter().map(|name| name.as_str().into()).collect(),
            nets: spec.expected_ips.iter().copied().map(Cidr::host).collect(),
            ports: ports.collect(),
        },
    })
}

fn service_ranges(spec: &BgpConfigurationSpec) -> Vec<Cidr> {
    let lists = [&spec.service_cluster_ips, &spec.service_external_ips, &spec.service_load_balancer_ips];
    lists.into_iter().flatten().filter_map(|range| range.cidr.parse().ok()).collect()
}
