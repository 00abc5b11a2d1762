//! Elements of sets and maps, named and anonymous.
//!
//! A message holds as many elements as its length field allows; within a transaction a set may get several. A prefix is two
//! elements: its first address, and the address after its last, flagged as an end; a prefix that reaches the family's last address
//! has no end. Adjacent prefixes thus share an address as end and start, which the kernel keeps apart by the flag.

use calico_core::net::PortRange;
use calico_core::table::{Datum, Element, ElementData, ElementDelta, SetKind, Verdict};

use super::{Batch, Subject};
use crate::DataplaneError;
use crate::netlink::wire::{CREATE, Writer};
use crate::nftables::expression::write_verdict;
use crate::nftables::key::{after, push_address, push_key};
use crate::nftables::uapi::{self, LIST_ITEM, TABLE, data, element, set};

/// Octets of elements after which the next message begins: well below the 64 KiB of an attribute.
const MESSAGE_SIZE: usize = 48 * 1024;

/// Appends the changes to one set: removals, then additions.
pub(super) fn change<'a>(batch: &mut Batch<'a>, change: &'a ElementDelta, destroy: bool) -> Result<(), DataplaneError> {
    for element in change.removed.iter().chain(&change.added) {
        check(element).map_err(|detail| DataplaneError::Unwritable {
            object: format!("element {element:?} of set {}", change.set),
            detail,
        })?;
    }
    let remove = if destroy { uapi::DESTROY_ELEMENT } else { uapi::DEL_ELEMENT };
    write(batch, remove, 0, Subject::RemovedElements(&change.set), &change.removed);
    write(batch, uapi::NEW_ELEMENT, CREATE, Subject::AddedElements(&change.set), &change.added);
    Ok(())
}

fn write<'a>(batch: &mut Batch<'a>, kind: u16, flags: u16, subject: Subject<'a>, elements: &'a [Element]) {
    let (Subject::AddedElements(name) | Subject::RemovedElements(name)) = subject else { return };
    let mut elements = elements.iter().peekable();
    while elements.peek().is_some() {
        batch.message(kind, flags, subject, |w| {
            w.text(element::LIST_TABLE, TABLE);
            w.text(element::LIST_SET, name.as_str());
            w.nest(element::LIST_ELEMENTS, |w| {
                let start = w.len();
                while w.len() - start < MESSAGE_SIZE {
                    let Some(element) = elements.next() else { break };
                    one(w, element, kind == uapi::NEW_ELEMENT);
                }
            });
        });
    }
}

/// To name an element for removal, its key is enough.
fn one(w: &mut Writer, item: &Element, with_data: bool) {
    w.nest(LIST_ITEM, |w| {
        w.nest(element::KEY, |w| w.octets(data::VALUE, |octets| push_key(octets, &item.key)));
        if let Some(data) = item.data.as_ref().filter(|_| with_data) {
            w.nest(element::DATA, |w| write_data(w, data));
        }
    });
    let [Datum::Net(cidr)] = &*item.key else { return };
    if let Some(end) = after(cidr) {
        interval_end(w, |octets| push_address(octets, end));
    }
}

fn write_data(w: &mut Writer, data: &ElementData) {
    match data {
        ElementData::Verdict(verdict) => write_verdict(w, verdict),
        ElementData::Addr(address) => w.octets(data::VALUE, |octets| push_address(octets, *address)),
        // Without data the kernel refuses the element.
        _ => {}
    }
}

fn interval_end(w: &mut Writer, key: impl FnOnce(&mut Vec<u8>)) {
    w.nest(LIST_ITEM, |w| {
        w.be32(element::FLAGS, element::INTERVAL_END);
        w.nest(element::KEY, |w| w.octets(data::VALUE, key));
    });
}

fn check(element: &Element) -> Result<(), String> {
    if element.key.is_empty() {
        return Err("it has no key".into());
    }
    if element.key.len() > 1 && element.key.iter().any(|datum| matches!(datum, Datum::Net(_))) {
        return Err("a prefix can be a key only by itself".into());
    }
    if matches!(&element.data, Some(ElementData::Verdict(verdict)) if !verdict.is_plain()) {
        return Err("a map holds plain verdicts only".into());
    }
    Ok(())
}

