//! The netlink wire form: messages and attributes, written into and read from one buffer.
//!
//! Both the nf_tables and the route side write through [`Writer`] and read through [`messages`] and [`attributes`]. Reading never
//! trusts a length: what does not fit ends the iteration, so hostile bytes give fewer items and never a panic.

/// `NLMSG_ERROR`.
pub(crate) const ERROR: u16 = 2;
/// `NLMSG_DONE`.
pub(crate) const DONE: u16 = 3;
/// `NLM_F_REQUEST`.
pub(crate) const REQUEST: u16 = 0x1;
/// `NLM_F_ACK`.
pub(crate) const ACK: u16 = 0x4;
/// `NLM_F_ECHO`: answer with the object.
pub(crate) const ECHO: u16 = 0x8;
/// `NLM_F_DUMP_INTR`: the dumped list changed underneath; the dump must be repeated.
pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
/// `NLM_F_REPLACE`, of requests and of route notifications.
pub(crate) const REPLACE: u16 = 0x100;
/// `NLM_F_EXCL`.
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// `NLM_F_DUMP`.
pub(crate) const DUMP: u16 = 0x300;
/// `NLM_F_CREATE`.
pub(crate) const CREATE: u16 = 0x400;
/// `NLM_F_APPEND`.
pub(crate) const APPEND: u16 = 0x800;

const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
const NESTED: u16 = 0x8000;
/// `NLA_TYPE_MASK`: the two upper bits tell about nesting and byte order.
const KIND_MASK: u16 = 0x3fff;

const fn align(length: usize) -> usize {
    (length + 3) & !3
}

/// Appends messages to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl Writer {
    /// Writes over a buffer, of which only the room counts.
    pub(crate) fn over(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer, overflowed: false }
    }

    /// Appends one message whose body `body` writes.
    pub(crate) fn message(&mut self, kind: u16, flags: u16, sequence: u32, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        body(self);
        self.pad();
        match u32::try_from(self.bytes.len() - start) {
            Ok(length) => self.patch(start, &length.to_ne_bytes()),
            Err(_) => self.overflowed = true,
        }
    }

    /// Adds flags to the message that starts at `offset`.
    pub(crate) fn add_flags(&mut self, offset: usize, flags: u16) {
        let at = offset + 6;
        let old = self.bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_ne_bytes);
        self.patch(at, &(old | flags).to_ne_bytes());
    }

    /// Appends raw bytes: a fixed header.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.scope(kind, |writer| writer.bytes.extend_from_slice(value));
    }

    /// Appends an attribute whose value is pushed at the end of what is there, which is a multiple of four octets long.
    pub(crate) fn octets(&mut self, kind: u16, value: impl FnOnce(&mut Vec<u8>)) {
        self.scope(kind, |writer| value(&mut writer.bytes));
    }

    /// Appends a number in network order, as nf_tables wants them.
    pub(crate) fn be32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Appends a zero-terminated text.
    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        self.scope(kind, |writer| {
            writer.bytes.extend_from_slice(text.as_bytes());
            writer.bytes.push(0);
        });
    }

    /// Appends an attribute that holds attributes.
    pub(crate) fn nest(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        self.scope(kind | NESTED, body);
    }

    /// Length so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes, unless an attribute or message grew longer than its length field can say.
    pub(crate) fn finish(self) -> Option<Vec<u8>> {
        (!self.overflowed).then_some(self.bytes)
    }

    fn scope(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        body(self);
        match u16::try_from(self.bytes.len() - start) {
            Ok(length) => self.patch(start, &length.to_ne_bytes()),
            Err(_) => self.overflowed = true,
        }
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    fn patch(&mut self, at: usize, value: &[u8]) {
        if let Some(target) = self.bytes.get_mut(at..at + value.len()) {
            target.copy_from_slice(value);
        }
    }
}

/// A message as received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

impl Message<'_> {
    /// The error number of an [`ERROR`] (0: an acknowledgement) or [`DONE`] message.
    pub(crate) fn errno(&self) -> i32 {
        self.body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes).saturating_neg())
    }
}

/// The messages of a datagram.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    core::iter::from_fn(move || {
        let header: &[u8; HEADER] = bytes.first_chunk()?;
        let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = *header;
        let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(align(length)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            body,
        })
    })
}

/// Attributes: kind, without the flag bits, and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let [l0, l1, k0, k1] = *bytes.first_chunk::<ATTRIBUTE_HEADER>()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(align(length)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & KIND_MASK, value))
    })
}

/// The first attribute of a kind.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A number in network order.
pub(crate) fn read_be32(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

/// A text, with or without its terminating zero.
pub(crate) fn read_text(value: &[u8]) -> Option<&str> {
    core::str::from_utf8(value.strip_suffix(&[0]).unwrap_or(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_back_what_it_writes() {
        let mut writer = Writer::default();
        writer.message(7, REQUEST, 3, |w| {
            w.raw(&[1, 0, 0, 0]);
            w.text(1, "abc");
            w.nest(2, |w| w.be32(5, 0xdead_beef));
        });
        writer.add_flags(0, ACK);
        let bytes = writer.finish().unwrap();
        let all: Vec<_> = messages(&bytes).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].kind, all[0].flags, all[0].sequence), (7, REQUEST | ACK, 3));
        let body = &all[0].body[4..];
        assert_eq!(find(body, 1).and_then(read_text), Some("abc"));
        assert_eq!(find(body, 2).and_then(|nest| find(nest, 5)).and_then(read_be32), Some(0xdead_beef));
    }

    #[test]
    fn an_attribute_too_long_for_its_length_field_is_refused() {
        let mut writer = Writer::default();
        writer.message(7, 0, 0, |w| w.attribute(1, &[0; 70_000]));
        assert!(writer.finish().is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in messages(&bytes) {
                prop_assert!(attributes(message.body).count() <= message.body.len() / 4);
                let _ = message.errno();
            }
        }
    }
}
