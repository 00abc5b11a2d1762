//! Errors that end a session, each with the NOTIFICATION that says so.

use super::notification::Notification;

/// A message that RFC 4271 and 7606 answer with a NOTIFICATION.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The marker is not all ones.
    #[error("the message header's marker is wrong: the stream is not synchronised")]
    NotSynchronised,
    /// The length is impossible for the type.
    #[error("message length {length} is impossible for its type")]
    BadMessageLength {
        /// As received.
        length: u16,
    },
    /// No such type.
    #[error("message type {code} does not exist")]
    BadMessageType {
        /// As received.
        code: u8,
    },
    /// Not version 4.
    #[error("BGP version {version} is not supported; this speaker has version 4")]
    UnsupportedVersion {
        /// As received.
        version: u8,
    },
    /// Optional parameters or capabilities that run over their end.
    #[error("the OPEN message is malformed: {what}")]
    MalformedOpen {
        /// Which part.
        what: &'static str,
    },
    /// The AS number is zero, reserved, contradictory or not the configured one.
    #[error("peer AS {received} is unacceptable; expected {expected}")]
    BadPeerAs {
        /// As received.
        received: u32,
        /// As configured (or as the other field says).
        expected: u32,
    },
    /// The BGP identifier is zero, or ours on an internal session.
    #[error("BGP identifier {identifier} is unacceptable")]
    BadIdentifier {
        /// As received.
        identifier: core::net::Ipv4Addr,
    },
    /// An optional parameter that is no capability.
    #[error("optional parameter {code} is not supported")]
    UnsupportedOptionalParameter {
        /// Its type.
        code: u8,
    },
    /// Hold time 1 or 2.
    #[error("hold time {seconds} s is unacceptable: 0 or at least 3")]
    UnacceptableHoldTime {
        /// As received.
        seconds: u16,
    },
    /// A capability that this speaker needs.
    #[error("the peer lacks the capability {name}")]
    MissingCapability {
        /// RFC's name of it.
        name: &'static str,
        /// The capability, encoded.
        encoded: Vec<u8>,
    },
    /// Lengths inside an UPDATE contradict each other.
    #[error("the UPDATE message is malformed: {what}")]
    MalformedUpdate {
        /// Which part.
        what: &'static str,
    },
    /// A well-known attribute of unknown type.
    #[error("well-known attribute {code} is not recognised")]
    UnrecognisedWellKnown {
        /// Its type code.
        code: u8,
        /// The attribute, as received.
        attribute: Vec<u8>,
    },
    /// A multiprotocol attribute whose prefixes cannot be found.
    #[error("attribute {code} cannot be parsed: {what}")]
    BadOptionalAttribute {
        /// Its type code.
        code: u8,
        /// Which part.
        what: &'static str,
    },
    /// Prefixes in the message body that cannot be parsed.
    #[error("a prefix is malformed")]
    InvalidNetworkField,
    /// A ROUTE-REFRESH marker whose length does not fit.
    #[error("the ROUTE-REFRESH message has a wrong length")]
    BadRefreshLength {
        /// The whole message.
        message: Vec<u8>,
    },
    /// Roles that contradict each other.
    #[error("the peer's role does not fit")]
    RoleMismatch,
}

impl WireError {
    /// The NOTIFICATION to send (RFC 4271 section 6, 4486, 5492, 7313).
    pub fn notification(&self) -> Notification {
        let (code, subcode, data) = match self {
            Self::NotSynchronised => (1, 1, Vec::new()),
            Self::BadMessageLength { length } => (1, 2, length.to_be_bytes().to_vec()),
            Self::BadMessageType { code } => (1, 3, vec![*code]),
            Self::UnsupportedVersion { .. } => (2, 1, 4_u16.to_be_bytes().to_vec()),
            Self::MalformedOpen { .. } => (2, 0, Vec::new()),
            Self::BadPeerAs { .. } => (2, 2, Vec::new()),
            Self::BadIdentifier { .. } => (2, 3, Vec::new()),
            Self::UnsupportedOptionalParameter { .. } => (2, 4, Vec::new()),
            Self::UnacceptableHoldTime { .. } => (2, 6, Vec::new()),
            Self::MissingCapability { encoded, .. } => (2, 7, encoded.clone()),
            Self::MalformedUpdate { .. } => (3, 1, Vec::new()),
            Self::UnrecognisedWellKnown { attribute, .. } => (3, 2, attribute.clone()),
            Self::BadOptionalAttribute { .. } => (3, 9, Vec::new()),
            Self::InvalidNetworkField => (3, 10, Vec::new()),
            Self::BadRefreshLength { message } => (7, 1, message.clone()),
            Self::RoleMismatch => (2, 11, Vec::new()),
        };
        Notification::new(code, subcode, data)
    }
}
