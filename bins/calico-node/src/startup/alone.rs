//! One agent for each network namespace: two would undo each other's tables.
//!
//! The lock is an abstract Unix socket, whose names belong to the network namespace and vanish with the process, however it ends.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Name of the socket.
const NAME: &[u8] = b"calico-node";

/// Why this agent may not run here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AloneError {
    /// There is one.
    #[error("another calico-node runs in this network namespace: stop it first")]
    Taken,
    /// It cannot be told.
    #[error("cannot tell whether another calico-node runs in this network namespace")]
    Unknown(#[source] io::Error),
}

/// The right to be this namespace's agent; given back when dropped.
#[derive(Debug)]
pub(crate) struct AloneInNamespace {
    _socket: UnixListener,
}

impl AloneInNamespace {
    /// Takes the right, or says who has it.
    pub(crate) fn claim() -> Result<Self, AloneError> {
        let address = SocketAddr::from_abstract_name(NAME).map_err(AloneError::Unknown)?;
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Ok(Self { _socket: socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(AloneError::Taken),
            Err(error) => Err(AloneError::Unknown(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let namespace = calico_dataplane::netns::Netns::anonymous().unwrap();
        namespace
            .run(|| {
                let first = AloneInNamespace::claim().unwrap();
                assert!(matches!(AloneInNamespace::claim(), Err(AloneError::Taken)));
                drop(first);
                AloneInNamespace::claim().unwrap();
            })
            .unwrap();
    }
}
