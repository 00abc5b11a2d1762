//! Path attributes (RFC 4271 section 5) and what becomes of malformed ones (RFC 7606).
//!
//! `decode` walks the attribute list once. Every attribute has its expected flags and its treatment in `rule`; its value is
//! read by the file named after it. What is not understood but may be passed on (optional transitive) is kept byte for byte.

mod aggregator;
mod as_path;
mod community;
mod fault;
mod mp_reach;
mod origin;
mod other;
mod reflection;

pub use aggregator::Aggregator;
pub use as_path::AsPath;
pub use community::{BLACKHOLE, GRACEFUL_SHUTDOWN, NO_ADVERTISE, NO_EXPORT, NO_EXPORT_SUBCONFED};
pub use fault::{AttributeFault, FaultReason, Treatment};
pub use origin::Origin;
pub use other::OtherAttribute;

use core::net::Ipv4Addr;

use super::WireError;
use super::peer::PeerType;
use super::reader::Reader;
pub(super) use mp_reach::{MpReach, MpUnreach};

const OPTIONAL: u8 = 0x80;
const TRANSITIVE: u8 = 0x40;
const PARTIAL: u8 = 0x20;
const EXTENDED_LENGTH: u8 = 0x10;

/// Registered type codes.
mod code {
    pub(super) const ORIGIN: u8 = 1;
    pub(super) const AS_PATH: u8 = 2;
    pub(super) const NEXT_HOP: u8 = 3;
    pub(super) const MULTI_EXIT_DISC: u8 = 4;
    pub(super) const LOCAL_PREF: u8 = 5;
    pub(super) const ATOMIC_AGGREGATE: u8 = 6;
    pub(super) const AGGREGATOR: u8 = 7;
    pub(super) const COMMUNITIES: u8 = 8;
    pub(super) const ORIGINATOR_ID: u8 = 9;
    pub(super) const CLUSTER_LIST: u8 = 10;
    pub(super) const MP_REACH_NLRI: u8 = 14;
    pub(super) const MP_UNREACH_NLRI: u8 = 15;
    pub(super) const EXTENDED_COMMUNITIES: u8 = 16;
    pub(super) const AS4_PATH: u8 = 17;
    pub(super) const AS4_AGGREGATOR: u8 = 18;
    pub(super) const IPV6_EXTENDED_COMMUNITIES: u8 = 25;
    pub(super) const LARGE_COMMUNITIES: u8 = 32;
    pub(super) const ONLY_TO_CUSTOMER: u8 = 35;
}

/// The attributes of a path, next hop excepted: that belongs to the prefixes, because an UPDATE may carry two.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "originators build it with literals; a new attribute must break the encoder"
)]
pub struct PathAttributes {
    /// ORIGIN.
    pub origin: Origin,
    /// AS_PATH.
    pub as_path: AsPath,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// LOCAL_PREF.
    pub local_pref: Option<u32>,
    /// ATOMIC_AGGREGATE.
    pub atomic_aggregate: bool,
    /// AGGREGATOR.
    pub aggregator: Option<Aggregator>,
    /// COMMUNITIES (RFC 1997), in the order received.
    pub communities: Vec<u32>,
    /// ORIGINATOR_ID (RFC 4456).
    pub originator_id: Option<Ipv4Addr>,
    /// CLUSTER_LIST (RFC 4456).
    pub cluster_list: Vec<Ipv4Addr>,
    /// Extended communities (RFC 4360).
    pub extended_communities: Vec<[u8; 8]>,
    /// Large communities (RFC 8092), without duplicates.
    pub large_communities: Vec<[u8; 12]>,
    /// Optional transitive attributes that are only passed on, by type code.
    pub others: Vec<OtherAttribute>,
    /// Type codes of the attributes above that arrived with the Partial bit: it is never cleared again (RFC 4271 section 5).
    pub partial: Vec<u8>,
}

/// Everything an attribute list says.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) attributes: PathAttributes,
    pub(super) has_origin: bool,
    pub(super) has_as_path: bool,
    pub(super) next_hop: Option<Ipv4Addr>,
    pub(super) reach: Option<MpReach>,
    pub(super) unreach: Option<MpUnreach>,
    /// Number of attributes met, to recognise an end-of-RIB marker.
    pub(super) count: usize,
    pub(super) faults: Vec<AttributeFault>,
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
pub(super) fn decode(bytes: &[u8], peer: PeerType) -> Result<Decoded, WireError> {
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
        decoded.attribute(raw, peer)?;
    }
    decoded.attributes.others.sort_unstable();
    decoded.attributes.partial.sort_unstable();
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

