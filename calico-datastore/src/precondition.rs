//! Whether a write may take effect: the one decision that every store must take alike.

use calico_core::resource::{Kind, ResourceKey};

use crate::{DatastoreError, Precondition, Revision, Stored};

/// Why a write may not take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists,
    Absent,
    Changed,
}

impl Precondition {
    /// The kind of which nothing may be newer, and than what.
    pub(crate) const fn guard(self) -> Option<(Kind, Revision)> {
        match self {
            Self::NothingNewerIn(kind, revision) => Some((kind, revision)),
            Self::Absent | Self::At(_) | Self::Present | Self::None => None,
        }
    }

    /// Compares with the revision at which the key is present, if it is; `is_newer` tells whether its [`guard`](Self::guard) found
    /// something newer.
    pub(crate) fn admit(self, present: Option<Revision>, is_newer: bool) -> Result<(), Refusal> {
        match (self, present) {
            (Self::NothingNewerIn(..), _) if is_newer => Err(Refusal::Changed),
            (Self::None | Self::NothingNewerIn(..), _) | (Self::Absent, None) | (Self::Present, Some(_)) => Ok(()),
            (Self::Absent, Some(_)) => Err(Refusal::Exists),
            (Self::Present | Self::At(_), None) => Err(Refusal::Absent),
            (Self::At(wanted), Some(found)) if wanted == found => Ok(()),
            (Self::At(_), Some(_)) => Err(Refusal::Changed),
        }
    }
}

impl Refusal {
    /// The answer to the caller, with what is there if it can be read.
    pub(crate) fn into_error(self, key: &ResourceKey, current: Option<Stored>) -> DatastoreError {
        let key = key.clone();
        let current = current.map(Box::new);
        match self {
            Self::Exists => DatastoreError::AlreadyExists { key, current },
            Self::Absent => DatastoreError::NotFound { key },
            Self::Changed => DatastoreError::Conflict { key, current },
        }
    }
}
