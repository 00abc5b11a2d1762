//! Elements of sets and maps, named and anonymous.
//!
//! A message holds as many elements as its length field allows; within a transaction a set may get several. A prefix is two
//! elements: its first address, and the address after its last, flagged as an end; a prefix that reaches the family's last address
//! has no end. Adjacent prefixes thus share an address as end and start, which the kernel keeps apart by the flag.

use calico_core::table::{Datum, Element, ElementData, ElementDelta, SetKind};

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
    let mut key = Vec::with_capacity(64);
    push_key(&mut key, &item.key);
    w.nest(LIST_ITEM, |w| {
        w.nest(element::KEY, |w| w.attribute(data::VALUE, &key));
        if let Some(data) = item.data.as_ref().filter(|_| with_data) {
            w.nest(element::DATA, |w| write_data(w, data));
        }
    });
    let [Datum::Net(cidr)] = &*item.key else { return };
    if let Some(end) = after(cidr) {
        let mut key = Vec::new();
        push_address(&mut key, end);
        interval_end(w, &key);
    }
}

fn write_data(w: &mut Writer, data: &ElementData) {
    match data {
        ElementData::Verdict(verdict) => write_verdict(w, verdict),
        ElementData::Addr(address) => {
            let mut octets = Vec::new();
            push_address(&mut octets, *address);
            w.attribute(data::VALUE, &octets);
        }
        // Without data the kernel refuses the element.
        _ => {}
    }
}

fn interval_end(w: &mut Writer, key: &[u8]) {
    w.nest(LIST_ITEM, |w| {
        w.be32(element::FLAGS, element::INTERVAL_END);
        w.nest(element::KEY, |w| w.attribute(data::VALUE, key));
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

/// What an anonymous set holds: a value, or the values from one up to before another (none: to the last there is).
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) first: Vec<u8>,
    pub(super) end: Option<Vec<u8>>,
    pub(super) single: bool,
}

/// A set that belongs to one rule.
#[derive(Debug)]
pub(super) struct Anonymous {
    /// `nft`'s number of the key's type.
    pub(super) key_type: u32,
    /// Not empty, without overlap.
    pub(super) spans: Vec<Span>,
}

impl Anonymous {
    /// The kernel puts a number in.
    pub(super) const NAME: &'static str = "__set%d";

    /// Appends the set and its elements, so that a rule of the same transaction can name it by its id.
    pub(super) fn write<'a>(&self, batch: &mut Batch<'a>, id: u32, subject: Subject<'a>) {
        let kind = if self.spans.iter().all(|span| span.single) { SetKind::Hash } else { SetKind::Interval };
        let interval = if kind == SetKind::Interval { set::INTERVAL } else { 0 };
        let length = self.spans.first().map_or(0, |span| span.first.len());
        let elements = if kind == SetKind::Interval { 2 * self.spans.len() } else { self.spans.len() };
        batch.message(uapi::NEW_SET, CREATE, subject, |w| {
            w.text(set::TABLE, TABLE);
            w.text(set::NAME, Self::NAME);
            w.be32(set::FLAGS, set::ANONYMOUS | set::CONSTANT | interval);
            w.be32(set::KEY_TYPE, self.key_type);
            w.be32(set::KEY_LENGTH, u32::try_from(length).unwrap_or(0));
            w.nest(set::DESCRIPTION, |w| w.be32(set::DESCRIPTION_SIZE, u32::try_from(elements).unwrap_or(u32::MAX)));
            w.be32(set::ID, id);
            // Big endian, as for named sets.
            w.attribute(set::USERDATA, &[&[0, 4][..], &2u32.to_ne_bytes()].concat());
        });
        let mut spans = self.spans.iter().peekable();
        while spans.peek().is_some() {
            batch.message(uapi::NEW_ELEMENT, CREATE, subject, |w| {
                w.text(element::LIST_TABLE, TABLE);
                w.text(element::LIST_SET, Self::NAME);
                w.be32(element::LIST_SET_ID, id);
                w.nest(element::LIST_ELEMENTS, |w| {
                    let start = w.len();
                    while w.len() - start < MESSAGE_SIZE {
                        let Some(span) = spans.next() else { break };
                        span.write(w, kind);
                    }
                });
            });
        }
    }
}

impl Span {
    fn write(&self, w: &mut Writer, kind: SetKind) {
        w.nest(LIST_ITEM, |w| w.nest(element::KEY, |w| w.attribute(data::VALUE, &self.first)));
        if kind == SetKind::Interval
            && let Some(end) = &self.end
        {
            interval_end(w, end);
        }
    }
}