/// Expected flags, and what a malformed value leads to. `None` for attributes without rules of their own.
const fn rule(code: u8, peer: PeerType) -> Option<(u8, Treatment)> {
    let only_internal = match peer {
        PeerType::Internal => Treatment::Withdraw,
        PeerType::External => Treatment::Discard,
    };
    Some(match code {
        code::ORIGIN | code::AS_PATH | code::NEXT_HOP => (TRANSITIVE, Treatment::Withdraw),
        code::LOCAL_PREF => (TRANSITIVE, only_internal),
        code::ATOMIC_AGGREGATE => (TRANSITIVE, Treatment::Discard),
        code::MULTI_EXIT_DISC | code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => (OPTIONAL, Treatment::Withdraw),
        code::ORIGINATOR_ID | code::CLUSTER_LIST => (OPTIONAL, only_internal),
        code::AGGREGATOR | code::AS4_PATH | code::AS4_AGGREGATOR => (OPTIONAL | TRANSITIVE, Treatment::Discard),
        code::COMMUNITIES
        | code::EXTENDED_COMMUNITIES
        | code::IPV6_EXTENDED_COMMUNITIES
        | code::LARGE_COMMUNITIES
        | code::ONLY_TO_CUSTOMER => (OPTIONAL | TRANSITIVE, Treatment::Withdraw),
        _ => return None,
    })
}

impl Decoded {
    fn fault(&mut self, code: u8, reason: FaultReason, treatment: Treatment) {
        self.faults.push(AttributeFault { code, reason, treatment });
    }

    /// The gravest treatment that any fault asks for.
    pub(super) fn must_withdraw(&self) -> bool {
        self.faults.iter().any(|fault| fault.treatment == Treatment::Withdraw)
    }

    fn attribute(&mut self, raw: Raw<'_>, peer: PeerType) -> Result<(), WireError> {
        let kind = raw.flags & (OPTIONAL | TRANSITIVE);
        let Some((expected, treatment)) = rule(raw.code, peer) else {
            return self.unknown(raw, kind);
        };
        if kind != expected {
            self.fault(raw.code, FaultReason::Flags, Treatment::Withdraw);
            // The prefixes inside must still be found, to be withdrawn.
            if !matches!(raw.code, code::MP_REACH_NLRI | code::MP_UNREACH_NLRI) {
                return Ok(());
            }
        }
        match raw.code {
            code::MP_REACH_NLRI => self.reach = Some(MpReach::decode(raw.value)?),
            code::MP_UNREACH_NLRI => self.unreach = Some(MpUnreach::decode(raw.value)?),
            _ if peer == PeerType::External && is_internal_only(raw.code) => {
                self.fault(raw.code, FaultReason::NotAllowed, Treatment::Discard);
            }
            _ => match self.value(raw) {
                Some(()) => self.note_partial(raw),
                None => self.fault(raw.code, FaultReason::Value, treatment),
            },
        }
        Ok(())
    }

    /// Reads a known attribute's value; `None` when it is malformed.
    fn value(&mut self, raw: Raw<'_>) -> Option<()> {
        let attributes = &mut self.attributes;
        match raw.code {
            code::ORIGIN => {
                attributes.origin = Origin::decode(raw.value)?;
                self.has_origin = true;
            }
            code::AS_PATH => {
                attributes.as_path = AsPath::decode(raw.value)?;
                self.has_as_path = true;
            }
            code::NEXT_HOP => self.next_hop = Some(Ipv4Addr::from(number(raw.value)?)),
            code::MULTI_EXIT_DISC => attributes.med = Some(number(raw.value)?),
            code::LOCAL_PREF => attributes.local_pref = Some(number(raw.value)?),
            code::ATOMIC_AGGREGATE => attributes.atomic_aggregate = raw.value.is_empty().then_some(true)?,
            code::AGGREGATOR => attributes.aggregator = Some(Aggregator::decode(raw.value)?),
            code::COMMUNITIES => attributes.communities = community::decode_standard(raw.value)?,
            code::EXTENDED_COMMUNITIES => attributes.extended_communities = community::decode_extended(raw.value)?,
            code::LARGE_COMMUNITIES => attributes.large_communities = community::decode_large(raw.value)?,
            code::ORIGINATOR_ID => attributes.originator_id = Some(Ipv4Addr::from(number(raw.value)?)),
            code::CLUSTER_LIST => attributes.cluster_list = reflection::decode_cluster_list(raw.value)?,
            // On a session with four-octet AS numbers these say nothing (RFC 6793 section 4.1).
            code::AS4_PATH | code::AS4_AGGREGATOR => {}
            code::ONLY_TO_CUSTOMER if raw.value.len() != 4 => return None,
            code::IPV6_EXTENDED_COMMUNITIES if raw.value.is_empty() || raw.value.len().checked_rem(20)? != 0 => {
                return None;
            }
            _ => attributes.others.push(OtherAttribute::received(raw.flags, raw.code, raw.value, false)),
        }
        Some(())
    }

