//! What can be wrong with the file, typed by what an operator can do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::DatastoreError;

/// A failed operation on the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// The file is no SQLite database.
    #[error("{path:?} is not a SQLite database: name another file, or move this one away")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A directory, a device or the like.
    #[error("{path:?} is no regular file: name another path")]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// The path is a symbolic link to a file that is not there. Nothing is made behind it: what it names may not be mounted.
    #[error(
        "{} is a symbolic link to {}, which does not exist: mount or restore what it names, or remove the link",
        path.display(), target.display()
    )]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The file is another program's SQLite database.
    #[error("{path:?} is a SQLite database of another program (application id {found:#x}): name another file")]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
        /// The application id it carries.
        found: i32,
    },
    /// The file was written by a newer version.
    #[error(
        "{path:?} has schema version {found}, this program knows up to {known}: use the newer program, or restore a backup"
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: i32,
        /// The newest version known here.
        known: i32,
    },
    /// The file, its directory or its file system refuses writes.
    #[error(
        "{path:?} cannot be written: check the permissions of the file and its directory, and that the file system is not read-only"
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The file lies on a file system that is mounted read-only, and what was written last lies beside it in the log.
    #[error(
        "{path:?} is on a read-only file system beside its log (-wal), and cannot be read without copying that into it: copy both to a \
         place that can be written"
    )]
    ReadOnlyLog {
        /// The file.
        path: PathBuf,
    },
    /// The file system is full.
    #[error("no space left for {path:?}: nothing was written; free some space")]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// Another process held the file locked for too long.
    #[error("{path:?} is locked by another process")]
    Busy {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The content is damaged.
    #[error("{path:?} is damaged: restore a backup (\"sqlite3 FILE .recover\" may help)")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The file was there when it was opened, and is not any more.
    #[error("{path:?} was removed while in use: restore it; starting calico-node or `calicoctl apply` makes a new one")]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// The file has no content any more.
    #[error(
        "{path:?} is empty: it was truncated, or copied without its log, for no store begins so; stop the programs that use it \
         (calico-node), and restore a backup or remove the file, for calico-node or `calicoctl apply` to make a new one"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// There is no file, and it is not to be made.
    #[error("there is no file {path:?}")]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The directory of the file is missing. It is not made: the path may be mistyped, or a disk not mounted.
    #[error("the directory {} does not exist: check the path {}, or make it: mkdir -p {}", directory.display(), path.display(), directory.display())]
    NoDirectory {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
    },
    /// The file cannot be made or opened.
    #[error("cannot open {path:?}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Anything else that SQLite reports.
    #[error("SQLite failed on {path:?}")]
    Other {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
}

impl SqliteError {
    /// Sorts SQLite's own error.
    pub(super) fn new(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        // The log's index could not grow, which is as much as a full disk, and has a code of its own.
        if source.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
            return Self::DiskFull { path, source };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly { path, source }
            }
            Some(ErrorCode::DiskFull) => Self::DiskFull { path, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path, source },
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, source },
            _ => Self::Other { path, source },
        }
    }

    /// Whether the same request may succeed later without anybody's help.
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::Dangling { .. }
                | Self::DiskFull { .. }
                | Self::Removed { .. }
                | Self::Truncated { .. }
                | Self::Other { .. }
        )
    }

    /// As the answer of a request.
    pub(super) fn during(self, operation: &str) -> DatastoreError {
        let operation = operation.to_owned();
        let retryable = self.is_retryable();
        let source: Option<Box<dyn std::error::Error + Send + Sync>> = Some(Box::new(self));
        if retryable {
            DatastoreError::Unavailable { operation, source }
        } else {
            DatastoreError::Refused { operation, source }
        }
    }
}

impl From<SqliteError> for DatastoreError {
    fn from(error: SqliteError) -> Self {
        error.during("open")
    }
}
