//! The listening sockets: where the speaker wants them, with the keys of those who may call.
//!
//! What cannot be had (a port that another daemon has, an address that the host does not have yet) is tried again by whoever asks, and
//! named until then; the rest works meanwhile.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use calico_core::bgp::Secret;
use calico_core::net::{Cidr, Family};
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

    /// Opens, closes and gives keys, until all is as wanted. The error is the first of them.
    pub(super) async fn set(&mut self, addresses: &[SocketAddr], keys: &[ListenKey]) -> Result<(), BgpError> {
        // What closes is closed first: it may be in the way of what opens.
        let gone: Vec<SocketAddr> = self.open.keys().filter(|open| !addresses.contains(open)).copied().collect();
        for address in gone {
            self.close(address).await;
        }
        let mut outcome = Ok(());
        for address in addresses {
            let set = self
                .open(*address)
                .and_then(|listener| listener.set_keys(address.ip(), keys).map_err(|error| failure(*address, error)));
            outcome = outcome.and(set);
        }
        outcome
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
        self.open(address).map(drop)
    }

    fn open(&mut self, address: SocketAddr) -> Result<&mut Listener, BgpError> {
        use std::collections::btree_map::Entry;
        match self.open.entry(address) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let socket = Arc::new(bind(address).map_err(|error| failure(address, error))?);
                let task = tokio::spawn(run(Arc::clone(&socket), self.accepted.clone()));
                Ok(place.insert(Listener { socket, task, keys: BTreeMap::new() }))
            }
        }
    }

    /// Where it listens on the first of its sockets.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.open.values().next()?.socket.local_addr().ok()
    }
}

impl Listener {
    fn set_keys(&mut self, own: IpAddr, wanted: &[ListenKey]) -> io::Result<()> {
        let mine = wanted.iter().filter(|key| key.from.family() == Family::of(own));
        let wanted: BTreeMap<Cidr, &Secret> = mine.map(|key| (key.from, &key.key)).collect();
        let mut outcome = Ok(());
        let gone: Vec<Cidr> = self.keys.keys().filter(|known| !wanted.contains_key(known)).copied().collect();
        for from in gone {
            if let Err(error) = set_md5_key(&self.socket, from, None) {
                tracing::debug!(%from, %error, "a key of a BGP peer was gone already");
            }
            self.keys.remove(&from);
        }
        for (from, key) in wanted {
            if self.keys.get(&from) == Some(key) {
                continue;
            }
            match set_md5_key(&self.socket, from, Some(key)) {
                Ok(()) => drop(self.keys.insert(from, key.clone())),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }
}

/// The socket addresses of what the speaker wants.
pub(super) fn addresses(listening: &Listening) -> Vec<SocketAddr> {
    listening.addresses.iter().map(|address| SocketAddr::new(*address, listening.port)).collect()
}

fn failure(address: SocketAddr, source: io::Error) -> BgpError {
    BgpError::Listen { address: address.ip(), port: address.port(), source: Box::new(source) }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket::open(Family::of(address.ip()))?;
    // A restarted speaker must not wait for connections of its earlier life to time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
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
