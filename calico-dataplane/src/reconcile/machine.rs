//! The pure machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use calico_core::delta::{Difference, Tracker};
use calico_core::net::{InterfaceName, Mac};
use calico_core::table::{
    BaseChain, Chain, ChainName, Delta, Element, FieldType, Fingerprint, InterfaceSetting, Neighbor, Route, RouteClass,
    RouteKey, SetDecl, SetName, Shaping,
};

use super::elements::Elements;
use super::fights::Fights;
use super::interfaces::Interfaces;
use super::plan;
use super::retry::{Object, ReconcileConfig, Retries};
use crate::{ApplyReport, DataplaneError, HostChange, LinkState, Observed, ObservedChain, Shaped};

/// What the kernel holds of the policy that is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it holds all, a part, or nobody knows")]
pub enum Holding {
    /// Nothing that could be relied upon: it has not been written yet, a write is under way or failed, or the host is to be looked at first.
    Nothing,
    /// All that can be written is; what is missing was refused or waits for something.
    Part,
    /// Everything.
    All,
}

/// Holds what should be beside what is, and hands out what to write.
///
/// Calls, in any order: [`desire`](Self::desire), [`set_in_sync`](Self::set_in_sync),
/// [`set_bgp_settled`](Self::set_bgp_settled) and [`host_change`](Self::host_change) when something happened. Then, until both
/// have nothing: if [`wants_look`](Self::wants_look), look at the host and call [`observed`](Self::observed) or
/// [`look_failed`](Self::look_failed); carry out what [`poll`](Self::poll) gives and call [`report`](Self::report). Come back at
/// [`poll_timeout`](Self::poll_timeout) at the latest. Times are counted from any fixed moment.
#[derive(Debug)]
pub struct Reconciler {
    pub(super) config: ReconcileConfig,
    pub(super) skeleton: Delta,
    pub(super) in_sync: bool,
    pub(super) bgp_settled: bool,
    pub(super) look: Look,
    pub(super) table_present: bool,
    pub(super) chains: Tracker<ChainName, ChainMark>,
    pub(super) bodies: BTreeMap<ChainName, Chain>,
    /// A set without a declaration is none that we would write.
    pub(super) sets: Tracker<SetName, Option<SetDecl>>,
    /// Sets and maps whose keys start with an interface.
    pub(super) interface_sets: BTreeSet<SetName>,
    pub(super) elements: Elements,
    pub(super) routes: Tracker<RouteKey, Route>,
    pub(super) routes_by_interface: BTreeMap<InterfaceName, BTreeSet<RouteKey>>,
    pub(super) neighbors: Tracker<(InterfaceName, IpAddr), Mac>,
    pub(super) settings: Tracker<(InterfaceName, &'static str), String>,
    /// Limits on bandwidth that are wanted, and what they are at their devices.
    pub(super) limits: BTreeMap<InterfaceName, Shaping>,
    pub(super) shapings: Tracker<InterfaceName, Shaped>,
    pub(super) links: BTreeMap<InterfaceName, LinkState>,
    pub(super) interfaces: Interfaces,
    /// Addresses whose former owner's connections have not ended yet.
    pub(super) cuts: BTreeSet<IpAddr>,
    pub(super) retries: Retries,
    pub(super) fights: Fights,
    /// What was right and is not any more, since the last poll.
    pub(super) disturbed: BTreeSet<Object>,
    /// What was found to be undone, for whoever wants to hear of it.
    drift: VecDeque<Object>,
    /// An interface that may carry gateways went, or went down, since the last poll.
    pub(super) uplink_went: bool,
    /// Most items of the next transaction, while the one to blame for a failure is sought.
    pub(super) limit: Option<usize>,
    /// Objects found to blame since the last transaction that worked.
    blamed: Vec<Object>,
    /// After so many of them in a row, none is to blame: the kernel refuses everything.
    blame_limit: usize,
    in_flight: Option<Vec<Object>>,
    deferred: Vec<HostChange>,
}

/// What is compared of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainMark {
    pub(super) base: Option<BaseChain>,
    pub(super) fingerprint: Option<Fingerprint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Wanted,
    Done,
}

/// How far a workload's interface is programmed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkloadState {
    /// Nothing is known of such a workload.
    Unknown,
    /// Policy, routes, neighbours, settings and limits are in the kernel.
    Programmed,
    /// Something is not there yet.
    Waiting {
        /// What, and why if that is known.
        reasons: Vec<String>,
    },
}

