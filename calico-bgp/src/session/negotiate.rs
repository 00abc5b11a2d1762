//! What two OPENs agree on.

use core::net::Ipv4Addr;
use core::time::Duration;

use calico_core::bgp::{DesiredPeer, Families, LocalSpeaker, Role};
use calico_core::net::Family;

use super::offer::peer_type;
use super::retention::Patience;
use crate::backend::Agreed;
use crate::wire::capability::LongLivedGracefulRestart;
use crate::wire::{
    AddressFamily, Capability, DecodeContext, EncodeContext, GracefulRestart, Open, PeerType, WireError, agree,
};

/// Parameters of an established session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// The peer's BGP identifier.
    pub(crate) identifier: Ipv4Addr,
    /// How the peer's messages are to be read; names the families, too.
    pub(crate) decode: DecodeContext,
    /// How messages to it are to be written.
    pub(crate) encode: EncodeContext,
    /// Time without a message after which the peer counts as dead; none when either end asked for none.
    pub(crate) hold: Option<Duration>,
    /// The peer's graceful restart capability.
    pub(crate) graceful_restart: Option<GracefulRestart>,
    /// The peer's long-lived graceful restart capability.
    pub(crate) long_lived: Option<LongLivedGracefulRestart>,
    /// Both ends take a NOTIFICATION, and silence, for a restart (RFC 8538).
    pub(crate) notification_restarts: bool,
    /// The peer answers route refreshes.
    pub(crate) route_refresh: bool,
    /// Both ends mark begin and end of an answer to a route refresh (RFC 7313).
    pub(crate) enhanced_route_refresh: bool,
    /// The peer's role, where this end has one, too (RFC 9234).
    pub(crate) role: Option<Role>,
}

impl Negotiated {
    pub(crate) const fn families(&self) -> Families {
        self.decode.families
    }

    /// Time between two KEEPALIVEs: a third of the hold time (RFC 4271 section 4.4), or less where that is wanted.
    pub(crate) fn keepalive(&self, wanted: Option<u16>) -> Option<Duration> {
        let third = self.hold? / 3;
        let wanted = wanted.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
        Some(wanted.map_or(third, |wanted| wanted.min(third)))
    }

    /// For how long the peer's routes of a family survive the loss of the session; `most` bounds the long-lived part, zero for no such.
    pub(crate) fn patience(&self, family: Family, most: u32) -> Patience {
        let Some(restart) = self.graceful_restart.as_ref().filter(|_| self.families().contains(family)) else {
            return Patience::default();
        };
        let family = AddressFamily::unicast(family);
        let seconds = restart.family(family).map_or(0, |_| restart.restart_time);
        let long_lived = self.long_lived.as_ref().and_then(|known| known.family(family));
        Patience {
            restart: Duration::from_secs(seconds.into()),
            long_lived: Duration::from_secs(long_lived.map_or(0, |known| known.stale_time.min(most)).into()),
        }
    }

    /// Whether routes of the peer's earlier life may stay until its end-of-RIB.
    pub(crate) fn preserves_forwarding(&self, family: Family) -> bool {
        let unicast = AddressFamily::unicast(family);
        let restart = self.graceful_restart.as_ref().and_then(|restart| restart.family(unicast));
        let long_lived = self.long_lived.as_ref().and_then(|known| known.family(unicast));
        self.families().contains(family)
            && (restart.is_some_and(|row| row.forwarding_preserved)
                || long_lived.is_some_and(|row| row.forwarding_preserved))
    }
}

impl Negotiated {
    /// The same, for those who ask.
    pub(crate) fn agreed(&self, keepalive: Option<u16>) -> Agreed {
        let among = |kept: &dyn Fn(AddressFamily) -> bool| -> Families {
            self.families().iter().filter(|family| kept(AddressFamily::unicast(*family))).collect()
        };
        let restart = self.graceful_restart.as_ref();
        let long_lived = self.long_lived.as_ref();
        Agreed {
            identifier: self.identifier,
            families: self.families(),
            hold_time: self.hold,
            keepalive: self.keepalive(keepalive),
            four_octet_as: self.decode.four_octet_as,
            route_refresh: self.route_refresh,
            enhanced_route_refresh: self.enhanced_route_refresh,
            extended_messages: self.decode.extended_message,
            add_path_receive: self.decode.add_path,
            add_path_send: self.encode.add_path,
            extended_next_hop: !self.decode.extended_next_hop.is_empty(),
            graceful_restart: among(&|family| restart.is_some_and(|known| known.family(family).is_some())),
            restart_time: Duration::from_secs(restart.map_or(0, |known| known.restart_time.into())),
            long_lived: among(&|family| long_lived.is_some_and(|known| known.family(family).is_some())),
            notification_restarts: self.notification_restarts,
            role: self.role,
        }
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
    let role = if kind == PeerType::External { fitting_role(peer, open)? } else { None };
    let (decode, encode) = agree(sent, open, kind);
    if decode.families.is_empty() {
        return Err(no_common_family(sent));
    }
    let seconds = sent.hold_time.min(open.hold_time);
    let restarts = |open: &Open| open.graceful_restart().is_some_and(|restart| restart.notification);
    Ok(Negotiated {
        identifier: open.identifier,
        decode,
        encode,
        hold: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
        graceful_restart: open.graceful_restart().cloned(),
        long_lived: open.long_lived_graceful_restart().cloned(),
        notification_restarts: restarts(sent) && restarts(open),
        route_refresh: open.has_route_refresh(),
        enhanced_route_refresh: sent.has_enhanced_route_refresh() && open.has_enhanced_route_refresh(),
        role,
    })
}

/// Two roles must fit; a peer that tells none is taken as it is (RFC 9234 section 4.2).
fn fitting_role(peer: &DesiredPeer, open: &Open) -> Result<Option<Role>, WireError> {
    let theirs = open.role()?;
    match (peer.session.role, theirs) {
        (Some(ours), Some(theirs)) if !ours.fits(theirs) => Err(WireError::RoleMismatch),
        (Some(_), theirs) => Ok(theirs),
        (None, _) => Ok(None),
    }
}

/// The error names, and carries, what we would have needed.
fn no_common_family(sent: &Open) -> WireError {
    let families = sent.families();
    let name = match (families.contains(Family::V4), families.contains(Family::V6)) {
        (true, true) => "multiprotocol IPv4 or IPv6 unicast",
        (false, true) => "multiprotocol IPv6 unicast",
        _ => "multiprotocol IPv4 unicast",
    };
    let wanted = families.iter().map(|family| Capability::Multiprotocol(AddressFamily::unicast(family)));
    WireError::MissingCapability { name, encoded: wanted.flat_map(|capability| capability.encode()).collect() }
}
