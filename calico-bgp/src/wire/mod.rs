//! The BGP-4 message codec: bytes in, typed messages out, and back.
//!
//! Implements RFC 4271 (messages), 4760 and 2545 (IPv4 and IPv6 unicast), 5492 and 9072 (capabilities and the extended form of
//! optional parameters), 6793 (AS numbers of four octets, and peers that have two), 7606 (revised error handling), 7607 and 9774
//! (AS 0, AS_SET), 7911 (several paths), 8654 (long messages), 8950 (IPv6 next hops of IPv4 prefixes), 2918 and 7313 (route
//! refresh), 4724, 8538 and 9494 (graceful restart), 9234 (roles), 9003 (shutdown communication), 1997, 4360, 5701 and 8092
//! (communities), 4456 (reflection), 7311 (accumulated metric).
//!
//! What two OPENs agree on is one [`DecodeContext`] and one [`EncodeContext`]; without them no UPDATE can be read or written.
//!
//! Everything here treats its input as hostile: no step reads past its slice, every loop consumes input, and memory is bounded
//! by a constant times the length of the input. An error says what happens next: a [`WireError`] ends the session with the
//! NOTIFICATION it names; an [`AttributeFault`] names the milder treatment of RFC 7606 that was applied.
//!
//! Families other than the two, confederations (RFC 5065), outbound route filters (RFC 5291) and dynamic capabilities are left out
//! on purpose. An attribute that is only passed on needs nothing here; one that means something gets a file in [`attribute`].
#![warn(clippy::arithmetic_side_effects, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod attribute;
pub mod capability;
pub mod context;
mod error;
pub mod family;
pub mod framer;
pub mod header;
pub mod next_hop;
pub mod nlri;
pub mod notification;
pub mod open;
pub mod peer;
pub(crate) mod reader;
pub mod refresh;
mod text;
pub mod update;

#[cfg(test)]
mod tests;

pub use attribute::{
    Aggregator, Aigp, AsPath, AttributeFault, Extra, ExtraAttributes, FaultReason, Origin, OtherAttribute, Partial,
    PathAttributes, Treatment,
};
pub use calico_core::bgp::{Families, Role};
pub use capability::{Capability, GracefulRestart, GracefulRestartFamily};
pub use context::{DecodeContext, EncodeContext, agree};
pub use error::WireError;
pub use family::AddressFamily;
pub use framer::Framer;
pub use header::{HEADER_LENGTH, MAX_EXTENDED_LENGTH, MAX_MESSAGE_LENGTH, MessageKind};
pub use next_hop::NextHop;
pub use nlri::{Nlri, PathId};
pub use notification::Notification;
pub use open::Open;
pub use peer::PeerType;
pub use refresh::{RefreshKind, RouteRefresh};
pub use update::{EncodeError, Reach, Update};

/// Stands in for an AS number that does not fit in two octets (RFC 6793).
pub const AS_TRANS: u16 = 23456;

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
    /// Reads the body of a framed message.
    pub fn decode(kind: MessageKind, body: &[u8], context: DecodeContext) -> Result<Self, WireError> {
        match kind {
            MessageKind::Open => Open::decode(body).map(Self::Open),
            MessageKind::Update => Update::decode(body, context).map(|update| Self::Update(Box::new(update))),
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
