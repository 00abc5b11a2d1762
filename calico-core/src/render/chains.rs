//! Chains by use: one exists while something refers to it.
//!
//! A policy's chain exists while a stack refers to it, a stack's while an endpoint does. So an event costs what it changes, and nothing
//! that is unused reaches the kernel.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::action::Context;
use super::names::Direction;
use super::owner::{Layer, Owner};
use super::pending::Pending;
use super::stack::{self, Course};
use super::{RenderConfig, rule};
use crate::calc::event::{ActiveRules, Stack};
use crate::table::{Chain, ChainName, Delta, Rule, Verdict};

/// All that events may change: settings and chains on one side, the delta with its places on the other.
#[derive(Debug)]
pub(super) struct Chains {
    pub(super) config: RenderConfig,
    pub(super) pending: Pending,
    rules: BTreeMap<Owner, Arc<ActiveRules>>,
    /// Number of stacks that refer to a chain of rules.
    rule_chains: BTreeMap<(Owner, Direction, Layer), usize>,
    stacks: BTreeMap<ChainName, Counted<(Arc<Stack>, Course)>>,
    /// Chains that several may bring along, equal under one name.
    shared: BTreeMap<ChainName, usize>,
}

#[derive(Debug)]
struct Counted<T> {
    value: T,
    users: usize,
}

impl Chains {
    pub(super) fn new(config: RenderConfig) -> Self {
        Self {
            config,
            pending: Pending::default(),
            rules: BTreeMap::new(),
            rule_chains: BTreeMap::new(),
            stacks: BTreeMap::new(),
            shared: BTreeMap::new(),
        }
    }

    /// Rules that changed; none where they went. Nothing refers to those any more, says the order of events; should a stack still do so, its
    /// chain closes.
    pub(super) fn set_rules(&mut self, owner: Owner, rules: Option<&Arc<ActiveRules>>, delta: &mut Delta) {
        match rules {
            Some(rules) => self.rules.insert(owner.clone(), Arc::clone(rules)),
            None => self.rules.remove(&owner),
        };
        let first = (owner.clone(), Direction::Ingress, Layer::Filter);
        let last = (owner, Direction::Egress, Layer::Raw);
        let used: Vec<_> = self.rule_chains.range(first..=last).map(|(key, _)| key.clone()).collect();
        for (owner, direction, layer) in used {
            self.write_rules(&owner, direction, layer, delta);
        }
    }

    /// Rules that are not known are a drop: a reference into the void fails closed, but for those that never decide.
    fn write_rules(&mut self, owner: &Owner, direction: Direction, layer: Layer, delta: &mut Delta) {
        let rules = self.rules.get(owner);
        let tier = rules.and_then(|rules| rules.tier.as_deref());
        let context = Context { config: &self.config, owner, tier, direction, layer };
        let rules = match (rules, direction) {
            (Some(rules), Direction::Ingress) => rule::render(&rules.ingress, &context),
            (Some(rules), Direction::Egress) => rule::render(&rules.egress, &context),
            (None, _) if owner.is_staged() => Vec::new(),
            (None, _) => vec![Rule { verdict: Some(Verdict::Drop), ..Rule::default() }],
        };
        self.pending.set_chain(Chain { name: owner.chain(direction, layer), base: None, rules }, delta);
    }

    pub(super) fn take_stack(&mut self, stack: &Arc<Stack>, course: Course, delta: &mut Delta) -> ChainName {
        let name = stack::name(stack, course);
        if let Some(known) = self.stacks.get_mut(&name) {
            known.users += 1;
            return name;
        }
        for key in rule_chains(stack, course) {
            match self.rule_chains.get_mut(&key) {
                Some(users) => *users += 1,
                None => {
                    self.write_rules(&key.0, key.1, key.2, delta);
                    self.rule_chains.insert(key, 1);
                }
            }
        }
        self.pending.set_chain(stack::render(stack, course, &self.config), delta);
        self.stacks.insert(name.clone(), Counted { value: (Arc::clone(stack), course), users: 1 });
        name
    }

    pub(super) fn drop_stack(&mut self, stack: &Stack, course: Course, delta: &mut Delta) {
        let name = stack::name(stack, course);
        if let Some(known) = self.stacks.get_mut(&name) {
            known.users -= 1;
            if known.users > 0 {
                return;
            }
        }
        let Some(gone) = self.stacks.remove(&name) else { return };
        self.pending.remove_chain(name, delta);
        for key in rule_chains(&gone.value.0, gone.value.1) {
            let Some(users) = self.rule_chains.get_mut(&key) else { continue };
            *users -= 1;
            if *users == 0 {
                self.rule_chains.remove(&key);
                self.pending.remove_chain(key.0.chain(key.1, key.2), delta);
            }
        }
    }

    pub(super) fn take_chain(&mut self, chain: Chain, delta: &mut Delta) {
        let users = self.shared.entry(chain.name.clone()).or_insert(0);
        *users += 1;
        if *users == 1 {
            self.pending.set_chain(chain, delta);
        }
    }

    pub(super) fn drop_chain(&mut self, name: ChainName, delta: &mut Delta) {
        let Some(users) = self.shared.get_mut(&name) else { return };
        *users -= 1;
        if *users == 0 {
            self.shared.remove(&name);
            self.pending.remove_chain(name, delta);
        }
    }
}

/// Chains with fixed names, of which some come and go: as last written.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<ChainName, Chain>);

impl Written {
    /// From now on, these. What is as it was is not written again.
    pub(super) fn write(&mut self, wanted: Vec<Chain>, pending: &mut Pending, delta: &mut Delta) {
        let names: BTreeSet<&ChainName> = wanted.iter().map(|chain| &chain.name).collect();
        let gone: Vec<_> = self.0.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in gone {
            self.0.remove(&name);
            pending.remove_chain(name, delta);
        }
        for chain in wanted {
            if self.0.get(&chain.name) != Some(&chain) {
                self.0.insert(chain.name.clone(), chain.clone());
                pending.set_chain(chain, delta);
            }
        }
    }
}

/// The chains of rules of a stack, each once, however often the stack names it.
fn rule_chains(stack: &Stack, course: Course) -> BTreeSet<(Owner, Direction, Layer)> {
    let policies = stack.tiers.iter().flat_map(|tier| &tier.policies).map(|id| Owner::Policy(id.clone()));
    let profiles = stack.profiles.iter().filter(|_| course.closed).map(|id| Owner::Profile(id.clone()));
    let layer = |owner: &Owner| if owner.is_staged() { Layer::Filter } else { course.layer };
    policies
        .chain(profiles)
        .map(|owner| (layer(&owner), owner))
        .map(|(layer, owner)| (owner, course.direction, layer))
        .collect()
}
