//! The standard renderer: remembers what is active and turns each event into the change that it makes.

use alloc::collections::BTreeMap;

use super::chains::Chains;
use super::hosts::Hosts;
use super::network::Surroundings;
use super::owner::Owner;
use super::workloads::Workloads;
use super::{PolicyRenderer, RenderConfig, set, skeleton};
use crate::calc::Abilities;
use crate::calc::event::{Event, IpSetKind, Member, SetId};
use crate::flow::Flow;
use crate::table::Delta;

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
    sets: BTreeMap<SetId, IpSetKind>,
    chains: Chains,
    workloads: Workloads,
    hosts: Hosts,
    surroundings: Surroundings,
}

impl PolicyRenderer for Renderer {
    fn skeleton(&self) -> Delta {
        skeleton::render(&self.chains.config)
    }

    fn handle(&mut self, event: &Event, delta: &mut Delta) {
        let chains = &mut self.chains;
        match event {
            Event::SetAdded { id, kind, members } => self.add_set(*id, *kind, members, delta),
            // Members of a set that was never announced have nowhere to go.
            Event::SetChanged { id, .. } if !self.sets.contains_key(id) => {}
            Event::SetChanged { id, added, removed } => self.change_members(*id, added, removed, delta),
            Event::SetRemoved(id) => self.remove_set(*id, delta),
            Event::PolicySet { id, rules } => chains.set_rules(Owner::Policy(id.clone()), Some(rules), delta),
            Event::PolicyRemoved(id) => chains.set_rules(Owner::Policy(id.clone()), None, delta),
            Event::ProfileSet { id, rules } => chains.set_rules(Owner::Profile(id.clone()), Some(rules), delta),
            Event::ProfileRemoved(id) => chains.set_rules(Owner::Profile(id.clone()), None, delta),
            Event::EndpointSet { id, endpoint } => self.workloads.change(id, Some(endpoint), chains, delta),
            Event::EndpointRemoved(id) => self.workloads.change(id, None, chains, delta),
            Event::HostEndpointSet { id, endpoint } => self.hosts.change(id, Some(endpoint), chains, delta),
            Event::HostEndpointRemoved(id) => self.hosts.change(id, None, chains, delta),
            Event::NetworkSet(network) => self.surroundings.change(network, chains, delta),
        }
    }

    fn bar(&mut self, ended: &[Flow], over: &[Flow], delta: &mut Delta) {
        super::ended::change(ended, over, delta);
    }

    fn abilities(&self) -> Abilities {
        let config = &self.chains.config;
        Abilities {
            floating_addresses: config.floating_addresses,
            spoofed_sources: config.allow_spoofed_sources,
            ..Abilities::default()
        }
    }
}

impl Renderer {
    /// A renderer that knows of nothing active yet.
    pub fn new(config: RenderConfig) -> Self {
        Self {
            sets: BTreeMap::new(),
            chains: Chains::new(config),
            workloads: Workloads::default(),
            hosts: Hosts::default(),
            surroundings: Surroundings::default(),
        }
    }

    fn add_set(&mut self, id: SetId, kind: IpSetKind, members: &[Member], delta: &mut Delta) {
        if self.sets.insert(id, kind).is_some() {
            // Announced again, with all members: what it held before is not known here, so it starts anew.
            set::kernel_names(id, kind).for_each(|name| self.chains.pending.remove_set(name, delta));
        }
        set::declarations(id, kind).into_iter().for_each(|decl| self.chains.pending.add_set(decl, delta));
        self.change_members(id, members, &[], delta);
    }

    fn remove_set(&mut self, id: SetId, delta: &mut Delta) {
        let Some(kind) = self.sets.remove(&id) else { return };
        set::kernel_names(id, kind).for_each(|name| self.chains.pending.remove_set(name, delta));
    }

    fn change_members(&mut self, id: SetId, added: &[Member], removed: &[Member], delta: &mut Delta) {
        set::change_members(id, added, removed, |change| self.chains.pending.change_elements(change, delta));
    }
}
