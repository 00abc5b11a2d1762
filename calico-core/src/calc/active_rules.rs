//! Which policies and profiles are active, and for which endpoints.
//!
//! A policy is active while its selector matches an active endpoint of this host that it has a say about, or while it says that every
//! node needs it; a profile while an active endpoint names it. In come active endpoints, policies and profiles; out come three sets of
//! keys whose calculated form must be looked at again.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::mem;

use hashbrown::HashMap;

use super::admit::Profile;
use super::arena::Arena;
use super::local::Local;
use super::policy::Policy;
use crate::label::Index;
use crate::resource::ResourceKey;
use crate::selector::Selector;

/// The node.
#[derive(Debug, Default)]
pub(super) struct Activation {
    index: Index,
    endpoints: HashMap<ResourceKey, Active>,
    by_item: HashMap<u32, ResourceKey>,
    /// By the index's key of the policy's selector.
    policies: Arena<Known>,
    profiles: HashMap<Arc<str>, Named>,
    /// Active policies by tier.
    by_tier: HashMap<Arc<str>, BTreeSet<ResourceKey>>,
    dirty: Dirty,
}

/// Keys to look at again; each may be present or gone.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    pub(super) endpoints: BTreeSet<ResourceKey>,
    pub(super) policies: BTreeSet<ResourceKey>,
    pub(super) profiles: BTreeSet<Arc<str>>,
}

/// An active endpoint.
#[derive(Debug)]
struct Active {
    endpoint: Local,
    item: u32,
    policies: BTreeSet<ResourceKey>,
}

/// A policy and the endpoints that it matches.
#[derive(Debug)]
struct Known {
    policy: Policy,
    endpoints: BTreeSet<ResourceKey>,
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
    pub(super) fn set_endpoint(&mut self, key: &ResourceKey, endpoint: Option<Local>) {
        self.dirty.endpoints.insert(key.clone());
        let Some(endpoint) = endpoint else { return self.remove_endpoint(key) };
        // The new names first, so that a profile named before and after stays active in between.
        endpoint.profiles().for_each(|name| self.refer(name));
        match self.endpoints.get_mut(key) {
            Some(active) => {
                self.index.change_item(active.item, endpoint.labels(key), endpoint.profiles());
                let former = mem::replace(&mut active.endpoint, endpoint);
                former.profiles().for_each(|name| self.unrefer(name));
            }
            None => {
                let item = self.index.add_item(endpoint.labels(key), endpoint.profiles());
                self.by_item.insert(item, key.clone());
                self.endpoints.insert(key.clone(), Active { endpoint, item, policies: BTreeSet::new() });
            }
        }
    }

    fn remove_endpoint(&mut self, key: &ResourceKey) {
        let Some(active) = self.endpoints.remove(key) else { return };
        self.index.remove_item(active.item);
        self.by_item.remove(&active.item);
        for policy in &active.policies {
            self.stop(policy, key);
        }
        active.endpoint.profiles().for_each(|name| self.unrefer(name));
    }

    pub(super) fn set_policy(&mut self, key: &ResourceKey, policy: Option<(Policy, Selector)>) {
        let known = self.policies.find(key);
        let Some((policy, selector)) = policy else { return self.remove_policy(known) };
        let kept = known.and_then(|id| self.policies.get_mut(id)).filter(|known| known.policy.selects_like(&policy));
        let Some(known) = kept else {
            self.remove_policy(known);
            let id = self.index.add_selector(&selector);
            if policy.is_needed_everywhere() {
                self.dirty.policies.insert(key.clone());
            }
            return self.policies.insert(id, key.clone(), Known { policy, endpoints: BTreeSet::new() });
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
            self.dirty.endpoints.extend(known.endpoints.iter().cloned());
        }
        if former.tier() != known.policy.tier() {
            self.by_tier.entry(known.policy.tier().into()).or_default().insert(key.clone());
            self.leave_tier(former.tier(), key);
        }
    }

    fn remove_policy(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        let Some((key, known)) = self.policies.remove(id) else { return };
        self.index.remove_selector(id);
        if known.is_active() {
            self.dirty.policies.insert(key.clone());
        }
        if known.endpoints.is_empty() {
            return;
        }
        self.leave_tier(known.policy.tier(), &key);
        for endpoint in known.endpoints {
            if let Some(active) = self.endpoints.get_mut(&endpoint) {
                active.policies.remove(&key);
            }
            self.dirty.endpoints.insert(endpoint);
        }
    }

