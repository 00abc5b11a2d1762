//! What labels items have: own ones, and those that they have in common with their kin.
//!
//! Both are held once, however many items have them. Labels that come with the place where an item stands (its namespace, say)
//! are of the kin: in a large cluster there are few sets of own labels, and few kins, but nearly as many pairs of both as items.

use alloc::boxed::Box;

use super::item::NONE;
use super::projection::UNKNOWN;
use super::raw;
use super::runs::{Run, Runs};
use super::store::{Content, says};

/// Own labels.
#[derive(Debug)]
pub(super) struct Own {
    /// Raw labels, in the room of their store.
    labels: Run,
    /// What selectors see of them; while that is unknown they are posted nowhere.
    pub(super) projection: u32,
    /// First of the list of items that have them.
    pub(super) first: u32,
    references: u32,
}

impl Content for Own {
    type Said = [u8];
    type Room = Runs;

    fn said<'a>(&'a self, room: &'a Runs) -> &'a [u8] {
        room.get(self.labels)
    }

    fn references(&mut self) -> &mut u32 {
        &mut self.references
    }
}

impl Own {
    pub(super) fn new(labels: &[u8], room: &mut Runs) -> Self {
        Self { labels: room.keep(labels), projection: UNKNOWN, first: NONE, references: 0 }
    }

    /// Gives the labels up, which nobody has any more.
    pub(super) fn forget(self, room: &mut Runs) {
        room.forget(self.labels);
    }
}

/// Labels in common, and parents in order, which hand down theirs.
#[derive(Debug)]
pub(super) struct Kin {
    /// See [`raw::write_kin`].
    content: Box<[u8]>,
    /// What selectors see of the whole; while that is unknown the labels are posted nowhere.
    pub(super) projection: u32,
    /// First of the list of items of that kin.
    pub(super) first: u32,
    references: u32,
}

says!(Kin, content: [u8]);

impl Kin {
    pub(super) fn new(content: &[u8]) -> Self {
        Self { content: content.into(), projection: UNKNOWN, first: NONE, references: 0 }
    }

    /// Raw labels in common.
    pub(super) fn labels(&self) -> &[u8] {
        raw::read_kin(&self.content).0
    }

    /// Parents in order.
    pub(super) fn parents(&self) -> impl Iterator<Item = u32> + Clone {
        raw::read_kin(&self.content).1
    }
}

/// Who holds raw labels, as one integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Own(u32),
    Kin(u32),
    Parent(u32),
}

impl Holder {
    /// A number for each; slabs never have a quarter as many slots as there are numbers.
    pub(super) const fn raw(self) -> u32 {
        match self {
            Self::Own(key) => key << 2,
            Self::Kin(key) => key << 2 | 1,
            Self::Parent(key) => key << 2 | 2,
        }
    }

    pub(super) const fn from_raw(raw: u32) -> Self {
        match raw & 3 {
            0 => Self::Own(raw >> 2),
            1 => Self::Kin(raw >> 2),
            _ => Self::Parent(raw >> 2),
        }
    }
}
