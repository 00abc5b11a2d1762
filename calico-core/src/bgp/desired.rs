//! The neutral model that every BGP backend carries out.
//!
//! What a session is made of ([`SessionParameters`]) is apart from what is said on it ([`PeerPolicy`]): a change of the first needs a new
//! session, a change of the second (and of anything else here but the speaker's identity) never does.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use super::{ExportPolicy, Families, Filter, KernelPolicy, Secret};
use crate::net::{AsNumber, Cidr, Family, InterfaceName};

/// Port of BGP (RFC 4271).
pub const BGP_PORT: u16 = 179;

/// All that a node's BGP speaker should do. Backends compare it with what they have and change only the difference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals; a new part must break every backend")]
pub struct DesiredBgp {
    /// This speaker; none until the node has a BGP address, and then there are no sessions.
    pub local: Option<LocalSpeaker>,
    /// Sessions, sorted by [`DesiredPeer::id`], each once.
    pub peers: Vec<DesiredPeer>,
    /// Whoever calls from one of these ranges and is no peer of its own is one of this kind, sorted by range.
    pub dynamic: Vec<DynamicPeers>,
    /// Prefixes that this node originates, sorted.
    pub originated: Vec<Originated>,
    /// Which routes peers hear of, after their filters.
    pub export: Arc<ExportPolicy>,
    /// Which learned routes the kernel gets.
    pub kernel: Arc<KernelPolicy>,
}

/// This node as a speaker. A change of anything but `node` and `listen` ends all sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct LocalSpeaker {
    /// Node name, for logs and status.
    pub node: String,
    /// AS number.
    pub as_number: AsNumber,
    /// BGP identifier: the node's IPv4 address unless configured.
    pub router_id: Ipv4Addr,
    /// Source address of IPv4 sessions and next hop of IPv4 prefixes that are originated.
    pub ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// Cluster id, if this node is a route reflector (RFC 4456).
    pub cluster_id: Option<Ipv4Addr>,
    /// Where it listens.
    pub listen: Listen,
}

/// Where a speaker listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct Listen {
    /// TCP port.
    pub port: u16,
    /// On the node's own addresses only, instead of all.
    pub own_addresses: bool,
}

/// A prefix that this node originates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct Originated {
    /// The prefix.
    pub prefix: Cidr,
    /// Why.
    pub origin: Origin,
    /// Metric of the route here: LOCAL_PREF is 2 147 483 647 less it, so that the lower of two metrics wins everywhere.
    pub priority: u32,
}

/// Why a prefix is originated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Origin {
    /// It is a block of this node.
    Block,
    /// It is the address of a workload here.
    Workload,
    /// It is a service's.
    Service,
    /// Somebody asked for it.
    Static,
}

/// Which of two peers at one address is meant: link-local addresses are only unique on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an address with its scope")]
pub struct PeerId {
    /// Address.
    pub address: IpAddr,
    /// Link, of a link-local address.
    pub interface: Option<InterfaceName>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct DesiredPeer {
    /// Whom to talk to.
    pub id: PeerId,
    /// TCP port.
    pub port: u16,
    /// AS number of the peer.
    pub as_number: AsNumber,
    /// Why this session exists.
    pub kind: PeerKind,
    /// Display name: the peer node's name, or the BGPPeer's.
    pub name: String,
    /// What the session is made of.
    pub session: SessionParameters,
    /// What is said on it.
    pub policy: PeerPolicy,
}

/// What a session is made of; a change needs a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct SessionParameters {
    /// AS number that the peer is told, where it is not the node's.
    pub local_as: Option<AsNumber>,
    /// Families that are offered.
    pub families: Families,
    /// Address that the session comes from.
    pub source: Source,
    /// Waits to be called.
    pub passive: bool,
    /// TCP MD5 signatures.
    pub password: Password,
    /// Hops that the peer may be away; the session is protected by its TTL (RFC 5082).
    pub ttl_security: Option<u8>,
    /// Seconds offered as hold time; the speaker's own if absent.
    pub hold_time: Option<u16>,
    /// Seconds between two KEEPALIVEs, if less than a third of the hold time.
    pub keepalive: Option<u16>,
    /// Seconds that peers are told to keep our routes while we restart; the speaker's own if absent.
    pub restart_time: Option<u16>,
    /// Seconds that routes of the peer are kept, as a last resort, when even its restart time is over (RFC 9494).
    pub long_lived: Option<u32>,
    /// Several paths to one prefix (RFC 7911).
    pub add_path: AddPath,
    /// IPv4 prefixes with IPv6 next hops (RFC 8950) are offered.
    pub extended_next_hop: bool,
    /// Role of this end (RFC 9234).
    pub role: Option<Role>,
    /// Liveness by BFD.
    pub bfd: Option<Bfd>,
    /// Gateway to the peer, where it is not on link.
    pub gateway: Option<IpAddr>,
    /// Prefixes of one family that end the session if there are more; the speaker's own if absent.
    pub maximum_prefixes: Option<u32>,
}

