//! Many requests in few system calls.
//!
//! Only the last request of a datagram asks for an acknowledgement; one that fails is answered in any case, by its sequence number.

use std::io;

use nix::errno::Errno;

use super::socket::RequestSocket;
use super::wire::{ACK, ERROR, REQUEST, Writer};

/// Requests per datagram: beyond this, nothing more is won.
const SIZE: usize = 256;

/// Requests on their way, each with the tag by which its failure is reported.
pub(crate) struct Batch<'s> {
    socket: &'s mut RequestSocket,
    writer: Writer,
    last_start: usize,
    tags: Vec<usize>,
    failures: Vec<(usize, io::Error)>,
}

impl<'s> Batch<'s> {
    pub(crate) fn new(socket: &'s mut RequestSocket) -> Self {
        Self { socket, writer: Writer::default(), last_start: 0, tags: Vec::new(), failures: Vec::new() }
    }

    pub(crate) fn push(&mut self, tag: usize, kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) {
        let place = u32::try_from(self.tags.len()).unwrap_or(0);
        let sequence = self.socket.reserve(0).wrapping_add(place);
        self.last_start = self.writer.len();
        self.writer.message(kind, REQUEST | flags, sequence, body);
        self.tags.push(tag);
        if self.tags.len() >= SIZE {
            self.flush();
        }
    }

    /// Sends what is left and returns what failed.
    pub(crate) fn finish(mut self) -> Vec<(usize, io::Error)> {
        self.flush();
        self.failures
    }

    fn flush(&mut self) {
        let tags = std::mem::take(&mut self.tags);
        if tags.is_empty() {
            return;
        }
        let mut writer = std::mem::take(&mut self.writer);
        writer.add_flags(self.last_start, ACK);
        if let Err(error) = self.exchange(writer, &tags) {
            let errno = error.raw_os_error().unwrap_or(Errno::EPROTO as i32);
            self.failures.extend(tags.iter().map(|tag| (*tag, io::Error::from_raw_os_error(errno))));
        }
    }

    fn exchange(&mut self, writer: Writer, tags: &[usize]) -> io::Result<()> {
        let first = self.socket.reserve(u32::try_from(tags.len()).unwrap_or(u32::MAX));
        let request = writer.finish().ok_or(Errno::EMSGSIZE)?;
        let failures = &mut self.failures;
        let mut answered = false;
        self.socket.exchange(&request, |message| {
            let place = usize::try_from(message.sequence.wrapping_sub(first)).ok();
            let Some((place, tag)) = place.and_then(|place| Some((place, tags.get(place)?))) else { return };
            if message.kind == ERROR {
                answered |= place + 1 == tags.len();
                if message.errno() != 0 {
                    failures.push((*tag, io::Error::from_raw_os_error(message.errno())));
                }
            }
        })?;
        if answered { Ok(()) } else { Err(Errno::EPROTO.into()) }
    }
}
