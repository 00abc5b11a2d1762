//! Sending sockets: a source port for each session, as RFC 5881 section 4 wants it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;

use socket2::{Domain, Protocol, Socket, Type};

use crate::bfd::peer::Transmit;
use crate::bfd::{Discriminator, HOP_LIMIT, MULTIHOP_PORT, SINGLE_HOP_PORT};

/// First of the source ports that RFC 5881 allows, and their number.
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = 16_384;
/// Ports that are tried when one is taken: others use the range for connections of their own.
const ATTEMPTS: u16 = 256;
/// Internetwork control (CS6), as routers mark routing protocols.
const TOS: u32 = 0xc0;

/// One socket per session, made when it first sends.
#[derive(Debug, Default)]
pub(super) struct Senders(BTreeMap<Discriminator, UdpSocket>);

impl Senders {
    pub(super) fn send(&mut self, transmit: &Transmit) -> io::Result<()> {
        let to = destination(transmit)?;
        if let Some(socket) = self.0.get(&transmit.session) {
            return send(socket, transmit, to);
        }
        // The own address may come later than the session; each packet is an attempt.
        let socket = open(transmit)?;
        let sent = send(&socket, transmit, to);
        self.0.insert(transmit.session, socket);
        sent
    }

    pub(super) fn close(&mut self, session: Discriminator) {
        self.0.remove(&session);
    }
}

/// A full queue loses the packet, as any hop may.
fn send(socket: &UdpSocket, transmit: &Transmit, to: SocketAddr) -> io::Result<()> {
    socket.send_to(&transmit.payload, to).map(drop)
}

fn destination(transmit: &Transmit) -> io::Result<SocketAddr> {
    let port = if transmit.multihop { MULTIHOP_PORT } else { SINGLE_HOP_PORT };
    match (transmit.to.address, scope(transmit)?) {
        (IpAddr::V6(address), scope) if scope != 0 => Ok(SocketAddrV6::new(address, port, 0, scope).into()),
        (address, _) => Ok(SocketAddr::new(address, port)),
    }
}

/// Index of the interface, zero without one. It is looked up each time: an interface that comes again has another.
fn scope(transmit: &Transmit) -> io::Result<u32> {
    let index = |name: calico_core::net::InterfaceName| nix::net::if_::if_nametoindex(name.as_str());
    Ok(transmit.to.interface.map(index).transpose()?.unwrap_or(0))
}

fn open(transmit: &Transmit) -> io::Result<UdpSocket> {
    let anywhere = match transmit.to.address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let local = transmit.local.unwrap_or(anywhere);
    let socket = Socket::new(Domain::for_address(SocketAddr::new(local, 0)), Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
        socket.set_unicast_hops_v6(u32::from(HOP_LIMIT))?;
        socket.set_tclass_v6(TOS)?;
    } else {
        socket.set_ttl_v4(u32::from(HOP_LIMIT))?;
        socket.set_tos_v4(TOS)?;
    }
    // Nobody reads it: what strangers send there must not take memory.
    socket.set_recv_buffer_size(0)?;
    socket.set_nonblocking(true)?;
    bind(&socket, transmit, local)?;
    Ok(socket.into())
}

fn bind(socket: &Socket, transmit: &Transmit, local: IpAddr) -> io::Result<()> {
    let scope = scope(transmit)?;
    let first = u16::try_from(transmit.session.get() % u32::from(PORTS)).unwrap_or(0);
    let mut outcome = Ok(());
    for attempt in 0..ATTEMPTS {
        let port = FIRST_PORT.saturating_add((first + attempt) % PORTS);
        let address = match local {
            IpAddr::V6(address) if address.is_unicast_link_local() => SocketAddrV6::new(address, port, 0, scope).into(),
            address => SocketAddr::new(address, port),
        };
        outcome = socket.bind(&address.into());
        if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::AddrInUse) {
            break;
        }
    }
    outcome
}
