//! UPDATE (RFC 4271 section 4.3) with the error handling of RFC 7606.
//!
//! What comes out of [`Update::decode`] needs no further checks of form: prefixes that a malformed attribute would have
//! announced are already among the withdrawn ones.

mod encode;

pub use encode::{EncodeError, encode_announcements, encode_end_of_rib, encode_withdrawals};

use calico_core::net::Family;

use super::attribute::{self, AttributeFault, Decoded, FaultReason, PathAttributes, Treatment};
use super::reader::Reader;
use super::{DecodeContext, NextHop, Nlri, WireError, nlri};

/// Prefixes announced with one next hop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "prefixes and where they lead")]
pub struct Reach {
    /// Next hop.
    pub next_hop: NextHop,
    /// Prefixes, all of one family; not empty.
    pub routes: Vec<Nlri>,
}

/// A readable UPDATE. Withdrawals take effect first: a prefix in both lists is announced. Prefixes of families that were not
/// negotiated are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the decoder's result, matched whole by the session")]
pub struct Update {
    /// Prefixes of both families that are gone, or treated so.
    pub withdrawn: Vec<Nlri>,
    /// Prefixes that are announced: at most one entry for the message body and one for MP_REACH_NLRI.
    pub reach: Vec<Reach>,
    /// Attributes of everything in `reach`.
    pub attributes: PathAttributes,
    /// The family whose initial exchange is complete (RFC 4724 section 2).
    pub end_of_rib: Option<Family>,
    /// What was wrong with it.
    pub faults: Vec<AttributeFault>,
}

impl Update {
    /// Reads a body.
    pub fn decode(body: &[u8], context: DecodeContext) -> Result<Self, WireError> {
        let [withdrawn, attributes, announced] = sections(body)?;
        let mut update = Self { withdrawn: body_routes(withdrawn, context)?, ..Self::default() };
        let routes = body_routes(announced, context)?;
        let decoded = attribute::decode(attributes, context)?;
        if withdrawn.is_empty() && announced.is_empty() {
            update.end_of_rib = end_of_rib_of(&decoded, context);
        }
        update.assemble(routes, !announced.is_empty(), decoded)?;
        Ok(update)
    }

    fn assemble(&mut self, routes: Vec<Nlri>, has_body: bool, mut decoded: Decoded) -> Result<(), WireError> {
        if decoded.must_withdraw() && !has_body && decoded.reach.is_none() {
            // The prefixes meant may be hidden in what cannot be read (RFC 7606 section 5.2).
            return Err(WireError::MalformedUpdate { what: "an attribute is malformed and no prefix is announced" });
        }
        let reach = decoded.reach.take();
        note_missing(&mut decoded, !routes.is_empty(), reach.as_ref().is_some_and(|reach| !reach.routes.is_empty()));
        self.withdrawn.extend(decoded.unreach.take().into_iter().flat_map(|unreach| unreach.routes));
        let body = (decoded.next_hop.map(NextHop::V4), routes);
        let announced = core::iter::once(body).chain(reach.map(|reach| (reach.next_hop, reach.routes)));
        if decoded.must_withdraw() {
            self.withdrawn.extend(announced.flat_map(|(_, routes)| routes));
        } else {
            let used = announced.filter(|(_, routes)| !routes.is_empty());
            self.reach.extend(used.filter_map(|(next_hop, routes)| Some(Reach { next_hop: next_hop?, routes })));
            self.attributes = decoded.attributes;
        }
        self.faults = decoded.faults;
        Ok(())
    }
}

/// Whoever announces must say ORIGIN and AS_PATH, and NEXT_HOP for the message body (RFC 7606 section 3 d). LOCAL_PREF is
/// mandatory on internal sessions, too, but everybody assumes 100.
fn note_missing(decoded: &mut Decoded, in_body: bool, in_attribute: bool) {
    for (code, missing) in [
        (1, !decoded.has_origin && (in_body || in_attribute)),
        (2, !decoded.has_as_path && (in_body || in_attribute)),
        (3, decoded.next_hop.is_none() && in_body),
    ] {
        let known = |fault: &AttributeFault| fault.code == code && fault.treatment == Treatment::Withdraw;
        if missing && !decoded.faults.iter().any(known) {
            let (reason, treatment) = (FaultReason::Missing, Treatment::Withdraw);
            decoded.faults.push(AttributeFault { code, reason, treatment });
        }
    }
}

/// Cuts a body at its two length fields.
fn sections(body: &[u8]) -> Result<[&[u8]; 3], WireError> {
    let mut reader = Reader::new(body);
    let withdrawn = reader.u16().and_then(|length| reader.take(usize::from(length)));
    let withdrawn = withdrawn.ok_or(WireError::MalformedUpdate { what: "the withdrawn routes run over the end" })?;
    let attributes = reader.u16().and_then(|length| reader.take(usize::from(length)));
    let attributes = attributes.ok_or(WireError::MalformedUpdate { what: "the attributes run over the end" })?;
    Ok([withdrawn, attributes, reader.rest()])
}

/// The IPv4 prefixes of a part of the body; none where IPv4 was not negotiated.
fn body_routes(bytes: &[u8], context: DecodeContext) -> Result<Vec<Nlri>, WireError> {
    let mut routes = Vec::new();
    if context.families.contains(Family::V4) {
        nlri::decode(Family::V4, context.add_path.contains(Family::V4), bytes, &mut routes)
            .ok_or(WireError::InvalidNetworkField)?;
    }
    Ok(routes)
}

/// The marker is exact: nothing at all, or an empty MP_UNREACH_NLRI as the only attribute.
fn end_of_rib_of(decoded: &Decoded, context: DecodeContext) -> Option<Family> {
    if !decoded.faults.is_empty() {
        return None;
    }
    let family = match (&decoded.unreach, decoded.count) {
        (None, 0) => Family::V4,
        (Some(unreach), 1) if unreach.is_empty => unreach.family.known()?,
        _ => return None,
    };
    context.families.contains(family).then_some(family)
}
