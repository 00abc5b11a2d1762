//! Elements of a set.

use std::collections::BTreeSet;
use std::net::IpAddr;

use calico_core::table::{ChainName, Datum, Element, ElementData, FieldType, SetDecl, SetKind, Table, Verdict};

use super::attributes_of;
use crate::netlink::wire::{attributes, find, read_be32, read_text};
use crate::nftables::key::{cidr_between, read_address, read_key};
use crate::nftables::uapi::{LIST_ITEM, data, element};
use crate::nftables::userdata::Target;

/// Collects the elements of one set, as octets until the declaration gives them meaning.
#[derive(Debug, Default)]
pub(crate) struct Elements(Vec<Raw>);

#[derive(Debug)]
struct Raw {
    key: Vec<u8>,
    end: bool,
    data: Option<RawData>,
}

#[derive(Debug)]
enum RawData {
    Verdict(Option<Verdict>),
    Value(Vec<u8>),
}

impl Elements {
    pub(crate) fn add(&mut self, body: &[u8]) -> Option<()> {
        let (table, body) = attributes_of(body)?;
        let list = find(body, element::LIST_ELEMENTS)?;
        self.0.extend(attributes(list).filter(|(kind, _)| *kind == LIST_ITEM).filter_map(|(_, item)| raw(table, item)));
        Some(())
    }

    /// Where they lead, as those of a map that belongs to a rule; none if to what we could not have named.
    pub(crate) fn target(&self) -> Option<Target> {
        let mut verdicts = Vec::new();
        for raw in self.0.iter().filter(|raw| !raw.end) {
            let Some(RawData::Verdict(Some(verdict))) = &raw.data else { return None };
            verdicts.push((&raw.key, verdict.target().map(ChainName::as_str)));
        }
        verdicts.sort_unstable();
        Some(Target::of_map(verdicts.into_iter().map(|(_, name)| name)))
    }

    /// The elements; none if any of them is nothing that we would write, which makes the whole set foreign.
    pub(crate) fn observe(mut self, decl: &SetDecl) -> Option<BTreeSet<Element>> {
        match (decl.kind, decl.key.as_slice()) {
            (SetKind::Interval, [FieldType::Addr(family)]) => {
                let mut bounds = self.0.iter().map(|raw| Some((read_address(*family, &raw.key)?, raw.end)));
                let bounds = bounds.by_ref().collect::<Option<Vec<_>>>()?;
                prefixes(bounds)
            }
            _ => self.0.drain(..).map(|raw| exact(decl, raw)).collect(),
        }
    }
}

fn raw(table: Table, item: &[u8]) -> Option<Raw> {
    let end = find(item, element::FLAGS).and_then(read_be32).is_some_and(|flags| flags & element::INTERVAL_END != 0);
    let key = find(item, element::KEY).and_then(|key| find(key, data::VALUE))?;
    let data = find(item, element::DATA).and_then(|found| {
        let verdict = find(found, data::VERDICT).map(|found| RawData::Verdict(verdict(table, found)));
        verdict.or_else(|| find(found, data::VALUE).map(|found| RawData::Value(found.to_vec())))
    });
    Some(Raw { key: key.to_vec(), end, data })
}

fn verdict(table: Table, value: &[u8]) -> Option<Verdict> {
    let chain =
        || find(value, data::VERDICT_CHAIN).and_then(read_text).and_then(|name| ChainName::of(table, name).ok());
    match find(value, data::VERDICT_CODE).and_then(read_be32)?.cast_signed() {
        data::DROP => Some(Verdict::Drop),
        data::ACCEPT => Some(Verdict::Accept),
        data::RETURN => Some(Verdict::Return),
        data::JUMP => chain().map(Verdict::Jump),
        data::GOTO => chain().map(Verdict::Goto),
        _ => None,
    }
}

fn exact(decl: &SetDecl, raw: Raw) -> Option<Element> {
    let data = match (decl.kind, raw.data) {
        (_, None) => None,
        (SetKind::VerdictMap, Some(RawData::Verdict(found))) => Some(ElementData::Verdict(found?)),
        (SetKind::AddressMap(family), Some(RawData::Value(found))) => {
            Some(ElementData::Addr(read_address(family, &found)?))
        }
        _ => return None,
    };
    (decl.kind.takes(data.as_ref()) && !raw.end).then_some(())?;
    Some(Element { key: read_key(&decl.key, &raw.key)?, data })
}

/// Pairs starts with ends. Listed in no particular order; an end sorts before a start at the same address.
fn prefixes(mut bounds: Vec<(IpAddr, bool)>) -> Option<BTreeSet<Element>> {
    bounds.sort_unstable_by_key(|(address, end)| (*address, !end));
    let mut found = BTreeSet::new();
    let mut open = None;
    for (address, end) in bounds {
        match (open.take(), end) {
            (None, false) => open = Some(address),
            (Some(first), true) => {
                found.insert(prefix(first, Some(address))?);
            }
            // `nft` opens the address space with an end at zero.
            (None, true) => {}
            // A start within an interval: none that we would write.
            (Some(_), false) => return None,
        }
    }
    if let Some(first) = open {
        found.insert(prefix(first, None)?);
    }
    Some(found)
}

fn prefix(first: IpAddr, end: Option<IpAddr>) -> Option<Element> {
    Some(Element { key: [Datum::Net(cidr_between(first, end)?)].into(), data: None })
}
