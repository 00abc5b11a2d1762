//! An open namespace.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};

use super::NetnsError;

/// An open network namespace. It lives at least as long as this handle.
#[derive(Debug)]
pub struct Netns {
    file: File,
}

impl Netns {
    /// Opens the namespace that `path` (a bind mount, or `/proc/PID/ns/net`) refers to.
    pub fn open(path: &Path) -> Result<Self, NetnsError> {
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NetnsError::Absent { path: path.into() },
            _ => NetnsError::system("open network namespace", path, error),
        })?;
        let kind = fstatfs(&file).map_err(|error| NetnsError::system("examine", path, error))?;
        if kind.filesystem_type() != NSFS_MAGIC {
            return Err(NetnsError::NotNetns { path: path.into() });
        }
        Ok(Self { file })
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Self, NetnsError> {
        Self::open(Path::new(OWN))
    }

    /// Makes a namespace without a name. It vanishes with its last handle, process and socket, even after a crash.
    pub fn anonymous() -> Result<Self, NetnsError> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| NetnsError::system("make a network namespace as", OWN, error))?;
            Self::current()
        })?
    }

    /// Runs `work` inside the namespace, on a thread of its own, and waits for it.
    ///
    /// What `work` opens stays in the namespace; what it returns is handed on. A panic in `work` goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        on_thread(|| {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Moves the calling thread into the namespace, for good. For threads that were made for it; everyone else uses
    /// [`run`](Self::run).
    pub fn enter(&self) -> Result<(), NetnsError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|error| NetnsError::system("enter network namespace", self.path(), error))
    }

    /// A path by which this process, and its children that inherit the descriptor, can open the namespace again.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Whether both handles are of one namespace.
    pub fn is_same(&self, other: &Self) -> Result<bool, NetnsError> {
        Ok(self.identity()? == other.identity()?)
    }

    /// Device and inode, which no other namespace has while this one lives.
    pub fn identity(&self) -> Result<(u64, u64), NetnsError> {
        let data = self.file.metadata().map_err(|error| NetnsError::system("examine", self.path(), error))?;
        Ok((data.dev(), data.ino()))
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Runs `work` on a fresh thread, whose namespaces it may change as it likes.
pub(super) fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)
            .map_err(|error| NetnsError::system("start a thread for", OWN, error))?;
        thread.join().map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}

/// `/proc/self` would name the main thread's namespace.
pub(super) const OWN: &str = "/proc/thread-self/ns/net";
