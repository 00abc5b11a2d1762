//! Which policies and profiles are active, and for which endpoints.
//!
//! A policy is active while its selector matches an active endpoint of this host that it has a say about, or while it says that every
//! node needs it; a profile while an active endpoint names it. In come active endpoints, policies and profiles; out come three sets of
//! keys whose calculated form must be looked at again. Policies that cannot match here wait outside the index.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use hashbrown::HashMap;

use super::admit::Profile;
use super::arena::Arena;
use super::local::Local;
use super::policy::Policy;
use super::waiting::{Waiting, Woken};
use crate::label::{IdSet, Index, Match};
use crate::resource::ResourceKey;
use crate::selector::Selector;

/// The node.
#[derive(Debug)]
pub(super) struct Activation {
    index: Index,
    /// None where all endpoints of the cluster are here: nearly all policies match then.
    waiting: Option<Waiting>,
    /// Policies that ceased to match and may have to wait.
    idle: Vec<u32>,
    /// By the index's key of the item. Which policies an endpoint has, the index says.
    endpoints: Arena<Local>,
    /// By the index's key of the policy's selector.
    policies: Arena<Known>,
    profiles: HashMap<Arc<str>, Named>,
    /// Policies of endpoints, by tier.
    by_tier: HashMap<Arc<str>, IdSet>,
    /// Items to look at again, beside the endpoints of `dirty`.
    dirty_items: BTreeSet<u32>,
    dirty: Dirty,
}

/// Keys to look at again; each may be present or gone.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    pub(super) endpoints: BTreeSet<ResourceKey>,
    pub(super) policies: BTreeSet<ResourceKey>,
    pub(super) profiles: BTreeSet<Arc<str>>,
}

/// A policy and the endpoints that it matches.
#[derive(Debug)]
struct Known {
    policy: Policy,
    /// Items.
    endpoints: IdSet,
}

impl Known {
    fn is_active(&self) -> bool {
        !self.endpoints.is_empty() || self.policy.is_needed_everywhere()
    }
}

/// A profile that exists, is named, or both.
#[derive(Debug, Default)]
struct Named {
    profile: Option<Profile>,
    references: u32,
}

impl Activation {
    /// That of one host, or of all at once.
    pub(super) fn new(is_cluster: bool) -> Self {
        Self {
            index: Index::default(),
            waiting: (!is_cluster).then(Waiting::default),
            idle: Vec::new(),
            endpoints: Arena::default(),
            policies: Arena::default(),
            profiles: HashMap::new(),
            by_tier: HashMap::new(),
            dirty_items: BTreeSet::new(),
            dirty: Dirty::default(),
        }
    }

    pub(super) fn set_endpoint(&mut self, key: &ResourceKey, endpoint: Option<Local>) {
        self.dirty.endpoints.insert(key.clone());
        let Some(endpoint) = endpoint else { return self.remove_endpoint(key) };
        // The new names first, so that a profile named before and after stays active in between.
        endpoint.profiles().for_each(|name| self.refer(name));
        let woken = self.waiting.as_mut().map(|waiting| waiting.arrive(endpoint.labels(key)));
        self.wake(woken);
        match self.endpoints.find(key) {
            Some(item) => {
                self.index.change_item(item, endpoint.labels(key), endpoint.profiles());
                let Some(held) = self.endpoints.get_mut(item) else { return };
                let former = mem::replace(held, endpoint);
                if let Some(waiting) = &mut self.waiting {
                    waiting.leave(former.labels(key));
                }
                former.profiles().for_each(|name| self.unrefer(name));
            }
            None => {
                let item = self.index.add_item(endpoint.labels(key), endpoint.profiles());
                self.endpoints.insert(item, key.clone(), endpoint);
            }
        }
    }

    fn remove_endpoint(&mut self, key: &ResourceKey) {
        let Some(item) = self.endpoints.find(key) else { return };
        for policy in self.index.matching(item).to_vec() {
            self.stop(policy, item);
        }
        self.index.remove_item(item);
        let Some((_, endpoint)) = self.endpoints.remove(item) else { return };
        if let Some(waiting) = &mut self.waiting {
            waiting.leave(endpoint.labels(key));
        }
        endpoint.profiles().for_each(|name| self.unrefer(name));
    }

