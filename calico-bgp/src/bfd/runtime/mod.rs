//! BFD on tokio: one task, a receiving socket per family and port, and a sending socket per session.

mod driver;
mod receiver;
mod sender;

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::machine::Bfd;
use super::peer::{BfdConfig, BfdEvent, BfdPeer, BfdStatus};
use crate::clock::Clock;
use driver::drive;
use receiver::{Listen, Receivers};

/// Configuration of a [`BfdEndpoint`].
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "built with literals over the default")]
pub struct BfdEndpointConfig {
    /// Of the machine.
    pub bfd: BfdConfig,
    /// Where IPv4 sessions listen: everywhere, unless several endpoints share a host.
    pub ipv4: Ipv4Addr,
    /// Where IPv6 sessions listen.
    pub ipv6: Ipv6Addr,
}

/// Sessions with real peers.
///
/// Ports are open only while a session needs them. Dropping it (or [`stop`](Self::stop)) says nothing to anybody, so that the other ends
/// notice after their detection time; to leave without that, set no peers and wait for a few seconds first.
#[derive(Debug)]
pub struct BfdEndpoint {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// The transport cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BfdError {
    /// A port is taken (by another BFD daemon, most likely), or not allowed.
    #[error("cannot listen for BFD on UDP {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What endpoint and task share.
#[derive(Debug)]
struct Shared {
    bfd: Mutex<Bfd>,
    receivers: Mutex<Receivers>,
    clock: Clock,
    /// The sessions have changed.
    work: Notify,
    /// There may be events.
    events: Notify,
}

impl BfdEndpoint {
    /// Starts without sessions. Must be called on a tokio runtime.
    pub fn start(config: &BfdEndpointConfig) -> Self {
        let shared = Arc::new(Shared {
            bfd: Mutex::new(Bfd::new(config.bfd)),
            receivers: Mutex::new(Receivers::new(Listen { ipv4: config.ipv4, ipv6: config.ipv6 })),
            clock: Clock::start(),
            work: Notify::new(),
            events: Notify::new(),
        });
        let task = tokio::spawn(drive(Arc::clone(&shared)));
        Self { shared, task }
    }

    /// Says which sessions there are; see [`Bfd::set_peers`]. On an error all sessions are set nevertheless, and those that need the port
    /// stay down; the call is to be repeated.
    pub fn set_peers(&self, peers: &[BfdPeer]) -> Result<(), BfdError> {
        let listening = self.shared.receivers().listen_for(peers);
        self.shared.bfd().set_peers(self.shared.clock.now(), peers);
        self.shared.work.notify_one();
        listening
    }

    /// The next event. To be called by one task at a time; nothing is lost if the call is given up.
    pub async fn next_event(&self) -> BfdEvent {
        loop {
            let event = self.shared.bfd().poll_event();
            match event {
                Some(event) => return event,
                None => self.shared.events.notified().await,
            }
        }
    }

    /// What operators want to see.
    pub fn status(&self) -> BfdStatus {
        self.shared.bfd().status()
    }

    /// Ends; its ports are free afterwards.
    pub async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.shared.receivers().close();
    }
}

impl Drop for BfdEndpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// The machine keeps its own invariants between calls, so a poisoned lock means nothing to it.
    fn bfd(&self) -> MutexGuard<'_, Bfd> {
        self.bfd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receivers(&self) -> MutexGuard<'_, Receivers> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for BfdEndpointConfig {
    fn default() -> Self {
        Self { bfd: BfdConfig::default(), ipv4: Ipv4Addr::UNSPECIFIED, ipv6: Ipv6Addr::UNSPECIFIED }
    }
}
