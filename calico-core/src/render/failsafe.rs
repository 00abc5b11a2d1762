//! Fail-safe ports as chains: `failsafe-in`, `failsafe-out`, and for answers before connection tracking `failsafe-in-replies` and
//! `failsafe-out-replies`.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::RenderConfig;
use super::names::Direction;
use super::rule::merged;
use super::words::{accept, chain, protocol};
use crate::net::{Cidr, DISCOVERY, FailsafePort, Family, PortRange};
use crate::table::{Chain, Field, Match, Rule};

/// The chains that are not empty.
pub(super) fn chains(config: &RenderConfig, replies: bool) -> Vec<Chain> {
    let (inbound, outbound) = (&config.failsafes.inbound, &config.failsafes.outbound);
    let mut chains = vec![
        chain("failsafe-in", with_discovery(rules(inbound, Field::DstPort, Direction::Ingress))),
        chain("failsafe-out", with_discovery(rules(outbound, Field::DstPort, Direction::Egress))),
    ];
    if replies {
        chains.push(chain("failsafe-in-replies", rules(outbound, Field::SrcPort, Direction::Ingress)));
        chains.push(chain("failsafe-out-replies", rules(inbound, Field::SrcPort, Direction::Egress)));
    }
    chains.retain(|chain| !chain.rules.is_empty());
    chains
}

/// Accepts what goes to a fail-safe port, or finds neighbours.
pub(super) fn jump(direction: Direction) -> Rule {
    super::words::jump(match direction {
        Direction::Ingress => "failsafe-in",
        Direction::Egress => "failsafe-out",
    })
}

/// See [`Failsafes::admits`](crate::net::Failsafes::admits).
fn with_discovery(mut rules: Vec<Rule>) -> Vec<Rule> {
    let icmp = |icmp_type| Match::Icmp { family: Family::V6, icmp_type, code: None, negated: false };
    rules.extend(DISCOVERY.map(|icmp_type| accept(vec![icmp(icmp_type)])));
    rules
}

/// Accepts what comes from a fail-safe port of the other direction.
pub(super) fn jump_replies(config: &RenderConfig, direction: Direction) -> Option<Rule> {
    let (name, ports) = match direction {
        Direction::Ingress => ("failsafe-in-replies", &config.failsafes.outbound),
        Direction::Egress => ("failsafe-out-replies", &config.failsafes.inbound),
    };
    (!ports.is_empty()).then(|| super::words::jump(name))
}

/// One rule for all ports of a protocol and a peer.
fn rules(ports: &[FailsafePort], field: Field, direction: Direction) -> Vec<Rule> {
    let mut groups: BTreeMap<(u8, Option<Cidr>), Vec<PortRange>> = BTreeMap::new();
    for port in ports {
        groups.entry((port.protocol, port.net)).or_default().push(PortRange::single(port.port));
    }
    let rule = |((number, net), ranges): ((u8, Option<Cidr>), Vec<PortRange>)| {
        let mut matches = vec![protocol(number)];
        matches.extend(net.map(|net| peer(net, direction)));
        matches.push(Match::InPorts { field, ranges: merged(&ranges), negated: false });
        accept(matches)
    };
    groups.into_iter().map(rule).collect()
}

fn peer(net: Cidr, direction: Direction) -> Match {
    let field = match direction {
        Direction::Ingress => Field::SrcAddr(net.family()),
        Direction::Egress => Field::DstAddr(net.family()),
    };
    match net.length() {
        0 => Match::Family(net.family()),
        _ => Match::InCidr { field, cidr: net, negated: false },
    }
}
