//! A TLS connection that remembers why it was refused.
//!
//! With TLS 1.3 a client is done with the handshake before the server has looked at its certificate. A refusal comes as the first thing
//! to read, when the client library takes the connection for a good one: it drops the reason, and opens the next connection at once,
//! for as long as the request may take. So the reason is kept here, and is the answer to that next try.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Why the last connection was refused, until somebody is told.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusal(Arc<Mutex<Option<io::Error>>>);

impl Refusal {
    /// Takes it out.
    pub(super) fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
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
