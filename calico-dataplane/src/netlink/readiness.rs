//! Waiting for a socket without a thread: the one place of the netlink modules that needs `unsafe`.

use std::io;

use netlink_sys::Socket;
use tokio::io::unix::AsyncFd;

/// Registers a socket with the runtime of the calling task.
#[expect(unsafe_code, reason = "tokio cannot prove that a descriptor stays open")]
pub(super) fn register(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: the `AsyncFd` takes the socket by value, a `Socket` closes its descriptor only on drop and always returns that same
    // descriptor, and nothing in this crate clones a `Socket`, which would close the descriptor twice.
    unsafe { AsyncFd::register(socket) }.map_err(Into::into)
}
