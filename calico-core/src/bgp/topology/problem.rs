//! What the topology has to say about objects that it cannot use, or not as written.

use alloc::string::String;
use alloc::sync::Arc;
use core::net::IpAddr;

use crate::net::{AsNumber, Family};
use crate::resource::{Fault, ResourceKey};
use crate::selector::SelectorError;

/// What is wrong with an object as far as BGP goes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BgpProblem {
    /// Something of the stored object is not known.
    #[error("{0}; BGP goes without it")]
    NotUnderstood(#[source] Fault),
    /// A field that nothing acts on.
    #[error("its {field} is not carried out: {reason}")]
    NotCarriedOut {
        /// The field.
        field: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// A configuration of one node with a field that is read from `default`.
    #[error("its {0} counts on the BGPConfiguration called default only")]
    OnlyOnDefault(&'static str),
    /// A configuration that nobody reads.
    #[error("only BGPConfigurations called default and node.NAME are read")]
    UnusedConfiguration,
    /// A configuration for a node that does not exist.
    #[error("node {0} does not exist")]
    NoSuchNode(String),
    /// A selector does not parse.
    #[error("its {field} does not parse: {error}; it selects nothing")]
    Selector {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        error: SelectorError,
    },
    /// Text that is not what the field takes.
    #[error("its {field} is {text:?}, which is no {expected}; {effect}")]
    Text {
        /// The field.
        field: &'static str,
        /// What stands there.
        text: String,
        /// What it should be.
        expected: &'static str,
        /// What is done about it.
        effect: &'static str,
    },
    /// A number outside of what the protocol can say.
    #[error("its {field} is out of range; {used} is used")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// What counts instead.
        used: u32,
    },
    /// A peer says neither whom to talk to nor which nodes.
    #[error("it has neither peerIP nor peerSelector nor localWorkloadSelector; there is no session")]
    NobodyToTalkTo,
    /// No AS number where one is needed.
    #[error("it has no asNumber; there is no session")]
    NoAsNumber,
    /// AS 0.
    #[error("its {0} is 0, which is nobody's (RFC 7607)")]
    NobodysAs(&'static str),
    /// A peer is a node with another AS number.
    #[error(
        "its asNumber is {given}, but node {node}, whose address it names, has {actual}: the session will not come up"
    )]
    OtherAs {
        /// The node.
        node: Arc<str>,
        /// As configured.
        given: AsNumber,
        /// As the node has it.
        actual: AsNumber,
    },
    /// A filter that does not exist.
    #[error("its filter {0} does not exist; routes pass as if it were not listed")]
    NoSuchFilter(String),
    /// A rule of a filter that cannot be carried out as written.
    #[error("{list} rule {index}: {reason}")]
    Rule {
        /// The list.
        list: &'static str,
        /// Position in it, from zero.
        index: usize,
        /// What about it, and what is done.
        reason: String,
    },
    /// Another object has a session with this address.
    #[error("its session with {address} is left out: {by} has one with that address")]
    Taken {
        /// Address of the peer.
        address: IpAddr,
        /// Who has the session.
        by: ResourceKey,
    },
    /// Sessions of the mesh are left out for those of a peer.
    #[error("its sessions take the place of {sessions} of the mesh's")]
    InsteadOfMesh {
        /// How many.
        sessions: usize,
    },
    /// A password that cannot be had.
    #[error("{0}; its sessions stay down")]
    Password(String),
    /// A community's name that the same object does not define.
    #[error("its prefixAdvertisements name community {0}, which it does not define; it is left out")]
    NoSuchCommunity(String),
    /// The annotation about BFD cannot be read.
    #[error("its annotation bfd.projectcalico.org/config is not carried out: {0}")]
    Bfd(String),
    /// A node that has no identity as a speaker.
    #[error("it has no IPv4 address and no router id is configured; it does not speak BGP")]
    NoRouterId,
    /// Two nodes with one address.
    #[error("its {family} address {address} is also that of node {by}, which comes first by name")]
    SameAddress {
        /// Family.
        family: Family,
        /// The address.
        address: IpAddr,
        /// Who has it.
        by: Arc<str>,
    },
    /// Both or neither program a class of routes.
    #[error("programClusterRoutes of BGPConfiguration and FelixConfiguration give {routes} to {}", if *.both { "both" } else { "neither" })]
    Ownership {
        /// Which routes.
        routes: &'static str,
        /// Whether both do.
        both: bool,
    },
    /// Two configurations that must agree do not.
    #[error("its {field} is {bgp}, but that of FelixConfiguration is {felix}: they must be equal")]
    Disagreement {
        /// The field.
        field: &'static str,
        /// What BGP has.
        bgp: u32,
        /// What Felix has.
        felix: u32,
    },
}
