//! What peers announce, and what becomes of it when their sessions end.

use std::sync::Arc;

use calico_core::bgp::Families;
use calico_core::net::Family;

use super::import::{ImportBatch, Importer};
use super::intern::{PathSet, is_same};
use super::machine::{Judge, Rib};
use super::path::{MOST_PATHS, Path};
use super::peer::{Held, Lives, Session, of};
use super::table::{Entry, PrefixId};
use crate::session::peer_index::PeerIndex;
use crate::wire::attribute::NO_LLGR;
use crate::wire::{NextHop, Nlri, PathAttributes};

/// What becomes of a peer's routes of one family when its session ends. When the time of what is kept is over, say
/// [`sweep`](Rib::sweep).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Retain {
    /// They go.
    #[default]
    Drop,
    /// They stay (RFC 4724).
    Stale,
    /// They stay as a last resort (RFC 9494).
    LongLived,
}

/// Entries of a peer's list beyond its paths that are worth no walk over it.
const SLACK: usize = 64;

impl Rib {
    /// A peer announces paths with equal attributes. Each replaces what the peer said of it before, even if it cannot be used.
    pub(crate) fn announce(
        &mut self,
        index: PeerIndex,
        attributes: PathAttributes,
        next_hop: NextHop,
        routes: &[Nlri],
    ) {
        let Some(mut held) = self.peers.get_mut(index).map(|peer| core::mem::take(&mut peer.held)) else {
            return;
        };
        let received = self.sets.intern(PathSet { attributes, next_hop });
        if let Some(peer) = self.peers.get(index) {
            let importer = Importer { local: self.local.as_ref(), peer };
            let mut batch = ImportBatch::new(importer, &received, &mut self.sets);
            for route in routes {
                let family = route.prefix.family();
                let accepted = batch.accept(route.prefix, &mut self.sets);
                let table = of(&mut self.tables, family);
                let id = table.find_or_insert(route.prefix);
                let Some(entry) = table.get_mut(id) else { continue };
                let lives = peer.lives(family);
                let (path_id, life) = (route.path_id, lives.now());
                let received = Arc::clone(&received);
                let path = Path { received, accepted, peer: index, path_id, life, own_id: 0 };
                if put(entry, id, path, lives, of(&mut held, family)) {
                    let judge =
                        Judge { peers: &self.peers, originated: &self.originated, policy: &self.policy, family };
                    entry.choose(judge.decide(entry));
                    of(&mut self.queues, family).push(id, entry);
                }
            }
        }
        if let Some(peer) = self.peers.get_mut(index) {
            peer.held = held;
        }
    }

    /// A peer takes paths back.
    pub(crate) fn withdraw(&mut self, index: PeerIndex, routes: &[Nlri]) {
        for route in routes {
            let family = route.prefix.family();
            let Some(id) = self.tables.get(family).find(&route.prefix) else { continue };
            self.retain_at(index, family, id, |path| path.path_id != route.path_id);
        }
        for family in Families::BOTH.iter() {
            let Some(held) = self.peers.get_mut(index).map(|peer| of(&mut peer.held, family)) else { return };
            if held.prefixes.len() > held.paths.saturating_mul(2).saturating_add(SLACK) {
                let prefixes = core::mem::take(&mut held.prefixes);
                let prefixes = self.still_held(index, family, prefixes);
                if let Some(peer) = self.peers.get_mut(index) {
                    of(&mut peer.held, family).prefixes = prefixes;
                }
            }
        }
    }

    /// Of these prefixes, those with a path by the peer, each once.
    fn still_held(&self, index: PeerIndex, family: Family, mut prefixes: Vec<PrefixId>) -> Vec<PrefixId> {
        let table = self.tables.get(family);
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes.retain(|id| table.get(*id).is_some_and(|entry| entry.paths.has(index)));
        prefixes
    }

