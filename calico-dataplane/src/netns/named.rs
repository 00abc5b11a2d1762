//! Namespaces with a name: a bind mount under `/run/netns`, which is where iproute2 keeps its own, so that `ip netns` lists
//! them and `ip -n NAME` enters them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::{Netns, NetnsError};

/// Where the namespaces are mounted.
pub const DIRECTORY: &str = "/run/netns";

/// Makes a namespace called `name`.
pub fn create(name: &str) -> Result<Netns, NetnsError> {
    let netns = Netns::anonymous()?;
    publish(&netns, name)?;
    Ok(netns)
}

/// Gives a namespace the name `name`, which must be free. Whoever must know its own namespaces again after a crash makes an anonymous
/// one, writes its identity down, and publishes it then.
pub fn publish(netns: &Netns, name: &str) -> Result<(), NetnsError> {
    let path = path(name)?;
    prepare_directory()?;
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o444).open(&path);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => NetnsError::Exists { name: name.into() },
        _ => NetnsError::system("create", &path, error),
    })?;
    let mounted = mount(Some(&netns.path()), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(|error| NetnsError::system("mount a network namespace on", &path, error));
    if mounted.is_err() {
        // Best effort: the first error is the one worth telling.
        let _ = fs::remove_file(&path);
    }
    mounted
}

/// Opens the namespace called `name`.
pub fn open(name: &str) -> Result<Netns, NetnsError> {
    Netns::open(&path(name)?)
}

/// Deletes the name `name`. The namespace itself goes when nothing uses it any more. Absence is success.
pub fn delete(name: &str) -> Result<(), NetnsError> {
    let path = path(name)?;
    match umount2(&path, MntFlags::MNT_DETACH) {
        // EINVAL: a bare file, which a creation that was interrupted left.
        Ok(()) | Err(Errno::ENOENT | Errno::EINVAL) => {}
        Err(error) => return Err(NetnsError::system("unmount", &path, error)),
    }
    match fs::remove_file(&path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(NetnsError::system("remove", &path, error)),
    }
}

/// Names of all namespaces, sorted.
pub fn list() -> Result<Vec<String>, NetnsError> {
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(NetnsError::system("list", DIRECTORY, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| NetnsError::system("list", DIRECTORY, error))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Where the namespace called `name` is, or would be, mounted.
pub fn path(name: &str) -> Result<PathBuf, NetnsError> {
    let bad = name.is_empty()
        || name.len() > 64
        || name.starts_with('.')
        || name.chars().any(|c| c == '/' || c.is_whitespace() || c.is_control());
    if bad { Err(NetnsError::Name { name: name.into() }) } else { Ok(Path::new(DIRECTORY).join(name)) }
}

/// The directory must be a shared mount of its own, so that namespaces made in one mount namespace show, and above all can be
/// deleted, in the others.
fn prepare_directory() -> Result<(), NetnsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(DIRECTORY)
        .map_err(|error| NetnsError::system("create", DIRECTORY, error))?;
    let share = || mount(None::<&str>, DIRECTORY, None::<&str>, MsFlags::MS_SHARED | MsFlags::MS_REC, None::<&str>);
    match share() {
        Ok(()) => return Ok(()),
        // Not a mount point yet.
        Err(Errno::EINVAL) => {}
        Err(error) => return Err(NetnsError::system("share", DIRECTORY, error)),
    }
    mount(Some(DIRECTORY), DIRECTORY, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .and_then(|()| share())
        .map_err(|error| NetnsError::system("mount", DIRECTORY, error))
}
