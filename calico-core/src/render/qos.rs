//! Limits on a workload's packets and connections, and the mark of its packets, and of a host endpoint's, that leave the cluster.
//!
//! ```text
//! forward -1, input -1   limits-…       iifname vmap @limits-from {interface: jump limits-out/…}; oifname vmap @limits-to
//!             input -1   limits-…       neighbour discovery: iifname vmap @limits-discovery-from
//! forward  5             dscp           iifname vmap @dscp {interface: goto dscp-…}
//! forward  6, input  3   connections-…  iifname vmap @connections-from {interface: jump connections-out/…}; oifname vmap @connections-to
//! postrouting -149       dscp-hosts     saddr vmap @dscp-hosts {address: goto dscp-…}
//! ```
//!
//! What a limit has counted is kept by the kernel with its rule, so each limit has a chain of its own (the only kind of chain that is an
//! endpoint's), which no change of policy, nor of another limit, rewrites. A hook costs a look-up only while any endpoint has such a limit.
//! What the host itself sends to a workload is not limited (upstream polices nothing there either).
//!
//! Packets are counted before all else, those of established connections too. Neighbour discovery is counted apart, to the same rate: among the
//! others, a workload over its limit would lose its gateway, and the host the way to it. Connections are counted by their first packet, and
//! behind all policy. In front of it, where upstream counts, those that policy denies take places of those that it allows, until the kernel
//! notices that nothing came of them.
//!
//! A workload's packets are told by its interface, a host endpoint's by its expected addresses (upstream's rule), before they are translated.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::names::{Direction, connections_chain, discovery_chain, limits_chain};
use super::network::POOLS;
use super::skeleton::neighbor_discovery;
use super::words::{base, chain, family_set, lookup, protocol};
use crate::calc::event::ActiveEndpoint;
use crate::net::Family;
use crate::resource::QosControls;
use crate::table::{
    Chain, ChainName, CtState, Datum, Element, Field, FieldType, Hook, Match, RateLimit, Reject, Rule, SetDecl,
    SetKind, SetName, Statement, Verdict,
};

/// Map from interface to the limits on what its workload sends.
const LIMITS_FROM: &str = "limits-from";
/// Map from interface to the limits on what its workload receives.
const LIMITS_TO: &str = "limits-to";
/// Chain that asks [`DISCOVERY_FROM`].
const DISCOVERY: &str = "limits-discovery";
/// Map from interface to the limit on neighbour discovery that its workload sends.
const DISCOVERY_FROM: &str = "limits-discovery-from";
/// Map from interface to the limit on connections that its workload makes.
const CONNECTIONS_FROM: &str = "connections-from";
/// Map from interface to the limit on connections that others make to its workload.
const CONNECTIONS_TO: &str = "connections-to";
/// Map from interface to what marks its workload's packets. An address may be several workloads', an interface is one's.
const DSCP: &str = "dscp";
/// Maps from addresses of host endpoints to what marks their packets, less the family.
const DSCP_HOSTS: &str = "dscp-hosts";

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The maps that are there whatever is limited.
pub(super) fn declarations() -> Vec<SetDecl> {
    let map = |name| SetDecl::new(SetName::composed(name), vec![FieldType::Interface], SetKind::VerdictMap);
    let hosts =
        |family| SetDecl::new(family_set(DSCP_HOSTS, family), vec![FieldType::Addr(family)], SetKind::VerdictMap);
    [LIMITS_FROM, LIMITS_TO, DISCOVERY_FROM, CONNECTIONS_FROM, CONNECTIONS_TO, DSCP]
        .map(map)
        .into_iter()
        .chain(FAMILIES.map(hosts))
        .collect()
}

/// What marks packets of a host endpoint; the chains of all are equal.
pub(super) fn host_chains(marks: &BTreeSet<(IpAddr, u8)>) -> Vec<Chain> {
    if marks.is_empty() {
        return Vec::new();
    }
    let lookup = |family| {
        let verdict = Verdict::Lookup { key: vec![Field::SrcAddr(family)], map: family_set(DSCP_HOSTS, family) };
        Rule { verdict: Some(verdict), ..Rule::default() }
    };
    let hook = base(DSCP_HOSTS, Hook::Postrouting, -149, FAMILIES.map(lookup).into());
    let values: BTreeSet<u8> = marks.iter().map(|(_, value)| *value).collect();
    values.into_iter().map(dscp_chain).chain([hook]).collect()
}

/// That packets from an address of a host endpoint are marked.
pub(super) fn host_element(address: IpAddr, value: u8) -> (SetName, Element) {
    let key = vec![Datum::Addr(address)].into_boxed_slice();
    let element = Element::verdict(key, Verdict::Goto(dscp_chain_name(value)));
    (family_set(DSCP_HOSTS, Family::of(address)), element)
}

