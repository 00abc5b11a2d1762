//! UPDATE (RFC 4271 section 4.3) with the error handling of RFC 7606.
//!
//! What comes out of [`Update::decode`] needs no further checks of form: prefixes that a malformed attribute would have
//! announced are already among the withdrawn ones.

use core::net::{IpAddr, Ipv4Addr};

use calico_core::net::{Cidr, Family};

use super::attribute::{self, AttributeFault, Decoded, FaultReason, MpReach, PathAttributes, Treatment};
use super::header::{HEADER_LENGTH, MAX_MESSAGE_LENGTH, MessageKind, frame};
use super::peer::PeerType;
use super::reader::Reader;
use super::{AddressFamily, WireError, nlri};

/// Octets of a body that lists and prefixes share: header and the two length fields taken off.
const ROOM: usize = MAX_MESSAGE_LENGTH.saturating_sub(HEADER_LENGTH).saturating_sub(4);

/// Prefixes announced with one next hop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "prefixes and where they lead")]
pub struct Reach {
    /// Next hop.
    pub next_hop: IpAddr,
    /// Prefixes; not empty.
    pub prefixes: Vec<Cidr>,
}

/// A readable UPDATE. Withdrawals take effect first: a prefix in both lists is announced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the decoder's result, matched whole by the session")]
pub struct Update {
    /// Prefixes that are gone, or treated so.
    pub withdrawn: Vec<Cidr>,
    /// Prefixes that are announced.
    pub reach: Vec<Reach>,
    /// Attributes of everything in `reach`.
    pub attributes: PathAttributes,
    /// The family whose initial exchange is complete (RFC 4724 section 2).
    pub end_of_rib: Option<AddressFamily>,
    /// What was wrong with it.
    pub faults: Vec<AttributeFault>,
}

impl Update {
    /// Reads a body.
    pub fn decode(body: &[u8], peer: PeerType) -> Result<Self, WireError> {
        let [withdrawn, attributes, announced] = sections(body)?;
        let withdrawn = nlri::decode(Family::V4, withdrawn).ok_or(WireError::InvalidNetworkField)?;
        let announced = nlri::decode(Family::V4, announced).ok_or(WireError::InvalidNetworkField)?;
        let decoded = attribute::decode(attributes, peer)?;
        let mut update = Self { withdrawn, ..Self::default() };
        update.end_of_rib = end_of_rib_of(&update, &announced, &decoded);
        update.assemble(announced, decoded)?;
        Ok(update)
    }

    fn assemble(&mut self, announced: Vec<Cidr>, mut decoded: Decoded) -> Result<(), WireError> {
        let mut withdraw = decoded.must_withdraw();
        let has_reach = !announced.is_empty() || decoded.reach.is_some();
        if withdraw && !has_reach {
            // The prefixes meant may be hidden in what cannot be read (RFC 7606 section 5.2).
            return Err(WireError::MalformedUpdate { what: "an attribute is malformed and no prefix is announced" });
        }
        let (in_body, in_attribute) = (!announced.is_empty(), decoded.reach.as_ref().is_some_and(MpReach::is_used));
        for (code, missing) in [
            (1, !decoded.has_origin && (in_body || in_attribute)),
            (2, !decoded.has_as_path && (in_body || in_attribute)),
            (3, decoded.next_hop.is_none() && in_body),
        ] {
            if missing && !decoded.faults.iter().any(|fault| fault.code == code) {
                decoded.faults.push(AttributeFault {
                    code,
                    reason: FaultReason::Missing,
                    treatment: Treatment::Withdraw,
                });
            }
            withdraw |= missing;
        }
        self.withdrawn.extend(decoded.unreach.into_iter().flat_map(|unreach| unreach.prefixes));
        let next_hop = decoded.next_hop.map(IpAddr::V4);
        let body = next_hop.map(|next_hop| Reach { next_hop, prefixes: announced.clone() });
        let multiprotocol = decoded.reach.map(|reach| Reach { next_hop: reach.next_hop, prefixes: reach.prefixes });
        if withdraw {
            self.withdrawn.extend(announced);
            self.withdrawn.extend(multiprotocol.into_iter().flat_map(|reach| reach.prefixes));
        } else {
            self.reach.extend(body.into_iter().chain(multiprotocol).filter(|reach| !reach.prefixes.is_empty()));
            self.attributes = decoded.attributes;
        }
        self.faults = decoded.faults;
        Ok(())
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

/// The marker is exact: nothing at all, or an empty MP_UNREACH_NLRI as the only attribute.
fn end_of_rib_of(update: &Update, announced: &[Cidr], decoded: &Decoded) -> Option<AddressFamily> {
    if !update.withdrawn.is_empty() || !announced.is_empty() || !decoded.faults.is_empty() {
        return None;
    }
    match (&decoded.unreach, decoded.count) {
        (None, 0) => Some(AddressFamily::IPV4_UNICAST),
        (Some(unreach), 1) if unreach.is_empty => Some(unreach.family),
        _ => None,
    }
}

/// The IPv4 unicast end-of-RIB marker: the empty UPDATE.
pub fn encode_end_of_rib() -> Vec<u8> {
    frame(MessageKind::Update, &[0; 4])
}

/// As few messages as hold all withdrawals.
pub fn encode_withdrawals(prefixes: &[Cidr]) -> Vec<Vec<u8>> {
    pack(prefixes, ROOM, |packed| {
        let mut body = u16::try_from(packed.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
        body.extend_from_slice(packed);
        body.extend_from_slice(&[0; 2]);
        body
    })
}

/// As few messages as hold all announcements. Empty when the attributes leave no room for a prefix: such a route cannot be
/// sent, and re-encoding may well grow what was received.
pub fn encode_announcements(attributes: &PathAttributes, next_hop: Ipv4Addr, prefixes: &[Cidr]) -> Vec<Vec<u8>> {
    let attributes = attribute::encode(attributes, next_hop);
    /// Octets of the longest IPv4 prefix.
    const PREFIX: usize = 5;
    let (Some(room), Ok(length)) =
        (ROOM.checked_sub(attributes.len()).filter(|room| *room >= PREFIX), u16::try_from(attributes.len()))
    else {
        return Vec::new();
    };
    pack(prefixes, room, |packed| {
        let mut body = vec![0; 2];
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(&attributes);
        body.extend_from_slice(packed);
        body
    })
}

fn pack(prefixes: &[Cidr], room: usize, body: impl Fn(&[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut packed = Vec::new();
    for prefix in prefixes {
        let before = packed.len();
        nlri::encode(*prefix, &mut packed);
        if packed.len() > room {
            let over = packed.split_off(before);
            messages.push(frame(MessageKind::Update, &body(&packed)));
            packed = over;
        }
    }
    if !packed.is_empty() {
        messages.push(frame(MessageKind::Update, &body(&packed)));
    }
    messages
}
