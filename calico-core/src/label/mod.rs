//! Which selectors match which labelled items, kept up to date change by change.
//!
//! Items are endpoints and network sets: their own labels, plus those of parents (profiles) that they name. Two indexes run in
//! the graph: policy selectors over local endpoints, and set selectors over everything. See [`Index`].
//!
//! Of a quarter of a million items nearly everything is the same to every selector. So labels come in as text and stay text, in
//! one piece for each distinct set of them (`raw`, `label_set`); what selectors can see of such a piece is a short list of symbols, its
//! `projection`; items with equal projections are one `class`, which is what selectors are evaluated for (`compiled`). `key_index`
//! knows what selectors use, and finds what a new selector concerns.

mod class;
mod compiled;
mod id_set;
mod index;
mod interner;
mod item;
mod key_index;
mod label_set;
mod parent;
mod projection;
mod raw;
pub(crate) mod runs;
mod settle;
pub(crate) mod slab;
pub(crate) mod store;
mod strings;

pub(crate) use compiled::needed;
pub(crate) use id_set::IdSet;
pub use index::{Index, Match};

#[cfg(test)]
mod tests;
