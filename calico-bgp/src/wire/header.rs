//! The message header (RFC 4271 section 4.1): marker, length, type.

use super::WireError;
use super::reader::Reader;

/// Length of the header.
pub const HEADER_LENGTH: usize = 19;

/// Longest message; RFC 8654 (extended messages) is not offered.
pub const MAX_MESSAGE_LENGTH: usize = 4096;

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
    const fn from_code(code: u8) -> Option<Self> {
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

    /// Shortest and longest message of this type, header included.
    const fn lengths(self) -> (usize, usize) {
        match self {
            Self::Open => (29, MAX_MESSAGE_LENGTH),
            Self::Update => (23, MAX_MESSAGE_LENGTH),
            Self::Notification => (21, MAX_MESSAGE_LENGTH),
            Self::Keepalive => (HEADER_LENGTH, HEADER_LENGTH),
            // Longer ones carry outbound route filters (RFC 5291), which are not offered.
            Self::RouteRefresh => (23, 23),
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
    /// Checks marker, length and type.
    pub fn decode(bytes: [u8; HEADER_LENGTH]) -> Result<Self, WireError> {
        let mut reader = Reader::new(&bytes);
        let (Some(marker), Some(length), Some(code)) = (reader.array::<16>(), reader.u16(), reader.u8()) else {
            return Err(WireError::NotSynchronised);
        };
        if marker != [0xff; 16] {
            return Err(WireError::NotSynchronised);
        }
        let bad_length = WireError::BadMessageLength { length };
        let octets = usize::from(length);
        if !(HEADER_LENGTH..=MAX_MESSAGE_LENGTH).contains(&octets) {
            return Err(bad_length);
        }
        let kind = MessageKind::from_code(code).ok_or(WireError::BadMessageType { code })?;
        let (shortest, longest) = kind.lengths();
        if !(shortest..=longest).contains(&octets) {
            return Err(bad_length);
        }
        Ok(Self { length: octets, kind })
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
