//! `Node`: a host that takes part.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use super::formats::{IPV4, IPV6, MAC, WIREGUARD_KEY};
use super::limit::Limit;
use super::model::model;
use crate::net::{AsNumber, Cidr, CidrError, Family};

model! {
    /// Specification of a `Node`.
    pub struct NodeSpec: specification(NodeStatus) {
        /// BGP settings; a node without them takes no part in the mesh.
        "bgp" bgp: Option<NodeBgpSpec>;
        /// IPv4 address of the VXLAN tunnel.
        "ipv4VXLANTunnelAddr" ipv4_vxlan_tunnel_addr: String where [Limit::Text(&IPV4)];
        /// Ethernet address of the IPv4 VXLAN tunnel.
        "vxlanTunnelMACAddr" vxlan_tunnel_mac_addr: String where [Limit::Text(&MAC)];
        /// IPv6 address of the VXLAN tunnel.
        "ipv6VXLANTunnelAddr" ipv6_vxlan_tunnel_addr: String where [Limit::Text(&IPV6)];
        /// Ethernet address of the IPv6 VXLAN tunnel.
        "vxlanTunnelMACAddrV6" vxlan_tunnel_mac_addr_v6: String where [Limit::Text(&MAC)];
        /// What orchestrators call the node.
        "orchRefs" orch_refs: Vec<OrchRef>;
        /// WireGuard settings.
        "wireguard" wireguard: Option<NodeWireguardSpec>;
        /// Addresses of the host. Upstream does not look at the elements of this list.
        "addresses" addresses: Vec<ListedAddress>;
        /// Interfaces of the host. Upstream does not look at the elements of this list.
        "interfaces" interfaces: Vec<NodeInterface>;
    }
}

model! {
    /// BGP settings of a node.
    pub struct NodeBgpSpec {
        /// AS number, where it differs from the cluster's.
        "asNumber" as_number: Option<AsNumber> where [Limit::SomeAs];
        /// IPv4 address and the length of its subnet.
        "ipv4Address" ipv4_address: Option<NodeAddress>;
        /// IPv6 address and the length of its subnet.
        "ipv6Address" ipv6_address: Option<NodeAddress>;
        /// IPv4 address of the IP-in-IP tunnel.
        "ipv4IPIPTunnelAddr" ipv4_ipip_tunnel_addr: String where [Limit::Text(&IPV4)];
        /// Cluster id; present on route reflectors, which take no part in the mesh.
        "routeReflectorClusterID" route_reflector_cluster_id: Option<String> where [Limit::Text(&IPV4)];
    }
}

model! {
    /// WireGuard settings of a node.
    pub struct NodeWireguardSpec {
        /// IPv4 address of the tunnel.
        "interfaceIPv4Address" interface_ipv4_address: String where [Limit::Text(&IPV4)];
        /// IPv6 address of the tunnel.
        "interfaceIPv6Address" interface_ipv6_address: String where [Limit::Text(&IPV6)];
    }
}

model! {
    /// What an orchestrator calls a node.
    pub struct OrchRef {
        /// The name.
        "nodeName" node_name: String;
        /// The orchestrator: `k8s`, `openstack` …
        "orchestrator" orchestrator: String, required;
    }
}

model! {
    /// An address of a host.
    pub struct ListedAddress {
        /// The address, with its subnet where Calico wrote it.
        "address" address: String, required;
        /// `CalicoNodeIP`, `InternalIP` or `ExternalIP`.
        "type" address_type: String;
    }
}

model! {
    /// An interface of a host.
    pub struct NodeInterface {
        /// Its name.
        "name" name: String;
        /// Its addresses.
        "addresses" addresses: Vec<String>;
    }
}

model! {
    /// Status of a `Node`: what it says of itself.
    pub struct NodeStatus {
        /// Public key of the IPv4 WireGuard tunnel.
        "wireguardPublicKey" wireguard_public_key: String where [Limit::Text(&WIREGUARD_KEY)];
        /// Public key of the IPv6 WireGuard tunnel.
        "wireguardPublicKeyV6" wireguard_public_key_v6: String where [Limit::Text(&WIREGUARD_KEY)];
        /// Ranges that Kubernetes gave the node's pods.
        "podCIDRs" pod_cidrs: Vec<String>;
    }
}

/// An address together with its subnet, such as `192.168.100.101/24`: host bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    address: IpAddr,
    network: Cidr,
}

impl NodeAddress {
    /// An address in a subnet of `length` bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        Cidr::new(address, length).map(|network| Self { address, network })
    }

    /// The host's own address.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// The subnet it lies in.
    pub const fn network(self) -> Cidr {
        self.network
    }

    /// Address family.
    pub const fn family(self) -> Family {
        Family::of(self.address)
    }
}

impl FromStr for NodeAddress {
    type Err = CidrError;

    /// A bare address is a subnet of its own.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let network: Cidr = text.parse()?;
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        let address = address.parse().map_err(|_| CidrError::Syntax(text.into()))?;
        Ok(Self { address, network })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.network.length())
    }
}

crate::net::json_as_text!(NodeAddress);
super::model::scalars!(NodeAddress);
