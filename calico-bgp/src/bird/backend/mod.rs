//! BIRD behind the seam of all backends.
//!
//! ```text
//! apply ─▶ render ─▶ stage (one file, mode 0600) ─▶ check ─▶ rename ─▶ driver: configure, then looks
//!                                                     └ refused: the former file stays, and that is the error
//! status, next_event ◀── picture ◀── looks (show status, show protocols, show route)
//! ```
//!
//! BIRD is somebody else's process: it is neither started nor stopped here, and dropping the backend changes nothing about its sessions. It gives
//! learned routes to the kernel itself; they are reported only if that is asked for.

mod config;
mod driver;
mod files;
mod picture;

use core::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use calico_core::bgp::DesiredBgp;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::warn;

pub use config::{BirdConfig, BirdPaths, Generation};

use super::client::{self, Client, Configured};
use super::{Dialect, LeftOut, Rendered, render};
use crate::backend::{BgpBackend, BgpError, BgpEvent, BgpStatus};
use crate::clock::Clock;
use files::Staged;
use picture::Picture;

/// Longest wait for a greeting while somebody applies.
const GREETING: core::time::Duration = core::time::Duration::from_secs(2);

/// What the backend and its driver share.
#[derive(Debug)]
struct Shared {
    picture: Mutex<Picture>,
    /// Daemons as they are written for.
    daemons: Mutex<Vec<BirdPaths>>,
    /// Counts configurations.
    generation: AtomicU64,
    clock: Clock,
    work: Notify,
    events: Notify,
}

impl Shared {
    /// The picture keeps its own invariants between calls, so a poisoned lock means nothing to it.
    fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which configuration is wanted, and of whom. Of nobody before the first one.
    fn wanted(&self) -> (u64, Vec<BirdPaths>) {
        let daemons = self.daemons.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation.load(Ordering::Acquire), daemons.clone())
    }
}

/// A BIRD that runs already, or will: told what is desired, asked what is.
///
/// A configuration that BIRD refuses is an error of [`apply`](BgpBackend::apply), and the former one stays in force. A daemon that does not run is
/// none: it finds its configuration when it starts, and the status tells of it. Must be made within a tokio runtime with I/O and time.
#[derive(Debug)]
pub struct BirdBackend {
    config: BirdConfig,
    shared: Arc<Shared>,
    driver: JoinHandle<()>,
    left_out: Vec<LeftOut>,
    applied: bool,
}

impl BirdBackend {
    /// Starts the task that looks at the daemon.
    pub fn start(config: BirdConfig) -> Self {
        let deferral = core::time::Duration::from_secs(config.settings.recovery.into());
        let shared = Arc::new(Shared {
            picture: Mutex::new(Picture::new(deferral)),
            daemons: Mutex::new(Vec::new()),
            generation: AtomicU64::new(0),
            clock: Clock::start(),
            work: Notify::new(),
            events: Notify::new(),
        });
        let driver = tokio::spawn(driver::run(Arc::clone(&shared), config.clone()));
        Self { config, shared, driver, left_out: Vec::new(), applied: false }
    }

    /// Which BIRD is there: the one that runs says so, else the program, else it is BIRD 2.
    async fn generation(&self) -> Generation {
        if let Some(generation) = self.config.generation {
            return generation;
        }
        let client = self.client(&self.config.daemon).await;
        if let Some(version) = client.as_ref().and_then(Client::version) {
            return Generation::of(version);
        }
        let program = self.config.daemon.program.clone();
        let asking = tokio::task::spawn_blocking(move || installed(&program));
        asking.await.ok().flatten().unwrap_or(Generation::Two)
    }

    /// Writes what differs. All files are checked before one is replaced.
    async fn write(&self, daemons: &[(BirdPaths, Dialect)], rendered: &[Rendered]) -> Result<bool, BgpError> {
        let mut staged: Vec<Staged> = Vec::new();
        for ((paths, _), rendered) in daemons.iter().zip(rendered) {
            let (target, text) = (paths.config.clone(), rendered.text.clone());
            let staging = blocking(move || (!files::says(&target, &text)).then(|| files::stage(&target, &text)));
            let Some(fresh) = staging.await? else { continue };
            let fresh = fresh?;
            staged.push(self.checked(paths, fresh).await?);
        }
        let changed = !staged.is_empty();
        blocking(move || staged.into_iter().try_for_each(Staged::commit)).await??;
        Ok(changed)
    }

