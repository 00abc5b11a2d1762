//! Work that a signal to this process interrupts, so that what was made can be removed in order.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Context, LabError};

/// Does `work` until it is done or somebody asks this process to stop.
pub(crate) async fn interruptible<T>(work: impl Future<Output = Result<T, LabError>>) -> Result<T, LabError> {
    let listen = |kind| signal(kind).context(|| "cannot listen for signals".into());
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    tokio::select! {
        outcome = work => outcome,
        _ = interrupt.recv() => Err(LabError::Interrupted),
        _ = terminate.recv() => Err(LabError::Interrupted),
        _ = hangup.recv() => Err(LabError::Interrupted),
    }
}
