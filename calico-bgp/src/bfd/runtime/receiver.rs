//! Receiving sockets: port 3784 and 4784, each for IPv4 and IPv6, while a session needs it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use calico_core::net::InterfaceName;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt,
    sockopt::{Ipv4PacketInfo, Ipv4RecvTtl, Ipv6RecvHopLimit, Ipv6RecvPacketInfo},
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::BfdError;
use crate::bfd::peer::{BfdPeer, Received};
use crate::bfd::{MULTIHOP_PORT, SINGLE_HOP_PORT};

/// Longest payload that is looked at: a packet with the longest authentication section is shorter.
const BUFFER: usize = 128;

/// Which of the four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    ipv6: bool,
    multihop: bool,
}

/// All kinds.
pub(super) const KINDS: [Kind; 4] = [
    Kind { ipv6: false, multihop: false },
    Kind { ipv6: false, multihop: true },
    Kind { ipv6: true, multihop: false },
    Kind { ipv6: true, multihop: true },
];

/// Own addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listen {
    pub(super) ipv4: Ipv4Addr,
    pub(super) ipv6: Ipv6Addr,
}

/// Those that are open.
#[derive(Debug)]
pub(super) struct Receivers {
    listen: Listen,
    open: Vec<Receiver>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Receiver {
    pub(super) kind: Kind,
    socket: Arc<UdpSocket>,
}

impl Receivers {
    pub(super) const fn new(listen: Listen) -> Self {
        Self { listen, open: Vec::new() }
    }

    /// Opens what these sessions need and closes what they do not. Tries all; the first error is told.
    pub(super) fn listen_for(&mut self, peers: &[BfdPeer]) -> Result<(), BfdError> {
        let needed = |kind: Kind| peers.iter().any(|peer| Kind::of(peer) == kind);
        self.open.retain(|receiver| needed(receiver.kind));
        let mut outcome = Ok(());
        for kind in KINDS.into_iter().filter(|kind| needed(*kind)) {
            if self.open.iter().any(|receiver| receiver.kind == kind) {
                continue;
            }
            let address = kind.address(self.listen);
            match open(address) {
                Ok(socket) => self.open.push(Receiver { kind, socket: Arc::new(socket) }),
                Err(source) => outcome = outcome.and(Err(BfdError::Listen { address, source })),
            }
        }
        outcome
    }

    pub(super) fn of(&self, kind: Kind) -> Option<Receiver> {
        self.open.iter().find(|receiver| receiver.kind == kind).cloned()
    }

    pub(super) fn close(&mut self) {
        self.open.clear();
    }
}

impl Receiver {
    /// There may be something to read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Hands over what is there, but not more than `limit`.
    pub(super) fn drain(&self, limit: usize, mut take: impl FnMut(&Received<'_>)) {
        let mut control = nix::cmsg_space!(nix::libc::in6_pktinfo, nix::libc::c_int);
        for _ in 0..limit {
            let read = || read(&self.socket, self.kind, &mut control, &mut take);
            match self.socket.try_io(Interest::READABLE, read) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return tracing::debug!(%error, "cannot receive a BFD packet"),
            }
        }
    }
}

impl Kind {
    const fn of(peer: &BfdPeer) -> Self {
        Self { ipv6: peer.id.address.is_ipv6(), multihop: peer.parameters.multihop }
    }

    fn address(self, listen: Listen) -> SocketAddr {
        let address = if self.ipv6 { IpAddr::V6(listen.ipv6) } else { IpAddr::V4(listen.ipv4) };
        SocketAddr::new(address, if self.multihop { MULTIHOP_PORT } else { SINGLE_HOP_PORT })
    }
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
        setsockopt(&socket, Ipv6RecvHopLimit, &true)?;
        setsockopt(&socket, Ipv6RecvPacketInfo, &true)?;
    } else {
        setsockopt(&socket, Ipv4RecvTtl, &true)?;
        setsockopt(&socket, Ipv4PacketInfo, &true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

fn read(socket: &UdpSocket, kind: Kind, control: &mut [u8], take: &mut impl FnMut(&Received<'_>)) -> io::Result<()> {
    let mut buffer = [0; BUFFER];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::MSG_DONTWAIT)?;
    let (mut hop_limit, mut to, mut index) = (None, None, 0);
    for part in message.cmsgs()? {
        match part {
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                hop_limit = u8::try_from(ttl).ok()
            }
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                to = Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr))));
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                to = Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
                index = info.ipi6_ifindex;
            }
            _ => {}
        }
    }
    let (from, length) = (message.address.as_ref().and_then(address_of), message.bytes);
    // The kernel was asked to tell all three of every datagram; without them nobody can say whose it is.
    if let (Some(from), Some(to), Some(hop_limit)) = (from, to, hop_limit) {
        let interface = interface_of(from, index);
        let payload = buffer.get(..length).unwrap_or(&buffer);
        take(&Received { from, to, interface, hop_limit, multihop: kind.multihop, payload });
    }
    Ok(())
}

fn address_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let ipv4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    ipv4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

fn interface_of(from: IpAddr, index: u32) -> Option<InterfaceName> {
    let IpAddr::V6(address) = from else {
        return None;
    };
    if !address.is_unicast_link_local() {
        return None;
    }
    let name = nix::net::if_::if_indextoname(index).ok()?;
    name.to_str().ok()?.parse().ok()
}
