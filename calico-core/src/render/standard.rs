//! The standard renderer: remembers what is active and turns each event into the change that it makes.
//!
//! Chains are counted: a policy's chain exists while a stack refers to it, a stack's while an endpoint does. So an event costs
//! what it changes, and nothing that is unused reaches the kernel.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::endpoint::{self, Parts};
use super::names::{Direction, policy_chain, profile_chain};
use super::pending::Pending;
use super::{PolicyRenderer, RenderConfig, rule, set, skeleton, stack};
use crate::calc::event::{
    ActiveEndpoint, ActiveRules, EndpointId, Event, IpSetKind, Member, PolicyId, ProfileId, SetId, Stack,
};
use crate::net::{Cidr, InterfaceName};
use crate::table::{Chain, ChainName, Delta, Element, ElementDelta, Neighbor, Rule, SetName, Verdict};

/// The standard renderer.
///
/// ```
/// use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
/// let renderer = Renderer::new(RenderConfig::default());
/// let skeleton = renderer.skeleton();
/// assert!(skeleton.chains_set.iter().any(|chain| chain.name.as_str() == "forward-egress"));
/// ```
#[derive(Debug)]
pub struct Renderer {
    config: RenderConfig,
    sets: BTreeMap<SetId, IpSetKind>,
    owners: BTreeMap<Owner, Arc<ActiveRules>>,
    /// Number of stacks that refer to a chain of rules.
    rule_chains: BTreeMap<(Owner, Direction), usize>,
    stacks: BTreeMap<ChainName, Counted<Arc<Stack>>>,
    source_chains: BTreeMap<ChainName, usize>,
    endpoints: BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
    /// Of several endpoints that claim an interface, the smallest is active (upstream's rule).
    claims: BTreeMap<InterfaceName, BTreeSet<EndpointId>>,
    /// Interfaces of active endpoints by address; the first has the route.
    addresses: BTreeMap<Cidr, BTreeSet<InterfaceName>>,
    pending: Pending,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Policy(PolicyId),
    Profile(ProfileId),
}

#[derive(Debug)]
struct Counted<T> {
    value: T,
    users: usize,
}

impl PolicyRenderer for Renderer {
    fn skeleton(&self) -> Delta {
        skeleton::render(&self.config)
    }

    fn handle(&mut self, event: &Event, delta: &mut Delta) {
        match event {
            Event::SetAdded { id, kind, members } => self.add_set(*id, *kind, members, delta),
            // Members of a set that was never announced have nowhere to go.
            Event::SetChanged { id, .. } if !self.sets.contains_key(id) => {}
            Event::SetChanged { id, added, removed } => self.change_members(*id, added, removed, delta),
            Event::SetRemoved(id) => self.remove_set(*id, delta),
            Event::PolicySet { id, rules } => self.set_rules(Owner::Policy(id.clone()), rules, delta),
            Event::PolicyRemoved(id) => self.remove_rules(&Owner::Policy(id.clone()), delta),
            Event::ProfileSet { id, rules } => self.set_rules(Owner::Profile(id.clone()), rules, delta),
            Event::ProfileRemoved(id) => self.remove_rules(&Owner::Profile(id.clone()), delta),
            Event::EndpointSet { id, endpoint } => self.change_endpoint(id, Some(endpoint), delta),
            Event::EndpointRemoved(id) => self.change_endpoint(id, None, delta),
            Event::HostEndpointSet { .. } | Event::HostEndpointRemoved(_) | Event::NetworkSet(_) => {}
        }
    }
}

impl Renderer {
    /// A renderer that knows of nothing active yet.
    pub fn new(config: RenderConfig) -> Self {
        Self {
            config,
            sets: BTreeMap::new(),
            owners: BTreeMap::new(),
            rule_chains: BTreeMap::new(),
            stacks: BTreeMap::new(),
            source_chains: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            claims: BTreeMap::new(),
            addresses: BTreeMap::new(),
            pending: Pending::default(),
        }
    }

    fn add_set(&mut self, id: SetId, kind: IpSetKind, members: &[Member], delta: &mut Delta) {
        if self.sets.insert(id, kind).is_some() {
            // Announced again, with all members: what it held before is not known here, so it starts anew.
            set::kernel_names(id, kind).for_each(|name| self.pending.remove_set(name, delta));
        }
        set::declarations(id, kind).into_iter().for_each(|decl| self.pending.add_set(decl, delta));
        self.change_members(id, members, &[], delta);
    }

    fn remove_set(&mut self, id: SetId, delta: &mut Delta) {
        let Some(kind) = self.sets.remove(&id) else { return };
        set::kernel_names(id, kind).for_each(|name| self.pending.remove_set(name, delta));
    }