/// What an anonymous set or map holds: a value, or the values from one up to before another (none: to the last there is).
#[derive(Debug, Clone)]
pub(super) struct Span<'a> {
    pub(super) first: Vec<u8>,
    pub(super) end: Option<Vec<u8>>,
    pub(super) single: bool,
    /// In a map.
    pub(super) verdict: Option<&'a Verdict>,
}

/// A set or verdict map that belongs to one rule.
#[derive(Debug)]
pub(super) struct Anonymous<'a> {
    /// `nft`'s number of the key's type.
    pub(super) key_type: u32,
    /// Not empty, without overlap; all with a verdict or none.
    pub(super) spans: Vec<Span<'a>>,
}

impl Anonymous<'_> {
    fn is_map(&self) -> bool {
        self.spans.iter().any(|span| span.verdict.is_some())
    }

    /// The kernel puts a number in.
    pub(super) fn name(&self) -> &'static str {
        if self.is_map() { "__map%d" } else { "__set%d" }
    }

    /// Appends the set and its elements, so that a rule of the same transaction can name it by its id.
    pub(super) fn write<'b>(&self, batch: &mut Batch<'b>, id: u32, subject: Subject<'b>) {
        let kind = if self.spans.iter().all(|span| span.single) { SetKind::Hash } else { SetKind::Interval };
        let interval = if kind == SetKind::Interval { set::INTERVAL } else { 0 };
        let map = if self.is_map() { set::MAP } else { 0 };
        let length = self.spans.first().map_or(0, |span| span.first.len());
        let elements = if kind == SetKind::Interval { 2 * self.spans.len() } else { self.spans.len() };
        batch.message(uapi::NEW_SET, CREATE, subject, |w| {
            w.text(set::TABLE, TABLE);
            w.text(set::NAME, self.name());
            w.be32(set::FLAGS, set::ANONYMOUS | set::CONSTANT | interval | map);
            w.be32(set::KEY_TYPE, self.key_type);
            w.be32(set::KEY_LENGTH, u32::try_from(length).unwrap_or(0));
            if self.is_map() {
                w.be32(set::DATA_TYPE, set::VERDICTS);
                w.be32(set::DATA_LENGTH, 0);
            }
            w.nest(set::DESCRIPTION, |w| w.be32(set::DESCRIPTION_SIZE, u32::try_from(elements).unwrap_or(u32::MAX)));
            w.be32(set::ID, id);
            // Big endian, as for named sets.
            w.attribute(set::USERDATA, &[&[0, 4][..], &2u32.to_ne_bytes()].concat());
        });
        let mut spans = self.spans.iter().peekable();
        while spans.peek().is_some() {
            batch.message(uapi::NEW_ELEMENT, CREATE, subject, |w| {
                w.text(element::LIST_TABLE, TABLE);
                w.text(element::LIST_SET, self.name());
                w.be32(element::LIST_SET_ID, id);
                w.nest(element::LIST_ELEMENTS, |w| {
                    let start = w.len();
                    while w.len() - start < MESSAGE_SIZE {
                        let Some(span) = spans.next() else { break };
                        let next = spans.peek().filter(|_| self.is_map()).map(|next| &next.first);
                        span.write(w, kind, next);
                    }
                });
            });
        }
    }
}

impl<'a> Span<'a> {
    pub(super) fn ports(range: PortRange, verdict: Option<&'a Verdict>) -> Self {
        Self {
            first: range.min().to_be_bytes().to_vec(),
            end: range.max().checked_add(1).map(|end| end.to_be_bytes().to_vec()),
            single: range.min() == range.max(),
            verdict,
        }
    }

    /// In a map, the beginning of the next is an end as well.
    fn write(&self, w: &mut Writer, kind: SetKind, next: Option<&Vec<u8>>) {
        w.nest(LIST_ITEM, |w| {
            w.nest(element::KEY, |w| w.attribute(data::VALUE, &self.first));
            if let Some(verdict) = self.verdict {
                w.nest(element::DATA, |w| write_verdict(w, verdict));
            }
        });
        if kind == SetKind::Interval
            && let Some(end) = self.end.as_ref().filter(|end| Some(*end) != next)
        {
            interval_end(w, |octets| octets.extend_from_slice(end));
        }
    }
}
