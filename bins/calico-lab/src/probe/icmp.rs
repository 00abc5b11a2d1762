//! Echo requests over the kernel's ICMP sockets, which choose the identifier and hand each answer to the right socket.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Opens a socket in the namespace of the calling thread.
pub(super) fn open(to: SocketAddr) -> io::Result<Socket> {
    let (domain, protocol) =
        if to.is_ipv4() { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// An echo request. The kernel fills in identifier and checksum.
pub(super) fn request(to: SocketAddr, nonce: u32) -> Vec<u8> {
    let kind = if to.is_ipv4() { 8 } else { 128 };
    let mut packet = vec![kind, 0, 0, 0, 0, 0, 0, 1];
    packet.extend_from_slice(&nonce.to_be_bytes());
    packet
}

/// Whether `packet` is the answer to the request with `nonce`.
pub(super) fn is_answer(packet: &[u8], from: SocketAddr, nonce: u32) -> bool {
    let kind = if from.is_ipv4() { 0 } else { 129 };
    packet.first() == Some(&kind) && packet.get(8..) == Some(nonce.to_be_bytes().as_slice())
}
