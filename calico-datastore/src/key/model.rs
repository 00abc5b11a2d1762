//! Keys of upstream's older model: what Felix and confd see of v3 objects, what goes over Typha's wire, and the status that Felix
//! writes. Of these only the status keys lie in a datastore.
//!
//! Comes in: a [`ModelKey`]; goes out: its path, and back. Names of endpoints, workloads, orchestrators, profiles and network sets are
//! escaped (`%` as `%25`, `/` as `%2f`, and nothing else); those of hosts, tiers and policies are written as they are. Upstream's
//! parser unescapes some of the latter as well; here what is written raw is read raw.
//!
//! Invariant: `parse(path(key)) == key` for every key that has a path, and two keys never share one.
//!
//! For embedders: whoever shows what upstream's Felix says of a host, or answers a Typha or confd. The programs of this tree go by the v3
//! objects alone and have no use for it.
//!
//! ```
//! use calico_datastore::model::{ModelKey, WorkloadId};
//!
//! // Under what path does the Felix of a host say that it is alive?
//! let alive = ModelKey::ActiveStatus { region: None, host: "a".into() };
//! assert_eq!(alive.path()?, "/calico/felix/v2/no-region/host/a/status");
//!
//! // And which endpoint is this about?
//! let path = "/calico/felix/v2/no-region/host/a/workload/k8s/default%2fpod/endpoint/eth0";
//! let endpoint = WorkloadId {
//!     host: "a".into(),
//!     orchestrator: "k8s".into(),
//!     workload: "default/pod".into(),
//!     endpoint: "eth0".into(),
//! };
//! assert_eq!(ModelKey::parse(path), Some(ModelKey::WorkloadStatus { region: None, endpoint }));
//! # Ok::<(), calico_datastore::model::ModelKeyError>(())
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use calico_core::net::{Cidr, Family};

/// A key of the older model. See the module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ModelKey {
    /// Whether the datastore is ready (`ClusterInformation`).
    Ready,
    /// A setting of all Felixes, by its name there.
    GlobalConfig(Arc<str>),
    /// A setting of one host's Felix.
    HostConfig {
        /// Host.
        host: Arc<str>,
        /// Setting.
        name: Arc<str>,
    },
    /// That a host exists.
    HostMetadata(Arc<str>),
    /// What orchestrators call a host.
    OrchestratorRefs(Arc<str>),
    /// A host's WireGuard keys and addresses.
    WireGuard(Arc<str>),
    /// A workload's endpoint.
    WorkloadEndpoint(WorkloadId),
    /// A host's endpoint.
    HostEndpoint(HostEndpointId),
    /// A network set; `<namespace>/<name>` for one in a namespace.
    NetworkSet(Arc<str>),
    /// An IP pool.
    IpPool(Cidr),
    /// A tier.
    Tier(Arc<str>),
    /// A policy.
    Policy {
        /// Kind.
        kind: PolicyKind,
        /// Namespace; none for a kind of the whole cluster.
        namespace: Option<Arc<str>>,
        /// Name.
        name: Arc<str>,
    },
    /// A profile's rules.
    ProfileRules(Arc<str>),
    /// A profile's labels.
    ProfileLabels(Arc<str>),
    /// A setting of BGP for all nodes, such as `as_num`.
    BgpGlobalConfig(Arc<str>),
    /// A setting of BGP for one node.
    BgpNodeConfig {
        /// Node.
        node: Arc<str>,
        /// Setting.
        name: Arc<str>,
    },
    /// A peer of all nodes.
    BgpGlobalPeer(BgpPeerAddress),
    /// A peer of one node.
    BgpNodePeer {
        /// Node.
        node: Arc<str>,
        /// Peer.
        peer: BgpPeerAddress,
    },
    /// A node that speaks BGP.
    BgpNode(Arc<str>),
    /// That a host's Felix is alive; has a life time.
    ActiveStatus {
        /// OpenStack's region, if there is one.
        region: Option<Arc<str>>,
        /// Host.
        host: Arc<str>,
    },
    /// What a host's Felix last said of itself.
    LastStatus {
        /// OpenStack's region, if there is one.
        region: Option<Arc<str>>,
        /// Host.
        host: Arc<str>,
    },
    /// Whether a workload's endpoint is up.
    WorkloadStatus {
        /// OpenStack's region, if there is one.
        region: Option<Arc<str>>,
        /// Endpoint.
        endpoint: WorkloadId,
    },
    /// Whether a host's endpoint is up.
    HostEndpointStatus(HostEndpointId),
}

