//! Chains and their rules.

use std::collections::BTreeMap;

use calico_core::table::{BaseChain, Chain, ChainName, ChainType, Hook, Table};

use super::attributes_of;
use crate::ObservedChain;
use crate::netlink::wire::{find, read_be32, read_text};
use crate::nftables::encode::{hook_number, type_name};
use crate::nftables::expression::{anonymous_map, target};
use crate::nftables::uapi::{TABLE, chain, rule};
use crate::nftables::userdata::{Seal, Target, read_seal};

/// Collects chains and rules.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    found: BTreeMap<ChainName, Found>,
    rules: BTreeMap<ChainName, Vec<Option<Seal>>>,
    maps: Vec<LeadingMap>,
}

/// A map that belongs to a rule, whose elements say where that leads.
#[derive(Debug)]
pub(crate) struct LeadingMap {
    pub(crate) chain: ChainName,
    pub(crate) name: String,
    /// Place of the rule.
    index: usize,
}

/// A chain as listed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChainListing {
    pub(crate) chain: ObservedChain,
    /// Hangs in a hook, be it one that we know or not.
    pub(crate) hangs: bool,
    /// Something leads to it.
    pub(crate) is_led_to: bool,
}

#[derive(Debug)]
struct Found {
    base: Option<FoundBase>,
    uses: u32,
}

#[derive(Debug)]
struct FoundBase {
    base: Option<BaseChain>,
    accepts: bool,
}

impl Chains {
    pub(crate) fn add_chain(&mut self, body: &[u8]) -> Option<()> {
        let (table, attributes) = attributes_of(body)?;
        let name = named(table, attributes, chain::TABLE, chain::NAME)?;
        let base = find(attributes, chain::HOOK).map(|hook| FoundBase {
            base: base(table, attributes, hook),
            accepts: find(attributes, chain::POLICY).and_then(read_be32) == Some(chain::ACCEPT),
        });
        let uses = find(attributes, chain::USE).and_then(read_be32).unwrap_or_default();
        self.found.insert(name, Found { base, uses });
        Some(())
    }

    pub(crate) fn add_rule(&mut self, body: &[u8]) -> Option<()> {
        let (table, attributes) = attributes_of(body)?;
        let name = named(table, attributes, rule::TABLE, rule::CHAIN)?;
        let expressions = find(attributes, rule::EXPRESSIONS);
        let seal = find(attributes, rule::USERDATA).and_then(read_seal);
        let rules = self.rules.entry(name.clone()).or_default();
        match expressions.and_then(anonymous_map) {
            Some(map) if seal.is_some() => {
                self.maps.push(LeadingMap { chain: name, name: map.to_owned(), index: rules.len() });
                rules.push(seal);
            }
            _ => {
                let leads = Target::of(expressions.and_then(target));
                rules.push(seal.filter(|seal| seal.target == leads));
            }
        }
        Some(())
    }

    /// The maps whose elements are to be read before this is finished.
    pub(crate) fn take_maps(&mut self) -> Vec<LeadingMap> {
        std::mem::take(&mut self.maps)
    }

    /// Takes note of where a map leads (none: to what we could not have named, or it is gone).
    pub(crate) fn add_map(&mut self, map: &LeadingMap, leads: Option<Target>) {
        if let Some(seal) = self.rules.get_mut(&map.chain).and_then(|rules| rules.get_mut(map.index)) {
            *seal = seal.filter(|seal| Some(seal.target) == leads);
        }
    }

    pub(crate) fn names(&self) -> Vec<ChainName> {
        self.found.keys().cloned().collect()
    }

    /// Takes over the rules of chains that another collection listed.
    pub(crate) fn take_rules(&mut self, other: Self) {
        self.rules.extend(other.rules);
        self.maps.extend(other.maps);
    }

    pub(crate) fn finish(mut self) -> BTreeMap<ChainName, ChainListing> {
        let listing = |(name, Found { base: found, uses }): (ChainName, Found)| {
            let seals = self.rules.remove(&name).unwrap_or_default();
            let base = found.as_ref().and_then(|found| found.base);
            let sound = found.as_ref().is_none_or(|found| found.base.is_some() && found.accepts);
            let fingerprint = match seals.split_first() {
                _ if !sound => None,
                // Without rules, what is seen is all there is.
                None => Some(Chain { name: name.clone(), base, rules: Vec::new() }.fingerprint()),
                Some((first, _)) => first.filter(|first| unbroken(&seals, *first)).map(|seal| seal.fingerprint),
            };
            let chain = ObservedChain { base, fingerprint };
            let is_led_to = usize::try_from(uses).is_ok_and(|uses| uses > seals.len());
            (name, ChainListing { chain, hangs: found.is_some(), is_led_to })
        };
        std::mem::take(&mut self.found).into_iter().map(listing).collect()
    }
}

/// Whether the rules are all those of one writing, in order.
fn unbroken(seals: &[Option<Seal>], first: Seal) -> bool {
    usize::try_from(first.count) == Ok(seals.len())
        && seals.iter().zip(0..).all(|(seal, index)| {
            seal.is_some_and(|seal| {
                (seal.fingerprint, seal.index, seal.count) == (first.fingerprint, index, first.count)
            })
        })
}

/// The name of a chain of one of our tables.
fn named(table: Table, attributes: &[u8], table_name: u16, name: u16) -> Option<ChainName> {
    find(attributes, table_name).and_then(read_text).filter(|name| *name == TABLE)?;
    // A name that we could not have given cannot be spoken of; it does no harm, as no chain of ours leads there.
    find(attributes, name).and_then(read_text).and_then(|name| ChainName::of(table, name).ok())
}

fn base(table: Table, attributes: &[u8], hook: &[u8]) -> Option<BaseChain> {
    let number = find(hook, chain::HOOK_NUMBER).and_then(read_be32)?;
    let priority = find(hook, chain::HOOK_PRIORITY).and_then(read_be32)?.cast_signed();
    let kind = find(attributes, chain::TYPE).and_then(read_text)?;
    let hooks = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
    let hook = hooks.into_iter().find(|hook| hook_number(table, *hook) == number)?;
    let types = [ChainType::Filter, ChainType::Nat, ChainType::Route];
    let chain_type = types.into_iter().find(|chain_type| type_name(*chain_type) == kind)?;
    Some(BaseChain { chain_type, hook, priority })
}
