//! Update groups: peers that hear the same share its evaluation, its memory and its bytes.
//!
//! A group has an entry for each prefix that it tells of, and a log: the prefixes in the order of their last change. Each member has a
//! place in the log; all that is behind it the member knows. A prefix that changes again moves to the end, so that however often it does
//! while a peer does not read, it costs one place and one message in the end; and a new member, or one that asks for everything again,
//! starts at the beginning. A slow member costs the others nothing.
//!
//! What is no longer told stays as an entry without a route for as long as there is a member that was told of it and does not know yet.
//! What must stay true: a place in the log is in use exactly if the entry of its prefix has its version; versions only grow.
//!
//! The peer that a route came from is the one that does not hear of it, although its group does: entries say whose route they tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use calico_core::bgp::{Filter, NextHop as Mode, Role};
use calico_core::net::{AsNumber, Family};

use super::advance::Memo;
use super::intern::PathSet;
use super::paged::Paged;
use super::peer::{Channel, RibPeer};
use super::table::PrefixId;
use crate::session::peer_index::PeerIndex;
use crate::wire::{EncodeContext, Nlri, PeerType};

/// Number of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(pub(crate) u32);

/// Everything that what a peer hears depends on, but for what came from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupKey {
    pub(crate) family: Family,
    pub(crate) kind: PeerType,
    pub(crate) local_as: AsNumber,
    pub(crate) is_client: bool,
    pub(crate) next_hop: Mode,
    pub(crate) role: Option<Role>,
    pub(crate) channel: Channel,
    pub(crate) encode: EncodeContext,
    pub(crate) filters: Vec<Arc<Filter>>,
}

impl GroupKey {
    /// That of a peer; none if its session does not carry the family.
    pub(crate) fn of(peer: &RibPeer, family: Family) -> Option<Self> {
        let (settings, session) = (&peer.settings, peer.session.as_ref()?);
        Some(Self {
            family,
            kind: peer.kind(),
            local_as: settings.local_as,
            is_client: settings.policy.reflector_client,
            next_hop: settings.policy.next_hop,
            role: settings.role,
            // What the peer can ask for makes no difference to what it hears.
            channel: Channel { enhanced_refresh: false, ..peer.channel(family)? },
            encode: session.encode,
            filters: settings.policy.filters.clone(),
        })
    }
}

/// A route as the members hear it.
#[derive(Debug, Clone)]
pub(crate) struct Advert {
    pub(crate) set: Arc<PathSet>,
    /// Whose it is; none if it is ours.
    pub(crate) source: Option<PeerIndex>,
    /// Our name of the path.
    pub(crate) id: u16,
}

impl PartialEq for Advert {
    /// Sets are interned, so the pointer is the identity.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set, &other.set) && (self.source, self.id) == (other.source, other.id)
    }
}

/// What is told of a prefix.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// One route, as almost always.
    One(Advert),
    /// Nothing any more.
    Nothing,
    /// With add-path: each path that is told, or that is not any more.
    Paths(Box<[(u16, Option<Advert>)]>),
}

impl Told {
    pub(crate) fn is_nothing(&self) -> bool {
        match self {
            Self::One(_) => false,
            Self::Nothing => true,
            Self::Paths(paths) => paths.iter().all(|(_, advert)| advert.is_none()),
        }
    }

    /// The routes that are told.
    pub(crate) fn adverts(&self) -> impl Iterator<Item = &Advert> {
        let (one, paths): (Option<&Advert>, &[(u16, Option<Advert>)]) = match self {
            Self::One(advert) => (Some(advert), &[]),
            Self::Nothing => (None, &[]),
            Self::Paths(paths) => (None, paths),
        };
        one.into_iter().chain(paths.iter().filter_map(|(_, advert)| advert.as_ref()))
    }
}

/// A prefix that a group tells of.
#[derive(Debug)]
pub(crate) struct GroupEntry {
    /// When it last changed: its place in the log.
    pub(crate) version: u64,
    /// When it was first told: members that have not come so far know nothing of it.
    pub(crate) born: u64,
    pub(crate) told: Told,
    /// Whether routes of more than one source have been told, so that any of them may have to be taken back.
    pub(crate) is_mixed: bool,
}

/// A place in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) version: u64,
    pub(crate) id: PrefixId,
}

/// How far a member is.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// It knows everything up to here.
    pub(crate) cursor: u64,
    /// The farthest that it has ever been.
    pub(crate) reached: u64,
    /// An end-of-RIB marker follows once it knows everything.
    pub(crate) end_of_rib: bool,
    /// A BoRR is due.
    pub(crate) begin_refresh: bool,
    /// An EoRR follows once it knows everything.
    pub(crate) end_refresh: bool,
    /// What another group has told it before: taken back unless it hears of it again.
    pub(crate) owed: BTreeMap<Nlri, Option<Arc<PathSet>>>,
}

