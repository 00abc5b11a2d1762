//! Packed UPDATEs: as few messages as hold everything, one after the other in one buffer.

use core::iter::Peekable;
use core::net::Ipv4Addr;

use calico_core::net::Family;

use crate::wire::attribute::{self, MpReachHead, PathAttributes, put_mp_unreach};
use crate::wire::header::{HEADER_LENGTH, MessageKind, begin, finish, put_u16};
use crate::wire::{AddressFamily, EncodeContext, Families, NextHop, Nlri, nlri};

/// Why a route cannot be sent. Re-encoding may well grow what was received, so none of this is anybody's mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The attributes leave no room for a prefix.
    #[error("the attributes do not fit in a message")]
    AttributesTooLong,
    /// An IPv6 prefix with an IPv4 next hop.
    #[error("an IPv6 prefix cannot have an IPv4 next hop")]
    NextHopFamily,
}

/// Octets of the longest prefix, path identifier included.
const LONGEST_PREFIX: usize = 21;
/// Octets of an MP_REACH_NLRI before the prefixes, with the longest next hop.
const LONGEST_REACH: usize = 41;
/// Octets of a body's two length fields.
const LENGTHS: usize = 4;

/// Appends announcements of all of `routes`. IPv4 prefixes with an IPv4 next hop go in the message body and all others in
/// MP_REACH_NLRI (so an IPv6 next hop for IPv4 prefixes is only for peers that have agreed to it, RFC 8950). After an error
/// nothing is appended.
pub fn encode_announcements(
    attributes: &PathAttributes,
    next_hop: NextHop,
    routes: &[Nlri],
    context: EncodeContext,
    into: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    for family in Families::BOTH.iter() {
        let mut routes = routes.iter().copied().filter(|route| route.prefix.family() == family).peekable();
        if routes.peek().is_none() {
            continue;
        }
        match (family, next_hop) {
            (Family::V4, NextHop::V4(next_hop)) => announce_in_body(attributes, next_hop, routes, context, into)?,
            (Family::V6, NextHop::V4(_)) => return Err(EncodeError::NextHopFamily),
            (_, NextHop::V6(_) | NextHop::V6LinkLocal { .. }) => {
                announce_in_attribute(attributes, family, next_hop, routes, context, into)?;
            }
        }
    }
    Ok(())
}

fn announce_in_body(
    attributes: &PathAttributes,
    next_hop: Ipv4Addr,
    routes: Peekable<impl Iterator<Item = Nlri>>,
    context: EncodeContext,
    into: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut list = Vec::with_capacity(128);
    attribute::encode(attributes, Some(next_hop), context, &mut list);
    let length = fitting(list.len(), 0, context)?;
    let add_path = context.add_path.contains(Family::V4);
    pack(routes, context, add_path, 0, into, |into, routes| {
        into.extend_from_slice(&[0; 2]);
        into.extend_from_slice(&length.to_be_bytes());
        into.extend_from_slice(&list);
        routes.fill(into);
    });
    Ok(())
}

fn announce_in_attribute(
    attributes: &PathAttributes,
    family: Family,
    next_hop: NextHop,
    routes: Peekable<impl Iterator<Item = Nlri>>,
    context: EncodeContext,
    into: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut list = Vec::with_capacity(128);
    attribute::encode(attributes, None, context, &mut list);
    fitting(list.len(), LONGEST_REACH, context)?;
    let add_path = context.add_path.contains(family);
    pack(routes, context, add_path, list.len(), into, |into, routes| {
        let length_at = begin_attributes(into);
        let reach = MpReachHead::put(AddressFamily::unicast(family), next_hop, into);
        routes.fill(into);
        reach.finish(into);
        into.extend_from_slice(&list);
        finish_attributes(length_at, into);
    });
    Ok(())
}

/// Appends withdrawals of all of `routes`: IPv4 in the message body, IPv6 in MP_UNREACH_NLRI.
pub fn encode_withdrawals(routes: &[Nlri], context: EncodeContext, into: &mut Vec<u8>) {
    for family in Families::BOTH.iter() {
        let routes = routes.iter().copied().filter(|route| route.prefix.family() == family).peekable();
        let add_path = context.add_path.contains(family);
        match family {
            // The length of the (absent) attributes follows.
            Family::V4 => pack(routes, context, add_path, 2, into, |into, routes| {
                let length_at = into.len();
                into.extend_from_slice(&[0; 2]);
                routes.fill(into);
                finish_attributes(length_at, into);
                into.extend_from_slice(&[0; 2]);
            }),
            Family::V6 => pack(routes, context, add_path, 0, into, |into, routes| {
                let length_at = begin_attributes(into);
                let finish_unreach = put_mp_unreach(AddressFamily::unicast(family), into);
                routes.fill(into);
                finish_unreach(into);
                finish_attributes(length_at, into);
            }),
        }
    }
}

/// Appends the end-of-RIB marker of a family (RFC 4724 section 2).
pub fn encode_end_of_rib(family: Family, into: &mut Vec<u8>) {
    let start = begin(MessageKind::Update, into);
    let length_at = begin_attributes(into);
    if family == Family::V6 {
        put_mp_unreach(AddressFamily::unicast(family), into)(into);
    }
    finish_attributes(length_at, into);
    finish(start, into);
}

/// The length of an attribute list beside which a prefix still fits.
fn fitting(list: usize, reach: usize, context: EncodeContext) -> Result<u16, EncodeError> {
    let least = [HEADER_LENGTH, LENGTHS, list, reach, LONGEST_PREFIX].into_iter().fold(0, usize::saturating_add);
    if least > context.max_message_length() {
        return Err(EncodeError::AttributesTooLong);
    }
    u16::try_from(list).map_err(|_| EncodeError::AttributesTooLong)
}

/// No withdrawn routes, and a length of attributes that [`finish_attributes`] fills in.
fn begin_attributes(into: &mut Vec<u8>) -> usize {
    into.extend_from_slice(&[0; LENGTHS]);
    into.len().saturating_sub(2)
}

fn finish_attributes(length_at: usize, into: &mut [u8]) {
    let length = into.len().saturating_sub(length_at).saturating_sub(2);
    put_u16(length_at, u16::try_from(length).unwrap_or(u16::MAX), into);
}

/// The routes that are left, and how far the present message may grow with them.
struct Rest<'a, I: Iterator<Item = Nlri>> {
    routes: &'a mut Peekable<I>,
    add_path: bool,
    end: usize,
}

impl<I: Iterator<Item = Nlri>> Rest<'_, I> {
    /// Appends as many as fit.
    fn fill(self, into: &mut Vec<u8>) {
        while let Some(route) = self.routes.peek() {
            let before = into.len();
            nlri::encode(*route, self.add_path, into);
            if into.len() > self.end {
                into.truncate(before);
                return;
            }
            self.routes.next();
        }
    }
}

/// Writes messages until no route is left. `body` writes one, with `tail` octets after the routes; callers have made sure that
/// each holds a route at least.
fn pack<I: Iterator<Item = Nlri>>(
    mut routes: Peekable<I>,
    context: EncodeContext,
    add_path: bool,
    tail: usize,
    into: &mut Vec<u8>,
    body: impl Fn(&mut Vec<u8>, Rest<'_, I>),
) {
    while routes.peek().is_some() {
        let start = begin(MessageKind::Update, into);
        let end = start.saturating_add(context.max_message_length()).saturating_sub(tail);
        body(into, Rest { routes: &mut routes, add_path, end });
        finish(start, into);
    }
}
