//! Notifications of links that leave a namespace.

use std::time::Duration;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use socket2::SockRef;

use super::NetnsError;
use crate::netlink::wire::messages;

/// `RTMGRP_LINK`.
const GROUP_LINK: u32 = 1;
/// `RTM_DELLINK`.
const DELETED: u16 = 17;
/// Larger than the notification of any link.
const RECEIVE: usize = 64 * 1024;

/// Hears of links that leave the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Departures {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Departures {
    /// Hears of what happens from now on. No [`includes`](Self::includes) waits longer than `patience`.
    pub(crate) fn subscribe(patience: Duration) -> Result<Self, NetnsError> {
        let failed = |error| NetnsError::system("hear of links in", super::handle::OWN, error);
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed)?;
        socket.bind(&SocketAddr::new(0, GROUP_LINK)).map_err(failed)?;
        SockRef::from(&socket).set_read_timeout(Some(patience)).map_err(failed)?;
        Ok(Self { socket, buffer: Vec::with_capacity(RECEIVE) })
    }

    /// Waits for the next notifications, and tells whether they include that link `index` has left. They may be lost, too, when very
    /// many come at once.
    pub(crate) fn includes(&mut self, index: u32) -> bool {
        self.buffer.clear();
        self.socket.recv_from(&mut self.buffer, 0).is_ok()
            && messages(&self.buffer).any(|message| message.kind == DELETED && departed(message.body) == Some(index))
    }
}

/// The index in a `struct ifinfomsg`. Other families than `AF_UNSPEC` mean that the link leaves a bridge.
fn departed(body: &[u8]) -> Option<u32> {
    let [0, _, _, _, index @ ..] = *body.first_chunk::<8>()? else { return None };
    Some(u32::from_ne_bytes(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_port_does_not_depart() {
        let index = 7_u32.to_ne_bytes();
        assert_eq!(departed(&[[0; 4], index].concat()), Some(7));
        assert_eq!(departed(&[[7, 0, 0, 0], index].concat()), None);
        assert_eq!(departed(&[0; 7]), None);
    }
}