    fn change_members(&mut self, id: SetId, added: &[Member], removed: &[Member], delta: &mut Delta) {
        set::change_members(id, added, removed, |change| self.pending.change_elements(change, delta));
    }

    fn set_rules(&mut self, owner: Owner, rules: &Arc<ActiveRules>, delta: &mut Delta) {
        self.owners.insert(owner.clone(), Arc::clone(rules));
        for direction in [Direction::Ingress, Direction::Egress] {
            let key = (owner.clone(), direction);
            if self.rule_chains.contains_key(&key) {
                self.pending.set_chain(self.render_rules(&key.0, direction), delta);
            }
        }
    }

    /// Nothing refers to the rules any more, says the order of events; should a stack still do so, its chain closes.
    fn remove_rules(&mut self, owner: &Owner, delta: &mut Delta) {
        self.owners.remove(owner);
        for direction in [Direction::Ingress, Direction::Egress] {
            if self.rule_chains.contains_key(&(owner.clone(), direction)) {
                self.pending.set_chain(self.render_rules(owner, direction), delta);
            }
        }
    }

    /// Rules that are not known are a drop: a reference into the void fails closed.
    fn render_rules(&self, owner: &Owner, direction: Direction) -> Chain {
        let rules = match (self.owners.get(owner), direction) {
            (Some(rules), Direction::Ingress) => rule::render(&rules.ingress, &self.config),
            (Some(rules), Direction::Egress) => rule::render(&rules.egress, &self.config),
            (None, _) => vec![Rule { verdict: Some(Verdict::Drop), ..Rule::default() }],
        };
        Chain { name: owner.chain(direction), base: None, rules }
    }

    fn change_endpoint(&mut self, id: &EndpointId, endpoint: Option<&Arc<ActiveEndpoint>>, delta: &mut Delta) {
        // What the base chains do not catch would be reachable and unpoliced.
        let endpoint = endpoint.filter(|new| self.config.is_workload(new.interface));
        let before = self.endpoints.get(id).map(|old| old.interface);
        let after = endpoint.map(|new| new.interface);
        let mut interfaces = vec![before, after];
        interfaces.dedup();
        let was: Vec<_> = interfaces.into_iter().flatten().map(|name| (name, self.active(name))).collect();
        if let Some(name) = before {
            let empty = self.claims.get_mut(&name).is_some_and(|claims| claims.remove(id) && claims.is_empty());
            if empty {
                self.claims.remove(&name);
            }
        }
        match endpoint {
            Some(new) => {
                self.endpoints.insert(id.clone(), Arc::clone(new));
                self.claims.entry(new.interface).or_default().insert(id.clone());
            }
            None => {
                self.endpoints.remove(id);
            }
        }
        for (name, old) in was {
            let new = self.active(name);
            if old != new {
                self.replace(name, old.as_deref(), new.as_deref(), delta);
            }
        }
    }

    fn active(&self, interface: InterfaceName) -> Option<Arc<ActiveEndpoint>> {
        let id = self.claims.get(&interface)?.first()?;
        self.endpoints.get(id).cloned()
    }

    /// Changes what the active endpoint of an interface contributes. Takes the new references before it lets go of the old, so
    /// that what both use stays.
    fn replace(
        &mut self,
        interface: InterfaceName,
        old: Option<&ActiveEndpoint>,
        new: Option<&ActiveEndpoint>,
        delta: &mut Delta,
    ) {
        let parts = |endpoint: Option<&ActiveEndpoint>| {
            endpoint.map(|endpoint| endpoint::parts(endpoint, &self.config)).unwrap_or_default()
        };
        let (before, after) = (parts(old), parts(new));
        if let Some(endpoint) = new {
            self.take_stack(&endpoint.ingress, Direction::Ingress, delta);
            self.take_stack(&endpoint.egress, Direction::Egress, delta);
            self.take_sources(endpoint, delta);
        }
        change_elements(&before, &after, delta);
        change_neighbors(&before, &after, &mut self.pending, delta);
        for setting in after.settings.difference(&before.settings) {
            self.pending.write_setting(setting.clone(), delta);
        }
        if new.is_none() {
            let paths = before.settings.iter().map(|setting| setting.path);
            self.pending.drop_settings(interface, paths, delta);
        }
        let addresses = |endpoint: Option<&ActiveEndpoint>| -> BTreeSet<Cidr> {
            endpoint.map(|endpoint| endpoint.addresses.iter().copied().collect()).unwrap_or_default()
        };
        let (had, has) = (addresses(old), addresses(new));
        had.difference(&has).for_each(|address| self.change_route(*address, interface, false, delta));
        has.difference(&had).for_each(|address| self.change_route(*address, interface, true, delta));
        if let Some(endpoint) = old {
            self.drop_stack(&endpoint.ingress, Direction::Ingress, delta);
            self.drop_stack(&endpoint.egress, Direction::Egress, delta);
            self.drop_sources(endpoint, delta);
        }
    }

