//! Pools, nodes and BGP peers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::super as v3;
use super::{Older, names};
use crate::net::{AsNumber, Cidr, Family};
use crate::resource::formats::STRICT_CIDR;
use crate::resource::limit::Limit;
use crate::resource::model::model;
use crate::resource::{Fault, Metadata, Resource};

model! {
    /// `ipPool`.
    pub struct IpPool {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: IpPoolMetadata, required;
        /// What is wanted.
        "spec" spec: IpPoolSpec;
    }
}

model! {
    /// What identifies an `ipPool`.
    pub struct IpPoolMetadata {
        /// The range.
        "cidr" cidr: String, required where [Limit::Text(&STRICT_CIDR)];
    }
}

model! {
    /// Specification of an `ipPool`.
    pub struct IpPoolSpec {
        /// IP-in-IP encapsulation.
        "ipip" ipip: Option<Ipip>;
        /// Whether traffic that leaves the pools is masqueraded.
        "nat-outgoing" nat_outgoing: bool;
        /// Whether new allocations avoid it.
        "disabled" disabled: bool;
    }
}

model! {
    /// IP-in-IP encapsulation.
    pub struct Ipip {
        /// Whether there is any.
        "enabled" enabled: bool;
        /// `always` or `cross-subnet`.
        "mode" mode: String where [Limit::AnyCase(&["always", "cross-subnet"])];
    }
}

impl Older for IpPool {
    fn convert(self) -> Result<Resource, Fault> {
        let text = self.metadata.cidr;
        let cidr: Cidr =
            text.parse().map_err(|error| Fault::value("metadata.cidr", Some(text.clone()), format!("{error}")))?;
        let ipip_mode = match self.spec.ipip.filter(|ipip| ipip.enabled) {
            None => v3::EncapMode::Never,
            Some(ipip) if ipip.mode.eq_ignore_ascii_case("cross-subnet") => v3::EncapMode::CrossSubnet,
            Some(_) => v3::EncapMode::Always,
        };
        let spec = v3::IpPoolSpec {
            cidr,
            vxlan_mode: v3::EncapMode::Never,
            ipip_mode,
            nat_outgoing: self.spec.nat_outgoing,
            disabled: self.spec.disabled,
            disable_bgp_export: false,
            block_size: Some(match cidr.family() {
                Family::V4 => 26,
                Family::V6 => 122,
            }),
            node_selector: Some("all()".into()),
            namespace_selector: None,
            allowed_uses: [v3::AllowedUse::Workload, v3::AllowedUse::Tunnel].into(),
            assignment_mode: v3::AssignmentMode::Automatic,
        };
        Ok(Resource::IpPool(v3::IpPool::new(named(names::of_cidr(&cidr)), spec)))
    }
}

model! {
    /// `bgpPeer`.
    pub struct BgpPeer {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: BgpPeerMetadata, required;
        /// What is wanted.
        "spec" spec: BgpPeerSpec, required;
    }
}

model! {
    /// What identifies a `bgpPeer`.
    pub struct BgpPeerMetadata {
        /// `global`, or `node`: of one node.
        "scope" scope: String, required where [Limit::OneOf(&["global", "node"])];
        /// The node.
        "node" node: String;
        /// The other end.
        "peerIP" peer_ip: Option<IpAddr>, required;
    }
}

model! {
    /// Specification of a `bgpPeer`.
    pub struct BgpPeerSpec {
        /// AS number of the other end.
        "asNumber" as_number: Option<AsNumber>, required;
    }
}

impl Older for BgpPeer {
    fn convert(self) -> Result<Resource, Fault> {
        let BgpPeerMetadata { scope, node, peer_ip } = self.metadata;
        let peer = peer_ip.ok_or_else(|| Fault::missing("metadata.peerIP"))?;
        let node = match (scope.as_str(), node.as_str()) {
            ("node", "") => return Err(Fault::missing("metadata.node")),
            ("node", node) => names::normalised(node),
            (_, "") => String::new(),
            (_, node) => {
                let reason = "a peer of global scope belongs to no node: make the scope node, or leave the node out";
                return Err(Fault::value("metadata.node", Some(node.into()), reason));
            }
        };
        let address = names::of_address(peer);
        let name = if node.is_empty() { address } else { format!("{node}.{address}") };
        let spec = v3::BgpPeerSpec {
            node,
            peer_ip: format!("{peer}"),
            as_number: self.spec.as_number,
            ..v3::BgpPeerSpec::default()
        };
        Ok(Resource::BgpPeer(v3::Object { metadata: named(name), spec }.into()))
    }
}

model! {
    /// `node`.
    pub struct Node {
        /// Its kind.
        "kind" kind: String;
        /// Its version.
        "apiVersion" api_version: String;
        /// What identifies it.
        "metadata" metadata: NodeMetadata, required;
        /// What is wanted.
        "spec" spec: NodeSpec;
    }
}

model! {
    /// What identifies a `node`.
    pub struct NodeMetadata {
        /// Its name.
        "name" name: String, required;
    }
}

model! {
    /// Specification of a `node`.
    pub struct NodeSpec {
        /// BGP settings.
        "bgp" bgp: Option<NodeBgpSpec>;
        /// What orchestrators call the node.
        "orchRefs" orch_refs: Vec<v3::OrchRef>;
    }
}

model! {
    /// BGP settings of a `node`.
    pub struct NodeBgpSpec {
        /// AS number, where it differs from the cluster's.
        "asNumber" as_number: Option<AsNumber>;
        /// IPv4 address and the length of its subnet.
        "ipv4Address" ipv4_address: Option<v3::NodeAddress>;
        /// IPv6 address and the length of its subnet.
        "ipv6Address" ipv6_address: Option<v3::NodeAddress>;
    }
}

impl Older for Node {
    fn convert(self) -> Result<Resource, Fault> {
        let bgp = self.spec.bgp.map(|bgp| {
            if bgp.ipv4_address.is_none() && bgp.ipv6_address.is_none() {
                return Err(Fault::value("spec.bgp", None, "ipv4Address or ipv6Address is required"));
            }
            Ok(v3::NodeBgpSpec {
                as_number: bgp.as_number,
                ipv4_address: bgp.ipv4_address,
                ipv6_address: bgp.ipv6_address,
                ..v3::NodeBgpSpec::default()
            })
        });
        let spec = v3::NodeSpec { bgp: bgp.transpose()?, orch_refs: self.spec.orch_refs, ..v3::NodeSpec::default() };
        let metadata = named(names::normalised(&self.metadata.name));
        Ok(Resource::Node(v3::ReportedObject::new(metadata, spec).into()))
    }
}

pub(super) fn named(name: String) -> Metadata {
    Metadata { name, ..Metadata::default() }
}
