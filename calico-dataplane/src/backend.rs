//! The trait that every dataplane implements.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use calico_core::connection::{Connection, RouteQuery, Routes};
use calico_core::net::InterfaceName;
use calico_core::table::{
    BaseChain, ChainName, Delta, Element, Fingerprint, Neighbor, Route, RouteKey, SetDecl, SetName, Shaper,
};

use crate::{DataplaneError, TokenBucket};

/// A host that holds tables, routes and neighbours.
///
/// # Contract
/// - [`observe`](Dataplane::observe) reports everything that is recognisably ours, whoever wrote it in whichever process life, and
///   changes nothing. Cancel safe: who stops waiting and asks again is told how it is, no older than the last write.
/// - [`apply`](Dataplane::apply) carries out the nf_tables part as one transaction: all or nothing. Routes, neighbours and settings
///   are carried out one by one, and each failure is reported by object; the others go on.
/// - Limits on bandwidth are carried out in the same way. They concern interfaces of workloads and devices of their own
///   ([`Shaper::is_device`]), which are no [links](Observed::links): they come and go with the limits. What others limit there is replaced where
///   a limit of ours is wanted, and else left alone; the CNI `bandwidth` plugin's devices go with what they limited.
/// - Connections that are to end go last, once nothing of the delta can make new ones; that there are none, or that the host tracks
///   none at all, is no error. No connection of another address is touched.
/// - Carrying out a delta twice is harmless: what exists already with the same content, and the absence of what is to be removed,
///   are no errors.
/// - Nothing is flushed on start, on exit or on drop.
/// - [`next_change`](Dataplane::next_change) never reports our own writes as changes, but that it may say of a neighbour that was removed
///   that it is gone, and of a limit that was removed that it is to be looked at (Linux tells both in nobody's name). What it says of an object is no older than the
///   call, so a write that comes after it is not contradicted.
/// - [`remove_workload`](Dataplane::remove_workload) begins at once and holds nothing of the dataplane: what it gives may be awaited
///   beside other calls, by any task. Both ends are gone when it is ready. Absence is success, and so is an interface that is no
///   workload's by its kind: it is left alone. The removal is reported as a change, like any that others make.
/// - [`connections`](Dataplane::connections) and [`end_connections`](Dataplane::end_connections) go on by themselves in the same way, and so does
///   [`ways`](Dataplane::ways). A host that tracks nothing has no connections. To end one that has ended already is success. That nothing leads
///   to an address is no error.
#[async_trait]
pub trait Dataplane: Send {
    /// What the host holds of ours, and its links.
    async fn observe(&mut self) -> Result<Observed, DataplaneError>;

    /// Carries out a change.
    async fn apply(&mut self, delta: &Delta) -> ApplyReport;

    /// The next change that somebody else made. Cancel safe.
    async fn next_change(&mut self) -> Result<HostChange, DataplaneError>;

    /// Removes a workload's interface, and with it the container's end.
    fn remove_workload(&mut self, interface: InterfaceName) -> Removal;

    /// The connections that the host tracks and `pick` picks.
    fn connections(&mut self, pick: Pick) -> Listing;

    /// Ends connections that were listed.
    fn end_connections(&mut self, names: Vec<TrackedName>) -> Removal;

    /// The interfaces by which the host sends what is asked about. A backend that cannot tell leaves it out, and then no host endpoint has a say
    /// about connections of those addresses.
    fn ways(&mut self, _asked: BTreeSet<RouteQuery>) -> Ways {
        Box::pin(std::future::ready(Ok(Routes::new())))
    }

    /// Whether the host forwards IPv6 packets. A backend that cannot tell says nothing.
    fn forwards_ipv6(&self) -> Option<bool> {
        None
    }
}

/// A removal that goes on by itself.
pub type Removal = Pin<Box<dyn Future<Output = Result<(), DataplaneError>> + Send>>;

/// A look at connections that goes on by itself.
pub type Listing = Pin<Box<dyn Future<Output = Result<Tracking, DataplaneError>> + Send>>;

/// A look at routes that goes on by itself.
pub type Ways = Pin<Box<dyn Future<Output = Result<Routes, DataplaneError>> + Send>>;

/// Which connections are asked for.
pub type Pick = Box<dyn Fn(&Connection) -> bool + Send>;

/// What a host tracks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct Tracking {
    /// The host's own addresses at that time.
    pub host: BTreeSet<IpAddr>,
    /// The connections that were picked.
    pub connections: Vec<Tracked>,
}

/// A connection that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct Tracked {
    /// What it connects.
    pub connection: Connection,
    /// By which the backend finds it again.
    pub name: TrackedName,
}

/// A backend's own name for a connection. One that is made later with the same addresses and ports may have it, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "octets that mean something to one backend only")]
pub struct TrackedName(pub Box<[u8]>);

