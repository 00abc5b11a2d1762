//! What can go wrong with namespaces and with requests inside them.

use std::io;
use std::path::PathBuf;

/// A namespace that could not be made, opened or entered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// There is no such namespace (any more).
    #[error("no network namespace at {}", path.display())]
    Absent {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is there and is no network namespace: perhaps the mount point that a deleted one left.
    #[error("{} is not a network namespace", path.display())]
    NotNetns {
        /// The file.
        path: PathBuf,
    },
    /// A namespace of that name exists already.
    #[error("network namespace {name:?} exists already")]
    Exists {
        /// Its name.
        name: String,
    },
    /// A name that no namespace can have.
    #[error("{name:?} is not a namespace name: 1 to 64 bytes without '/' or white space, and not starting with '.'")]
    Name {
        /// As given.
        name: String,
    },
    /// The system refused.
    #[error("cannot {operation} {}", path.display())]
    System {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl NetnsError {
    /// Whether the namespace is simply not there.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. } | Self::NotNetns { .. })
    }

    /// Whether the caller lacks a privilege.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    pub(super) fn system(operation: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::System { operation, path: path.into(), source: source.into() }
    }
}

/// A request that the kernel's rtnetlink refused.
#[derive(Debug, thiserror::Error)]
#[error("kernel refused to {what}{}", if detail.is_empty() { String::new() } else { format!(" ({detail})") })]
#[non_exhaustive]
pub struct RequestError {
    /// What was asked, as a verb phrase with its object.
    pub what: String,
    /// The kernel's own words, where it gave some.
    pub detail: String,
    /// The error number's meaning.
    #[source]
    pub source: io::Error,
}

impl RequestError {
    /// Whether the object is there already.
    pub fn is_exists(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether a list changed while it was read, so that asking again is all it takes.
    pub(super) fn is_interrupted(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EINTR)
    }

    /// Whether the object is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::ENODEV | libc::ENOENT | libc::ESRCH | libc::ENXIO))
    }
}
