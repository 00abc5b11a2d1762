//! CLUSTER_LIST (RFC 4456); ORIGINATOR_ID is a plain number.

use core::net::Ipv4Addr;

use crate::wire::reader::pieces;

pub(super) fn decode_cluster_list(value: &[u8]) -> Option<Vec<Ipv4Addr>> {
    let clusters = pieces::<4>(value).filter(|all| !all.is_empty())?;
    Some(clusters.into_iter().map(Ipv4Addr::from).collect())
}

pub(super) fn encode_cluster_list(clusters: &[Ipv4Addr]) -> Option<Vec<u8>> {
    (!clusters.is_empty()).then(|| clusters.iter().flat_map(Ipv4Addr::octets).collect())
}
