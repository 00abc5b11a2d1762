//! What a host should hold, in table words, for what the calculation graph says is active on it.
//!
//! In come [`Event`]s; out go changes of the desired state as [`Delta`]s, which the reconciler compares with what the host has.
//! One table, `inet calico-dataplane`, holds all of it. Its shape:
//!
//! ```text
//! forward  0  forward-egress    iifname cali*: goto from-workload
//! forward  1  forward-ingress   oifname cali*: goto to-workload
//! input    0  input-egress      iifname cali*: neighbour discovery, goto from-workload
//! input    1  input-host        iifname cali*: established, neighbour discovery, else drop (the default endpoint-to-host action)
//!
//! from-workload      source belongs to the interface (set look-up)?  goto workload-egress; else drop
//! workload-egress    conntrack, encapsulation; iifname vmap @from-workload {interface: goto egress-…}; drop
//! to-workload        conntrack; oifname vmap @to-workload {interface: goto ingress-…}; drop
//! egress-…, ingress-…    one for each distinct stack: its tiers, its profiles, drop
//! policy-in/…, policy-out/…, profile-in/…, profile-out/…    the rules
//! ```
//!
//! The two halves of the way through the host are two base chains, because in nf_tables `accept` ends its own base chain only:
//! so an Allow is a plain `accept` and needs no mark. Pass is a mark bit, tested after each policy of the tier. From the host to
//! a local workload nothing is policed (no chain at output).
//!
//! Invariants: no chain belongs to an endpoint (chains follow the number of distinct policies and stacks, an endpoint is elements);
//! a change of members is a change of elements and never of a chain; only chains that something refers to exist; a `cali*` interface that nobody
//! announced finds no element and is dropped; names are functions of content, so they survive restarts.
//!
//! An IP set becomes four kernel sets, always: hosts (a hash, 75–100 ns) and prefixes (an interval tree) for each family. A rule
//! that wants a member is written once for each, a rule that wants a non-member tests both. The price is a second rule whose
//! look-up in an empty tree costs a few nanoseconds; in return the first prefix that joins a set rewrites no chain.

mod action;
mod arp;
mod chains;
mod config;
mod endpoint;
mod failsafe;
mod floating;
mod fold;
mod host_chains;
mod hosts;
mod names;
mod nat;
mod network;
mod owner;
mod pending;
mod place;
mod qos;
mod rule;
mod set;
mod skeleton;
mod stack;
mod standard;
mod words;
mod workloads;

pub use config::{
    DenyAction, EndpointToHost, LogRate, LogRateError, MarkMask, MarkMaskError, RenderConfig, ServiceLoops,
};
pub use names::{FROM_WORKLOAD, TABLE, TO_WORKLOAD};
pub use nat::{InterfacePattern, NatConfig};
pub use standard::Renderer;

use crate::calc::event::Event;
use crate::table::Delta;

/// Turns what is active into what the host should hold. The standard one is [`Renderer`]; an embedder may bring another, and test it
/// with the suite `calico_dataplane::testing::renderer`, which proves each sentence of the contract.
///
/// # Contract
/// The caller takes the skeleton and then hands in events in the graph's order ([`calc::event`](crate::calc::event)): what is referred
/// to comes first and goes last. Skeleton and deltas add up to the *desired state*, which the reconciler brings about. Of an
/// interface that passes from one endpoint to another in a flush, the new one may be announced before the old one is removed.
///
/// *Decisions.* After a flush the host decides about a new connection as [`spec`](crate::spec) says, under the renderer's settings: from
/// an endpoint, to an endpoint, from one to another, from an endpoint to its host and from the host to it; whatever mark the packet
/// carries. An established connection goes on, but what a workload sends with a source address that is not its own is dropped even
/// then. A new connection from or to a workload interface that nobody announced is dropped, but for neighbour discovery with the host.
/// Traffic of other interfaces is left alone, whatever its state.
///
/// *Routes.* Each address of an active endpoint is routed to its interface or, if several have the address, to one of theirs; there
/// is no other route to an interface. An endpoint whose interface is not called as a workload's gets nothing: it could not be
/// policed.
///
/// *State.* The desired state depends on what is active and on nothing before, down to the names: so a restarted agent recognises
/// what it finds. When nothing is active, it is the skeleton. A whole value that is told again (any event but
/// [`Event::SetChanged`] and the removals) changes nothing.
///
/// *Changes.* After each event, not only after a flush, the desired state is one that a kernel takes: all that is referred to is
/// there. What one event removes was there. A delta may gather any number of events, of several flushes too, and then adds up to
/// the same: what it removes goes before what it adds comes.
pub trait PolicyRenderer {
    /// The part that exists before anything is known of policies and endpoints, and that drops what comes from and goes to
    /// workloads until they are known. It goes into an empty table, removes nothing, and stays the same whatever is active.
    fn skeleton(&self) -> Delta;

    /// Takes in one event and adds to `delta` how the desired state changes. What was gathered in `delta` and is now to go must be
    /// taken out of it: of a name that it both removes and adds, the addition counts.
    fn handle(&mut self, event: &Event, delta: &mut Delta);
}
