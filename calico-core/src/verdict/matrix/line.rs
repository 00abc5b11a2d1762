//! A row or column: all that rules can see of a node, and what its traffic passes.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::scene::{Gates, Role, Scene};
use super::{Node, Service};
use crate::net::Family;
use crate::resource::PolicyType;
use crate::verdict::compiled::ConditionId;

/// A row or column.
#[derive(Debug)]
pub(super) struct Line {
    /// What tells it from others.
    pub(super) alike: Alike,
    /// An address of each family; any with the same conditions would do.
    addresses: [Option<IpAddr>; 2],
}

/// What rules can see, and who asks them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Alike {
    pub(super) role: Role,
    pub(super) gates: Gates,
    /// Its host, where that matters.
    pub(super) place: Option<u32>,
    /// Whether it is known which host it is on: hosts look at what they forward.
    pub(super) has_host: bool,
    /// Number of its host's settings.
    pub(super) settings: usize,
    sides: [Option<Seen>; 2],
}

/// An address as rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    /// Conditions that hold it, in order.
    pub(super) conditions: Vec<ConditionId>,
    /// For each service, those that have its port; in order.
    pub(super) ports: Vec<Vec<ConditionId>>,
    /// Whether it is an address of a service.
    pub(super) is_service: bool,
    /// For each fail-safe port with a prefix, whether that holds it.
    failsafes: Vec<bool>,
}

impl Line {
    pub(super) fn of(node: &Node, is_source: bool, scene: &Scene<'_>, services: &[Service]) -> Self {
        let of_family = |family| node.addresses.iter().copied().find(|address| Family::of(*address) == family);
        let addresses = [of_family(Family::V4), of_family(Family::V6)];
        let direction = if is_source { PolicyType::Egress } else { PolicyType::Ingress };
        let sides = addresses.map(|address| address.map(|address| Seen::of(address, is_source, scene, services)));
        let alike = Alike {
            role: scene.role(node),
            gates: scene.gates(node, direction),
            place: scene.place(node),
            has_host: node.host.is_some(),
            settings: scene.settings_of(node),
            sides,
        };
        Self { alike, addresses }
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

impl Seen {
    fn of(address: IpAddr, is_source: bool, scene: &Scene<'_>, services: &[Service]) -> Self {
        let ports = services.iter().map(|service| {
            let port = if is_source { service.source_port } else { service.destination_port };
            scene.compiled.holders_of_port(&(address, service.protocol, port)).to_vec()
        });
        let settings = scene.all_settings();
        let failsafes = settings.flat_map(|own| own.failsafes.inbound.iter().chain(&own.failsafes.outbound));
        Self {
            conditions: scene.compiled.holders_of(address),
            ports: ports.collect(),
            is_service: scene.compiled.state().network.services.iter().any(|net| net.contains(address)),
            failsafes: failsafes.filter_map(|port| port.net).map(|net| net.contains(address)).collect(),
        }
    }
}
