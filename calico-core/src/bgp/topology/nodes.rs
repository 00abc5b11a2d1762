//! Nodes as far as BGP cares: who they are, and what selectors see of them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use sha2::{Digest as _, Sha256};

use super::problem::BgpProblem;
use crate::bgp::ByFamily;
use crate::net::{AsNumber, Family};
use crate::resource::{NodeAddress, NodeSpec, Resource};
use crate::text::TextMap;

/// Label of a node that announces no services.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Where a node's BGP identifier comes from (upstream: `CALICO_ROUTER_ID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "upstream's three")]
pub enum RouterIdSource {
    /// Its IPv4 address.
    #[default]
    NodeAddress,
    /// Its name.
    NameHash,
    /// Whoever started it.
    Literal(Ipv4Addr),
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Node {
    pub(super) labels: TextMap,
    /// As a speaker; none if it has no BGP settings or AS 0.
    pub(super) speaker: Speaker,
}

/// What a node is in BGP. Without an address it is nobody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Speaker {
    pub(super) address: ByFamily<Option<NodeAddress>>,
    pub(super) as_number: Option<AsNumber>,
    /// Cluster id as written; a node with any takes no part in the mesh.
    pub(super) cluster_id: Option<String>,
    /// Address of its WireGuard device.
    pub(super) wireguard: ByFamily<bool>,
}

pub(super) type Nodes = BTreeMap<Arc<str>, Node>;

impl Node {
    pub(super) fn new(resource: &Resource) -> Option<Self> {
        let Resource::Node(node) = resource else { return None };
        Some(Self { labels: node.metadata.labels.clone(), speaker: Speaker::new(&node.spec) })
    }

    /// Whether it announces services.
    pub(super) fn announces_services(&self) -> bool {
        self.labels.get(EXCLUDED).is_none_or(|value| *value != "true")
    }
}

impl Speaker {
    fn new(node: &NodeSpec) -> Self {
        let Some(bgp) = node.bgp.as_ref().filter(|bgp| !bgp.as_number.is_some_and(AsNumber::is_nobodys)) else {
            return Self::default();
        };
        let of = |address: Option<NodeAddress>, family| address.filter(|address| address.family() == family);
        let wireguard = node.wireguard.as_ref();
        Self {
            address: ByFamily { ipv4: of(bgp.ipv4_address, Family::V4), ipv6: of(bgp.ipv6_address, Family::V6) },
            as_number: bgp.as_number,
            cluster_id: bgp.route_reflector_cluster_id.clone().filter(|id| !id.is_empty()),
            wireguard: ByFamily {
                ipv4: wireguard.is_some_and(|device| !device.interface_ipv4_address.is_empty()),
                ipv6: wireguard.is_some_and(|device| !device.interface_ipv6_address.is_empty()),
            },
        }
    }

    /// Its address of a family.
    pub(super) fn address(&self, family: Family) -> Option<IpAddr> {
        self.address.get(family).map(NodeAddress::address)
    }

    /// All of its addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        [Family::V4, Family::V6].into_iter().filter_map(|family| self.address(family))
    }

    pub(super) fn is_nobody(&self) -> bool {
        self.addresses().next().is_none()
    }

    /// Whether it is a route reflector, by what it says; such a node takes no part in the mesh.
    pub(super) const fn reflects(&self) -> bool {
        self.cluster_id.is_some()
    }

    /// Its BGP identifier.
    pub(super) fn router_id(&self, name: &str, source: RouterIdSource) -> Option<Ipv4Addr> {
        match (source, self.address(Family::V4)) {
            (RouterIdSource::Literal(id), _) => Some(id),
            (RouterIdSource::NameHash, _) => Some(hashed(name)),
            (RouterIdSource::NodeAddress, Some(IpAddr::V4(address))) => Some(address),
            (RouterIdSource::NodeAddress, _) => None,
        }
    }
}

/// Upstream's identifier of a name: as many hosts of a cluster have it, so must ours.
fn hashed(name: &str) -> Ipv4Addr {
    let digest: [u8; 32] = Sha256::digest(name).into();
    let [first, second, third, fourth, ..] = digest;
    Ipv4Addr::new(if first > 223 { first - 32 } else { first }, second, third, fourth)
}

/// What is odd about nodes beside each other.
pub(super) fn same_addresses(nodes: &Nodes) -> Vec<(Arc<str>, BgpProblem)> {
    let mut owners: BTreeMap<IpAddr, &Arc<str>> = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, node) in nodes {
        for address in node.speaker.addresses() {
            let by = *owners.entry(address).or_insert(name);
            if by != name {
                let family = Family::of(address);
                problems.push((name.clone(), BgpProblem::SameAddress { family, address, by: by.clone() }));
            }
        }
    }
    problems
}
