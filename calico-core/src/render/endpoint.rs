//! A local workload endpoint as elements, routes, neighbours, interface settings and limits on bandwidth.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::chains::Chains;
use super::floating::Pair;
use super::names::{Direction, FROM_WORKLOAD, TO_WORKLOAD, sources_chain};
use super::skeleton::{SOURCE_PREFIXES, WORKLOAD_EGRESS, sources_set};
use super::workloads::course;
use super::{RenderConfig, arp, bandwidth, qos};
use crate::calc::event::ActiveEndpoint;
use crate::net::{Cidr, Family, InterfaceName};
use crate::table::{
    Chain, ChainName, Datum, Element, Field, InterfaceSetting, Key, Match, Neighbor, Route, RouteClass, RouteKey,
    RouteTableId, RouteTarget, Rule, SetName, Shaping, Verdict,
};

/// Everything that an endpoint contributes under its own name.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) elements: BTreeSet<(SetName, Element)>,
    pub(super) neighbors: BTreeSet<Neighbor>,
    pub(super) settings: BTreeSet<InterfaceSetting>,
    /// Addresses that are routed to the interface.
    pub(super) routes: BTreeSet<Cidr>,
    /// Addresses outside that lead to it.
    pub(super) floating: BTreeSet<Pair>,
    /// Chains beside the stacks'; those that others bring along too are equal.
    pub(super) chains: Vec<Chain>,
    /// Limits on bandwidth.
    pub(super) shapings: BTreeSet<Shaping>,
}

pub(super) fn parts(endpoint: &ActiveEndpoint, chains: &Chains) -> Parts {
    let config = &chains.config;
    let interface = endpoint.interface;
    let mut parts = Parts::default();
    let mut add = |set: &str, key: Key, target: Option<ChainName>| {
        parts
            .elements
            .insert((SetName::composed(set), Element { key, data: target.map(|chain| Verdict::Goto(chain).into()) }));
    };
    let ifname = || Key::from([Datum::Interface(interface)]);
    add(FROM_WORKLOAD, ifname(), Some(chains.stack_name(&endpoint.egress, course(Direction::Egress))));
    add(TO_WORKLOAD, ifname(), Some(chains.stack_name(&endpoint.ingress, course(Direction::Ingress))));
    for cidr in &endpoint.addresses {
        let key = [Datum::Interface(interface), Datum::Addr(cidr.address())];
        add(sources_set(cidr.family()), key.into(), None);
    }
    let sources = sources(endpoint, config);
    if let Some(chain) = &sources {
        add(SOURCE_PREFIXES, ifname(), Some(chain.name.clone()));
    }
    parts.chains.extend(sources);
    parts.elements.extend(arp::elements(endpoint));
    let (elements, chains) = qos::parts(endpoint);
    parts.elements.extend(elements);
    parts.chains.extend(chains);
    parts.routes = endpoint.addresses.iter().copied().collect();
    if config.floating_addresses {
        parts.floating = endpoint.floating.iter().copied().collect();
        // Packets are translated before they are routed; the route is for whoever announces what is here.
        parts.routes.extend(endpoint.floating.iter().map(|(outside, _)| Cidr::host(*outside)));
    }
    // Upstream gives IPv4 neighbours only: an IPv6 workload answers for itself.
    let neighbor = |mac| move |cidr: &Cidr| Neighbor { interface, address: cidr.address(), mac };
    let addresses = endpoint.addresses.iter().filter(|cidr| cidr.family() == Family::V4);
    parts.neighbors = endpoint.mac.map(|mac| addresses.map(neighbor(mac)).collect()).unwrap_or_default();
    parts.settings = settings(endpoint, config);
    parts.shapings = bandwidth::shapings(endpoint);
    parts
}

/// The chain for an endpoint that may use further source prefixes.
fn sources(endpoint: &ActiveEndpoint, config: &RenderConfig) -> Option<Chain> {
    let mut prefixes = endpoint.allowed_sources.clone();
    prefixes.sort();
    prefixes.dedup();
    if prefixes.is_empty() || !config.allow_spoofed_sources {
        return None;
    }
    let text: String = prefixes.iter().map(|cidr| format!("{cidr}\n")).collect();
    let known = |cidr: &Cidr| {
        let field = Field::SrcAddr(cidr.family());
        let matches = match cidr.length() {
            0 => vec![Match::Family(cidr.family())],
            _ => vec![Match::InCidr { field, cidr: *cidr, negated: false }],
        };
        Rule { matches, verdict: Some(Verdict::Goto(ChainName::composed(WORKLOAD_EGRESS))), ..Rule::default() }
    };
    let mut rules: Vec<Rule> = prefixes.iter().map(known).collect();
    let comment = Some("source address is not the workload's".to_string());
    rules.push(Rule { verdict: Some(Verdict::Drop), comment, ..Rule::default() });
    Some(Chain { name: sources_chain(&text), base: None, rules })
}

/// The route to an address of a workload.
pub(super) const fn route(dest: Cidr, interface: InterfaceName, config: &RenderConfig) -> Route {
    Route {
        key: RouteKey { table: RouteTableId::MAIN, dest, metric: config.route_metric },
        target: RouteTarget::Interface(interface),
        class: RouteClass::LocalWorkload,
    }
}

/// Upstream's `configureInterface`: the host answers ARP for the gateway 169.254.1.1 at once, and forwards.
fn settings(endpoint: &ActiveEndpoint, config: &RenderConfig) -> BTreeSet<InterfaceSetting> {
    let spoofing = config.allow_spoofed_sources && !endpoint.allowed_sources.is_empty();
    let rp_filter = if spoofing { "0".to_string() } else { config.rp_filter.to_string() };
    let one = || "1".to_string();
    let mut settings = vec![
        ("net/ipv4/conf/{}/route_localnet", one()),
        ("net/ipv4/neigh/{}/proxy_delay", "0".to_string()),
        ("net/ipv4/conf/{}/proxy_arp", one()),
        ("net/ipv4/conf/{}/forwarding", one()),
        ("net/ipv4/conf/{}/rp_filter", rp_filter),
    ];
    if config.ipv6 {
        settings.push(("net/ipv6/conf/{}/accept_ra", "0".to_string()));
        settings.push(("net/ipv6/conf/{}/proxy_ndp", one()));
        settings.push(("net/ipv6/conf/{}/forwarding", one()));
    }
    let interface = endpoint.interface;
    settings.into_iter().map(|(path, value)| InterfaceSetting { interface, path, value }).collect()
}
