//! The chains and sets that are there whatever is active.

use alloc::vec;
use alloc::vec::Vec;

use super::names::{FROM_WORKLOAD, TO_WORKLOAD};
use super::words::{accept, base, chain, deny, established, goto, lookup, protocol, starts};
use super::{EndpointToHost, RenderConfig, arp, ended, floating, hosts, network, qos};
use crate::net::{Family, PortRange, WORKLOAD_DISCOVERY};
use crate::table::{Chain, CtState, Delta, Field, FieldType, Hook, Match, Rule, SetDecl, SetKind, SetName};

/// Set of (interface, IPv4 or IPv6 source address) that workloads may use.
pub(super) const fn sources_set(family: Family) -> &'static str {
    match family {
        Family::V4 => "sources4",
        Family::V6 => "sources6",
    }
}

/// Map from interface to the chain that knows further source prefixes of its workload.
pub(super) const SOURCE_PREFIXES: &str = "source-prefixes";

/// Chain that polices what a workload sends, once its source address is known to be its own.
pub(super) const WORKLOAD_EGRESS: &str = "workload-egress";

pub(super) fn render(config: &RenderConfig) -> Delta {
    let mut chains = vec![workload_egress(config), from_workload(), to_workload(config), ended::drops()];
    chains.push(base("forward-egress", Hook::Forward, 0, workload_gotos(config, Field::IifName, FROM_WORKLOAD)));
    chains.push(base("forward-ingress", Hook::Forward, 1, workload_gotos(config, Field::OifName, TO_WORKLOAD)));
    let mut input: Vec<Rule> = Vec::new();
    for prefix in &config.workload_prefixes {
        input.extend(neighbor_discovery(Some(starts(Field::IifName, *prefix))));
    }
    input.extend(workload_gotos(config, Field::IifName, FROM_WORKLOAD));
    chains.push(base("input-egress", Hook::Input, 0, input));
    if config.endpoint_to_host == EndpointToHost::Drop {
        chains.push(workload_to_host());
        chains.push(base("input-host", Hook::Input, 1, workload_gotos(config, Field::IifName, "workload-to-host")));
    }
    let mut delta = Delta { chains_set: chains, ..Delta::default() };
    let map = |name| SetDecl::new(SetName::composed(name), vec![FieldType::Interface], SetKind::VerdictMap);
    delta.sets_added.extend([FROM_WORKLOAD, TO_WORKLOAD, SOURCE_PREFIXES].map(map));
    delta.sets_added.extend([Family::V4, Family::V6].map(|family| {
        let key = vec![FieldType::Interface, FieldType::Addr(family)];
        SetDecl::new(SetName::composed(sources_set(family)), key, SetKind::Hash)
    }));
    let others = [hosts::declarations(config), qos::declarations(), network::declarations(), floating::declarations()];
    delta.sets_added.extend(others.into_iter().flatten().chain(ended::declarations()));
    arp::skeleton(&mut delta);
    delta
}

/// Every packet is looked at here, also those of established connections: conntrack does not look at the interface, so a workload
/// that forges its neighbour's address would else ride on its neighbour's connections.
fn from_workload() -> Chain {
    let known = |family| {
        let key = vec![Field::IifName, Field::SrcAddr(family)];
        let set = SetName::composed(sources_set(family));
        goto(vec![Match::InSet { key, set, negated: false }], WORKLOAD_EGRESS)
    };
    let rules = vec![
        known(Family::V4),
        known(Family::V6),
        lookup(Field::IifName, SOURCE_PREFIXES),
        deny(Vec::new(), "source address is not the workload's"),
    ];
    chain(FROM_WORKLOAD, rules)
}

fn workload_egress(config: &RenderConfig) -> Chain {
    let mut rules = conntrack(config);
    if !config.allow_vxlan_from_workloads {
        let ranges = vec![PortRange::single(config.vxlan_port)];
        let port = Match::InPorts { field: Field::DstPort, ranges, negated: false };
        rules.push(deny(vec![protocol(17), port], "VXLAN from a workload"));
    }
    if !config.allow_ipip_from_workloads {
        rules.push(deny(vec![protocol(4)], "IP-in-IP from a workload"));
    }
    rules.push(lookup(Field::IifName, FROM_WORKLOAD));
    rules.push(deny(Vec::new(), "unknown interface"));
    chain(WORKLOAD_EGRESS, rules)
}

fn to_workload(config: &RenderConfig) -> Chain {
    let mut rules = conntrack(config);
    rules.push(lookup(Field::OifName, TO_WORKLOAD));
    rules.push(deny(Vec::new(), "unknown interface"));
    chain(TO_WORKLOAD, rules)
}

/// Replies to what the host itself asked must pass, although the default is to drop.
fn workload_to_host() -> Chain {
    let mut rules = vec![established()];
    rules.extend(neighbor_discovery(None));
    rules.push(deny(Vec::new(), "default endpoint-to-host action"));
    chain("workload-to-host", rules)
}

fn conntrack(config: &RenderConfig) -> Vec<Rule> {
    let mut rules = vec![established(), ended::rule()];
    if config.drop_invalid {
        rules.push(deny(vec![Match::CtState(CtState::INVALID)], "invalid connection state"));
    }
    rules
}

/// Whatever else is dropped, it is heard.
pub(super) fn neighbor_discovery(condition: Option<Match>) -> impl Iterator<Item = Rule> {
    WORKLOAD_DISCOVERY.into_iter().map(move |icmp_type| {
        let icmp = Match::Icmp { family: Family::V6, icmp_type, code: None, negated: false };
        accept(condition.clone().into_iter().chain([icmp]).collect())
    })
}

fn workload_gotos(config: &RenderConfig, field: Field, target: &str) -> Vec<Rule> {
    config.workload_prefixes.iter().map(|prefix| goto(vec![starts(field, *prefix)], target)).collect()
}
