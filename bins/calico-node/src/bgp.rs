//! The native speaker, started as soon as its port can be had.
//!
//! Another BGP daemon on the port must not keep policy from being enforced: the agent runs, and this tries again until the port is free.
//! A speaker that stops is started again in the same way, with the last desired state; whoever listens is told, because the next one
//! knows nothing of what this one announced. One that has not been told anything yet is not
//! configured: a speaker without peers settles, and the routes of the agent's last life would go before any peer was asked.

use std::time::Duration;

use async_trait::async_trait;
use calico_bgp::wire::Nlri;
use calico_bgp::{
    BgpBackend, BgpError, BgpEvent, BgpStatus, Explanation, NativeBackend, NativeConfig, PathReport, Told,
};
use calico_cmd::output::chain;
use calico_core::bgp::{DesiredBgp, PeerId};
use calico_core::net::Cidr;
use tokio::time::Instant;
use tracing::{error, info};

/// Pause between two tries to start.
const PAUSE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct PatientSpeaker {
    config: NativeConfig,
    speaker: Option<NativeBackend>,
    desired: Option<DesiredBgp>,
    /// Whether the speaker that runs has got it.
    told: bool,
    /// A speaker was lost, and nobody has heard of it yet.
    lost: bool,
    next_try: Instant,
}

impl PatientSpeaker {
    /// Must be called within a tokio runtime.
    pub(crate) fn start(config: NativeConfig) -> Self {
        let mut patient =
            Self { config, speaker: None, desired: None, told: false, lost: false, next_try: Instant::now() };
        patient.try_start();
        patient
    }

    fn try_start(&mut self) {
        self.next_try = Instant::now() + PAUSE;
        match NativeBackend::start(self.config.clone()) {
            Ok(speaker) => {
                info!("BGP speaker started");
                self.speaker = Some(speaker);
                self.told = false;
            }
            Err(error) => error!(error = %chain(&error), retry_in = ?PAUSE, "BGP speaker not started; policy goes on"),
        }
    }

    /// Peers call at the port that is configured. Where the program said where to listen, to do so elsewhere takes another speaker, which
    /// begins anew; otherwise the speaker follows by itself.
    fn listen_on(&mut self, port: u16) {
        let Some(listen) = self.config.listen.as_mut().filter(|listen| listen.port() != port) else {
            return;
        };
        info!(from = listen.port(), to = port, "BGP listens on another port");
        listen.set_port(port);
        self.lost |= self.speaker.take().is_some();
        self.next_try = Instant::now();
    }

    fn lost(&mut self, error: &BgpError) {
        error!(error = %chain(error), retry_in = ?PAUSE, "BGP speaker stopped; its routes stay");
        self.speaker = None;
        self.lost = true;
        self.next_try = Instant::now() + PAUSE;
    }

    /// Cancel safe: a speaker counts as told only once it was.
    async fn tell(&mut self) {
        let (Some(speaker), Some(desired), false) = (&mut self.speaker, &self.desired, self.told) else { return };
        match speaker.apply(desired).await {
            Ok(()) => self.told = true,
            Err(error) => self.lost(&error),
        }
    }
}

#[async_trait]
impl BgpBackend for PatientSpeaker {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn apply(&mut self, desired: &DesiredBgp) -> Result<(), BgpError> {
        self.desired = Some(desired.clone());
        self.told = false;
        if let Some(local) = &desired.local {
            self.listen_on(local.listen.port);
        }
        self.tell().await;
        Ok(())
    }

    async fn next_event(&mut self) -> Result<BgpEvent, BgpError> {
        loop {
            self.tell().await;
            if core::mem::take(&mut self.lost) {
                return Ok(BgpEvent::Restarted);
            }
            match &mut self.speaker {
                Some(speaker) => match speaker.next_event().await {
                    Ok(event) => return Ok(event),
                    Err(error) => self.lost(&error),
                },
                None => {
                    tokio::time::sleep_until(self.next_try).await;
                    self.try_start();
                }
            }
        }
    }

    fn explain(&self, prefix: Cidr) -> Option<Explanation> {
        self.speaker.as_ref()?.explain(prefix)
    }

    fn received_from(&self, peer: &PeerId) -> Option<Vec<PathReport>> {
        self.speaker.as_ref()?.received_from(peer)
    }

    fn advertised_to(&self, peer: &PeerId) -> Option<Vec<(Nlri, Told)>> {
        self.speaker.as_ref()?.advertised_to(peer)
    }

    fn status(&self) -> BgpStatus {
        self.speaker.as_ref().map(BgpBackend::status).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use calico_bgp::SpeakerConfig;
    use calico_core::bgp::LocalSpeaker;
    use calico_core::net::AsNumber;
    use calico_datastore::testing::free_address;

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_port_to_be_free_and_says_nothing_before_it_is_told() {
        let listen = free_address();
        let holder = std::net::TcpListener::bind(listen).unwrap();
        let mut patient =
            PatientSpeaker::start(NativeConfig { listen: Some(listen), speaker: SpeakerConfig::default() });
        assert!(patient.speaker.is_none());
        // Time passes only while everybody waits, so two tries have failed when this is over.
        assert!(tokio::time::timeout(PAUSE * 2, patient.next_event()).await.is_err());
        assert!(patient.speaker.is_none());
        drop(holder);
        let long = SpeakerConfig::default().deferral * 2;
        assert!(tokio::time::timeout(long, patient.next_event()).await.is_err(), "nobody told it to do anything");
        assert!(patient.speaker.is_some());
        patient.apply(&DesiredBgp::default()).await.unwrap();
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Settled);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_before_the_port_was_free_is_told_then() {
        let listen = free_address();
        let holder = std::net::TcpListener::bind(listen).unwrap();
        let mut patient =
            PatientSpeaker::start(NativeConfig { listen: Some(listen), speaker: SpeakerConfig::default() });
        patient.apply(&DesiredBgp::default()).await.unwrap();
        drop(holder);
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Settled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_speaker_that_is_lost_is_replaced_and_that_is_told_first() {
        let listen = "127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap();
        let mut patient =
            PatientSpeaker::start(NativeConfig { listen: Some(listen), speaker: SpeakerConfig::default() });
        patient.apply(&DesiredBgp::default()).await.unwrap();
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Settled);
        patient.speaker.take().unwrap().stop().await;
        patient.lost(&BgpError::Stopped);
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Restarted);
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Settled);
    }

    #[tokio::test(start_paused = true)]
    async fn another_port_is_listened_on_by_a_speaker_that_begins_anew() {
        let listen = free_address();
        let mut patient =
            PatientSpeaker::start(NativeConfig { listen: Some(listen), speaker: SpeakerConfig::default() });
        patient.apply(&DesiredBgp::default()).await.unwrap();
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Settled);
        let other = free_address();
        let mut local = LocalSpeaker::new("a", AsNumber::DEFAULT, Ipv4Addr::LOCALHOST);
        local.listen.port = other.port();
        patient.apply(&DesiredBgp { local: Some(local), ..DesiredBgp::default() }).await.unwrap();
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Restarted);
        assert_eq!(patient.next_event().await.unwrap(), BgpEvent::Settled);
        assert!(std::net::TcpListener::bind((listen.ip(), other.port())).is_err(), "it listens there");
    }
}
