//! The listening sockets: where the speaker wants them, with the keys of those who may call.
//!
//! What cannot be had (a port that another daemon has, an address that the host does not have yet) is tried again by whoever asks, and
//! named until then; the rest works meanwhile.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use calico_core::bgp::Secret;
use calico_core::net::{Cidr, Family};
use socket2::Socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::option::set_md5_key;
use super::socket;
use crate::backend::BgpError;
use crate::session::transport::{ListenKey, Listening};

/// Pending connections that the kernel keeps for us: all peers of a large mesh may come at once.
const BACKLOG: i32 = 1024;
/// Pause after a failure to accept (out of descriptors, most likely): trying at once would only burn the processor.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections that were made, and by whom.
pub(super) type Accepted = mpsc::Sender<(TcpStream, SocketAddr)>;

/// Open sockets.
#[derive(Debug)]
pub(super) struct Listeners {
    accepted: Accepted,
    open: BTreeMap<SocketAddr, Listener>,
}

#[derive(Debug)]
struct Listener {
    socket: Arc<TcpListener>,
    task: JoinHandle<()>,
    keys: BTreeMap<Cidr, Secret>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listeners {
    pub(super) const fn new(accepted: Accepted) -> Self {
        Self { accepted, open: BTreeMap::new() }
    }

    /// Opens, closes and gives keys, until all is as wanted. The error is the first of them. Tells whether callers that came before must be
    /// turned away: they may have been let in without a key that is wanted now.
    pub(super) async fn set(&mut self, addresses: &[SocketAddr], keys: &[ListenKey]) -> (bool, Result<(), BgpError>) {
        // What closes is closed first: it may be in the way of what opens.
        let gone: Vec<SocketAddr> = self.open.keys().filter(|open| !addresses.contains(open)).copied().collect();
        for address in gone {
            self.close(address).await;
        }
        let (mut is_new, mut outcome) = (false, Ok(()));
        for address in addresses {
            let of_family = keys.iter().filter(|key| key.from.family() == Family::of(address.ip()));
            let wanted: BTreeMap<Cidr, Secret> = of_family.map(|key| (key.from, key.key.clone())).collect();
            if let Some(listener) = self.open.get_mut(address)
                && wanted.iter().all(|(from, key)| listener.keys.get(from) == Some(key))
            {
                listener.forget_all_but(&wanted);
                continue;
            }
            // A socket that listens lets callers in before it is told of a key, and what they sent waits with them: it begins anew.
            is_new |= self.open.contains_key(address);
            self.close(*address).await;
            let opened = self.open(*address, wanted);
            outcome = outcome.and(opened);
        }
        (is_new, outcome)
    }

    /// Ends; every port is free afterwards.
    pub(super) async fn close_all(&mut self) {
        for address in self.open.keys().copied().collect::<Vec<_>>() {
            self.close(address).await;
        }
    }

    async fn close(&mut self, address: SocketAddr) {
        if let Some(mut listener) = self.open.remove(&address) {
            listener.task.abort();
            let _ = (&mut listener.task).await;
        }
    }

    /// Opens one address, unless it is open.
    pub(super) fn open_one(&mut self, address: SocketAddr) -> Result<(), BgpError> {
        if self.open.contains_key(&address) { Ok(()) } else { self.open(address, BTreeMap::new()) }
    }

    /// Nobody can call before the socket has every key: one without would let the peer in unsigned.
    fn open(&mut self, address: SocketAddr, keys: BTreeMap<Cidr, Secret>) -> Result<(), BgpError> {
        let failed = |error| failure(address, error);
        let socket = bind(address).map_err(failed)?;
        for (from, key) in &keys {
            set_md5_key(&socket, *from, Some(key)).map_err(|error| BgpError::Key {
                from: *from,
                address: address.ip(),
                source: Box::new(error),
            })?;
        }
        socket.listen(BACKLOG).map_err(failed)?;
        let socket = Arc::new(TcpListener::from_std(socket.into()).map_err(failed)?);
        let task = tokio::spawn(run(Arc::clone(&socket), self.accepted.clone()));
        self.open.insert(address, Listener { socket, task, keys });
        Ok(())
    }

    /// Where it listens on the first of its sockets.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.open.values().next()?.socket.local_addr().ok()
    }
}

impl Listener {
    fn forget_all_but(&mut self, wanted: &BTreeMap<Cidr, Secret>) {
        let gone: Vec<Cidr> = self.keys.keys().filter(|known| !wanted.contains_key(known)).copied().collect();
        for from in gone {
            if let Err(error) = set_md5_key(&self.socket, from, None) {
                tracing::debug!(%from, %error, "a key of a BGP peer was gone already");
            }
            self.keys.remove(&from);
        }
    }
}

/// The socket addresses of what the speaker wants.
pub(super) fn addresses(listening: &Listening) -> Vec<SocketAddr> {
    listening.addresses.iter().map(|address| SocketAddr::new(*address, listening.port)).collect()
}

fn failure(address: SocketAddr, source: io::Error) -> BgpError {
    BgpError::Listen { address: address.ip(), port: address.port(), source: Box::new(source) }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = socket::open(Family::of(address.ip()))?;
    // A restarted speaker must not wait for connections of its earlier life to time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Hands accepted connections on, for as long as anybody takes them.
async fn run(listener: Arc<TcpListener>, accepted: Accepted) {
    loop {
        match listener.accept().await {
            Ok(connection) => {
                if accepted.send(connection).await.is_err() {
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
