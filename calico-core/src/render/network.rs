//! What follows from the network: translation of what leaves it, and an end to what goes in circles.
//!
//! ```text
//! postrouting 110  nat-outgoing      saddr in @masqueraded, daddr not in @pools: masquerade
//! forward       4  forward-services  daddr is a service's: drop
//! ```
//!
//! A chain exists only while it has something to do: the first of type `nat` switches the kernel's translation on. kube-proxy translates at
//! 100 and marks what it wants masqueraded there, so ours comes behind it. The kernel runs all chains of type `nat` of a hook at one
//! place, in order of their priorities, for the first packet of a connection only.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::chains::{Chains, Written};
use super::words::{base, chain, established, family_set, protocol};
use super::workloads::change_elements;
use super::{RenderConfig, ServiceLoops};
use crate::calc::event::Network;
use crate::net::{Cidr, Family};
use crate::table::{
    BaseChain, Chain, ChainType, Datum, Delta, Element, Field, FieldType, Hook, Match, Reject, Rule, SetDecl, SetKind,
    SetName, Verdict,
};

/// Sets of prefixes, less the family: all pools.
pub(super) const POOLS: &str = "pools";
/// Pools whose traffic to elsewhere is masqueraded.
const MASQUERADED: &str = "masqueraded";
/// Addresses of the cluster's hosts.
const HOSTS: &str = "cluster-hosts";

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// What is known of the network.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    network: Arc<Network>,
    written: Written,
}

impl Surroundings {
    pub(super) fn change(&mut self, network: &Arc<Network>, chains: &mut Chains, delta: &mut Delta) {
        change_elements(&elements(&self.network), &elements(network), delta);
        let mut wanted = Vec::new();
        if !network.masqueraded.is_empty() {
            wanted.push(outgoing(&chains.config));
        }
        wanted.extend(services(network, &chains.config));
        self.written.write(wanted, &mut chains.pending, delta);
        self.network = Arc::clone(network);
    }
}

/// The sets that are there whatever is known.
pub(super) fn declarations() -> Vec<SetDecl> {
    let sets = |name| {
        FAMILIES.map(|family| SetDecl::new(family_set(name, family), vec![FieldType::Addr(family)], SetKind::Interval))
    };
    [POOLS, MASQUERADED, HOSTS].into_iter().flat_map(sets).collect()
}

fn elements(network: &Network) -> BTreeSet<(SetName, Element)> {
    let of = |name: &'static str, nets: &[Cidr]| -> Vec<(SetName, Element)> {
        let element = |net: &Cidr| Element::member(vec![Datum::Net(*net)].into_boxed_slice());
        nets.iter().map(|net| (family_set(name, net.family()), element(net))).collect()
    };
    let Network { pools, masqueraded, hosts, .. } = network;
    [of(POOLS, pools), of(MASQUERADED, masqueraded), of(HOSTS, hosts)].into_iter().flatten().collect()
}

fn outgoing(config: &RenderConfig) -> Chain {
    let rules = FAMILIES.into_iter().flat_map(|family| outgoing_rules(family, config)).collect();
    let base = BaseChain { chain_type: ChainType::Nat, hook: Hook::Postrouting, priority: 110 };
    Chain { base: Some(base), ..chain("nat-outgoing", rules) }
}

/// Traffic to any pool stays as it is, whether or not that pool is masqueraded itself.
fn outgoing_rules(family: Family, config: &RenderConfig) -> Vec<Rule> {
    let nat = &config.nat;
    let within = |field, name, negated| Match::InSet { key: vec![field], set: family_set(name, family), negated };
    let mut matches: Vec<Match> = nat.interfaces.iter().map(|pattern| pattern.matches(Field::OifName)).collect();
    matches.push(within(Field::SrcAddr(family), MASQUERADED, false));
    matches.push(within(Field::DstAddr(family), POOLS, true));
    if nat.spare_hosts {
        matches.push(within(Field::DstAddr(family), HOSTS, true));
    }
    let random = nat.random;
    let verdict = |ports| match nat.address.filter(|address| Family::of(*address) == family) {
        Some(address) => Verdict::Snat { address, ports, random },
        None => Verdict::Masquerade { ports, random },
    };
    let rule = |number: Option<u8>, ports| {
        let matches = number.map(protocol).into_iter().chain(matches.iter().cloned()).collect();
        Rule { matches, verdict: Some(verdict(ports)), ..Rule::default() }
    };
    let with_ports = nat.ports.into_iter().flat_map(|ports| [6, 17].map(|number| rule(Some(number), Some(ports))));
    with_ports.chain([rule(None, None)]).collect()
}

fn services(network: &Network, config: &RenderConfig) -> Option<Chain> {
    let verdict = match config.service_loops {
        ServiceLoops::Drop => Verdict::Drop,
        ServiceLoops::Reject => Verdict::Reject(Reject::PortUnreachable),
        ServiceLoops::Allow => return None,
    };
    let rule = |family| {
        let field = Field::DstAddr(family);
        let nets: Vec<Cidr> = network.services.iter().copied().filter(|net| net.family() == family).collect();
        let condition = match *nets.as_slice() {
            [] => return None,
            [net] if net.length() == 0 => Match::Family(family),
            [cidr] => Match::InCidr { field, cidr, negated: false },
            _ => Match::InCidrs { field, cidrs: nets, negated: false },
        };
        let comment = Some("a service that nobody translated".into());
        Some(Rule { matches: vec![condition], verdict: Some(verdict.clone()), comment, ..Rule::default() })
    };
    let rules: Vec<Rule> = FAMILIES.into_iter().filter_map(rule).collect();
    let rules = [established()].into_iter().chain(rules).collect::<Vec<_>>();
    (rules.len() > 1).then(|| base("forward-services", Hook::Forward, 4, rules))
}
