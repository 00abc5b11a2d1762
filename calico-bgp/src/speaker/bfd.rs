//! What BFD (RFC 5880) says of a peer, and what follows for its session (RFC 5882, 9384).

use core::net::IpAddr;

use super::Speaker;
use super::end::End;
use super::hindrance::hindrance;
use crate::bfd::{BfdEvent, BfdPeer};
use crate::session::timer::TimerKey;
use crate::session::transport::source;
use crate::time::Timestamp;

impl Speaker {
    /// BFD has found a peer, or lost it.
    ///
    /// A session need not wait for BFD to come up: a peer without it would never be reached. But where it was up and is down, the session
    /// ends at once. A loss that is no failure (somebody switched BFD off) changes nothing.
    pub fn handle_bfd(&mut self, now: Timestamp, event: &BfdEvent) {
        self.seen = now;
        match *event {
            BfdEvent::Up { peer: peer_id } => {
                let Some(peer) = self.peers.get_mut(&peer_id) else {
                    return;
                };
                peer.record.bfd_up = Some(true);
                self.changed.insert(peer_id);
                let waits = !peer.is_established() && !peer.is_idle && hindrance_of(self, peer_id).is_none();
                if waits {
                    self.timers.arm(TimerKey::Retry(peer_id), now);
                }
            }
            BfdEvent::Down { peer: peer_id, loss, control_plane_independent } => {
                let Some(peer) = self.peers.get_mut(&peer_id) else {
                    return;
                };
                peer.record.bfd_up = Some(false);
                self.changed.insert(peer_id);
                if loss.is_failure() {
                    self.close_all(now, peer_id, &End::Dead { is_final: control_plane_independent });
                }
            }
        }
    }

    /// Paths that BFD is to watch.
    pub(super) fn watched(&self) -> Vec<BfdPeer> {
        let Some(local) = &self.local else {
            return Vec::new();
        };
        let wanted = self.peers.values().filter_map(|peer| {
            let parameters = peer.desired.session.bfd.filter(|_| hindrance(local, &peer.desired).is_none())?;
            let own: Option<IpAddr> = source(local, &peer.desired).ok().flatten();
            Some(BfdPeer { id: peer.id(), local: own, parameters, admin_down: false })
        });
        wanted.collect()
    }
}

fn hindrance_of(speaker: &Speaker, peer_id: calico_core::bgp::PeerId) -> Option<String> {
    hindrance(speaker.local.as_ref()?, &speaker.peers.get(&peer_id)?.desired)
}