    pub(super) fn set_policy(&mut self, key: &ResourceKey, policy: Option<(Policy, Selector)>) {
        let known = self.policies.find(key);
        if let (None, Some(waiting)) = (known, &mut self.waiting) {
            waiting.remove(key);
        }
        let Some((policy, selector)) = policy else { return self.remove_policy(known) };
        let kept = known.and_then(|id| Some((id, self.policies.get_mut(id)?)));
        let Some((id, known)) = kept.filter(|(_, known)| known.policy.selects_like(&policy)) else {
            self.remove_policy(known);
            return self.add_policy(key, policy, &selector);
        };
        let was_active = known.is_active();
        let former = mem::replace(&mut known.policy, policy);
        if was_active || known.is_active() {
            self.dirty.policies.insert(key.clone());
        }
        if known.endpoints.is_empty() {
            return;
        }
        if !former.stands_like(&known.policy) {
            self.dirty_items.extend(known.endpoints.iter());
        }
        if former.tier() != known.policy.tier() {
            self.by_tier.entry(known.policy.tier().into()).or_default().insert(id);
            self.leave_tier(former.tier(), id);
        }
    }

    fn add_policy(&mut self, key: &ResourceKey, policy: Policy, selector: &Selector) {
        if policy.is_needed_everywhere() {
            self.dirty.policies.insert(key.clone());
        } else if let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.can_wait(selector)) {
            return waiting.add(key, policy, selector);
        }
        let id = self.index.add_selector(selector);
        self.policies.insert(id, key.clone(), Known { policy, endpoints: IdSet::default() });
    }

    fn wake(&mut self, woken: Option<Vec<Woken>>) {
        for (key, policy, selector) in woken.into_iter().flatten() {
            self.add_policy(&key, policy, &selector);
        }
    }

    /// Lets those wait that ceased to match, if they can.
    fn rest(&mut self) {
        for id in mem::take(&mut self.idle) {
            let Self { policies, waiting: Some(waiting), .. } = self else { return };
            let idle = policies.get(id).filter(|known| !known.is_active());
            let selector = idle.zip(policies.key(id)).and_then(|(known, key)| known.policy.selector(key));
            let Some(selector) = selector.filter(|selector| waiting.can_wait(selector)) else { continue };
            let Some((key, Known { policy, .. })) = policies.remove(id) else { continue };
            waiting.add(&key, policy, &selector);
            self.index.remove_selector(id);
        }
    }

    fn remove_policy(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        let Some((key, known)) = self.policies.remove(id) else { return };
        self.index.remove_selector(id);
        if known.is_active() {
            self.dirty.policies.insert(key);
        }
        self.leave_tier(known.policy.tier(), id);
        self.dirty_items.extend(known.endpoints.iter());
    }

    pub(super) fn set_profile(&mut self, name: &Arc<str>, profile: Option<Profile>) {
        let named = self.profiles.entry(name.clone()).or_default();
        let former = mem::replace(&mut named.profile, profile);
        if named.references > 0 {
            self.dirty.profiles.insert(name.clone());
            self.hand_down(name, former.as_ref());
        } else if named.profile.is_none() {
            self.profiles.remove(name);
        }
    }

    /// What an endpoint is told beside its policies changed.
    pub(super) fn touch_endpoint(&mut self, key: ResourceKey) {
        self.dirty.endpoints.insert(key);
    }

    /// A tier came, changed or went.
    pub(super) fn touch_tier(&mut self, tier: &str) {
        let policies = self.by_tier.get(tier).into_iter().flat_map(IdSet::iter);
        let known = policies.filter_map(|policy| self.policies.get(policy));
        self.dirty_items.extend(known.flat_map(|known| known.endpoints.iter()));
    }

    /// Works out which policies match which endpoints now.
    pub(super) fn settle(&mut self) {
        let mut index = mem::take(&mut self.index);
        index.settle(|change| {
            let Match { selector, item, started, .. } = change;
            if !self.concerns(selector, item) {
                return;
            }
            self.dirty_items.insert(item);
            if started {
                self.start(selector, item);
            } else {
                self.stop(selector, item);
            }
        });
        self.index = index;
        self.rest();
    }

    /// What must be looked at again since the last call.
    pub(super) fn take_dirty(&mut self) -> Dirty {
        let items = mem::take(&mut self.dirty_items);
        self.dirty.endpoints.extend(items.into_iter().filter_map(|item| self.endpoints.key(item).cloned()));
        mem::take(&mut self.dirty)
    }

    /// An active endpoint.
    pub(super) fn endpoint(&self, key: &ResourceKey) -> Option<&Local> {
        self.endpoints.get(self.endpoints.find(key)?)
    }

    /// Places in the index of the policies that select an active endpoint, sorted; they mean the same until something else is taken in.
    pub(super) fn selecting(&self, key: &ResourceKey) -> &[u32] {
        self.endpoints.find(key).map_or(&[], |item| self.index.matching(item))
    }

    /// Policies of an active endpoint.
    pub(super) fn policies_of(&self, key: &ResourceKey) -> impl Iterator<Item = (&ResourceKey, &Policy)> {
        let item = self.endpoints.find(key);
        let selected = item.into_iter().flat_map(|item| self.index.matching(item).iter().map(move |one| (*one, item)));
        let policies = selected.filter(|(policy, item)| self.concerns(*policy, *item));
        policies.filter_map(|(policy, _)| Some((self.policies.key(policy)?, &self.policies.get(policy)?.policy)))
    }

    /// The active endpoints that a policy has a say about.
    pub(super) fn endpoints_of(&self, policy: &ResourceKey) -> impl Iterator<Item = &ResourceKey> {
        self.known(policy).into_iter().flat_map(|known| self.keys(&known.endpoints))
    }

    /// The active endpoints that a policy of a tier has a say about, those of several as often.
    pub(super) fn endpoints_in_tier(&self, tier: &str) -> impl Iterator<Item = &ResourceKey> {
        let policies = self.by_tier.get(tier).into_iter().flat_map(IdSet::iter);
        policies.filter_map(|policy| self.policies.get(policy)).flat_map(|known| self.keys(&known.endpoints))
    }

    fn keys<'a>(&'a self, items: &'a IdSet) -> impl Iterator<Item = &'a ResourceKey> {
        items.iter().filter_map(|item| self.endpoints.key(item))
    }

    /// A policy, if it is active.
    pub(super) fn active_policy(&self, key: &ResourceKey) -> Option<&Policy> {
        self.known(key).filter(|known| known.is_active()).map(|known| &known.policy)
    }

    /// A profile, if it is active; the inner option says whether it exists.
    pub(super) fn active_profile(&self, name: &str) -> Option<Option<&Profile>> {
        self.profiles.get(name).filter(|named| named.references > 0).map(|named| named.profile.as_ref())
    }

    /// Whether a policy has a say about an endpoint that it selects.
    fn concerns(&self, policy: u32, item: u32) -> bool {
        let is_workload = self.endpoints.get(item).is_some_and(Local::is_workload);
        !is_workload || self.policies.get(policy).is_some_and(|known| known.policy.concerns_workloads())
    }

    fn start(&mut self, policy: u32, item: u32) {
        let Some(known) = self.policies.get_mut(policy) else { return };
        let is_first = known.endpoints.is_empty();
        known.endpoints.insert(item);
        if is_first {
            self.by_tier.entry(known.policy.tier().into()).or_default().insert(policy);
            self.touch_policy(policy);
        }
    }

    fn stop(&mut self, policy: u32, item: u32) {
        let Some(known) = self.policies.get_mut(policy) else { return };
        if known.endpoints.remove(item) && known.endpoints.is_empty() {
            let policy_view = known.policy.clone();
            self.leave_tier(policy_view.tier(), policy);
            self.touch_policy(policy);
            self.idle.push(policy);
        }
    }

    fn known(&self, policy: &ResourceKey) -> Option<&Known> {
        self.policies.get(self.policies.find(policy)?)
    }

    fn touch_policy(&mut self, policy: u32) {
        self.dirty.policies.extend(self.policies.key(policy).cloned());
    }

    fn leave_tier(&mut self, tier: &str, policy: u32) {
        let Some(policies) = self.by_tier.get_mut(tier) else { return };
        policies.remove(policy);
        if policies.is_empty() {
            self.by_tier.remove(tier);
        }
    }

    fn refer(&mut self, name: &str) {
        let name: Arc<str> = name.into();
        let named = self.profiles.entry(name.clone()).or_default();
        named.references += 1;
        if named.references == 1 {
            self.hand_down(&name, None);
            self.dirty.profiles.insert(name);
        }
    }

    fn unrefer(&mut self, name: &str) {
        let Some(named) = self.profiles.get_mut(name) else { return };
        named.references -= 1;
        if named.references > 0 {
            return;
        }
        self.dirty.profiles.insert(name.into());
        let former = named.profile.clone();
        if former.is_none() {
            self.profiles.remove(name);
        }
        self.hand_down(&Arc::from(name), former.as_ref());
    }

    /// Gives a profile's labels to the index while an endpoint names it: of tens of thousands only those few are held there. Until now it
    /// gave those of its former version, if there was one that was named.
    fn hand_down(&mut self, name: &Arc<str>, former: Option<&Profile>) {
        let named = self.profiles.get(name).filter(|named| named.references > 0);
        let profile = named.and_then(|named| named.profile.clone());
        let woken = self.waiting.as_mut().map(|waiting| {
            let woken = waiting.arrive(profile.iter().flat_map(Profile::labels));
            waiting.leave(former.into_iter().flat_map(Profile::labels));
            woken
        });
        self.wake(woken);
        self.index.set_parent(name, profile.as_ref().map(Profile::labels));
    }
}
