//! A host in memory: a [`Dataplane`](crate::Dataplane) without a kernel, and the interpreter that runs a packet through what it
//! holds.
//!
//! It is as strict as the kernel: a reference into the void, a deleted object that is still referred to, an element twice with
//! different data, overlapping prefixes, or a word at a hook that cannot have it fail the transaction as a whole. And it is open to
//! tests: what it holds can be read, faults can be planted, strangers can change it. The interpreter knows table words only: it is
//! one of the oracles that the rendered policy is checked with.

mod backend;
mod condition;
mod interpret;
mod packet;
mod ruleset;
mod surroundings;
#[cfg(test)]
mod tests;
mod validate;

pub use backend::{Faults, Recording};
pub use packet::{Arp, Evaluation, Packet, Visit};
pub use ruleset::Ruleset;
pub use surroundings::Surroundings;
