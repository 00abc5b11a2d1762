//! From an attribute list to [`PathAttributes`], with what was wrong on the way.

use core::net::Ipv4Addr;

use calico_core::net::AsNumber;

use super::as_path::As4Fault;
use super::code::{self, EXTENDED_LENGTH, OPTIONAL, PARTIAL, TRANSITIVE};
use super::mp_reach::{MpReach, MpUnreach};
use super::other::MAX_OTHERS;
use super::rule::{is_internal_only, rule};
use super::{
    Aggregator, Aigp, AsPath, AttributeFault, FaultReason, Origin, OtherAttribute, PathAttributes, Treatment, community,
};
use crate::wire::reader::Reader;
use crate::wire::{DecodeContext, PeerType, WireError};

/// Everything an attribute list says.
#[derive(Debug, Default)]
pub(in crate::wire) struct Decoded {
    pub(in crate::wire) attributes: PathAttributes,
    pub(in crate::wire) has_origin: bool,
    pub(in crate::wire) has_as_path: bool,
    pub(in crate::wire) next_hop: Option<Ipv4Addr>,
    pub(in crate::wire) reach: Option<MpReach>,
    pub(in crate::wire) unreach: Option<MpUnreach>,
    /// Number of attributes met, to recognise an end-of-RIB marker.
    pub(in crate::wire) count: usize,
    pub(in crate::wire) faults: Vec<AttributeFault>,
    as4_path: Option<AsPath>,
    as4_aggregator: Option<Aggregator>,
    /// Octets of attributes that are only passed on.
    others: usize,
}

/// One attribute as it stands in the list.
#[derive(Debug, Clone, Copy)]
struct Raw<'a> {
    flags: u8,
    code: u8,
    value: &'a [u8],
    whole: &'a [u8],
}

/// Reads an attribute list. Milder treatments are recorded as faults; errors end the session.
pub(in crate::wire) fn decode(bytes: &[u8], context: DecodeContext) -> Result<Decoded, WireError> {
    let mut decoded = Decoded::default();
    let mut seen = [false; 256];
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let Some(raw) = next(&mut reader) else {
            // The total length still says where the prefixes are (RFC 7606 section 4).
            decoded.fault(0, FaultReason::Truncated, Treatment::Withdraw);
            break;
        };
        decoded.count = decoded.count.saturating_add(1);
        let duplicate = seen.get_mut(usize::from(raw.code)).is_some_and(|seen| core::mem::replace(seen, true));
        if duplicate {
            if matches!(raw.code, code::MP_REACH_NLRI | code::MP_UNREACH_NLRI) {
                return Err(WireError::MalformedUpdate { what: "a multiprotocol attribute is there twice" });
            }
            decoded.fault(raw.code, FaultReason::Duplicate, Treatment::Discard);
            continue;
        }
        decoded.attribute(raw, context)?;
    }
    decoded.merge_as4();
    if !decoded.attributes.extra.others.is_empty() {
        decoded.attributes.extra.make_mut().others.sort_unstable();
    }
    Ok(decoded)
}

fn next<'a>(reader: &mut Reader<'a>) -> Option<Raw<'a>> {
    let start = reader.rest();
    let (flags, code) = (reader.u8()?, reader.u8()?);
    let length = if flags & EXTENDED_LENGTH == 0 { reader.u8().map(u16::from)? } else { reader.u16()? };
    let value = reader.take(usize::from(length))?;
    let whole = start.get(..start.len().saturating_sub(reader.len()))?;
    Some(Raw { flags, code, value, whole })
}

impl Decoded {
    fn fault(&mut self, code: u8, reason: FaultReason, treatment: Treatment) {
        self.faults.push(AttributeFault { code, reason, treatment });
    }

    /// Whether any fault asks for it.
    pub(in crate::wire) fn must_withdraw(&self) -> bool {
        self.faults.iter().any(|fault| fault.treatment == Treatment::Withdraw)
    }

    fn attribute(&mut self, raw: Raw<'_>, context: DecodeContext) -> Result<(), WireError> {
        let kind = raw.flags & (OPTIONAL | TRANSITIVE);
        let Some(rule) = rule(raw.code, context.peer) else {
            return self.unknown(raw, kind);
        };
        if is_meaningless(raw.code, context) {
            return Ok(());
        }
        if kind != rule.flags {
            self.fault(raw.code, FaultReason::Flags, rule.bad_flags);
            // The prefixes inside must still be found, to be withdrawn.
            if !matches!(raw.code, code::MP_REACH_NLRI | code::MP_UNREACH_NLRI) {
                return Ok(());
            }
        }
        match raw.code {
            code::MP_REACH_NLRI => self.reach = Some(MpReach::decode(raw.value, context)?),
            code::MP_UNREACH_NLRI => self.unreach = Some(MpUnreach::decode(raw.value, context)?),
            _ if context.peer == PeerType::External && is_internal_only(raw.code) => {
                self.fault(raw.code, FaultReason::NotAllowed, Treatment::Discard);
            }
            code::AS_PATH => self.as_path(raw.value, context),
            code::AS4_PATH => self.as4_path(raw.value),
            _ => match self.value(raw, context) {
                Some(()) if raw.flags & PARTIAL != 0 => self.attributes.partial.insert(raw.code),
                Some(()) => {}
                None => self.fault(raw.code, FaultReason::Value, rule.bad_value),
            },
        }
        Ok(())
    }

