//! The directories of the files that programs make.
//!
//! The directory of a default path is ours to make. Any other must be there: a path mistyped, or a disk not mounted, would otherwise
//! leave directories in the wrong place, and whoever looks in the right one would find nothing.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory that a file cannot be put into.
#[derive(Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "a directory is missing, or it cannot be made")]
pub enum DirectoryError {
    /// It is not there, and not ours to make.
    #[error(
        "the directory {} does not exist: check the path {}, or make it: mkdir -p {}",
        directory.display(), path.display(), directory.display()
    )]
    Absent {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
    },
    /// It is the default one, and cannot be made.
    #[error("cannot make the directory {}", directory.display())]
    Make {
        /// The directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Sees to it that the directory of `path` is there: one that is missing is made if it is that of `default` too.
///
/// # Errors
/// If it is missing and another one, or cannot be made.
pub fn ready(path: &Path, default: &Path) -> Result<(), DirectoryError> {
    let directory = match path.parent() {
        // A bare name lies in the working directory, and the root in itself.
        None => return Ok(()),
        Some(directory) if directory.as_os_str().is_empty() || directory.is_dir() => return Ok(()),
        Some(directory) => directory.to_owned(),
    };
    if Some(&*directory) != default.parent() {
        return Err(DirectoryError::Absent { path: path.to_owned(), directory });
    }
    // Other programs read what lies there; files that are for their owner alone say so themselves.
    let made = DirBuilder::new().recursive(true).mode(0o755).create(&directory);
    made.map_err(|source| DirectoryError::Make { directory, source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_default_directory_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let default = at("lib/calico/calico.db");
        let error = ready(&at("mistyped/deep/calico.db"), &default).unwrap_err();
        assert!(
            matches!(&error, DirectoryError::Absent { directory, .. } if *directory == at("mistyped/deep")),
            "{error}"
        );
        assert!(error.to_string().contains("mistyped/deep does not exist"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for _ in 0..2 {
            ready(&at("lib/calico/other.db"), &default).unwrap();
        }
        let mode = std::fs::metadata(at("lib/calico")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        ready(Path::new("bare"), &default).unwrap();
        std::fs::write(at("file"), "").unwrap();
        assert!(matches!(ready(&at("file/x"), &at("file/x")), Err(DirectoryError::Make { .. })));
    }
}
