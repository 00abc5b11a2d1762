//! What goes out to one peer: packed UPDATEs, and the markers that say that all is said.

use std::collections::HashMap;
use std::sync::Arc;

use calico_core::bgp::Families;
use calico_core::net::Family;

use super::group::{Advert, Chunk, Group, GroupEntry, Member, Place, Told};
use super::intern::PathSet;
use super::machine::Rib;
use super::peer::of;
use super::table::{PrefixId, Table};
use crate::session::peer_index::PeerIndex;
use crate::wire::update::{encode_announcements, encode_end_of_rib, encode_withdrawals};
use crate::wire::{AddressFamily, EncodeContext, Nlri, PathId, RefreshKind, RouteRefresh};

/// Prefixes looked at in one go: some full messages.
const QUANTUM: usize = 2048;
/// Octets of attributes in one go: prefixes without company are long.
const WEIGHT: usize = 1 << 16;

impl Rib {
    /// Appends the next messages for a peer, some more than `budget` octets at most. Nothing appended means that there is nothing to say
    /// and that [`poll_ready`](Self::poll_ready) will name the peer again when there is.
    pub(crate) fn poll_transmit(&mut self, index: PeerIndex, budget: usize, into: &mut Vec<u8>) {
        let before = into.len();
        while into.len().saturating_sub(before) < budget
            && Families::BOTH.iter().any(|family| self.transmit(index, family, into))
        {}
        if into.len() == before
            && let Some(peer) = self.peers.get_mut(index)
        {
            peer.is_ready = false;
        }
    }

    /// One step. Says whether there was one to take: it may turn out to need no message.
    fn transmit(&mut self, index: PeerIndex, family: Family, into: &mut Vec<u8>) -> bool {
        let Some(id) = self.peers.get(index).and_then(|peer| *peer.groups.get(family)) else { return false };
        let is_quiet = self.regroup.is_empty() && self.queues.get(family).export.is_empty();
        let Some(group) = self.groups.get_mut(&id) else { return false };
        let table = of(&mut self.tables, family);
        let has_stepped = group.step(index, table, is_quiet, into);
        // What is not said yet because something else has to be looked at first must not be forgotten.
        self.has_markers |= !has_stepped && group.members.get(&index).is_some_and(Member::has_marker);
        let mut freed = Vec::new();
        group.collect(&mut freed);
        freed.into_iter().for_each(|id| table.group_entry(id, false));
        has_stepped
    }

    /// Sends a peer an end-of-RIB marker for each family once it knows everything.
    pub(crate) fn finish(&mut self, index: PeerIndex) {
        self.for_members(index, Families::BOTH, |member, _| member.end_of_rib = true);
    }

    /// The peer asks for everything again.
    pub(crate) fn refresh(&mut self, index: PeerIndex, family: Family) {
        self.for_members(index, Families::only(family), |member, is_enhanced| {
            member.cursor = 0;
            (member.begin_refresh, member.end_refresh) = (is_enhanced, is_enhanced);
        });
    }

    fn for_members(&mut self, index: PeerIndex, families: Families, change: impl Fn(&mut Member, bool)) {
        for family in families.iter() {
            let Some(peer) = self.peers.get(index) else { return };
            let is_enhanced = peer.channel(family).is_some_and(|channel| channel.enhanced_refresh);
            let group = peer.groups.get(family).and_then(|id| self.groups.get_mut(&id));
            if let Some(group) = group
                && let Some(member) = group.members.get_mut(&index)
            {
                change(member, is_enhanced);
                self.has_markers = true;
                group.has_news = true;
            }
        }
    }
}

impl Group {
    fn step(&mut self, index: PeerIndex, table: &Table, is_quiet: bool, into: &mut Vec<u8>) -> bool {
        let (family, head, is_scanned) = (self.key.family, self.head(), self.scan.is_none());
        let Some(member) = self.members.get_mut(&index) else { return false };
        let marker = |kind| RouteRefresh { family: AddressFamily::unicast(family), kind }.encode();
        if core::mem::take(&mut member.begin_refresh) {
            into.extend(marker(RefreshKind::Begin));
            return true;
        }
        if member.cursor < head {
            self.send_next(index, table, into);
            return true;
        }
        if !(is_quiet && is_scanned) {
            return false;
        }
        if !member.owed.is_empty() {
            let rest = member.owed.len().min(QUANTUM);
            let due: Vec<Nlri> =
                core::iter::from_fn(|| member.owed.pop_first()).take(rest).map(|(nlri, _)| nlri).collect();
            encode_withdrawals(&due, self.key.encode, into);
            return true;
        }
        if core::mem::take(&mut member.end_refresh) {
            into.extend(marker(RefreshKind::End));
            return true;
        }
        if core::mem::take(&mut member.end_of_rib) {
            encode_end_of_rib(family, into);
            return true;
        }
        false
    }

