//! NOTIFICATION (RFC 4271 section 4.5, 4486, 6608, 8538, 9003, 9384, 9687): why a session ends.

use core::fmt;

use super::header::{HEADER_LENGTH, MAX_MESSAGE_LENGTH, MessageKind, frame};
use super::reader::Reader;
use super::text::sanitised;
use super::{AddressFamily, WireError};

const CEASE: u8 = 6;

/// Most data that fits: header, code and subcode taken off.
const MAX_DATA: usize = MAX_MESSAGE_LENGTH.saturating_sub(HEADER_LENGTH).saturating_sub(2);

/// Most octets of an operator's text (RFC 9003 section 2).
const MAX_TEXT: usize = 255;

/// Subcodes of Cease (RFC 4486, 8538, 9384).
pub mod cease {
    /// More prefixes than allowed.
    pub const MAXIMUM_PREFIXES: u8 = 1;
    /// The session is switched off.
    pub const ADMINISTRATIVE_SHUTDOWN: u8 = 2;
    /// The peer is no longer configured.
    pub const PEER_DECONFIGURED: u8 = 3;
    /// The session is ended to begin anew.
    pub const ADMINISTRATIVE_RESET: u8 = 4;
    /// Connection refused.
    pub const CONNECTION_REJECTED: u8 = 5;
    /// The session's parameters change.
    pub const CONFIGURATION_CHANGE: u8 = 6;
    /// The other connection to this peer survives.
    pub const COLLISION: u8 = 7;
    /// Memory or the like ran out.
    pub const OUT_OF_RESOURCES: u8 = 8;
    /// The routes must go, graceful restart or not.
    pub const HARD_RESET: u8 = 9;
    /// BFD says that the peer is gone.
    pub const BFD_DOWN: u8 = 10;
}

/// Code, subcode and data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of RFC 4271 section 4.5")]
pub struct Notification {
    /// Error code.
    pub code: u8,
    /// Error subcode.
    pub subcode: u8,
    /// Data; its meaning depends on the codes.
    pub data: Vec<u8>,
}

impl Notification {
    /// Hold timer expired.
    pub const fn hold_timer_expired() -> Self {
        Self { code: 4, subcode: 0, data: Vec::new() }
    }

    /// Finite state machine error: an unexpected message (RFC 6608 subcodes).
    pub const fn fsm_error(subcode: u8) -> Self {
        Self { code: 5, subcode, data: Vec::new() }
    }

    /// Cease.
    pub const fn cease(subcode: u8) -> Self {
        Self { code: CEASE, subcode, data: Vec::new() }
    }

    /// Send hold timer expired (RFC 9687).
    pub const fn send_hold_timer_expired() -> Self {
        Self { code: 8, subcode: 0, data: Vec::new() }
    }

    /// Cease with an operator's text: [`cease::ADMINISTRATIVE_SHUTDOWN`] or [`cease::ADMINISTRATIVE_RESET`] (RFC 9003). A text
    /// that is too long is cut between two characters.
    pub fn administrative(subcode: u8, text: &str) -> Self {
        let text = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default();
        let mut data = vec![u8::try_from(text.len()).unwrap_or(u8::MAX)];
        data.extend_from_slice(text.as_bytes());
        Self { code: CEASE, subcode, data }
    }

    /// Cease because a family has more prefixes than allowed (RFC 4486 section 4).
    pub fn maximum_prefixes(family: AddressFamily, limit: u32) -> Self {
        let data = [&family.octets()[..], &limit.to_be_bytes()].concat();
        Self { code: CEASE, subcode: cease::MAXIMUM_PREFIXES, data }
    }

    /// The same end, but the peer must not keep our routes (RFC 8538 section 3).
    #[must_use]
    pub fn into_hard_reset(self) -> Self {
        let mut data = vec![self.code, self.subcode];
        data.extend_from_slice(&self.data);
        Self::new(CEASE, cease::HARD_RESET, data)
    }

    /// Whether the peer must not keep our routes, graceful restart or not.
    pub const fn is_hard_reset(&self) -> bool {
        self.code == CEASE && self.subcode == cease::HARD_RESET
    }

    /// What a hard reset is for, if it says so.
    pub fn reason(&self) -> Option<Self> {
        match self.data.as_slice() {
            [code, subcode, data @ ..] if self.is_hard_reset() => {
                Some(Self { code: *code, subcode: *subcode, data: data.to_vec() })
            }
            _ => None,
        }
    }

