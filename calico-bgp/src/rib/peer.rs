//! What the RIB knows of a peer, and what it has from it.
//!
//! A peer has lives: a graceful restart begins a new one, and so does an enhanced refresh. Paths of an earlier life are stale. They are
//! not marked one by one; each carries the life in which it was announced.

use core::net::Ipv4Addr;

use calico_core::bgp::{ByFamily, PeerId, PeerPolicy, Role};
use calico_core::net::{AsNumber, Family};

use super::table::PrefixId;
use crate::session::peer_index::PeerIndex;
use crate::wire::{EncodeContext, NextHop, PeerType};

/// What is configured of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerSettings {
    pub(crate) id: PeerId,
    pub(crate) remote_as: AsNumber,
    /// AS number that the peer knows us by.
    pub(crate) local_as: AsNumber,
    pub(crate) role: Option<Role>,
    pub(crate) policy: PeerPolicy,
}

impl PeerSettings {
    pub(crate) fn kind(&self) -> PeerType {
        if self.local_as == self.remote_as { PeerType::Internal } else { PeerType::External }
    }
}

/// What the OPENs agreed on, as far as routes depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// The peer's BGP identifier.
    pub(crate) identifier: Ipv4Addr,
    pub(crate) encode: EncodeContext,
    /// Families that are exchanged.
    pub(crate) channels: ByFamily<Option<Channel>>,
}

/// One family of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Channel {
    /// Our address, where we are the next hop; without one, only routes go out that keep theirs.
    pub(crate) own_next_hop: Option<NextHop>,
    /// IPv4 prefixes may have IPv6 next hops (RFC 8950).
    pub(crate) extended_next_hop: bool,
    /// Paths to one prefix that are sent, with identifiers; zero sends the best one without.
    pub(crate) add_path: u8,
    /// The peer knows long-lived graceful restart (RFC 9494).
    pub(crate) long_lived: bool,
    /// The peer knows enhanced refresh (RFC 7313).
    pub(crate) enhanced_refresh: bool,
}

/// Which of a peer's paths are stale.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lives {
    now: u16,
    /// Whether paths of an earlier life may be left.
    has_stale: bool,
    /// Paths of this life and before are kept as a last resort (RFC 9494).
    long_lived: Option<u16>,
}

impl Lives {
    pub(crate) const fn now(self) -> u16 {
        self.now
    }

    pub(crate) const fn has_stale(self) -> bool {
        self.has_stale
    }

    pub(crate) const fn is_stale(self, life: u16) -> bool {
        self.has_stale && self.now != life
    }

    pub(crate) const fn is_long_lived(self, life: u16) -> bool {
        match self.long_lived {
            // Lives are counted round; half of the circle is long gone by the time that it is used again.
            Some(last) => self.has_stale && last.wrapping_sub(life) < u16::MAX / 2,
            None => false,
        }
    }

    /// Everything announced so far becomes stale.
    pub(super) const fn begin(&mut self) {
        self.now = self.now.wrapping_add(1);
        self.has_stale = true;
    }

    /// Everything stale becomes the last resort.
    pub(super) const fn prolong(&mut self) {
        self.long_lived = Some(self.now.wrapping_sub(1));
    }

    pub(super) const fn end_stale(&mut self) {
        self.has_stale = false;
        self.long_lived = None;
    }
}

/// What was received from a peer, of one family.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Prefixes with a path by it, and some that had one once.
    pub(super) prefixes: Vec<PrefixId>,
    /// How many paths there are.
    pub(super) paths: usize,
    /// How many of them the import policy lets in.
    pub(super) accepted: usize,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct RibPeer {
    pub(crate) settings: PeerSettings,
    /// Its last identifier.
    pub(crate) identifier: Ipv4Addr,
    pub(super) session: Option<Session>,
    pub(super) lives: ByFamily<Lives>,
    pub(super) held: ByFamily<Held>,
    /// Update groups that it is a member of.
    pub(super) groups: ByFamily<Option<super::group::GroupId>>,
    /// Whether the transport knows that something waits.
    pub(super) is_ready: bool,
}

impl RibPeer {
    pub(super) fn new(settings: PeerSettings) -> Self {
        Self {
            settings,
            identifier: Ipv4Addr::UNSPECIFIED,
            session: None,
            lives: ByFamily::default(),
            held: ByFamily::default(),
            groups: ByFamily::default(),
            is_ready: false,
        }
    }

    pub(crate) fn kind(&self) -> PeerType {
        self.settings.kind()
    }

    pub(crate) const fn lives(&self, family: Family) -> Lives {
        *self.lives.get(family)
    }

    pub(super) fn channel(&self, family: Family) -> Option<Channel> {
        *self.session.as_ref()?.channels.get(family)
    }
}

/// That of a family, to be changed.
pub(super) const fn of<T>(both: &mut ByFamily<T>, family: Family) -> &mut T {
    match family {
        Family::V4 => &mut both.ipv4,
        Family::V6 => &mut both.ipv6,
    }
}

/// All peers, by number.
#[derive(Debug, Default)]
pub(crate) struct Peers(Vec<Option<RibPeer>>);

impl Peers {
    pub(crate) fn get(&self, index: PeerIndex) -> Option<&RibPeer> {
        self.0.get(index.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: PeerIndex) -> Option<&mut RibPeer> {
        self.0.get_mut(index.0 as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, index: PeerIndex, peer: RibPeer) {
        let place = index.0 as usize;
        if self.0.len() <= place {
            self.0.resize_with(place.saturating_add(1), || None);
        }
        if let Some(slot) = self.0.get_mut(place) {
            *slot = Some(peer);
        }
    }

    pub(super) fn remove(&mut self, index: PeerIndex) -> Option<RibPeer> {
        let removed = self.0.get_mut(index.0 as usize).and_then(Option::take);
        while matches!(self.0.last(), Some(None)) {
            self.0.pop();
        }
        removed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerIndex, &RibPeer)> {
        (0..).zip(&self.0).filter_map(|(index, peer)| Some((PeerIndex(index), peer.as_ref()?)))
    }
}