    /// Sends a member what comes next in the log. What is the same for others is kept for them.
    fn send_next(&mut self, index: PeerIndex, table: &Table, into: &mut Vec<u8>) {
        let is_alone = self.members.len() == 1;
        let Some(member) = self.members.get(&index) else { return };
        let (cursor, reached, is_plain) = (member.cursor, member.reached, member.owed.is_empty());
        if !is_alone && self.chunk(cursor).is_none() {
            let chunk = self.draft(cursor, None, table).into_chunk(cursor, self.key.encode);
            self.keep_chunk(chunk);
        }
        let shared = self
            .chunk(cursor)
            .filter(|chunk| is_plain && chunk.needs <= reached && chunk.sources.binary_search(&index).is_err());
        let end = match shared {
            Some(chunk) => {
                into.extend_from_slice(&chunk.bytes);
                chunk.end
            }
            None => {
                let mut owed = self.members.get_mut(&index).map(|member| core::mem::take(&mut member.owed));
                let reader = Reader { index, reached, owed: owed.as_mut() };
                let draft = self.draft(cursor, Some(reader), table);
                let end = draft.end;
                draft.encode(self.key.encode, into);
                if let (Some(member), Some(owed)) = (self.members.get_mut(&index), owed) {
                    member.owed = owed;
                }
                end
            }
        };
        if let Some(member) = self.members.get_mut(&index) {
            member.cursor = end;
            member.reached = member.reached.max(end);
        }
    }

    /// Gathers what comes after a place in the log, for a member or for any.
    fn draft(&self, cursor: u64, mut reader: Option<Reader<'_>>, table: &Table) -> Draft {
        let mut draft = Draft { end: cursor, ..Draft::default() };
        let (mut count, mut weight) = (0_usize, 0_usize);
        for Place { version, id } in self.log_after(cursor) {
            if count >= QUANTUM || weight >= WEIGHT {
                return draft;
            }
            draft.end = *version;
            let Some(entry) = self.entries.get(*id).filter(|entry| entry.version == *version) else { continue };
            count = count.saturating_add(1);
            weight = weight.saturating_add(draft.take(*id, entry, table, reader.as_mut()));
        }
        // What changed last may have changed again since: its place is gone, and nothing is behind it.
        draft.end = self.head();
        draft
    }
}

/// Whom a draft is for.
struct Reader<'a> {
    index: PeerIndex,
    /// What was born later it has never heard of.
    reached: u64,
    owed: Option<&'a mut std::collections::BTreeMap<Nlri, Option<Arc<PathSet>>>>,
}

impl Reader<'_> {
    /// Settles what was owed for a path. Says whether the peer has been told just that already.
    fn settle(&mut self, nlri: Nlri, set: Option<&Arc<PathSet>>) -> bool {
        let owed = self.owed.as_mut().and_then(|owed| owed.remove(&nlri)).flatten();
        matches!((owed, set), (Some(owed), Some(set)) if Arc::ptr_eq(&owed, set))
    }
}

/// Messages to be.
#[derive(Debug, Default)]
struct Draft {
    end: u64,
    withdrawn: Vec<Nlri>,
    /// In the order of their first use, so that runs from one seed are equal.
    announced: Vec<(Arc<PathSet>, Vec<Nlri>)>,
    /// By identity of the set.
    places: HashMap<*const PathSet, usize>,
    sources: Vec<PeerIndex>,
    needs: u64,
}

