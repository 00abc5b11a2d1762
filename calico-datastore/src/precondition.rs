//! Whether a write may take effect: the one decision that every store must take alike.

use calico_core::resource::ResourceKey;

use crate::{DatastoreError, Precondition, Revision, Stored};

/// Why a write may not take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists,
    Absent,
    Changed,
}

impl Precondition {
    /// Compares with the revision at which the key is present, if it is.
    pub(crate) fn admit(self, present: Option<Revision>) -> Result<(), Refusal> {
        match (self, present) {
            (Self::None, _) | (Self::Absent, None) | (Self::Present, Some(_)) => Ok(()),
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
