//! MP_REACH_NLRI and MP_UNREACH_NLRI (RFC 4760).
//!
//! Families that were not negotiated are recognised and ignored; IPv4 unicast is understood in this form, too. When the
//! prefixes cannot be found the session must end (RFC 7606 section 5.3).

use core::net::{IpAddr, Ipv4Addr};

use calico_core::net::{Cidr, Family};

use super::code;
use crate::wire::reader::Reader;
use crate::wire::{AddressFamily, WireError, nlri};

/// Announced prefixes of a family; empty for families that this speaker does not know.
#[derive(Debug)]
pub(in crate::wire) struct MpReach {
    pub(in crate::wire) next_hop: IpAddr,
    pub(in crate::wire) prefixes: Vec<Cidr>,
}

/// Withdrawn prefixes of a family.
#[derive(Debug)]
pub(in crate::wire) struct MpUnreach {
    pub(in crate::wire) family: AddressFamily,
    pub(in crate::wire) prefixes: Vec<Cidr>,
    /// Whether nothing follows the family: an end-of-RIB marker when no other attribute is there.
    pub(in crate::wire) is_empty: bool,
}

impl MpReach {
    /// Whether anything in it is announced to us.
    pub(in crate::wire) const fn is_used(&self) -> bool {
        !self.prefixes.is_empty()
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self, WireError> {
        let bad = |what| WireError::BadOptionalAttribute { code: code::MP_REACH_NLRI, what };
        let mut reader = Reader::new(value);
        let family = decode_family(&mut reader).ok_or_else(|| bad("it is cut short"))?;
        let next_hop = reader.u8().and_then(|length| reader.take(usize::from(length)));
        let next_hop = next_hop.ok_or_else(|| bad("the next hop is cut short"))?;
        let _reserved = reader.u8().ok_or_else(|| bad("it is cut short"))?;
        if family != AddressFamily::IPV4_UNICAST {
            return Ok(Self { next_hop: Ipv4Addr::UNSPECIFIED.into(), prefixes: Vec::new() });
        }
        // IPv6 next hops for IPv4 prefixes (RFC 8950) are not offered.
        let octets: [u8; 4] = next_hop.try_into().map_err(|_| bad("the next hop's length is not 4"))?;
        let prefixes = nlri::decode(Family::V4, reader.rest()).ok_or_else(|| bad("a prefix is malformed"))?;
        Ok(Self { next_hop: Ipv4Addr::from(octets).into(), prefixes })
    }
}

impl MpUnreach {
    pub(super) fn decode(value: &[u8]) -> Result<Self, WireError> {
        let bad = |what| WireError::BadOptionalAttribute { code: code::MP_UNREACH_NLRI, what };
        let mut reader = Reader::new(value);
        let family = decode_family(&mut reader).ok_or_else(|| bad("it is cut short"))?;
        let is_empty = reader.is_empty();
        if family != AddressFamily::IPV4_UNICAST {
            return Ok(Self { family, prefixes: Vec::new(), is_empty });
        }
        let prefixes = nlri::decode(Family::V4, reader.rest()).ok_or_else(|| bad("a prefix is malformed"))?;
        Ok(Self { family, prefixes, is_empty })
    }
}

fn decode_family(reader: &mut Reader<'_>) -> Option<AddressFamily> {
    Some(AddressFamily { afi: reader.u16()?, safi: reader.u8()? })
}