/// The first limit of lone objects that fail in a row. Reached, it doubles: so many may really be to blame, and what comes after
/// them must have its turn.
const BLAME_LIMIT: usize = 3;
/// Most undone objects that are kept for whoever wants to hear of them.
const MOST_DRIFT: usize = 4096;

impl Reconciler {
    /// A machine that desires the skeleton and knows nothing of the host.
    pub fn new(skeleton: Delta, config: ReconcileConfig) -> Self {
        let mut machine = Self {
            interfaces: Interfaces::new(config.workload_prefixes.clone()),
            retries: Retries::new(config.retry),
            config,
            skeleton: Delta::default(),
            in_sync: false,
            bgp_settled: false,
            look: Look::Wanted,
            table_present: false,
            chains: Tracker::default(),
            bodies: BTreeMap::new(),
            sets: Tracker::default(),
            interface_sets: BTreeSet::new(),
            elements: Elements::default(),
            routes: Tracker::default(),
            routes_by_interface: BTreeMap::new(),
            neighbors: Tracker::default(),
            settings: Tracker::default(),
            limits: BTreeMap::new(),
            shapings: Tracker::default(),
            links: BTreeMap::new(),
            fights: Fights::default(),
            disturbed: BTreeSet::new(),
            drift: VecDeque::new(),
            uplink_went: false,
            cuts: BTreeSet::new(),
            limit: None,
            blamed: Vec::new(),
            blame_limit: BLAME_LIMIT,
            in_flight: None,
            deferred: Vec::new(),
        };
        machine.desire(&skeleton);
        machine.skeleton = skeleton;
        machine
    }

    /// Takes in a change of the desired state. Removals in it come before additions.
    pub fn desire(&mut self, change: &Delta) {
        for name in &change.chains_removed {
            self.bodies.remove(name);
            self.chains.remove_desired(name.clone());
            self.retries.forget(&Object::Chain(name.clone()));
        }
        for name in &change.sets_removed {
            self.sets.remove_desired(name.clone());
            self.interface_sets.remove(name);
            self.elements.remove_desired_of(name);
            self.retries.forget(&Object::Set(name.clone()));
        }
        for decl in &change.sets_added {
            if decl.key.first() == Some(&FieldType::Interface) {
                self.interface_sets.insert(decl.name.clone());
            }
            self.sets.set_desired(decl.name.clone(), Some(decl.clone()));
        }
        for chain in &change.chains_set {
            self.chains.set_desired(chain.name.clone(), ChainMark::of(chain));
            self.bodies.insert(chain.name.clone(), chain.clone());
            self.retries.forget(&Object::Chain(chain.name.clone()));
        }
        for change in &change.elements {
            let Self { elements, retries, .. } = self;
            retries.forget(&Object::Set(change.set.clone()));
            if !retries.is_empty() {
                let keys = change.removed.iter().chain(&change.added).map(|element| &element.key);
                keys.for_each(|key| retries.forget(&plan::entry(&change.set, key)));
            }
            elements.change(&change.set, |elements| {
                change.removed.iter().for_each(|element| elements.remove_desired(element.key.clone()));
                elements.set_all_desired(change.added.iter().map(|Element { key, data }| (key.clone(), data.clone())));
            });
        }
        if !change.chains_set.is_empty() || !change.sets_added.is_empty() || !change.elements.is_empty() {
            // A newcomer must not wait for the pause that others earned.
            self.retries.expedite(|object| *object == Object::Ruleset);
        }
        self.desire_host_objects(change);
        self.desire_shapings(change);
    }

