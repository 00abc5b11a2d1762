//! Connections read and ended, and routes looked up, on a thread of their own: a busy host tracks hundreds of thousands.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use calico_core::connection::RouteQuery;

use super::{Connections, kernel};
use crate::netlink::Routing;
use crate::{DataplaneError, Listing, Pick, Removal, TrackedName, Tracking, Ways};

const CONNECTIONS: &str = "tracked connections";

/// Sockets of their own, so that nobody waits for what goes on here. They stay in the network namespace that they were opened in.
#[derive(Debug, Clone)]
pub(crate) struct Beside(Arc<Mutex<Sockets>>);

#[derive(Debug)]
struct Sockets {
    connections: Connections,
    routing: Routing,
}

impl Beside {
    pub(crate) fn open() -> Result<Self, DataplaneError> {
        let sockets = Sockets { connections: Connections::open()?, routing: Routing::open()? };
        Ok(Self(Arc::new(Mutex::new(sockets))))
    }

    pub(crate) fn list(&self, pick: Pick) -> Listing {
        self.run(("list", CONNECTIONS), move |sockets| {
            let host = sockets.routing.own_addresses()?;
            Ok(Tracking { host, connections: sockets.connections.pick(pick)? })
        })
    }

    pub(crate) fn end(&self, names: Vec<TrackedName>) -> Removal {
        self.run(("remove", CONNECTIONS), move |sockets| sockets.connections.end(&names))
    }

    pub(crate) fn routes(&self, asked: BTreeSet<RouteQuery>) -> Ways {
        self.run(("look up", "routes"), move |sockets| sockets.routing.ways(&asked))
    }

    fn run<T: Send + 'static>(
        &self,
        (operation, objects): (&'static str, &'static str),
        work: impl FnOnce(&mut Sockets) -> Result<T, DataplaneError> + Send + 'static,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<T, DataplaneError>> + Send>> {
        let sockets = Arc::clone(&self.0);
        // Requests leave nothing half done in a socket: each reads all its answers.
        let work = move || work(&mut sockets.lock().unwrap_or_else(PoisonError::into_inner));
        let work = tokio::task::spawn_blocking(work);
        Box::pin(
            async move { work.await.unwrap_or_else(|ended| Err(kernel(operation, objects)(io::Error::other(ended)))) },
        )
    }
}
