//! What all rows and columns have in common, and which hosts tell their nodes apart.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::Node;
use crate::resource::PolicyType;
use crate::verdict::compiled::{Compiled, StackId};
use crate::verdict::passage::{HostStacks, Settings, of_direction};

/// Everything that is no row or column.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) compiled: &'a Compiled,
    /// Of whoever has none of his own.
    settings: &'a Settings,
    own_settings: Vec<Arc<Settings>>,
    /// Hosts that tell their nodes apart from those of others, by name.
    places: HashMap<Arc<str>, u32>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Whom no policy concerns.
    Nobody,
    /// An endpoint that is not active: nothing passes.
    Unknown,
    Workload,
    /// A host of the cluster itself.
    Host,
}

/// Stacks that traffic passes from a node to its uplink, or from there to the node, as far as they have a say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Gates {
    pub(super) untracked: Option<StackId>,
    pub(super) pre_dnat: Option<StackId>,
    /// The host endpoint's, for traffic of the host itself.
    pub(super) host: Option<StackId>,
    /// The host endpoint's, for traffic through the host.
    pub(super) forward: Option<StackId>,
    /// The workload's.
    pub(super) own: Option<StackId>,
}

impl<'a> Scene<'a> {
    pub(super) fn of<'n>(
        compiled: &'a Compiled,
        settings: &'a Settings,
        nodes: impl Iterator<Item = &'n Node>,
        merges: bool,
    ) -> Self {
        let mut scene = Self { compiled, settings, own_settings: Vec::new(), places: HashMap::new() };
        for node in nodes {
            let Some(host) = &node.host else { continue };
            if let Some(own) = host.settings.as_ref().filter(|own| !scene.own_settings.contains(own)) {
                scene.own_settings.push(own.clone());
            }
            if !scene.places.contains_key(&host.name) && (!merges || scene.is_apart(node)) {
                let place = u32::try_from(scene.places.len()).unwrap_or(u32::MAX);
                scene.places.insert(host.name.clone(), place);
            }
        }
        scene
    }

    /// Whether it matters who else is on the node's host: what stays there passes less, or it is the host itself.
    fn is_apart(&self, node: &Node) -> bool {
        let has_a_say = |direction| {
            let Gates { untracked, pre_dnat, forward, .. } = self.gates(node, direction);
            [untracked, pre_dnat, forward] != [None; 3]
        };
        self.role(node) == Role::Host || has_a_say(PolicyType::Ingress) || has_a_say(PolicyType::Egress)
    }

    pub(super) fn role(&self, node: &Node) -> Role {
        match &node.endpoint {
            None if node.host.is_some() => Role::Host,
            None => Role::Nobody,
            Some(id) if self.compiled.is_host(id) => Role::Host,
            Some(id) if self.compiled.stack_of(id, PolicyType::Ingress).is_some() => Role::Workload,
            Some(_) => Role::Unknown,
        }
    }

    pub(super) fn gates(&self, node: &Node, direction: PolicyType) -> Gates {
        let role = self.role(node);
        let endpoint = node.endpoint.as_ref();
        let uplink = node.host.as_ref().and_then(|host| host.uplink.as_ref());
        let uplink = if role == Role::Host { endpoint.or(uplink) } else { uplink };
        let own = endpoint.filter(|_| role == Role::Workload);
        let own = own.and_then(|id| self.compiled.stack_of(id, direction));
        let gates = uplink.and_then(|id| self.compiled.host_stacks(id));
        Gates { own, ..gates.map(|stacks| self.of_uplink(role, stacks, direction)).unwrap_or_default() }
    }

    fn of_uplink(&self, role: Role, stacks: HostStacks<StackId>, direction: PolicyType) -> Gates {
        let (is_host, comes_in) = (role == Role::Host, direction == PolicyType::Ingress);
        let with_tiers = |stack: StackId| Some(stack).filter(|stack| self.compiled.stack_has_tiers(*stack));
        let untracked = with_tiers(of_direction(stacks.untracked, direction)).filter(|_| comes_in || is_host);
        let pre_dnat = with_tiers(stacks.pre_dnat).filter(|_| comes_in);
        let forward = with_tiers(of_direction(stacks.forward, direction)).filter(|_| !is_host);
        let host = is_host.then(|| of_direction(stacks.normal, direction));
        Gates { untracked, pre_dnat, host, forward, own: None }
    }

    /// The number of the host, if nodes that are on it must not be taken for those of others.
    pub(super) fn place(&self, node: &Node) -> Option<u32> {
        self.places.get(&node.host.as_ref()?.name).copied()
    }

    /// The number of a node's settings.
    pub(super) fn settings_of(&self, node: &Node) -> usize {
        let own = node.host.as_ref().and_then(|host| host.settings.as_ref());
        own.and_then(|own| self.own_settings.iter().position(|known| known == own)).map_or(0, |number| number + 1)
    }

    /// Settings by number.
    pub(super) fn settings(&self, number: usize) -> &Settings {
        let own = number.checked_sub(1).and_then(|number| self.own_settings.get(number));
        own.map_or(self.settings, |own| own)
    }

    pub(super) fn all_settings(&self) -> impl Iterator<Item = &Settings> {
        core::iter::once(self.settings).chain(self.own_settings.iter().map(|own| &**own))
    }
}