    fn as_path(&mut self, value: &[u8], context: DecodeContext) {
        match AsPath::decode(value, context.four_octet_as) {
            Ok(path) => {
                self.attributes.as_path = path;
                self.has_as_path = true;
            }
            Err(reason) => self.fault(code::AS_PATH, reason, Treatment::Withdraw),
        }
    }

    fn as4_path(&mut self, value: &[u8]) {
        match AsPath::decode_as4(value) {
            Ok(path) => self.as4_path = Some(path),
            Err(As4Fault::Malformed) => self.fault(code::AS4_PATH, FaultReason::Value, Treatment::Discard),
            Err(As4Fault::Set) => self.fault(code::AS4_PATH, FaultReason::Value, Treatment::Withdraw),
        }
    }

    /// Reads a known attribute's value; `None` when it is malformed.
    fn value(&mut self, raw: Raw<'_>, context: DecodeContext) -> Option<()> {
        let attributes = &mut self.attributes;
        match raw.code {
            code::ORIGIN => {
                attributes.origin = Origin::decode(raw.value)?;
                self.has_origin = true;
            }
            code::NEXT_HOP => self.next_hop = Some(Ipv4Addr::from(number(raw.value)?)),
            code::MULTI_EXIT_DISC => attributes.med = Some(number(raw.value)?),
            code::LOCAL_PREF => attributes.local_pref = Some(number(raw.value)?),
            code::ATOMIC_AGGREGATE => attributes.atomic_aggregate = raw.value.is_empty().then_some(true)?,
            code::COMMUNITIES => attributes.communities = community::decode_standard(raw.value)?,
            code::ORIGINATOR_ID => attributes.originator_id = Some(Ipv4Addr::from(number(raw.value)?)),
            code::CLUSTER_LIST => {
                let clusters = community::decode_pieces::<4>(raw.value)?;
                attributes.cluster_list = clusters.into_iter().map(Ipv4Addr::from).collect();
            }
            code::AS4_AGGREGATOR => self.as4_aggregator = Some(Aggregator::decode(raw.value, true)?),
            _ => return self.extra(raw, context),
        }
        Some(())
    }

    fn extra(&mut self, raw: Raw<'_>, context: DecodeContext) -> Option<()> {
        let extra = &mut self.attributes.extra;
        match raw.code {
            code::AGGREGATOR => {
                extra.make_mut().aggregator = Some(Aggregator::decode(raw.value, context.four_octet_as)?);
            }
            code::EXTENDED_COMMUNITIES => {
                extra.make_mut().extended_communities = community::decode_pieces(raw.value)?;
            }
            code::IPV6_EXTENDED_COMMUNITIES => {
                extra.make_mut().ipv6_extended_communities = community::decode_pieces(raw.value)?;
            }
            code::AIGP => extra.make_mut().aigp = Some(Aigp::decode(raw.value)?),
            code::LARGE_COMMUNITIES => extra.make_mut().large_communities = community::decode_large(raw.value)?,
            code::ONLY_TO_CUSTOMER => extra.make_mut().only_to_customer = Some(AsNumber::new(number(raw.value)?)),
            _ => {}
        }
        Some(())
    }

    fn unknown(&mut self, raw: Raw<'_>, kind: u8) -> Result<(), WireError> {
        if kind & OPTIONAL == 0 {
            return Err(WireError::UnrecognisedWellKnown { code: raw.code, attribute: raw.whole.to_vec() });
        }
        if kind & TRANSITIVE == 0 {
            return Ok(());
        }
        self.others = self.others.saturating_add(raw.value.len());
        if self.others > MAX_OTHERS {
            self.fault(raw.code, FaultReason::TooLarge, Treatment::Discard);
        } else {
            self.attributes.extra.make_mut().others.push(OtherAttribute::passed_on(raw.code, raw.value));
        }
        Ok(())
    }

    /// Puts together what an old speaker passed on in two halves (RFC 6793 section 4.2.3).
    fn merge_as4(&mut self) {
        if let (Some(old), Some(new)) = (self.attributes.extra.aggregator, self.as4_aggregator) {
            if !old.is_placeholder() {
                // Somebody aggregated who knew of neither.
                return;
            }
            self.attributes.extra.make_mut().aggregator = Some(new);
        }
        if let Some(as4_path) = &self.as4_path {
            self.attributes.as_path = core::mem::take(&mut self.attributes.as_path).merged(as4_path);
        }
    }
}

/// Attributes that say nothing on a session of this kind, right or wrong: those of RFC 6793 between two speakers that need none,
/// and a metric of somebody else's interior (RFC 7311 section 3.3).
const fn is_meaningless(code: u8, context: DecodeContext) -> bool {
    match code {
        code::AS4_PATH | code::AS4_AGGREGATOR => context.four_octet_as,
        code::AIGP => matches!(context.peer, PeerType::External),
        _ => false,
    }
}

/// A value that is one 32-bit number.
fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}
