//! What ends of flows are called: `namespace/workload`, `hep/NAME`, an address. [`super::resolve`] finds them by what operators type.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::resource::{
    EndpointPort, Kind, Object, Resource, ResourceKey, WorkloadEndpointName, WorkloadEndpointSpec,
};
use calico_core::text::{Text, TextMap};

use super::picture::Picture;
use calico_cmd::output::printable;

/// How names of host endpoints begin.
pub(super) const HOST_ENDPOINT: &str = "hep/";

/// What is known of who is called how.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) workloads: BTreeMap<ResourceKey, Workload>,
    /// Names as they are shown.
    shown: BTreeMap<ResourceKey, String>,
    pub(super) host_endpoints: BTreeMap<String, HostEndpoint>,
    pub(super) by_address: HashMap<IpAddr, Vec<ResourceKey>>,
    /// Names of host endpoints by the addresses that they expect.
    pub(super) expected: HashMap<IpAddr, Vec<String>>,
    pub(super) hosts: HashMap<IpAddr, String>,
    /// Workloads by floating addresses that they ask for.
    pub(super) floating: HashMap<IpAddr, BTreeSet<ResourceKey>>,
    /// Services of which addresses are known: policy sees those alone.
    pub(super) services: BTreeSet<(String, String)>,
}

/// A workload endpoint by what it is known for.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) namespace: Arc<str>,
    pub(super) workload: String,
    pub(super) interface: String,
    pub(super) node: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) likeness: Likeness,
}

/// What endpoints that policy cannot tell apart have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Likeness {
    labels: TextMap,
    profiles: Vec<Text>,
    service_account: Text,
    ports: Vec<EndpointPort>,
}

impl Likeness {
    fn of(endpoint: &Object<WorkloadEndpointSpec>) -> Self {
        let spec = &endpoint.spec;
        Self {
            labels: endpoint.metadata.labels.clone(),
            profiles: spec.profiles.clone(),
            service_account: spec.service_account_name.clone(),
            ports: spec.ports.clone(),
        }
    }
}

/// A host endpoint by what it is known for.
#[derive(Debug, Clone)]
pub(super) struct HostEndpoint {
    pub(super) node: String,
    pub(super) addresses: Vec<IpAddr>,
}

/// An end of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Party {
    /// A workload, by one of its addresses.
    Workload { key: ResourceKey, node: String, addresses: Vec<IpAddr> },
    /// A host behind a host endpoint.
    HostEndpoint { key: ResourceKey, node: String, addresses: Vec<IpAddr> },
    /// A host that has none, or which was named by its address.
    Host { node: String, address: IpAddr },
    /// Anybody else.
    Outside(IpAddr),
}

/// What an operator meant, and what to tell him of it.
#[derive(Debug, Clone)]
pub(super) struct Meant {
    pub(super) party: Party,
    /// As it is shown.
    pub(super) name: String,
    pub(super) port: Option<u16>,
    pub(super) remarks: Vec<String>,
}

/// An end, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) name: String,
    pub(super) party: Party,
}

impl From<Meant> for End {
    fn from(meant: Meant) -> Self {
        Self { name: meant.name, party: meant.party }
    }
}

impl Party {
    /// Its addresses.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Workload { addresses, .. } | Self::HostEndpoint { addresses, .. } => addresses,
            Self::Host { address, .. } | Self::Outside(address) => std::slice::from_ref(address),
        }
    }

    /// The host that it is on, if that is one of the cluster.
    pub(super) fn node(&self) -> Option<&str> {
        match self {
            Self::Workload { node, .. } | Self::HostEndpoint { node, .. } | Self::Host { node, .. } => Some(node),
            Self::Outside(_) => None,
        }
    }
}

