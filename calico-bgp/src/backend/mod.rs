//! The trait that every BGP backend implements.

mod recording;
mod session;

use core::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use calico_core::bgp::{DesiredBgp, DesiredPeer, NORMAL_PRIORITY, PeerId};
use calico_core::net::Cidr;

use crate::rib::{Explanation, PathReport, Told};
use crate::wire::Nlri;

pub use recording::RecordingBackend;
pub use session::{Agreed, MessageCounts, SessionDetails};

/// Something that speaks BGP for this node.
///
/// # Contract
/// - [`apply`](BgpBackend::apply) changes only what differs: sessions whose parameters are equal stay up.
/// - Routes are reported as the best path changes; a route of a peer that went down gracefully (RFC 4724) stays until its restart
///   time is over or its end-of-RIB came.
/// - After [`BgpEvent::Settled`] the set of reported routes is complete: a consumer may then remove routes of an earlier life.
/// - A backend that lost what it knew and goes on by itself says [`BgpEvent::Restarted`] before anything of its new life. What was
///   reported before is void, and nobody will withdraw it: it is of an earlier life, and stays until the next [`BgpEvent::Settled`].
/// - Dropping a backend closes connections without a Cease, so that peers keep our routes while we restart.
#[async_trait]
pub trait BgpBackend: Send {
    /// What operators call it, such as `native`.
    fn name(&self) -> &'static str;

    /// Takes over the desired state.
    async fn apply(&mut self, desired: &DesiredBgp) -> Result<(), BgpError>;

    /// The next event. Cancel safe.
    async fn next_event(&mut self) -> Result<BgpEvent, BgpError>;

    /// A picture of all sessions.
    fn status(&self) -> BgpStatus;

    /// Why a prefix is routed and announced as it is; none if nothing is known of it, or this backend cannot tell.
    fn explain(&self, prefix: Cidr) -> Option<Explanation> {
        let _ = prefix;
        None
    }

    /// Everything that a peer announced, and what became of it; none if this backend cannot tell.
    fn received_from(&self, peer: &PeerId) -> Option<Vec<PathReport>> {
        let _ = peer;
        None
    }

    /// Everything that a peer is told; none if this backend cannot tell.
    fn advertised_to(&self, peer: &PeerId) -> Option<Vec<(Nlri, Told)>> {
        let _ = peer;
        None
    }
}

/// A backend's failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BgpError {
    /// The listening socket cannot be had.
    #[error("cannot listen on {address}:{port}")]
    Listen {
        /// Address.
        address: IpAddr,
        /// Port.
        port: u16,
        /// Why.
        #[source]
        source: Box<dyn core::error::Error + Send + Sync>,
    },
    /// A file of a daemon cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A daemon refuses its configuration, and keeps the former one.
    #[error("BIRD refuses the configuration that was written for it, and keeps the former one: {0}")]
    Refused(String),
    /// The kernel does not take the key of a session.
    #[error(
        "the kernel does not take the password for {from}, so {address} does not listen (each takes room of net.core.optmem_max)"
    )]
    Key {
        /// Whose.
        from: Cidr,
        /// Own address.
        address: IpAddr,
        /// Why.
        #[source]
        source: Box<dyn core::error::Error + Send + Sync>,
    },
    /// The backend has stopped.
    #[error("the BGP backend has stopped")]
    Stopped,
}

/// What a backend tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BgpEvent {
    /// The best path to a prefix appeared or changed.
    RouteSet(LearnedRoute),
    /// There is no path to a prefix any more.
    RouteRemoved(Cidr),
    /// A session changed state.
    Session(Box<PeerStatus>),
    /// Every configured peer has sent its end-of-RIB, or was given up waiting for: stale routes may go. Once in a life.
    Settled,
    /// A new life has begun: what was reported before is forgotten, what is still so is reported again, and then comes
    /// [`Settled`](Self::Settled).
    Restarted,
}

/// A best path, and those that are as good.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct LearnedRoute {
    /// Destination.
    pub prefix: Cidr,
    /// Next hop of the best path.
    pub next_hop: IpAddr,
    /// Next hops of all paths that share traffic, sorted: at most 16, the best one's among them.
    pub next_hops: Arc<[IpAddr]>,
    /// Metric that its originator gave it: 2 147 483 647 less LOCAL_PREF.
    pub priority: u32,
    /// Peer that the best path came from.
    pub peer: PeerId,
}

impl LearnedRoute {
    /// A route with one next hop, of normal priority.
    pub fn new(prefix: Cidr, next_hop: IpAddr, peer: PeerId) -> Self {
        Self { prefix, next_hop, next_hops: [next_hop].into(), priority: NORMAL_PRIORITY, peer }
    }
}

/// State of a session (RFC 4271 section 8.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the states of RFC 4271; matched exhaustively")]
pub enum SessionState {
    /// Idle.
    Idle,
    /// Connect.
    Connect,
    /// Active.
    Active,
    /// OpenSent.
    OpenSent,
    /// OpenConfirm.
    OpenConfirm,
    /// Established.
    Established,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct PeerStatus {
    /// As wanted.
    pub peer: DesiredPeer,
    /// State now.
    pub state: SessionState,
    /// Prefixes accepted from it.
    pub received: usize,
    /// Why there is no session, or the last one ended.
    pub last_error: Option<String>,
    /// All else.
    pub details: SessionDetails,
}

/// All sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct BgpStatus {
    /// Sorted by address.
    pub peers: Vec<PeerStatus>,
    /// What the backend as a whole lacks, a port for instance; sessions that do not need it are up.
    pub problem: Option<String>,
}

impl PeerStatus {
    /// One that is configured, and of which nothing else is known.
    pub fn idle(peer: DesiredPeer) -> Self {
        Self { peer, state: SessionState::Idle, received: 0, last_error: None, details: SessionDetails::default() }
    }
}
