//! Which traffic is worth asking about.

use std::collections::BTreeSet;
use std::fmt;

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
    let policies = model.state.policies.values();
    for rule in policies.flat_map(|rules| rules.ingress.iter().chain(&rules.egress)) {
        of_rule(rule, &mut found);
    }
    for (_, members) in model.state.sets.values() {
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

/// Traffic that stands for itself, or for all that no rule tells from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Sample {
    pub(super) traffic: Traffic,
    pub(super) is_other: bool,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_other { write!(f, "other {}", self.traffic.protocol()) } else { self.traffic.fmt(f) }
    }
}

/// Most ports that are asked about.
const SAMPLES: usize = 64;
const UDP: u8 = 17;

/// What is worth asking about.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    pub(super) samples: Vec<Sample>,
    /// Whether there is more.
    pub(super) is_partial: bool,
}

/// The ports at which a rule begins or ends to match, one that no rule names for each protocol, and ICMP.
pub(super) fn boundaries(models: &[&mut Model]) -> Boundaries {
    let mut found: BTreeSet<(u8, u16)> = BTreeSet::new();
    let mut bare: BTreeSet<u8> = BTreeSet::new();
    for model in models {
        let rules = model.state.policies.values().chain(model.state.profiles.values());
        for rule in rules.flat_map(|rules| rules.ingress.iter().chain(&rules.egress)) {
            let named = rule.protocol.or(rule.not_protocol);
            let protocols: Vec<u8> = named.map_or_else(|| vec![TCP, UDP], |named| vec![named]);
            for protocol in protocols {
                if !has_ports(protocol) {
                    bare.insert(protocol);
                    continue;
                }
                for range in rule.destination.ports.iter().chain(&rule.destination.not_ports) {
                    found.insert((protocol, PortRange::min(*range)));
                    let end = PortRange::max(*range);
                    if PortRange::min(*range) != end {
                        found.insert((protocol, end));
                        found.extend(end.checked_add(1).map(|next| (protocol, next)));
                    }
                }
            }
        }
        for (_, members) in model.state.sets.values() {
            found.extend(members.iter().filter_map(|member| match member {
                Member::AddrPort { protocol, port, .. } => Some((*protocol, *port)),
                Member::Net(_) => None,
            }));
        }
    }
    found.retain(|(_, port)| *port != 0);
    let is_partial = found.len() > SAMPLES;
    let mut samples: Vec<Sample> = found
        .iter()
        .take(SAMPLES)
        .map(|(protocol, port)| Sample { traffic: traffic(*protocol, *port), is_other: false })
        .collect();
    let protocols: BTreeSet<u8> = found.iter().map(|(protocol, _)| *protocol).chain([TCP, UDP]).collect();
    for protocol in protocols {
        let other =
            (1..u16::MAX).find(|port| !found.contains(&(protocol, *port)) && !is_inside(models, protocol, *port));
        samples.extend(other.map(|port| Sample { traffic: traffic(protocol, port), is_other: true }));
    }
    samples.push(Sample { traffic: Traffic::Icmp { family: None, kind: None }, is_other: false });
    let others = bare.into_iter().filter(|protocol| !matches!(protocol, 1 | 58));
    samples.extend(others.map(|protocol| Sample { traffic: Traffic::Bare { protocol }, is_other: false }));
    Boundaries { samples, is_partial }
}

/// Whether a rule names a range that holds the port.
fn is_inside(models: &[&mut Model], protocol: u8, port: u16) -> bool {
    let policies = models.iter().flat_map(|model| model.state.policies.values());
    let mut rules = policies.flat_map(|rules| rules.ingress.iter().chain(&rules.egress));
    rules.any(|rule| {
        let mut ports = rule.destination.ports.iter().chain(&rule.destination.not_ports);
        rule.protocol.is_none_or(|own| own == protocol) && ports.any(|range| range.contains(port))
    })
}

/// From the usual source port.
pub(super) fn traffic(protocol: u8, destination: u16) -> Traffic {
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
