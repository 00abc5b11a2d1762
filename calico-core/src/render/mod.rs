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

mod config;
mod endpoint;
mod names;
mod rule;
mod set;
mod skeleton;
mod stack;
mod standard;

pub use config::{EndpointToHost, RenderConfig};
pub use names::{FROM_WORKLOAD, TABLE, TO_WORKLOAD};
pub use standard::Renderer;

use crate::calc::event::Event;
use crate::table::Delta;

/// Turns what is active into what the host should hold. The standard one is [`Renderer`]; an embedder may bring another.
pub trait PolicyRenderer {
    /// The part that exists before anything is known of policies and endpoints, and that drops what comes from and goes to
    /// workloads until they are known. It is part of the desired state from the start.
    fn skeleton(&self) -> Delta;

    /// Takes in one event and adds to `delta` how the desired state changes. Within one delta, removals come before additions.
    fn handle(&mut self, event: &Event, delta: &mut Delta);
}