    pub(super) fn set_profile(&mut self, name: &Arc<str>, profile: Option<Profile>) {
        let named = self.profiles.entry(name.clone()).or_default();
        named.profile = profile;
        if named.references > 0 {
            self.dirty.profiles.insert(name.clone());
            self.hand_down(name);
        } else if named.profile.is_none() {
            self.profiles.remove(name);
        }
    }

    /// A tier came, changed or went.
    pub(super) fn touch_tier(&mut self, tier: &str) {
        let policies = self.by_tier.get(tier).into_iter().flatten();
        let endpoints = policies
            .filter_map(|policy| self.policies.get(self.policies.find(policy)?))
            .flat_map(|known| &known.endpoints);
        self.dirty.endpoints.extend(endpoints.cloned());
    }

    /// Works out which policies match which endpoints now.
    pub(super) fn settle(&mut self) {
        let mut index = mem::take(&mut self.index);
        index.settle(|change| {
            let Some(policy) = self.policies.key(change.selector).cloned() else { return };
            let Some(endpoint) = self.by_item.get(&change.item).cloned() else { return };
            if !self.concerns(&policy, &endpoint) {
                return;
            }
            self.dirty.endpoints.insert(endpoint.clone());
            if change.started {
                self.start(&policy, &endpoint);
            } else {
                self.stop(&policy, &endpoint);
                if let Some(active) = self.endpoints.get_mut(&endpoint) {
                    active.policies.remove(&policy);
                }
            }
        });
        self.index = index;
    }

    /// What must be looked at again since the last call.
    pub(super) fn take_dirty(&mut self) -> Dirty {
        mem::take(&mut self.dirty)
    }

    /// An active endpoint.
    pub(super) fn endpoint(&self, key: &ResourceKey) -> Option<&Local> {
        self.endpoints.get(key).map(|active| &active.endpoint)
    }

    /// Policies of an active endpoint.
    pub(super) fn policies_of(&self, key: &ResourceKey) -> impl Iterator<Item = (&ResourceKey, &Policy)> {
        let policies = self.endpoints.get(key).into_iter().flat_map(|active| &active.policies);
        policies.filter_map(|policy| Some((policy, &self.known(policy)?.policy)))
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
    fn concerns(&self, policy: &ResourceKey, endpoint: &ResourceKey) -> bool {
        let is_workload = self.endpoint(endpoint).is_some_and(Local::is_workload);
        !is_workload || self.known(policy).is_some_and(|known| known.policy.concerns_workloads())
    }

    fn start(&mut self, policy: &ResourceKey, endpoint: &ResourceKey) {
        if let Some(active) = self.endpoints.get_mut(endpoint) {
            active.policies.insert(policy.clone());
        }
        let Some(known) = self.policies.find(policy).and_then(|id| self.policies.get_mut(id)) else { return };
        if known.endpoints.is_empty() {
            self.dirty.policies.insert(policy.clone());
            self.by_tier.entry(known.policy.tier().into()).or_default().insert(policy.clone());
        }
        known.endpoints.insert(endpoint.clone());
    }

    fn stop(&mut self, policy: &ResourceKey, endpoint: &ResourceKey) {
        let Some(known) = self.policies.find(policy).and_then(|id| self.policies.get_mut(id)) else { return };
        known.endpoints.remove(endpoint);
        if known.endpoints.is_empty() {
            self.dirty.policies.insert(policy.clone());
            let policy_view = known.policy.clone();
            self.leave_tier(policy_view.tier(), policy);
        }
    }

    fn known(&self, policy: &ResourceKey) -> Option<&Known> {
        self.policies.get(self.policies.find(policy)?)
    }

    fn leave_tier(&mut self, tier: &str, policy: &ResourceKey) {
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
            self.hand_down(&name);
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
        if named.profile.is_none() {
            self.profiles.remove(name);
        }
        self.hand_down(&Arc::from(name));
    }

    /// Gives a profile's labels to the index while an endpoint names it: of tens of thousands only those few are held there.
    fn hand_down(&mut self, name: &Arc<str>) {
        let named = self.profiles.get(name).filter(|named| named.references > 0);
        let labels =
            named.and_then(|named| named.profile.as_ref()?.object()).map(|object| &object.spec.labels_to_apply);
        let pairs = labels.map(|labels| labels.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        self.index.set_parent(name, pairs);
    }
}