/// What is said on a session; a change is carried out on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct PeerPolicy {
    /// Which next hop is announced.
    pub next_hop: NextHop,
    /// The peer is a client of this reflector.
    pub reflector_client: bool,
    /// How often the own AS number may occur in a received path.
    pub own_as_allowed: u32,
    /// In order: the first rule that matches decides.
    pub filters: Vec<Arc<Filter>>,
}

/// Sessions with whoever calls.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct DynamicPeers {
    /// Where they call from.
    pub range: Cidr,
    /// Most of them at a time.
    pub limit: u32,
    /// What each is like; its address and name count for nothing.
    pub like: DesiredPeer,
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
    /// A workload of this host.
    LocalWorkload,
}

/// Address that a session comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "upstream's two, and one for embedders")]
pub enum Source {
    /// The node's BGP address.
    #[default]
    Node,
    /// What the kernel chooses.
    Kernel,
    /// This one.
    Address(IpAddr),
}

/// The password of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "a session has one, has none, or must not be")]
pub enum Password {
    /// None.
    #[default]
    None,
    /// This one.
    Key(Secret),
    /// One is wanted and cannot be had: the session stays down, and this is why.
    Missing(String),
}

/// Several paths to one prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the two directions of RFC 7911")]
pub struct AddPath {
    /// Are taken.
    pub receive: bool,
    /// Are sent, so many at most; zero does not offer it.
    pub send: u8,
}

/// Which next hop is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "upstream's three")]
pub enum NextHop {
    /// As BGP has it: own address to external peers, unchanged to internal ones.
    #[default]
    Auto,
    /// Always this node.
    Own,
    /// The one that was received.
    Keep,
}

/// Role of this end of a session (RFC 9234).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the roles of RFC 9234 section 4.1")]
pub enum Role {
    /// Provider of the peer.
    Provider,
    /// Route server.
    RouteServer,
    /// Client of the peer, a route server.
    RouteServerClient,
    /// Customer of the peer.
    Customer,
    /// Peer.
    Peer,
}

/// Parameters of BFD (RFC 5880).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct Bfd {
    /// Pause between packets that are sent.
    pub transmit: Duration,
    /// Least pause between packets that can be received.
    pub receive: Duration,
    /// So many packets may be missing.
    pub multiplier: u8,
    /// Over several hops (RFC 5883) instead of one (RFC 5881).
    pub multihop: bool,
}

impl DesiredPeer {
    /// A session with an address, all else by default.
    pub fn new(address: IpAddr, as_number: AsNumber, kind: PeerKind, name: impl Into<String>) -> Self {
        Self {
            id: PeerId::from(address),
            port: BGP_PORT,
            as_number,
            kind,
            name: name.into(),
            session: SessionParameters {
                families: Families::only(Family::of(address)),
                ..SessionParameters::default()
            },
            policy: PeerPolicy::default(),
        }
    }
}

impl Default for SessionParameters {
    fn default() -> Self {
        Self {
            local_as: None,
            families: Families::IPV4,
            source: Source::Node,
            passive: false,
            password: Password::None,
            ttl_security: None,
            hold_time: None,
            keepalive: None,
            restart_time: None,
            long_lived: None,
            add_path: AddPath::default(),
            extended_next_hop: false,
            role: None,
            bfd: None,
            gateway: None,
            maximum_prefixes: None,
        }
    }
}

impl LocalSpeaker {
    /// A speaker with an IPv4 address that is its identifier, all else by default.
    pub fn new(node: impl Into<String>, as_number: AsNumber, ipv4: Ipv4Addr) -> Self {
        Self {
            node: node.into(),
            as_number,
            router_id: ipv4,
            ipv4: Some(ipv4),
            ipv6: None,
            cluster_id: None,
            listen: Listen::default(),
        }
    }

    /// The node's address of a family.
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.ipv4.map(IpAddr::V4),
            Family::V6 => self.ipv6.map(IpAddr::V6),
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self { port: BGP_PORT, own_addresses: false }
    }
}

impl Role {
    /// Whether two ends fit together (RFC 9234 section 4.2).
    pub const fn fits(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Provider, Self::Customer)
                | (Self::Customer, Self::Provider)
                | (Self::RouteServer, Self::RouteServerClient)
                | (Self::RouteServerClient, Self::RouteServer)
                | (Self::Peer, Self::Peer)
        )
    }
}

impl From<IpAddr> for PeerId {
    fn from(address: IpAddr) -> Self {
        Self { address, interface: None }
    }
}

impl core::fmt::Display for PeerId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.interface {
            Some(interface) => write!(f, "{}%{interface}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

impl Originated {
    /// A block of this node, of normal priority.
    pub const fn block(prefix: Cidr) -> Self {
        Self { prefix, origin: Origin::Block, priority: super::NORMAL_PRIORITY }
    }
}
