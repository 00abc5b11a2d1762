//! BIRD as this node's speaker: what it cannot be told now is told again, and nothing of it stops the agent.

use std::time::Duration;

use async_trait::async_trait;
use calico_bgp::bird::{BirdBackend, BirdConfig};
use calico_bgp::{BgpBackend, BgpError, BgpEvent, BgpStatus};
use calico_cmd::output::chain;
use calico_core::bgp::DesiredBgp;
use tokio::time::{Instant, timeout};
use tracing::error;

/// Pause before what could not be written is written again.
const PAUSE: Duration = Duration::from_secs(5);

/// How long BIRD may take to check and take a configuration: the agent's loop waits for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Debug)]
pub(crate) struct BirdSpeaker {
    backend: BirdBackend,
    /// What could not be written, and when it is tried again.
    waiting: Option<(DesiredBgp, Instant)>,
}

impl BirdSpeaker {
    /// Must be called within a tokio runtime.
    pub(crate) fn start(config: BirdConfig) -> Self {
        Self { backend: BirdBackend::start(config), waiting: None }
    }

    /// Cancel safe: what was not taken in is tried again. Policy waits as long, so a daemon or disk that is stuck gets a moment only.
    async fn tell(&mut self, desired: &DesiredBgp) -> Result<(), BgpError> {
        self.waiting = Some((desired.clone(), Instant::now() + PAUSE));
        let Ok(outcome) = timeout(PATIENCE, self.backend.apply(desired)).await else {
            error!(patience = ?PATIENCE, retry_in = ?PAUSE, "BIRD does not take its configuration in time; policy goes on");
            self.waiting = Some((desired.clone(), Instant::now() + PAUSE));
            return Ok(());
        };
        self.waiting = None;
        match outcome {
            Ok(()) => Ok(()),
            Err(BgpError::Stopped) => Err(BgpError::Stopped),
            // The same text would be refused again.
            Err(refused @ BgpError::Refused(_)) => {
                error!(error = %chain(&refused), "BGP goes on as it was");
                Ok(())
            }
            Err(failed) => {
                error!(error = %chain(&failed), retry_in = ?PAUSE, "BIRD's configuration is not written; policy goes on");
                self.waiting = Some((desired.clone(), Instant::now() + PAUSE));
                Ok(())
            }
        }
    }
}

#[async_trait]
impl BgpBackend for BirdSpeaker {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    async fn apply(&mut self, desired: &DesiredBgp) -> Result<(), BgpError> {
        self.tell(desired).await
    }

    async fn next_event(&mut self) -> Result<BgpEvent, BgpError> {
        loop {
            let Some((desired, at)) = self.waiting.clone() else { return self.backend.next_event().await };
            tokio::select! {
                event = self.backend.next_event() => return event,
                () = tokio::time::sleep_until(at) => self.tell(&desired).await?,
            }
        }
    }

    fn status(&self) -> BgpStatus {
        self.backend.status()
    }
}

#[cfg(test)]
mod tests {
    use calico_bgp::bird::{BirdPaths, Generation};

    use super::*;

    #[tokio::test]
    async fn what_could_not_be_written_is_written_once_it_can_be() {
        let folder = tempfile::TempDir::new().unwrap();
        let config = folder.path().join("later/bird.cfg");
        let daemon =
            BirdPaths { program: "true".into(), config: config.clone(), socket: folder.path().join("nobody.ctl") };
        let mut bird =
            BirdSpeaker::start(BirdConfig { daemon, generation: Some(Generation::Two), ..BirdConfig::default() });
        bird.apply(&DesiredBgp::default()).await.unwrap();
        assert!(bird.waiting.is_some() && !config.exists());
        std::fs::create_dir(folder.path().join("later")).unwrap();
        let written = async {
            while bird.waiting.is_some() {
                // Only waits: there is no daemon that could tell anything for minutes.
                let _ = timeout(Duration::from_secs(1), bird.next_event()).await;
                if let Some((_, at)) = &mut bird.waiting {
                    *at = Instant::now();
                }
            }
        };
        timeout(Duration::from_secs(60), written).await.unwrap();
        assert!(config.exists());
    }
}
