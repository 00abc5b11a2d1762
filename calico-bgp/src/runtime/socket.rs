//! Sockets as BGP wants them: marked, undelayed, with the highest TTL, and with what a session's [`Transport`] says.

use core::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::io;

use calico_core::bgp::PeerId;
use calico_core::net::{Cidr, Family, InterfaceName};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpSocket;

use super::option::{set_least_ttl, set_md5_key};
use crate::session::transport::{Transport, is_link_local};

/// Internetwork control (CS6), as routers mark routing protocols.
const TOS: u32 = 0xc0;
/// The highest, so that either end may ask for TTL security.
const TTL: u32 = 255;

/// A socket of that family, marked; whatever it sends, an answer to a SYN among it, has the highest TTL.
pub(super) fn open(family: Family) -> io::Result<Socket> {
    let domain = match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    match family {
        Family::V4 => {
            socket.set_ttl_v4(TTL)?;
            socket.set_tos_v4(TOS)?;
        }
        Family::V6 => {
            socket.set_only_v6(true)?;
            socket.set_unicast_hops_v6(TTL)?;
            socket.set_tclass_v6(TOS)?;
        }
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// One to connect from.
pub(super) fn calling(peer: PeerId, transport: &Transport) -> io::Result<TcpSocket> {
    let socket = open(Family::of(peer.address))?;
    let interface = scope(peer.interface)?;
    apply(&SockRef::from(&socket), peer, transport)?;
    if let Some(source) = transport.source {
        socket.bind(&endpoint(source, 0, interface).into())?;
    }
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// What holds for a connection, whoever opened it. One that was accepted has its key from the listening socket, which has every key before
/// it listens, and gets it again for itself: the listening socket may forget it.
pub(super) fn apply(socket: &Socket, peer: PeerId, transport: &Transport) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(transport.user_timeout)?;
    if let Some(key) = &transport.key {
        set_md5_key(socket, Cidr::host(peer.address), Some(key))?;
    }
    match transport.least_ttl {
        Some(least) => set_least_ttl(socket, Family::of(peer.address), least),
        None => Ok(()),
    }
}

/// Index of an interface, zero without one. It is looked up each time: an interface that comes again has another.
pub(super) fn scope(interface: Option<InterfaceName>) -> io::Result<u32> {
    let index = |name: InterfaceName| nix::net::if_::if_nametoindex(name.as_str());
    Ok(interface.map(index).transpose()?.unwrap_or(0))
}

/// The scope counts where the address is a link-local one.
pub(super) fn endpoint(address: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => SocketAddrV6::new(address, port, 0, scope).into(),
        address => SocketAddr::new(address, port),
    }
}

/// Who called.
pub(super) fn caller(from: SocketAddr) -> PeerId {
    let address = from.ip().to_canonical();
    let interface = match from {
        SocketAddr::V6(from) if is_link_local(address) => name(from.scope_id()),
        _ => None,
    };
    PeerId { address, interface }
}

fn name(scope: u32) -> Option<InterfaceName> {
    let name = nix::net::if_::if_indextoname(scope).ok()?;
    name.to_str().ok()?.parse().ok()
}