    /// What failed last may have been carried out all the same, its answer lost: what is no longer wanted is removed nevertheless, and what is
    /// wanted again is written.
    fn desire_host_objects(&mut self, change: &Delta) {
        self.cuts.extend(&change.connections_cut);
        for key in &change.routes_removed {
            self.fights.expedite(&Object::Route(*key));
            let may_be_there = self.retries.error(&Object::Route(*key)).and_then(|_| self.routes.desired(key)).cloned();
            self.change_route(*key, |routes| {
                if may_be_there.is_some() {
                    routes.set_observed(*key, may_be_there);
                }
                routes.remove_desired(*key);
            });
        }
        for route in &change.routes_set {
            if self.retries.error(&Object::Route(route.key)).is_some()
                && self.routes.observed(&route.key) == Some(route)
            {
                self.change_route(route.key, |routes| routes.set_observed(route.key, None));
            }
            self.retries.forget(&Object::Route(route.key));
            self.fights.expedite(&Object::Route(route.key));
            self.change_route(route.key, |routes| routes.set_desired(route.key, route.clone()));
        }
        for Neighbor { interface, address, .. } in &change.neighbors_removed {
            let object = Object::Neighbor(*interface, *address);
            self.fights.expedite(&object);
            let key = (*interface, *address);
            if let (Some(_), Some(mac)) = (self.retries.error(&object), self.neighbors.desired(&key).copied()) {
                self.neighbors.set_observed(key, Some(mac));
            }
            self.neighbors.remove_desired(key);
        }
        for Neighbor { interface, address, mac } in &change.neighbors_set {
            let key = (*interface, *address);
            if self.retries.error(&Object::Neighbor(*interface, *address)).is_some()
                && self.neighbors.observed(&key) == Some(mac)
            {
                self.neighbors.set_observed(key, None);
            }
            self.retries.forget(&Object::Neighbor(*interface, *address));
            self.fights.expedite(&Object::Neighbor(*interface, *address));
            self.neighbors.set_desired((*interface, *address), *mac);
        }
        for interface in &change.settings_dropped {
            for key in self.settings_of(*interface) {
                // Forgotten on both sides: what was written stays, and the next workload there gets all of its own.
                self.settings.remove_desired(key);
                self.settings.set_observed(key, None);
                self.retries.forget(&Object::Setting(key.0, key.1));
            }
        }
        for InterfaceSetting { interface, path, value } in &change.settings {
            self.retries.forget(&Object::Setting(*interface, path));
            self.settings.set_desired((*interface, path), value.clone());
        }
    }

    /// The desired state is complete: from now on the host is made like it.
    pub fn set_in_sync(&mut self) {
        if !core::mem::replace(&mut self.in_sync, true) && self.look == Look::Done {
            self.cut_what_left();
        }
    }

    /// The BGP speaker has heard all there is: learned routes that it did not ask for are stale and go.
    pub const fn set_bgp_settled(&mut self) {
        self.bgp_settled = true;
    }

    /// The BGP speaker has begun anew: learned routes that it does not ask for are stale, and stay until it has settled again.
    pub const fn set_bgp_unsettled(&mut self) {
        self.bgp_settled = false;
    }

    /// Whether somebody must look at the host before anything is written.
    pub fn wants_look(&self, now: Duration) -> bool {
        self.look == Look::Wanted && self.in_flight.is_none() && self.retries.may_try(&Object::Look, now)
    }

    /// What the host holds. A look that was overtaken by a write of ours in flight is thrown away.
    pub fn observed(&mut self, seen: Observed) {
        if self.in_flight.is_some() {
            self.look = Look::Wanted;
            return;
        }
        self.look = Look::Done;
        self.retries.forget(&Object::Look);
        // Before, or at the first look, what differs was left by an earlier life, or has not been asked for yet.
        let counts = self.in_sync && self.table_present;
        self.table_present = seen.table_present;
        let was_lost = counts && !seen.table_present;
        let mut undone = BTreeSet::new();
        let mut note = |objects: &mut dyn Iterator<Item = Object>| {
            if counts {
                undone.extend(objects);
            }
        };
        let chains = seen.chains.into_iter().map(|(name, chain)| (name, ChainMark::seen(chain)));
        note(&mut self.chains.observe_all(chains).map(Object::Chain));
        note(&mut self.elements.observe_all(&seen.sets).into_iter().map(Object::Set));
        let sets = seen.sets.into_iter().map(|(name, set)| (name, set.decl));
        note(&mut self.sets.observe_all(sets).map(Object::Set));
        let links = core::mem::take(&mut self.links);
        for name in links.keys().chain(seen.links.keys()).copied().collect::<BTreeSet<_>>() {
            let (before, after) = (links.get(&name).copied(), seen.links.get(&name).copied());
            self.links.extend(before.map(|state| (name, state)));
            self.change_link(name, after);
        }
        self.interfaces.observe(seen.links.keys().copied(), seen.addresses);
        note(&mut self.routes.observe_all(seen.routes).map(Object::Route));
        let neighbors = seen.neighbors.iter().map(|n| ((n.interface, n.address), n.mac));
        let neighbors = self.neighbors.observe_all(neighbors);
        note(&mut neighbors.map(|(interface, address)| Object::Neighbor(interface, address)));
        note(&mut self.shapings.observe_all(seen.shapings).map(Object::Shaper));
        self.disturbed.append(&mut undone);
        self.index_routes();
        // The look itself is newer than whatever a link change made doubtful.
        self.look = Look::Done;
        if self.in_sync {
            self.cut_what_left();
        }
        if was_lost {
            self.cut_all();
        }
    }

