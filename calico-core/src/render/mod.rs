//! What a host should hold, in table words, for what the calculation graph says is active on it.
//!
//! In come [`Event`]s; out go changes of the desired state as [`Delta`]s, which the reconciler compares with what the host has.
//! One table, `inet calico-dataplane`, holds all of it but one rule about ARP. Its shape:
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
//! egress-…, ingress-…    one for each distinct stack: its tiers, its profiles, drop; behind `open-`, one that ends without a decision
//! segment-…, policies-…    of a tier with many policies: by protocol and port, those that can match (`segment`)
//! policy-in/…, policy-out/…, profile-in/…, profile-out/…    the rules
//! ```
//!
//! | Behind it | Hooks and priorities | There while |
//! |---|---|---|
//! | host endpoints, `hosts` | prerouting -300, -299, -150; input 2; forward 2, 3; output -300, -299, 0; postrouting -150 | there is one; the early ones while a policy wants them |
//! | limits and marks, `qos` | forward -1, 5, 6; input -1, 3 | a workload has one |
//! | service loops, `network` | forward 4 | a service's range is known |
//! | masquerade, `network` | postrouting 110 (nat) | a pool wants it |
//! | floating addresses, `floating` | prerouting and output -99, postrouting 109 (nat) | a workload has one |
//! | ARP, `arp` | output 0 of table `arp calico-dataplane` | always |
//!
//! Limits on bandwidth (`bandwidth`) are none of the table's: they hold packets back where they leave the host for the workload, or, through a
//! device, before any hook sees them.
//!
//! No two of these, or of kube-proxy's, share hook and priority, so their order is known; and since nobody's `accept` ends anything but its
//! own base chain, what others drop stays dropped, before or behind.
//!
//! The parts of the way through the host are base chains of their own, because in nf_tables `accept` ends its own base chain only:
//! so an Allow is a plain `accept` and needs no mark. Pass is a mark bit, tested after each policy of the tier. A second bit tells a later
//! hook that policy of a host endpoint accepted a packet before; it is set around the question, and no policy knows of it. From the host to
//! a local workload nothing is policed.
//!
//! Denials by policy follow `FilterDenyAction`; what is forged, unknown, invalid or encapsulated is dropped whatever that says, since an
//! answer would go to the wrong one or tell a forger that he is heard. Before the routing decision and behind it nothing can be refused,
//! so a rule list that refuses exists a second time there.
//!
//! Staged policies stand at their place in the stack, count rule by rule and return: nothing they say has an effect. They are never
//! asked where the tier was left before, or decided.
//!
//! A workload's source address is checked in a set, for both families and more strictly than by upstream's reverse-path look-up
//! (`fib saddr . mark . iif`), which asks the routing table and so believes whoever can change it; nothing here needs that look-up. It is checked
//! at forward and input and before connection state, so a forged packet neither rides on a connection nor begins one: tracking
//! forgets what is dropped before it is confirmed.
//!
//! Invariants: no chain belongs to an endpoint (chains follow the number of distinct policies and stacks, an endpoint is elements), but those
//! that hold what its limits have counted;
//! a change of members is a change of elements, and of the chains that refer to the set only if a part of it comes or goes; a change of rules is one
//! of their chain, and of the segments in which their policy stands if it speaks of other protocols or ports than before; only chains that something refers to exist; a `cali*` interface that nobody
//! announced finds no element and is dropped; before anything is known fail-safe ports are open, as no host endpoint is known either; names are
//! functions of content, so they survive restarts; an event costs what it changes, whatever its delta has gathered already.
//!
//! An IP set becomes up to four kernel sets: hosts (a hash, 75–100 ns) and prefixes (an interval tree) for each family, each while it has
//! members (`set`). A rule that wants a member is written once for each that exists, a rule that wants a non-member tests all of them. The kernel
//! looks sets up by name, one after the other, for each rule that looks into one: with all parts, a cold start took nearly four times as long.
//! The price is that the first member of a part, and the last, rewrite the chains that refer to the set; of IPv4 hosts, whose numbers
//! pass through zero most often, the part always exists.

mod action;
mod arp;
mod bandwidth;
mod candidates;
mod chains;
mod config;
mod ended;
mod endpoint;
mod failsafe;
mod floating;
mod fold;
mod footprint;
mod host_chains;
mod hosts;
mod names;
mod nat;
mod network;
mod owner;
mod pending;
mod qos;
mod rule;
mod segment;
mod set;
mod skeleton;
mod stack;
mod stage;
mod standard;
mod words;
mod workloads;

pub use config::{DenyAction, LogRate, LogRateError, MarkMask, MarkMaskError, RenderConfig, ServiceLoops};
pub use names::{FROM_WORKLOAD, TABLE, TO_WORKLOAD};
pub use nat::{InterfacePattern, NatConfig};
pub use standard::Renderer;

use crate::calc::Abilities;
use crate::calc::event::Event;
pub use crate::flow::EndpointToHost;
use crate::flow::Flow;
use crate::table::Delta;

/// Turns what is active into what the host should hold. The standard one is [`Renderer`]; an embedder may bring another, and test it
/// with the suite `calico_dataplane::testing::renderer`, which proves each sentence of the contract.
///
/// # Contract
/// The caller takes the skeleton and then hands in events in the graph's order ([`calc::event`](crate::calc::event)): what is referred
/// to comes first and goes last. Skeleton and deltas add up to the *desired state*, which the reconciler brings about. Of an
/// interface that passes from one endpoint to another in a flush, the new one may be announced before the old one is removed.
///
/// *Decisions.* After a flush the host decides about a packet as [`spec`](crate::spec) says of its passage, under the renderer's settings and
/// fail-safe ports: from, to and between endpoints, the host and its interfaces, with every connection state, translated on the way or not,
/// whatever mark the packet carries. Above all, an established connection goes on, but what a workload sends with a source
/// address that is not its own is dropped even then. A new connection from or to a workload interface that nobody announced is dropped, but for
/// neighbour discovery with the host. Traffic of interfaces that are no endpoint's is left alone, whatever its state, unless it goes in circles.
///
/// *Routes.* Each address of an active endpoint, floating ones where they are switched on, is routed to its interface or, if several have the address, to one of theirs; there
/// is no other route to an interface. An endpoint whose interface is not called as a workload's gets nothing: it could not be
/// policed.
///
/// *Bandwidth.* What an active endpoint receives and sends is limited as it asks for, and nothing else is.
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

    /// From now on the host drops packets of TCP that come out of the middle of these connections while they are new to it: they belong to
    /// connections that were ended. Those that are `over` it drops no more. A renderer that cannot do it adds nothing, and then such
    /// connections are ended again when they come back.
    fn bar(&mut self, _ended: &[Flow], _over: &[Flow], _delta: &mut Delta) {}

    /// What it carries out, as it is set up: the graph tells of what is asked for beyond. Services are not its matter. Each renderer says it:
    /// who claimed by silence what it does not do would keep users from being told.
    fn abilities(&self) -> Abilities;
}
