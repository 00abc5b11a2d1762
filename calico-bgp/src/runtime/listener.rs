//! Accepts connections.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::backend::BgpError;

/// Pending connections that the kernel keeps for us: all peers of a large mesh may come at once.
const BACKLOG: i32 = 1024;
/// Pause after a failure to accept (out of descriptors, most likely): trying at once would only burn the processor.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds the listening socket.
pub(super) fn bind(address: SocketAddr) -> Result<TcpListener, BgpError> {
    let bound = || -> std::io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restarted speaker must not wait for connections of its earlier life to time out.
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    bound().map_err(|source| BgpError::Listen { address: address.ip(), port: address.port(), source: Box::new(source) })
}

/// Hands accepted connections on, for as long as anybody takes them.
pub(super) async fn run(listener: TcpListener, accepted: mpsc::Sender<(TcpStream, IpAddr)>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if accepted.send((stream, peer.ip())).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a BGP connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
