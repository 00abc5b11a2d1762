//! The least that adding routes can take: netlink messages written by hand into one buffer, 256 a send, one acknowledgement a send.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use calico_dataplane::netns::Netns;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send, socket,
};

use crate::error::{Context, LabError};

const BATCH: u32 = 256;
/// `RTM_NEWROUTE`.
const NEW_ROUTE: u16 = 24;
/// `NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE`.
const FLAGS: u16 = 0x1 | 0x400 | 0x100;
/// `NLM_F_ACK`.
const ACK: u16 = 0x4;
/// `NLMSG_ERROR`, which an acknowledgement is too.
const ERROR: [u8; 2] = 2_u16.to_ne_bytes();
/// Header, `rtmsg`, destination, gateway.
const LENGTH: u32 = 16 + 12 + 8 + 8;

/// Seconds that adding `count` routes by one gateway takes.
pub(super) fn add(
    netns: &Netns,
    count: u32,
    destination: fn(u32) -> Ipv4Addr,
    gateway: Ipv4Addr,
) -> Result<f64, LabError> {
    let work = || -> io::Result<f64> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        let begun = Instant::now();
        let mut bytes = Vec::new();
        let mut first = 0;
        while first < count {
            bytes.clear();
            let end = count.min(first + BATCH);
            for number in first..end {
                let ack = if number + 1 == end { ACK } else { 0 };
                message(&mut bytes, FLAGS | ack, number, destination(number), gateway);
            }
            exchange(&socket, &bytes)?;
            first = end;
        }
        Ok(begun.elapsed().as_secs_f64())
    };
    netns.run(work).context(|| "cannot enter a namespace".into())?.context(|| "the bare loop failed".into())
}

fn message(bytes: &mut Vec<u8>, flags: u16, sequence: u32, destination: Ipv4Addr, gateway: Ipv4Addr) {
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(NEW_ROUTE.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    // AF_INET, /32, table main, protocol 82, universe, unicast.
    bytes.extend([2, 32, 0, 0, 254, 82, 0, 1, 0, 0, 0, 0]);
    // RTA_DST and RTA_GATEWAY.
    for (kind, address) in [(1_u16, destination), (5, gateway)] {
        bytes.extend(8_u16.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(address.octets());
    }
}

/// Only the last message asks for an answer, and one that fails gives one in any case: the first answer tells.
fn exchange(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    send(socket.as_raw_fd(), bytes, MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let answer = answer.get(..length).unwrap_or_default();
    let number = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (answer.get(4..6) == Some(&ERROR), number) {
        (true, Some(0)) => Ok(()),
        (true, Some(number)) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
        _ => Err(io::Error::other("the kernel's answer is not an acknowledgement")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel takes the messages for what they are: a gateway that nobody reaches is refused.
    #[test]
    fn a_route_that_cannot_be_is_an_error() {
        let netns = Netns::anonymous().unwrap();
        let destination = |number| Ipv4Addr::from(0x0b00_0000 + number);
        let error = add(&netns, 300, destination, Ipv4Addr::new(10, 0, 0, 2)).unwrap_err();
        let text = calico_cmd::output::chain(&error);
        assert!(text.contains("nreachable"), "{text}");
    }
}
