//! `BGPPeer`: sessions with routers that are not nodes of the mesh, or with nodes in another way.

use alloc::string::String;
use alloc::vec::Vec;

use super::duration::GoDuration;
use super::formats::{ADDRESS, ADDRESS_PORT, NAME, SELECTOR};
use super::limit::Limit;
use super::model::{model, words};
use crate::net::AsNumber;

model! {
    /// Specification of a `BGPPeer`.
    pub struct BgpPeerSpec: specification {
        /// Node that has the session; with `nodeSelector` empty as well, all have it.
        "node" node: String where [Limit::Text(&NAME)];
        /// Nodes that have the session.
        "nodeSelector" node_selector: String where [Limit::Length(1024), Limit::Text(&SELECTOR)];
        /// The other end: an address, with a port where it is not 179.
        "peerIP" peer_ip: String where [Limit::Length(64), Limit::Text(&ADDRESS_PORT)];
        /// AS number of the other end; taken from the nodes where those are selected. 0 says the same as an absent one, as upstream.
        "asNumber" as_number: Option<AsNumber>;
        /// AS number that the other end is told, where it is not the node's.
        "localASNumber" local_as_number: Option<AsNumber>;
        /// Nodes that are the other ends.
        "peerSelector" peer_selector: String where [Limit::Length(1024), Limit::Text(&SELECTOR)];
        /// Older form of `nextHopMode: Keep`.
        "keepOriginalNextHop" keep_original_next_hop: bool;
        /// Which next hop is announced.
        "nextHopMode" next_hop_mode: Option<NextHopMode>;
        /// Secret of the session (RFC 2385).
        "password" password: Option<BgpPassword>;
        /// Address that the session comes from.
        "sourceAddress" source_address: Option<SourceAddress>;
        /// How long routes are kept while the other end restarts.
        "maxRestartTime" max_restart_time: Option<GoDuration>;
        /// Pause between keep-alives.
        "keepaliveTime" keepalive_time: Option<GoDuration>;
        /// How often the own AS number may occur in a received path.
        "numAllowedLocalASNumbers" num_allowed_local_as_numbers: Option<i32> where [Limit::Range(0, 2_147_483_647)];
        /// Hops that the other end may be away; the session is protected by its TTL (RFC 5082).
        "ttlSecurity" ttl_security: Option<u8>;
        /// Gateway to the other end, where it is not on link.
        "reachableBy" reachable_by: String where [Limit::Length(45), Limit::Text(&ADDRESS)];
        /// Filters of the session, in order.
        "filters" filters: Vec<String> where [Limit::Text(&NAME), Limit::Length(253)];
        /// Local workloads that are the other ends.
        "localWorkloadSelector" local_workload_selector: String where [Limit::Length(1024), Limit::Text(&SELECTOR)];
        /// Whether selected peers get the mirrored session by themselves.
        "reversePeering" reverse_peering: Option<ReversePeering>;
    }
}

model! {
    /// Where a password is.
    pub struct BgpPassword {
        /// Key of a secret.
        "secretKeyRef" secret_key_ref: Option<SecretKeyRef>;
    }
}

model! {
    /// A key of a secret.
    pub struct SecretKeyRef {
        /// The secret.
        "name" name: String;
        /// The key in it.
        "key" key: String, required;
        /// Whether it may be missing.
        "optional" optional: Option<bool>;
    }
}

words! {
    /// Which next hop is announced.
    pub enum NextHopMode {
        /// As BGP has it by default.
        Auto,
        /// Always this node.
        Self_ = "Self",
        /// The one that was received.
        Keep,
    }
}

words! {
    /// Address that a session comes from.
    pub enum SourceAddress {
        /// The node's BGP address.
        UseNodeIP,
        /// What the kernel chooses.
        None,
    }
}

words! {
    /// Whether selected peers get the mirrored session by themselves.
    pub enum ReversePeering {
        /// They do.
        Auto,
        /// Somebody configures it.
        Manual,
    }
}
