//! The machine: what is configured, and how its parts hang together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use calico_core::bgp::{ByFamily, ExportPolicy, Families, LocalSpeaker, Origin, Originated, PRIORITY_SUM, PeerId};
use calico_core::net::{Cidr, Family};

use super::decision;
use super::group::{Group, GroupId};
use super::intern::{Interner, PathSet};
use super::peer::{PeerSettings, Peers, RibPeer, of};
use super::policy::local_pref;
use super::report::{self, Forward, RouteReport};
use super::table::{Chosen, Entry, PrefixId, Queue, Table};
use crate::session::peer_index::PeerIndex;

/// The routing information bases of one speaker; see the [module](super).
#[derive(Debug, Default)]
pub(crate) struct Rib {
    pub(super) local: Option<LocalSpeaker>,
    pub(super) policy: Arc<ExportPolicy>,
    pub(super) originated: BTreeMap<Cidr, Originated>,
    pub(super) peers: Peers,
    pub(super) tables: ByFamily<Table>,
    pub(super) queues: ByFamily<Queues>,
    pub(super) sets: Interner<PathSet>,
    pub(super) forwards: Interner<Forward>,
    pub(super) groups: BTreeMap<GroupId, Group>,
    pub(super) next_group: u32,
    /// Peers whose policy has changed, so that they may belong to another group.
    pub(super) regroup: BTreeSet<PeerIndex>,
    /// Peers for whom something waits and to whom the transport has not turned yet.
    pub(super) ready: VecDeque<PeerIndex>,
    /// Whether a member waits for everything to be looked at.
    pub(super) has_markers: bool,
}

/// Prefixes to be looked at again.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) export: VecDeque<PrefixId>,
    pub(super) report: VecDeque<PrefixId>,
}

impl Queues {
    /// Everybody looks at a prefix again.
    pub(super) fn push(&mut self, id: PrefixId, entry: &mut Entry) {
        if entry.enqueue(Queue::Export) {
            self.export.push_back(id);
        }
        if entry.enqueue(Queue::Report) {
            self.report.push_back(id);
        }
    }
}

/// What the decision for a prefix depends on, beside its paths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) peers: &'a Peers,
    pub(super) originated: &'a BTreeMap<Cidr, Originated>,
    pub(super) policy: &'a ExportPolicy,
    pub(super) family: Family,
}

impl Judge<'_> {
    pub(super) fn decide(&self, entry: &Entry) -> Chosen {
        let paths = entry.paths.as_slice();
        let best = decision::best(paths, self.peers, self.family);
        let own = entry.originated.then(|| self.originated.get(&entry.prefix)).flatten();
        match (own, best) {
            (Some(own), Some(place)) if self.is_moving_away(own, paths.get(place)) => Chosen::Path(place),
            (Some(_), _) => Chosen::Originated,
            (None, Some(place)) => Chosen::Path(place),
            (None, None) => Chosen::Nothing,
        }
    }

    /// What we originate beats every path, but for a workload that is being moved: the host that it moves to announces it with elevated
    /// priority while it is still here.
    fn is_moving_away(&self, own: &Originated, path: Option<&super::path::Path>) -> bool {
        let Some(set) = path.and_then(|path| path.accepted.as_deref()) else { return false };
        let theirs = PRIORITY_SUM.saturating_sub(local_pref(&set.attributes));
        let is_elevated = theirs < *self.policy.normal_priority.get(self.family);
        own.origin == Origin::Workload && is_elevated && theirs < own.priority
    }
}

impl Rib {
    /// This speaker. A change of anything that routes depend on comes while no session is up.
    pub(crate) fn set_local(&mut self, local: Option<LocalSpeaker>) {
        if self.local != local {
            self.local = local;
            self.rescan();
        }
    }

    /// What peers may hear is another matter now: every prefix is looked at again, and only what differs is sent.
    pub(crate) fn set_export(&mut self, policy: &Arc<ExportPolicy>) {
        if self.policy == *policy {
            return;
        }
        let thresholds_differ = self.policy.normal_priority != policy.normal_priority;
        self.policy = Arc::clone(policy);
        self.rescan();
        if thresholds_differ {
            for prefix in self.originated.keys().copied().collect::<Vec<_>>() {
                self.reconsider(prefix);
            }
        }
    }

