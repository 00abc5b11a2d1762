//! Why things are as they are, and what there is: for operators.
//!
//! Nothing here is kept: a picture is made from the same steps that decide.

use core::net::Ipv4Addr;

use calico_core::bgp::{Originated, PeerId};
use calico_core::net::{Cidr, Family};

use super::decision::{self, Step};
use super::export::{Exporter, Offer, Withheld};
use super::group::GroupKey;
use super::import::{Importer, Refusal};
use super::machine::Rib;
use super::path::Path;
use super::peer::RibPeer;
use super::policy::large_communities;
use super::table::{Chosen, Entry, PrefixId};
use crate::backend::LearnedRoute;
use crate::session::peer_index::PeerIndex;
use crate::wire::{NextHop, Nlri, PathAttributes, PathId};

/// Everything about a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// Which.
    pub prefix: Cidr,
    /// Why it is originated here, if it is.
    pub originated: Option<Originated>,
    /// All paths that peers announced.
    pub paths: Vec<PathReport>,
    /// What each peer hears, and if nothing, why.
    pub told: Vec<(PeerId, Result<Told, Withheld>)>,
}

/// A path that a peer announced, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathReport {
    /// Where it leads.
    pub prefix: Cidr,
    /// Whose it is.
    pub peer: PeerId,
    /// The peer's BGP identifier.
    pub identifier: Ipv4Addr,
    /// The peer's name of it, if it gives several.
    pub path_id: PathId,
    /// Attributes, after the import policy if that lets it in.
    pub attributes: PathAttributes,
    /// Next hop.
    pub next_hop: NextHop,
    /// The peer has not announced it since it restarted.
    pub is_stale: bool,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It is the best.
    Best,
    /// It shares traffic with the best, which came first by this step.
    Shares(Step),
    /// Another one was better, by this step.
    Lost(Step),
    /// It is the best of those learned, but the prefix is our own.
    BehindOwn,
    /// It may not be used.
    Refused(Refusal),
}

/// What a peer hears.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// Attributes.
    pub attributes: PathAttributes,
    /// Next hop.
    pub next_hop: NextHop,
}

impl Rib {
    /// Everything about a prefix; none if nothing is known of it.
    pub(crate) fn explain(&self, prefix: Cidr) -> Option<Explanation> {
        let table = self.tables.get(prefix.family());
        let entry = table.find(&prefix).and_then(|id| table.get(id))?;
        let originated = self.originated.get(&prefix).copied();
        let told = self.peers.iter().map(|(index, peer)| (peer.settings.id, self.told(entry, index, peer))).collect();
        Some(Explanation { prefix, originated, paths: self.reports(entry), told })
    }

    /// All routes that the host should have.
    pub(crate) fn routes(&self) -> impl Iterator<Item = LearnedRoute> {
        let entries = self.tables.ipv4.iter().chain(self.tables.ipv6.iter());
        entries.filter_map(|entry| Some(entry.reported.as_ref()?.route(entry.prefix)))
    }

    /// Everything that a peer announced, and what became of it.
    pub(crate) fn received_from(&self, index: PeerIndex) -> Vec<PathReport> {
        let id = self.peers.get(index).map(|peer| peer.settings.id);
        let entries = self.tables.ipv4.iter().chain(self.tables.ipv6.iter());
        let held = entries.filter(|entry| entry.paths.has(index));
        held.flat_map(|entry| self.reports(entry)).filter(|report| Some(report.peer) == id).collect()
    }

    /// Everything that a peer is told.
    pub(crate) fn advertised_to(&self, index: PeerIndex) -> Vec<(Nlri, Told)> {
        let mut all = Vec::new();
        for family in [Family::V4, Family::V6] {
            let group = self.peers.get(index).and_then(|peer| *peer.groups.get(family));
            let Some(group) = group.and_then(|id| self.groups.get(&id)) else { continue };
            for (id, entry) in group.entries.iter() {
                let Some(known) = self.tables.get(family).get(id) else { continue };
                for advert in entry.told.adverts().filter(|advert| advert.source != Some(index)) {
                    let nlri = Nlri { prefix: known.prefix, path_id: PathId::new(advert.id.into()) };
                    let (attributes, next_hop) = (advert.set.attributes.clone(), advert.set.next_hop);
                    all.push((nlri, Told { attributes, next_hop }));
                }
            }
        }
        all
    }

