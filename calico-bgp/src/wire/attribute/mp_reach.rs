//! MP_REACH_NLRI and MP_UNREACH_NLRI (RFC 4760).
//!
//! Families that were not negotiated are recognised and ignored; IPv4 unicast is understood in this form, too. When the
//! prefixes cannot be found the session must end (RFC 7606 section 5.3).

use calico_core::net::Family;

use super::code;
use crate::wire::reader::Reader;
use crate::wire::{AddressFamily, DecodeContext, NextHop, Nlri, WireError, nlri};

/// Announced prefixes of a family.
#[derive(Debug)]
pub(in crate::wire) struct MpReach {
    /// None for families that are ignored.
    pub(in crate::wire) next_hop: Option<NextHop>,
    pub(in crate::wire) routes: Vec<Nlri>,
}

/// Withdrawn prefixes of a family.
#[derive(Debug)]
pub(in crate::wire) struct MpUnreach {
    pub(in crate::wire) family: AddressFamily,
    pub(in crate::wire) routes: Vec<Nlri>,
    /// Whether nothing follows the family: an end-of-RIB marker when no other attribute is there.
    pub(in crate::wire) is_empty: bool,
}

impl MpReach {
    pub(super) fn decode(value: &[u8], context: DecodeContext) -> Result<Self, WireError> {
        let bad = |what| WireError::BadOptionalAttribute { code: code::MP_REACH_NLRI, what };
        let mut reader = Reader::new(value);
        let family = decode_family(&mut reader).ok_or_else(|| bad("it is cut short"))?;
        let next_hop = reader.u8().and_then(|length| reader.take(usize::from(length)));
        let next_hop = next_hop.ok_or_else(|| bad("the next hop is cut short"))?;
        let _reserved = reader.u8().ok_or_else(|| bad("it is cut short"))?;
        let Some(family) = negotiated(family, context) else {
            return Ok(Self { next_hop: None, routes: Vec::new() });
        };
        let next_hop = NextHop::decode(next_hop).filter(|next_hop| match next_hop {
            NextHop::V4(_) => family == Family::V4,
            NextHop::V6(_) | NextHop::V6LinkLocal { .. } => {
                family == Family::V6 || context.extended_next_hop.contains(family)
            }
        });
        let next_hop = next_hop.ok_or_else(|| bad("the next hop's length does not fit the family"))?;
        let mut routes = Vec::new();
        nlri::decode(family, context.add_path.contains(family), reader.rest(), &mut routes)
            .ok_or_else(|| bad("a prefix is malformed"))?;
        Ok(Self { next_hop: Some(next_hop), routes })
    }
}

impl MpUnreach {
    pub(super) fn decode(value: &[u8], context: DecodeContext) -> Result<Self, WireError> {
        let bad = |what| WireError::BadOptionalAttribute { code: code::MP_UNREACH_NLRI, what };
        let mut reader = Reader::new(value);
        let family = decode_family(&mut reader).ok_or_else(|| bad("it is cut short"))?;
        let is_empty = reader.is_empty();
        let mut routes = Vec::new();
        if let Some(family) = negotiated(family, context) {
            nlri::decode(family, context.add_path.contains(family), reader.rest(), &mut routes)
                .ok_or_else(|| bad("a prefix is malformed"))?;
        }
        Ok(Self { family, routes, is_empty })
    }
}

fn decode_family(reader: &mut Reader<'_>) -> Option<AddressFamily> {
    Some(AddressFamily { afi: reader.u16()?, safi: reader.u8()? })
}

fn negotiated(family: AddressFamily, context: DecodeContext) -> Option<Family> {
    family.known().filter(|family| context.families.contains(*family))
}
