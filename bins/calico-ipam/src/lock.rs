//! The host-wide lock around address management.
//!
//! It is not needed for correctness: every write is conditional. But the containers of one host take from the same block, and without
//! the lock a hundred starting at once would fight over it. The path is upstream's, so that both kinds of plugin wait for each other.

use std::fs::File;
use std::path::Path;

use calico_core::cni::NetConf;

/// Upstream's path.
const DEFAULT: &str = "/var/run/calico/ipam.lock";

/// Waits for the lock. Like upstream, goes on without where there can be none.
pub(crate) fn acquire(conf: &NetConf) -> Option<File> {
    let path = Path::new(if conf.ipam_lock_file.is_empty() { DEFAULT } else { &conf.ipam_lock_file });
    let open = || File::options().create(true).truncate(false).write(true).open(path);
    let file = open().or_else(|_| {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        open()
    });
    let file = file.and_then(|file| file.lock().map(|()| file));
    file.inspect_err(|error| crate::plugin::warn(format_args!("no IPAM lock at {}: {error}", path.display()))).ok()
}
