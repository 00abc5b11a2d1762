//! The machine against a twin that knows no groups, no logs and no interning: it keeps what every peer said and computes from scratch what
//! each should hear.

use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;
use std::sync::Arc;

use calico_core::bgp::{
    Community, ExportPolicy, Exported, Filter, FilterOperation, FilterRule, NextHop as Mode, Origin, Originated,
    PRIORITY_SUM, PrefixMatch, PrefixOperator, Role, RouteDirection, RouteView, SessionKind, first_match,
};
use calico_core::net::{AsNumber, Cidr, Family};

use super::support::{Bench, OWN, OWN_AS, address, cidr, client, path, session, settings, us, with_role};
use crate::random::Random;
use crate::rib::{PeerSettings, Retain, Session};
use crate::session::peer_index::PeerIndex;
use crate::wire::attribute::{LLGR_STALE, NO_ADVERTISE, NO_EXPORT, NO_LLGR};
use crate::wire::{NextHop, Nlri, PathAttributes, PathId};

const PREFIXES: [&str; 9] = [
    "10.1.0.0/26",
    "10.1.0.64/26",
    "10.1.0.1/32",
    "10.9.0.0/26",
    "10.9.1.0/26",
    "0.0.0.0/0",
    "2001:db8:1::/64",
    "2001:db8:2::/64",
    "2001:db8:2::1/128",
];

/// A path as the twin keeps it.
#[derive(Debug, Clone)]
struct Said {
    attributes: PathAttributes,
    next_hop: NextHop,
    is_stale: bool,
    is_long_lived: bool,
}

#[derive(Debug)]
struct TwinPeer {
    settings: PeerSettings,
    session: Session,
    is_up: bool,
    said: BTreeMap<Nlri, Said>,
}

#[derive(Debug, Default)]
struct Twin {
    peers: BTreeMap<PeerIndex, TwinPeer>,
    originated: BTreeMap<Cidr, Originated>,
    policy: ExportPolicy,
}

/// A candidate for a prefix.
#[derive(Debug, Clone)]
struct Candidate {
    index: PeerIndex,
    path_id: PathId,
    attributes: PathAttributes,
    next_hop: NextHop,
    is_long_lived: bool,
}

fn is_internal(settings: &PeerSettings) -> bool {
    settings.local_as == settings.remote_as
}

fn judge<'a>(
    settings: &'a PeerSettings,
    direction: RouteDirection,
    prefix: Cidr,
    attributes: &PathAttributes,
    learned: bool,
) -> Option<&'a FilterRule> {
    let session = if is_internal(settings) { SessionKind::Internal } else { SessionKind::External };
    let route = RouteView {
        prefix,
        learned,
        interface: None,
        session,
        communities: &attributes.communities,
        large_communities: &[],
        as_path: attributes.as_path.systems(),
        local_pref: Some(attributes.local_pref.unwrap_or(100)),
    };
    first_match(&settings.policy.filters, direction, &route).map(|(_, _, rule)| rule)
}

fn operate(rule: &FilterRule, attributes: &mut PathAttributes) {
    for operation in &rule.operations {
        match operation {
            FilterOperation::AddCommunity(Community::Standard(number)) => {
                if !attributes.communities.contains(number) {
                    attributes.communities.push(*number);
                }
            }
            FilterOperation::AddCommunity(Community::Large(_)) => unreachable!("not in these filters"),
            FilterOperation::Prepend(systems) => {
                for system in systems.iter().rev() {
                    attributes.as_path = attributes.as_path.prepended(*system);
                }
            }
            FilterOperation::SetPriority(priority) => attributes.local_pref = Some(PRIORITY_SUM - priority),
        }
    }
}

