//! What can go wrong with a store, typed by what the caller can do about it.

use calico_core::resource::ResourceKey;

use crate::{Revision, Stored};

/// A failed request to a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatastoreError {
    /// The key is absent.
    #[error("resource does not exist: {key}")]
    NotFound {
        /// Which.
        key: ResourceKey,
    },
    /// The key is present although it must be absent.
    #[error("resource already exists: {key}")]
    AlreadyExists {
        /// Which.
        key: ResourceKey,
        /// What is there, if it could be read.
        current: Option<Box<Stored>>,
    },
    /// The key was changed since the revision that the caller knows.
    #[error("update conflict: {key}")]
    Conflict {
        /// Which.
        key: ResourceKey,
        /// What is there, if it could be read.
        current: Option<Box<Stored>>,
    },
    /// The revision to watch from is no longer in the store's history: list again.
    #[error("revision {revision} is too old: the store's history no longer has it")]
    TooOld {
        /// The revision asked for.
        revision: Revision,
    },
    /// The stored value cannot be read.
    #[error("stored value of {key} cannot be read: {reason}")]
    Unreadable {
        /// Which.
        key: ResourceKey,
        /// Field and fault.
        reason: String,
    },
    /// The object was to be written back, but its document was not read as it is stored ([`Document::inexact`](crate::Document::inexact)).
    #[error(
        "{key} is left as it is, for this version cannot write it back unchanged ({reason}): change it with what wrote it, or \
         delete it and create it anew"
    )]
    Inexact {
        /// Which.
        key: ResourceKey,
        /// What would change.
        reason: String,
    },
    /// No store can hold an object under this key.
    #[error("{key} is no possible key: {reason}")]
    InvalidKey {
        /// Which.
        key: ResourceKey,
        /// What is wrong with it.
        reason: String,
    },
    /// The batch has more operations than a store takes at once. Split it where it need not be atomic.
    #[error("the batch has {operations} operations, a store takes {limit} at most: split it")]
    TooLarge {
        /// How many it has: its writes, guarded ones twice.
        operations: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The store cannot be reached, or does not answer in time. Retrying later may help.
    #[error("datastore is unavailable: {operation}")]
    Unavailable {
        /// What was tried.
        operation: String,
        /// The backend's own error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The store took the writes, or may have, and was not heard of again: whether they took effect is not known. Read, and write
    /// what is missing; the same batch sent once more may meet itself as [`AlreadyExists`](Self::AlreadyExists) or
    /// [`Conflict`](Self::Conflict).
    #[error("datastore did not say whether the change was made: {operation}: look before you repeat it")]
    Undecided {
        /// What was tried.
        operation: String,
        /// The backend's own error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The store refuses: credentials, permissions, a read-only or full disk. Retrying does not help.
    #[error("datastore refuses: {operation}")]
    Refused {
        /// What was tried.
        operation: String,
        /// The backend's own error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl DatastoreError {
    /// Whether the key is absent.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether somebody else wrote first: read again and decide anew.
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::AlreadyExists { .. })
    }

    /// Whether the request may succeed later; of one that is [undecided](Self::Undecided), after a look at what is there.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Undecided { .. } | Self::TooOld { .. })
    }

    /// The error with its causes, on one line.
    pub(crate) fn chain(&self) -> String {
        let first: &dyn std::error::Error = self;
        let texts = std::iter::successors(Some(first), |error| error.source()).map(ToString::to_string);
        texts.collect::<Vec<_>>().join(": ")
    }
}