/// Which endpoint of which workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; the path has these four parts")]
pub struct WorkloadId {
    /// Host.
    pub host: Arc<str>,
    /// Orchestrator, such as `k8s`.
    pub orchestrator: Arc<str>,
    /// Workload, such as `<namespace>/<pod>`.
    pub workload: Arc<str>,
    /// Endpoint, such as `eth0`.
    pub endpoint: Arc<str>,
}

/// Which endpoint of which host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; the path has these two parts")]
pub struct HostEndpointId {
    /// Host.
    pub host: Arc<str>,
    /// Endpoint.
    pub endpoint: Arc<str>,
}

/// Where a BGP peer listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BgpPeerAddress {
    address: IpAddr,
    port: u16,
}

/// BGP's own port, which a path does not say.
const BGP_PORT: u16 = 179;

impl BgpPeerAddress {
    /// A peer at a port; zero means BGP's own.
    pub const fn new(address: IpAddr, port: u16) -> Self {
        Self { address, port: if port == 0 { BGP_PORT } else { port } }
    }

    /// Its address.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// Its port, never zero.
    pub const fn port(self) -> u16 {
        self.port
    }

    /// `peer_v4/10.0.0.1`, `peer_v6/fd00::1-1790`.
    fn path(self) -> String {
        let version = if self.address.is_ipv4() { 4 } else { 6 };
        match self.port {
            BGP_PORT => format!("peer_v{version}/{}", self.address),
            port => format!("peer_v{version}/{}-{port}", self.address),
        }
    }

    fn parse(segments: &[&str]) -> Option<Self> {
        let [version, text] = segments else { return None };
        let (address, port) = match text.split_once('-') {
            Some((address, port)) => (address, port.parse().ok()?),
            None => (*text, BGP_PORT),
        };
        let peer = Self::new(address.parse().ok()?, port);
        (*version == if peer.address.is_ipv4() { "peer_v4" } else { "peer_v6" }).then_some(peer)
    }
}

macro_rules! policy_kinds {
    ($($(#[$doc:meta])* $kind:ident),* $(,)?) => {
        /// Kinds of policies in the older model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum PolicyKind {
            $(#[doc = concat!("`", stringify!($kind), "`.")] $kind,)*
        }

        impl PolicyKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// As in a path.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }
        }
    };
}

policy_kinds!(
    NetworkPolicy,
    GlobalNetworkPolicy,
    StagedNetworkPolicy,
    StagedGlobalNetworkPolicy,
    StagedKubernetesNetworkPolicy,
    KubernetesNetworkPolicy,
    KubernetesClusterNetworkPolicy,
);

impl PolicyKind {
    /// Whether policies of this kind live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        use PolicyKind::{KubernetesNetworkPolicy, NetworkPolicy, StagedKubernetesNetworkPolicy, StagedNetworkPolicy};
        matches!(self, NetworkPolicy | StagedNetworkPolicy | StagedKubernetesNetworkPolicy | KubernetesNetworkPolicy)
    }
}

/// A key that has no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {text:?} cannot be part of a key: {reason}")]
pub struct ModelKeyError {
    part: &'static str,
    text: String,
    reason: &'static str,
}

