//! A row or column: all that rules can see of a node.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{Node, Service};
use crate::net::Family;
use crate::resource::PolicyType;
use crate::verdict::compiled::{Compiled, ConditionId, StackId};
use crate::verdict::passage::Settings;

/// A row or column.
#[derive(Debug)]
pub(super) struct Line {
    /// What tells it from others.
    pub(super) alike: Alike,
    /// An address of each family; any with the same conditions would do.
    addresses: [Option<IpAddr>; 2],
}

/// What rules can see.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Alike {
    pub(super) policed: Policed,
    sides: [Option<Seen>; 2],
}

/// Whose policy has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Policed {
    Nobody,
    /// An endpoint that is not active: nothing passes.
    Unknown,
    Workload(StackId),
    Host(StackId),
}

impl Policed {
    pub(super) const fn stack(self) -> Option<StackId> {
        match self {
            Self::Workload(stack) | Self::Host(stack) => Some(stack),
            Self::Nobody | Self::Unknown => None,
        }
    }
}

/// An address as rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    /// Conditions that hold it, in order.
    pub(super) conditions: Vec<ConditionId>,
    /// For each service, those that have its port; in order.
    pub(super) ports: Vec<Vec<ConditionId>>,
    /// For each fail-safe port with a prefix, whether that holds it.
    failsafes: Vec<bool>,
}

impl Line {
    pub(super) fn of(
        node: &Node,
        is_source: bool,
        compiled: &Compiled,
        settings: &Settings,
        services: &[Service],
    ) -> Self {
        let of_family = |family| node.addresses.iter().copied().find(|address| Family::of(*address) == family);
        let addresses = [of_family(Family::V4), of_family(Family::V6)];
        let seen = |address| {
            let ports = services.iter().map(|service| {
                let port = if is_source { service.source_port } else { service.destination_port };
                compiled.holders_of_port(&(address, service.protocol, port)).to_vec()
            });
            let failsafes = settings.failsafes.inbound.iter().chain(&settings.failsafes.outbound);
            Seen {
                conditions: compiled.holders_of(address),
                ports: ports.collect(),
                failsafes: failsafes.filter_map(|port| port.net).map(|net| net.contains(address)).collect(),
            }
        };
        let direction = if is_source { PolicyType::Egress } else { PolicyType::Ingress };
        let policed = match &node.endpoint {
            None => Policed::Nobody,
            Some(id) => match compiled.stack_of(id, direction) {
                None => Policed::Unknown,
                Some(stack) if compiled.is_host(id) => Policed::Host(stack),
                Some(stack) => Policed::Workload(stack),
            },
        };
        Self { alike: Alike { policed, sides: addresses.map(|address| address.map(seen)) }, addresses }
    }

    /// Its address of a family, and what rules see of it.
    pub(super) fn seen(&self, family: Family) -> Option<(IpAddr, &Seen)> {
        let ([v4, v6], [seen4, seen6]) = (&self.addresses, &self.alike.sides);
        let (address, seen) = match family {
            Family::V4 => (v4, seen4),
            Family::V6 => (v6, seen6),
        };
        Some(((*address)?, seen.as_ref()?))
    }
}
