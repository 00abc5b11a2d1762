//! Cuts a byte stream into messages.
//!
//! Holds at most one read of the caller plus one incomplete message: the header is checked as soon as it is complete, so a
//! length beyond the limit never makes it wait for more.

use super::WireError;
use super::header::{HEADER_LENGTH, Header, MAX_MESSAGE_LENGTH, MessageKind};

/// Reassembles messages from a stream that may be split anywhere.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    consumed: usize,
    extended: bool,
}

impl Framer {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether messages of up to 65 535 octets may come from now on (RFC 8654): to be said once both OPENs are known.
    pub const fn set_extended(&mut self, extended: bool) {
        self.extended = extended;
    }

    /// The next whole message: its type and body. After an error the stream cannot be followed any further.
    pub fn next_message(&mut self) -> Result<Option<(MessageKind, &[u8])>, WireError> {
        if self.pending() < HEADER_LENGTH {
            self.compact();
        }
        let pending = self.buffer.get(self.consumed..).unwrap_or_default();
        let Some(head) = pending.first_chunk::<HEADER_LENGTH>() else {
            return Ok(None);
        };
        let header = Header::decode(*head, self.extended)?;
        let Some(body) = pending.get(HEADER_LENGTH..header.length) else {
            return Ok(None);
        };
        self.consumed = self.consumed.saturating_add(header.length);
        Ok(Some((header.kind, body)))
    }

    /// Forgets what has been read. A burst must not pin its memory on every idle session of a mesh.
    fn compact(&mut self) {
        self.buffer.drain(..self.consumed.min(self.buffer.len()));
        self.consumed = 0;
        self.buffer.shrink_to(if self.buffer.is_empty() { 0 } else { MAX_MESSAGE_LENGTH });
    }

    /// Bytes that wait for the rest of their message.
    pub fn pending(&self) -> usize {
        self.buffer.len().saturating_sub(self.consumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_no_memory_while_idle() {
        let mut framer = Framer::default();
        for (messages, tail, most) in [(1000, 0, 0), (1000, 5, MAX_MESSAGE_LENGTH)] {
            framer.push(&crate::wire::keepalive().repeat(messages));
            framer.push(&crate::wire::keepalive()[..tail]);
            while framer.next_message().unwrap().is_some() {}
            assert_eq!(framer.pending(), tail);
            assert!(framer.buffer.capacity() <= most, "{}", framer.buffer.capacity());
        }
    }
}
