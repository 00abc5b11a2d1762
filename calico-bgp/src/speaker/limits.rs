//! More prefixes than a peer may announce (RFC 4271 section 6.7, 4486 section 4).

use calico_core::bgp::PeerId;
use calico_core::net::Family;

use super::end::End;
use super::{ConnectionId, Speaker};
use crate::time::Timestamp;
use crate::wire::{AddressFamily, Notification};

impl Speaker {
    /// To be asked when a peer has announced prefixes: how many paths it had of that family, and has now. Ends the session, and says so, if that is too many.
    pub(super) fn exceeds_limit(
        &mut self,
        now: Timestamp,
        id: ConnectionId,
        peer_id: PeerId,
        family: Family,
        counts: core::ops::RangeInclusive<usize>,
    ) -> bool {
        let Some(peer) = self.peers.get(&peer_id) else {
            return true;
        };
        let limit = peer.desired.session.maximum_prefixes.unwrap_or(self.config.maximum_prefixes);
        let [before, count] = [counts.start(), counts.end()].map(|count| u32::try_from(*count).unwrap_or(u32::MAX));
        if count <= limit {
            // Once on the way up.
            let near = limit - limit / 4;
            if limit >= 4 && before < near && count >= near {
                tracing::warn!(peer = %peer_id, ?family, count, limit, "a BGP peer nears its maximum of prefixes");
            }
            return false;
        }
        let notification = Notification::maximum_prefixes(AddressFamily::unicast(family), limit);
        let reason = format!("{notification}: more than {limit} of {}", AddressFamily::unicast(family));
        self.close(now, id, End::Sent(notification, reason));
        true
    }
}
