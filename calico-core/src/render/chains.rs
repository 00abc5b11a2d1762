//! Chains by use: one exists while something refers to it.
//!
//! A policy's chain exists while a stack refers to it, as does a segment's; a stack's while an endpoint does. So an event costs what it
//! changes, and nothing that is unused reaches the kernel.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::action::Context;
use super::footprint::Footprint;
use super::names::Direction;
use super::owner::{Layer, Owner};
use super::pending::Pending;
use super::segment::{self, Way};
use super::set::{self, Sets};
use super::stack::{self, Course};
use super::{RenderConfig, rule};
use crate::calc::event::{ActiveRules, PolicyId, Stack};
use crate::table::{Chain, ChainName, Delta, Rule, Verdict};

/// All that events may change: settings and chains on one side, the delta with its places on the other.
#[derive(Debug)]
pub(super) struct Chains {
    pub(super) config: RenderConfig,
    pub(super) pending: Pending,
    pub(super) sets: Sets,
    rules: BTreeMap<Owner, Arc<ActiveRules>>,
    rule_chains: BTreeMap<RuleKey, RuleChain>,
    segments: BTreeMap<ChainName, Segment>,
    stacks: BTreeMap<ChainName, Counted<(Arc<Stack>, Course)>>,
    /// Names of those stacks by the place of their value, which endpoints with equal stacks share and which stays where it is while `stacks`
    /// holds it. To make a name out of thousands of policies takes a millisecond.
    stack_names: BTreeMap<(usize, Course), ChainName>,
    /// Chains that several may bring along, equal under one name.
    shared: BTreeMap<ChainName, usize>,
}

type RuleKey = (Owner, Direction, Layer);

/// A chain of rules.
#[derive(Debug)]
struct RuleChain {
    /// Number of stacks that refer to it.
    users: usize,
    footprint: Footprint,
    /// Those in which it stands.
    segments: BTreeSet<ChainName>,
}

