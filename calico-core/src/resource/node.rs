//! `Node`: a host that takes part.

use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::net::{AsNumber, Cidr, CidrError, Family};

/// Specification of a `Node`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct NodeSpec {
    /// BGP settings; a node without them takes no part in the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp: Option<NodeBgpSpec>,
}

/// BGP settings of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct NodeBgpSpec {
    /// AS number, where it differs from the cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_number: Option<AsNumber>,
    /// IPv4 address and the length of its subnet.
    #[serde(rename = "ipv4Address", skip_serializing_if = "Option::is_none")]
    pub ipv4_address: Option<NodeAddress>,
    /// IPv6 address and the length of its subnet.
    #[serde(rename = "ipv6Address", skip_serializing_if = "Option::is_none")]
    pub ipv6_address: Option<NodeAddress>,
    /// Cluster id; present on route reflectors, which take no part in the mesh.
    #[serde(rename = "routeReflectorClusterID", skip_serializing_if = "Option::is_none")]
    pub route_reflector_cluster_id: Option<String>,
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
