//! One TCP connection: bytes to the driver, chunks to the peer.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use calico_core::bgp::PeerId;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::socket;
use crate::session::transport::Transport;
use crate::speaker::ConnectionId;

/// Largest read; also the most that the speaker is given in one piece.
const READ: usize = 64 * 1024;
/// How long a connection that we close may take to deliver its last words.
const LINGER: Duration = Duration::from_secs(2);

/// What a connection tells the driver.
#[derive(Debug)]
pub(super) enum Inbound {
    /// TCP is set up.
    Connected,
    /// Bytes have arrived.
    Bytes(Vec<u8>),
    /// There is room for another chunk, after the driver found none.
    Drained,
    /// The connection is gone, or could not be made.
    Closed,
}

/// Where connections report to.
pub(super) type Reports = mpsc::Sender<(ConnectionId, Inbound)>;

/// The driver's end. Dropping it closes the connection once the queued chunk is out.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) chunks: mpsc::Sender<Vec<u8>>,
    pub(super) blocked: Arc<AtomicBool>,
    _hang_up: oneshot::Sender<()>,
}

/// The connection's end.
#[derive(Debug)]
pub(super) struct Task {
    id: ConnectionId,
    chunks: mpsc::Receiver<Vec<u8>>,
    blocked: Arc<AtomicBool>,
    hang_up: oneshot::Receiver<()>,
    reports: Reports,
}

/// Both ends of a new connection.
pub(super) fn link(id: ConnectionId, reports: Reports) -> (Link, Task) {
    // One chunk is being written while the next one waits.
    let (sender, chunks) = mpsc::channel(1);
    let (hang_up, hung_up) = oneshot::channel();
    let blocked = Arc::new(AtomicBool::new(false));
    let task = Task { id, chunks, blocked: Arc::clone(&blocked), hang_up: hung_up, reports };
    (Link { chunks: sender, blocked, _hang_up: hang_up }, task)
}

impl Task {
    /// Connects first. Gives up when the driver does.
    pub(super) async fn connect(mut self, to: PeerId, port: u16, transport: Transport) {
        let stream = tokio::select! {
            stream = open(to, port, &transport) => stream,
            _ = &mut self.hang_up => return,
        };
        match stream {
            Ok(stream) => {
                self.report(Inbound::Connected).await;
                self.run(stream).await;
            }
            Err(error) => {
                tracing::debug!(peer = %to, %error, "cannot connect");
                self.report(Inbound::Closed).await;
            }
        }
    }

    /// Makes an accepted connection what it should be first.
    pub(super) async fn take(self, stream: TcpStream, from: PeerId, transport: Transport) {
        match socket::apply(&SockRef::from(&stream), from, &transport) {
            Ok(()) => self.run(stream).await,
            Err(error) => {
                tracing::warn!(peer = %from, %error, "cannot make a BGP connection what it should be: it is closed");
                self.report(Inbound::Closed).await;
            }
        }
    }

    /// Runs until either end closes.
    async fn run(self, stream: TcpStream) {
        let (reading, writing) = stream.into_split();
        let Self { id, chunks, blocked, hang_up, reports } = self;
        let talk = async {
            tokio::select! {
                () = read(reading, id, &reports) => {}
                () = write(writing, id, chunks, &blocked, &reports) => {}
            }
        };
        tokio::select! {
            () = talk => {}
            () = async { let _ = hang_up.await; tokio::time::sleep(LINGER).await } => {}
        }
        // The driver has forgotten a connection that it closed itself, and ignores this.
        let _ = reports.send((id, Inbound::Closed)).await;
    }

    async fn report(&self, what: Inbound) {
        let _ = self.reports.send((self.id, what)).await;
    }
}

async fn open(to: PeerId, port: u16, transport: &Transport) -> io::Result<TcpStream> {
    let address = socket::endpoint(to.address, port, socket::scope(to.interface)?);
    socket::calling(to, transport)?.connect(address).await
}

/// Ends at the end of the stream, or when nobody listens any more.
async fn read(mut from: OwnedReadHalf, id: ConnectionId, reports: &Reports) {
    let mut buffer = Vec::new();
    loop {
        buffer.reserve(READ);
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                // The bytes move to the driver in a vector of their own size: an idle session keeps no 64 KiB.
                let bytes = buffer.as_slice().to_vec();
                buffer.clear();
                if reports.send((id, Inbound::Bytes(bytes))).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Ends when the driver hangs up and everything is out, or when the peer takes no more.
async fn write(
    mut to: OwnedWriteHalf,
    id: ConnectionId,
    mut chunks: mpsc::Receiver<Vec<u8>>,
    blocked: &AtomicBool,
    reports: &Reports,
) {
    while let Some(chunk) = chunks.recv().await {
        if blocked.swap(false, Ordering::AcqRel) {
            let _ = reports.send((id, Inbound::Drained)).await;
        }
        if to.write_all(&chunk).await.is_err() {
            return;
        }
    }
    if to.shutdown().await.is_ok() {
        // Closing with unread bytes would reset the connection, and the peer might never see why we closed it. The reader goes
        // on meanwhile; the linger timer ends this.
        core::future::pending::<()>().await;
    }
}