impl Twin {
    fn accepted(&self, index: PeerIndex, nlri: Nlri) -> Option<Candidate> {
        let peer = &self.peers[&index];
        let said = peer.said.get(&nlri)?;
        let (settings, mut attributes) = (&peer.settings, said.attributes.clone());
        let external = !is_internal(settings);
        let own = attributes.as_path.systems().iter().filter(|system| **system == OWN_AS).count();
        let is_loop = own > usize::try_from(settings.policy.own_as_allowed).unwrap()
            || attributes.originator_id == Some(OWN)
            || attributes.cluster_list.contains(&OWN);
        let is_foreign = external && attributes.as_path.first() != Some(settings.remote_as);
        if is_loop || is_foreign || said.next_hop.address() == IpAddr::V4(OWN) {
            return None;
        }
        if external {
            match (settings.role, attributes.extra.only_to_customer) {
                (Some(Role::Provider), Some(_)) => return None,
                (Some(Role::Peer), Some(system)) if system != settings.remote_as => return None,
                (Some(Role::Customer | Role::Peer), None) => {
                    attributes.extra.make_mut().only_to_customer = Some(settings.remote_as);
                }
                _ => {}
            }
        }
        match judge(settings, RouteDirection::Import, nlri.prefix, &attributes, true) {
            Some(rule) if !rule.accept => return None,
            Some(rule) => operate(rule, &mut attributes),
            None => {}
        }
        let is_long_lived = said.is_long_lived || attributes.communities.contains(&LLGR_STALE);
        Some(Candidate { index, path_id: nlri.path_id, attributes, next_hop: said.next_hop, is_long_lived })
    }

    /// All usable paths, the best first: each the best of those that are left.
    fn ranked(&self, prefix: Cidr) -> Vec<Candidate> {
        let mut rest: Vec<Candidate> = Vec::new();
        for (index, peer) in &self.peers {
            let said = peer.said.keys().filter(|nlri| nlri.prefix == prefix);
            rest.extend(said.filter_map(|nlri| self.accepted(*index, *nlri)));
        }
        let mut ranked = Vec::new();
        while !rest.is_empty() {
            let best = self.best(&rest);
            ranked.push(rest.remove(best));
        }
        ranked
    }

    fn best(&self, all: &[Candidate]) -> usize {
        let head = |one: &Candidate| {
            let a = &one.attributes;
            (one.is_long_lived, Reverse(a.local_pref.unwrap_or(100)), a.as_path.len(), a.origin)
        };
        let top = all.iter().map(head).min().unwrap();
        let med = |one: &Candidate| one.attributes.med.unwrap_or(0);
        let first = |one: &Candidate| one.attributes.as_path.first();
        let level: Vec<usize> = (0..all.len()).filter(|i| head(&all[*i]) == top).collect();
        let is_beaten =
            |i: usize| level.iter().any(|j| first(&all[*j]) == first(&all[i]) && med(&all[*j]) < med(&all[i]));
        let tail = |i: usize| {
            let (one, peer) = (&all[i], &self.peers[&all[i].index]);
            let originator = one.attributes.originator_id.unwrap_or(peer.session.identifier);
            let clusters = one.attributes.cluster_list.len();
            (is_internal(&peer.settings), originator, clusters, peer.settings.id, one.path_id)
        };
        level.iter().copied().filter(|i| !is_beaten(*i)).min_by_key(|i| tail(*i)).unwrap()
    }

    /// What the host should do.
    fn route(&self, prefix: Cidr) -> Option<IpAddr> {
        let ranked = self.ranked(prefix);
        let best = ranked.first()?;
        let keeps = self.originated.get(&prefix).is_some_and(|own| !Self::moves(own, best));
        (!keeps).then(|| best.next_hop.address())
    }

    fn moves(own: &Originated, best: &Candidate) -> bool {
        let theirs = PRIORITY_SUM - best.attributes.local_pref.unwrap_or(100);
        own.origin == Origin::Workload && theirs < 1024 && theirs < own.priority
    }

    /// All that a peer should have heard: for add-path without the names of paths, which are the speaker's to choose.
    fn hears(&self, index: PeerIndex) -> BTreeMap<Cidr, Vec<String>> {
        let peer = &self.peers[&index];
        let count = peer.session.channels.ipv4.unwrap().add_path;
        let mut heard: BTreeMap<Cidr, Vec<String>> = BTreeMap::new();
        for prefix in PREFIXES.map(cidr) {
            let own = self.originated.get(&prefix);
            let mut offers: Vec<Option<Candidate>> = self.ranked(prefix).into_iter().map(Some).collect();
            if let Some(own) = own {
                let behind = offers.first().is_some_and(|best| Self::moves(own, best.as_ref().unwrap()));
                offers.insert(usize::from(behind), None);
            }
            for offer in offers.into_iter().take(usize::from(count.max(1))) {
                if let Some(told) = self.tell(index, prefix, own, offer) {
                    heard.entry(prefix).or_default().push(format!("{told:?}"));
                }
            }
        }
        heard.values_mut().for_each(|told| told.sort_unstable());
        heard
    }