    fn change_route(&mut self, address: Cidr, interface: InterfaceName, present: bool, delta: &mut Delta) {
        let claims = self.addresses.entry(address).or_default();
        let before = claims.first().copied();
        if present {
            claims.insert(interface);
        } else {
            claims.remove(&interface);
        }
        let after = claims.first().copied();
        if claims.is_empty() {
            self.addresses.remove(&address);
        }
        if before == after {
            return;
        }
        match after {
            Some(winner) => self.pending.set_route(endpoint::route(address, winner, &self.config), delta),
            None => self.pending.remove_route(endpoint::route(address, interface, &self.config).key, delta),
        }
    }

    fn take_stack(&mut self, stack: &Arc<Stack>, direction: Direction, delta: &mut Delta) {
        let name = stack::name(stack, direction);
        if let Some(known) = self.stacks.get_mut(&name) {
            known.users += 1;
            return;
        }
        for owner in owners(stack) {
            let key = (owner, direction);
            match self.rule_chains.get_mut(&key) {
                Some(users) => *users += 1,
                None => {
                    self.pending.set_chain(self.render_rules(&key.0, direction), delta);
                    self.rule_chains.insert(key, 1);
                }
            }
        }
        self.pending.set_chain(stack::render(stack, direction, &self.config), delta);
        self.stacks.insert(name, Counted { value: Arc::clone(stack), users: 1 });
    }

    fn drop_stack(&mut self, stack: &Stack, direction: Direction, delta: &mut Delta) {
        let name = stack::name(stack, direction);
        if let Some(known) = self.stacks.get_mut(&name) {
            known.users -= 1;
            if known.users > 0 {
                return;
            }
        }
        let Some(gone) = self.stacks.remove(&name) else { return };
        self.pending.remove_chain(name, delta);
        for owner in owners(&gone.value) {
            let key = (owner, direction);
            let Some(users) = self.rule_chains.get_mut(&key) else { continue };
            *users -= 1;
            if *users == 0 {
                self.rule_chains.remove(&key);
                self.pending.remove_chain(key.0.chain(direction), delta);
            }
        }
    }

    fn take_sources(&mut self, endpoint: &ActiveEndpoint, delta: &mut Delta) {
        let Some(chain) = endpoint::sources(endpoint, &self.config) else { return };
        let users = self.source_chains.entry(chain.name.clone()).or_insert(0);
        *users += 1;
        if *users == 1 {
            self.pending.set_chain(chain, delta);
        }
    }

    fn drop_sources(&mut self, endpoint: &ActiveEndpoint, delta: &mut Delta) {
        let Some(chain) = endpoint::sources(endpoint, &self.config) else { return };
        let Some(users) = self.source_chains.get_mut(&chain.name) else { return };
        *users -= 1;
        if *users == 0 {
            self.source_chains.remove(&chain.name);
            self.pending.remove_chain(chain.name, delta);
        }
    }
}

impl Owner {
    fn chain(&self, direction: Direction) -> ChainName {
        match self {
            Self::Policy(id) => policy_chain(id, direction),
            Self::Profile(id) => profile_chain(id, direction),
        }
    }
}

/// Each owner once, however often the stack names it.
fn owners(stack: &Stack) -> BTreeSet<Owner> {
    let policies = stack.tiers.iter().flat_map(|tier| &tier.policies).map(|id| Owner::Policy(id.clone()));
    policies.chain(stack.profiles.iter().map(|id| Owner::Profile(id.clone()))).collect()
}

fn change_elements(before: &Parts, after: &Parts, delta: &mut Delta) {
    let mut changes: BTreeMap<SetName, (Vec<Element>, Vec<Element>)> = BTreeMap::new();
    for (set, element) in before.elements.difference(&after.elements) {
        changes.entry(set.clone()).or_default().0.push(element.clone());
    }
    for (set, element) in after.elements.difference(&before.elements) {
        changes.entry(set.clone()).or_default().1.push(element.clone());
    }
    let changes = changes.into_iter().map(|(set, (removed, added))| ElementDelta { set, removed, added });
    delta.elements.extend(changes);
}

fn change_neighbors(before: &Parts, after: &Parts, pending: &mut Pending, delta: &mut Delta) {
    let same = |a: &Neighbor, b: &Neighbor| (a.interface, a.address) == (b.interface, b.address);
    for gone in before.neighbors.difference(&after.neighbors) {
        if !after.neighbors.iter().any(|kept| same(kept, gone)) {
            pending.remove_neighbor(*gone, delta);
        }
    }
    after.neighbors.difference(&before.neighbors).for_each(|neighbor| pending.set_neighbor(*neighbor, delta));
}