    /// Any; data beyond what fits in a message is cut.
    pub fn new(code: u8, subcode: u8, mut data: Vec<u8>) -> Self {
        data.truncate(MAX_DATA);
        Self { code, subcode, data }
    }

    /// Whether the peer ended the session by decision and not for an error.
    pub const fn is_cease(&self) -> bool {
        self.code == CEASE
    }

    /// Subcode of a Cease.
    pub const fn cease_subcode(&self) -> Option<u8> {
        if self.is_cease() { Some(self.subcode) } else { None }
    }

    /// Whether only this connection ends, because another one to the same peer survives.
    pub const fn is_collision(&self) -> bool {
        self.code == CEASE && self.subcode == cease::COLLISION
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let (Some(code), Some(subcode)) = (reader.u8(), reader.u8()) else {
            return Err(WireError::BadMessageLength {
                length: u16::try_from(body.len().saturating_add(HEADER_LENGTH)).unwrap_or(u16::MAX),
            });
        };
        Ok(Self { code, subcode, data: reader.rest().to_vec() })
    }

    /// A whole message.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = vec![self.code, self.subcode];
        body.extend(self.data.iter().take(MAX_DATA));
        frame(MessageKind::Notification, &body)
    }

    /// The operator's text in a shutdown or reset (RFC 9003), made safe to log; a length that does not fit its data means
    /// no text.
    pub fn shutdown_text(&self) -> Option<String> {
        if !(self.is_cease() && matches!(self.subcode, cease::ADMINISTRATIVE_SHUTDOWN | cease::ADMINISTRATIVE_RESET)) {
            return None;
        }
        let mut reader = Reader::new(&self.data);
        let length = reader.u8()?;
        let text = sanitised(reader.take(usize::from(length))?);
        (!text.is_empty()).then_some(text)
    }

    const fn name(&self) -> &'static str {
        match (self.code, self.subcode) {
            (1, 1) => "message header: not synchronised",
            (1, 2) => "message header: bad length",
            (1, 3) => "message header: bad type",
            (1, _) => "message header error",
            (2, 1) => "OPEN: unsupported version",
            (2, 2) => "OPEN: bad peer AS",
            (2, 3) => "OPEN: bad BGP identifier",
            (2, 4) => "OPEN: unsupported optional parameter",
            (2, 6) => "OPEN: unacceptable hold time",
            (2, 7) => "OPEN: unsupported capability",
            (2, 11) => "OPEN: role mismatch",
            (2, _) => "OPEN message error",
            (3, 1) => "UPDATE: malformed attribute list",
            (3, 2) => "UPDATE: unrecognised well-known attribute",
            (3, 3) => "UPDATE: missing well-known attribute",
            (3, 4) => "UPDATE: attribute flags error",
            (3, 5) => "UPDATE: attribute length error",
            (3, 6) => "UPDATE: invalid ORIGIN",
            (3, 8) => "UPDATE: invalid NEXT_HOP",
            (3, 9) => "UPDATE: optional attribute error",
            (3, 10) => "UPDATE: invalid network field",
            (3, 11) => "UPDATE: malformed AS_PATH",
            (3, _) => "UPDATE message error",
            (4, _) => "hold timer expired",
            (5, 1) => "finite state machine error: unexpected message in OpenSent",
            (5, 2) => "finite state machine error: unexpected message in OpenConfirm",
            (5, 3) => "finite state machine error: unexpected message in Established",
            (5, _) => "finite state machine error",
            (6, 1) => "Cease: maximum number of prefixes reached",
            (6, 2) => "Cease: administrative shutdown",
            (6, 3) => "Cease: peer de-configured",
            (6, 4) => "Cease: administrative reset",
            (6, 5) => "Cease: connection rejected",
            (6, 6) => "Cease: other configuration change",
            (6, 7) => "Cease: connection collision resolution",
            (6, 8) => "Cease: out of resources",
            (6, 9) => "Cease: hard reset",
            (6, 10) => "Cease: BFD down",
            (6, _) => "Cease",
            (7, 1) => "ROUTE-REFRESH: invalid message length",
            (7, _) => "ROUTE-REFRESH message error",
            (8, _) => "send hold timer expired",
            _ => "unknown error",
        }
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}/{})", self.name(), self.code, self.subcode)?;
        if let Some(text) = self.shutdown_text() {
            return write!(f, ": {text}");
        }
        // One level is all that RFC 8538 knows; a peer must not make us go deeper.
        match self.reason().filter(|reason| !reason.is_hard_reset()) {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}
