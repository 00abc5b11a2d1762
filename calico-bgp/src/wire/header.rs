//! The message header (RFC 4271 section 4.1): marker, length, type.

use super::WireError;
use super::reader::Reader;

/// Length of the header.
pub const HEADER_LENGTH: usize = 19;

/// Longest message unless both ends have announced otherwise.
pub const MAX_MESSAGE_LENGTH: usize = 4096;

/// Longest extended message (RFC 8654): what its length field can say.
pub const MAX_EXTENDED_LENGTH: usize = 65_535;

/// Type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the message types of RFC 4271 and 2918; the session handles every one")]
pub enum MessageKind {
    /// OPEN.
    Open,
    /// UPDATE.
    Update,
    /// NOTIFICATION.
    Notification,
    /// KEEPALIVE.
    Keepalive,
    /// ROUTE-REFRESH.
    RouteRefresh,
}

impl MessageKind {
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Open,
            2 => Self::Update,
            3 => Self::Notification,
            4 => Self::Keepalive,
            5 => Self::RouteRefresh,
            _ => return None,
        })
    }

    const fn code(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Update => 2,
            Self::Notification => 3,
            Self::Keepalive => 4,
            Self::RouteRefresh => 5,
        }
    }

    /// Shortest and longest message of this type, header included. OPEN and KEEPALIVE never become longer (RFC 8654 section 4).
    const fn lengths(self, extended: bool) -> (usize, usize) {
        let longest = if extended { MAX_EXTENDED_LENGTH } else { MAX_MESSAGE_LENGTH };
        match self {
            Self::Open => (29, MAX_MESSAGE_LENGTH),
            Self::Update => (23, longest),
            Self::Notification => (21, longest),
            Self::Keepalive => (HEADER_LENGTH, HEADER_LENGTH),
            // What a longer one means depends on its subtype.
            Self::RouteRefresh => (23, longest),
        }
    }
}

/// A checked header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 4271 section 4.1")]
pub struct Header {
    /// Length of the whole message.
    pub length: usize,
    /// Type.
    pub kind: MessageKind,
}

impl Header {
    /// Checks marker, length and type. `extended` says whether extended messages may come.
    pub fn decode(bytes: [u8; HEADER_LENGTH], extended: bool) -> Result<Self, WireError> {
        let mut reader = Reader::new(&bytes);
        let (Some(marker), Some(length), Some(code)) = (reader.array::<16>(), reader.u16(), reader.u8()) else {
            return Err(WireError::NotSynchronised);
        };
        if marker != [0xff; 16] {
            return Err(WireError::NotSynchronised);
        }
        let bad_length = WireError::BadMessageLength { length };
        let octets = usize::from(length);
        if octets < HEADER_LENGTH {
            return Err(bad_length);
        }
        let kind = MessageKind::from_code(code).ok_or(WireError::BadMessageType { code })?;
        let (shortest, longest) = kind.lengths(extended);
        if !(shortest..=longest).contains(&octets) {
            return Err(bad_length);
        }
        Ok(Self { length: octets, kind })
    }
}

/// Appends a header whose length is filled in by [`finish`]. Says where the message begins.
pub(super) fn begin(kind: MessageKind, into: &mut Vec<u8>) -> usize {
    let start = into.len();
    into.extend_from_slice(&[0xff; 16]);
    into.extend_from_slice(&[0, 0, kind.code()]);
    start
}

/// Says the length of the message that begins at `start` and ends here.
pub(super) fn finish(start: usize, into: &mut [u8]) {
    let length = u16::try_from(into.len().saturating_sub(start)).unwrap_or(u16::MAX);
    put_u16(start.saturating_add(16), length, into);
}

/// Fills in a number that was left open.
pub(super) fn put_u16(at: usize, number: u16, into: &mut [u8]) {
    if let Some(place) = into.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        *place = number.to_be_bytes();
    }
}

/// A whole message. Callers keep bodies below the limit by construction; a longer one is cut by no one, so the length field
/// saturates and the receiver refuses it.
pub(crate) fn frame(kind: MessageKind, body: &[u8]) -> Vec<u8> {
    let length = body.len().saturating_add(HEADER_LENGTH);
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&[0xff; 16]);
    message.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    message.push(kind.code());
    message.extend_from_slice(body);
    message
}
