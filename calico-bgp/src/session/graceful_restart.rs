//! The restarting speaker's side of RFC 4724: whose end-of-RIB is still awaited.
//!
//! A speaker that has just started does not know whether it had an earlier life; it behaves as if. Routes are reported and our
//! own prefixes announced as soon as they are known, because neither can do harm; what waits until the peers have told all they
//! know is (1) the removal of kernel routes of the earlier life and (2) our end-of-RIB, which makes the peers forget what we
//! announced in that life.
//!
//! RFC 4724 does not wait for peers that are restarting themselves, lest two wait for each other. We do wait for them, so that
//! two agents upgraded together lose no packet; instead the wait of two is broken by sending the end-of-RIB to a restarting
//! peer at once. Against a peer that knows only the RFC's rule, the deferral timer bounds the wait.

use calico_core::bgp::PeerId;
use std::collections::BTreeSet;

/// Progress of the start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// No desired state has been given yet.
    NotStarted,
    /// These peers have not sent their end-of-RIB.
    Waiting(BTreeSet<PeerId>),
    /// Over; the flag says whether that has been reported.
    Over {
        /// Whether it was reported.
        reported: bool,
    },
}

impl Recovery {
    /// Whether OPENs carry the R bit, and end-of-RIB markers wait.
    pub(crate) const fn is_running(&self) -> bool {
        !matches!(self, Self::Over { .. })
    }

    /// A peer need not be waited for (any more). Says whether that was the last one.
    pub(crate) fn done_with(&mut self, peer: &PeerId) -> bool {
        let Self::Waiting(peers) = self else {
            return false;
        };
        peers.remove(peer);
        peers.is_empty()
    }
}
