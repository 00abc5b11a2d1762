//! Small numbers for peers.
//!
//! Peers are known to everybody by their [`PeerId`](calico_core::bgp::PeerId); the RIBs, which name one in each path, use a number that
//! fits in four bytes and indexes a table. Numbers are dense: the least that is free is given out. A peer gives its number back only after
//! all its routes are gone, so that none can be taken for its successor's.

use std::collections::BTreeSet;

/// Number of a peer, for as long as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PeerIndex(pub(crate) u32);

/// Gives out numbers.
#[derive(Debug, Default)]
pub(crate) struct PeerIndices {
    /// All from here on are free.
    next: u32,
    /// Given back, and below `next`.
    free: BTreeSet<PeerIndex>,
}

impl PeerIndices {
    /// The least number that nobody has.
    pub(crate) fn take(&mut self) -> PeerIndex {
        self.free.pop_first().unwrap_or_else(|| {
            let index = PeerIndex(self.next);
            self.next = self.next.saturating_add(1);
            index
        })
    }

    /// The peer is gone, and so are its routes.
    pub(crate) fn give_back(&mut self, index: PeerIndex) {
        self.free.insert(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_come_again() {
        let mut indices = PeerIndices::default();
        let all: Vec<PeerIndex> = core::iter::repeat_with(|| indices.take()).take(3).collect();
        assert_eq!(all, [PeerIndex(0), PeerIndex(1), PeerIndex(2)]);
        indices.give_back(PeerIndex(1));
        indices.give_back(PeerIndex(0));
        assert_eq!([indices.take(), indices.take(), indices.take()], [PeerIndex(0), PeerIndex(1), PeerIndex(3)]);
    }
}