    /// Looking failed.
    pub fn look_failed(&mut self, error: &DataplaneError, now: Duration) {
        self.retries.failed(Object::Look, chain_of(error), now);
    }

    /// Somebody changed something on the host.
    pub fn host_change(&mut self, change: HostChange) {
        if self.in_flight.is_some() {
            self.deferred.push(change);
            return;
        }
        match change {
            HostChange::Link { name, state } => self.change_link(name, state),
            HostChange::Route { key, route } => {
                self.retries.forget(&Object::Route(key));
                self.disturb(Object::Route(key), |machine| {
                    machine.change_route(key, |routes| routes.set_observed(key, route));
                });
            }
            HostChange::Neighbor { neighbor, present } => {
                let Neighbor { interface, address, mac } = neighbor;
                self.disturb(Object::Neighbor(interface, address), |machine| {
                    machine.neighbors.set_observed((interface, address), present.then_some(mac));
                });
            }
            HostChange::Shaping { device } => {
                self.retries.forget(&Object::Shaper(device));
                self.disturb(Object::Shaper(device), |machine| machine.doubt_shaping(device));
            }
            HostChange::Address { interface, address, present } => {
                self.interfaces.set_address(interface, address, present);
                if present {
                    self.expedite_routes_by(interface);
                }
            }
            HostChange::Objects(seen) => self.objects_changed(&seen),
            HostChange::Ruleset | HostChange::Overrun => self.look = Look::Wanted,
        }
    }

    /// Takes in a change of one object, and notes whether that undid our work.
    fn disturb(&mut self, object: Object, change: impl FnOnce(&mut Self)) {
        let was_right = plan::is_settled(self, &object);
        change(self);
        if was_right && self.in_sync && !plan::is_settled(self, &object) {
            self.disturbed.insert(object);
        }
    }

    /// What to carry out now. Nothing more is given until it is reported.
    pub fn poll(&mut self, now: Duration) -> Option<Delta> {
        if self.in_flight.is_some() || self.look != Look::Done {
            return None;
        }
        let mut retries = core::mem::take(&mut self.retries);
        retries.forget_if(|object| plan::is_settled(self, object));
        self.retries = retries;
        self.fights.end_over(now);
        let undone: Vec<_> = self.undone().cloned().collect();
        for object in undone {
            if self.drift.len() < MOST_DRIFT {
                self.drift.push_back(object.clone());
            }
            self.fights.undone(object, now);
        }
        self.disturbed.clear();
        self.uplink_went = false;
        let ruleset_may = self.retries.may_try(&Object::Ruleset, now);
        let (delta, items) = if self.in_sync {
            let (mut delta, items) = if ruleset_may { plan::ruleset(self, now) } else { Default::default() };
            plan::host_objects(self, now, &mut delta);
            self.plan_shapings(now, &mut delta);
            self.plan_cuts(now, &mut delta);
            (delta, items)
        } else if !self.table_present && ruleset_may {
            (self.skeleton.clone(), vec![Object::Ruleset])
        } else {
            return None;
        };
        if delta.is_empty() {
            return None;
        }
        self.in_flight = Some(items);
        Some(delta)
    }