    fn rescan(&mut self) {
        for group in self.groups.values_mut() {
            group.scan = Some(0);
        }
    }

    /// What this node originates.
    pub(crate) fn set_originated(&mut self, wanted: &[Originated]) {
        let wanted: BTreeMap<Cidr, Originated> = wanted.iter().map(|one| (one.prefix, *one)).collect();
        let known = core::mem::replace(&mut self.originated, wanted);
        let gone = known.keys().filter(|prefix| !self.originated.contains_key(prefix));
        let new = self.originated.iter().filter(|(prefix, one)| known.get(prefix) != Some(one));
        let changed: Vec<Cidr> = gone.chain(new.map(|(prefix, _)| prefix)).copied().collect();
        for prefix in changed {
            let is_originated = self.originated.contains_key(&prefix);
            let table = of(&mut self.tables, prefix.family());
            let id = table.find_or_insert(prefix);
            if let Some(entry) = table.get_mut(id) {
                entry.originated = is_originated;
            }
            self.reconsider(prefix);
        }
    }

    /// Decides about a prefix again, and has everybody look at it.
    pub(super) fn reconsider(&mut self, prefix: Cidr) {
        let family = prefix.family();
        let judge = Judge { peers: &self.peers, originated: &self.originated, policy: &self.policy, family };
        let table = of(&mut self.tables, family);
        let Some(id) = table.find(&prefix) else { return };
        if let Some(entry) = table.get_mut(id) {
            entry.choose(judge.decide(entry));
            of(&mut self.queues, family).push(id, entry);
        }
    }

    /// A peer, or what has changed about it. What was received is judged anew, without asking the peer for it again.
    pub(crate) fn set_peer(&mut self, index: PeerIndex, settings: PeerSettings) {
        let Some(known) = self.peers.get_mut(index) else {
            return self.peers.insert(index, RibPeer::new(settings));
        };
        if known.settings == settings {
            return;
        }
        let is_passed_on_otherwise = known.settings.policy.reflector_client != settings.policy.reflector_client;
        known.settings = settings;
        self.regroup.insert(index);
        self.judge_again(index);
        if is_passed_on_otherwise {
            Families::BOTH.iter().for_each(|family| self.reconsider_all(index, family));
        }
    }

    /// A peer is gone, with all that it announced.
    pub(crate) fn remove_peer(&mut self, index: PeerIndex) {
        self.session_down(index);
        Families::BOTH.iter().for_each(|family| self.retain(index, family, super::Retain::Drop));
        self.regroup.remove(&index);
        self.ready.retain(|known| *known != index);
        self.peers.remove(index);
    }

    /// The next change of what the host should do.
    pub(crate) fn poll_report(&mut self) -> Option<RouteReport> {
        for family in Families::BOTH.iter() {
            while let Some(id) = of(&mut self.queues, family).report.pop_front() {
                let table = of(&mut self.tables, family);
                let report = report::report(table, id, &self.peers, family, &mut self.forwards);
                if report.is_some() {
                    return report;
                }
            }
        }
        None
    }

    /// Whose number it is.
    pub(crate) fn id_of(&self, index: PeerIndex) -> Option<PeerId> {
        self.peers.get(index).map(|peer| peer.settings.id)
    }

    /// Number of prefixes with anything known of them.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn len(&self) -> usize {
        self.tables.ipv4.len() + self.tables.ipv6.len()
    }

    /// Length of the longest log.
    #[cfg(test)]
    pub(crate) fn log_len(&self) -> usize {
        self.groups.values().map(Group::log_len).max().unwrap_or(0)
    }

    /// Number of update groups.
    #[cfg(test)]
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Forgets sets that nobody uses, and says how many are left.
    #[cfg(test)]
    pub(crate) fn sets(&mut self) -> usize {
        self.sets.sweep();
        self.forwards.sweep();
        self.sets.len() + self.forwards.len()
    }
}