    fn tell(
        &self,
        to: PeerIndex,
        prefix: Cidr,
        own: Option<&Originated>,
        offer: Option<Candidate>,
    ) -> Option<(PathAttributes, NextHop)> {
        let peer = &self.peers[&to];
        let (settings, internal) = (&peer.settings, is_internal(&peer.settings));
        let channel = peer.session.channels.get(prefix.family()).unwrap();
        let (mut attributes, origin, source) = match &offer {
            None => {
                let local_pref = Some(PRIORITY_SUM - own?.priority);
                (PathAttributes { local_pref, ..PathAttributes::default() }, own.map(|own| own.origin), None)
            }
            Some(path) => (path.attributes.clone(), None, Some(&self.peers[&path.index].settings)),
        };
        if let (Some(path), Some(from)) = (&offer, source) {
            let has = |community| attributes.communities.contains(&community);
            let reflects = settings.policy.reflector_client || from.policy.reflector_client;
            let upwards = !internal && matches!(settings.role, Some(Role::Customer | Role::Peer));
            if path.index == to
                || (internal && is_internal(from) && !reflects)
                || has(NO_ADVERTISE)
                || (!internal && has(NO_EXPORT))
                || (path.is_long_lived && !channel.long_lived)
                || (upwards && attributes.extra.only_to_customer.is_some())
            {
                return None;
            }
            attributes.local_pref.get_or_insert(100);
            if path.is_long_lived && !attributes.communities.contains(&LLGR_STALE) {
                attributes.communities.push(LLGR_STALE);
            }
        }
        let priority = PRIORITY_SUM - attributes.local_pref.unwrap();
        // Filters see what was received.
        let seen = offer.as_ref().map_or_else(|| attributes.clone(), |path| path.attributes.clone());
        match judge(settings, RouteDirection::Export, prefix, &seen, offer.is_some()) {
            Some(rule) if !rule.accept => return None,
            Some(rule) => operate(rule, &mut attributes),
            None => {
                let route = Exported { prefix, origin, priority, reflector: false };
                if !self.policy.decide(&route).0 {
                    return None;
                }
                for community in self.policy.communities(prefix) {
                    let Community::Standard(number) = community else { unreachable!() };
                    if !attributes.communities.contains(&number) {
                        attributes.communities.push(number);
                    }
                }
            }
        }
        let keeps = match settings.policy.next_hop {
            Mode::Auto => internal,
            Mode::Own => false,
            Mode::Keep => true,
        };
        let received = offer.as_ref().map(|path| path.next_hop);
        let next_hop = received.filter(|_| keeps).unwrap_or_else(|| us().address(prefix.family()).unwrap().into());
        if internal {
            if let Some(from) = source.filter(|from| is_internal(from)) {
                let identifier =
                    self.peers.values().find(|peer| peer.settings.id == from.id).unwrap().session.identifier;
                attributes.originator_id.get_or_insert(identifier);
                attributes.cluster_list.insert(0, OWN);
            }
        } else {
            attributes.as_path = attributes.as_path.prepended(OWN_AS);
            (attributes.local_pref, attributes.med, attributes.originator_id) = (None, None, None);
            attributes.cluster_list.clear();
            if matches!(settings.role, Some(Role::Provider | Role::Peer)) && attributes.extra.only_to_customer.is_none()
            {
                attributes.extra.make_mut().only_to_customer = Some(OWN_AS);
            }
        }
        Some((attributes, next_hop))
    }
}