    /// How many paths a peer is told.
    pub(crate) fn advertised(&self, index: PeerIndex) -> usize {
        let Some(peer) = self.peers.get(index) else { return 0 };
        let count = |family: Family| {
            let group = peer.groups.get(family).and_then(|id| self.groups.get(&id))?;
            let own = |id: &PrefixId| {
                let entry = group.entries.get(*id);
                entry.map_or(0, |entry| entry.told.adverts().filter(|advert| advert.source == Some(index)).count())
            };
            Some(group.adverts().saturating_sub(self.prefixes_of(index, family).iter().map(own).sum()))
        };
        [Family::V4, Family::V6].into_iter().filter_map(count).sum()
    }

    fn reports(&self, entry: &Entry) -> Vec<PathReport> {
        let (paths, family) = (entry.paths.as_slice(), entry.prefix.family());
        let best = decision::best(paths, &self.peers, family);
        let losers = decision::losers(paths, &self.peers, family);
        let fate = |place: usize, path: &Path, peer: &RibPeer| {
            if path.accepted.is_none() {
                return Fate::Refused(self.refusal(entry.prefix, path, peer));
            }
            let lost = losers.iter().find(|(loser, _)| *loser == place).map(|(_, step)| *step);
            match lost {
                _ if Some(place) == best && entry.chosen() == Chosen::Originated => Fate::BehindOwn,
                Some(step) if step >= Step::Identifier => Fate::Shares(step),
                Some(step) => Fate::Lost(step),
                None => Fate::Best,
            }
        };
        let known =
            paths.iter().enumerate().filter_map(|(place, path)| Some((place, path, self.peers.get(path.peer)?)));
        let report = |(place, path, peer): (usize, &Path, &RibPeer)| {
            let set = path.accepted.as_ref().unwrap_or(&path.received);
            PathReport {
                prefix: entry.prefix,
                peer: peer.settings.id,
                identifier: peer.identifier,
                path_id: path.path_id,
                attributes: set.attributes.clone(),
                next_hop: set.next_hop,
                is_stale: peer.lives(family).is_stale(path.life),
                fate: fate(place, path, peer),
            }
        };
        known.map(report).collect()
    }

    fn refusal(&self, prefix: Cidr, path: &Path, peer: &RibPeer) -> Refusal {
        let importer = Importer { local: self.local.as_ref(), peer };
        let large = large_communities(&path.received);
        let judged = importer.screen(&path.received).and_then(|_| importer.filter(prefix, &path.received, &large));
        // A path that is refused has a reason; the policy may have changed in between, and then it is judged again soon.
        judged.err().unwrap_or(Refusal::NoSpeaker)
    }

    fn told(&self, entry: &Entry, index: PeerIndex, peer: &RibPeer) -> Result<Told, Withheld> {
        let family = entry.prefix.family();
        let key = GroupKey::of(peer, family).ok_or(Withheld::NoSession)?;
        let local = self.local.as_ref().ok_or(Withheld::NoSession)?;
        let exporter = Exporter { local, policy: &self.policy, key: &key };
        let offer = match entry.chosen() {
            Chosen::Nothing => return Err(Withheld::NoPath),
            Chosen::Originated => Offer::Originated(self.originated.get(&entry.prefix).ok_or(Withheld::NoPath)?),
            Chosen::Path(place) => {
                let path = entry.paths.as_slice().get(place).ok_or(Withheld::NoPath)?;
                if path.peer == index {
                    return Err(Withheld::SplitHorizon);
                }
                let candidate = decision::candidate(place, path, &self.peers, family);
                Offer::Path(candidate.ok_or(Withheld::NoPath)?)
            }
        };
        let permit = exporter.permit(entry.prefix, offer)?;
        let set = exporter.compose(offer, &permit)?;
        Ok(Told { attributes: set.attributes, next_hop: set.next_hop })
    }
}
