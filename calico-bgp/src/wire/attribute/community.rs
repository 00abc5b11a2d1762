//! Communities: standard (RFC 1997), extended (RFC 4360) and large (RFC 8092).

use crate::wire::reader::pieces;

/// Drain traffic before maintenance (RFC 8326).
pub const GRACEFUL_SHUTDOWN: u32 = 0xffff_0000;
/// Discard traffic (RFC 7999).
pub const BLACKHOLE: u32 = 0xffff_029a;
/// Not to leave the system (or confederation).
pub const NO_EXPORT: u32 = 0xffff_ff01;
/// Not to be sent to any peer.
pub const NO_ADVERTISE: u32 = 0xffff_ff02;
/// Not to be sent to external peers, members of a confederation included.
pub const NO_EXPORT_SUBCONFED: u32 = 0xffff_ff03;

pub(super) fn decode_standard(value: &[u8]) -> Option<Vec<u32>> {
    let communities = pieces::<4>(value).filter(|all| !all.is_empty())?;
    Some(communities.into_iter().map(u32::from_be_bytes).collect())
}

pub(super) fn encode_standard(communities: &[u32]) -> Option<Vec<u8>> {
    (!communities.is_empty()).then(|| communities.iter().flat_map(|community| community.to_be_bytes()).collect())
}

pub(super) fn decode_extended(value: &[u8]) -> Option<Vec<[u8; 8]>> {
    pieces::<8>(value).filter(|all| !all.is_empty())
}

/// Duplicates are dropped silently (RFC 8092 section 3).
pub(super) fn decode_large(value: &[u8]) -> Option<Vec<[u8; 12]>> {
    let mut communities = pieces::<12>(value).filter(|all| !all.is_empty())?;
    communities.sort_unstable();
    communities.dedup();
    Some(communities)
}

pub(super) fn encode_pieces<const N: usize>(communities: &[[u8; N]]) -> Option<Vec<u8>> {
    (!communities.is_empty()).then(|| communities.concat())
}
