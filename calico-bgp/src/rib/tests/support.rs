//! Peers that keep what they are told.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use calico_core::bgp::{ByFamily, Families, LocalSpeaker, PeerPolicy, Role};
use calico_core::net::{AsNumber, Cidr, Family};

use crate::rib::{Channel, PeerSettings, Rib, RouteReport, Session};
use crate::session::peer_index::PeerIndex;
use crate::wire::{
    DecodeContext, EncodeContext, Framer, Message, NextHop, Nlri, PathAttributes, PeerType, RefreshKind,
};

pub(super) const OWN_AS: AsNumber = AsNumber::new(64512);
pub(super) const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);

pub(super) fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

pub(super) fn path(systems: &[u32]) -> crate::wire::AsPath {
    systems.iter().map(|system| AsNumber::new(*system)).collect()
}

pub(super) fn us() -> LocalSpeaker {
    LocalSpeaker { ipv6: Some("2001:db8::100".parse().unwrap()), ..LocalSpeaker::new("us", OWN_AS, OWN) }
}

pub(super) fn address(index: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(index).unwrap() + 1)
}

/// A peer in that system, without any policy.
pub(super) fn settings(index: u32, remote_as: u32) -> PeerSettings {
    PeerSettings {
        id: IpAddr::V4(address(index)).into(),
        remote_as: AsNumber::new(remote_as),
        local_as: OWN_AS,
        role: None,
        policy: PeerPolicy::default(),
    }
}

pub(super) fn client(index: u32) -> PeerSettings {
    let mut settings = settings(index, OWN_AS.value());
    settings.policy.reflector_client = true;
    settings
}

pub(super) fn with_role(index: u32, remote_as: u32, role: Role) -> PeerSettings {
    PeerSettings { role: Some(role), ..settings(index, remote_as) }
}

pub(super) fn channel(family: Family) -> Channel {
    let own_next_hop = us().address(family).map(NextHop::from);
    Channel { own_next_hop, extended_next_hop: false, add_path: 0, long_lived: false, enhanced_refresh: false }
}

/// A session that carries both families.
pub(super) fn session(index: u32, change: impl Fn(&mut Channel)) -> Session {
    let channel = |family| {
        let mut channel = channel(family);
        change(&mut channel);
        channel
    };
    let channels = ByFamily { ipv4: Some(channel(Family::V4)), ipv6: Some(channel(Family::V6)) };
    let add_path = if channel(Family::V4).add_path > 0 { Families::BOTH } else { Families::NONE };
    Session { identifier: address(index), encode: EncodeContext { add_path, ..EncodeContext::default() }, channels }
}

/// What a peer remembers.
#[derive(Debug, Default)]
pub(super) struct Ear {
    pub(super) routes: BTreeMap<Nlri, (PathAttributes, NextHop)>,
    /// Not said again since a BoRR.
    stale: std::collections::BTreeSet<Nlri>,
    pub(super) ends: usize,
    pub(super) updates: usize,
}

impl Ear {
    pub(super) fn hear(&mut self, bytes: &[u8], settings: &PeerSettings, session: &Session) {
        let kind = if settings.local_as == settings.remote_as { PeerType::Internal } else { PeerType::External };
        let extended_next_hop = session.channels.ipv4.filter(|channel| channel.extended_next_hop);
        let context = DecodeContext {
            families: Families::BOTH,
            add_path: session.encode.add_path,
            extended_next_hop: extended_next_hop.map_or(Families::NONE, |_| Families::IPV4),
            ..DecodeContext::new(kind)
        };
        let mut framer = Framer::default();
        framer.push(bytes);
        while let Some((kind, body)) = framer.next_message().unwrap() {
            match Message::decode(kind, body, context).unwrap() {
                Message::Update(update) => {
                    assert_eq!(update.faults, []);
                    self.ends += usize::from(update.end_of_rib.is_some());
                    self.updates += 1;
                    for nlri in update.withdrawn {
                        self.routes.remove(&nlri);
                        self.stale.remove(&nlri);
                    }
                    for (next_hop, nlri) in
                        update.reach.iter().flat_map(|reach| reach.routes.iter().map(|nlri| (reach.next_hop, *nlri)))
                    {
                        self.routes.insert(nlri, (update.attributes.clone(), next_hop));
                        self.stale.remove(&nlri);
                    }
                }
                Message::RouteRefresh(Some(refresh)) => {
                    let family = refresh.family.known().unwrap();
                    let of_it = |nlri: &&Nlri| nlri.prefix.family() == family;
                    match refresh.kind {
                        RefreshKind::Begin => self.stale.extend(self.routes.keys().filter(of_it)),
                        RefreshKind::End => {
                            let missing = self.stale.iter().find(of_it);
                            assert_eq!(missing, None, "it was not said again");
                        }
                        RefreshKind::Request => panic!("nobody asks"),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A RIB, its peers, and what they and the host know.
#[derive(Debug, Default)]
pub(super) struct Bench {
    pub(super) rib: Rib,
    pub(super) peers: BTreeMap<PeerIndex, (PeerSettings, Session, Ear)>,
    pub(super) host: BTreeMap<Cidr, crate::LearnedRoute>,
    /// Peers that were named, and that may have more to read.
    pub(super) reading: std::collections::BTreeSet<PeerIndex>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let mut bench = Self::default();
        bench.rib.set_local(Some(us()));
        bench
    }

    pub(super) fn up(&mut self, settings: PeerSettings, session: Session) -> PeerIndex {
        let index = PeerIndex(u32::from(session.identifier.octets()[3]) - 1);
        self.rib.set_peer(index, settings.clone());
        self.rib.session_up(index, session.clone());
        self.rib.finish(index);
        self.peers.insert(index, (settings, session, Ear::default()));
        index
    }

    pub(super) fn announce(
        &mut self,
        peer: PeerIndex,
        prefix: &str,
        next_hop: &str,
        change: impl FnOnce(&mut PathAttributes),
    ) {
        let mut attributes = PathAttributes::default();
        change(&mut attributes);
        let next_hop: IpAddr = next_hop.parse().unwrap();
        self.rib.announce(peer, attributes, next_hop.into(), &[cidr(prefix).into()]);
    }

    /// Delivers a step to one peer. Says whether there was one.
    pub(super) fn deliver(&mut self, index: PeerIndex) -> bool {
        let mut bytes = Vec::new();
        self.rib.poll_transmit(index, 1, &mut bytes);
        let (settings, session, ear) = self.peers.get_mut(&index).unwrap();
        ear.hear(&bytes, settings, session);
        if bytes.is_empty() {
            self.reading.remove(&index);
        } else {
            self.reading.insert(index);
        }
        !bytes.is_empty()
    }

    pub(super) fn forget(&mut self, index: PeerIndex) {
        self.peers.remove(&index);
        self.reading.remove(&index);
    }

    /// Until nothing waits.
    pub(super) fn settle(&mut self) {
        while let Some(index) = self.reading.pop_first().or_else(|| self.rib.poll_ready()) {
            while self.deliver(index) {}
        }
        while let Some(report) = self.rib.poll_report() {
            match report {
                RouteReport::Set(route) => drop(self.host.insert(route.prefix, route)),
                RouteReport::Removed(prefix) => assert!(self.host.remove(&prefix).is_some(), "{prefix}"),
            }
        }
    }

    pub(super) fn told(&self, peer: PeerIndex, prefix: &str) -> Option<&(PathAttributes, NextHop)> {
        self.peers[&peer].2.routes.get(&cidr(prefix).into())
    }
}
