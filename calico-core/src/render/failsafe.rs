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

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::net::Failsafes;
    use crate::table::{ChainName, Verdict};

    fn config(inbound: &[&str], outbound: &[&str]) -> RenderConfig {
        let ports = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let failsafes = Failsafes { inbound: ports(inbound), outbound: ports(outbound) };
        RenderConfig { failsafes, ..RenderConfig::default() }
    }

    /// The kernel refuses a jump to a chain that is not there, and with it the whole ruleset.
    #[test]
    fn every_jump_has_its_chain() {
        let some = ["tcp:22"];
        for (inbound, outbound) in [(&some[..0], &some[..0]), (&some, &[]), (&[], &some), (&some, &some)] {
            let config = config(inbound, outbound);
            let both = [Direction::Ingress, Direction::Egress];
            let replies = both.into_iter().filter_map(|direction| jump_replies(&config, direction));
            let wanted: Vec<ChainName> = both
                .map(jump)
                .into_iter()
                .chain(replies)
                .map(|rule| match rule.verdict {
                    Some(Verdict::Jump(target)) => target,
                    other => panic!("{other:?} is no jump"),
                })
                .collect();
            let names =
                |replies| -> Vec<ChainName> { chains(&config, replies).into_iter().map(|one| one.name).collect() };
            assert_eq!(names(true), wanted, "{inbound:?} {outbound:?}");
            assert_eq!(names(false), wanted[..2], "{inbound:?} {outbound:?}");
        }
    }

    /// Peers are the other end, and an answer comes from a port of the other list.
    #[test]
    fn each_chain_looks_at_its_own_end() {
        let config = config(&["tcp:10.0.0.0/8:22", "tcp:10.0.0.0/8:23"], &["udp:[::/0]:53", "tcp:192.0.2.0/24:443"]);
        let shown: Vec<String> = chains(&config, true)
            .iter()
            .flat_map(|chain| {
                let looks = chain.rules.iter().filter(|rule| !matches!(rule.matches[0], Match::Icmp { .. }));
                looks.map(|rule| format!("{}: {rule}", chain.name.as_str())).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            shown,
            [
                "failsafe-in: meta l4proto tcp ip saddr 10.0.0.0/8 th dport 22-23 accept",
                "failsafe-out: meta l4proto tcp ip daddr 192.0.2.0/24 th dport 443 accept",
                "failsafe-out: meta l4proto udp meta nfproto ipv6 th dport 53 accept",
                "failsafe-in-replies: meta l4proto tcp ip saddr 192.0.2.0/24 th sport 443 accept",
                "failsafe-in-replies: meta l4proto udp meta nfproto ipv6 th sport 53 accept",
                "failsafe-out-replies: meta l4proto tcp ip daddr 10.0.0.0/8 th sport 22-23 accept",
            ]
        );
    }
}
