//! Who this host is: the node name, which keys everything that belongs to the host and so must never change.

use std::io;
use std::path::{Path, PathBuf};

use calico_cmd::directory::{self, DirectoryError};

/// Where the name is remembered unless somebody says otherwise.
pub const DEFAULT_FILE: &str = "/var/lib/calico/nodename";
/// Longest name that a Node may have.
const MAX_NAME: usize = 253;

/// Why there is no node name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file that remembers the name is there and cannot be read.
    #[error("cannot read the node name from {path}: repair or remove the file, or set NODENAME")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The directory of the file is missing.
    #[error("cannot remember the node name")]
    Directory(#[from] DirectoryError),
    /// The file cannot be written.
    #[error("cannot remember the node name in {path}")]
    Remember {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No usable name anywhere.
    #[error("{name:?} is no node name: set NODENAME to lower-case letters, digits, '-' and '.'")]
    Name {
        /// What was found.
        name: String,
    },
}

/// The node name: as given, else the file's, else the host's in lower case (upstream's order, `node-ctl-controllers` 1.6).
pub fn node_name(given: Option<&str>, file: &Path, hostname: &str) -> Result<String, IdentityError> {
    let name = match given.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => match std::fs::read_to_string(file) {
            Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
            Ok(_) => hostname.trim().to_lowercase(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => hostname.trim().to_lowercase(),
            Err(source) => return Err(IdentityError::File { path: file.to_owned(), source }),
        },
    };
    let label = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    let good = name.len() <= MAX_NAME
        && name.split('.').all(label)
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    if good { Ok(name) } else { Err(IdentityError::Name { name }) }
}

/// Remembers the name, replacing the file whole so that a crash leaves the old one or the new one.
pub fn remember(name: &str, file: &Path) -> Result<(), IdentityError> {
    if std::fs::read_to_string(file).is_ok_and(|text| text.trim() == name) {
        return Ok(());
    }
    let fail = |source| IdentityError::Remember { path: file.to_owned(), source };
    directory::ready(file, Path::new(DEFAULT_FILE))?;
    let fresh = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&fresh, name).map_err(fail)?;
    std::fs::rename(&fresh, file).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_given_then_file_then_host() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nodename");
        assert_eq!(node_name(None, &file, "Host-A").unwrap(), "host-a");
        remember("kept", &file).unwrap();
        assert_eq!(node_name(None, &file, "Host-A").unwrap(), "kept");
        assert_eq!(node_name(Some(" given "), &file, "Host-A").unwrap(), "given");
        assert_eq!(node_name(Some(""), &file, "Host-A").unwrap(), "kept");
    }

    #[test]
    fn no_directory_is_made_for_a_path_that_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let error = remember("kept", &folder.path().join("mistyped/nodename")).unwrap_err();
        assert!(matches!(error, IdentityError::Directory(DirectoryError::Absent { .. })), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_unreadable_file_is_an_error_and_not_a_new_name() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(node_name(None, folder.path(), "host"), Err(IdentityError::File { .. })));
    }

    #[test]
    fn odd_names_are_refused() {
        for bad in ["Upper", "a b", "a..b", "-a", "a-", "a/b"] {
            assert!(matches!(node_name(Some(bad), Path::new("/x"), ""), Err(IdentityError::Name { .. })), "{bad}");
        }
    }
}
