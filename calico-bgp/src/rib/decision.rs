//! The decision process (RFC 4271 section 9.1.2.2, RFC 4456 section 9, RFC 9494 section 4.3), in BIRD's order.
//!
//! The steps are taken as eliminations over the whole set and never as pairwise comparison: MED is comparable only within one
//! neighbouring system, so "better" is not transitive and a fold over pairs would depend on the order of arrival.
//!
//! Plain stale paths are not worse than others. Left out: the accumulated metric and the cost of the way to the next hop, which is the kernel's.

use core::cmp::Reverse;

use calico_core::net::{AsNumber, Family};

use super::intern::PathSet;
use super::path::Path;
use super::peer::{Peers, RibPeer};
use super::policy::local_pref;
use crate::wire::attribute::LLGR_STALE;
use crate::wire::{PathAttributes, PeerType};

/// Most next hops of one route: BIRD's limit.
pub(crate) const MULTIPATH: usize = 16;

/// A step of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Step {
    /// Kept as a last resort only (RFC 9494).
    LongLivedStale,
    /// LOCAL_PREF.
    LocalPref,
    /// Length of the AS path.
    PathLength,
    /// ORIGIN.
    Origin,
    /// MULTI_EXIT_DISC, among paths by one neighbouring system.
    Med,
    /// External before internal.
    External,
    /// Identifier of the peer, or ORIGINATOR_ID. What is equal until here shares traffic.
    Identifier,
    /// Length of the CLUSTER_LIST.
    ClusterList,
    /// Address of the peer.
    Address,
    /// The peer's identifier of the path.
    PathId,
}

/// All steps, in order.
const STEPS: [Step; 10] = [
    Step::LongLivedStale,
    Step::LocalPref,
    Step::PathLength,
    Step::Origin,
    Step::Med,
    Step::External,
    Step::Identifier,
    Step::ClusterList,
    Step::Address,
    Step::PathId,
];

/// A path that may be chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// Its place among the prefix's paths.
    pub(crate) place: usize,
    pub(crate) path: &'a Path,
    pub(crate) set: &'a PathSet,
    pub(crate) peer: &'a RibPeer,
    pub(crate) is_long_lived: bool,
}

/// Those of the paths that the import policy lets in.
pub(crate) fn candidates<'a>(
    paths: &'a [Path],
    peers: &'a Peers,
    family: Family,
) -> impl Iterator<Item = Candidate<'a>> {
    paths.iter().enumerate().filter_map(move |(place, path)| candidate(place, path, peers, family))
}

/// A path, if it may be chosen.
pub(crate) fn candidate<'a>(place: usize, path: &'a Path, peers: &'a Peers, family: Family) -> Option<Candidate<'a>> {
    let set = path.accepted.as_deref()?;
    let peer = peers.get(path.peer)?;
    let is_long_lived = peer.lives(family).is_long_lived(path.life) || set.attributes.communities.contains(&LLGR_STALE);
    Some(Candidate { place, path, set, peer, is_long_lived })
}

/// Place of the best path.
pub(crate) fn best(paths: &[Path], peers: &Peers, family: Family) -> Option<usize> {
    if let [path] = paths {
        return candidate(0, path, peers, family).map(|only| only.place);
    }
    let mut left: Vec<Candidate<'_>> = candidates(paths, peers, family).collect();
    for step in STEPS {
        if left.len() <= 1 {
            break;
        }
        take(step, &mut left, &mut |_| ());
    }
    left.first().map(|best| best.place)
}

/// Places of the best `count` paths, in order. The second is the one that would be best without the first, and so on.
pub(crate) fn ranked(paths: &[Path], peers: &Peers, family: Family, count: usize) -> Vec<usize> {
    let mut rest: Vec<Candidate<'_>> = candidates(paths, peers, family).collect();
    let mut ranked = Vec::new();
    while ranked.len() < count && !rest.is_empty() {
        let mut left = rest.clone();
        STEPS.into_iter().for_each(|step| take(step, &mut left, &mut |_| ()));
        let Some(best) = left.first().map(|best| best.place) else { break };
        rest.retain(|known| known.place != best);
        ranked.push(best);
    }
    ranked
}

