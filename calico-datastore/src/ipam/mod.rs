//! IP address management over a datastore.
//!
//! [`Ipam`] is what plugins and agents ask for addresses. [`StoreIpam`] runs `calico_core::ipam`'s machines against any
//! [`Datastore`](crate::Datastore); [`FixedRange`] hands out one range from memory, for tests and for embedders that need no
//! cluster.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod driver;
mod fixed;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use calico_core::ipam::{Assign, Assigned, HeldBy, IpamError, ReleaseAddresses, ReleaseHandle, Released};

pub use driver::StoreIpam;
pub use fixed::FixedRange;

use crate::DatastoreError;

/// A source of addresses.
///
/// # Contract
/// - An address is held by at most one handle.
/// - [`assign`](Ipam::assign) is idempotent: what the handle holds already counts. All or nothing: a failed request changes nothing.
/// - To release what nobody holds is no error.
/// - A released address is not handed out again while others are free that were free before it.
/// - Methods may be called from many tasks and processes at once. Dropping a future cancels the wait, not necessarily the request;
///   asking again with the same handle tells.
#[async_trait]
pub trait Ipam: Send + Sync {
    /// Makes the handle hold the wanted addresses, and answers with them.
    async fn assign(&self, request: Assign) -> Result<Vec<Assigned>, IpamFailure>;

    /// Releases all that a handle holds.
    async fn release_handle(&self, request: ReleaseHandle) -> Result<Released, IpamFailure>;

    /// Releases certain addresses.
    async fn release_addresses(&self, request: ReleaseAddresses) -> Result<Released, IpamFailure>;

    /// The addresses that a handle holds, in order.
    async fn held_by(&self, request: HeldBy) -> Result<Vec<Assigned>, IpamFailure>;
}

/// A failed IPAM request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpamFailure {
    /// It cannot be served.
    #[error(transparent)]
    Ipam(#[from] IpamError),
    /// The store failed.
    #[error(transparent)]
    Datastore(#[from] DatastoreError),
}

impl IpamFailure {
    /// Whether there is no address to give.
    pub const fn is_exhausted(&self) -> bool {
        matches!(self, Self::Ipam(error) if error.is_exhausted())
    }

    /// Whether the same request may succeed later, with nothing changed by anybody.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Ipam(error) => error.is_contention(),
            Self::Datastore(error) => error.is_retryable(),
        }
    }
}
