//! From decisions to update groups, a bounded amount of work at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use calico_core::bgp::Families;
use calico_core::net::Family;

use super::decision;
use super::export::{Exporter, Offer, Withheld};
use super::group::{Advert, Group, GroupId, GroupKey, Member};
use super::intern::{Interner, PathSet};
use super::machine::{Judge, Rib};
use super::path::ORIGINATED_ID;
use super::peer::of;
use super::table::{Chosen, Entry, PrefixId, Queue};
use crate::session::peer_index::PeerIndex;
use crate::wire::{Nlri, PathId};

/// Prefixes looked at in one go: far less than a hold time of work.
const QUANTUM: usize = 8192;

/// What the last path became: the next one is mostly like it.
#[derive(Debug)]
pub(super) struct Memo {
    input: Arc<PathSet>,
    source: PeerIndex,
    is_long_lived: bool,
    /// Address of the rule that decided; the group holds its filters.
    rule: Option<usize>,
    output: Result<Arc<PathSet>, Withheld>,
}

impl Rib {
    /// The next peer for whom something waits. It is named again only after [`poll_transmit`](Self::poll_transmit) had nothing for it.
    pub(crate) fn poll_ready(&mut self) -> Option<PeerIndex> {
        loop {
            while let Some(ready) = self.ready.pop_front() {
                // Its session may have ended, or it has been read already.
                if self.peers.get(ready).is_some_and(|peer| peer.is_ready) {
                    return Some(ready);
                }
            }
            if !self.advance() {
                return None;
            }
        }
    }

    /// Does some of the work that waits. Says whether there was any.
    fn advance(&mut self) -> bool {
        self.change_groups();
        let mut left = QUANTUM;
        for family in Families::BOTH.iter() {
            while left > 0
                && let Some(id) = of(&mut self.queues, family).export.pop_front()
            {
                left = left.saturating_sub(1);
                if let Some(entry) = of(&mut self.tables, family).get_mut(id) {
                    entry.dequeue(Queue::Export);
                }
                self.evaluate(family, id);
                of(&mut self.tables, family).release(id);
            }
        }
        self.scan(&mut left);
        let has_worked = left < QUANTUM;
        if !has_worked && core::mem::take(&mut self.has_markers) {
            self.groups.values_mut().for_each(|group| group.has_news = true);
        }
        self.call_members();
        has_worked || !self.ready.is_empty()
    }

    /// Looks at prefixes for groups that are new, or for whom everything may be different.
    fn scan(&mut self, left: &mut usize) {
        let due: Vec<GroupId> =
            self.groups.iter().filter(|(_, group)| group.scan.is_some()).map(|(id, _)| *id).collect();
        for group_id in due {
            while *left > 0 {
                let Some(group) = self.groups.get_mut(&group_id) else { break };
                let Some(next) = group.scan else { break };
                let family = group.key.family;
                *left = left.saturating_sub(1);
                if next >= self.tables.get(family).end() {
                    group.scan = None;
                    group.has_news = true;
                    break;
                }
                group.scan = Some(next.saturating_add(1));
                let view = View::of(&self.local, &self.peers, &self.originated, &self.policy, family);
                view.tell(of(&mut self.tables, family), PrefixId(next), group, &mut self.sets);
            }
        }
    }

    fn evaluate(&mut self, family: Family, id: PrefixId) {
        let view = View::of(&self.local, &self.peers, &self.originated, &self.policy, family);
        let table = of(&mut self.tables, family);
        for group in self.groups.values_mut().filter(|group| group.key.family == family) {
            view.tell(table, id, group, &mut self.sets);
        }
    }

    /// Names the members of groups with news.
    fn call_members(&mut self) {
        for group in self.groups.values_mut() {
            group.memo = None;
            if !core::mem::take(&mut group.has_news) {
                continue;
            }
            for index in group.members.keys() {
                if let Some(peer) = self.peers.get_mut(*index)
                    && !core::mem::replace(&mut peer.is_ready, true)
                {
                    self.ready.push_back(*index);
                }
            }
        }
    }

