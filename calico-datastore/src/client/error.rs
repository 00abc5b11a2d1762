//! Why a client's request failed.

use std::fmt::Write as _;

use calico_core::ipam::IpamError;
use calico_core::resource::{Fault, ResourceKey};

use crate::DatastoreError;
use crate::ipam::IpamFailure;

/// A failed request of a [`Client`](super::Client).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The store's answer.
    #[error(transparent)]
    Store(#[from] DatastoreError),
    /// Addresses could not be released.
    #[error(transparent)]
    Ipam(#[from] IpamError),
    /// The object is refused; nothing was written.
    #[error("{}", lines(.faults))]
    Invalid {
        /// What is wrong with it.
        faults: Vec<Fault>,
    },
    /// The operation is not possible on this object.
    #[error("operation {operation} is not supported on {}: {reason}", identifier(.key))]
    NotSupported {
        /// `Update` or `Delete`.
        operation: &'static str,
        /// The object.
        key: ResourceKey,
        /// Why, and what to do first.
        reason: String,
    },
}

impl ClientError {
    /// Whether the key is absent.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_not_found())
    }

    /// Whether somebody else wrote first.
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_conflict())
    }

    /// Whether it is the store's and not the object's: the next request, whatever it asks for, will most likely fail alike.
    pub const fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_retryable() || matches!(error, DatastoreError::Refused { .. }))
    }

    /// Whether the change may have been made all the same.
    pub const fn is_undecided(&self) -> bool {
        matches!(self, Self::Store(DatastoreError::Undecided { .. }))
    }

    /// Whether the same request may succeed later.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_retryable())
    }
}

impl From<IpamFailure> for ClientError {
    fn from(failure: IpamFailure) -> Self {
        match failure {
            IpamFailure::Ipam(error) => Self::Ipam(error),
            IpamFailure::Datastore(error) => Self::Store(error),
        }
    }
}

impl From<Fault> for ClientError {
    fn from(fault: Fault) -> Self {
        Self::Invalid { faults: vec![fault] }
    }
}

/// Upstream names what is built in by its name alone.
fn identifier(key: &ResourceKey) -> String {
    match key.name() {
        Some(name) if super::rules::is_built_in(key) => name.to_owned(),
        _ => key.to_string(),
    }
}

/// One fault as it is, several as a list.
fn lines(faults: &[Fault]) -> String {
    match faults {
        [fault] => fault.to_string(),
        _ => Fault::few(faults.iter().cloned()).iter().fold(
            "error with the following fields:".to_owned(),
            |mut text, fault| {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n-  {fault}");
                text
            },
        ),
    }
}
