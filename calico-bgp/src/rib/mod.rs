//! The routing information bases (RFC 4271 section 3.2).
//!
//! Paths live once, in [`Loc`], beside each other per prefix; [`AdjIn`] remembers which prefixes a peer has announced and in
//! which of its lives, so that marking all of a peer's routes stale is one addition. [`AdjOut`] remembers what a peer has been
//! told and what it is still to be told, per prefix and never as a queue of messages: the last state wins.
//!
//! Attribute sets are interned ([`AttributeTable`]): equal sets are one allocation, and grouping compares pointers.

mod adj_in;
mod adj_out;
mod attributes;
mod decision;
mod export;
mod loc;
mod path;

/// Whether several paths to one prefix by one peer are kept apart; if not, they are not asked for either.
pub(crate) const CARRIES_PATHS: bool = false;

pub(crate) use adj_in::AdjIn;
pub(crate) use adj_out::{AdjOut, Sent, Step};
pub(crate) use attributes::AttributeTable;
pub(crate) use export::{ExportTarget, Exporter};
pub(crate) use loc::{Best, BestChange, Loc, RouteReport, Source};
pub(crate) use path::{Path, PathSource};