impl Names {
    pub(super) fn of(picture: &Picture) -> Self {
        let mut names = Self::default();
        let services = picture.slices.values().map(|slice| (slice.namespace.to_string(), slice.service.to_string()));
        names.services.extend(services);
        for (key, resource) in &picture.resources {
            match &**resource {
                Resource::WorkloadEndpoint(endpoint) => {
                    let spec = &endpoint.spec;
                    let parts = key.name().and_then(|name| name.parse::<WorkloadEndpointName>().ok());
                    let workload = parts
                        .as_ref()
                        .map_or_else(|| key.name().unwrap_or_default().to_owned(), |parts| parts.workload.clone());
                    let addresses: Vec<IpAddr> = spec.addresses().map(|net| net.address()).collect();
                    for address in &addresses {
                        names.by_address.entry(*address).or_default().push(key.clone());
                    }
                    for outside in spec.ip_nats.iter().filter_map(|nat| nat.external_ip.parse().ok()) {
                        names.floating.entry(outside).or_default().insert(key.clone());
                    }
                    names.workloads.insert(
                        key.clone(),
                        Workload {
                            namespace: key.namespace().unwrap_or_default().into(),
                            workload,
                            interface: parts.map(|parts| parts.endpoint).unwrap_or_default(),
                            node: spec.node.to_string(),
                            addresses,
                            likeness: Likeness::of(endpoint),
                        },
                    );
                }
                Resource::HostEndpoint(endpoint) => {
                    let spec = &endpoint.spec;
                    let known = HostEndpoint { node: spec.node.clone(), addresses: spec.expected_ips.clone() };
                    let name = key.name().unwrap_or_default().to_owned();
                    for address in &known.addresses {
                        names.expected.entry(*address).or_default().push(name.clone());
                    }
                    names.shown.insert(key.clone(), printable(&format!("{HOST_ENDPOINT}{name}")));
                    names.host_endpoints.insert(name, known);
                }
                Resource::Node(node) => {
                    let bgp = node.spec.bgp.iter();
                    let own = bgp
                        .flat_map(|bgp| [&bgp.ipv4_address, &bgp.ipv6_address])
                        .flatten()
                        .map(|address| address.to_string());
                    let listed = node.spec.addresses.iter().map(|listed| listed.address.clone());
                    for text in own.chain(listed) {
                        let bare = text.split('/').next().unwrap_or_default();
                        if let (Ok(address), Some(name)) = (bare.parse(), key.name()) {
                            names.hosts.insert(address, name.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        names.show();
        names
    }

    /// Chooses the shortest name that tells each workload from the others.
    fn show(&mut self) {
        let mut short: BTreeMap<(Arc<str>, &str), Vec<&ResourceKey>> = BTreeMap::new();
        for (key, workload) in &self.workloads {
            short.entry((Arc::clone(&workload.namespace), &workload.workload)).or_default().push(key);
        }
        for ((namespace, workload), keys) in short {
            let interfaces: BTreeSet<_> =
                keys.iter().filter_map(|key| self.workloads.get(*key)).map(|one| one.interface.as_str()).collect();
            for key in &keys {
                let interface = self.workloads.get(*key).map(|one| one.interface.as_str()).unwrap_or_default();
                let name = if keys.len() == 1 {
                    format!("{namespace}/{workload}")
                } else if interfaces.len() == keys.len() {
                    format!("{namespace}/{workload}/{interface}")
                } else {
                    format!("{namespace}/{}", key.name().unwrap_or_default())
                };
                self.shown.insert((*key).clone(), printable(&name));
            }
        }
    }

    /// As an endpoint is shown.
    pub(super) fn name(&self, key: &ResourceKey) -> String {
        self.shown.get(key).cloned().unwrap_or_else(|| key.to_string())
    }

    /// Workload endpoints, in the order of what they are called.
    pub(super) fn workloads(&self) -> Vec<ResourceKey> {
        let mut keys: Vec<_> = self.workloads.keys().cloned().collect();
        keys.sort_by_key(|key| self.name(key));
        keys
    }

    /// The workload as an end.
    pub(super) fn party(&self, key: &ResourceKey) -> Option<Party> {
        let workload = self.workloads.get(key)?;
        Some(Party::Workload { key: key.clone(), node: workload.node.clone(), addresses: workload.addresses.clone() })
    }

    /// The host endpoint as an end. One that expects no address has those of its host.
    pub(super) fn host_party(&self, key: &ResourceKey) -> Option<Party> {
        let found = self.host_endpoints.get(key.name().filter(|_| key.kind() == Kind::HostEndpoint)?)?;
        let mut addresses = found.addresses.clone();
        if addresses.is_empty() {
            addresses.extend(self.hosts.iter().filter(|(_, host)| **host == found.node).map(|(address, _)| *address));
            addresses.sort_unstable();
        }
        Some(Party::HostEndpoint { key: key.clone(), node: found.node.clone(), addresses })
    }

    /// All endpoints and what they are called.
    pub(super) fn all(&self) -> impl Iterator<Item = (ResourceKey, String)> {
        self.shown.iter().map(|(key, name)| (key.clone(), name.clone()))
    }

    /// Addresses that are somebody's.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_address.keys().chain(self.expected.keys()).chain(self.hosts.keys()).copied()
    }

    /// The host that has an address.
    pub(super) fn host_of(&self, address: IpAddr) -> Option<&str> {
        self.hosts.get(&address).map(String::as_str)
    }

    /// Who has an address, to be shown beside it.
    pub(super) fn owner(&self, address: IpAddr) -> Option<String> {
        let workload = self.by_address.get(&address).and_then(|keys| keys.first()).map(|key| self.name(key));
        let expected = || self.expected.get(&address)?.first().map(|name| printable(&format!("{HOST_ENDPOINT}{name}")));
        workload.or_else(expected).or_else(|| self.hosts.get(&address).map(|host| format!("host {host}")))
    }
}
