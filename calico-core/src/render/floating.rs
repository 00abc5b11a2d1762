//! Floating addresses: a workload is reached by another address from outside, and from itself.
//!
//! ```text
//! prerouting  -99  floating-in       dnat to daddr map @floating {outside: inside}
//! output      -99  floating-out      the same for what the host sends
//! postrouting 109  floating-hairpin  snat to saddr . daddr map @floating-hairpin {inside . inside: outside}
//! ```
//!
//! What a workload sends to its own floating address comes back to it from that address, as its answers would else not find their way back.
//! Outbound connections keep the workload's own address (upstream's rule). kube-proxy translates at -100 and goes first. Of several
//! workloads that claim an address outside, the smallest address inside has it. The chains are there while anybody has such an address.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::chains::{Chains, Written};
use super::words::{chain, family_set};
use crate::net::{Family, InterfaceName};
use crate::table::{
    BaseChain, Chain, ChainType, Datum, Delta, Element, ElementDelta, Field, FieldType, Hook, Rule, SetDecl, SetKind,
    SetName, Verdict,
};

/// Maps from addresses outside to those inside, less the family.
const FLOATING: &str = "floating";
/// Maps from pairs of an address inside with itself to one outside, less the family.
const HAIRPIN: &str = "floating-hairpin";

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Addresses outside and inside.
pub(super) type Pair = (IpAddr, IpAddr);

/// Who claims which address.
#[derive(Debug, Default)]
pub(super) struct Floating {
    /// By address outside: addresses inside, and whose each is.
    outside: Claims,
    /// By address inside: addresses outside.
    inside: Claims,
    written: Written,
}

type Claims = BTreeMap<IpAddr, BTreeSet<(IpAddr, InterfaceName)>>;

impl Floating {
    /// The addresses of an interface's workload change.
    pub(super) fn change(
        &mut self,
        interface: InterfaceName,
        before: &BTreeSet<Pair>,
        after: &BTreeSet<Pair>,
        chains: &mut Chains,
        delta: &mut Delta,
    ) {
        if before == after {
            return;
        }
        let gone = before.difference(after).map(|pair| (*pair, false));
        for ((outside, inside), present) in gone.chain(after.difference(before).map(|pair| (*pair, true))) {
            let leads = [(&mut self.outside, outside, inside), (&mut self.inside, inside, outside)];
            for (position, (claims, from, to)) in leads.into_iter().enumerate() {
                let (old, new) = claim(claims, from, (to, interface), present);
                if old != new {
                    let element = |to: IpAddr| match position {
                        0 => Element::address([Datum::Addr(from)], to),
                        _ => Element::address([Datum::Addr(from), Datum::Addr(from)], to),
                    };
                    let set = family_set(if position == 0 { FLOATING } else { HAIRPIN }, Family::of(from));
                    let (removed, added) =
                        (old.map(element).into_iter().collect(), new.map(element).into_iter().collect());
                    delta.elements.push(ElementDelta { set, removed, added });
                }
            }
        }
        let wanted = if self.outside.is_empty() { Vec::new() } else { hooks() };
        self.written.write(wanted, &mut chains.pending, delta);
    }
}

/// Makes or withdraws a claim; the address that the first claim leads to before and after.
fn claim(
    claims: &mut Claims,
    from: IpAddr,
    to: (IpAddr, InterfaceName),
    present: bool,
) -> (Option<IpAddr>, Option<IpAddr>) {
    let rivals = claims.entry(from).or_default();
    let first = |rivals: &BTreeSet<(IpAddr, InterfaceName)>| rivals.first().map(|(address, _)| *address);
    let before = first(rivals);
    if present {
        rivals.insert(to);
    } else {
        rivals.remove(&to);
    }
    let after = first(rivals);
    if rivals.is_empty() {
        claims.remove(&from);
    }
    (before, after)
}

/// The maps that are there whoever has such an address.
pub(super) fn declarations() -> Vec<SetDecl> {
    let map = |name, keys: usize| {
        FAMILIES.map(|family| {
            let key = vec![FieldType::Addr(family); keys];
            SetDecl::new(family_set(name, family), key, SetKind::AddressMap(family))
        })
    };
    [map(FLOATING, 1), map(HAIRPIN, 2)].into_iter().flatten().collect()
}

fn hooks() -> Vec<Chain> {
    let base = |name, hook, priority, rules: Vec<Rule>| Chain {
        base: Some(BaseChain { chain_type: ChainType::Nat, hook, priority }),
        ..chain(name, rules)
    };
    let rules = |verdict: &dyn Fn(Family) -> Verdict| -> Vec<Rule> {
        FAMILIES.map(|family| Rule { verdict: Some(verdict(family)), ..Rule::default() }).into()
    };
    let inward = rules(&|family| {
        let map: SetName = family_set(FLOATING, family);
        Verdict::DnatLookup { key: vec![Field::DstAddr(family)], map }
    });
    let hairpin = rules(&|family| {
        let map = family_set(HAIRPIN, family);
        Verdict::SnatLookup { key: vec![Field::SrcAddr(family), Field::DstAddr(family)], map }
    });
    vec![
        base("floating-in", Hook::Prerouting, -99, inward.clone()),
        base("floating-out", Hook::Output, -99, inward),
        base("floating-hairpin", Hook::Postrouting, 109, hairpin),
    ]
}