    /// A peer's session is up: it starts at the beginning of its groups' logs.
    pub(super) fn join_groups(&mut self, index: PeerIndex) {
        for family in Families::BOTH.iter() {
            self.join(index, family, Member::default());
        }
    }

    fn join(&mut self, index: PeerIndex, family: Family, member: Member) {
        let Some(key) = self.peers.get(index).and_then(|peer| GroupKey::of(peer, family)) else { return };
        let known = self.groups.iter().find(|(_, group)| group.key == key).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| {
            self.next_group = self.next_group.wrapping_add(1);
            let id = GroupId(self.next_group);
            self.groups.insert(id, Group::new(key));
            id
        });
        if let Some(group) = self.groups.get_mut(&id) {
            group.members.insert(index, member);
            group.has_news = true;
        }
        if let Some(peer) = self.peers.get_mut(index) {
            *of(&mut peer.groups, family) = Some(id);
        }
        self.has_markers = true;
    }

    pub(super) fn leave_groups(&mut self, index: PeerIndex) {
        for family in Families::BOTH.iter() {
            self.leave(index, family);
        }
    }

    fn leave(&mut self, index: PeerIndex, family: Family) {
        let Some(id) = self.peers.get_mut(index).and_then(|peer| of(&mut peer.groups, family).take()) else { return };
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.members.remove(&index);
        if !group.members.is_empty() {
            return;
        }
        if let Some(group) = self.groups.remove(&id) {
            let table = of(&mut self.tables, family);
            group.entries.iter().for_each(|(id, _)| table.group_entry(id, false));
        }
    }

    /// Peers whose policy has changed hear other things now. A group whose members all change alike stays one, and only what differs is
    /// sent; whoever changes alone takes along what it was told.
    fn change_groups(&mut self) {
        let moving = core::mem::take(&mut self.regroup);
        for family in Families::BOTH.iter() {
            let mut targets: BTreeMap<GroupId, Vec<(PeerIndex, GroupKey)>> = BTreeMap::new();
            for index in &moving {
                let Some(peer) = self.peers.get(*index) else { continue };
                let (Some(id), Some(key)) = (*peer.groups.get(family), GroupKey::of(peer, family)) else { continue };
                if self.groups.get(&id).is_some_and(|group| group.key != key) {
                    targets.entry(id).or_default().push((*index, key));
                }
            }
            for (id, moves) in targets {
                let Some((_, first)) = moves.first() else { continue };
                let is_alike = moves.iter().all(|(_, key)| key == first);
                let is_free = self.groups.values().all(|group| group.key != *first);
                match self.groups.get_mut(&id) {
                    Some(group) if is_alike && is_free && group.members.len() == moves.len() => {
                        group.key = first.clone();
                        group.scan = Some(0);
                    }
                    _ => moves.iter().for_each(|(index, _)| self.change_group(*index, family, id)),
                }
            }
        }
    }

    fn change_group(&mut self, index: PeerIndex, family: Family, from: GroupId) {
        let mut owed = BTreeMap::new();
        let Some(group) = self.groups.get_mut(&from) else { return };
        let table = self.tables.get(family);
        group.told_to(index, |id, name, set| {
            if let Some(entry) = table.get(id) {
                owed.insert(Nlri { prefix: entry.prefix, path_id: PathId::new(name.into()) }, set.cloned());
            }
        });
        let Some(before) = group.members.get_mut(&index).map(core::mem::take) else { return };
        let mut member = Member { owed: before.owed, ..Member::default() };
        member.owed.extend(owed);
        (member.end_of_rib, member.end_refresh) = (before.end_of_rib, before.end_refresh);
        member.begin_refresh = before.begin_refresh;
        self.leave(index, family);
        self.join(index, family, member);
    }
}

/// All that exports depend on, borrowed apart from what they change.
struct View<'a> {
    local: Option<&'a calico_core::bgp::LocalSpeaker>,
    judge: Judge<'a>,
}

