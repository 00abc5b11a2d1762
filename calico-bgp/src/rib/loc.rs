//! The Loc-RIB: every path by prefix, the best of them, and which changes have not been reported yet.

use std::collections::{BTreeSet, HashMap};

use calico_core::net::Cidr;

use super::decision;
use super::path::{Path, PathSource};
use crate::backend::LearnedRoute;
use crate::session::peer_index::PeerIndex;

/// All prefixes with a path, or originated here, or reported and not yet reported gone.
#[derive(Debug, Default)]
pub(crate) struct Loc {
    entries: HashMap<Cidr, Entry>,
    /// Prefixes whose best path may differ from what was reported.
    dirty: BTreeSet<Cidr>,
}

#[derive(Debug, Default)]
struct Entry {
    originated: bool,
    paths: Vec<Path>,
    best: Option<usize>,
    reported: Option<LearnedRoute>,
}

/// What wins for a prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Best<'a> {
    /// We originate it; that beats every path.
    Originated,
    /// A peer's path.
    Path(&'a Path),
}

/// Where the best path came from, without borrowing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nowhere: there is none.
    Nothing,
    /// Here.
    Originated,
    /// A peer.
    Peer(PathSource),
}

/// A best path that became another one, or another version of the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BestChange {
    pub(crate) prefix: Cidr,
    pub(crate) old: Source,
    pub(crate) new: Source,
}

/// A change of what the rest of the host should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteReport {
    Set(LearnedRoute),
    Removed(Cidr),
}

impl Loc {
    /// Adds a path, or replaces the one by the same peer.
    pub(crate) fn announce(&mut self, prefix: Cidr, path: Path) -> Option<BestChange> {
        self.change(prefix, |entry| {
            match entry.paths.iter_mut().find(|known| known.source.index == path.source.index) {
                Some(known) => *known = path,
                None => entry.paths.push(path),
            }
        })
    }

    /// Removes the path by a peer.
    pub(crate) fn withdraw(&mut self, prefix: Cidr, peer: PeerIndex) -> Option<BestChange> {
        if !self.entries.contains_key(&prefix) {
            return None;
        }
        self.change(prefix, |entry| entry.paths.retain(|path| path.source.index != peer))
    }

    /// Starts or stops originating a prefix.
    pub(crate) fn originate(&mut self, prefix: Cidr, originated: bool) -> Option<BestChange> {
        self.change(prefix, |entry| entry.originated = originated)
    }

    fn change(&mut self, prefix: Cidr, apply: impl FnOnce(&mut Entry)) -> Option<BestChange> {
        let entry = self.entries.entry(prefix).or_default();
        let (old, before) = (entry.source(), entry.best_path().cloned());
        apply(entry);
        entry.best = decision::best(&entry.paths);
        let (new, after) = (entry.source(), entry.best_path());
        let changed = old != new || before.as_ref().map(visible) != after.map(visible);
        if entry.learned(prefix) != entry.reported {
            self.dirty.insert(prefix);
        }
        self.collect(prefix);
        changed.then_some(BestChange { prefix, old, new })
    }

    /// The next unreported change; changes of one prefix that cancel out are never reported.
    pub(crate) fn next_report(&mut self) -> Option<RouteReport> {
        while let Some(prefix) = self.dirty.pop_first() {
            let Some(entry) = self.entries.get_mut(&prefix) else {
                continue;
            };
            let learned = entry.learned(prefix);
            let before = core::mem::replace(&mut entry.reported, learned);
            self.collect(prefix);
            match learned {
                Some(route) if before != learned => return Some(RouteReport::Set(route)),
                None if before.is_some() => return Some(RouteReport::Removed(prefix)),
                _ => {}
            }
        }
        None
    }

    fn collect(&mut self, prefix: Cidr) {
        if self.entries.get(&prefix).is_some_and(Entry::is_empty) {
            self.entries.remove(&prefix);
        }
    }