impl ModelKey {
    /// The path.
    ///
    /// # Errors
    /// When a name is empty, or has a `/` where it is written as it is.
    pub fn path(&self) -> Result<String, ModelKeyError> {
        Ok(match self {
            Self::Ready => "/calico/v1/Ready".to_owned(),
            Self::GlobalConfig(name) => format!("/calico/v1/config/{}", some("setting", name)?),
            Self::HostConfig { host, name } => {
                format!("/calico/v1/host/{}/config/{}", raw("host", host)?, some("setting", name)?)
            }
            Self::HostMetadata(host) => format!("/calico/v1/host/{}/metadata", raw("host", host)?),
            Self::OrchestratorRefs(host) => format!("/calico/v1/host/{}/orchestrator_refs", raw("host", host)?),
            Self::WireGuard(host) => format!("/calico/v1/host/{}/wireguard", raw("host", host)?),
            Self::WorkloadEndpoint(id) => format!("/calico/v1/{}", id.path()?),
            Self::HostEndpoint(id) => format!("/calico/v1/{}", id.path()?),
            Self::NetworkSet(name) => format!("/calico/v1/netset/{}", escaped("network set", name)?),
            Self::IpPool(pool) => {
                format!("/calico/v1/ipam/{}/pool/{}-{}", version(pool), pool.address(), pool.length())
            }
            Self::Tier(name) => format!("/calico/v1/policy/tier/{}/metadata", raw("tier", name)?),
            Self::Policy { kind, namespace, name } => policy_path(*kind, namespace.as_deref(), name)?,
            Self::ProfileRules(name) => format!("/calico/v1/policy/profile/{}/rules", escaped("profile", name)?),
            Self::ProfileLabels(name) => format!("/calico/v1/policy/profile/{}/labels", escaped("profile", name)?),
            Self::BgpGlobalConfig(name) => format!("/calico/bgp/v1/global/{}", bgp_setting(name)?),
            Self::BgpNodeConfig { node, name } => {
                format!("/calico/bgp/v1/host/{}/{}", raw("node", node)?, bgp_setting(name)?)
            }
            Self::BgpGlobalPeer(peer) => format!("/calico/bgp/v1/global/{}", peer.path()),
            Self::BgpNodePeer { node, peer } => format!("/calico/bgp/v1/host/{}/{}", raw("node", node)?, peer.path()),
            Self::BgpNode(node) => format!("/calico/bgp/v1/host/{}", raw("node", node)?),
            Self::ActiveStatus { region, host } => {
                format!("/calico/felix/v2/{}/host/{}/status", region_segment(region)?, raw("host", host)?)
            }
            Self::LastStatus { region, host } => {
                format!("/calico/felix/v2/{}/host/{}/last_reported_status", region_segment(region)?, raw("host", host)?)
            }
            Self::WorkloadStatus { region, endpoint } => {
                format!("/calico/felix/v2/{}/{}", region_segment(region)?, endpoint.path()?)
            }
            Self::HostEndpointStatus(id) => format!("/calico/felix/v1/{}", id.path()?),
        })
    }

    /// The key at a path, with or without the `/` before it (the ready flag: with). `None` for what is no such key.
    ///
    /// A policy of the layout before version 3.32 is read, too; what its path says of its tier is [`legacy_tier`](Self::legacy_tier).
    pub fn parse(path: &str) -> Option<Self> {
        if path == "/calico/v1/Ready" {
            return Some(Self::Ready);
        }
        let segments: Vec<_> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        match segments.as_slice() {
            ["calico", "v1", "policy", rest @ ..] => parse_policy(rest),
            ["calico", "v1", rest @ ..] => parse_v1(rest),
            ["calico", "bgp", "v1", rest @ ..] => parse_bgp(rest),
            ["calico", "felix", version, rest @ ..] => parse_status(version, rest),
            _ => None,
        }
    }

    /// The tier in the path of a policy of the layout before version 3.32, whose value does not say it.
    pub fn legacy_tier(path: &str) -> Option<&str> {
        let (tier, name) =
            path.trim_start_matches('/').strip_prefix("calico/v1/policy/tier/")?.split_once("/policy/")?;
        (!tier.is_empty() && !tier.contains('/') && !name.is_empty() && !name.contains('/')).then_some(tier)
    }
}

impl WorkloadId {
    fn path(&self) -> Result<String, ModelKeyError> {
        let host = raw("host", &self.host)?;
        let orchestrator = escaped("orchestrator", &self.orchestrator)?;
        let workload = escaped("workload", &self.workload)?;
        Ok(format!("host/{host}/workload/{orchestrator}/{workload}/endpoint/{}", escaped("endpoint", &self.endpoint)?))
    }

    fn parse(host: &str, orchestrator: &str, workload: &str, endpoint: &str) -> Option<Self> {
        let [orchestrator, workload, endpoint] = [orchestrator, workload, endpoint].map(unescaped);
        Some(Self { host: name(host)?, orchestrator: orchestrator?, workload: workload?, endpoint: endpoint? })
    }
}

