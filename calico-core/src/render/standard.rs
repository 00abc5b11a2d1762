//! The standard renderer: remembers what is active and turns each event into the change that it makes.

use super::chains::Chains;
use super::hosts::Hosts;
use super::network::Surroundings;
use super::owner::Owner;
use super::workloads::Workloads;
use super::{PolicyRenderer, RenderConfig, skeleton};
use crate::calc::Abilities;
use crate::calc::event::Event;
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
            Event::SetAdded { id, kind, members } => {
                let change = chains.sets.announce(*id, *kind, members);
                chains.change_set(change, delta);
            }
            Event::SetChanged { id, added, removed } => {
                let change = chains.sets.change(*id, added, removed);
                chains.change_set(change, delta);
            }
            Event::SetRemoved(id) => {
                let change = chains.sets.remove(*id);
                chains.change_set(change, delta);
            }
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
            chains: Chains::new(config),
            workloads: Workloads::default(),
            hosts: Hosts::default(),
            surroundings: Surroundings::default(),
        }
    }
}
