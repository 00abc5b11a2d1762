//! The calculation graph: which policies, sets and endpoints are active on one host.
//!
//! A synchronous machine: [`Graph::handle_update`], [`Graph::set_interface`] and [`Graph::set_endpoint_slice`] take in what changed,
//! [`Graph::flush`] gives events out. A change runs through
//!
//! 1. `admit` with `policy`: what it means; an unusable object becomes absent and is reported;
//! 2. `dispatch`: whether a workload's endpoint is this host's, and has its interface to itself; `host_endpoints`: which of the host's own
//!    interfaces are which host endpoint's;
//! 3. `active_rules`: which policies and profiles are active because a local endpoint needs them (an index of policy selectors
//!    over local endpoints);
//! 4. `rule_scan` with `scope` and `peer_sets`: their rules, selectors and services turned into sets;
//! 5. `ip_set` with `member`: the members of those sets (an index of set selectors over all endpoints and network sets); `services`: of those
//!    of services;
//! 6. `policy_order`: each endpoint's stacks, shared between endpoints; `describe`: what else there is to an endpoint; `holders`: who has the
//!    addresses that are wanted as floating ones;
//! 7. `network`: what all hosts have in common;
//! 8. `sequence`: everything in an order that is safe to carry out.
//!
//! Invariants: what the events add up to is a function of the current objects, whatever the order in which they came; the cost of
//! a change is that of what it concerns, never of all; whatever is missing or unusable lets less through, never more.

mod abilities;
mod active_rules;
mod addresses;
mod admit;
mod arena;
mod contribution;
mod describe;
mod diagnostic;
mod dispatch;
mod entities;
pub mod event;
mod graph;
mod holders;
mod host_endpoints;
mod hosts;
mod ip_set;
mod local;
mod member;
mod network;
mod orders;
mod peer_sets;
mod policy;
mod policy_order;
mod rule_scan;
mod scope;
mod sequence;
mod services;
mod shared;
mod waiting;

pub use abilities::Abilities;
pub use diagnostic::{Combination, Owner, Problem, RuleEffect, RuleFault};
pub use graph::Graph;
pub use rule_scan::rule_origins;

#[cfg(test)]
mod tests;