impl HostEndpointId {
    fn path(&self) -> Result<String, ModelKeyError> {
        Ok(format!("host/{}/endpoint/{}", raw("host", &self.host)?, escaped("endpoint", &self.endpoint)?))
    }

    fn parse(host: &str, endpoint: &str) -> Option<Self> {
        Some(Self { host: name(host)?, endpoint: unescaped(endpoint)? })
    }
}

fn policy_path(kind: PolicyKind, namespace: Option<&str>, name: &str) -> Result<String, ModelKeyError> {
    let fault =
        |reason| Err(ModelKeyError { part: "namespace", text: namespace.unwrap_or_default().to_owned(), reason });
    let namespace = match (kind.is_namespaced(), namespace) {
        (true, Some(namespace)) => raw("namespace", namespace)?,
        (false, None) => "",
        (true, None) => return fault("the kind needs one"),
        (false, Some(_)) => return fault("the kind has none"),
    };
    Ok(format!("/calico/v1/policy/{}/{namespace}/{}", kind.name(), raw("policy", name)?))
}

fn parse_policy(segments: &[&str]) -> Option<ModelKey> {
    Some(match segments {
        ["tier", tier, "metadata"] => ModelKey::Tier(name(tier)?),
        ["tier", tier, "policy", policy] => {
            name(tier)?;
            legacy_policy(&unescaped(policy)?)?
        }
        ["profile", profile, "rules"] => ModelKey::ProfileRules(unescaped(profile)?),
        ["profile", profile, "labels"] => ModelKey::ProfileLabels(unescaped(profile)?),
        [kind, namespace, policy] => {
            let kind = *PolicyKind::ALL.iter().find(|known| known.name() == *kind)?;
            let namespace = name(namespace);
            if kind.is_namespaced() != namespace.is_some() {
                return None;
            }
            ModelKey::Policy { kind, namespace, name: name(policy)? }
        }
        _ => return None,
    })
}

/// What prefixes said before a path said the kind.
fn legacy_policy(text: &str) -> Option<ModelKey> {
    use PolicyKind::{
        GlobalNetworkPolicy, KubernetesClusterNetworkPolicy, KubernetesNetworkPolicy, NetworkPolicy,
        StagedGlobalNetworkPolicy, StagedKubernetesNetworkPolicy, StagedNetworkPolicy,
    };
    let (namespace, rest) = match text.split_once('/') {
        Some((namespace, rest)) => (Some(name(namespace)?), rest),
        None => (None, text),
    };
    let prefixes: &[(&str, PolicyKind)] = match namespace {
        Some(_) => &[
            ("knp.default.", KubernetesNetworkPolicy),
            ("staged:knp.default.", StagedKubernetesNetworkPolicy),
            ("staged:", StagedNetworkPolicy),
            ("", NetworkPolicy),
        ],
        None => &[
            ("staged:", StagedGlobalNetworkPolicy),
            ("kcnp.", KubernetesClusterNetworkPolicy),
            ("", GlobalNetworkPolicy),
        ],
    };
    let (policy, kind) = prefixes.iter().find_map(|(prefix, kind)| Some((rest.strip_prefix(prefix)?, *kind)))?;
    (!policy.contains('/')).then_some(())?;
    Some(ModelKey::Policy { kind, namespace, name: name(policy)? })
}

fn parse_v1(segments: &[&str]) -> Option<ModelKey> {
    Some(match segments {
        ["config", setting @ ..] => ModelKey::GlobalConfig(joined(setting)?),
        ["host", host, "config", setting @ ..] => ModelKey::HostConfig { host: name(host)?, name: joined(setting)? },
        ["host", host, "metadata"] => ModelKey::HostMetadata(name(host)?),
        ["host", host, "orchestrator_refs"] => ModelKey::OrchestratorRefs(name(host)?),
        ["host", host, "wireguard"] => ModelKey::WireGuard(name(host)?),
        ["host", host, "workload", orchestrator, workload, "endpoint", endpoint] => {
            ModelKey::WorkloadEndpoint(WorkloadId::parse(host, orchestrator, workload, endpoint)?)
        }
        ["host", host, "endpoint", endpoint] => ModelKey::HostEndpoint(HostEndpointId::parse(host, endpoint)?),
        ["netset", set] => ModelKey::NetworkSet(unescaped(set)?),
        ["ipam", family, "pool", text] => {
            let (address, length) = text.split_once('-')?;
            let pool = Cidr::new(address.parse().ok()?, length.parse().ok()?)?;
            // An alias would be a second path of the same key.
            let is_canonical = version(&pool) == *family && format!("{}-{}", pool.address(), pool.length()) == *text;
            is_canonical.then_some(ModelKey::IpPool(pool))?
        }
        _ => return None,
    })
}