    /// Keeps those paths by a peer to one prefix that `keep` wants.
    fn retain_at(&mut self, index: PeerIndex, family: Family, id: PrefixId, keep: impl Fn(&Path) -> bool) {
        let table = of(&mut self.tables, family);
        let Some(entry) = table.get_mut(id) else { return };
        let gone = entry.paths.retain(|path| path.peer != index || keep(path));
        if gone.paths == 0 {
            return;
        }
        let judge = Judge { peers: &self.peers, originated: &self.originated, policy: &self.policy, family };
        // Places have shifted, even if nobody could use what is gone.
        entry.choose(judge.decide(entry));
        if gone.accepted > 0 {
            of(&mut self.queues, family).push(id, entry);
        }
        table.release(id);
        if let Some(peer) = self.peers.get_mut(index) {
            let held = of(&mut peer.held, family);
            held.paths = held.paths.saturating_sub(gone.paths);
            held.accepted = held.accepted.saturating_sub(gone.accepted);
        }
    }

    /// Keeps those paths by a peer that `keep` wants.
    fn retain_all(&mut self, index: PeerIndex, family: Family, keep: impl Fn(&Path) -> bool) {
        let Some(held) = self.peers.get_mut(index).map(|peer| of(&mut peer.held, family)) else { return };
        let prefixes = core::mem::take(&mut held.prefixes);
        for id in &prefixes {
            self.retain_at(index, family, *id, &keep);
        }
        let prefixes = self.still_held(index, family, prefixes);
        if let Some(peer) = self.peers.get_mut(index) {
            of(&mut peer.held, family).prefixes = prefixes;
        }
    }

    /// A session is up. Stale routes of families that it does not carry go.
    pub(crate) fn session_up(&mut self, index: PeerIndex, session: Session) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let is_other = peer.identifier != session.identifier;
        peer.identifier = session.identifier;
        peer.is_ready = false;
        for family in Families::BOTH.iter() {
            if session.channels.get(family).is_none() {
                self.sweep(index, family);
            }
            if is_other {
                self.reconsider_all(index, family);
            }
        }
        if let Some(peer) = self.peers.get_mut(index) {
            peer.session = Some(session);
        }
        self.join_groups(index);
    }

    /// A session is down: the peer knows nothing any more. Say for each family what becomes of its routes.
    pub(crate) fn session_down(&mut self, index: PeerIndex) {
        self.leave_groups(index);
        if let Some(peer) = self.peers.get_mut(index) {
            (peer.session, peer.is_ready) = (None, false);
        }
    }

    /// What becomes of a peer's routes without a session. A second call with a later stage is about those that are left.
    pub(crate) fn retain(&mut self, index: PeerIndex, family: Family, retain: Retain) {
        match retain {
            Retain::Drop => {
                self.retain_all(index, family, |_| false);
                self.set_lives(index, family, Lives::end_stale);
            }
            Retain::Stale => self.begin_life(index, family),
            Retain::LongLived => {
                self.begin_life(index, family);
                self.prolong(index, family);
            }
        }
    }

    /// The peer is about to send everything again (RFC 7313): what it does not say again goes with [`sweep`](Self::sweep).
    pub(crate) fn begin_life(&mut self, index: PeerIndex, family: Family) {
        if self.received(index, family).paths > 0 {
            self.set_lives(index, family, Lives::begin);
        }
    }

    /// What is stale of a peer is kept as a last resort from now on, but for what must not be (RFC 9494).
    fn prolong(&mut self, index: PeerIndex, family: Family) {
        if !self.has_stale(index, family) {
            return;
        }
        let Some(lives) = self.peers.get(index).map(|peer| peer.lives(family)) else { return };
        self.set_lives(index, family, Lives::prolong);
        self.retain_all(index, family, |path| {
            let communities = &path.received.attributes.communities;
            !(lives.is_stale(path.life) && communities.contains(&NO_LLGR))
        });
        self.reconsider_all(index, family);
    }

    /// Removes what a peer has not announced again: it is done, or its time is over.
    pub(crate) fn sweep(&mut self, index: PeerIndex, family: Family) {
        if !self.has_stale(index, family) {
            return;
        }
        let Some(lives) = self.peers.get(index).map(|peer| peer.lives(family)) else { return };
        self.retain_all(index, family, |path| !lives.is_stale(path.life));
        self.set_lives(index, family, Lives::end_stale);
    }

    /// Whether stale routes of a peer may be left.
    pub(crate) fn has_stale(&self, index: PeerIndex, family: Family) -> bool {
        self.peers.get(index).is_some_and(|peer| peer.lives(family).has_stale())
    }

    /// How much there is of a peer.
    pub(crate) fn received(&self, index: PeerIndex, family: Family) -> Received {
        let held = self.peers.get(index).map(|peer| peer.held.get(family));
        held.map(|held| Received { paths: held.paths, accepted: held.accepted }).unwrap_or_default()
    }

    fn set_lives(&mut self, index: PeerIndex, family: Family, change: impl Fn(&mut Lives)) {
        if let Some(peer) = self.peers.get_mut(index) {
            change(of(&mut peer.lives, family));
        }
    }

    pub(super) fn reconsider_all(&mut self, index: PeerIndex, family: Family) {
        for id in self.prefixes_of(index, family) {
            if let Some(prefix) = self.tables.get(family).get(id).map(|entry| entry.prefix) {
                self.reconsider(prefix);
            }
        }
    }

    pub(super) fn prefixes_of(&self, index: PeerIndex, family: Family) -> Vec<PrefixId> {
        let prefixes = self.peers.get(index).map(|peer| peer.held.get(family).prefixes.clone());
        self.still_held(index, family, prefixes.unwrap_or_default())
    }

    /// Judges what was received from a peer by its present policy.
    pub(super) fn judge_again(&mut self, index: PeerIndex) {
        for family in Families::BOTH.iter() {
            let mut accepted: usize = 0;
            for id in self.prefixes_of(index, family) {
                let Some(peer) = self.peers.get(index) else { return };
                let importer = Importer { local: self.local.as_ref(), peer };
                let table = of(&mut self.tables, family);
                let Some(entry) = table.get_mut(id) else { continue };
                let prefix = entry.prefix;
                let mut has_changed = false;
                for path in entry.paths.as_mut_slice().iter_mut().filter(|path| path.peer == index) {
                    let mut batch = ImportBatch::new(importer, &path.received, &mut self.sets);
                    let now = batch.accept(prefix, &mut self.sets);
                    accepted = accepted.saturating_add(usize::from(now.is_some()));
                    has_changed |= !is_same(now.as_ref(), path.accepted.as_ref());
                    path.accepted = now;
                }
                if has_changed {
                    self.reconsider(prefix);
                }
            }
            if let Some(peer) = self.peers.get_mut(index) {
                of(&mut peer.held, family).accepted = accepted;
            }
        }
    }
}

