//! The routing information bases (RFC 4271 section 3.2), as one machine without sockets, clock or tasks: [`Rib`].
//!
//! In come configured peers, sessions going up and down, and what peers announce. Out come changes of what the host should forward
//! ([`Rib::poll_report`]), and for each peer messages that say what it should know ([`Rib::poll_ready`], [`Rib::poll_transmit`]).
//!
//! ```text
//! announce ─▶ import ─▶ table ─▶ decision ─┬▶ report
//!             (received and accepted        └▶ export ─▶ groups ─▶ transmit
//!              paths, by prefix)               (once per group)   (once per peer)
//! ```
//!
//! Paths live once, in the [table], beside each other per prefix, both as they came and as the import policy lets them in. Peers
//! that hear the same share an update [group]. Attributes are [interned](intern), so that equal sets are one allocation and
//! comparing them compares pointers.
//!
//! What must stay true: whatever the order and the number of changes, once nothing waits each peer has been told what the present paths,
//! peers and policies make of each prefix, and nothing else. Memory grows with paths and prefixes, not with changes nor with peers that
//! do not read.

mod advance;
mod decision;
mod explain;
mod export;
mod group;
mod import;
mod intern;
mod machine;
mod paged;
mod path;
mod peer;
mod policy;
mod received;
mod report;
mod table;
mod transmit;

#[cfg(test)]
mod tests;

pub use decision::Step;
pub use explain::{Explanation, Fate, PathReport, Told};
pub use export::Withheld;
pub use import::Refusal;
pub(crate) use machine::Rib;
pub(crate) use peer::{Channel, PeerSettings, Session};
pub(crate) use received::Retain;
pub(crate) use report::RouteReport;
