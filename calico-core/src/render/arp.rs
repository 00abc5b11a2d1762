//! What the host may not say of workloads' addresses.
//!
//! It answers ARP on a workload's interface for every address, so that the workload finds its gateway; so it would also claim the workload's
//! own, and one that asks whether anybody has its address (as virtual machines and some containers do before they use it) would be told yes.
//! A set of (interface, address), in the second table, and one rule for all of them.

use alloc::vec;

use crate::calc::event::ActiveEndpoint;
use crate::net::Family;
use crate::table::{
    BaseChain, Chain, ChainName, ChainType, Datum, Delta, Element, Field, FieldType, Hook, Match, Rule, SetDecl,
    SetKind, SetName, Table, Verdict,
};

/// Addresses that are a workload's own, by its interface.
const OWN: &str = "own-addresses";

/// What is there whatever is active.
pub(super) fn skeleton(delta: &mut Delta) {
    let key = vec![Field::OifName, Field::ArpSender];
    let own = Match::InSet { key, set: set(), negated: false };
    let comment = Some("the workload's own address".into());
    let rule = Rule { matches: vec![Match::ArpReply, own], verdict: Some(Verdict::Drop), comment, ..Rule::default() };
    let base = BaseChain { chain_type: ChainType::Filter, hook: Hook::Output, priority: 0 };
    let name = ChainName::composed_of(Table::Arp, "replies");
    delta.chains_set.push(Chain { name, base: Some(base), rules: vec![rule] });
    let key = vec![FieldType::Interface, FieldType::Addr(Family::V4)];
    delta.sets_added.push(SetDecl::new(set(), key, SetKind::Hash));
}

/// The elements of an endpoint.
pub(super) fn elements(endpoint: &ActiveEndpoint) -> impl Iterator<Item = (SetName, Element)> {
    let own = endpoint.addresses.iter().filter(|cidr| cidr.family() == Family::V4);
    own.map(|cidr| (set(), Element::member([Datum::Interface(endpoint.interface), Datum::Addr(cidr.address())])))
}

fn set() -> SetName {
    SetName::composed_of(Table::Arp, OWN)
}