    /// When to come back at the latest, if nothing else happens. To be asked when [`poll`](Self::poll) has nothing to give.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        [self.retries.next_due(now), self.fights.next_due(now)].into_iter().flatten().min()
    }

    /// What somebody else did to what was right, since the last [`poll`](Self::poll), as far as known. What the kernel took away together
    /// with an interface is not among it.
    pub fn undone(&self) -> impl Iterator<Item = &Object> {
        let kept = |object: &&Object| !plan::is_settled(self, object) && !self.may_have_gone_with_an_uplink(object);
        self.disturbed.iter().filter(kept)
    }

    /// The next of what somebody else undid, each object once for each time that it was found so. Beyond some thousands, that nobody took, none are
    /// kept.
    pub fn take_drift(&mut self) -> Option<Object> {
        self.drift.pop_front()
    }

    /// What somebody else keeps changing, although we make it right each time.
    pub fn fought_over(&self, now: Duration) -> impl Iterator<Item = &Object> {
        self.fights.objects(now)
    }

    /// How carrying out what [`poll`](Self::poll) gave went.
    pub fn report(&mut self, delta: &Delta, outcome: &ApplyReport, now: Duration) {
        let items = self.in_flight.take().unwrap_or_default();
        match &outcome.ruleset {
            None => self.ruleset_took_effect(delta, &items),
            Some(error) => self.ruleset_failed(error, items, now),
        }
        self.host_objects_took_effect(delta, outcome, now);
        self.shapings_took_effect(delta, outcome, now);
        self.cuts_took_effect(delta, outcome, now);
        for change in core::mem::take(&mut self.deferred) {
            self.host_change(change);
        }
    }

    /// What failed last and waits for its next try, with the reason.
    pub fn failures(&self) -> impl Iterator<Item = (&Object, &str)> {
        self.retries.iter()
    }

    /// Whether the host is as it should be, as far as known; what waits for an interface counts as missing. [Stale
    /// routes](Self::stale_routes) are where they should be.
    pub fn is_settled(&self) -> bool {
        let ruleset = self.chains.pending_len() + self.sets.pending_len() + self.elements.pending_len();
        let rest = self.routes.pending_len() + self.neighbors.pending_len() + self.settings.pending_len();
        let rest = rest + self.shapings.pending_len();
        let known = self.in_sync && self.look == Look::Done && self.in_flight.is_none();
        known && self.cuts.is_empty() && ruleset + rest == self.stale_routes()
    }

    /// Learned routes of an earlier life that nobody has announced since, and that stay until the BGP speaker has settled.
    pub fn stale_routes(&self) -> usize {
        let kept = |found: &Difference<'_, RouteKey, Route>| {
            found.desired.is_none() && found.observed.is_some_and(|route| self.is_kept_for_bgp(route))
        };
        if self.bgp_settled { 0 } else { self.routes.pending().filter(kept).count() }
    }

    /// Whether a route that nobody asks for stays for now.
    pub(super) fn is_kept_for_bgp(&self, route: &Route) -> bool {
        route.class == RouteClass::Bgp && !self.bgp_settled
    }

    /// Whether all that can be done has been done, to be asked when [`poll`](Self::poll) has nothing to give: what is still missing
    /// waits for an interface, or was refused and harms only who needs it.
    pub fn is_carried_out(&self) -> bool {
        self.in_sync
            && self.look == Look::Done
            && self.in_flight.is_none()
            && self.retries.error(&Object::Ruleset).is_none()
    }

    /// How much of the desired tables the host holds, to be asked when [`poll`](Self::poll) has nothing to give.
    pub fn holding(&self) -> Holding {
        let missing = self.chains.pending_len() + self.sets.pending_len() + self.elements.pending_len();
        match self.is_carried_out() {
            false => Holding::Nothing,
            true if missing > 0 => Holding::Part,
            true => Holding::All,
        }
    }

    /// The host's own interfaces with their addresses that changed since the last call, or (none) went. At the first look all of them did.
    pub fn take_interfaces(&mut self) -> Vec<(InterfaceName, Option<Vec<IpAddr>>)> {
        self.interfaces.take_changes()
    }

    /// Whether the host holds no entry, route, neighbour or connection that is not wanted. Learned routes that wait for the speaker to settle do
    /// not count, nor do chains and sets to which nothing leads.
    pub fn is_rid_of_the_unwanted(&self) -> bool {
        let known = self.in_sync && self.look == Look::Done && self.in_flight.is_none();
        known
            && self.cuts.is_empty()
            && self.elements.pending().all(|(_, found)| found.desired.is_some())
            && self
                .routes
                .pending()
                .all(|found| found.desired.is_some() || found.observed.is_some_and(|r| self.is_kept_for_bgp(r)))
            && self.neighbors.pending().all(|found| found.desired.is_some())
    }

    /// How far one workload is programmed.
    pub fn workload_state(&self, interface: InterfaceName) -> WorkloadState {
        plan::workload_state(self, interface)
    }

    fn ruleset_took_effect(&mut self, delta: &Delta, items: &[Object]) {
        if items.is_empty() {
            return;
        }
        self.table_present = true;
        self.limit = None;
        self.blamed.clear();
        self.retries.forget(&Object::Ruleset);
        items.iter().for_each(|item| self.retries.forget(item));
        if !self.retries.any_of_ruleset() {
            self.blame_limit = BLAME_LIMIT;
        }
        for name in &delta.chains_removed {
            self.chains.set_observed(name.clone(), None);
        }
        for name in &delta.sets_removed {
            self.sets.set_observed(name.clone(), None);
            self.elements.observe_set(name, None);
        }
        for decl in &delta.sets_added {
            self.sets.set_observed(decl.name.clone(), Some(Some(decl.clone())));
        }
        for chain in &delta.chains_set {
            self.chains.set_observed(chain.name.clone(), Some(ChainMark::of(chain)));
        }
        for change in &delta.elements {
            self.elements.change(&change.set, |elements| {
                change.removed.iter().for_each(|element| elements.set_observed(element.key.clone(), None));
                elements.set_all_observed(change.added.iter().map(|Element { key, data }| (key, data)));
            });
        }
    }

    fn ruleset_failed(&mut self, error: &DataplaneError, mut items: Vec<Object>, now: Duration) {
        // Nobody knows what was carried out.
        if matches!(error, DataplaneError::Raced | DataplaneError::Reply { .. }) {
            self.look = Look::Wanted;
            self.retries.failed(Object::Ruleset, chain_of(error), now);
            return;
        }
        if items.len() > 1 {
            self.limit = Some(items.len() / 2);
            return;
        }
        let blamed = items.pop().unwrap_or(Object::Ruleset);
        self.retries.failed(blamed.clone(), chain_of(error), now);
        self.limit = None;
        self.blamed.push(blamed);
        // What is believed of the host may be what is wrong.
        self.look = Look::Wanted;
        if self.blamed.len() >= self.blame_limit {
            self.blame_limit = self.blame_limit.saturating_mul(2);
            self.retries.failed(Object::Ruleset, chain_of(error), now);
            for object in core::mem::take(&mut self.blamed) {
                if object != Object::Ruleset {
                    self.retries.forget(&object);
                }
            }
        }
    }

    fn host_objects_took_effect(&mut self, delta: &Delta, outcome: &ApplyReport, now: Duration) {
        let routes: BTreeMap<_, _> = outcome.routes.iter().map(|failure| (failure.key, &failure.error)).collect();
        let written = delta.routes_set.iter().map(|route| (route.key, Some(route.clone())));
        for (key, route) in delta.routes_removed.iter().map(|key| (*key, None)).chain(written) {
            let object = Object::Route(key);
            match routes.get(&key) {
                Some(error) => self.retries.failed(object, chain_of(error), now),
                None => {
                    self.retries.forget(&object);
                    self.change_route(key, |routes| routes.set_observed(key, route));
                }
            }
        }
        let failed: BTreeMap<_, _> = outcome.neighbors.iter().map(|(n, e)| ((n.interface, n.address), e)).collect();
        let gone = delta.neighbors_removed.iter().map(|neighbor| (neighbor, false));
        for (neighbor, present) in gone.chain(delta.neighbors_set.iter().map(|neighbor| (neighbor, true))) {
            let object = Object::Neighbor(neighbor.interface, neighbor.address);
            let key = (neighbor.interface, neighbor.address);
            match failed.get(&key) {
                Some(error) => self.retries.failed(object, chain_of(error), now),
                None => {
                    self.retries.forget(&object);
                    self.neighbors.set_observed(key, present.then_some(neighbor.mac));
                }
            }
        }
        let failed: BTreeMap<_, _> = outcome.settings.iter().map(|(s, e)| ((s.interface, s.path), e)).collect();
        for InterfaceSetting { interface, path, value } in &delta.settings {
            let key = (*interface, *path);
            match failed.get(&key) {
                Some(error) => self.retries.failed(Object::Setting(key.0, key.1), chain_of(error), now),
                None => {
                    self.retries.forget(&Object::Setting(key.0, key.1));
                    self.settings.set_observed(key, Some(value.clone()));
                }
            }
        }
    }
}

impl ChainMark {
    pub(super) fn of(chain: &Chain) -> Self {
        Self { base: chain.base, fingerprint: Some(chain.fingerprint()) }
    }

    pub(super) const fn seen(chain: ObservedChain) -> Self {
        Self { base: chain.base, fingerprint: chain.fingerprint }
    }
}

/// An error with its causes.
pub(super) fn chain_of(error: &DataplaneError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
