//! What is asked about BGP, and the answers.

use std::net::Ipv4Addr;

use calico_core::net::Cidr;
use serde::{Deserialize, Serialize};

/// One BGP session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct PeerReport {
    /// Peer address, of a link-local one with its interface.
    pub address: String,
    /// Peer node, or name of the BGPPeer.
    pub name: String,
    /// `node-to-node mesh`, `node specific` or `global`, as upstream words it, or `local workload`.
    pub peer_type: String,
    /// State of RFC 4271, such as `Established`.
    pub state: String,
    /// Since when, in seconds since 1970, if that is known.
    #[serde(default)]
    pub since: Option<u64>,
    /// Prefixes accepted.
    pub received: usize,
    /// Why there is no session, or the last one ended.
    pub last_error: Option<String>,
    /// All else.
    #[serde(default)]
    pub details: PeerDetails,
}

/// A session beyond its state. What a backend does not know stays as [`Default`] says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct PeerDetails {
    /// Its AS number.
    pub as_number: Option<u32>,
    /// Prefixes that were announced to it.
    pub sent: usize,
    /// The peer is one because it called from a range.
    pub dynamic: bool,
    /// Whether BFD reaches it, where that is asked for.
    pub bfd: Option<bool>,
    /// How often it was Established.
    pub established: u64,
    /// Changes of state so far.
    pub transitions: u64,
    /// Messages to it and from it: OPEN, UPDATE, NOTIFICATION, KEEPALIVE, ROUTE-REFRESH.
    pub messages_sent: [u64; 5],
    /// See `messages_sent`.
    pub messages_received: [u64; 5],
    /// The last NOTIFICATION to it, with the reason.
    pub last_sent: Option<String>,
    /// The last NOTIFICATION from it.
    pub last_received: Option<String>,
    /// Its BGP identifier.
    pub identifier: Option<Ipv4Addr>,
    /// Seconds of the hold time that was agreed on.
    pub hold_time: Option<u64>,
    /// What else was agreed on, such as `IPv4` and `graceful restart`.
    pub agreed: Vec<String>,
}

/// A path that a peer announced, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct PathReport {
    /// Where it leads.
    pub prefix: Cidr,
    /// Who announced it.
    pub peer: String,
    /// The peer's number of it, if it gives several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path_id: u32,
    /// Its attributes.
    #[serde(flatten)]
    pub route: RouteAttributes,
    /// The peer has not announced it since it restarted.
    pub stale: bool,
    /// What became of it.
    pub fate: PathFate,
    /// Why, where it is not the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathFate {
    /// It is the best.
    Best,
    /// It shares traffic with the best.
    Shares,
    /// Another one is better.
    Lost,
    /// The prefix is our own.
    BehindOwn,
    /// It may not be used.
    Refused,
}

/// What a route says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct RouteAttributes {
    /// Next hop.
    pub next_hop: String,
    /// `IGP`, `EGP` or `Incomplete`.
    pub origin: String,
    /// The systems that it has passed, nearest first.
    pub as_path: Vec<u32>,
    /// LOCAL_PREF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_pref: Option<u32>,
    /// MULTI_EXIT_DISC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub med: Option<u32>,
    /// Communities, standard ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub communities: Vec<String>,
    /// ORIGINATOR_ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originator: Option<Ipv4Addr>,
    /// CLUSTER_LIST.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Ipv4Addr>,
}

/// A route that a peer is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct ToldReport {
    /// Where it leads.
    pub prefix: Cidr,
    /// Our number of it, if the peer is told several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path_id: u32,
    /// Its attributes.
    #[serde(flatten)]
    pub route: RouteAttributes,
}

/// What a peer hears of a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct PeerHears {
    /// Whom.
    pub peer: String,
    /// What it is told; none if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<RouteAttributes>,
    /// Why it is told nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

/// Why a prefix is routed and announced as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the wire shape, built with literals")]
pub struct BgpExplanation {
    /// Which.
    pub prefix: Cidr,
    /// Why this node originates it, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originated: Option<String>,
    /// Paths that peers announced.
    pub paths: Vec<PathReport>,
    /// What becomes of it in the kernel, where a path was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What each peer hears.
    pub told: Vec<PeerHears>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that the serializer wants")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
