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
}

impl Framer {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message: its type and body. After an error the stream cannot be followed any further.
    pub fn next_message(&mut self) -> Result<Option<(MessageKind, Vec<u8>)>, WireError> {
        let pending = self.buffer.get(self.consumed..).unwrap_or_default();
        let Some(head) = pending.first_chunk::<HEADER_LENGTH>() else {
            self.compact();
            return Ok(None);
        };
        let header = Header::decode(*head)?;
        let Some(body) = pending.get(HEADER_LENGTH..header.length) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.consumed = self.consumed.saturating_add(header.length);
        Ok(Some((header.kind, body)))
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.consumed.min(self.buffer.len()));
        self.consumed = 0;
        // A burst must not pin its memory on every idle session of a mesh.
        self.buffer.shrink_to(MAX_MESSAGE_LENGTH);
    }

    /// Bytes that wait for the rest of their message.
    pub fn pending(&self) -> usize {
        self.buffer.len().saturating_sub(self.consumed)
    }
}
