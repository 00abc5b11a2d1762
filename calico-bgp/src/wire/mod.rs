//! The BGP-4 message codec: bytes in, typed messages out, and back.
//!
//! Implements RFC 4271 (messages), 4760 (multiprotocol attributes, as far as IPv4 unicast inside them), 5492 and 9072
//! (capabilities and the extended form of optional parameters), 2918 (route refresh), 4724 (graceful restart), 6793 (four-octet
//! AS numbers, required), 7606 (revised error handling), 9003 (shutdown communication).
//!
//! Everything here treats its input as hostile: no step reads past its slice, every loop consumes input, and memory is bounded
//! by a constant times the length of the input. An error says what happens next: a [`WireError`] ends the session with the
//! NOTIFICATION it names; an [`AttributeFault`] names the milder treatment of RFC 7606 that was applied.
//!
//! Two-octet AS sessions, add-path, extended messages and further families are left out on purpose; each has one place to go:
//! [`Capability`], [`nlri`] and one file in [`attribute`].
#![warn(clippy::arithmetic_side_effects, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod attribute;
pub mod capability;
mod error;
pub mod family;
pub mod framer;
pub mod header;
pub mod nlri;
pub mod notification;
pub mod open;
pub mod peer;
pub(crate) mod reader;
pub mod refresh;
pub mod update;

#[cfg(test)]
mod tests;

pub use attribute::{
    Aggregator, AsPath, AttributeFault, FaultReason, Origin, OtherAttribute, PathAttributes, Treatment,
};
pub use capability::{Capability, GracefulRestart, GracefulRestartFamily};
pub use error::WireError;
pub use family::AddressFamily;
pub use framer::Framer;
pub use header::{HEADER_LENGTH, MAX_MESSAGE_LENGTH, MessageKind};
pub use notification::Notification;
pub use open::Open;
pub use peer::PeerType;
pub use refresh::RouteRefresh;
pub use update::{Reach, Update};

/// Any message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the message types of RFC 4271 and 2918; the session handles every one")]
pub enum Message {
    /// OPEN.
    Open(Open),
    /// UPDATE.
    Update(Box<Update>),
    /// NOTIFICATION.
    Notification(Notification),
    /// KEEPALIVE.
    Keepalive,
    /// ROUTE-REFRESH; `None` for a subtype that RFC 7313 says to ignore.
    RouteRefresh(Option<RouteRefresh>),
}

impl Message {
    /// Reads the body of a framed message. `peer` decides how attributes that only one kind of session may carry are treated.
    pub fn decode(kind: MessageKind, body: &[u8], peer: PeerType) -> Result<Self, WireError> {
        match kind {
            MessageKind::Open => Open::decode(body).map(Self::Open),
            MessageKind::Update => Update::decode(body, peer).map(|update| Self::Update(Box::new(update))),
            MessageKind::Notification => Notification::decode(body).map(Self::Notification),
            MessageKind::Keepalive => Ok(Self::Keepalive),
            MessageKind::RouteRefresh => RouteRefresh::decode(body).map(Self::RouteRefresh),
        }
    }
}

/// A whole KEEPALIVE message.
pub fn keepalive() -> Vec<u8> {
    header::frame(MessageKind::Keepalive, &[])
}
