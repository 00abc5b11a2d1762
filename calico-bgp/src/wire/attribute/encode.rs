//! From [`PathAttributes`] to an attribute list.

use core::iter::Peekable;
use core::net::Ipv4Addr;
use core::slice;

use super::as_path::needs_as4;
use super::code::{self, EXTENDED_LENGTH, OPTIONAL, TRANSITIVE};
use super::{OtherAttribute, Partial, PathAttributes};
use crate::wire::header::put_u16;
use crate::wire::{AddressFamily, EncodeContext, NextHop};

/// Appends the attribute list of a path, in ascending order of type code as RFC 4271 appendix F.3 asks, but for MP_REACH_NLRI,
/// which goes before it (RFC 7606 section 5.1). `next_hop` is that of prefixes in the message body.
pub(in crate::wire) fn encode(
    attributes: &PathAttributes,
    next_hop: Option<Ipv4Addr>,
    context: EncodeContext,
    into: &mut Vec<u8>,
) {
    let wide = context.four_octet_as;
    let extra = &*attributes.extra;
    let mut list = List { into, others: extra.others.iter().peekable(), partial: attributes.partial };
    list.put(TRANSITIVE, code::ORIGIN, 1, |into| into.push(attributes.origin.code()));
    let path = &attributes.as_path;
    list.put(TRANSITIVE, code::AS_PATH, path.encoded_length(wide), |into| path.encode(wide, into));
    list.number(TRANSITIVE, code::NEXT_HOP, next_hop.map(Ipv4Addr::to_bits));
    list.number(OPTIONAL, code::MULTI_EXIT_DISC, attributes.med);
    list.number(TRANSITIVE, code::LOCAL_PREF, attributes.local_pref);
    if attributes.atomic_aggregate {
        list.put(TRANSITIVE, code::ATOMIC_AGGREGATE, 0, |_| {});
    }
    if let Some(aggregator) = extra.aggregator {
        let length = if wide { 8 } else { 6 };
        list.put(OPTIONAL | TRANSITIVE, code::AGGREGATOR, length, |into| aggregator.encode(wide, into));
    }
    list.pieces(OPTIONAL | TRANSITIVE, code::COMMUNITIES, &attributes.communities, |community| community.to_be_bytes());
    list.number(OPTIONAL, code::ORIGINATOR_ID, attributes.originator_id.map(Ipv4Addr::to_bits));
    list.pieces(OPTIONAL, code::CLUSTER_LIST, &attributes.cluster_list, Ipv4Addr::octets);
    list.pieces(OPTIONAL | TRANSITIVE, code::EXTENDED_COMMUNITIES, &extra.extended_communities, |piece| *piece);
    if !wide && path.needs_as4() {
        list.put(OPTIONAL | TRANSITIVE, code::AS4_PATH, path.encoded_length(true), |into| path.encode(true, into));
    }
    if let Some(aggregator) = extra.aggregator.filter(|aggregator| !wide && needs_as4(aggregator.as_number)) {
        list.put(OPTIONAL | TRANSITIVE, code::AS4_AGGREGATOR, 8, |into| aggregator.encode(true, into));
    }
    let ipv6 = &extra.ipv6_extended_communities;
    list.pieces(OPTIONAL | TRANSITIVE, code::IPV6_EXTENDED_COMMUNITIES, ipv6, |piece| *piece);
    if let Some(aigp) = &extra.aigp {
        list.put(OPTIONAL, code::AIGP, aigp.value().len(), |into| into.extend_from_slice(aigp.value()));
    }
    list.pieces(OPTIONAL | TRANSITIVE, code::LARGE_COMMUNITIES, &extra.large_communities, |piece| *piece);
    let otc = extra.only_to_customer.map(|system| system.value());
    list.number(OPTIONAL | TRANSITIVE, code::ONLY_TO_CUSTOMER, otc);
    list.others_below(None);
}

/// A list being written. Attributes that are only passed on are put in where their type codes belong.
struct List<'a> {
    into: &'a mut Vec<u8>,
    others: Peekable<slice::Iter<'a, OtherAttribute>>,
    partial: Partial,
}

impl List<'_> {
    fn put(&mut self, flags: u8, code: u8, length: usize, value: impl FnOnce(&mut Vec<u8>)) {
        self.others_below(Some(code));
        put_head(flags | self.partial.flag(code), code, length, self.into);
        value(self.into);
    }

    fn number(&mut self, flags: u8, code: u8, number: Option<u32>) {
        if let Some(number) = number {
            self.put(flags, code, 4, |into| into.extend_from_slice(&number.to_be_bytes()));
        }
    }

    /// A list of pieces of equal size; left out when there are none.
    fn pieces<T, const N: usize>(&mut self, flags: u8, code: u8, pieces: &[T], octets: impl Fn(&T) -> [u8; N]) {
        if !pieces.is_empty() {
            self.put(flags, code, pieces.len().saturating_mul(N), |into| {
                pieces.iter().for_each(|piece| into.extend_from_slice(&octets(piece)));
            });
        }
    }

    fn others_below(&mut self, code: Option<u8>) {
        while let Some(other) = self.others.next_if(|other| code.is_none_or(|code| other.code < code)) {
            put_head(other.flags(), other.code, other.value.len(), self.into);
            self.into.extend_from_slice(&other.value);
        }
    }
}

/// A value that is longer than its length can say makes a message that is longer than any limit, and so is not sent.
fn put_head(flags: u8, code: u8, length: usize, into: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(length) => into.extend_from_slice(&[flags, code, length]),
        Err(_) => {
            into.extend_from_slice(&[flags | EXTENDED_LENGTH, code]);
            into.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
}

/// The beginning of an MP_REACH_NLRI, whose prefixes follow and end with [`finish`](Self::finish).
pub(in crate::wire) struct MpReachHead {
    length_at: usize,
}

impl MpReachHead {
    /// Everything before the prefixes.
    pub(in crate::wire) fn put(family: AddressFamily, next_hop: NextHop, into: &mut Vec<u8>) -> Self {
        into.extend_from_slice(&[OPTIONAL | EXTENDED_LENGTH, code::MP_REACH_NLRI]);
        let length_at = into.len();
        into.extend_from_slice(&[0; 2]);
        into.extend_from_slice(&family.octets());
        next_hop.encode(into);
        into.push(0);
        Self { length_at }
    }

    /// The prefixes end here.
    pub(in crate::wire) fn finish(self, into: &mut [u8]) {
        finish_long(self.length_at, into);
    }
}

/// Begins an MP_UNREACH_NLRI. Its prefixes follow; then the function that comes back is to be called.
pub(in crate::wire) fn put_mp_unreach(family: AddressFamily, into: &mut Vec<u8>) -> impl FnOnce(&mut [u8]) + use<> {
    into.extend_from_slice(&[OPTIONAL | EXTENDED_LENGTH, code::MP_UNREACH_NLRI]);
    let length_at = into.len();
    into.extend_from_slice(&[0; 2]);
    into.extend_from_slice(&family.octets());
    move |into| finish_long(length_at, into)
}

fn finish_long(length_at: usize, into: &mut [u8]) {
    let length = into.len().saturating_sub(length_at).saturating_sub(2);
    put_u16(length_at, u16::try_from(length).unwrap_or(u16::MAX), into);
}
