//! Whose a block is, and in what state a claim can be.

use crate::resource::{AffinityOwner, AffinityState, BlockAffinity};

/// Reads a block's `affinity`: `host:<name>` or `virtual:<name>`.
pub(super) fn owner(text: &str) -> Option<AffinityOwner> {
    match text.split_once(':')? {
        ("host", name) => Some(AffinityOwner::Host(name.into())),
        ("virtual", name) => Some(AffinityOwner::Virtual(name.into())),
        _ => None,
    }
}

/// A complete claim.
pub(super) const CONFIRMED: BlockAffinity = BlockAffinity { state: AffinityState::Confirmed, deleted: false };
