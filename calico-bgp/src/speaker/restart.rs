//! Sessions that begin and end, as far as routes are concerned: graceful restart of the peer (RFC 4724, 8538, 9494) and route refresh
//! (RFC 2918, 7313).
//!
//! | When | The RIB is told |
//! |---|---|
//! | a session is lost | `retain`: what becomes of each family |
//! | a deadline of that comes, without the peer | `retain` with the next stage, the last of which is `Drop` |
//! | the peer is back | `sweep` of the families whose forwarding it did not preserve, then `channels_up` |
//! | its end-of-RIB comes, or the deadline for that | `sweep` |
//! | BoRR and EoRR come | `begin_refresh`, `end_refresh` |

use calico_core::bgp::{Families, PeerId};
use calico_core::net::Family;

use super::{ConnectionId, Speaker};
use crate::session::negotiate::Negotiated;
use crate::session::retention::{Patience, Retain, Retention};
use crate::session::timer::TimerKey;
use crate::time::Timestamp;
use crate::wire::{RefreshKind, RouteRefresh};

impl Speaker {
    /// A session is up: the peer gets everything, and its earlier routes wait for its end-of-RIB.
    pub(super) fn session_up(&mut self, now: Timestamp, peer_id: PeerId) {
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        let Some(negotiated) = peer.established().and_then(|connection| connection.negotiated.clone()) else {
            return;
        };
        for family in Families::BOTH.iter() {
            if !self.has_stale(peer_id, family) {
                continue;
            }
            if negotiated.preserves_forwarding(family) {
                self.await_end(now, peer_id, family);
            } else {
                self.end_stale(peer_id, family);
            }
        }
        let restart = negotiated.graceful_restart.as_ref();
        let peer_restarts = restart.is_some_and(|restart| restart.restarting);
        self.channels_up(peer_id, &negotiated, peer_restarts || !self.recovery.is_running());
        if restart.is_none() {
            self.done_with(&peer_id);
        }
    }

    /// What is stale goes when the peer has told all, or has had the time to.
    fn await_end(&mut self, now: Timestamp, peer_id: PeerId, family: Family) {
        let Some(peer) = self.peers.get(&peer_id) else {
            return;
        };
        let deadline = peer.retention.of(family).returned(now, self.config.stale_time);
        self.timers.arm(TimerKey::Retention(peer_id, family), deadline);
    }

    /// A session is down; `graceful` says that the peer may just be restarting.
    pub(super) fn session_down(&mut self, now: Timestamp, peer_id: PeerId, negotiated: &Negotiated, graceful: bool) {
        self.channels_down(peer_id);
        let grace = self.config.stale_time;
        for family in Families::BOTH.iter() {
            let Some(peer) = self.peers.get_mut(&peer_id) else {
                return;
            };
            let most = peer.desired.session.long_lived.unwrap_or(0);
            let patience = if graceful { negotiated.patience(family, most) } else { Patience::default() };
            // RFC 4724 section 4.2 deletes what was stale already when a peer restarts twice. That would cut off the pods
            // of an agent that is killed twice in a row; so it stays, but no longer than the first restart allows.
            let retain = peer.retention.of_mut(family).begin(now, patience, grace);
            self.keep(peer_id, family, retain);
        }
    }

    /// A deadline of what is stale has come.
    pub(super) fn retention_due(&mut self, now: Timestamp, peer_id: PeerId, family: Family) {
        let Some(peer) = self.peers.get_mut(&peer_id) else {
            return;
        };
        if peer.is_established() {
            return self.end_stale(peer_id, family);
        }
        let retain = peer.retention.of_mut(family).advance(now);
        self.keep(peer_id, family, retain);
        self.changed.insert(peer_id);
        self.forget_if_gone(peer_id);
    }

    /// Tells the RIB, and arms the timer for what comes next.
    fn keep(&mut self, peer_id: PeerId, family: Family, retain: Retain) {
        self.retain(peer_id, family, retain);
        match retain {
            Retain::Stale { until } | Retain::LongLived { until } if self.has_stale(peer_id, family) => {
                self.timers.arm(TimerKey::Retention(peer_id, family), until);
            }
            _ => self.forget_retention(peer_id, family),
        }
    }

    /// Every route of every family goes, whatever was agreed.
    pub(super) fn drop_routes(&mut self, peer_id: PeerId) {
        for family in Families::BOTH.iter() {
            self.retain(peer_id, family, Retain::Drop);
            self.forget_retention(peer_id, family);
        }
    }

    fn end_stale(&mut self, peer_id: PeerId, family: Family) {
        self.sweep(peer_id, family);
        self.forget_retention(peer_id, family);
        self.changed.insert(peer_id);
    }

    fn forget_retention(&mut self, peer_id: PeerId, family: Family) {
        self.timers.disarm(TimerKey::Retention(peer_id, family));
        if let Some(peer) = self.peers.get_mut(&peer_id) {
            *peer.retention.of_mut(family) = Retention::default();
        }
    }

    /// The peer has told all it knows of a family.
    pub(super) fn handle_end_of_rib(&mut self, id: ConnectionId, peer_id: PeerId, family: Family) {
        if self.has_stale(peer_id, family) {
            self.end_stale(peer_id, family);
        }
        let Some(connection) = self.connection(id) else {
            return;
        };
        let awaited: Families = connection.awaited.iter().filter(|awaited| *awaited != family).collect();
        connection.awaited = awaited;
        if awaited.is_empty() {
            self.done_with(&peer_id);
        }
    }

    pub(super) fn handle_refresh(&mut self, now: Timestamp, id: ConnectionId, peer_id: PeerId, refresh: RouteRefresh) {
        let Some(negotiated) = self.connection(id).and_then(|connection| connection.negotiated.as_ref()) else {
            return;
        };
        let (families, enhanced) = (negotiated.families(), negotiated.enhanced_route_refresh);
        // One that names a family not negotiated is ignored (RFC 2918 section 4, RFC 7313 section 4).
        let Some(family) = refresh.family.known().filter(|family| families.contains(*family)) else {
            return;
        };
        match refresh.kind {
            RefreshKind::Request => {
                tracing::debug!(peer = %peer_id, connection = %id, "the peer asks for all routes again");
                self.refresh(peer_id, family);
            }
            RefreshKind::Begin if enhanced => {
                self.begin_refresh(peer_id, family);
                if self.has_stale(peer_id, family) {
                    // A peer that never says that it is done, or begins again and again, must not keep what it no longer means.
                    let deadline = now.after(self.config.stale_time);
                    self.timers.arm_by(TimerKey::Retention(peer_id, family), deadline);
                }
            }
            RefreshKind::End if enhanced && self.has_stale(peer_id, family) => self.end_stale(peer_id, family),
            RefreshKind::Begin | RefreshKind::End => {}
        }
    }
}
