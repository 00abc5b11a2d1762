//! One path to a prefix.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use calico_core::bgp::PeerId;
use calico_core::net::AsNumber;

use crate::session::peer_index::PeerIndex;
use crate::wire::{PathAttributes, PeerType};

/// Who announced a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathSource {
    /// Who it is to everybody else.
    pub(crate) peer: PeerId,
    /// Who it is in here.
    pub(crate) index: PeerIndex,
    /// Its BGP identifier.
    pub(crate) identifier: Ipv4Addr,
    /// Internal or external.
    pub(crate) kind: PeerType,
}

/// A path that a peer announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) source: PathSource,
    pub(crate) next_hop: IpAddr,
    pub(crate) attributes: Arc<PathAttributes>,
    /// Life of the peer in which it was announced; see [`AdjIn`](super::AdjIn).
    pub(crate) life: u32,
}

/// LOCAL_PREF of a path that carries none: BIRD's default, and everybody's.
pub(crate) const DEFAULT_LOCAL_PREF: u32 = 100;

impl Path {
    pub(crate) fn local_pref(&self) -> u32 {
        self.attributes.local_pref.unwrap_or(DEFAULT_LOCAL_PREF)
    }

    /// The system that MED values are comparable within.
    pub(crate) fn neighbour(&self) -> Option<AsNumber> {
        self.attributes.as_path.first()
    }

    /// ORIGINATOR_ID where reflection hides the originator behind the reflector's identifier (RFC 4456 section 9).
    pub(crate) fn originator(&self) -> Ipv4Addr {
        self.attributes.originator_id.unwrap_or(self.source.identifier)
    }
}
