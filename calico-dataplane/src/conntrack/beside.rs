//! Connections read and ended on a thread of their own: a busy host tracks hundreds of thousands.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use netlink_sys::protocols::NETLINK_ROUTE;

use super::{Connections, kernel};
use crate::netlink::address;
use crate::netlink::socket::RequestSocket;
use crate::{DataplaneError, Listing, Pick, Removal, TrackedName, Tracking};

/// Sockets of their own, so that nobody waits for what goes on here. They stay in the network namespace that they were opened in.
#[derive(Debug, Clone)]
pub(crate) struct Beside(Arc<Mutex<Sockets>>);

#[derive(Debug)]
struct Sockets {
    connections: Connections,
    addresses: RequestSocket,
}

impl Beside {
    pub(crate) fn open() -> Result<Self, DataplaneError> {
        let addresses = RequestSocket::open(NETLINK_ROUTE).map_err(kernel("open a socket", "route netlink"))?;
        Ok(Self(Arc::new(Mutex::new(Sockets { connections: Connections::open()?, addresses }))))
    }

    pub(crate) fn list(&self, pick: Pick) -> Listing {
        self.run("list", move |sockets| {
            let host = address::all(&mut sockets.addresses).map_err(kernel("list", "addresses"))?;
            Ok(Tracking { host, connections: sockets.connections.pick(pick)? })
        })
    }

    pub(crate) fn end(&self, names: Vec<TrackedName>) -> Removal {
        self.run("remove", move |sockets| sockets.connections.end(&names))
    }

    fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Sockets) -> Result<T, DataplaneError> + Send + 'static,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<T, DataplaneError>> + Send>> {
        let sockets = Arc::clone(&self.0);
        // Requests leave nothing half done in a socket: each reads all its answers.
        let work = move || work(&mut sockets.lock().unwrap_or_else(PoisonError::into_inner));
        let work = tokio::task::spawn_blocking(work);
        Box::pin(async move {
            work.await.unwrap_or_else(|ended| Err(kernel(operation, "tracked connections")(io::Error::other(ended))))
        })
    }
}
