//! A backend that converses with nobody: it remembers what was applied and tells what it is told to tell.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use calico_core::bgp::DesiredBgp;

use super::{BgpBackend, BgpError, BgpEvent, BgpStatus, PeerStatus};

/// For embedders and tests that want an agent without BGP on the wire.
///
/// All clones are one backend: keep one to script events and to look at what was applied.
///
/// ```
/// use calico_bgp::{BgpBackend, BgpEvent, RecordingBackend};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let seen = RecordingBackend::new();
/// let mut backend = seen.clone();
/// backend.apply(&Default::default()).await?;
/// assert_eq!(backend.next_event().await?, BgpEvent::Settled);
/// seen.script(BgpEvent::RouteRemoved("10.1.0.0/26".parse().unwrap()));
/// assert!(matches!(backend.next_event().await?, BgpEvent::RouteRemoved(_)));
/// assert_eq!(seen.applied().len(), 1);
/// # Ok::<(), calico_bgp::BgpError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RecordingBackend {
    shared: Arc<Mutex<Recorded>>,
}

#[derive(Debug, Default)]
struct Recorded {
    applied: Vec<DesiredBgp>,
    events: VecDeque<BgpEvent>,
    stopped: bool,
    /// One for each wait that goes on.
    wakers: BTreeMap<u64, core::task::Waker>,
    waits: u64,
}

/// A wait for an event; given up when dropped.
struct Wait {
    id: u64,
    shared: RecordingBackend,
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.shared.lock().wakers.remove(&self.id);
    }
}

impl RecordingBackend {
    /// A backend to which nothing has been applied.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an event happen.
    pub fn script(&self, event: BgpEvent) {
        let mut recorded = self.lock();
        recorded.events.push_back(event);
        recorded.wake();
    }

    /// The backend forgets what it told and begins anew. What it then learns, and that it has settled, is to be
    /// [scripted](Self::script).
    pub fn restart(&self) {
        self.lock().events.clear();
        self.script(BgpEvent::Restarted);
    }

    /// From now on, everything fails as if the backend had died.
    pub fn stop(&self) {
        let mut recorded = self.lock();
        recorded.stopped = true;
        recorded.wake();
    }

    /// Everything applied so far, oldest first.
    pub fn applied(&self) -> Vec<DesiredBgp> {
        self.lock().applied.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorded {
    fn wake(&mut self) {
        core::mem::take(&mut self.wakers).into_values().for_each(core::task::Waker::wake);
    }
}

#[async_trait]
impl BgpBackend for RecordingBackend {
    fn name(&self) -> &'static str {
        "recording"
    }

    async fn apply(&mut self, desired: &DesiredBgp) -> Result<(), BgpError> {
        let mut recorded = self.lock();
        if recorded.stopped {
            return Err(BgpError::Stopped);
        }
        recorded.applied.push(desired.clone());
        // Nobody to wait for: what this backend knows is complete at once.
        if recorded.applied.len() == 1 {
            recorded.events.push_back(BgpEvent::Settled);
            recorded.wake();
        }
        Ok(())
    }

    async fn next_event(&mut self) -> Result<BgpEvent, BgpError> {
        let wait = {
            let mut recorded = self.lock();
            recorded.waits += 1;
            Wait { id: recorded.waits, shared: self.clone() }
        };
        core::future::poll_fn(|context| {
            let mut recorded = self.lock();
            match recorded.events.pop_front() {
                Some(event) => core::task::Poll::Ready(Ok(event)),
                None if recorded.stopped => core::task::Poll::Ready(Err(BgpError::Stopped)),
                None => {
                    recorded.wakers.insert(wait.id, context.waker().clone());
                    core::task::Poll::Pending
                }
            }
        })
        .await
    }

    fn status(&self) -> BgpStatus {
        let recorded = self.lock();
        let peers = recorded.applied.last().map_or_else(Vec::new, |desired| desired.peers.clone());
        BgpStatus { peers: peers.into_iter().map(PeerStatus::idle).collect(), problem: None }
    }
}

#[cfg(test)]
mod tests {
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Waker};

    use super::*;

    #[test]
    fn waits_that_are_given_up_do_not_pile_up() {
        let mut backend = RecordingBackend::new();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            assert!(pin!(backend.next_event()).poll(&mut context).is_pending());
        }
        assert_eq!(backend.lock().wakers.len(), 0);
    }
}