    pub(crate) fn best(&self, prefix: &Cidr) -> Option<Best<'_>> {
        let entry = self.entries.get(prefix)?;
        if entry.originated { Some(Best::Originated) } else { entry.best_path().map(Best::Path) }
    }

    /// The path by one peer.
    pub(crate) fn path(&self, prefix: &Cidr, peer: PeerIndex) -> Option<&Path> {
        self.entries.get(prefix)?.paths.iter().find(|path| path.source.index == peer)
    }

    /// Every prefix, in no particular order.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.entries.keys().copied()
    }
}

impl Entry {
    fn best_path(&self) -> Option<&Path> {
        self.best.and_then(|index| self.paths.get(index))
    }

    fn source(&self) -> Source {
        if self.originated {
            return Source::Originated;
        }
        self.best_path().map_or(Source::Nothing, |path| Source::Peer(path.source))
    }

    /// What the host should do. Nothing for a prefix of our own: it is not learned.
    fn learned(&self, prefix: Cidr) -> Option<LearnedRoute> {
        if self.originated {
            return None;
        }
        self.best_path().map(|path| LearnedRoute { prefix, next_hop: path.next_hop, peer: path.source.peer })
    }

    const fn is_empty(&self) -> bool {
        !self.originated && self.paths.is_empty() && self.reported.is_none()
    }
}

/// What others can see of a path: announcing the same again in a new life changes nothing for them.
fn visible(path: &Path) -> (PathSource, core::net::IpAddr, &crate::wire::PathAttributes) {
    (path.source, path.next_hop, &path.attributes)
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::*;
    use crate::wire::{PathAttributes, PeerType};

    fn path(peer: u8) -> Path {
        let address = Ipv4Addr::new(10, 0, 0, peer);
        Path {
            source: PathSource {
                peer: IpAddr::V4(address).into(),
                index: PeerIndex(peer.into()),
                identifier: address,
                kind: PeerType::Internal,
            },
            next_hop: address.into(),
            attributes: Arc::new(PathAttributes::default()),
            life: 0,
        }
    }

    const fn peer(number: u32) -> PeerIndex {
        PeerIndex(number)
    }

    #[test]
    fn reports_the_best_path_once_and_forgets_what_cancels_out() {
        let prefix: Cidr = "10.1.0.0/26".parse().unwrap();
        let mut loc = Loc::default();
        loc.announce(prefix, path(2));
        loc.withdraw(prefix, peer(2));
        assert_eq!(loc.next_report(), None);
        assert_eq!(loc.prefixes().count(), 0, "nothing may be left behind");
        loc.announce(prefix, path(2));
        loc.announce(prefix, path(1));
        let Some(RouteReport::Set(route)) = loc.next_report() else { panic!("no route") };
        assert_eq!(route.peer, path(1).source.peer);
        assert_eq!(loc.next_report(), None);
        loc.withdraw(prefix, peer(2));
        assert_eq!(loc.next_report(), None, "the best path is the same");
        loc.withdraw(prefix, peer(1));
        assert_eq!(loc.next_report(), Some(RouteReport::Removed(prefix)));
        assert_eq!(loc.prefixes().count(), 0);
    }

    #[test]
    fn an_originated_prefix_is_not_learned() {
        let prefix: Cidr = "10.1.0.0/26".parse().unwrap();
        let mut loc = Loc::default();
        loc.announce(prefix, path(1));
        assert!(matches!(loc.next_report(), Some(RouteReport::Set(_))));
        loc.originate(prefix, true);
        assert_eq!(loc.next_report(), Some(RouteReport::Removed(prefix)));
        loc.originate(prefix, false);
        assert!(matches!(loc.next_report(), Some(RouteReport::Set(_))));
    }

    #[test]
    fn the_same_path_in_a_new_life_is_no_change() {
        let prefix: Cidr = "10.1.0.0/26".parse().unwrap();
        let mut loc = Loc::default();
        assert!(loc.announce(prefix, path(1)).is_some());
        assert_eq!(loc.announce(prefix, Path { life: 1, ..path(1) }), None);
    }
}
