//! Pieces of UPDATE messages, byte by byte, and what is expected of them.

use calico_core::net::{Cidr, Family};

use crate::wire::update::{encode_announcements, encode_end_of_rib};
use crate::wire::{
    DecodeContext, EncodeContext, Families, Framer, NextHop, Nlri, Notification, PathAttributes, PathId, PeerType,
    Treatment, Update, WireError,
};

pub(super) const WELL_KNOWN: u8 = 0x40;
pub(super) const OPTIONAL: u8 = 0x80;
pub(super) const OPTIONAL_TRANSITIVE: u8 = 0xc0;

/// Sessions that have agreed on IPv4 unicast and four-octet AS numbers, no more.
pub(super) const INTERNAL: DecodeContext = DecodeContext::new(PeerType::Internal);
pub(super) const EXTERNAL: DecodeContext = DecodeContext::new(PeerType::External);
/// One with both families.
pub(super) const BOTH: DecodeContext = DecodeContext { families: Families::BOTH, ..INTERNAL };
/// One with an old speaker.
pub(super) const OLD: DecodeContext = DecodeContext { four_octet_as: false, ..INTERNAL };

/// 10.1.0.0/26.
pub(super) const NLRI: [u8; 5] = [26, 10, 1, 0, 0];

pub(super) fn attribute(flags: u8, code: u8, value: &[u8]) -> Vec<u8> {
    if value.len() > 255 {
        let length = u16::try_from(value.len()).unwrap().to_be_bytes();
        return [&[flags | 0x10, code][..], &length, value].concat();
    }
    [&[flags, code, u8::try_from(value.len()).unwrap()][..], value].concat()
}

/// ORIGIN, AS_PATH (of 64513) and NEXT_HOP.
pub(super) fn mandatory() -> Vec<u8> {
    [origin(), as_path(), next_hop()].concat()
}

pub(super) fn origin() -> Vec<u8> {
    attribute(WELL_KNOWN, 1, &[0])
}

pub(super) fn as_path() -> Vec<u8> {
    attribute(WELL_KNOWN, 2, &[2, 1, 0, 0, 0xfc, 1])
}

pub(super) fn next_hop() -> Vec<u8> {
    attribute(WELL_KNOWN, 3, &[10, 0, 0, 2])
}

pub(super) fn body(withdrawn: &[u8], attributes: &[u8], announced: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length(withdrawn)[..], withdrawn, &length(attributes), attributes, announced].concat()
}

pub(super) fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

pub(super) fn nlri(text: &str) -> Nlri {
    cidr(text).into()
}

pub(super) fn path(text: &str, path_id: u32) -> Nlri {
    Nlri { prefix: cidr(text), path_id: PathId::new(path_id) }
}

/// An announcement of [`NLRI`] with these attributes.
pub(super) fn decode_with(attributes: &[u8], context: DecodeContext) -> Result<Update, WireError> {
    Update::decode(&body(&[], attributes, &NLRI), context)
}

pub(super) fn decode(attributes: &[u8]) -> Result<Update, WireError> {
    decode_with(attributes, INTERNAL)
}

/// With these attributes beside the mandatory ones, the prefix is announced.
pub(super) fn accepted(extra: &[u8]) -> PathAttributes {
    let update = decode(&[&mandatory(), extra].concat()).unwrap();
    assert_eq!(update.reach.len(), 1, "{extra:?}: {update:?}");
    update.attributes
}

pub(super) fn assert_withdrawn(update: &Update, why: &str) {
    assert_eq!(update.withdrawn, [nlri("10.1.0.0/26")], "{why}: {update:?}");
    assert!(
        update.reach.is_empty() && update.faults.iter().any(|fault| fault.treatment == Treatment::Withdraw),
        "{why}: {update:?}"
    );
}

pub(super) fn refusal(result: Result<Update, WireError>) -> (u8, u8) {
    let Notification { code, subcode, .. } = result.unwrap_err().notification();
    (code, subcode)
}

/// Messages that announce, as they go out.
pub(super) fn announce(
    attributes: &PathAttributes,
    next_hop: impl Into<NextHop>,
    routes: &[Nlri],
    context: EncodeContext,
) -> Vec<u8> {
    let mut stream = Vec::new();
    encode_announcements(attributes, next_hop.into(), routes, context, &mut stream).unwrap();
    stream
}

pub(super) fn end_of_rib(family: Family) -> Vec<u8> {
    let mut stream = Vec::new();
    encode_end_of_rib(family, &mut stream);
    stream
}

/// The UPDATEs of a stream.
pub(super) fn updates(stream: &[u8], context: DecodeContext) -> Vec<Update> {
    let mut framer = Framer::default();
    framer.set_extended(context.extended_message);
    framer.push(stream);
    let mut updates = Vec::new();
    while let Some((_, body)) = framer.next_message().unwrap() {
        updates.push(Update::decode(body, context).unwrap());
    }
    assert_eq!(framer.pending(), 0);
    updates
}
