//! This node's workloads: their addresses, and what selectors see of them. Those of other nodes cost a comparison of names.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::member::Endpoint;
use crate::net::{Cidr, InterfaceName};
use crate::resource::{Resource, ResourceKey};
use crate::selector::{Inherited, Selector};
use crate::text::{Text, TextMap};
use crate::update::Update;

/// What is known of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Workloads {
    own: BTreeMap<ResourceKey, Workload>,
    profiles: BTreeMap<Arc<str>, Arc<Resource>>,
}

/// A workload of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) addresses: Vec<Cidr>,
    labels: TextMap,
    profiles: Vec<Text>,
}

impl Workload {
    /// If it is this node's, behind an interface that the graph takes for a workload's: no other gets a route.
    pub(super) fn new(update: &Update, node: &str, prefixes: &[InterfaceName]) -> Option<Self> {
        let Some(Resource::WorkloadEndpoint(object)) = update.value.as_deref() else { return None };
        let interface = object.spec.interface_name;
        if *object.spec.node != *node || !interface.is_some_and(|name| name.starts_with_any(prefixes)) {
            return None;
        }
        let member = Endpoint::workload(Some(update.key.clone()), object)?.member;
        Some(Self { addresses: member.nets, labels: member.labels, profiles: member.profiles })
    }
}

impl Workloads {
    /// Takes in the new state of one of this node's; gives what it was and is if that changed.
    pub(super) fn set(&mut self, key: &ResourceKey, value: Option<Workload>) -> Option<[Option<Workload>; 2]> {
        if self.own.get(key) == value.as_ref() {
            return None;
        }
        let former = match value.clone() {
            Some(value) => self.own.insert(key.clone(), value),
            None => self.own.remove(key),
        };
        Some([former, value])
    }

    /// Takes in a profile. Tells whether anything changed.
    pub(super) fn set_profile(&mut self, name: &Arc<str>, value: Option<&Arc<Resource>>) -> bool {
        let value = value.filter(|value| matches!(***value, Resource::Profile(_)));
        super::put(&mut self.profiles, name, value.cloned())
    }

    /// Addresses, each workload's in order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Cidr> {
        self.own.values().flat_map(|workload| &workload.addresses)
    }

    /// All of this node, by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ResourceKey, &Workload)> {
        self.own.iter()
    }

    /// Whether a selector means a workload: its own labels, then those of its profiles.
    pub(super) fn is_selected(&self, selector: &Selector, workload: &Workload) -> bool {
        let parents = workload.profiles.iter().filter_map(|name| {
            match self.profiles.get(name.as_str()).map(|profile| &**profile) {
                Some(Resource::Profile(profile)) => Some(&profile.spec.labels_to_apply),
                _ => None,
            }
        });
        let parents: Vec<&TextMap> = parents.collect();
        selector.matches(&Inherited { own: &workload.labels, parents: &parents })
    }
}