fn parse_bgp(segments: &[&str]) -> Option<ModelKey> {
    let is_peer = |rest: &[&str]| matches!(rest, ["peer_v4" | "peer_v6", _, ..]);
    Some(match segments {
        ["global", rest @ ..] if is_peer(rest) => ModelKey::BgpGlobalPeer(BgpPeerAddress::parse(rest)?),
        ["global", setting @ ..] => ModelKey::BgpGlobalConfig(joined(setting)?),
        ["host", node] => ModelKey::BgpNode(name(node)?),
        ["host", node, rest @ ..] if is_peer(rest) => {
            ModelKey::BgpNodePeer { node: name(node)?, peer: BgpPeerAddress::parse(rest)? }
        }
        ["host", node, setting @ ..] => ModelKey::BgpNodeConfig { node: name(node)?, name: joined(setting)? },
        _ => return None,
    })
}

fn parse_status(version: &str, segments: &[&str]) -> Option<ModelKey> {
    Some(match (version, segments) {
        ("v1", ["host", host, "endpoint", endpoint]) => {
            ModelKey::HostEndpointStatus(HostEndpointId::parse(host, endpoint)?)
        }
        ("v2", [region, "host", host, "status"]) => {
            ModelKey::ActiveStatus { region: parse_region(region)?, host: name(host)? }
        }
        ("v2", [region, "host", host, "last_reported_status"]) => {
            ModelKey::LastStatus { region: parse_region(region)?, host: name(host)? }
        }
        ("v2", [region, "host", host, "workload", orchestrator, workload, "endpoint", endpoint]) => {
            let endpoint = WorkloadId::parse(host, orchestrator, workload, endpoint)?;
            ModelKey::WorkloadStatus { region: parse_region(region)?, endpoint }
        }
        _ => return None,
    })
}

fn region_segment(region: &Option<Arc<str>>) -> Result<String, ModelKeyError> {
    match region {
        None => Ok("no-region".to_owned()),
        Some(region) => Ok(format!("region-{}", raw("region", region)?)),
    }
}

/// No region is a region; a segment that is neither is no key.
fn parse_region(segment: &str) -> Option<Option<Arc<str>>> {
    if segment == "no-region" {
        return Some(None);
    }
    name(segment.strip_prefix("region-")?).map(Some)
}

fn version(pool: &Cidr) -> &'static str {
    match pool.family() {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}

/// A name that is written as it is, in one segment.
fn raw<'a>(part: &'static str, text: &'a str) -> Result<&'a str, ModelKeyError> {
    if text.contains('/') {
        return Err(ModelKeyError { part, text: text.to_owned(), reason: "it has a \"/\"" });
    }
    some(part, text)
}

/// A name that is written as it is, in any number of segments.
fn some<'a>(part: &'static str, text: &'a str) -> Result<&'a str, ModelKeyError> {
    if text.is_empty() {
        return Err(ModelKeyError { part, text: String::new(), reason: "it is empty" });
    }
    Ok(text)
}

fn bgp_setting(text: &str) -> Result<&str, ModelKeyError> {
    if text.starts_with("peer_v4/") || text.starts_with("peer_v6/") {
        return Err(ModelKeyError { part: "setting", text: text.to_owned(), reason: "it would be a peer" });
    }
    some("setting", text)
}

fn escaped(part: &'static str, text: &str) -> Result<String, ModelKeyError> {
    Ok(some(part, text)?.replace('%', "%25").replace('/', "%2f"))
}

fn name(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn joined(segments: &[&str]) -> Option<Arc<str>> {
    name(&segments.join("/"))
}

fn unescaped(text: &str) -> Option<Arc<str>> {
    name(&text.replace("%2f", "/").replace("%25", "%"))
}

#[cfg(test)]
mod tests;
