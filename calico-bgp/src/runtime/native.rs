//! The native backend: our own speaker.

use core::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use calico_core::bgp::DesiredBgp;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::driver::{Driver, Shared};
use super::listener;
use crate::backend::{BgpBackend, BgpError, BgpEvent, BgpStatus};
use crate::speaker::{Speaker, SpeakerConfig};

/// Accepted connections that wait for the driver.
const ACCEPTED: usize = 16;

/// How to start a [`NativeBackend`].
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals over the default")]
pub struct NativeConfig {
    /// Where to listen. Default: port 179 of every IPv4 address. Connections from addresses that are not configured peers are
    /// closed at once.
    pub listen: SocketAddr,
    /// The speaker's own parameters; give every node its own seed.
    pub speaker: SpeakerConfig,
}

impl Default for NativeConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 179)), speaker: SpeakerConfig::default() }
    }
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
/// let config = NativeConfig { listen: "127.0.0.1:0".parse()?, ..NativeConfig::default() };
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
    address: SocketAddr,
}

impl NativeBackend {
    /// Listens and starts the driver. Must be called within a tokio runtime with I/O and time enabled.
    pub fn start(config: NativeConfig) -> Result<Self, BgpError> {
        let socket = listener::bind(config.listen)?;
        let address = socket.local_addr().unwrap_or(config.listen);
        let shared = Arc::new(Shared::new(Speaker::new(config.speaker)));
        let (sender, accepted) = mpsc::channel(ACCEPTED);
        let mut tasks = JoinSet::new();
        tasks.spawn(listener::run(socket, sender));
        let driver = tokio::spawn(Driver::new(Arc::clone(&shared), accepted, tasks).run());
        Ok(Self { shared, driver, address })
    }

    /// Where it listens: the port that the system chose when the configuration said 0.
    pub const fn local_address(&self) -> SocketAddr {
        self.address
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

    fn status(&self) -> BgpStatus {
        self.shared.speaker().status()
    }
}