/// Elements and chains of an endpoint; chains that are not its own are equal for all.
pub(super) fn parts(endpoint: &ActiveEndpoint) -> (Vec<(SetName, Element)>, Vec<Chain>) {
    let Some(controls) = endpoint.qos.as_deref() else { return Default::default() };
    let (mut elements, mut chains) = (Vec::new(), Vec::new());
    let key = || vec![Datum::Interface(endpoint.interface)].into_boxed_slice();
    let mut limit = |map: &str, name: ChainName, rule: Option<Rule>, hooks: fn() -> Vec<Chain>| {
        if let Some(rule) = rule {
            elements.push((SetName::composed(map), Element::verdict(key(), Verdict::Jump(name.clone()))));
            chains.push(Chain { name, base: None, rules: vec![rule] });
            chains.extend(hooks());
        }
    };
    for (packets, connections, direction) in
        [(LIMITS_FROM, CONNECTIONS_FROM, Direction::Egress), (LIMITS_TO, CONNECTIONS_TO, Direction::Ingress)]
    {
        let (rate, most) = limits(controls, direction);
        if direction == Direction::Egress {
            limit(DISCOVERY_FROM, discovery_chain(endpoint.interface), rate.clone(), packet_hooks);
        }
        limit(packets, limits_chain(endpoint.interface, direction), rate, packet_hooks);
        limit(connections, connections_chain(endpoint.interface, direction), most, connection_hooks);
    }
    if let Some(dscp) = controls.dscp {
        let name = dscp_chain_name(dscp.value());
        elements.push((SetName::composed(DSCP), Element::verdict(key(), Verdict::Goto(name))));
        chains.extend([dscp_hook(), dscp_chain(dscp.value())]);
    }
    (elements, chains)
}

/// The rules for packets and for connections.
fn limits(controls: &QosControls, direction: Direction) -> (Option<Rule>, Option<Rule>) {
    let (rate, burst, connections) = match direction {
        Direction::Egress => {
            (controls.egress_packet_rate, controls.egress_packet_burst, controls.egress_max_connections)
        }
        Direction::Ingress => {
            (controls.ingress_packet_rate, controls.ingress_packet_burst, controls.ingress_max_connections)
        }
    };
    let number = |value: i64| u32::try_from(value).ok().filter(|value| *value > 0);
    let rate = rate.and_then(number).map(|rate| {
        let burst = burst.and_then(number).unwrap_or(DEFAULT_BURST);
        let statements = vec![Statement::Limit(RateLimit { rate, seconds: 1, burst, over: true })];
        Rule { statements, verdict: Some(Verdict::Drop), ..Rule::default() }
    });
    let most = connections.and_then(number).map(|most| {
        let matches = vec![protocol(TCP), Match::CtState(CtState::NEW)];
        let statements = vec![Statement::ConnectionsOver(most)];
        let verdict = Some(Verdict::Reject(Reject::TcpReset));
        Rule { matches, statements, verdict, comment: None }
    });
    (rate, most)
}

fn packet_hooks() -> Vec<Chain> {
    let (from, to) = (lookup(Field::IifName, LIMITS_FROM), lookup(Field::OifName, LIMITS_TO));
    let apart = |rule: Rule| Rule { verdict: Some(Verdict::Goto(ChainName::composed(DISCOVERY))), ..rule };
    let input = neighbor_discovery(None).map(apart).chain([from.clone()]).collect();
    vec![
        chain(DISCOVERY, vec![lookup(Field::IifName, DISCOVERY_FROM)]),
        base("limits-forward", Hook::Forward, -1, vec![from, to]),
        base("limits-input", Hook::Input, -1, input),
    ]
}

fn connection_hooks() -> Vec<Chain> {
    let (from, to) = (lookup(Field::IifName, CONNECTIONS_FROM), lookup(Field::OifName, CONNECTIONS_TO));
    vec![
        base("connections-forward", Hook::Forward, 6, vec![from.clone(), to]),
        base("connections-input", Hook::Input, 3, vec![from]),
    ]
}

fn dscp_hook() -> Chain {
    base(DSCP, Hook::Forward, 5, vec![lookup(Field::IifName, DSCP)])
}

fn dscp_chain_name(value: u8) -> ChainName {
    ChainName::composed(&format!("dscp-{value}"))
}

fn dscp_chain(value: u8) -> Chain {
    Chain { name: dscp_chain_name(value), base: None, rules: dscp_rules(value) }
}

/// What stays in the cluster, or with this host, keeps the mark it has.
fn dscp_rules(value: u8) -> Vec<Rule> {
    let stays = |condition| Rule { matches: vec![condition], verdict: Some(Verdict::Return), ..Rule::default() };
    let mut rules: Vec<Rule> = FAMILIES
        .map(|family| {
            let (key, set) = (vec![Field::DstAddr(family)], family_set(POOLS, family));
            stays(Match::InSet { key, set, negated: false })
        })
        .into();
    rules.extend(FAMILIES.map(|family| stays(Match::Local { field: Field::DstAddr(family), negated: false })));
    rules.extend(
        FAMILIES.map(|family| Rule { statements: vec![Statement::SetDscp { family, value }], ..Rule::default() }),
    );
    rules
}

const TCP: u8 = 6;
/// Upstream's, where only a rate is given.
const DEFAULT_BURST: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel refuses a rate of zero, and with it the whole ruleset.
    #[test]
    fn what_is_no_number_of_the_kernels_limits_nothing() {
        for number in [0, -1, i64::MAX].map(Some) {
            let controls = QosControls {
                ingress_packet_rate: number,
                ingress_max_connections: number,
                egress_packet_rate: number,
                egress_max_connections: number,
                ..QosControls::default()
            };
            for direction in [Direction::Ingress, Direction::Egress] {
                assert_eq!(limits(&controls, direction), (None, None), "{number:?}");
            }
        }
    }
}
