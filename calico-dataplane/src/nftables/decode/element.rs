//! Elements of a set.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;

use calico_core::table::{ChainName, Datum, Element, ElementData, FieldType, SetDecl, SetKind, Table, Verdict};

use super::attributes_of;
use crate::netlink::wire::{attributes, find, read_be32, read_text};
use crate::nftables::key::{cidr_between, read_address, read_key};
use crate::nftables::uapi::{LIST_ITEM, data, element};
use crate::nftables::userdata::Target;

/// Collects the elements of one set, as octets until the declaration gives them meaning.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    found: Vec<Raw>,
    /// Their keys, one behind the other.
    keys: Vec<u8>,
}

#[derive(Debug)]
struct Raw {
    /// The place of its key.
    key: Range<usize>,
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
        attributes(list).filter(|(kind, _)| *kind == LIST_ITEM).for_each(|(_, item)| self.add_one(table, item));
        Some(())
    }

    fn add_one(&mut self, table: Table, item: &[u8]) {
        let (mut key, mut end, mut data) = (None, false, None);
        for (kind, value) in attributes(item) {
            match kind {
                element::KEY => key = find(value, data::VALUE),
                element::FLAGS => end = read_be32(value).is_some_and(|flags| flags & element::INTERVAL_END != 0),
                element::DATA => data = raw_data(table, value),
                _ => {}
            }
        }
        let Some(key) = key else { return };
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.found.push(Raw { key: start..self.keys.len(), end, data });
    }

    fn key(&self, raw: &Raw) -> &[u8] {
        self.keys.get(raw.key.clone()).unwrap_or_default()
    }

    /// Where they lead, as those of a map that belongs to a rule; none if to what we could not have named.
    pub(crate) fn target(&self) -> Option<Target> {
        let mut verdicts = Vec::new();
        for raw in self.found.iter().filter(|raw| !raw.end) {
            let Some(RawData::Verdict(Some(verdict))) = &raw.data else { return None };
            verdicts.push((self.key(raw), verdict.target().map(ChainName::as_str)));
        }
        verdicts.sort_unstable();
        Some(Target::of_map(verdicts.into_iter().map(|(_, name)| name)))
    }

    /// The elements; none if any of them is nothing that we would write, which makes the whole set foreign.
    pub(crate) fn observe(&self, decl: &SetDecl) -> Option<BTreeSet<Element>> {
        match (decl.kind, decl.key.as_slice()) {
            (SetKind::Interval, [FieldType::Addr(family)]) => {
                let bounds = self.found.iter().map(|raw| Some((read_address(*family, self.key(raw))?, raw.end)));
                prefixes(bounds.collect::<Option<Vec<_>>>()?)
            }
            _ => self.found.iter().map(|raw| exact(decl, self.key(raw), raw)).collect(),
        }
    }
}

fn raw_data(table: Table, found: &[u8]) -> Option<RawData> {
    let verdict = find(found, data::VERDICT).map(|found| RawData::Verdict(verdict(table, found)));
    verdict.or_else(|| find(found, data::VALUE).map(|found| RawData::Value(found.to_vec())))
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

fn exact(decl: &SetDecl, key: &[u8], raw: &Raw) -> Option<Element> {
    let data = match (decl.kind, &raw.data) {
        (_, None) => None,
        (SetKind::VerdictMap, Some(RawData::Verdict(found))) => Some(found.clone()?.into()),
        (SetKind::AddressMap(family), Some(RawData::Value(found))) => {
            Some(ElementData::Addr(read_address(family, found)?))
        }
        _ => return None,
    };
    (decl.kind.takes(data.as_ref()) && !raw.end).then_some(())?;
    Some(Element { key: read_key(&decl.key, key)?, data })
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
