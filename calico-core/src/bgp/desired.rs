//! The neutral model that every BGP backend carries out.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use crate::net::{AsNumber, Cidr};

/// All that a node's BGP speaker should do. Backends compare it with what they have and change only the difference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals; a new part must break every backend")]
pub struct DesiredBgp {
    /// This speaker; none until the node has a BGP address, and then there are no sessions.
    pub local: Option<LocalSpeaker>,
    /// Sessions, sorted by address.
    pub peers: Vec<DesiredPeer>,
    /// Prefixes that this node originates (its own blocks), sorted.
    pub originated: Vec<Cidr>,
}

/// This node as a speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct LocalSpeaker {
    /// Node name, for logs and status.
    pub node: String,
    /// AS number.
    pub as_number: AsNumber,
    /// BGP identifier: the node's IPv4 address.
    pub router_id: Ipv4Addr,
    /// Source address of sessions and next hop of what is originated, by family.
    pub ipv4: Option<Ipv4Addr>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct DesiredPeer {
    /// Address to connect to.
    pub address: IpAddr,
    /// TCP port, 179 unless configured.
    pub port: u16,
    /// AS number of the peer.
    pub as_number: AsNumber,
    /// Why this session exists.
    pub kind: PeerKind,
    /// Display name: the peer node's name, or the BGPPeer's.
    pub name: String,
}

/// Why a session exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PeerKind {
    /// Node-to-node mesh.
    Mesh,
    /// A BGPPeer that names this node.
    Node,
    /// A BGPPeer for all nodes.
    Global,
}