    fn unknown(&mut self, raw: Raw<'_>, kind: u8) -> Result<(), WireError> {
        if kind & OPTIONAL == 0 {
            return Err(WireError::UnrecognisedWellKnown { code: raw.code, attribute: raw.whole.to_vec() });
        }
        if kind & TRANSITIVE != 0 {
            self.attributes.others.push(OtherAttribute::received(raw.flags, raw.code, raw.value, true));
        }
        Ok(())
    }

    fn note_partial(&mut self, raw: Raw<'_>) {
        let optional_transitive = raw.flags & (OPTIONAL | TRANSITIVE) == OPTIONAL | TRANSITIVE;
        let carried = !matches!(raw.code, code::AS4_PATH | code::AS4_AGGREGATOR)
            && !self.attributes.others.iter().any(|other| other.code == raw.code);
        if optional_transitive && carried && raw.flags & PARTIAL != 0 {
            self.attributes.partial.push(raw.code);
        }
    }
}

const fn is_internal_only(code: u8) -> bool {
    matches!(code, code::LOCAL_PREF | code::ORIGINATOR_ID | code::CLUSTER_LIST)
}

/// A value that is one 32-bit number.
fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

/// The attribute list of a path, in ascending order of type code as RFC 4271 appendix F.3 asks.
pub(super) fn encode(attributes: &PathAttributes, next_hop: Ipv4Addr) -> Vec<u8> {
    let mut list: Vec<(u8, u8, Vec<u8>)> = vec![
        (TRANSITIVE, code::ORIGIN, vec![attributes.origin.code()]),
        (TRANSITIVE, code::AS_PATH, attributes.as_path.encode()),
        (TRANSITIVE, code::NEXT_HOP, next_hop.octets().to_vec()),
    ];
    let mut optional = |flags: u8, code: u8, value: Option<Vec<u8>>| {
        if let Some(value) = value {
            let partial = if attributes.partial.contains(&code) { PARTIAL } else { 0 };
            list.push((flags | partial, code, value));
        }
    };
    let transitive = OPTIONAL | TRANSITIVE;
    optional(OPTIONAL, code::MULTI_EXIT_DISC, attributes.med.map(|med| med.to_be_bytes().to_vec()));
    optional(TRANSITIVE, code::LOCAL_PREF, attributes.local_pref.map(|pref| pref.to_be_bytes().to_vec()));
    optional(TRANSITIVE, code::ATOMIC_AGGREGATE, attributes.atomic_aggregate.then(Vec::new));
    optional(transitive, code::AGGREGATOR, attributes.aggregator.map(Aggregator::encode));
    optional(transitive, code::COMMUNITIES, community::encode_standard(&attributes.communities));
    optional(OPTIONAL, code::ORIGINATOR_ID, attributes.originator_id.map(|id| id.octets().to_vec()));
    optional(OPTIONAL, code::CLUSTER_LIST, reflection::encode_cluster_list(&attributes.cluster_list));
    optional(transitive, code::EXTENDED_COMMUNITIES, community::encode_pieces(&attributes.extended_communities));
    optional(transitive, code::LARGE_COMMUNITIES, community::encode_pieces(&attributes.large_communities));
    list.extend(attributes.others.iter().map(|other| (other.flags(), other.code, other.value.clone())));
    list.sort_by_key(|(_, code, _)| *code);
    let mut encoded = Vec::new();
    for (flags, code, value) in list {
        put(flags, code, &value, &mut encoded);
    }
    encoded
}

fn put(flags: u8, code: u8, value: &[u8], into: &mut Vec<u8>) {
    match u8::try_from(value.len()) {
        Ok(length) => into.extend_from_slice(&[flags, code, length]),
        Err(_) => {
            into.extend_from_slice(&[flags | EXTENDED_LENGTH, code]);
            into.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    into.extend_from_slice(value);
}
