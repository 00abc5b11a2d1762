//! Which traffic a matrix asks about unasked.

use std::collections::BTreeSet;

use calico_core::calc::event::{ActiveRule, Member};

use calico_core::net::PortRange;

use super::model::Model;
use super::traffic::{Traffic, has_ports};

/// Most ports that are asked about unasked.
const USUAL: usize = 8;
const TCP: u8 = 6;

/// The ports that rules and names of ports give, or else the web's.
pub(super) fn usual(model: &Model) -> Vec<Traffic> {
    let mut found = BTreeSet::new();
    let policies = model.state().policies.values();
    for rule in policies.flat_map(|rules| rules.ingress.iter().chain(&rules.egress)) {
        of_rule(rule, &mut found);
    }
    for (_, members) in model.state().sets.values() {
        found.extend(members.iter().filter_map(|member| match member {
            Member::AddrPort { protocol, port, .. } => Some((*protocol, *port)),
            Member::Net(_) => None,
        }));
    }
    if found.is_empty() {
        found.insert((TCP, 80));
    }
    found.into_iter().take(USUAL).map(|(protocol, destination)| traffic(protocol, destination)).collect()
}

/// From the usual source port.
fn traffic(protocol: u8, destination: u16) -> Traffic {
    Traffic::Ports { protocol, source: super::traffic::SOURCE_PORT, destination }
}

/// The destination ports that a rule names, without those of ranges.
fn of_rule(rule: &ActiveRule, found: &mut BTreeSet<(u8, u16)>) {
    let protocol = rule.protocol.unwrap_or(TCP);
    let ports = rule.destination.ports.iter().chain(&rule.destination.not_ports);
    if has_ports(protocol) {
        found.extend(
            ports
                .copied()
                .filter(|range| PortRange::min(*range) == PortRange::max(*range))
                .map(|range| (protocol, PortRange::min(range))),
        );
    }
}