/// Both, and a source of chances.
struct Pair {
    bench: Bench,
    twin: Twin,
    random: Random,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut pair = Self { bench: Bench::new(), twin: Twin::default(), random: Random::new(seed) };
        let plain = |index| session(index, |_| ());
        let peers = [
            (client(0), plain(0)),
            (client(1), plain(1)),
            (settings(2, OWN_AS.value()), plain(2)),
            (settings(3, 65001), plain(3)),
            (settings(4, 65002), plain(4)),
            (client(5), session(5, |channel| channel.add_path = 2)),
            (with_role(6, 65003, Role::Provider), session(6, |channel| channel.long_lived = true)),
            (with_role(7, 65004, Role::Customer), session(7, |channel| channel.enhanced_refresh = true)),
            (with_role(8, 65005, Role::Peer), plain(8)),
            (settings(9, 65001), plain(9)),
        ];
        for (settings, session) in peers {
            let index = pair.bench.up(settings.clone(), session.clone());
            pair.twin.peers.insert(index, TwinPeer { settings, session, is_up: true, said: BTreeMap::new() });
        }
        pair
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn one<T: Clone>(&mut self, all: &[T]) -> T {
        let place = self.below(all.len());
        all[place].clone()
    }

    fn peer(&mut self) -> PeerIndex {
        let all: Vec<PeerIndex> = self.twin.peers.keys().copied().collect();
        self.one(&all)
    }

    fn attributes(&mut self, index: PeerIndex) -> PathAttributes {
        let remote = self.twin.peers[&index].settings.remote_as;
        let first: &[u32] = if remote == OWN_AS { &[] } else { &[remote.value()] };
        let own = [OWN_AS.value()];
        let rest: &[u32] = self.one(&[&[][..], &[], &[7], &[7, 8], &own]);
        let communities =
            [vec![], vec![], vec![], vec![1], vec![NO_EXPORT], vec![NO_ADVERTISE], vec![NO_LLGR], vec![LLGR_STALE]];
        let mut attributes = PathAttributes {
            as_path: path(&[first, rest].concat()),
            med: self.one(&[None, Some(1), Some(2)]),
            communities: self.one(&communities),
            ..PathAttributes::default()
        };
        if remote == OWN_AS {
            attributes.local_pref = self.one(&[None, Some(100), Some(200), Some(PRIORITY_SUM - 512)]);
            attributes.originator_id = self.one(&[None, None, Some(Ipv4Addr::new(1, 1, 1, 1)), Some(OWN)]);
            attributes.cluster_list = self.one(&[vec![], vec![Ipv4Addr::new(9, 9, 9, 9)], vec![OWN]]);
        }
        if self.below(6) == 0 {
            attributes.extra.make_mut().only_to_customer = self.one(&[Some(remote), Some(AsNumber::new(7))]);
        }
        attributes
    }

    fn announce(&mut self) {
        let index = self.peer();
        if !self.twin.peers[&index].is_up {
            return;
        }
        let prefix = cidr(self.one(&PREFIXES));
        let path_id = if index == PeerIndex(5) { PathId::new(self.one(&[1, 2, 3])) } else { PathId::NONE };
        let nlri = Nlri { prefix, path_id };
        if self.below(4) == 0 {
            self.bench.rib.withdraw(index, &[nlri]);
            self.twin.peers.get_mut(&index).unwrap().said.remove(&nlri);
            return;
        }
        let attributes = self.attributes(index);
        let next_hop: NextHop = match prefix.family() {
            Family::V4 => self.one(&[address(index.0), Ipv4Addr::new(10, 0, 1, 1), OWN]).into(),
            Family::V6 => self.one(&["2001:db8::1", "2001:db8::2"]).parse::<core::net::Ipv6Addr>().unwrap().into(),
        };
        self.bench.rib.announce(index, attributes.clone(), next_hop, &[nlri]);
        let said = Said { attributes, next_hop, is_stale: false, is_long_lived: false };
        self.twin.peers.get_mut(&index).unwrap().said.insert(nlri, said);
    }