impl Member {
    /// Whether something follows once it knows everything.
    pub(crate) fn has_marker(&self) -> bool {
        self.end_of_rib || self.end_refresh || !self.owed.is_empty()
    }
}

/// Bytes that several members can be sent.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bytes: Arc<[u8]>,
    /// Whose routes are in it, sorted: for them it is not.
    pub(crate) sources: Vec<PeerIndex>,
    /// Members that have not come so far were not told of all that it takes back.
    pub(crate) needs: u64,
}

/// Chunks that are kept for others.
const CHUNKS: usize = 16;
/// Garbage that a log may have, whatever its length.
const GARBAGE: usize = 1024;

/// An update group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    pub(crate) members: BTreeMap<PeerIndex, Member>,
    pub(crate) entries: Paged<GroupEntry>,
    log: Vec<Place>,
    /// Version of the last change.
    head: u64,
    /// Entries that tell nothing.
    nothings: usize,
    /// Routes that are told.
    adverts: usize,
    /// Garbage that is worth no walk, because the last one left half as much.
    tolerated: usize,
    /// From here on, prefixes have still to be looked at, because all may be told otherwise.
    pub(crate) scan: Option<u32>,
    chunks: Vec<Chunk>,
    /// Whether anything changed since members were told that something waits.
    pub(crate) has_news: bool,
    pub(super) memo: Option<Memo>,
}

impl Group {
    pub(crate) fn new(key: GroupKey) -> Self {
        Self {
            key,
            members: BTreeMap::new(),
            entries: Paged::default(),
            log: Vec::new(),
            head: 0,
            nothings: 0,
            adverts: 0,
            tolerated: 0,
            scan: Some(0),
            chunks: Vec::new(),
            has_news: false,
            memo: None,
        }
    }

    pub(crate) const fn head(&self) -> u64 {
        self.head
    }

    /// Number of routes that are told.
    pub(crate) const fn adverts(&self) -> usize {
        self.adverts
    }

    pub(crate) const fn adds_paths(&self) -> bool {
        self.key.channel.add_path > 0
    }

    /// Says what is told of a prefix from now on: at most one route, or some with add-path. The answer is whether there is an entry more.
    pub(crate) fn tell(&mut self, id: PrefixId, adverts: &[Advert]) -> bool {
        let adds_paths = self.adds_paths();
        let Some(entry) = self.entries.get_mut(id) else {
            if adverts.is_empty() {
                return false;
            }
            self.head = self.head.saturating_add(1);
            let told = told(adds_paths, adverts, &Told::Nothing);
            let (version, is_mixed) = (self.head, has_several_sources(adverts));
            self.entries.insert(id, GroupEntry { version, born: version, told, is_mixed });
            self.log.push(Place { version, id });
            self.adverts = self.adverts.saturating_add(adverts.len());
            self.has_news = true;
            return true;
        };
        if entry.told.adverts().eq(adverts) {
            return false;
        }
        let was_nothing = entry.told.is_nothing();
        self.adverts = self.adverts.saturating_add(adverts.len()).saturating_sub(entry.told.adverts().count());
        let first = entry.told.adverts().chain(adverts).map(|advert| advert.source).next();
        let is_other = |advert: &Advert| Some(advert.source) != first;
        let has_others = entry.told.adverts().any(is_other) || adverts.iter().any(is_other);
        entry.is_mixed |= has_others || was_nothing;
        entry.told = told(adds_paths, adverts, &entry.told);
        self.nothings = match (was_nothing, adverts.is_empty()) {
            (false, true) => self.nothings.saturating_add(1),
            (true, false) => self.nothings.saturating_sub(1),
            _ => self.nothings,
        };
        self.head = self.head.saturating_add(1);
        let before = core::mem::replace(&mut entry.version, self.head);
        self.chunks.retain(|chunk| !(chunk.start < before && before <= chunk.end));
        self.log.push(Place { version: self.head, id });
        self.has_news = true;
        false
    }

    /// The log behind a member's place.
    pub(crate) fn log_after(&self, cursor: u64) -> &[Place] {
        let start = self.log.partition_point(|place| place.version <= cursor);
        self.log.get(start..).unwrap_or(&[])
    }

    pub(crate) fn chunk(&self, start: u64) -> Option<&Chunk> {
        self.chunks.iter().find(|chunk| chunk.start == start)
    }

    pub(crate) fn keep_chunk(&mut self, chunk: Chunk) {
        if self.chunks.len() >= CHUNKS {
            self.chunks.remove(0);
        }
        self.chunks.push(chunk);
    }

