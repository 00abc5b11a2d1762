//! What two OPENs agree on.

use core::net::Ipv4Addr;
use core::time::Duration;

use calico_core::bgp::{DesiredPeer, LocalSpeaker};

use crate::wire::{
    AddressFamily, Capability, DecodeContext, EncodeContext, GracefulRestart, Open, PeerType, WireError, agree,
};

/// Parameters of an established session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// The peer's BGP identifier.
    pub(crate) identifier: Ipv4Addr,
    /// How the peer's messages are to be read.
    pub(crate) decode: DecodeContext,
    /// How messages to it are to be written.
    pub(crate) encode: EncodeContext,
    /// Time without a message after which the peer counts as dead; none when either end asked for none.
    pub(crate) hold: Option<Duration>,
    /// The peer's graceful restart capability.
    pub(crate) graceful_restart: Option<GracefulRestart>,
}

impl Negotiated {
    /// Time between two KEEPALIVEs: a third of the hold time (RFC 4271 section 4.4).
    pub(crate) fn keepalive(&self) -> Option<Duration> {
        self.hold.map(|hold| hold / 3)
    }

    /// For how long the peer's routes survive the loss of the connection; none if not at all.
    pub(crate) fn retention(&self) -> Option<Duration> {
        let restart = self.graceful_restart.as_ref()?;
        restart.family(AddressFamily::IPV4_UNICAST)?;
        (restart.restart_time > 0).then(|| Duration::from_secs(restart.restart_time.into()))
    }

    /// Whether routes of the peer's earlier life may stay until its end-of-RIB.
    pub(crate) fn preserves_forwarding(&self) -> bool {
        let family = self.graceful_restart.as_ref().and_then(|restart| restart.family(AddressFamily::IPV4_UNICAST));
        family.is_some_and(|family| family.forwarding_preserved)
    }
}

/// Checks a peer's OPEN against what is configured (RFC 4271 section 6.2) and takes the common ground with ours.
pub(crate) fn negotiate(
    local: &LocalSpeaker,
    peer: &DesiredPeer,
    sent: &Open,
    open: &Open,
) -> Result<Negotiated, WireError> {
    if open.as_number != peer.as_number {
        return Err(WireError::BadPeerAs { received: open.as_number.value(), expected: peer.as_number.value() });
    }
    let kind = peer_type(local, peer);
    if kind == PeerType::Internal && open.identifier == local.router_id {
        return Err(WireError::BadIdentifier { identifier: open.identifier });
    }
    if !open.offers(AddressFamily::IPV4_UNICAST) {
        let encoded = Capability::Multiprotocol(AddressFamily::IPV4_UNICAST).encode();
        return Err(WireError::MissingCapability { name: "multiprotocol IPv4 unicast", encoded });
    }
    let seconds = sent.hold_time.min(open.hold_time);
    let (decode, encode) = agree(sent, open, kind);
    Ok(Negotiated {
        identifier: open.identifier,
        decode,
        encode,
        hold: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
        graceful_restart: open.graceful_restart().cloned(),
    })
}

/// Whether a session is internal or external.
pub(crate) fn peer_type(local: &LocalSpeaker, peer: &DesiredPeer) -> PeerType {
    if local.as_number == peer.as_number { PeerType::Internal } else { PeerType::External }
}