/// The paths that share traffic: equal until the identifier decides.
pub(crate) fn equals<'a>(paths: &'a [Path], peers: &'a Peers, family: Family) -> Vec<Candidate<'a>> {
    let mut left: Vec<Candidate<'_>> = candidates(paths, peers, family).collect();
    for step in STEPS.into_iter().take_while(|step| *step < Step::Identifier) {
        take(step, &mut left, &mut |_| ());
    }
    left
}

/// The places of all candidates but the best, with the step that each lost by.
pub(crate) fn losers(paths: &[Path], peers: &Peers, family: Family) -> Vec<(usize, Step)> {
    let mut left: Vec<Candidate<'_>> = candidates(paths, peers, family).collect();
    let mut losers = Vec::new();
    for step in STEPS {
        take(step, &mut left, &mut |lost| losers.push((lost.place, step)));
    }
    losers
}

fn take<'a>(step: Step, left: &mut Vec<Candidate<'a>>, lost: &mut impl FnMut(&Candidate<'a>)) {
    match step {
        Step::LongLivedStale => keep_least(left, |one| one.is_long_lived, lost),
        Step::LocalPref => keep_least(left, |one| Reverse(local_pref(&one.set.attributes)), lost),
        Step::PathLength => keep_least(left, |one| one.set.attributes.as_path.len(), lost),
        Step::Origin => keep_least(left, |one| one.set.attributes.origin, lost),
        Step::Med => keep_least_med(left, lost),
        Step::External => keep_least(left, |one| one.peer.kind() == PeerType::Internal, lost),
        Step::Identifier => keep_least(left, Candidate::originator, lost),
        Step::ClusterList => keep_least(left, |one| one.set.attributes.cluster_list.len(), lost),
        Step::Address => keep_least(left, |one| one.peer.settings.id, lost),
        Step::PathId => keep_least(left, |one| one.path.path_id, lost),
    }
}

fn keep_least<'a, K: Ord>(
    left: &mut Vec<Candidate<'a>>,
    key: impl Fn(&Candidate<'a>) -> K,
    lost: &mut impl FnMut(&Candidate<'a>),
) {
    if let Some(least) = left.iter().map(&key).min() {
        left.retain(|one| {
            let stays = key(one) == least;
            if !stays {
                lost(one);
            }
            stays
        });
    }
}

/// A path goes when another one by the same neighbouring system has a lower MED; none counts as zero (RFC 4271 9.1.2.2 c).
fn keep_least_med<'a>(left: &mut Vec<Candidate<'a>>, lost: &mut impl FnMut(&Candidate<'a>)) {
    let med = |one: &Candidate<'_>| one.set.attributes.med.unwrap_or(0);
    let mut least: Vec<(Option<AsNumber>, u32)> = Vec::new();
    for one in &*left {
        let system = neighbour(&one.set.attributes);
        match least.iter_mut().find(|(known, _)| *known == system) {
            Some((_, known)) => *known = med(one).min(*known),
            None => least.push((system, med(one))),
        }
    }
    left.retain(|one| {
        let stays = least.contains(&(neighbour(&one.set.attributes), med(one)));
        if !stays {
            lost(one);
        }
        stays
    });
}

/// The system that MED values are comparable within.
fn neighbour(attributes: &PathAttributes) -> Option<AsNumber> {
    attributes.as_path.first()
}

impl Candidate<'_> {
    /// ORIGINATOR_ID where reflection hides the originator behind the reflector's identifier (RFC 4456 section 9).
    fn originator(&self) -> core::net::Ipv4Addr {
        self.set.attributes.originator_id.unwrap_or(self.peer.identifier)
    }
}
