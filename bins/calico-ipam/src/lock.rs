//! The host-wide lock around address management.
//!
//! It is not needed for correctness: every write is conditional. But the containers of one host take from the same block, and without
//! the lock a hundred starting at once would fight over it. The path is upstream's, so that both kinds of plugin wait for each other.

use std::error::Error;
use std::fs::File;
use std::path::Path;

use calico_cmd::directory;
use calico_cmd::output::chain;
use calico_core::cni::NetConf;

use crate::plugin::warn;

/// Upstream's path.
const DEFAULT: &str = "/var/run/calico/ipam.lock";

/// Waits for the lock. Like upstream, goes on without where there can be none.
pub(crate) fn acquire(conf: &NetConf) -> Option<File> {
    let path = Path::new(if conf.ipam_lock_file.is_empty() { DEFAULT } else { &conf.ipam_lock_file });
    let lock = || -> Result<File, Box<dyn Error>> {
        directory::ready(path, Path::new(DEFAULT))?;
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    };
    lock().inspect_err(|error| warn(format_args!("no IPAM lock at {}: {}", path.display(), chain(&**error)))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_directory_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name).to_str().unwrap().to_owned();
            let mut conf = NetConf::default();
            conf.ipam_lock_file = path;
            acquire(&conf)
        };
        assert!(at("mistyped/ipam.lock").is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(at("ipam.lock").is_some());
    }
}