#[derive(Debug)]
struct Segment {
    policies: Vec<PolicyId>,
    way: Way,
    /// Number of stacks that refer to it.
    users: usize,
    /// Chains that it shares with other segments.
    lists: Vec<ChainName>,
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
            sets: Sets::default(),
            rules: BTreeMap::new(),
            rule_chains: BTreeMap::new(),
            segments: BTreeMap::new(),
            stacks: BTreeMap::new(),
            stack_names: BTreeMap::new(),
            shared: BTreeMap::new(),
        }
    }

    /// Rules that changed; none where they went. Nothing refers to those any more, says the order of events; should a stack still do so, its
    /// chain closes.
    pub(super) fn set_rules(&mut self, owner: Owner, rules: Option<&Arc<ActiveRules>>, delta: &mut Delta) {
        let former = match rules {
            Some(rules) => self.rules.insert(owner.clone(), Arc::clone(rules)),
            None => self.rules.remove(&owner),
        };
        self.sets.refer(&owner, former.as_deref(), rules.map(|rules| &**rules));
        self.rewrite(&[Direction::Ingress, Direction::Egress].map(|direction| (owner.clone(), direction)), delta);
    }

    /// Kernel sets that came and went, and the rules that name others for it.
    pub(super) fn change_set(&mut self, change: set::Change, delta: &mut Delta) {
        change.removed.into_iter().for_each(|name| self.pending.remove_set(name, delta));
        change.added.into_iter().for_each(|decl| self.pending.add_set(decl, delta));
        change.elements.into_iter().for_each(|elements| self.pending.change_elements(elements, delta));
        self.rewrite(&change.rewritten, delta);
    }

    /// Writes the chains of rules anew, and then the segments in which they stand if they are about other packets than before: each
    /// once, so that no list comes and goes again in between.
    fn rewrite(&mut self, whose: &[(Owner, Direction)], delta: &mut Delta) {
        let range = |(owner, direction): &(Owner, Direction)| {
            let key = |layer| (owner.clone(), *direction, layer);
            self.rule_chains.range(key(Layer::Filter)..=key(Layer::Raw)).map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        let used: Vec<RuleKey> = whose.iter().flat_map(range).collect();
        let mut concerned = BTreeSet::new();
        for key in used {
            let footprint = self.write_rules(&key.0, key.1, key.2, delta);
            let Some(known) = self.rule_chains.get_mut(&key).filter(|known| known.footprint != footprint) else {
                continue;
            };
            known.footprint = footprint;
            concerned.extend(known.segments.iter().cloned());
        }
        concerned.iter().for_each(|name| self.write_segment(name, delta));
    }

    /// Rules that are not known are a drop: a reference into the void fails closed, but for those that never decide.
    fn write_rules(&mut self, owner: &Owner, direction: Direction, layer: Layer, delta: &mut Delta) -> Footprint {
        let rules = self.rules.get(owner);
        let tier = rules.and_then(|rules| rules.tier.as_deref());
        let context = Context { config: &self.config, sets: &self.sets, owner, tier, direction, layer };
        let rules = match (rules, direction) {
            (Some(rules), Direction::Ingress) => rule::render(&rules.ingress, &context),
            (Some(rules), Direction::Egress) => rule::render(&rules.egress, &context),
            (None, _) if owner.is_staged() => Vec::new(),
            (None, _) => vec![Rule { verdict: Some(Verdict::Drop), ..Rule::default() }],
        };
        let footprint = Footprint::of(&rules);
        self.pending.set_chain(Chain { name: owner.chain(direction, layer), base: None, rules }, delta);
        footprint
    }

    /// Writes the chain of a segment anew, and what it leads to.
    fn write_segment(&mut self, name: &ChainName, delta: &mut Delta) {
        let Some(segment) = self.segments.get(name) else { return };
        let unknown = Footprint::default();
        let footprint = |policy: &PolicyId| {
            let known = self.rule_chains.get(&rule_key(policy, segment.way));
            known.map_or(&unknown, |known| &known.footprint)
        };
        let footprints: Vec<&Footprint> = segment.policies.iter().map(footprint).collect();
        let (chain, lists) = segment::render(&segment.policies, &footprints, segment.way);
        let names = lists.iter().map(|list| list.name.clone()).collect();
        lists.into_iter().for_each(|list| self.take_chain(list, delta));
        self.pending.set_chain(chain, delta);
        let before = self.segments.get_mut(name).map(|segment| core::mem::replace(&mut segment.lists, names));
        before.into_iter().flatten().for_each(|list| self.drop_chain(list, delta));
    }

    fn take_segment(&mut self, policies: &[PolicyId], way: Way, delta: &mut Delta) {
        let name = segment::name(policies, way);
        if let Some(known) = self.segments.get_mut(&name) {
            known.users += 1;
            return;
        }
        for policy in policies {
            if let Some(chain) = self.rule_chains.get_mut(&rule_key(policy, way)) {
                chain.segments.insert(name.clone());
            }
        }
        let segment = Segment { policies: policies.to_vec(), way, users: 1, lists: Vec::new() };
        self.segments.insert(name.clone(), segment);
        self.write_segment(&name, delta);
    }

    fn drop_segment(&mut self, policies: &[PolicyId], way: Way, delta: &mut Delta) {
        let name = segment::name(policies, way);
        let Some(known) = self.segments.get_mut(&name) else { return };
        known.users -= 1;
        if known.users > 0 {
            return;
        }
        let Some(gone) = self.segments.remove(&name) else { return };
        for policy in policies {
            if let Some(chain) = self.rule_chains.get_mut(&rule_key(policy, way)) {
                chain.segments.remove(&name);
            }
        }
        self.pending.remove_chain(name, delta);
        gone.lists.into_iter().for_each(|list| self.drop_chain(list, delta));
    }

    /// The name of a stack's chain.
    pub(super) fn stack_name(&self, stack: &Arc<Stack>, course: Course) -> ChainName {
        let known = self.stack_names.get(&(Arc::as_ptr(stack).addr(), course));
        known.cloned().unwrap_or_else(|| stack::name(stack, course))
    }

    pub(super) fn take_stack(&mut self, stack: &Arc<Stack>, course: Course, delta: &mut Delta) -> ChainName {
        let name = self.stack_name(stack, course);
        if let Some(known) = self.stacks.get_mut(&name) {
            known.users += 1;
            return name;
        }
        for key in rule_chains(stack, course) {
            match self.rule_chains.get_mut(&key) {
                Some(known) => known.users += 1,
                None => {
                    let footprint = self.write_rules(&key.0, key.1, key.2, delta);
                    self.rule_chains.insert(key, RuleChain { users: 1, footprint, segments: BTreeSet::new() });
                }
            }
        }
        let way = course.way(&self.config);
        segments(stack).for_each(|policies| self.take_segment(policies, way, delta));
        self.pending.set_chain(stack::render(stack, course, &self.config), delta);
        self.stack_names.insert((Arc::as_ptr(stack).addr(), course), name.clone());
        self.stacks.insert(name.clone(), Counted { value: (Arc::clone(stack), course), users: 1 });
        name
    }

    pub(super) fn drop_stack(&mut self, stack: &Arc<Stack>, course: Course, delta: &mut Delta) {
        let name = self.stack_name(stack, course);
        if let Some(known) = self.stacks.get_mut(&name) {
            known.users -= 1;
            if known.users > 0 {
                return;
            }
        }
        let Some(gone) = self.stacks.remove(&name) else { return };
        self.stack_names.remove(&(Arc::as_ptr(&gone.value.0).addr(), course));
        self.pending.remove_chain(name, delta);
        let way = course.way(&self.config);
        segments(&gone.value.0).for_each(|policies| self.drop_segment(policies, way, delta));
        for key in rule_chains(&gone.value.0, gone.value.1) {
            let Some(known) = self.rule_chains.get_mut(&key) else { continue };
            known.users -= 1;
            if known.users == 0 {
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

    /// Takes the chains that somebody brings along instead of others. One that keeps its name and says something else is nobody else's (what
    /// several bring along is equal), and is written anew.
    pub(super) fn exchange_chains(&mut self, before: &[Chain], after: &[Chain], delta: &mut Delta) {
        for chain in after {
            self.take_chain(chain.clone(), delta);
            if before.iter().any(|old| old.name == chain.name && old != chain) {
                self.pending.set_chain(chain.clone(), delta);
            }
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
fn rule_chains(stack: &Stack, course: Course) -> BTreeSet<RuleKey> {
    let policies = stack.tiers.iter().flat_map(|tier| &tier.policies).map(|id| Owner::Policy(id.clone()));
    let profiles = stack.profiles.iter().filter(|_| course.closed).map(|id| Owner::Profile(id.clone()));
    policies.chain(profiles).map(|owner| owner_key(owner, course.direction, course.layer)).collect()
}

fn rule_key(policy: &PolicyId, way: Way) -> RuleKey {
    owner_key(Owner::Policy(policy.clone()), way.direction, way.layer)
}

fn owner_key(owner: Owner, direction: Direction, layer: Layer) -> RuleKey {
    let layer = if owner.is_staged() { Layer::Filter } else { layer };
    (owner, direction, layer)
}

fn segments(stack: &Stack) -> impl Iterator<Item = &[PolicyId]> {
    stack.tiers.iter().flat_map(|tier| segment::cut(&tier.policies)).filter(|piece| segment::is_segment(piece))
}