    /// The daemon that will read it knows best; the program, where the daemon cannot be asked.
    async fn checked(&self, paths: &BirdPaths, staged: Staged) -> Result<Staged, BgpError> {
        match self.asked(paths, staged.path()).await {
            Some(Configured::Done) => return Ok(staged),
            // It has another view of the file system, or of who may read.
            Some(Configured::Refused(reason)) if !is_about(&reason, staged.path()) => {
                return Err(BgpError::Refused(reason));
            }
            _ => {}
        }
        let program = paths.program.clone();
        let (staged, refusal) = blocking(move || {
            let refusal = staged.refusal(&program);
            (staged, refusal)
        })
        .await?;
        refusal.map_or(Ok(staged), |reason| Err(BgpError::Refused(reason)))
    }

    async fn asked(&self, paths: &BirdPaths, staged: &Path) -> Option<Configured> {
        let path = staged.to_str().filter(|path| !path.contains(['"', '\n']))?;
        let mut client = self.client(paths).await?;
        let reply = client.ask(&format!("configure check \"{path}\"")).await.ok()?;
        Some(client::configured(&reply))
    }

    /// Whoever applies must not wait long for a daemon that is stuck: one that is not greets at once.
    async fn client(&self, paths: &BirdPaths) -> Option<Client> {
        let mut client = Client::connect(&paths.socket, self.config.answer.min(GREETING)).await.ok()?;
        client.set_patience(self.config.answer);
        Some(client)
    }

    fn tell_left_out(&mut self, rendered: &[Rendered]) {
        let left_out: Vec<LeftOut> = rendered.iter().flat_map(|rendered| rendered.left_out.clone()).collect();
        for fresh in left_out.iter().filter(|left_out| !self.left_out.contains(left_out)) {
            warn!(peer = %fresh.peer, reason = %fresh.what, "a BGP session stays down: BIRD cannot have it as it is wanted");
        }
        self.left_out = left_out;
    }
}

/// On a thread that may wait for a disk or a process.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, BgpError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BgpError::Stopped)
}

/// Whether the file itself could not be read.
fn is_about(reason: &str, path: &Path) -> bool {
    reason.strip_prefix(&*path.to_string_lossy()).is_some_and(|rest| rest.starts_with(": "))
}

/// `bird --version` says `BIRD version 2.0.12`, on either output.
fn installed(program: &Path) -> Option<Generation> {
    let outcome = Command::new(program).arg("--version").output().ok()?;
    let said = [outcome.stdout, outcome.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    said.split("BIRD version ").nth(1).map(|version| Generation::of(version.trim()))
}

impl Drop for BirdBackend {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[async_trait]
impl BgpBackend for BirdBackend {
    fn name(&self) -> &'static str {
        "bird"
    }

    async fn apply(&mut self, desired: &DesiredBgp) -> Result<(), BgpError> {
        // Should this be dropped half way, what the daemon has read is not known.
        let applied = core::mem::take(&mut self.applied);
        let daemons = self.config.daemons(self.generation().await);
        let rendered: Vec<Rendered> =
            daemons.iter().map(|(_, dialect)| render(desired, *dialect, &self.config.settings)).collect();
        let changed = self.write(&daemons, &rendered).await?;
        self.tell_left_out(&rendered);
        let paths: Vec<BirdPaths> = daemons.into_iter().map(|(paths, _)| paths).collect();
        {
            let mut known = self.shared.daemons.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever runs may not have read what is there already.
            if changed || !applied || *known != paths {
                self.shared.generation.fetch_add(1, Ordering::AcqRel);
            }
            *known = paths;
            self.shared.picture().set_desired(self.shared.clock.now(), desired, &rendered);
        }
        self.applied = true;
        self.shared.work.notify_one();
        self.shared.events.notify_one();
        Ok(())
    }

    async fn next_event(&mut self) -> Result<BgpEvent, BgpError> {
        loop {
            let notified = self.shared.events.notified();
            if let Some(event) = self.shared.picture().poll_event() {
                return Ok(event);
            }
            if self.driver.is_finished() {
                return Err(BgpError::Stopped);
            }
            notified.await;
        }
    }

    fn status(&self) -> BgpStatus {
        self.shared.picture().status(self.shared.clock.now())
    }
}
