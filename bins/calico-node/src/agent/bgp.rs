//! The BGP speaker's side of the loop: its configuration goes in, its events come out.

use calico_bgp::{BgpBackend, BgpError, BgpEvent, SessionState};
use calico_datastore::{Clock, SystemClock};
use futures_util::FutureExt;
use tracing::{error, info, warn};

use super::{Agent, DRAIN};

impl Agent {
    pub(super) async fn apply_bgp(&mut self) {
        if !self.state.seen_in_sync || self.waits_for_secrets().is_some() {
            return;
        }
        let (Some(bgp), Some(desired)) = (self.bgp.as_mut(), self.waiting_bgp.take()) else { return };
        match bgp.apply(&desired).await {
            Ok(()) => self.state.bgp_configured = Some(SystemClock.now().secs()),
            Err(error) => {
                error!(%error, "BGP does not take its configuration; it is tried again");
                self.waiting_bgp = Some(desired);
            }
        }
    }

    pub(super) fn handle_bgp(&mut self, first: Result<BgpEvent, BgpError>) {
        let mut next = Some(first);
        for _ in 0..DRAIN {
            match next {
                Some(Ok(event)) => self.take_bgp_event(&event),
                Some(Err(error)) => {
                    error!(%error, "BGP has stopped; its routes stay");
                    self.bgp = None;
                    return;
                }
                None => return,
            }
            next = self.bgp.as_mut().and_then(|bgp| bgp.next_event().now_or_never());
        }
        // The last one taken out by the loop's head must not be lost.
        if let Some(Ok(event)) = next {
            self.take_bgp_event(&event);
        }
    }

    fn take_bgp_event(&mut self, event: &BgpEvent) {
        match event {
            BgpEvent::Settled => {
                info!("BGP has settled");
                self.driver.machine().set_bgp_settled();
            }
            BgpEvent::Restarted => {
                // Stale before unwanted, or they would go at once.
                self.driver.machine().set_bgp_unsettled();
                self.metrics.bgp_established.set(0);
                let delta = self.pipeline.handle_bgp(event);
                self.driver.machine().desire(&delta);
                warn!(routes = delta.routes_removed.len(), "BGP begins anew; learned routes stay until it has settled");
            }
            BgpEvent::Session(peer) => {
                let (address, name, state) = (peer.peer.id.address, &peer.peer.name, peer.state);
                if self.session_log.tells(address, self.state.start.elapsed()) {
                    info!(%address, name, ?state, reason = peer.last_error, "BGP session");
                }
                let status = self.bgp.as_ref().map(|bgp| bgp.status()).unwrap_or_default();
                let up = status.peers.iter().filter(|peer| peer.state == SessionState::Established).count();
                self.metrics.bgp_established.set(i64::try_from(up).unwrap_or(i64::MAX));
            }
            _ => {
                let delta = self.pipeline.handle_bgp(event);
                self.driver.machine().desire(&delta);
            }
        }
    }

    pub(super) fn tell_left_out(&mut self) {
        for (address, changes) in self.session_log.close(self.state.start.elapsed()) {
            let peers = self.bgp.as_ref().map(|bgp| bgp.status()).unwrap_or_default().peers;
            let state = peers.iter().find(|peer| peer.peer.id.address == address).map(|peer| peer.state);
            warn!(%address, changes, ?state, "BGP session changed more often than is told; this is its state now");
        }
    }
}

/// What the speaker tells next; never without one.
pub(super) async fn next_bgp(bgp: &mut Option<Box<dyn BgpBackend>>) -> Result<BgpEvent, BgpError> {
    match bgp {
        Some(bgp) => bgp.next_event().await,
        None => std::future::pending().await,
    }
}
