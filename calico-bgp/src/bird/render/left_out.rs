//! What is not in a configuration, and why.

use core::fmt;
use core::net::IpAddr;

use calico_core::bgp::PeerId;
use calico_core::net::{Cidr, Family};

/// A session that is not in the configuration: it stays down.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "who, and why")]
pub struct LeftOut {
    /// Whose.
    pub peer: PeerOrRange,
    /// Why.
    pub what: Unsupported,
}

/// Whose session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds of sessions that a desired state has")]
pub enum PeerOrRange {
    /// A peer's.
    Peer(PeerId),
    /// Those of everybody who calls from there.
    Range(Cidr),
}

impl fmt::Display for PeerOrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(id) => id.fmt(f),
            Self::Range(range) => range.fmt(f),
        }
    }
}

/// Why a session is not in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The password cannot be had.
    #[error("{0}")]
    PasswordMissing(String),
    /// It has a quotation mark, a line break or a zero byte in it, for which BIRD has no way of writing.
    #[error("BIRD cannot be told this password: give one without quotation marks, line breaks and zero bytes")]
    PasswordText,
    /// This BIRD cannot do it.
    #[error("BIRD 1.6 cannot do it with: {0}")]
    Dialect(&'static str),
    /// No family, so nothing to say.
    #[error("the session has no family")]
    NoFamily,
    /// This node has no address of a family that the session needs.
    #[error("this node has no {0} address, which the session needs")]
    NoAddress(Family),
    /// The peer is this node.
    #[error("the peer's address is this node's own")]
    Ourselves,
    /// The source address is of another family than the peer's.
    #[error("source address {0} cannot reach the peer: give one of its family")]
    Source(IpAddr),
    /// The gateway is of another family than the peer's, or the peer is a range.
    #[error("gateway {0} cannot lead there: give one of the peer's family")]
    Gateway(IpAddr),
    /// A link-local address without its link.
    #[error("a link-local address needs its interface")]
    NoInterface,
    /// An interface's name, or a pattern of one, that BIRD's syntax cannot hold or understands otherwise.
    #[error("BIRD cannot be told the interface {0:?}: it may have no quotation mark, `?` or backslash")]
    Interface(String),
    /// A number out of its range.
    #[error("{what} is {value}, which is out of range")]
    Range {
        /// Which.
        what: &'static str,
        /// What it is.
        value: u64,
    },
    /// BIRD 2 needs to know the source address.
    #[error("BIRD cannot do {0} without a source address: do not leave it to the kernel")]
    NeedsSource(&'static str),
    /// A filter that cannot be written.
    #[error("filter {filter}: {what}")]
    Filter {
        /// Its name.
        filter: String,
        /// Why.
        what: Box<Self>,
    },
    /// Another session has the name already.
    #[error("another session is called {0} as well")]
    SameName(String),
}
