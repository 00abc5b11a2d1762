//! A netlink socket for requests: synchronous, because the kernel is.
//!
//! The kernel carries out a request inside the `send` call and has queued every answer when `send` returns, so nothing here ever
//! waits: answers are read without blocking until there are none left. A dump is continued by each read.

use std::io;

use calico_core::net::InterfaceName;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBufForce, SndBufForce};
use nix::sys::socket::{MsgFlags, recv, setsockopt};
use std::os::fd::AsRawFd;

use super::index;
use super::wire::{self, Message, messages};

/// The kernel fills dumps up to 32 KiB a read; notifications are smaller.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// Room for the error answers to a whole batch (about 0.8 KiB of accounted memory each). Accounted, not allocated.
const RECEIVE_QUEUE: usize = 8 * 1024 * 1024;
/// Attempts at a dump that the kernel says was interrupted by changes.
const DUMP_ATTEMPTS: usize = 10;

/// A request socket, bound to the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct RequestSocket {
    socket: Socket,
    port: u32,
    sequence: u32,
    send_limit: usize,
    buffer: Vec<u8>,
}

/// Opens a socket of a netlink protocol with a large receive queue, and says which port it got.
pub(crate) fn open(protocol: isize) -> io::Result<(Socket, u32)> {
    let mut socket = Socket::new(protocol)?;
    let port = socket.bind_auto()?.port_number();
    socket.set_non_blocking(true)?;
    // Without CAP_NET_ADMIN no request would pass either; its own error says so better.
    let _ = setsockopt(&socket, RcvBufForce, &RECEIVE_QUEUE);
    Ok((socket, port))
}

/// One datagram, or none if the queue is empty.
pub(crate) fn receive<'a>(socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    loop {
        match recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC) {
            Ok(length) => return buffer.get(..length).map(Some).ok_or_else(|| Errno::EMSGSIZE.into()),
            Err(Errno::EAGAIN) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl RequestSocket {
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let (socket, port) = open(protocol)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // Errors answer with the header of the request only, not with all of it.
        socket.set_cap_ack(true)?;
        Ok(Self { socket, port, sequence: 1, send_limit: 0, buffer: vec![0; RECEIVE_BUFFER] })
    }

    /// By which the kernel names us in the notifications that our writes cause.
    pub(crate) const fn port(&self) -> u32 {
        self.port
    }

    /// Makes the kernel check the filters of dump requests, where it knows how.
    pub(crate) fn check_strictly(&self) {
        let _ = self.socket.set_netlink_get_strict_chk(true);
    }

    /// The index of a link.
    pub(crate) fn index_of(&self, interface: InterfaceName) -> io::Result<Option<u32>> {
        index::of(&self.socket, interface)
    }

    /// `count` sequence numbers, of which this is the first.
    pub(crate) fn reserve(&mut self, count: u32) -> u32 {
        let first = self.sequence;
        self.sequence = first.checked_add(count).unwrap_or(1);
        first
    }

    /// Sends one datagram of requests and hands every answer to `answer`.
    pub(crate) fn exchange(&mut self, request: &[u8], mut answer: impl FnMut(Message<'_>)) -> io::Result<()> {
        #[cfg(any(test, feature = "testing"))]
        let withheld = super::faults::next()?;
        #[cfg(not(any(test, feature = "testing")))]
        let withheld = false;
        let mut lost = withheld;
        self.send(request)?;
        let Self { socket, buffer, .. } = self;
        loop {
            match receive(socket, buffer) {
                Ok(Some(_)) if withheld => {}
                Ok(Some(datagram)) => messages(datagram).for_each(&mut answer),
                Ok(None) if lost => return Err(Errno::ENOBUFS.into()),
                Ok(None) => return Ok(()),
                // Answers were lost; the rest is still read, so that none of them meets the next request.
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => lost = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks for a list and hands every entry to `entry`; starts over, after `restart`, when the list changed underneath.
    pub(crate) fn dump<T>(
        &mut self,
        kind: u16,
        body: impl Fn(&mut wire::Writer),
        mut collect: impl FnMut(&mut T, Message<'_>),
    ) -> io::Result<T>
    where
        T: Default,
    {
        for _ in 0..DUMP_ATTEMPTS {
            let mut into = T::default();
            let sequence = self.reserve(1);
            let mut writer = wire::Writer::default();
            writer.message(kind, wire::REQUEST | wire::DUMP, sequence, &body);
            let request = writer.finish().ok_or(Errno::EMSGSIZE)?;
            #[cfg(any(test, feature = "testing"))]
            super::faults::listed(kind, request.get(16..).unwrap_or_default());
            let mut interrupted = false;
            let mut outcome = None;
            self.exchange(&request, |message| {
                if message.sequence != sequence {
                    return;
                }
                interrupted |= message.flags & wire::DUMP_INTERRUPTED != 0;
                match message.kind {
                    wire::DONE | wire::ERROR => outcome = Some(message.errno()),
                    _ => collect(&mut into, message),
                }
            })?;
            match outcome {
                Some(0) if !interrupted => return Ok(into),
                Some(0) => {}
                Some(error) if error == Errno::EINTR as i32 => {}
                Some(error) => return Err(io::Error::from_raw_os_error(error)),
                None => return Err(Errno::EPROTO.into()),
            }
        }
        Err(Errno::EINTR.into())
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.allow(request.len())?;
        loop {
            match self.socket.send(request, 0) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A batch is one datagram, and the kernel refuses a datagram larger than the socket's send buffer.
    fn allow(&mut self, length: usize) -> io::Result<()> {
        let wanted = length.saturating_add(1024).max(256 * 1024);
        if wanted > self.send_limit {
            setsockopt(&self.socket, SndBufForce, &wanted)?;
            self.send_limit = wanted;
        }
        Ok(())
    }
}
