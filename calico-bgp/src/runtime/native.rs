//! The native backend: our own speaker.

use core::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use calico_core::bgp::{DesiredBgp, PeerId};
use calico_core::net::Cidr;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::driver::{Driver, Shared};
use super::listeners::Listeners;
use crate::backend::{BgpBackend, BgpError, BgpEvent, BgpStatus};
use crate::rib::{Explanation, PathReport, Told};
use crate::speaker::{Speaker, SpeakerConfig};
use crate::wire::Nlri;

/// Accepted connections that wait for the driver.
const ACCEPTED: usize = 16;

/// How to start a [`NativeBackend`].
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals over the default")]
pub struct NativeConfig {
    /// Where to listen, whatever the desired state says. Default: none, so that the desired state decides (for each family that has
    /// an address or a peer). Connections from addresses that are not configured peers are closed at once.
    pub listen: Option<SocketAddr>,
    /// The speaker's own parameters; give every node its own seed.
    pub speaker: SpeakerConfig,
}

/// Our speaker, running. Dropping it closes the connections without a word, as `kill -9` would.
///
/// ```
/// use calico_bgp::{BgpBackend, BgpEvent, NativeBackend, NativeConfig};
/// use calico_core::bgp::{DesiredBgp, LocalSpeaker};
/// use calico_core::net::AsNumber;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let config = NativeConfig { listen: Some("127.0.0.1:0".parse()?), ..NativeConfig::default() };
/// let mut backend = NativeBackend::start(config)?;
/// let own = "192.168.0.1".parse()?;
/// let local = LocalSpeaker::new("a", AsNumber::DEFAULT, own);
/// backend.apply(&DesiredBgp { local: Some(local), ..DesiredBgp::default() }).await?;
/// assert_eq!(backend.next_event().await?, BgpEvent::Settled, "no peers, nothing to wait for");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NativeBackend {
    shared: Arc<Shared>,
    driver: JoinHandle<()>,
    address: Option<SocketAddr>,
}

impl NativeBackend {
    /// Starts the driver, and listens if the configuration says where: then a port that cannot be had is an error, which otherwise the
    /// status tells until it can be had. Must be called within a tokio runtime with I/O and time enabled.
    pub fn start(config: NativeConfig) -> Result<Self, BgpError> {
        let (sender, accepted) = mpsc::channel(ACCEPTED);
        let mut listeners = Listeners::new(sender);
        if let Some(address) = config.listen {
            listeners.open_one(address)?;
        }
        let address = listeners.local_address();
        let seed = config.speaker.seed;
        let shared = Arc::new(Shared::new(Speaker::new(config.speaker)));
        let driver = Driver::new(Arc::clone(&shared), accepted, listeners, config.listen, seed);
        let driver = tokio::spawn(driver.run());
        Ok(Self { shared, driver, address })
    }

    /// Where it listens, if its configuration said so: the port that the system chose when that was 0.
    pub const fn local_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Ends a peer's session so that it begins anew; its operator is told why. False if there is no such peer.
    pub fn reset(&self, peer: PeerId, text: &str) -> bool {
        let known = self.shared.speaker().reset(self.shared.clock.now(), peer, text);
        self.shared.work.notify_one();
        known
    }

    /// As dropping it, and waits until the sockets are closed: another one may then have the port.
    pub async fn stop(mut self) {
        self.shared.quit.notify_one();
        // A driver that has panicked has ended as well.
        let _ = (&mut self.driver).await;
    }
}

impl Drop for NativeBackend {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[async_trait]
impl BgpBackend for NativeBackend {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn apply(&mut self, desired: &DesiredBgp) -> Result<(), BgpError> {
        if self.shared.stopped.load(Ordering::Acquire) {
            return Err(BgpError::Stopped);
        }
        self.shared.speaker().set_desired(self.shared.clock.now(), desired);
        self.shared.work.notify_one();
        Ok(())
    }

    async fn next_event(&mut self) -> Result<BgpEvent, BgpError> {
        loop {
            let notified = self.shared.events.notified();
            if let Some(event) = self.shared.speaker().poll_event() {
                return Ok(event);
            }
            if self.shared.stopped.load(Ordering::Acquire) {
                return Err(BgpError::Stopped);
            }
            notified.await;
        }
    }

    fn explain(&self, prefix: Cidr) -> Option<Explanation> {
        self.shared.speaker().explain(prefix)
    }

    fn received_from(&self, peer: &PeerId) -> Option<Vec<PathReport>> {
        Some(self.shared.speaker().received_from(peer))
    }

    fn advertised_to(&self, peer: &PeerId) -> Option<Vec<(Nlri, Told)>> {
        Some(self.shared.speaker().advertised_to(peer))
    }

    fn status(&self) -> BgpStatus {
        let status = self.shared.speaker().status_at(self.shared.clock.now());
        BgpStatus { problem: self.shared.problem().clone(), ..status }
    }
}
