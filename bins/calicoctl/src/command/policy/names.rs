//! Endpoints as operators name them: `namespace/workload`, `hep/NAME`, an address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use calico_core::net::Cidr;
use calico_core::resource::{Kind, Resource, ResourceKey, WorkloadEndpointName, nearest};

use crate::failure::Failure;

/// How names of host endpoints begin.
const HOST_ENDPOINT: &str = "hep/";
/// Most names that a message lists.
const LISTED: usize = 8;

/// What is known of who is called how.
#[derive(Debug, Default)]
pub(super) struct Names {
    workloads: BTreeMap<ResourceKey, Workload>,
    /// Names as they are shown.
    shown: BTreeMap<ResourceKey, String>,
    host_endpoints: BTreeMap<String, HostEndpoint>,
    by_address: HashMap<IpAddr, Vec<ResourceKey>>,
    hosts: HashMap<IpAddr, String>,
}

/// A workload endpoint by what it is known for.
#[derive(Debug, Clone)]
struct Workload {
    namespace: Arc<str>,
    workload: String,
    interface: String,
    node: String,
    addresses: Vec<IpAddr>,
    /// What endpoints that policy cannot tell apart have in common.
    likeness: String,
}

/// A host endpoint by what it is known for.
#[derive(Debug, Clone)]
struct HostEndpoint {
    node: String,
    addresses: Vec<IpAddr>,
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
    pub(super) fn of(resources: &BTreeMap<ResourceKey, Arc<Resource>>) -> Self {
        let mut names = Self::default();
        for (key, resource) in resources {
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
                    let likeness = format!(
                        "{:?} {:?} {:?} {:?}",
                        endpoint.metadata.labels, spec.profiles, spec.service_account_name, spec.ports
                    );
                    names.workloads.insert(
                        key.clone(),
                        Workload {
                            namespace: key.namespace().unwrap_or_default().into(),
                            workload,
                            interface: parts.map(|parts| parts.endpoint).unwrap_or_default(),
                            node: spec.node.to_string(),
                            addresses,
                            likeness,
                        },
                    );
                }
                Resource::HostEndpoint(endpoint) => {
                    let spec = &endpoint.spec;
                    let known = HostEndpoint { node: spec.node.clone(), addresses: spec.expected_ips.clone() };
                    names.host_endpoints.extend(key.name().map(|name| (name.to_owned(), known)));
                    names.shown.insert(key.clone(), format!("{HOST_ENDPOINT}{}", key.name().unwrap_or_default()));
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
                self.shown.insert((*key).clone(), name);
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

    /// The host endpoint as an end.
    pub(super) fn host_party(&self, key: &ResourceKey) -> Option<Party> {
        let name = key.name().filter(|_| key.kind() == Kind::HostEndpoint)?;
        self.host_endpoint("", name).ok()
    }

    /// All endpoints and what they are called.
    pub(super) fn all(&self) -> impl Iterator<Item = (ResourceKey, String)> {
        self.shown.iter().map(|(key, name)| (key.clone(), name.clone()))
    }

    /// The host that has an address.
    pub(super) fn host_of(&self, address: IpAddr) -> Option<&str> {
        self.hosts.get(&address).map(String::as_str)
    }

    /// Who has an address, to be shown beside it.
    pub(super) fn owner(&self, address: IpAddr) -> Option<String> {
        let workload = self.by_address.get(&address).and_then(|keys| keys.first()).map(|key| self.name(key));
        workload.or_else(|| self.hosts.get(&address).map(|host| format!("host {host}")))
    }

    /// What an operator means. `option` is what he typed it behind.
    pub(super) fn resolve(&self, option: &str, text: &str) -> Result<Meant, Failure> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(self.address(address.to_canonical(), None));
        }
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(self.address(socket.ip().to_canonical(), Some(socket.port())));
        }
        if text.parse::<Cidr>().is_ok() {
            return Err(Failure::Usage(format!("{option} {text} is a prefix: give one address of it")));
        }
        let (bare, port) = match text.rsplit_once(':').map(|(bare, port)| (bare, port.parse::<u16>())) {
            Some((bare, Ok(port))) if port > 0 => (bare, Some(port)),
            Some((_, _)) => {
                return Err(Failure::Usage(format!("{option} {text}: what stands behind the colon is no port")));
            }
            None => (text, None),
        };
        if let Some(name) = bare.strip_prefix(HOST_ENDPOINT) {
            return self.host_endpoint(option, name).map(|party| Meant {
                party,
                name: bare.to_owned(),
                port,
                remarks: Vec::new(),
            });
        }
        self.workload(option, bare).map(|meant| Meant { port, ..meant })
    }

    /// All that an operator means: a namespace and a slash stand for all of it.
    pub(super) fn select(&self, option: &str, text: &str) -> Result<Vec<Meant>, Failure> {
        let Some(namespace) = text.strip_suffix('/').filter(|namespace| !namespace.contains('/')) else {
            let begun = text.split_once('/').map(|(namespace, rest)| self.begun(namespace, rest)).unwrap_or_default();
            return match (self.resolve(option, text), begun.as_slice()) {
                (Ok(meant), [] | [_]) => Ok(vec![meant]),
                // Of one that was named whole there is but one; others only begin so.
                (Ok(meant), _) if meant.name == text => Ok(vec![meant]),
                (Err(error), [] | [_]) => Err(error),
                (_, several) => Ok(several.iter().map(|(key, one)| self.meant(key, one, Vec::new())).collect()),
            };
        };
        let inside = self.workloads().into_iter().filter(|key| key.namespace() == Some(namespace));
        let inside: Vec<_> = inside
            .filter_map(|key| self.workloads.get(&key).map(|workload| self.meant(&key, workload, Vec::new())))
            .collect();
        if inside.is_empty() { Err(self.unknown(option, namespace, text)) } else { Ok(inside) }
    }

    /// Workloads whose name begins so: a pod of a deployment is called by it, a dash and what makes it unique.
    fn begun(&self, namespace: &str, name: &str) -> Vec<(&ResourceKey, &Workload)> {
        let is = |one: &Workload| one.workload.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        self.workloads.iter().filter(|(_, one)| *one.namespace == *namespace && is(one)).collect()
    }

    fn address(&self, address: IpAddr, port: Option<u16>) -> Meant {
        let owners: Vec<&ResourceKey> = self.by_address.get(&address).into_iter().flatten().collect();
        let party = owners.first().and_then(|key| self.workloads.get(*key).map(|workload| (key, workload)));
        let mut remarks = Vec::new();
        let Some((key, workload)) = party else {
            let (party, name) = match self.hosts.get(&address) {
                Some(node) => {
                    remarks.push(format!("{address} is the host {node}"));
                    (Party::Host { node: node.clone(), address }, format!("host {node}"))
                }
                None => (Party::Outside(address), address.to_string()),
            };
            return Meant { party, name, port, remarks };
        };
        let name = self.name(key);
        remarks.push(format!("{address} is the address of {name}"));
        if owners.len() > 1 {
            let others: Vec<_> = owners.iter().skip(1).map(|key| self.name(key)).collect();
            remarks.push(format!("{address} is also the address of {}: the answer is for {name}", others.join(", ")));
        }
        let party = Party::Workload { key: (*key).clone(), node: workload.node.clone(), addresses: vec![address] };
        Meant { party, name, port, remarks }
    }

    fn workload(&self, option: &str, text: &str) -> Result<Meant, Failure> {
        let Some((namespace, rest)) = text.split_once('/') else {
            let hint = self.anywhere(text).map_or_else(String::new, |name| format!("; did you mean {name}?"));
            return Err(Failure::Usage(format!(
                "{option} {text}: give NAMESPACE/WORKLOAD, hep/NAME or an address{hint}"
            )));
        };
        let of_namespace = || self.workloads.iter().filter(move |(_, workload)| *workload.namespace == *namespace);
        let exact: Vec<_> = of_namespace()
            .filter(|(key, one)| {
                let with_interface = rest.strip_prefix(one.workload.as_str()).and_then(|rest| rest.strip_prefix('/'));
                one.workload == rest
                    || key.name() == Some(rest)
                    || with_interface.is_some_and(|rest| rest == one.interface)
            })
            .collect();
        match exact.as_slice() {
            [(key, workload)] => return Ok(self.meant(key, workload, Vec::new())),
            [] => {}
            several => return Err(self.ambiguous(option, text, several)),
        }
        let alike = self.begun(namespace, rest);
        match alike.as_slice() {
            [] => Err(self.unknown(option, namespace, text)),
            [(key, workload), others @ ..] if others.iter().all(|(_, other)| other.likeness == workload.likeness) => {
                let name = self.name(key);
                let remark = match others.len() {
                    0 => format!("{text} is taken for {name}"),
                    more => format!(
                        "{text} is taken for {name}; policy sees no difference between it and {more} more called so"
                    ),
                };
                Ok(self.meant(key, workload, vec![remark]))
            }
            several => Err(self.ambiguous(option, text, several)),
        }
    }

    fn meant(&self, key: &ResourceKey, workload: &Workload, remarks: Vec<String>) -> Meant {
        let party =
            Party::Workload { key: key.clone(), node: workload.node.clone(), addresses: workload.addresses.clone() };
        Meant { party, name: self.name(key), port: None, remarks }
    }

    fn ambiguous(&self, option: &str, text: &str, several: &[(&ResourceKey, &Workload)]) -> Failure {
        let mut lines = vec![format!("{option} {text} may be any of:")];
        for (key, workload) in several.iter().take(LISTED) {
            let addresses: Vec<_> = workload.addresses.iter().map(ToString::to_string).collect();
            lines.push(format!("  {}  ({} on {})", self.name(key), addresses.join(", "), workload.node));
        }
        if several.len() > LISTED {
            lines.push(format!("  and {} more", several.len() - LISTED));
        }
        lines.push("  name one of them, or give its address".into());
        Failure::message(lines.join("\n"))
    }

    fn unknown(&self, option: &str, namespace: &str, text: &str) -> Failure {
        let mut message = format!("{option} {text}: there is no such workload endpoint");
        let names: BTreeSet<String> = self.workloads.keys().map(|key| self.name(key)).collect();
        let inside: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| name.split('/').next() == Some(namespace)).collect();
        if let Some(near) =
            nearest(text, names.iter().map(String::as_str)).map(str::to_owned).or_else(|| self.elsewhere(text))
        {
            message += &format!("\n  did you mean {near}?");
        } else if names.is_empty() {
            message += "\n  there are no workload endpoints at all";
        } else if inside.is_empty() {
            let namespaces: BTreeSet<&str> = self.workloads.values().map(|one| &*one.namespace).collect();
            message += &format!(
                "\n  no endpoint is in the namespace {namespace}; there are some in: {}",
                few(namespaces.into_iter())
            );
        } else {
            message += &format!("\n  in the namespace {namespace} there are: {}", few(inside.into_iter()));
        }
        Failure::message(message)
    }

    /// A workload of that name in another namespace.
    fn elsewhere(&self, text: &str) -> Option<String> {
        self.anywhere(text.split_once('/')?.1)
    }

    /// The only workload of that name, or of a name that begins so.
    fn anywhere(&self, workload: &str) -> Option<String> {
        let is = |one: &Workload| {
            one.workload.strip_prefix(workload).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let mut found = self.workloads.iter().filter(|(_, one)| is(one));
        let (key, _) = found.next()?;
        found.next().is_none().then(|| self.name(key))
    }

    fn host_endpoint(&self, option: &str, name: &str) -> Result<Party, Failure> {
        let mut message = format!("{option} {HOST_ENDPOINT}{name}: there is no such host endpoint");
        let Some(found) = self.host_endpoints.get(name) else {
            let known = self.host_endpoints.keys().map(String::as_str);
            match nearest(name, known.clone()) {
                Some(near) => message += &format!("\n  did you mean {HOST_ENDPOINT}{near}?"),
                None if self.host_endpoints.is_empty() => message += "\n  there are none at all",
                None => message += &format!("\n  there are: {}", few(known)),
            }
            return Err(Failure::message(message));
        };
        let mut addresses = found.addresses.clone();
        if addresses.is_empty() {
            addresses.extend(self.hosts.iter().filter(|(_, host)| **host == found.node).map(|(address, _)| *address));
            addresses.sort_unstable();
        }
        Ok(Party::HostEndpoint {
            key: ResourceKey::cluster(Kind::HostEndpoint, name),
            node: found.node.clone(),
            addresses,
        })
    }
}

fn few<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let text = names.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}