impl<'a> View<'a> {
    fn of(
        local: &'a Option<calico_core::bgp::LocalSpeaker>,
        peers: &'a super::peer::Peers,
        originated: &'a BTreeMap<calico_core::net::Cidr, calico_core::bgp::Originated>,
        policy: &'a calico_core::bgp::ExportPolicy,
        family: Family,
    ) -> Self {
        Self { local: local.as_ref(), judge: Judge { peers, originated, policy, family } }
    }

    /// Tells a group of a prefix as it is now.
    fn tell(&self, table: &mut super::table::Table, id: PrefixId, group: &mut Group, sets: &mut Interner<PathSet>) {
        let Some(entry) = table.get(id) else { return };
        let is_new = if group.adds_paths() {
            let adverts = self.several(entry, group, sets);
            group.tell(id, &adverts)
        } else {
            let advert = self.offer(entry, entry.chosen()).and_then(|offer| self.advert(entry, offer, group, sets));
            group.tell(id, advert.as_slice())
        };
        if is_new {
            table.group_entry(id, true);
        }
    }

    fn offer<'b>(&self, entry: &'b Entry, chosen: Chosen) -> Option<(Offer<'b>, Chosen)>
    where
        'a: 'b,
    {
        match chosen {
            Chosen::Nothing => None,
            Chosen::Originated => self.judge.originated.get(&entry.prefix).map(|own| (Offer::Originated(own), chosen)),
            Chosen::Path(place) => {
                let path = entry.paths.as_slice().get(place)?;
                let candidate = decision::candidate(place, path, self.judge.peers, self.judge.family)?;
                Some((Offer::Path(candidate), chosen))
            }
        }
    }

    /// The best paths that may go out, at most as many as the group takes.
    fn several(&self, entry: &Entry, group: &mut Group, sets: &mut Interner<PathSet>) -> Vec<Advert> {
        let count = usize::from(group.key.channel.add_path);
        let mut chosen: Vec<Chosen> =
            decision::ranked(entry.paths.as_slice(), self.judge.peers, self.judge.family, count)
                .into_iter()
                .map(Chosen::Path)
                .collect();
        if entry.originated {
            let place = usize::from(entry.chosen() != Chosen::Originated).min(chosen.len());
            chosen.insert(place, Chosen::Originated);
        }
        let offers = chosen.into_iter().take(count).filter_map(|chosen| self.offer(entry, chosen));
        offers.filter_map(|offer| self.advert(entry, offer, group, sets)).collect()
    }

    fn advert(
        &self,
        entry: &Entry,
        (offer, chosen): (Offer<'_>, Chosen),
        group: &mut Group,
        sets: &mut Interner<PathSet>,
    ) -> Option<Advert> {
        let mut memo = group.memo.take();
        let exporter = Exporter { local: self.local?, policy: self.judge.policy, key: &group.key };
        let permit = exporter.permit(entry.prefix, offer).ok()?;
        let mut compose = || exporter.compose(offer, &permit).map(|set| sets.intern(set));
        let (set, source, id) = match (offer, chosen) {
            (Offer::Path(candidate), Chosen::Path(place)) => {
                let path = entry.paths.as_slice().get(place)?;
                let input = path.accepted.as_ref()?;
                let rule = permit.rule.map(|rule| core::ptr::from_ref(rule).addr());
                let known = memo.as_ref().filter(|memo| {
                    let is_plain = permit.communities.is_empty();
                    is_plain
                        && Arc::ptr_eq(&memo.input, input)
                        && (memo.source, memo.is_long_lived, memo.rule) == (path.peer, candidate.is_long_lived, rule)
                });
                let output = known.map_or_else(&mut compose, |memo| memo.output.clone());
                if known.is_none() && permit.communities.is_empty() {
                    memo = Some(Memo {
                        input: Arc::clone(input),
                        source: path.peer,
                        is_long_lived: candidate.is_long_lived,
                        rule,
                        output: output.clone(),
                    });
                }
                group.memo = memo;
                (output.ok()?, Some(path.peer), path.own_id)
            }
            _ => (compose().ok()?, None, ORIGINATED_ID),
        };
        let id = if group.adds_paths() { id } else { 0 };
        Some(Advert { set, source, id })
    }
}
