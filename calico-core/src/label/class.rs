//! Items of which selectors see the same are one class: selectors are evaluated per class, not per item.

use alloc::boxed::Box;

use super::item::NONE;
use super::store::{Content, says};

/// One class. In the worst case there are as many as items, so it is kept small.
#[derive(Debug)]
pub(super) struct Class {
    /// Projections of the items' own labels and of their kin.
    pub(super) seen: (u32, u32),
    /// Selectors that match, sorted.
    pub(super) matching: Box<[u32]>,
    /// First of its list of items.
    pub(super) first: u32,
    /// How many items are in that list.
    references: u32,
}

says!(Class, seen: (u32, u32));

impl Class {
    /// One that matches nothing yet.
    pub(super) fn new(seen: (u32, u32)) -> Self {
        Self { seen, matching: Box::default(), first: NONE, references: 0 }
    }
}