impl Draft {
    /// Takes in a prefix. Says how many octets of attributes that brings.
    fn take(&mut self, id: PrefixId, entry: &GroupEntry, table: &Table, mut reader: Option<&mut Reader<'_>>) -> usize {
        let Some(prefix) = table.get(id).map(|known| known.prefix) else { return 0 };
        let nlri = |name: u16| Nlri { prefix, path_id: PathId::new(name.into()) };
        let mut paths = |draft: &mut Self, name: u16, advert: Option<&Advert>| {
            let nlri = nlri(name);
            match advert {
                Some(advert) => draft.announce(nlri, advert, entry, reader.as_deref_mut()),
                None => draft.withdraw(nlri, entry, reader.as_deref_mut()),
            }
        };
        match &entry.told {
            Told::One(advert) => paths(self, 0, Some(advert)),
            Told::Nothing => paths(self, 0, None),
            Told::Paths(all) => {
                all.iter().map(|(name, advert)| paths(self, *name, advert.as_ref())).fold(0, usize::saturating_add)
            }
        }
    }

    fn announce(&mut self, nlri: Nlri, advert: &Advert, entry: &GroupEntry, reader: Option<&mut Reader<'_>>) -> usize {
        match reader {
            // Its own: it must not think that ours is still there.
            Some(reader) if advert.source == Some(reader.index) => {
                if entry.is_mixed && entry.born <= reader.reached {
                    self.withdrawn.push(nlri);
                }
                return 0;
            }
            Some(reader) => {
                if reader.settle(nlri, Some(&advert.set)) {
                    return 0;
                }
            }
            None => {
                if let Some(source) = advert.source
                    && let Err(place) = self.sources.binary_search(&source)
                {
                    self.sources.insert(place, source);
                }
            }
        }
        let next = self.announced.len();
        let place = *self.places.entry(Arc::as_ptr(&advert.set)).or_insert(next);
        match self.announced.get_mut(place) {
            Some((_, routes)) => {
                routes.push(nlri);
                0
            }
            None => {
                self.announced.push((Arc::clone(&advert.set), vec![nlri]));
                weight(&advert.set)
            }
        }
    }

    fn withdraw(&mut self, nlri: Nlri, entry: &GroupEntry, reader: Option<&mut Reader<'_>>) -> usize {
        match reader {
            Some(reader) => {
                // What was owed stays owed, if it has not been told here.
                if entry.born <= reader.reached {
                    reader.settle(nlri, None);
                    self.withdrawn.push(nlri);
                }
            }
            None => {
                self.needs = self.needs.max(entry.born);
                self.withdrawn.push(nlri);
            }
        }
        0
    }

    fn into_chunk(self, start: u64, context: EncodeContext) -> Chunk {
        let (end, sources, needs) = (self.end, self.sources.clone(), self.needs);
        let mut bytes = Vec::new();
        self.encode(context, &mut bytes);
        Chunk { start, end, bytes: bytes.into(), sources, needs }
    }

    /// Withdrawals first, then announcements grouped by what they say.
    fn encode(mut self, context: EncodeContext, into: &mut Vec<u8>) {
        let mut announcements = Vec::new();
        for (set, routes) in self.announced {
            let (attributes, next_hop) = (&set.attributes, set.next_hop);
            if let Err(error) = encode_announcements(attributes, next_hop, &routes, context, &mut announcements) {
                tracing::warn!(?routes, %error, "these prefixes cannot be sent: they are withdrawn instead");
                // What the peer may have heard before leads nowhere any more.
                self.withdrawn.extend(routes);
            }
        }
        encode_withdrawals(&self.withdrawn, context, into);
        into.append(&mut announcements);
    }
}

/// About how many octets a set's attributes take.
fn weight(set: &PathSet) -> usize {
    let (attributes, extra) = (&set.attributes, &set.attributes.extra);
    let numbers = [attributes.as_path.len(), attributes.communities.len(), attributes.cluster_list.len()];
    let large =
        [extra.large_communities.len(), extra.extended_communities.len(), extra.ipv6_extended_communities.len()];
    let octets =
        |counts: [usize; 3], each: usize| counts.into_iter().fold(0_usize, usize::saturating_add).saturating_mul(each);
    let others = extra.others.iter().map(|other| other.value.len()).fold(0, usize::saturating_add);
    [64, octets(numbers, 4), octets(large, 20), others].into_iter().fold(0, usize::saturating_add)
}