    fn session(&mut self) {
        let index = self.peer();
        let retain = self.one(&[Retain::Drop, Retain::Stale, Retain::LongLived]);
        let peer = self.twin.peers.get_mut(&index).unwrap();
        peer.is_up = !peer.is_up;
        if peer.is_up {
            let (settings, session) = (peer.settings.clone(), peer.session.clone());
            self.bench.up(settings, session);
            return;
        }
        self.bench.rib.session_down(index);
        self.bench.rib.retain(index, Family::V4, retain);
        self.bench.rib.retain(index, Family::V6, retain);
        self.bench.forget(index);
        match retain {
            Retain::Drop => peer.said.clear(),
            Retain::Stale => peer.said.values_mut().for_each(|said| said.is_stale = true),
            Retain::LongLived => {
                peer.said.retain(|_, said| !said.attributes.communities.contains(&NO_LLGR));
                peer.said.values_mut().for_each(|said| (said.is_stale, said.is_long_lived) = (true, true));
            }
        }
    }

    fn time(&mut self) {
        let index = self.peer();
        let family = self.one(&[Family::V4, Family::V6]);
        let peer = self.twin.peers.get_mut(&index).unwrap();
        let of_it = |nlri: &Nlri| nlri.prefix.family() == family;
        if peer.is_up || self.random.next().is_multiple_of(2) {
            self.bench.rib.sweep(index, family);
            peer.said.retain(|nlri, said| !(of_it(nlri) && said.is_stale));
        } else {
            // Its restart time is over.
            self.bench.rib.retain(index, family, Retain::LongLived);
            let no_llgr = |said: &Said| said.attributes.communities.contains(&NO_LLGR);
            peer.said.retain(|nlri, said| !(of_it(nlri) && no_llgr(said)));
            peer.said.iter_mut().filter(|(nlri, _)| of_it(nlri)).for_each(|(_, said)| {
                (said.is_stale, said.is_long_lived) = (true, true);
            });
        }
    }

    fn configure(&mut self) {
        let index = self.peer();
        let filters = [vec![], vec![], vec![filter(1)], vec![filter(2), filter(1)], vec![filter(3)], vec![filter(4)]];
        let filters = self.one(&filters);
        let next_hop = self.one(&[Mode::Auto, Mode::Own, Mode::Keep]);
        let own_as_allowed = self.one(&[0, 1]);
        let reflector_client = self.below(2) == 0;
        // Alone, or all of its kind.
        let kind = is_internal(&self.twin.peers[&index].settings);
        let all = self.below(3) == 0;
        for (known, peer) in &mut self.twin.peers {
            if *known == index || (all && is_internal(&peer.settings) == kind) {
                let policy = &mut peer.settings.policy;
                (policy.filters, policy.next_hop) = (filters.clone(), next_hop);
                (policy.own_as_allowed, policy.reflector_client) = (own_as_allowed, reflector_client && kind);
                self.bench.rib.set_peer(*known, peer.settings.clone());
                if let Some((settings, _, _)) = self.bench.peers.get_mut(known) {
                    *settings = peer.settings.clone();
                }
            }
        }
    }

    fn node(&mut self) {
        let pools = self.one(&[vec![], vec![(cidr("10.9.0.0/16"), false)], vec![(cidr("10.0.0.0/8"), true)]]);
        let communities = self.one(&[vec![], vec![(cidr("10.1.0.0/16"), vec![Community::Standard(77)])]]);
        let policy = ExportPolicy {
            pools: pools.into_iter().collect(),
            communities,
            others: self.below(3) > 0,
            ..ExportPolicy::default()
        };
        self.twin.policy = policy.clone();
        self.bench.rib.set_export(&Arc::new(policy));
        let mut originated = Vec::new();
        for prefix in PREFIXES.map(cidr) {
            if self.below(3) == 0 {
                let origin = self.one(&[Origin::Block, Origin::Workload, Origin::Service]);
                originated.push(Originated { prefix, origin, priority: self.one(&[1024, 512]) });
            }
        }
        self.bench.rib.set_originated(&originated);
        self.twin.originated = originated.into_iter().map(|own| (own.prefix, own)).collect();
    }

    fn refresh(&mut self) {
        let (index, family) = (self.peer(), self.one(&[Family::V4, Family::V6]));
        self.bench.rib.refresh(index, family);
    }