    /// Frees what nobody needs any more, if that is worth the while; `prefixes` gets those whose entries went.
    pub(crate) fn collect(&mut self, prefixes: &mut Vec<PrefixId>) {
        let knows_all = |member: &Member| member.cursor >= self.head;
        let garbage = self.log.len().saturating_sub(self.entries.len()).saturating_add(self.nothings);
        // A walk over everything is paid by what it frees.
        let is_worth_it = garbage.saturating_mul(2) > self.log.len();
        let is_much = garbage > self.tolerated.max(GARBAGE);
        let at_rest = (garbage > 0 || !self.chunks.is_empty()) && self.members.values().all(knows_all);
        if at_rest {
            self.chunks = Vec::new();
        }
        if !is_worth_it || !(at_rest || is_much) {
            return;
        }
        let waiting = Waiting::of(self);
        let (entries, nothings) = (&mut self.entries, &mut self.nothings);
        self.log.retain(|place| {
            let Some(entry) = entries.get_mut(place.id).filter(|entry| entry.version == place.version) else {
                return false;
            };
            if waiting.any(entry.born, entry.version) {
                return true;
            }
            if let Told::Paths(paths) = &mut entry.told
                && paths.iter().any(|(_, advert)| advert.is_none())
            {
                *paths = paths.iter().filter(|(_, advert)| advert.is_some()).cloned().collect();
            }
            if !entry.told.is_nothing() {
                return true;
            }
            entries.remove(place.id);
            *nothings = nothings.saturating_sub(1);
            prefixes.push(place.id);
            false
        });
        // What a slow member has yet to hear of stays: it is no reason to look at everything again and again.
        let left = self.log.len().saturating_sub(self.entries.len()).saturating_add(self.nothings);
        self.tolerated = left.saturating_mul(2);
        if self.log.capacity() > self.log.len().saturating_mul(4) {
            self.log.shrink_to(self.log.len().saturating_mul(2));
        }
    }

    /// A member leaves for another group: what it may have been told, and the route if it is sure.
    pub(crate) fn told_to(&self, peer: PeerIndex, mut each: impl FnMut(PrefixId, u16, Option<&Arc<PathSet>>)) {
        let Some(member) = self.members.get(&peer) else { return };
        for (id, entry) in self.entries.iter().filter(|(_, entry)| entry.born <= member.reached) {
            let is_known = entry.version <= member.cursor;
            match &entry.told {
                Told::One(advert) if is_known && advert.source == Some(peer) => {}
                Told::One(advert) => each(id, 0, Some(&advert.set).filter(|_| is_known)),
                Told::Nothing if is_known => {}
                Told::Nothing => each(id, 0, None),
                Told::Paths(paths) => {
                    for (name, advert) in paths {
                        let set =
                            advert.as_ref().filter(|advert| advert.source != Some(peer)).map(|advert| &advert.set);
                        if !is_known || set.is_some() {
                            each(id, *name, set.filter(|_| is_known));
                        }
                    }
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) const fn log_len(&self) -> usize {
        self.log.len()
    }
}

/// Where members are that do not know everything.
struct Waiting {
    /// Places of those that have never been farther, sorted.
    cursors: Vec<u64>,
    /// Of those that hear everything again, also how far they have been.
    again: Vec<(u64, u64)>,
}

impl Waiting {
    fn of(group: &Group) -> Self {
        let (mut cursors, mut again) = (Vec::new(), Vec::new());
        for member in group.members.values().filter(|member| member.cursor < group.head) {
            if member.reached > member.cursor {
                again.push((member.cursor, member.reached));
            } else {
                cursors.push(member.cursor);
            }
        }
        cursors.sort_unstable();
        cursors.dedup();
        Self { cursors, again }
    }

    /// Whether there is a member that was told of something that was `born` then, and does not know what became of it at `version`.
    fn any(&self, born: u64, version: u64) -> bool {
        let first = self.cursors.partition_point(|cursor| *cursor < born);
        self.cursors.get(first).is_some_and(|cursor| *cursor < version)
            || self.again.iter().any(|(cursor, reached)| *cursor < version && *reached >= born)
    }
}

fn has_several_sources(adverts: &[Advert]) -> bool {
    adverts.iter().any(|advert| adverts.first().is_some_and(|first| first.source != advert.source))
}

/// Paths that were told before and are not now stay, so that they can be taken back.
fn told(adds_paths: bool, adverts: &[Advert], before: &Told) -> Told {
    match (adds_paths, adverts) {
        (false, [advert, ..]) => Told::One(advert.clone()),
        (false, []) => Told::Nothing,
        (true, _) => {
            let gone = match before {
                Told::Paths(paths) => paths.iter().map(|(name, _)| *name).collect(),
                Told::One(_) | Told::Nothing => Vec::new(),
            };
            let gone = gone.into_iter().filter(|name| adverts.iter().all(|advert| advert.id != *name));
            let gone: Vec<u16> = gone.collect();
            let now = adverts.iter().map(|advert| (advert.id, Some(advert.clone())));
            Told::Paths(now.chain(gone.into_iter().map(|name| (name, None))).collect())
        }
    }
}