/// What a host holds of ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "backends build it with literals; the reconciler must compare every part"
)]
pub struct Observed {
    /// Whether our table of IP packets exists at all (decides about the static skeleton before in-sync).
    pub table_present: bool,
    /// Chains of our tables.
    pub chains: BTreeMap<ChainName, ObservedChain>,
    /// Sets and maps of our tables.
    pub sets: BTreeMap<SetName, ObservedSet>,
    /// Routes with one of our protocol numbers.
    pub routes: BTreeMap<RouteKey, Route>,
    /// Permanent neighbours on workload interfaces.
    pub neighbors: BTreeSet<Neighbor>,
    /// Limits on bandwidth, by device.
    pub shapings: BTreeMap<InterfaceName, Shaped>,
    /// All links but the devices of limits.
    pub links: BTreeMap<InterfaceName, LinkState>,
    /// The host's own addresses, by link; those of workloads' links need not be there.
    pub addresses: BTreeMap<InterfaceName, BTreeSet<IpAddr>>,
}

/// Some objects of our tables, all as they were at one moment; none for one that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals; the reconciler takes in every part")]
pub struct ObservedObjects {
    /// Chains.
    pub chains: BTreeMap<ChainName, Option<ObservedChain>>,
    /// Sets and maps.
    pub sets: BTreeMap<SetName, Option<ObservedSet>>,
}

/// A chain as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct ObservedChain {
    /// Where it hangs.
    pub base: Option<BaseChain>,
    /// Identity of the content that was last written, if the chain carries one and its rules are still those: a chain whose rules
    /// were tampered with has none.
    pub fingerprint: Option<Fingerprint>,
}

/// A set as found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct ObservedSet {
    /// Declaration; none if it is nothing that we would write, and must be replaced.
    pub decl: Option<SetDecl>,
    /// Elements.
    pub elements: BTreeSet<Element>,
}

/// A limit on bandwidth as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct Shaped {
    /// The interface whose received packets are led through the device.
    pub source: Option<InterfaceName>,
    /// The limit; none if there is only a part of one, or something that we would not write.
    pub bucket: Option<TokenBucket>,
}

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct LinkState {
    /// Kernel index; a link that was replaced by another of the same name has another index.
    pub index: u32,
    /// Administratively up.
    pub up: bool,
    /// Largest packet.
    pub mtu: u32,
}

/// Outcome of an apply, by object.
#[derive(Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct ApplyReport {
    /// Why the nf_tables transaction failed as a whole, if it did.
    pub ruleset: Option<DataplaneError>,
    /// Routes that failed.
    pub routes: Vec<RouteFailure>,
    /// Neighbours that failed.
    pub neighbors: Vec<(Neighbor, DataplaneError)>,
    /// Settings that failed.
    pub settings: Vec<(calico_core::table::InterfaceSetting, DataplaneError)>,
    /// Limits on bandwidth that failed.
    pub shapings: Vec<(Shaper, DataplaneError)>,
    /// Why connections that are to end may still be there, if so.
    pub connections: Option<DataplaneError>,
}

/// A route that could not be written or removed.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "backends build it with literals")]
pub struct RouteFailure {
    /// Which.
    pub key: RouteKey,
    /// Why.
    pub error: DataplaneError,
}

impl ApplyReport {
    /// Whether everything took effect.
    pub const fn is_complete(&self) -> bool {
        self.ruleset.is_none()
            && self.routes.is_empty()
            && self.neighbors.is_empty()
            && self.settings.is_empty()
            && self.shapings.is_empty()
            && self.connections.is_none()
    }
}

/// Something that changed on the host without us.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostChange {
    /// A link appeared, changed or (none) went.
    Link {
        /// Its name.
        name: InterfaceName,
        /// Its state now.
        state: Option<LinkState>,
    },
    /// A route that is, or should be, ours changed: now this, or gone.
    Route {
        /// Which.
        key: RouteKey,
        /// What is there now.
        route: Option<Route>,
    },
    /// A neighbour of a workload interface changed; `present` tells whether it is there as a permanent entry.
    Neighbor {
        /// Which.
        neighbor: Neighbor,
        /// Whether it is there.
        present: bool,
    },
    /// Something about a limit on bandwidth, or about what stands where one would be, changed: whether it still holds is not known.
    Shaping {
        /// The device that enforces it.
        device: InterfaceName,
    },
    /// An interface got an address, or lost it. Of one that goes, the addresses go without a word.
    Address {
        /// Which interface.
        interface: InterfaceName,
        /// The address.
        address: IpAddr,
        /// Whether it is there now.
        present: bool,
    },
    /// Somebody touched these chains and sets of our tables, which are now this.
    Objects(Arc<ObservedObjects>),
    /// Somebody touched one of our tables, or more of it than is worth naming: observe again.
    Ruleset,
    /// Notifications were lost: observe again.
    Overrun,
}
