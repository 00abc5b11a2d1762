//! Which selectors match which labelled items, kept up to date change by change.
//!
//! Items are endpoints and network sets: their own labels, plus those of parents (profiles) that they name. Two indexes run in
//! the graph: policy selectors over local endpoints, and set selectors over everything. See [`Index`].

mod class;
mod compiled;
mod id_set;
mod index;
mod interner;
mod item;
mod key_index;
mod pair;
mod parent;
pub(crate) mod slab;

pub use index::{Index, Match};

#[cfg(test)]
mod tests;
