//! A change to what a host holds.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::{Chain, ChainName, Element, Neighbor, Route, RouteKey, SetDecl, SetName, Shaper, Shaping};
use crate::net::InterfaceName;

/// One change, in the order in which it must take effect: sets, elements that only add, chains, elements that lead to chains,
/// removals in reverse. A backend applies the nf_tables part as one transaction.
///
/// A name that is both removed and set (or added) is deleted and made anew: so a base chain moves to another hook, and a set
/// gets another type. Every chain that refers to such a set is then in `chains_set` or `chains_removed`, and all elements of
/// the new set are in `elements`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "backends must handle every part; a new part must break them")]
pub struct Delta {
    /// Sets to create.
    pub sets_added: Vec<SetDecl>,
    /// Chains to create, or to replace whole.
    pub chains_set: Vec<Chain>,
    /// Element changes, of old and new sets.
    pub elements: Vec<ElementDelta>,
    /// Chains to delete; nothing refers to them once the rest has taken effect.
    pub chains_removed: Vec<ChainName>,
    /// Sets to delete; nothing refers to them once the rest has taken effect.
    pub sets_removed: Vec<SetName>,
    /// Routes to create or replace.
    pub routes_set: Vec<Route>,
    /// Routes to delete.
    pub routes_removed: Vec<RouteKey>,
    /// Neighbours to create or replace.
    pub neighbors_set: Vec<Neighbor>,
    /// Neighbours to delete (`mac` is not looked at).
    pub neighbors_removed: Vec<Neighbor>,
    /// Per-interface settings to write.
    pub settings: Vec<InterfaceSetting>,
    /// Interfaces whose settings are no longer wanted. Only bookkeeping for whoever holds the desired state: what was written
    /// stays, so backends have nothing to do.
    pub settings_dropped: Vec<InterfaceName>,
    /// Limits on bandwidth to set or change.
    pub shapings_set: Vec<Shaping>,
    /// Limits to lift, and devices that exist for one to delete. One that is set, too, stays.
    pub shapings_removed: Vec<Shaper>,
    /// Addresses whose connections end: what the host's connection tracking remembers of them, at either end and in either direction,
    /// goes once the rest of the delta has taken effect. Unlike everything else here it is not a state but something to do once.
    pub connections_cut: Vec<IpAddr>,
}

/// Changes to the elements of one set. Removals take effect before additions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the tracker builds it with literals")]
pub struct ElementDelta {
    /// The set.
    pub set: SetName,
    /// Elements to remove.
    pub removed: Vec<Element>,
    /// Elements to add.
    pub added: Vec<Element>,
}

/// A value below `/proc/sys/net/ipv4|ipv6/{conf,neigh}/<interface>/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct InterfaceSetting {
    /// Interface.
    pub interface: InterfaceName,
    /// Path with `{}` for the interface, such as `net/ipv4/conf/{}/proxy_arp`.
    pub path: &'static str,
    /// Text to write.
    pub value: String,
}

impl Delta {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
