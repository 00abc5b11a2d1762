//! The BFD sessions of BGP peers, for as long as any wants one.

use crate::bfd::{BfdConfig, BfdEndpoint, BfdEndpointConfig, BfdError, BfdEvent, BfdPeer};

/// The endpoint, made when it is first needed.
#[derive(Debug)]
pub(super) struct Watch {
    seed: u64,
    endpoint: Option<BfdEndpoint>,
}

impl Watch {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, endpoint: None }
    }

    /// Watches these and no others. On an error all are set nevertheless, and it is to be called again.
    pub(super) fn set(&mut self, peers: &[BfdPeer]) -> Result<(), BfdError> {
        if self.endpoint.is_none() && peers.is_empty() {
            return Ok(());
        }
        let bfd = BfdConfig { seed: self.seed, ..BfdConfig::default() };
        let start = || BfdEndpoint::start(&BfdEndpointConfig { bfd, ..BfdEndpointConfig::default() });
        self.endpoint.get_or_insert_with(start).set_peers(peers)
    }

    /// Never, without an endpoint. Cancel safe.
    pub(super) async fn next_event(&self) -> BfdEvent {
        match &self.endpoint {
            Some(endpoint) => endpoint.next_event().await,
            None => core::future::pending().await,
        }
    }

    pub(super) async fn stop(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.stop().await;
        }
    }
}
