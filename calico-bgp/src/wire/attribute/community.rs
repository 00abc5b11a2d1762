//! Communities: standard (RFC 1997), extended (RFC 4360, 5701) and large (RFC 8092).

use crate::wire::reader::pieces;

/// Drain traffic before maintenance (RFC 8326).
pub const GRACEFUL_SHUTDOWN: u32 = 0xffff_0000;
/// The route is kept beyond its announcer's restart time (RFC 9494).
pub const LLGR_STALE: u32 = 0xffff_0006;
/// The route is not to be kept so (RFC 9494).
pub const NO_LLGR: u32 = 0xffff_0007;
/// Discard traffic (RFC 7999).
pub const BLACKHOLE: u32 = 0xffff_029a;
/// Not to leave the system (or confederation).
pub const NO_EXPORT: u32 = 0xffff_ff01;
/// Not to be sent to any peer.
pub const NO_ADVERTISE: u32 = 0xffff_ff02;
/// Not to be sent to external peers, members of a confederation included.
pub const NO_EXPORT_SUBCONFED: u32 = 0xffff_ff03;

pub(super) fn decode_standard(value: &[u8]) -> Option<Vec<u32>> {
    let communities = decode_pieces::<4>(value)?;
    Some(communities.into_iter().map(u32::from_be_bytes).collect())
}

/// One or more pieces of `N` octets.
pub(super) fn decode_pieces<const N: usize>(value: &[u8]) -> Option<Vec<[u8; N]>> {
    pieces::<N>(value).filter(|all| !all.is_empty())
}

/// Duplicates are dropped silently (RFC 8092 section 3).
pub(super) fn decode_large(value: &[u8]) -> Option<Vec<[u8; 12]>> {
    let mut communities = decode_pieces(value)?;
    communities.sort_unstable();
    communities.dedup();
    Some(communities)
}