/// How much there is of a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Paths that it announced.
    pub(crate) paths: usize,
    /// Those of them that may be used.
    pub(crate) accepted: usize,
}

/// Puts a path where it belongs. Says whether anybody else can see a difference.
fn put(entry: &mut Entry, id: PrefixId, mut path: Path, lives: Lives, held: &mut Held) -> bool {
    let is_accepted = path.accepted.is_some();
    let count = entry.paths.count(path.peer);
    let is_known = entry.paths.find_mut(path.peer, path.path_id).is_some();
    if !is_known && count >= MOST_PATHS {
        tracing::debug!(prefix = %entry.prefix, "a BGP peer announces more paths to one prefix than are taken");
        return false;
    }
    held.accepted = held.accepted.saturating_add(usize::from(is_accepted));
    if let Some(known) = entry.paths.find_mut(path.peer, path.path_id) {
        held.accepted = held.accepted.saturating_sub(usize::from(known.accepted.is_some()));
        // To announce the same again in a new life is no change, unless the old one was a last resort.
        let is_equal = is_same(known.accepted.as_ref(), path.accepted.as_ref()) && !lives.is_long_lived(known.life);
        path.own_id = known.own_id;
        *known = path;
        return !is_equal;
    }
    if count == 0 {
        held.prefixes.push(id);
    }
    held.paths = held.paths.saturating_add(1);
    path.own_id = entry.paths.free_id();
    entry.paths.push(path);
    is_accepted
}