    fn step(&mut self) {
        match self.below(32) {
            0..16 => self.announce(),
            16..18 => self.session(),
            18 => self.time(),
            19..21 => self.configure(),
            21 => self.node(),
            22 => self.refresh(),
            23..27 => {
                // One peer reads a little; the others do not.
                if let Some(index) = self.bench.rib.poll_ready() {
                    self.bench.deliver(index);
                    while self.below(2) == 0 && self.bench.deliver(index) {}
                }
            }
            27..29 => {
                let index = self.peer();
                if self.bench.peers.contains_key(&index) {
                    self.bench.deliver(index);
                }
            }
            _ => {}
        }
    }

    fn compare(&mut self) {
        self.bench.settle();
        for prefix in PREFIXES.map(cidr) {
            let known = self.bench.host.get(&prefix).map(|route| route.next_hop);
            assert_eq!(known, self.twin.route(prefix), "{prefix}: {:#?}", self.bench.rib.explain(prefix));
        }
        for (index, (settings, _, ear)) in &self.bench.peers {
            let mut heard: BTreeMap<Cidr, Vec<String>> = BTreeMap::new();
            for (nlri, told) in &ear.routes {
                heard.entry(nlri.prefix).or_default().push(format!("{told:?}"));
            }
            heard.values_mut().for_each(|told| told.sort_unstable());
            assert_eq!(heard, self.twin.hears(*index), "what {} heard", settings.id);
            assert_eq!(self.bench.rib.advertised_to(*index).len(), ear.routes.len());
            assert_eq!(self.bench.rib.advertised(*index), ear.routes.len());
        }
    }
}

fn filter(number: u8) -> Arc<Filter> {
    let rule = FilterRule { accept: true, ..FilterRule::default() };
    let within = |prefix| Some(PrefixMatch { cidr: cidr(prefix), operator: PrefixOperator::In, lengths: None });
    let reject = FilterRule { accept: false, prefix: within("10.1.0.0/16"), learned: true, ..rule.clone() };
    let community = FilterOperation::AddCommunity(Community::Standard(5));
    let prepend = FilterOperation::Prepend(vec![AsNumber::new(1), AsNumber::new(2)]);
    let change = FilterRule { prefix: within("10.9.0.0/16"), operations: vec![community, prepend], ..rule.clone() };
    let priority = FilterRule { operations: vec![FilterOperation::SetPriority(600)], ..rule.clone() };
    let by_community = FilterRule { accept: false, community: Some(Community::Standard(1)), ..rule };
    let rules = match number {
        1 => vec![reject, change],
        2 => vec![by_community],
        3 => vec![change, priority],
        _ => vec![],
    };
    let both = calico_core::bgp::ByFamily { ipv4: rules.clone(), ipv6: rules.clone() };
    let none = calico_core::bgp::ByFamily::default();
    let import = if number == 4 { none.clone() } else { both.clone() };
    let reject_all = vec![FilterRule::default()];
    let export =
        if number == 4 { calico_core::bgp::ByFamily { ipv4: reject_all.clone(), ipv6: reject_all } } else { both };
    Arc::new(Filter { name: format!("f{number}").into(), import, export })
}

#[test]
fn peers_and_host_know_what_the_twin_says() {
    for seed in 0..60 {
        eprintln!("seed {seed}");
        let mut pair = Pair::new(seed);
        for _ in 0..25 {
            for _ in 0..40 {
                pair.step();
            }
            pair.compare();
        }
        // Nothing is left when everything is taken back.
        for index in pair.twin.peers.keys() {
            pair.bench.rib.session_down(*index);
            pair.bench.rib.retain(*index, Family::V4, Retain::Drop);
            pair.bench.rib.retain(*index, Family::V6, Retain::Drop);
        }
        pair.bench.rib.set_originated(&[]);
        pair.bench.peers.clear();
        pair.bench.reading.clear();
        pair.bench.settle();
        assert!(pair.bench.host.is_empty());
        assert_eq!((pair.bench.rib.len(), pair.bench.rib.sets(), pair.bench.rib.groups()), (0, 0, 0), "seed {seed}");
    }
}
