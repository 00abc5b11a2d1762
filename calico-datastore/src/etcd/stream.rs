//! A TLS connection that remembers why it was refused.
//!
//! With TLS 1.3 a client is done with the handshake before the server has looked at its certificate. A refusal comes as the first thing
//! to read, when the client library takes the connection for a good one: it drops the reason, and opens the next connection at once,
//! for as long as the request may take. So the reason is kept here, and is the answer to that next try.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// How long a reason counts. The library's next try comes at once; one that comes later is another request's, and the member may be
/// well by then (it was only starting).
const FRESH: Duration = Duration::from_secs(1);

/// Why the last connection was refused, and when, until somebody is told.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusal(Arc<Mutex<Option<(Instant, io::Error)>>>);

impl Refusal {
    /// Takes it out, if it counts at this time.
    pub(super) fn take(&self, now: Instant) -> Option<io::Error> {
        let (when, error) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (now.saturating_duration_since(when) < FRESH).then_some(error)
    }

    fn note(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), error));
    }
}

/// See the module.
pub(super) struct Stream {
    inner: TlsStream<TcpStream>,
    refusal: Refusal,
    /// The server has said something: whatever comes now is no refusal.
    heard: bool,
}

impl Stream {
    pub(super) const fn new(inner: TlsStream<TcpStream>, refusal: Refusal) -> Self {
        Self { inner, refusal, heard: false }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        if !self.heard {
            match &read {
                // An error of this kind is worth nothing twice, and cannot be cloned.
                Err(error) => self.refusal.note(io::Error::new(error.kind(), error.to_string())),
                Ok(()) if buffer.filled().len() == before => {
                    self.refusal.note(io::Error::other("the server closed the connection after the handshake"));
                }
                Ok(()) => self.heard = true,
            }
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_and_not_long_after() {
        let refusal = Refusal::default();
        refusal.note(io::Error::other("refused"));
        let now = Instant::now();
        refusal.note(io::Error::other("refused again"));
        assert_eq!(refusal.take(now).map(|error| error.to_string()).as_deref(), Some("refused again"));
        assert!(refusal.take(now).is_none());
        refusal.note(io::Error::other("refused"));
        assert!(refusal.take(Instant::now() + FRESH).is_none());
        assert!(refusal.take(now).is_none(), "nor kept for another time");
    }
}
